"""The last event that an agent's hooks reported: a JSON file per launch (`ID.GEN.said`). PURE."""

from __future__ import annotations

from sesh.model.text import quick_json
from sesh.model.value_object import Value, replace

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator
    from typing import Any

BUSY, WAITING, IDLE = "busy", "waiting", "idle"
ACTIVITIES = (BUSY, WAITING, IDLE)
LIMIT = 1 << 16
_LONGEST = 200  # characters of a name, or of what it waits for
_LONGEST_ID = 100
_MOST_INPUT = 1 << 16  # bytes of a tool's input as JSON
_LONGEST_PART = 1 << 12  # characters of each text in a larger input
REMINDER = "Notification"  # repeats an earlier event


class HookEvent(Value):
    """What a hook reported. Times are seconds since the epoch."""

    at: float
    event: str
    activity: str | None = None
    what: str | None = None  # what it waits for
    lasting: bool = False  # an error: it waits although it looks idle
    tool: str | None = None  # the last tool that it wanted to use
    conversation: str | None = None
    prompted: bool = False  # it has got a prompt
    input: dict[str, Any] | None = None  # the input of the tool that it asks permission for
    taken: float = 0.0  # when it took its last prompt


def merge(old: HookEvent | None, new: HookEvent) -> HookEvent:
    """The new event, completed from the old one."""
    if old is None or (new.conversation and old.conversation not in (None, new.conversation)):
        return new
    what = new.what
    if what == "permission" and old.activity == WAITING and old.what:
        what = old.what  # a late reminder does not name the tool
    same = old.activity == new.activity == WAITING and old.what == what
    reminded = same and new.event == REMINDER
    return replace(
        new,
        at=old.at if reminded else new.at,  # a reminder starts no new wait; another question does
        what=what,
        input=old.input if reminded else new.input,
        taken=max(old.taken, new.taken),
        tool=new.tool or old.tool,
        conversation=new.conversation or old.conversation,
        prompted=new.prompted or old.prompted,
    )


def encode(event: HookEvent) -> bytes:
    return quick_json.dumps({name: getattr(event, name) for name in event.fields}).encode() + b"\n"


def decode(raw: bytes) -> HookEvent | None:
    """None for bytes that sesh did not write."""
    try:
        found = quick_json.loads(raw)
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
_LATER = ("input", "taken")  # missing in files of an older version


def text(value: object) -> str | None:
    """Untrusted text, cut to what fits into a line; None when it is not text."""
    return value[:_LONGEST] if isinstance(value, str) and value else None


def tool_input(value: object) -> dict[str, Any] | None:
    """The input of a tool. The texts in a very large input are cut; an input that is still too
    large is left out."""
    if not isinstance(value, dict):
        return None
    if len(quick_json.dumps(value)) <= _MOST_INPUT:
        return value
    value = {key: _cut(part) for key, part in value.items()}
    return value if len(quick_json.dumps(value)) <= _MOST_INPUT else None


def _cut(part: object) -> object:
    long = isinstance(part, str) and len(part) > _LONGEST_PART
    return f"{part[:_LONGEST_PART]}…" if isinstance(part, str) and long else part


def entries(lines: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The JSON objects in lines of an agent's transcript. Other lines (a line that was cut, say)
    are left out."""
    for line in lines:
        try:
            entry = quick_json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            yield entry


def message_text(content: object) -> str:
    """The text of a message: a string, or a list of parts with a text each."""
    parts = content if isinstance(content, list) else [content]
    texts = [part.get("text") if isinstance(part, dict) else part for part in parts]
    return "\n".join(part for part in texts if isinstance(part, str))


def conversation_id(value: object) -> str | None:
    """A valid conversation id, which is safe on a command line and in a file name; else None."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or value[0] in "-_":
        return None
    plain = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    return value if plain else None
