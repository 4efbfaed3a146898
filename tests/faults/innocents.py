"""Processes that are none of sesh's business, though they look like it: same user, same commands,
variables like ours, sessions of another state directory. Each notes every signal that it hears."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import cycle, islice
from pathlib import Path

from tests.faults.living import Known, look
from tests.faults.zoo import SLEEP
from tests.world import World, eventually

LAST_PID = Path("/proc/sys/kernel/ns_last_pid")

# Its child is a process like those of the zoo. `dead` is written when that one ends.
_LISTENER = f"""\
for name in HUP INT QUIT USR1 USR2 TERM CONT ALRM PIPE; do
    trap "echo $name >>'$1'" $name
done
{SLEEP} &
echo $$ $! >"$1.new" && mv "$1.new" "$1.pid"
while kill -0 $! 2>/dev/null; do wait $!; done
echo dead >>"$1"
"""


@dataclass
class Innocent:
    what: str
    note: Path
    family: tuple[Known, ...]  # the listener and its child

    def check(self) -> None:
        heard = self.note.read_text().split() if self.note.exists() else []
        assert not heard, f"{self.what} was signalled: {heard}"
        for one in self.family:
            now = look(one.pid)
            assert now is not None, f"{self.what}, process {one.pid}, is gone"
            assert now.alive, f"{self.what}, process {one.pid}, is dead"
            assert now.start == one.start, f"{self.what}: {one.pid} is another process now"


class Innocents:
    """A crowd of them, of all kinds in turn."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.root = world.root / "innocents"
        self.root.mkdir()
        (self.root / "listen.sh").write_text(_LISTENER)
        self.all: list[Innocent] = []
        self._mine: list[subprocess.Popen[bytes]] = []

    def command(self, note: Path) -> list[str]:
        return ["sh", str(self.root / "listen.sh"), str(note)]

    def note(self) -> Path:
        return self.root / str(len(self.all))

    def join(self, what: str, note: Path, pid: int | None = None) -> None:
        """It has been started: from now on nothing may happen to it."""
        file = note.with_name(note.name + ".pid")
        assert eventually(lambda: _said(file, pid), 20), f"{what} did not begin"
        family = [look(int(number)) for number in file.read_text().split()]
        assert all(family), f"{what} died young"
        self.all.append(Innocent(what, note, tuple(one for one in family if one)))

    def plain(
        self,
        what: str,
        variables: dict[str, str] | None = None,
        *arguments: str,
        shell: str = "sh",
        pid: int | None = None,
    ) -> None:
        """A process of the same user with these variables, in a session of its own; with a `pid`
        that was another's, if one is given."""
        note = self.note()
        argv = [shell, *self.command(note)[1:], *arguments]
        begin = partial(self._begin, argv, {**self.world.env, **(variables or {})})
        self._mine.append(begin() if pid is None else _with_pid(pid, begin))
        self.join(what, note, self._mine[-1].pid)

    def _begin(self, argv: list[str], env: dict[str, str]) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            argv,
            env=env,
            cwd=self.root,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def inside(self, what: str, name: str, env: dict[str, str] | None = None) -> None:
        """A living session that runs one, and a child of it that nothing ties to it."""
        notes = [self.root / f"{len(self.all)}", self.root / f"{len(self.all) + 1}"]
        agent, child = (" ".join(self.command(note)) for note in notes)
        script = f"setsid {child} >/dev/null 2>&1 & exec {agent}"
        self.world.ok("start", name, "--", "sh", "-c", script, env=env)
        self.join(f"{what}, agent", notes[0])
        self.join(f"{what}, child", notes[1])

    def in_tmux(self, what: str, *command: str) -> None:
        """One in a pane of a tmux that is not sesh's own."""
        note = self.note()
        argv = ["tmux", *command, " ".join(self.command(note))]
        subprocess.run(argv, env=self.world.env, cwd=self.root, check=True, timeout=100)
        self.join(what, note)

    def check(self) -> None:
        for one in self.all:
            one.check()

    def pids(self) -> set[int]:
        return {process.pid for one in self.all for process in one.family}

    def end(self) -> None:
        """End those that we have started; the others end with their world."""
        for process in self._mine:
            if process.poll() is None:
                _end_group(process)


def _said(file: Path, pid: int | None) -> bool:
    """Has it, and no earlier one of the same name, said who it is?"""
    said = file.read_text().split() if file.exists() else []
    return len(said) == 2 and pid in (None, int(said[0]))


