"""What an agent said last through its hooks: one small JSON file a launch (`ID.GEN.said`). PURE."""

from __future__ import annotations

import json

from sesh.model.value_object import Value, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

BUSY, WAITING, IDLE = "busy", "waiting", "idle"
ACTIVITIES = (BUSY, WAITING, IDLE)
LIMIT = 1 << 16
_LONGEST = 200  # characters of what it waits for, or of a name
_LONGEST_ID = 100
_MOST_INPUT = 1 << 16  # bytes of what a tool is to be used with, as JSON
_LONGEST_PART = 1 << 12  # characters of each of its texts, where it is larger than that
REMINDER = "Notification"  # says again what another event has said


class HookEvent(Value):
    """Its last words. Times in seconds of the epoch."""

    at: float
    event: str
    activity: str | None = None
    what: str | None = None  # what it waits for
    lasting: bool = False  # a trouble: it waits, although it seems to be idle
    tool: str | None = None  # the last one that it was about to use
    conversation: str | None = None
    prompted: bool = False  # somebody has given it something to do
    input: dict[str, Any] | None = None  # what the tool is to be used with that it waits for
    taken: float = 0.0  # when it took its last prompt


def merged(old: HookEvent | None, new: HookEvent) -> HookEvent:
    """The new word, with what it leaves out of the old one."""
    if old is None or (new.conversation and old.conversation not in (None, new.conversation)):
        return new
    what = new.what
    if what == "permission" and old.activity == WAITING and old.what:
        what = old.what  # the late reminder does not know which tool
    same = old.activity == new.activity == WAITING and old.what == what
    reminded = same and new.event == REMINDER
    return replace(
        new,
        at=old.at if reminded else new.at,  # a reminder is no new wait, another question is
        what=what,
        input=old.input if reminded else new.input,
        taken=max(old.taken, new.taken),
        tool=new.tool or old.tool,
        conversation=new.conversation or old.conversation,
        prompted=new.prompted or old.prompted,
    )


def encode(said: HookEvent) -> bytes:
    return json.dumps({name: getattr(said, name) for name in said.fields}).encode() + b"\n"


def decode(raw: bytes) -> HookEvent | None:
    """None for what was not written by us."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.keys() - {*_LATER} != _KINDS.keys() - {*_LATER}:
        return None
    fits = all(isinstance(value, _KINDS[name]) for name, value in found.items())
    known = fits and found["activity"] in (None, *ACTIVITIES)
    return HookEvent(**found) if known else None


_TEXT = (str, type(None))
_KINDS: dict[str, tuple[type, ...]] = {
    "at": (int, float),
    "event": (str,),
    "activity": _TEXT,
    "what": _TEXT,
    "lasting": (bool,),
    "tool": _TEXT,
    "conversation": _TEXT,
    "prompted": (bool,),
    "input": (dict, type(None)),
    "taken": (int, float),
}
_LATER = ("input", "taken")  # an agent that was launched by an older version has said less


def text(value: object) -> str | None:
    """A stranger's text, if it is one, cut to what a line can show."""
    return value[:_LONGEST] if isinstance(value, str) and value else None


def tool_input(value: object) -> dict[str, Any] | None:
    """What a tool is to be used with. Of what is very large, every text is cut; what is large all
    the same is left out."""
    if not isinstance(value, dict):
        return None
    if len(json.dumps(value)) <= _MOST_INPUT:
        return value
    value = {key: _cut(part) for key, part in value.items()}
    return value if len(json.dumps(value)) <= _MOST_INPUT else None


def _cut(part: object) -> object:
    long = isinstance(part, str) and len(part) > _LONGEST_PART
    return f"{part[:_LONGEST_PART]}…" if isinstance(part, str) and long else part


def spoken(content: object) -> str:
    """The text of a message: a string, or parts with one each."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(part for part in texts if isinstance(part, str))


def identity(value: object) -> str | None:
    """A conversation's id, if it is one: it will stand on a command line and in a file's name."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or value[0] in "-_":
        return None
    plain = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    return value if plain else None
