"""The digest line: a record's first line, a comment with the data for the fast lanes.

    #{"crc":N,"guard":"1 ID GEN MACHINE MODE PID START TTY HIDE","view":{…}}

`crc` covers everything after its comma, also the TOML body, so that any edit by hand shows. `guard`
states under which conditions `view` is still true:
  MODE `pid`    while process PID with start ticks START lives, is neither zombie nor stopped, has
                terminal TTY, and no exit file of ID.GEN exists, on MACHINE (id/boot/pid namespace);
  MODE `box`    the same, with the exit file in the session's private mount; after a colon the file
                of a control group that must not be frozen;
  MODE `up`     while process PID with START lives: the session has ended, its container is up;
  MODE `ended`  for ever: the end is proven and nothing is left running;
  MODE `word`   until the next report: sesh runs no process for it;
  MODE `look`   never: the session must be judged.
HIDE is the time (epoch seconds) from which `ls` shows it only with --all, or `-`.

Used by fast lanes, so it imports nothing but a checksum.
"""

from __future__ import annotations

from binascii import crc32

_START = b'#{"crc":'
_GUARD, _VIEW = b'"guard":"', b'","view":'
_GUARD_FIELDS = 9
_VERSION = "1"


class Digest:
    """The parsed line. Its fields are text: a fast lane compares and prints text."""

    __slots__ = ("generation", "hide", "id", "machine", "mode", "pid", "start", "tty", "view")

    def __init__(self, guard: list[str], view: bytes) -> None:
        _, self.id, self.generation, self.machine, self.mode, *rest = guard
        self.pid, self.start, self.tty, self.hide = rest
        self.view = view

    @property
    def name(self) -> str:
        return text(self.view, "name") or ""


def encode(guard: tuple[str, ...], view: str, body: bytes) -> bytes:
    """A whole record file: digest line and TOML body."""
    rest = _line(guard, view) + body
    return b"%s%d,%s" % (_START, crc32(rest), rest)


def says(raw: bytes, guard: tuple[str, ...], view: str) -> bool:
    """Is the file intact, with exactly this digest line?"""
    comma = raw.find(b",") + 1
    return intact(raw) and raw.startswith(_line(guard, view), comma)


def _line(guard: tuple[str, ...], view: str) -> bytes:
    return f'"guard":"{" ".join((_VERSION, *guard))}","view":{view}}}\n'.encode()


def intact(raw: bytes) -> bool:
    """Is the file as sesh wrote it?"""
    head, _, rest = raw.partition(b",")
    return head == b"%s%d" % (_START, crc32(rest))


def parse(raw: bytes) -> Digest | None:
    """The digest of an intact file of this version, else None: then the session must be judged."""
    head, _, rest = raw.partition(b",")
    if head != b"%s%d" % (_START, crc32(rest)):
        return None
    line = rest[len(_GUARD) : rest.find(b"\n") - 1]
    guard, _, view = line.partition(_VIEW)
    fields = guard.decode("ascii", "replace").split(" ")
    if fields[0] != _VERSION or len(fields) != _GUARD_FIELDS or not view:
        return None
    return Digest(fields, view)


# --- the view, without parsing it ----------------------------------------------------------------
#
# To parse every view takes longer than everything else in a fast lane. In a JSON string every quote
# has a backslash, so a name in quotes with a colon after it can only be a key; and no object with
# the same keys comes before the fields that are asked for here.

_ATTENTION, _SUPERVISION, _AGENT = b'"attention":', b'"care":', b'"agent":'


def field(view: bytes, name: str) -> bytes:
    """The JSON of one field; empty when it is missing. Only the beginning of an object."""
    return _value(view, b'"%b":' % name.encode())


def _value(view: bytes, key: bytes) -> bytes:
    at = view.find(key) + len(key)
    if at < len(key):
        return b""
    if not view.startswith(b'"', at):
        return view[at : view.find(b",", at)]
    end = view.find(b'"', at + 1)
    while view[at:end].endswith(b"\\") and _escapes(view[at:end]):
        end = view.find(b'"', end + 1)
    return view[at : end + 1]


def _escapes(text: bytes) -> bool:
    """Does a text end with a backslash that escapes the next character?"""
    return (len(text) - len(text.rstrip(b"\\"))) % 2 == 1


def text(view: bytes, name: str) -> str | None:
    """The text of one field; None when it is null or missing."""
    found = field(view, name)
    if not found.startswith(b'"'):
        return None
    if b"\\" in found:
        from sesh.model.text import quick_json

        decoded: str = quick_json.loads(found.decode())
        return decoded
    return found[1:-1].decode()


def is_of(view: bytes, name: str) -> bool:
    """Is it the view of the session of that name? The name is the first field."""
    return view.startswith(b'{"name":"%b",' % name.encode())


def state(view: bytes) -> str:
    return text(view, "state") or ""


def needs_attention(view: bytes) -> bool:
    return _value(view, _ATTENTION) != b"null"


def with_attention(view: bytes, why: str) -> bytes:
    """The view with a reason for attention where it has none."""
    from sesh.model.text import quick_json

    return view.replace(
        _ATTENTION + b"null,", b"%b%b," % (_ATTENTION, quick_json.dumps(why).encode()), 1
    )


def agent(view: bytes) -> bytes | None:
    """The kind of the agent as JSON; None if it is not an agent that sesh knows."""
    found = _value(view, _AGENT)
    return None if found == b"null" else found


def supervised(view: bytes) -> bool:
    return _value(view, _SUPERVISION) != b"null"


def has_own_notifications(view: bytes) -> bool:
    """Can it have chosen its own notifications? (The same text may stand elsewhere in the view.)"""
    return b'"notify":[' in view


def has_breaker(view: bytes) -> bool:
    """Does the session have limits of its own for a breaker?"""
    return field(view, "breaker").startswith(b"{")


def has_usage(view: bytes) -> bool:
    """Does the record hold what its agent has used? (Also if it holds that this is unknown.)"""
    return field(view, "usage").startswith(b"{")


def is_limited(view: bytes) -> bool:
    """Does the session have a limit of its own on its age or silence?"""
    return any(field(view, name) not in (b"null", b"") for name in ("max_age", "max_idle"))
