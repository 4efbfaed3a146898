"""What an agent said last through its hooks: one small JSON file a launch (`ID.GEN.said`). PURE."""

from __future__ import annotations

import json

from sesh.values import Value, replace

BUSY, WAITING, IDLE = "busy", "waiting", "idle"
ACTIVITIES = (BUSY, WAITING, IDLE)
LIMIT = 1 << 16
_LONGEST = 200  # characters of what it waits for, or of a name
_LONGEST_ID = 100


class Said(Value):
    """Its last words. Times in seconds of the epoch."""

    at: float
    event: str
    activity: str | None = None
    what: str | None = None  # what it waits for
    lasting: bool = False  # a trouble: it waits, although it seems to be idle
    tool: str | None = None  # the last one that it was about to use
    conversation: str | None = None
    prompted: bool = False  # somebody has given it something to do


def merged(old: Said | None, new: Said) -> Said:
    """The new word, with what it leaves out of the old one."""
    if old is None or (new.conversation and old.conversation not in (None, new.conversation)):
        return new
    what = new.what
    if what == "permission" and old.activity == WAITING and old.what:
        what = old.what  # the late reminder does not know which tool
    same = old.activity == new.activity == WAITING and old.what == what
    return replace(
        new,
        at=old.at if same else new.at,  # a reminder is no new wait
        what=what,
        tool=new.tool or old.tool,
        conversation=new.conversation or old.conversation,
        prompted=new.prompted or old.prompted,
    )


def encode(said: Said) -> bytes:
    return json.dumps({name: getattr(said, name) for name in said.fields}).encode() + b"\n"


def decode(raw: bytes) -> Said | None:
    """None for what was not written by us."""
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return None
    if not isinstance(found, dict) or found.keys() != _KINDS.keys():
        return None
    fits = all(isinstance(found[name], kind) for name, kind in _KINDS.items())
    known = fits and found["activity"] in (None, *ACTIVITIES)
    return Said(**found) if known else None


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
}


def text(value: object) -> str | None:
    """A stranger's text, if it is one, cut to what a line can show."""
    return value[:_LONGEST] if isinstance(value, str) and value else None


def identity(value: object) -> str | None:
    """A conversation's id, if it is one: it will stand on a command line and in a file's name."""
    if not isinstance(value, str) or not 0 < len(value) <= _LONGEST_ID or value[0] in "-_":
        return None
    plain = value.isascii() and value.replace("-", "").replace("_", "").isalnum()
    return value if plain else None
