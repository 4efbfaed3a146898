"""What was left behind: found by its marker, shown, and ended only when asked."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sesh.model.observation import Verdict
from sesh.model.record import Record
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.state import records
from tests.emulator import Terminal
from tests.surroundings import complains, read_record, write_record
from tests.world import World, eventually

# Starts a child that nothing ties to the session but its environment, then goes on.
PARENT = "setsid nohup sleep {} >/dev/null 2>&1 & exec sleep 1000"


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"


def leave(world: World, name: str, seconds: str) -> int:
    """A session that has failed, and a process of it that lives; returns that one's pid."""
    world.start(name, "sh", "-c", PARENT.format(seconds))
    child = int(str(eventually(lambda: pid_of(world, "sleep", seconds))))
    os.kill(world.session(name)["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of(name) == "failed")
    return child


def pid_of(world: World, *command: str) -> int | None:
    wanted = "\0".join(command).encode() + b"\0"
    for pid in world.processes():
        with suppress(OSError):  # it may just have ended
            if Path(f"/proc/{pid}/cmdline").read_bytes() == wanted:
                return pid
    return None


def left(world: World) -> list[dict[str, object]]:
    return [one for one in world.ls("--all") if one["state"] == "orphan"]


def test_a_process_that_outlives_its_session_is_shown_with_all(world: World) -> None:
    child = leave(world, "a", "1111")
    assert [one["state"] for one in world.ls()] == ["failed"]
    (shown,) = left(world)
    assert shown["name"] == "a"
    assert shown["pid"] == child
    assert shown["command"] == ["sleep", "1111"]
    assert shown["reason"] == "outlives its session"
    assert shown["memory_bytes"]
    assert shown["started"]


def test_processes_older_than_the_session_do_not_belong_to_it(world: World) -> None:
    child = leave(world, "a", "1110")
    record = read_record(world, "a")
    later = replace(record.place, since=record.place.since + 1_000_000)
    write_record(world, replace(record, place=later), State.FAILED)
    assert left(world) == []
    complains_nothing_to_do(world)
    assert alive(child)


def test_a_child_of_a_session_that_runs_is_no_orphan(world: World) -> None:
    world.start("a", "sh", "-c", PARENT.format("1112"))
    assert eventually(lambda: pid_of(world, "sleep", "1112"))
    assert left(world) == []
    complains_nothing_to_do(world)


def complains_nothing_to_do(world: World) -> None:
    done = world.ok("stop", "--orphans", "-y")
    assert done.err == "sesh: no orphans to end\n"


def test_each_is_listed_before_it_is_ended(world: World) -> None:
    child = leave(world, "a", "1113")
    refused = world.sesh("stop", "--orphans")
    assert refused.code == 2
    assert f"process {child}" in refused.err
    assert "sleep 1113" in refused.err
    assert alive(child)
    done = world.ok("stop", "--orphans", "-y")
    assert f"process {child}" in done.err
    assert not alive(child)
    assert left(world) == []


def test_a_process_that_ignores_the_signal_is_killed_after_the_grace(world: World) -> None:
    script = "trap '' TERM; echo $$ >child; while :; do sleep 0.1; done"
    world.start("a", "sh", "-c", 'setsid sh -c "$0" & exec sleep 1000', script)
    path = world.cwd / "child"
    assert eventually(path.exists)
    child = int(eventually(path.read_text))
    os.kill(world.session("a")["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "failed")
    begin = time.monotonic()
    world.ok("stop", "--orphans", "-y", "--grace", "0.5s")
    assert time.monotonic() - begin >= 0.5
    assert not alive(child)


def test_unclaimed_agents_and_orphaned_sessions_are_among_them(world: World) -> None:
    world.start("lost")
    world.record("lost").unlink()
    world.start("deaf", "sh", "-c", "trap '' HUP; while :; do sleep 0.1; done")
    world.tmux("kill-session", "-t", "=deaf")
    assert eventually(lambda: world.state_of("deaf") == "orphan")
    world.ok("stop", "--orphans", "-y", "--grace", "0.5s")
    assert {one["name"]: one["state"] for one in world.ls()} == {"deaf": "stopped"}


def test_an_orphan_that_became_a_session_meanwhile_is_left_alone(world: World) -> None:
    for name in ("one", "two"):
        world.start(name)
        world.record(name).unlink()
    terminal = Terminal(world)
    terminal.run("sesh stop --orphans")
    terminal.see("end 2 orphans?")
    world.ok("adopt", "one")
    terminal.type("y")
    terminal.see("1 changed meanwhile")
    assert eventually(lambda: [one["state"] for one in world.ls()] == ["running"])


def test_sessions_of_another_state_directory_in_a_shared_tmux_are_not_ours(world: World) -> None:
    world.env["TMUX_TMPDIR"] = str(world.root)
    world.configure('[tmux]\nsocket = "default"\n')
    world.start("theirs", "true")
    assert eventually(lambda: world.state_of("theirs") == "completed")
    other = {**world.env, "XDG_STATE_HOME": str(world.root / "other")}
    world.ok("start", "--record-only", "ours", env=other)
    told = world.ok("doctor", "--json", "--only", "orphan-tmux", env=other).json
    assert [one["level"] for one in told] == ["ok"]
    assert "no orphans" in world.ok("stop", "--orphans", "-y", env=other).err
    world.record("theirs").unlink()
    assert "theirs" in world.ok("stop", "--orphans", "-y").err


def test_names_and_orphans_do_not_mix(world: World) -> None:
    complains(world.sesh("stop", "a", "--orphans"), 2, "not both")
    complains(world.sesh("stop", "--all", "--orphans"), 2, "not both")
    complains(
        world.sesh("stop", "--idle", "1s", "--orphans"), 2, "--orphans, or", "--idle,", "not both"
    )


def test_processes_in_their_own_tmux_are_shown_and_left_alone(world: World) -> None:
    socket = world.root / "own.sock"
    own = f"env -u TMUX tmux -f /dev/null -S {socket} new-session -d sleep 1114; exec sleep 1000"
    world.start("a", "sh", "-c", own)
    child = int(str(eventually(lambda: pid_of(world, "sleep", "1114"))))
    try:
        os.kill(world.session("a")["pid"], signal.SIGKILL)
        assert eventually(lambda: world.state_of("a") == "failed")
        shown = {one["pid"]: one["reason"] for one in left(world)}
        assert "a tmux of its own" in str(shown[child])
        done = world.ok("stop", "--orphans", "-y")
        assert f"process {child}" in done.err
        assert "left alone" in done.err
        assert alive(child)
    finally:
        subprocess.run(["tmux", "-S", str(socket), "kill-server"], check=False)


def test_another_state_directory_is_not_ours(world: World) -> None:
    """The same user, another XDG_STATE_HOME: its agents and leftovers are none of our business."""
    other = {**world.env, "XDG_STATE_HOME": str(world.root / "other")}
    world.ok("start", "b", "--", "sh", "-c", PARENT.format("1115"), env=other)
    child = int(str(eventually(lambda: pid_of(world, "sleep", "1115"))))
    pid = world.ok("ls", "--json", env=other).json[0]["pid"]
    os.kill(pid, signal.SIGKILL)
    world.start("a")
    assert left(world) == []
    complains_nothing_to_do(world)
    assert alive(child)


def test_a_variable_that_only_looks_like_ours_is_nothing(world: World) -> None:
    world.start("a")
    shown = world.session("a")
    run = str(Path(world.socket).parent)
    lookalikes: list[dict[str, str]] = [
        {"SESH_ID": "something", "SESH_RUN": run},
        {"SESH_ID": shown["id"]},
        {"MY_SESH_ID": shown["id"], "SESH_RUN": run},
        {"SESH_RUN": run},
        {"SESH_ID": "a-20260101-000000-0123456", "SESH_RUN": run},
    ]
    world.ok("stop", "a")
    innocents = [
        subprocess.Popen(["sleep", "1000"], env={**world.env, **variables})
        for variables in lookalikes
    ]
    try:
        assert left(world) == []
        complains_nothing_to_do(world)
        assert [one.poll() for one in innocents] == [None] * len(innocents)
    finally:
        for one in innocents:
            one.kill()
            one.wait()


def test_a_record_that_says_stopped_is_looked_at_when_its_agent_lives(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its digest line, which holds for ever, says so too: as a sesh with a bug would have it."""
    world.start("a")
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    entry = records.entry("a")
    assert entry is not None
    assert isinstance(entry.record, Record)
    status = replace(entry.record.status, outcome=State.STOPPED, ended=datetime.now(UTC))
    assert records.swap(entry, replace(entry.record, status=status), Verdict(State.STOPPED))
    assert world.state_of("a") == "stopped"
    assert [one["state"] for one in world.ls("--all")] == ["orphan"]
    world.ok("stop", "--orphans", "-y")
    assert world.state_of("a") == "stopped"
    assert world.ls("--all")[0]["state"] == "stopped"


def test_a_stop_leaves_a_tmux_alone_that_was_first_started_in_the_session(world: World) -> None:
    """A person may have gone on to work in it: what runs there got its marker from that server."""
    socket = world.root / "own.sock"
    own = f"env -u TMUX tmux -f /dev/null -S {socket} new-session -d sleep 1116; exec sleep 1000"
    world.start("a", "sh", "-c", own)
    assert eventually(lambda: pid_of(world, "sleep", "1116"))
    tmux = ["tmux", "-S", str(socket)]
    try:
        subprocess.run([*tmux, "new-session", "-d", "-s", "work", "sleep 1117"], check=True)
        work = int(str(eventually(lambda: pid_of(world, "sleep", "1117"))))
        world.ok("stop", "a")
        assert world.state_of("a") == "stopped"
        assert alive(work)
        assert work in {one["pid"] for one in left(world)}
    finally:
        subprocess.run([*tmux, "kill-server"], check=False)


def test_a_tmux_session_that_no_record_claims_is_closed(world: World) -> None:
    world.start("a", "true")
    assert eventually(lambda: world.state_of("a") == "completed")
    world.record("a").unlink()
    assert world.tmux("list-sessions", "-F", "#{session_name}") == "a"
    (shown,) = world.ls("--all")
    assert (shown["name"], shown["state"]) == ("a", "orphan")
    assert shown["reason"] == "a tmux session without a record"
    world.start("b")
    done = world.ok("stop", "--orphans", "-y")
    assert "a   tmux session, 1 pane, without a record" in done.err
    assert world.tmux("list-sessions", "-F", "#{session_name}") == "b"
    complains_nothing_to_do(world)
