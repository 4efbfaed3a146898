"""The digest line: a record's first line, a comment with what the fast lanes need.

    #{"crc":N,"guard":"1 ID GEN MACHINE MODE PID START TTY HIDE","view":{…}}

`crc` is over everything behind its comma, the TOML body included, so that any edit by hand shows.
`guard` says under which conditions `view` is still the truth:
  MODE `pid`    while process PID with start ticks START lives, is neither zombie nor stopped, has
                terminal TTY, and no exit file of ID.GEN exists, on MACHINE (id/boot/pid namespace);
  MODE `box`    the same, its exit file being in the session's box; behind a colon may stand the
                file of a control group that must not say that it is paused;
  MODE `up`     while process PID with START lives: it has ended, and its container stands;
  MODE `ended`  for ever: the end is proven and nothing is left up;
  MODE `word`   until somebody says otherwise: no process of sesh's runs it, only its record tells;
  MODE `look`   never: somebody has to look.
HIDE is the time (epoch seconds) from which `ls` leaves it out without --all, or `-`.

Read by fast lanes, so it imports nothing but a checksum.
"""

from __future__ import annotations

from binascii import crc32

_START = b'#{"crc":'
_GUARD, _VIEW = b'"guard":"', b'","view":'
_ATTENTION, _CARE, _AGENT = b'"attention":', b'"care":', b'"agent":'
_GUARD_FIELDS = 9
_VERSION = "1"


class Digest:
    """The parsed line; fields stay text, for a fast lane that compares and prints text."""

    __slots__ = ("generation", "hide", "id", "machine", "mode", "pid", "start", "tty", "view")

    def __init__(self, guard: list[str], view: bytes) -> None:
        _, self.id, self.generation, self.machine, self.mode, *rest = guard
        self.pid, self.start, self.tty, self.hide = rest
        self.view = view


def encode(guard: tuple[str, ...], view: str, body: bytes) -> bytes:
    """A whole record file: digest line and TOML body."""
    rest = _line(guard, view) + body
    return b"%s%d,%s" % (_START, crc32(rest), rest)


def says(raw: bytes, guard: tuple[str, ...], view: str) -> bool:
    """Is the file intact, and does its digest line say just this?"""
    comma = raw.find(b",") + 1
    return intact(raw) and raw.startswith(_line(guard, view), comma)


def _line(guard: tuple[str, ...], view: str) -> bytes:
    return f'"guard":"{" ".join((_VERSION, *guard))}","view":{view}}}\n'.encode()


def intact(raw: bytes) -> bool:
    """Is the file as sesh wrote it?"""
    head, _, rest = raw.partition(b",")
    return head == b"%s%d" % (_START, crc32(rest))


def parse(raw: bytes) -> Digest | None:
    """The digest of an intact file of this version, else None: then the full path must look."""
    head, _, rest = raw.partition(b",")
    if head != b"%s%d" % (_START, crc32(rest)):
        return None
    line = rest[len(_GUARD) : rest.find(b"\n") - 1]
    guard, _, view = line.partition(_VIEW)
    fields = guard.decode("ascii", "replace").split(" ")
    if fields[0] != _VERSION or len(fields) != _GUARD_FIELDS or not view:
        return None
    return Digest(fields, view)


def state(view: bytes) -> str:
    """The state in a view; only name and id, which hold no quotes, stand before it."""
    return view.partition(b'"state":"')[2].partition(b'"')[0].decode("ascii")


def needs_attention(view: bytes) -> bool:
    """Is `attention` set in a view? Its bytes tell: inside a string every quote has a backslash, so
    this can only be a key, and no object with keys of others stands before it."""
    return not view.startswith(b"null,", view.find(_ATTENTION) + len(_ATTENTION))


def agent(view: bytes) -> bytes | None:
    """The kind of agent in a view, if it is one that sesh knows. (Told like `attention`; tags stand
    before it, but they are texts.)"""
    at = view.find(_AGENT) + len(_AGENT)
    return None if view.startswith(b"null,", at) else view[at : view.find(b",", at)]


def cared_for(view: bytes) -> bool:
    """Is `care` set in a view? Told from its bytes like `attention`."""
    return not view.startswith(b"null,", view.find(_CARE) + len(_CARE))
