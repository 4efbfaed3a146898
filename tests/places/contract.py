"""What every kind of place must do, as scenarios that know no kind. `test_contract.py` runs each of
them against each kind; a new kind is one more `Subject` there."""

from __future__ import annotations

import os
import pty
import select
import signal
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sesh.model import codec
from sesh.model.configuration import Config
from sesh.model.record import Record
from sesh.places import registry
from tests.world import World, eventually

PATIENCE = 40.0  # seconds
ODD = ("a b", "$HOME", "it's", '"quoted"', "; exit 7", "back\\slash", "*", "-n", "ü")


@dataclass
class Subject:
    """One kind of place, with what a test needs to do to it from outside."""

    world: World
    options: Sequence[str]  # of `sesh start`
    place: str  # as `ls --json` calls it
    lose: Callable[[str], None]  # end the place of a session behind our back
    mute: Callable[[], AbstractContextManager[None]]  # meanwhile it gives no answer
    left: Callable[[str], list[str]]  # what is there of a session, as the place itself says
    adopts: bool = True  # it keeps a copy of the record

    def start(self, name: str, *command: str) -> dict[str, Any]:
        return self.world.start(name, *command, options=self.options)

    def becomes(self, name: str, *states: str) -> dict[str, Any]:
        found = eventually(lambda: self._if_in(name, states), PATIENCE)
        assert found, self.world.session(name)
        return dict(found)

    def _if_in(self, name: str, states: Sequence[str]) -> dict[str, Any] | None:
        session = self.world.session(name)
        return session if session["state"] in states else None

    def printed(self, name: str, text: str) -> bool:
        logs = lambda: text in self.world.ok("logs", name).out  # noqa: E731  # clearer
        return bool(eventually(logs, PATIENCE, pause=0.15))

    def record(self, name: str) -> Record:
        return codec.decode(self.world.record(name).read_bytes())


def starts(subject: Subject) -> None:
    shown = subject.start("a", "sh", "-c", "echo hello; exec cat")
    assert (shown["state"], shown["place"], shown["generation"]) == ("running", subject.place, 1)
    assert subject.printed("a", "hello")
    assert subject.world.sesh("start", "a", *subject.options, "--", "cat").code == 8
    assert subject.left("a")


def ends(subject: Subject, code: int) -> None:
    subject.start("a", "sh", "-c", f"sleep 0.3; exit {code}")
    shown = subject.becomes("a", "completed", "failed", "stale")
    well = ("completed", "stale")  # stale: it ended well, in a container that is still up
    assert shown["state"] in (well if code == 0 else ("failed",))
    assert (shown["cause"], shown["exit_code"]) == ("exit", code)


def stops(subject: Subject) -> None:
    subject.start("a", "cat")
    subject.start("deaf", "sh", "-c", "trap '' TERM; while :; do sleep 1; done")
    subject.world.ok("stop", "a", "deaf", "--yes", "--grace", "1")
    for name in ("a", "deaf"):
        shown = subject.world.session(name)
        assert (shown["state"], shown["pid"]) == ("stopped", None)
        assert subject.left(name) == []


def restarts_in_place(subject: Subject) -> None:
    subject.start("a", "sh", "-c", "sleep 0.3; echo run; exit 3")
    first = subject.becomes("a", "failed")
    subject.world.ok("restart", "a")
    second = subject.becomes("a", "failed")
    eventually(lambda: subject.world.session("a")["generation"] == 2, PATIENCE)
    assert (first["id"], first["container"]) == (second["id"], second["container"])


def pauses(subject: Subject, *options: str) -> None:
    subject.start("a", "cat")
    subject.world.ok("pause", "a", *options)
    shown = subject.world.session("a")
    how = "held" if "--hold" in options else "frozen"
    assert (shown["state"], shown["reason"]) == ("paused", how)
    assert subject.world.sesh("send", "a", "x").code != 0
    subject.world.ok("resume", "a")
    assert subject.world.state_of("a") == "running"
    subject.world.ok("send", "a", "after")
    assert subject.printed("a", "after")


