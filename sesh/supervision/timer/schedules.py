"""How often gc runs, and the texts for a scheduler: unit files for systemd, a block for a crontab.

PURE: nothing is read, written or run here. Most of it is correct quoting.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from enum import StrEnum
from shlex import split

from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.text import units
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value

BEGIN, END = b"# sesh begin", b"# sesh end"  # older versions wrote no key after them
SHORTEST = 60  # seconds between two runs
_WRITTEN = "Written by `sesh timer install`; `sesh timer remove` removes it."


class Job(Value):
    """A command with absolute paths, and the variables that it needs."""

    argv: tuple[str, ...]
    env: Mapping[str, str]


class Scheduler(StrEnum):
    SYSTEMD = "systemd"
    CRON = "cron"


class Timer(Value):
    """The installed timer, and how it runs."""

    scheduler: Scheduler | None = None  # None: nothing is installed
    every: float | None = None  # seconds; None where `schedule` was edited by hand
    schedule: str | None = None  # in the scheduler's own words
    last_run: float | None = None
    next_run: float | None = None
    lingering: bool | None = None  # systemd only
    problem: str | None = None
    certain: bool = True  # False: something could not be asked
    watch: bool = False  # is a watch to be kept running?

    @property
    def installed(self) -> bool:
        """Is gc scheduled?"""
        return self.scheduler is not None

    @property
    def supervises(self) -> bool:
        """Are sessions supervised, by gc or by a watch?"""
        return self.installed or self.watch

    def late(self, now: float) -> bool:
        """Should it have run since its last run? Is cron there at all?"""
        return bool(self.every and self.last_run and now - self.last_run > 3 * self.every)


# --- how often -----------------------------------------------------------------------------------

_MINUTES = [m for m in range(1, 60) if 60 % m == 0]
_HOURS = [h for h in range(1, 25) if 24 % h == 0]
_CRON = {
    **{m * 60: f"*/{m} * * * *" for m in _MINUTES},
    **{h * 3600: f"0 */{h} * * *" for h in _HOURS},
    60: "* * * * *",
    3600: "0 * * * *",
    86400: "0 0 * * *",
}
_CALENDAR = {
    **{m * 60: f"*-*-* *:0/{m}:00" for m in _MINUTES},
    **{h * 3600: f"*-*-* 0/{h}:00:00" for h in _HOURS},
    86400: "*-*-* 00:00:00",
}


def cron_fields(every: float) -> str:
    """The five fields of a crontab that mean just this, or the error that names the nearest."""
    if every in _CRON:
        return _CRON[int(every)]
    below = max((one for one in _CRON if one < every), default=None)
    above = min((one for one in _CRON if one > every), default=None)
    near = " or ".join(units.time(one) for one in (below, above) if one is not None)
    raise UsageError(f"--every {units.time(every)}: cron can't do that; the nearest is {near}")


def timer_lines(every: float) -> list[str]:
    """Times of day if possible: only those are caught up on after the machine was off."""
    if every in _CALENDAR:
        return [f"OnCalendar={_CALENDAR[int(every)]}", "Persistent=true"]
    return ["OnStartupSec=1min", f"OnUnitActiveSec={every:.12g}s"]


def every_of(schedule: str) -> float | None:
    """The inverse of both; None if the text was edited by hand."""
    for table in (_CRON, _CALENDAR):
        for every, text in table.items():
            if text == schedule:
                return every
    found = re.fullmatch(r"(\d+(?:\.\d+)?)s", schedule)
    return float(found[1]) if found else None


# --- texts for systemd ---------------------------------------------------------------------------


def service_text(job: Job) -> str:
    return _service("Clean up after terminal sessions (sesh gc)", "oneshot", job)


def watch_text(job: Job) -> str:
    """A service that runs all the time."""
    again = ("Restart=on-failure", "", "[Install]", "WantedBy=default.target")
    return _service("Supervise terminal sessions (sesh watch)", "exec", job, *again)


def _service(description: str, kind: str, job: Job, *more: str) -> str:
    """KillMode: what gc has started (a tmux server) and what a watch has retried must not be killed
    when it ends."""
    head = (f"# {_WRITTEN}", "[Unit]", f"Description={description}", "", "[Service]")
    return _lines(*head, f"Type={kind}", *_how(job), "KillMode=process", *more)


def _how(job: Job) -> list[str]:
    """The command of a service, and its variables."""
    program, *arguments = job.argv
    if re.search(r"[\"'\\]", program):
        raise SeshError(f"systemd can't run {program}: quotes in its path; try --scheduler cron")
    words = [unit_word(program), *(unit_word(word.replace("$", "$$")) for word in arguments)]
    variables = [f"Environment={unit_word(f'{k}={v}')}" for k, v in job.env.items()]
    return [f"ExecStart={' '.join(words)}", *variables]


def timer_text(every: float) -> str:
    return _lines(
        f"# {_WRITTEN}",
        "[Unit]",
        f"Description=Run sesh gc every {units.time(every)}",
        "",
        "[Timer]",
        *timer_lines(every),
        "",
        "[Install]",
        "WantedBy=timers.target",
    )


def unit_word(text: str) -> str:
    """One word of a unit file; in quotes where it needs them."""
    _check_line(text)
    try:
        os.fsencode(text).decode()
    except UnicodeDecodeError:
        raise SeshError(f"systemd takes only UTF-8, not {text!r}; try --scheduler cron") from None
    plain = text.replace("%", "%%")
    if re.fullmatch(r"[\w@%+=:,./$-]+", plain, re.ASCII):
        return plain
    return '"' + plain.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _lines(*lines: str) -> str:
    return "".join(f"{line}\n" for line in lines)


def _check_line(text: str) -> None:
    if not text or re.search(r"[\x00-\x1f\x7f]", text):
        raise SeshError(f"{text!r} can't be part of a timer: it is empty or has control characters")


# --- texts for cron ------------------------------------------------------------------------------


def marks(key: str) -> tuple[bytes, bytes]:
    """The first and the last line of the block of one state directory."""
    return BEGIN + b" " + key.encode(), END + b" " + key.encode()


def cron_block(job: Job, every: float, key: str) -> bytes:
    """Variables go through env(1): an assignment in a crontab would hold for the lines below, too,
    and its SHELL may be one that has other words for it."""
    variables = [f"{name}={value}" for name, value in job.env.items()]
    words = ["/usr/bin/env", *variables, *job.argv]
    line = f"{cron_fields(every)} {' '.join(cron_word(word) for word in words)}"
    begin, end = (mark.decode() for mark in marks(key))
    return os.fsencode(_lines(begin, f"# {_WRITTEN}", line, end))


def cron_word(text: str) -> str:
    r"""One word for the shell that cron calls. Outside of quotes \% is % to a cron that ends the
    command at % and to one that doesn't; a backslash is never followed by % or another one, which
    some crons would take for one character."""
    _check_line(text)
    pieces = filter(None, re.split(r"([%\\])", text))
    return "".join({"%": r"\%", "\\": r"'\'"}.get(piece) or quote(piece) for piece in pieces)


class Crontab(Value):
    """A crontab in three parts: before our block, the block, after it."""

    before: bytes
    block: bytes | None
    after: bytes

    @property
    def others(self) -> bytes:
        return self.before + self.after

    def with_block(self, block: bytes) -> bytes:
        """The crontab with the block where it was, or at the end."""
        before = self.before
        if before and not before.endswith(b"\n"):
            before += b"\n"
        return before + block + self.after


def parse(crontab: bytes, begin: bytes = BEGIN, end: bytes = END) -> Crontab:
    """Find a block by its marks; several count as one."""
    outside, block, found, inside = [b"", b""], b"", False, False
    for line in re.findall(rb"[^\n]*\n|[^\n]+", crontab):
        mark = line.strip()
        if mark in (begin, end):
            if inside == (mark == begin):
                raise _unmatched(mark)
            inside, found = not inside, True
        elif inside:
            block += line
        else:
            outside[found] += line
    if inside:
        raise _unmatched(begin)
    return Crontab(outside[0], block if found else None, outside[1])


def _unmatched(mark: bytes) -> StateError:
    return StateError(
        f"the crontab has “{mark.decode()}” without its other half; nothing was changed, "
        "fix it with: crontab -e"
    )


def with_key(crontab: bytes, key: str) -> bytes:
    """The crontab with the marks of an older version replaced by those with the key."""
    names = dict(zip((BEGIN, END), marks(key), strict=True))
    lines = re.findall(rb"[^\n]*\n|[^\n]+", crontab)
    return b"".join(
        line.replace(mark, names[mark]) if (mark := line.strip()) in names else line
        for line in lines
    )


def block_state(block: bytes, home: str) -> str:
    """The state directory of a block that has no key: its line names it, unless it is usual."""
    lines = [line for line in os.fsdecode(block).splitlines() if line.lstrip()[:1] != "#"]
    return _state_of([word for line in lines for word in _words(line)], home)


def unit_state(text: str, home: str) -> str:
    """The same, of a service."""
    lines = re.findall(r"^Environment=(.*)$", text, re.M)
    return _state_of([word.replace("%%", "%") for line in lines for word in _words(line)], home)


def _words(line: str) -> list[str]:
    try:
        return split(line)
    except ValueError:  # edited by hand: quotes that do not match
        return []


def _state_of(words: list[str], home: str) -> str:
    env = dict(word.split("=", 1) for word in words if re.match(r"[A-Z_]+=", word))
    home = env.get("HOME") or home
    return f"{env.get('XDG_STATE_HOME') or f'{home}/.local/state'}/sesh"


def block_schedule(block: bytes) -> str | None:
    """When its first line that is neither comment nor variable runs: five fields, or @daily."""
    for line in block.decode(errors="replace").splitlines():
        words = line.split()
        if words and not re.match(r"\s*(#|\w+\s*=)", line):
            return " ".join(words[: 1 if words[0].startswith("@") else 5])
    return None
