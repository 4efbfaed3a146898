"""The pass: what a killed command left behind is swept, and nothing else; and it has an end."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Event, Thread

import pytest

from tests import pace
from tests.surroundings import silence_timers
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


def test_claimed_files_stay(world: World) -> None:
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


def test_a_pass_that_is_always_called_again_ends(world: World) -> None:
    """As when agents end as fast as they are launched again: another goes on, in the background."""
    world.start("one")
    word = Path(world.socket).parent / "pass.again"
    with left_all_the_time(word):
        assert eventually(lambda: world.ok("pass").code == 0 and passes(world))
        world.ok("gc")
    assert eventually(lambda: not passes(world))


def passes(world: World) -> list[int]:
    """Those at work in the background."""
    found = []
    for pid in world.processes():
        with suppress(OSError):  # it may just have ended
            if Path(f"/proc/{pid}/cmdline").read_bytes().endswith(b"\0pass\0"):
                found.append(pid)
    return found


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


# --- a pass that dies ----------------------------------------------------------------------------


def edit_callback(world: World, old: str, new: str) -> Path:
    callback = Path(world.socket).parent / "callback"
    text = callback.read_text()
    assert old in text
    callback.write_text(text.replace(old, new))
    return callback


def test_after_a_pass_that_was_killed_the_server_makes_another(world: World) -> None:
    """Nobody else looks: no cron, no person."""
    world.start("one", "sleep", "99", options=("--timeout", "2s"))
    killed = world.root / "killed"
    edit_callback(world, "-d 60", "-d 2")
    edit_callback(
        world, "exec ", f"{{ [ -e {killed} ] || {{ : >{killed}; kill -9 $$; }}; }} && exec "
    )
    assert eventually(killed.exists, within=20)
    assert 'outcome = "timeout"' not in world.record("one").read_text()
    assert eventually(lambda: 'outcome = "timeout"' in world.record("one").read_text(), within=20)


def test_a_completed_pass_is_not_repeated(world: World) -> None:
    world.start("one", "sleep", "99", options=("--max-silence", "1s"))
    calls = world.root / "calls"
    edit_callback(world, "-d 60", f"-d {round(pace.seconds(2))}")  # longer than a pass
    edit_callback(world, "umask 077\n", f"umask 077\necho x >>{calls}\n")
    edit_callback(world, "exec ", f"echo pass >>{calls} && exec ")
    assert eventually(lambda: calls.exists() and "pass" in calls.read_text(), within=20)
    assert eventually(lambda: calls.read_text().count("x") == 2, within=20)  # the one in reserve
    time.sleep(2)
    assert calls.read_text().count("pass") == 1
    assert not (Path(world.socket).parent / "pass.reserve").exists()


# --- settings that can't be read -----------------------------------------------------------------


@pytest.mark.parametrize("text", ["[sotp]\ngrace = 1\n", "[[[", '[stop]\ngrace = "soon"\n'])
@pytest.mark.parametrize("how", [("pass",), ("gc", "--auto")])
def test_supervision_continues_with_unreadable_settings(
    world: World, text: str, how: tuple[str, ...]
) -> None:
    """And whoever calls hears of it."""
    told = world.root / "told"
    notify = f'[notify]\ncommand = "cat >>{told}"\n'
    world.configure(notify)
    world.start("first")
    world.ok("pass")  # from now on events are delivered, however old they are
    silence_timers(world)
    world.start("one", "sleep", "99", options=("--timeout", "1s"))
    world.start("two", "false", options=("--retries", "1", "--retry-delay", "500ms"))
    world.configure(f"{text}\n{notify}")
    time.sleep(1.2)
    done = world.sesh(*how)
    assert (done.code, "config.toml" in done.err) == (6, True), done
    ended = 'outcome = "timeout"'  # by this pass, or by one that was called when the other failed
    assert eventually(lambda: ended in world.record("one").read_text())
    assert "generation = 2" in world.record("two").read_text()
    world.sesh(*how)
    log = (world.state / "bugs.log").read_text()
    assert [line[:5] for line in log.splitlines() if line.startswith("sesh ")] == ["sesh "]
    assert not told.exists()
    world.configure(notify)
    assert eventually(lambda: world.ok("pass").code == 0 and told.exists())  # none was forgotten


def test_no_transcript_is_trimmed_to_an_unreadable_size(world: World) -> None:
    world.configure('[logs]\nmax_size = "64 MB"\n[sotp]\n')
    assert settings_of(world, "logs.max_size") == 64 << 20
    world.configure("[log]\n")
    assert settings_of(world, "logs.max_size") > 1 << 50
    assert settings_of(world, "stop.grace") == 60


def settings_of(world: World, key: str) -> float:
    """A setting as a pass has it."""
    section, _, name = key.partition(".")
    code = f"from sesh.state import settings as s; s.forgive(); print(s.load().{section}.{name})"
    argv = [sys.executable, "-c", code]
    return float(subprocess.run(argv, env=world.env, capture_output=True, check=True).stdout)