def hears(subject: Subject) -> None:
    """Send and logs, while it runs and after its end."""
    subject.start("a", "cat")
    subject.world.ok("send", "a", "first words")
    assert subject.printed("a", "first words")
    subject.world.ok("stop", "a", "--grace", "1")
    assert "first words" in subject.world.ok("logs", "a").out


def attaches(subject: Subject) -> None:
    subject.start("a", "sh", "-c", "echo here it is; exec cat")
    assert subject.printed("a", "here it is")
    record = subject.record("a")
    argv = registry.of(record).attach_command(record, Config(), read_only=False, alone=False)
    assert "here it is" in _on_a_terminal(argv, subject.world, "here it is")
    assert subject.world.state_of("a") == "running"


def _on_a_terminal(argv: list[str], world: World, wanted: str) -> str:
    """What a command shows on a terminal of its own, until that is there."""
    pid, terminal = pty.fork()
    if pid == 0:
        os.chdir(world.cwd)
        os.execvpe(argv[0], argv, world.env)
    shown, deadline = b"", time.monotonic() + PATIENCE
    try:
        while wanted not in shown.decode(errors="replace") and time.monotonic() < deadline:
            if select.select([terminal], [], [], 0.2)[0]:
                shown += os.read(terminal, 4096)
    except OSError:  # it has ended
        pass
    finally:
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        os.close(terminal)
    return shown.decode(errors="replace")


def is_lost(subject: Subject) -> None:
    subject.start("a", "cat")
    subject.lose("a")
    assert subject.becomes("a", "lost", "failed")["pid"] is None
    subject.world.ok("rm", "a")
    assert subject.world.ls() == []


def cannot_be_asked(subject: Subject) -> None:
    """No answer is no end: nothing is decided and nothing is done."""
    subject.start("a", "cat")
    with subject.mute():
        assert subject.world.state_of("a") in ("running", "unknown")
        subject.world.sesh("pass")
        assert subject.world.session("a")["generation"] == 1
    assert subject.becomes("a", "running")["generation"] == 1
    assert subject.left("a")


def is_adopted(subject: Subject) -> None:
    """What no record claims is listed and can be adopted."""
    subject.start("a", "cat")
    record = subject.world.record("a")
    kept = record.read_bytes()
    record.unlink()
    shown = [one["state"] for one in subject.world.ls("--all") if one["name"] == "a"]
    assert shown == (["orphan"] if subject.adopts else [])
    done = subject.world.sesh("adopt", "a")
    if not subject.adopts:
        assert done.code != 0
        assert subject.left("a")
        record.write_bytes(kept)
        return
    assert done.code == 0, done
    assert subject.becomes("a", "running")["id"] == codec.decode(kept).id
    subject.world.ok("stop", "a", "--grace", "1")
    assert subject.left("a") == []


def is_forgotten(subject: Subject) -> None:
    shown = subject.start("a", "cat")
    assert subject.left("a")
    assert subject.world.sesh("rm", "a").code == 8  # it runs
    subject.world.ok("rm", "--force", "a")
    assert subject.left("a") == []
    files = [path for path in subject.world.state.rglob("*") if shown["id"] in path.name]
    assert [path for path in files if path.suffix != ".toml"] == []
    assert not subject.world.record("a").exists()


def survives_odd_words(subject: Subject) -> None:
    """Names are checked in one place; words of a command arrive as they were given."""
    for name in ("../a", "a b", "-a", "a;b", "$(id)", "a" * 64, "ü"):
        assert subject.world.sesh("start", name, *subject.options, "--", "cat").code == 2
    assert subject.world.ls("--all") == []
    script = 'for word; do printf "<%s>" "$word"; done; echo; exec cat'
    subject.start("a", "sh", "-c", script, "sh", *ODD)
    wanted = "".join(f"<{word}>" for word in ODD)
    assert subject.printed("a", wanted), subject.world.ok("logs", "a").out
    assert not (Path(subject.world.cwd) / "exit").exists()
