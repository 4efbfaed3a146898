"""The orphan zoo: every kind of child that its session's death leaves behind, and what can be known
of each. One agent starts them all.

What keeps its environment is found, wherever it hides; what has cleared, unset or overwritten it is
not, as the manual says. A table says which is which, so that nothing is left out silently.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from shlex import quote

from tests.faults.living import Known, dead, look
from tests.world import World, eventually

NAME = "zoo"
SLEEP = "sleep 7777"  # what every animal becomes; innocents run the same

# Says who it is, then becomes what it is.
_CHILD = f"""\
echo $$ >"$1.new" && mv "$1.new" "$1"
exec {SLEEP}
"""

# As programs do that write their title over their environment.
_OVERWRITE = """\
import ctypes, os, sys, time
field = open("/proc/self/stat").read().rpartition(")")[2].split()
begin, end = int(field[47]), int(field[48])
ctypes.memset(begin, 0, end - begin)
with open(sys.argv[1] + ".new", "w") as file:
    file.write(str(os.getpid()))
os.rename(sys.argv[1] + ".new", sys.argv[1])
time.sleep(7777)
"""


@dataclass(frozen=True)
class Kind:
    """One kind of detached child: how it is started, and what can be known of it."""

    name: str
    script: str  # CHILD: its command line; FILE: where it says its pid; ROOT: the zoo
    outlives: bool = True  # the hangup of its terminal
    hidden: str | None = None  # why nobody can find it
    kept: str | None = None  # why it is never ended, though found

    @property
    def killable(self) -> bool:
        return self.hidden is None and self.kept is None


KINDS = (
    Kind("nohup", "nohup CHILD >/dev/null 2>&1 &"),
    Kind("setsid", "setsid CHILD &"),
    Kind("double-fork", "( ( CHILD ) & )", outlives=False),
    Kind("disown", "bash -c 'CHILD & disown'", outlives=False),
    Kind("own-group", "bash -c 'set -m; CHILD &'"),
    Kind(
        "daemon",
        "setsid sh -c 'cd /; umask 0; trap \"\" HUP TERM; ( CHILD ) <&- >&- 2>&- & exit'",
    ),
    Kind(
        "other-name",
        "setsid bash -c 'echo $$ >$0.new; mv $0.new $0; exec -a \"[kworker/0:1]\" SLEEP' FILE &",
    ),
    Kind(
        "other-tmux",
        "env -u TMUX -u TMUX_PANE tmux -f /dev/null -S ROOT/own.sock new-session -d 'CHILD'",
        kept="it runs in a tmux of its own",
    ),
    Kind("cleared", "setsid env -i CHILD &", hidden="env -i: no environment"),
    Kind("unset", "setsid env -u SESH_ID -u SESH_RUN CHILD &", hidden="its marker was unset"),
    Kind("overwritten", "setsid PYTHON ROOT/overwrite.py FILE &", hidden="its environ is zeros"),
)


@dataclass
class Animal:
    kind: Kind
    process: Known

    @property
    def alive(self) -> bool:
        return not dead(self.process)


@dataclass
class Zoo:
    """A session whose agent has started one of each kind."""

    world: World
    session: dict[str, object]
    animals: list[Animal]
    agent: Known
    inner: int  # the keeper's inner shell
    outer: int  # its outer shell, the pane's process
    server: Known

    def agent_ended(self) -> bool:
        return dead(self.agent)

    def orphans(self) -> dict[int, dict[str, object]]:
        """What `ls --all` shows as orphans, by pid."""
        return {one["pid"]: one for one in self.world.ls("--all") if one["state"] == "orphan"}


@contextmanager
def open_zoo(world: World, name: str = NAME) -> Iterator[Zoo]:
    """Start it, and end afterwards whatever lives of it: some can't be found by their world."""
    root = world.root / f"animals-{name}"
    root.mkdir(exist_ok=True)
    for old in root.iterdir():
        old.unlink()
    (root / "child.sh").write_text(_CHILD)
    (root / "overwrite.py").write_text(_OVERWRITE)
    (root / "zoo.sh").write_text(_script(root))
    animals: list[Animal] = []
    try:
        session = world.start(name, "sh", str(root / "zoo.sh"))
        for kind in KINDS:
            animals.append(Animal(kind, _said(root / kind.name)))
        yield _zoo(world, session, animals)
    finally:
        for animal in animals:
            if animal.alive:
                os.kill(animal.process.pid, signal.SIGKILL)


def _script(root: Path) -> str:
    lines = [_command(kind, root) for kind in KINDS]
    return "\n".join([*lines, "exec sleep 1000\n"])


def _command(kind: Kind, root: Path) -> str:
    file = str(root / kind.name)
    words = {
        "CHILD": f"sh {root}/child.sh {file}",
        "FILE": file,
        "ROOT": str(root),
        "SLEEP": SLEEP,
        "PYTHON": quote(sys.executable),
    }
    script = kind.script
    for word, value in words.items():
        script = script.replace(word, value)
    return script


def _said(file: Path) -> Known:
    """The animal that says in this file who it is, once it has become what it is."""
    assert eventually(file.exists, 20), f"{file.name} was not born"
    pid = int(file.read_text())
    assert eventually(lambda: _grown(pid), 10), f"{file.name} did not grow up"
    found = look(pid)
    assert found is not None, f"{file.name} died young"
    return found


def _grown(pid: int) -> bool:
    found = look(pid)
    return found is None or found.name in ("sleep", "python", Path(sys.executable).name)


def _zoo(world: World, session: dict[str, object], animals: list[Animal]) -> Zoo:
    agent = look(int(str(session["pid"])))
    assert agent is not None
    inner = look(agent.parent)
    assert inner is not None
    server = look(world.server_pid())
    assert server is not None
    return Zoo(world, session, animals, agent, inner.pid, inner.parent, server)
