"""The pass: what a killed command left behind is swept, and nothing else; and it has an end."""

from __future__ import annotations

import os
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

from tests.world import World, eventually

OLD = time.time() - 3600


def leave(path: Path, age: float = OLD) -> Path:
    path.write_text("export SECRET=1\n")
    os.utime(path, (age, age))
    return path


def test_leavings_of_a_killed_command_are_swept(world: World) -> None:
    """Above all a saved environment: its secrets must not outlive the session."""
    world.start("one")
    run = Path(world.socket).parent
    snapshots = world.runtime
    old = [
        leave(snapshots / "gone-20261115-000000-00000001.env"),
        leave(run / "gone-20261115-000000-00000001.1.pid"),
        leave(run / "gone-20261115-000000-00000001.1.launch.4711"),
    ]
    young = leave(snapshots / "new-20261115-000000-00000002.env", time.time())
    world.ok("pass")
    assert not [path for path in old if path.exists()]
    assert young.exists()


def test_what_belongs_to_somebody_stays(world: World) -> None:
    """A living session's files, old as they may be; a damaged record's; an orphan's."""
    for name in ("one", "damaged", "orphan"):
        world.start(name)
    world.record("damaged").write_text("[[[")
    world.record("orphan").unlink()
    files = [*world.runtime.iterdir(), *Path(world.socket).parent.glob("*-2*")]
    assert len(files) >= 9
    for path in files:
        os.utime(path, (OLD, OLD))
    world.ok("pass")
    assert all(path.exists() for path in files)
    states = {one["name"]: one["state"] for one in world.ls()}
    assert states == {"one": "running", "damaged": "damaged", "orphan": "orphan"}


def test_the_environment_of_an_agent_that_only_its_keeper_knows_stays(world: World) -> None:
    world.start("one", options=["-e", "KEY=value"])
    [kept] = world.runtime.glob("*.env")
    os.utime(kept, (OLD, OLD))
    shutil.rmtree(world.state)
    world.start("two")
    world.ok("pass")
    assert kept.exists()


def test_two_state_directories_share_nothing(world: World) -> None:
    """Neither takes what the other has saved for left over."""
    world.start("one", options=["-e", "KEY=value"])
    [kept] = world.runtime.glob("*.env")
    os.utime(kept, (OLD, OLD))
    other = {**world.env, "XDG_STATE_HOME": str(world.root / "other")}
    world.ok("start", "--record-only", "two", env=other)
    world.ok("pass", env=other)
    world.ok("gc", env=other)
    assert kept.exists()


def test_a_pass_that_everybody_calls_comes_to_an_end(world: World) -> None:
    """As when agents end as fast as they are launched again: another goes on, in the background."""
    world.start("one")
    word = Path(world.socket).parent / "pass.again"
    with left_all_the_time(word):
        world.ok("pass")
        world.ok("gc")
    assert eventually(lambda: not word.exists())


@contextmanager
def left_all_the_time(word: Path) -> Iterator[None]:
    """There is word for a pass, whoever takes it."""
    over = Event()

    def leave_it() -> None:
        while not over.wait(0.001):
            word.touch()

    thread = Thread(target=leave_it)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