def _end_group(process: subprocess.Popen[bytes]) -> None:
    """End one that we have started, and its child: it leads a group of its own."""
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def _with_pid(pid: int, begin: Callable[[], subprocess.Popen[bytes]]) -> subprocess.Popen[bytes]:
    """Make the kernel give out this pid next: allowed in a pid namespace of one's own. Others may
    be faster, so it is tried again."""
    for _ in range(200):
        LAST_PID.write_text(str(pid - 1))
        process = begin()
        if process.pid == pid:
            return process
        _end_group(process)
    raise AssertionError(f"pid {pid} could not be had again")


def lookalikes(ended: str, run: str, elsewhere: str) -> list[tuple[str, dict[str, str]]]:
    """Variables like ours. `ended` is the id of a session that has ended, so that whatever would
    be taken for a part of it would be killed."""
    stem, _, digits = ended.rpartition("-")
    return [
        ("no variable of ours", {}),
        ("an id without a run directory", {"SESH_ID": ended}),
        ("a run directory without an id", {"SESH_RUN": run}),
        ("an id of another state directory", {"SESH_ID": ended, "SESH_RUN": elsewhere}),
        ("a run directory with a tail", {"SESH_ID": ended, "SESH_RUN": run + "/x"}),
        ("a run directory with a slash", {"SESH_ID": ended, "SESH_RUN": run + "/"}),
        ("a run directory cut short", {"SESH_ID": ended, "SESH_RUN": run[:-1]}),
        ("its own idea of an id", {"SESH_ID": "1", "SESH_RUN": run}),
        ("an empty id", {"SESH_ID": "", "SESH_RUN": run}),
        ("an id cut short", {"SESH_ID": f"{stem}-{digits[:-1]}", "SESH_RUN": run}),
        ("an id in capitals", {"SESH_ID": f"{stem}-{'F' * len(digits)}", "SESH_RUN": run}),
        ("an id with a line behind it", {"SESH_ID": f"{ended}\nx", "SESH_RUN": run}),
        ("an id in another variable", {"XSESH_ID": ended, "SESH_RUN": run}),
        ("an id in a longer variable", {"SESH_ID_OLD": ended, "SESH_RUN": run}),
        ("an id inside a value", {"NOTE": f"SESH_ID={ended}", "SESH_RUN": run}),
        ("an id on a line of a value", {"NOTE": f"\nSESH_ID={ended}\n", "SESH_RUN": run}),
        ("a small letter", {"sesh_id": ended, "sesh_run": run}),
    ]


@contextmanager
def crowd(world: World, size: int, ended: str) -> Iterator[Innocents]:
    """`size` innocents of all kinds; some are agents and children of sessions that run."""
    made = Innocents(world)
    try:
        run = str(Path(world.socket).parent)
        other = {**world.env, "XDG_STATE_HOME": str(world.root / "other")}
        made.inside("a session that runs", "innocent")
        made.inside("another state directory's session", "zoo", env=other)
        _leftover_of(made, other)
        socket = str(world.root / "mine.sock")
        made.in_tmux("the user's tmux", "-f", "/dev/null", "-S", socket, "new-session", "-d")
        made.in_tmux("a second window there", "-S", socket, "new-window", "-d")
        own = ("-S", world.socket, "new-window", "-d", "-t", "=innocent:")
        made.in_tmux("a window that a person opened beside the agent", *own)
        made.plain("the marker as an argument", None, f"SESH_ID={ended}", f"SESH_RUN={run}")
        kinds: Sequence[tuple[str, dict[str, str]]] = lookalikes(ended, run, f"{world.root}/other")
        for what, variables in islice(cycle(kinds), max(0, size - len(made.all))):
            made.plain(what, variables)
        yield made
    finally:
        made.end()


def _leftover_of(made: Innocents, other: dict[str, str]) -> None:
    """What outlives a session of another state directory: an orphan, but not one of ours."""
    note = made.note()
    child = " ".join(made.command(note))
    script = f"setsid {child} >/dev/null 2>&1 & exec sleep 1000"
    shown = made.world.ok("start", "gone", "--json", "--", "sh", "-c", script, env=other).json
    made.join("another state directory's orphan", note)
    os.kill(shown["pid"], signal.SIGKILL)
