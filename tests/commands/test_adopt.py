"""sesh adopt: what lives gets a record, and is a session again."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.surroundings import complains
from tests.world import SESH, World, eventually


def lose(world: World, *directories: str) -> None:
    """Delete parts of the state directory under living sessions."""
    for name in directories:
        shutil.rmtree(world.state / name)


def facts(session: dict[str, object]) -> dict[str, object]:
    """What must be the same after a record was lost and rebuilt."""
    names = ("name", "id", "generation", "command", "cwd", "group", "tags", "pid", "pane")
    return {name: session[name] for name in (*names, "socket", "started", "created", "state")}


# --- a record that is lost -----------------------------------------------------------------------


def test_a_lost_record_is_rebuilt_as_it_was(world: World) -> None:
    options = ["-g", "crew", "--tag", "x", "-e", "SECRET=1"]
    world.start("a", "sh", "-c", "echo ready; exec cat", options=options)
    before = world.session("a")
    lose(world, "sessions")
    assert world.state_of("a") == "orphan"
    assert world.ok("adopt", "a").out == "a\n"
    assert facts(world.session("a")) == facts(before)
    assert [event["kind"] for event in world.events()] == ["started", "adopted"]
    assert "SECRET" in world.ok("show", "a").out


def test_it_is_a_session_like_any_other_afterwards(world: World) -> None:
    world.start("a", "sh", "-c", "echo ready; exec cat")
    lose(world, "sessions", "transcripts")
    world.ok("adopt", "a")
    world.ok("send", "a", "hello")
    assert eventually(lambda: "hello" in world.ok("logs", "--raw", "a").out)
    world.ok("stop", "a")
    assert world.session("a")["state"] == "stopped"
    world.ok("restart", "a")
    assert world.session("a")["generation"] == 2


def test_its_life_goes_on(world: World) -> None:
    """Neither its retries nor its timeout begin anew."""
    script = "[ -e again ] && exec sleep 99; touch again; exit 1"
    options = ("--retries", "3", "--retry-delay", "300ms", "--timeout", "1h")
    world.start("one", "sh", "-c", script, options=options)
    assert eventually(lambda: world.session("one")["generation"] == 2)
    assert eventually(lambda: world.state_of("one") == "running")
    before = world.session("one")
    world.record("one").unlink()
    world.ok("adopt", "one")
    after = world.session("one")
    assert [after[key] for key in ("retries", "retries_max", "lived")] == [1, 3, before["lived"]]
    assert after["lived"] > 0


def test_how_it_ends_is_known(world: World) -> None:
    world.start("a", "sh", "-c", "read -r line; exit 7")
    lose(world, "sessions", "transcripts")
    world.ok("adopt", "a")
    world.ok("send", "a", "go")
    assert eventually(lambda: world.session("a")["exit_code"] == 7)


def test_with_the_files_of_the_launch_and_the_socket_gone_too(world: World) -> None:
    """Found by its keeper; command and directory are what the process shows."""
    world.start("a", "sleep", "1000")
    before = world.session("a")
    shutil.rmtree(world.state)
    assert world.ok("ls", "--all", "--json").json[0]["state"] == "orphan"
    world.ok("adopt", "a")
    after = world.session("a")
    unsure = {"started": None, "created": None}
    assert facts(after) | unsure == facts(before) | unsure
    assert os.path.exists(after["socket"])
    (again,) = world.state.glob("run/*/*.1.exit.tmp")
    assert (again.stat().st_size, again.stat().st_mode & 0o777) == (128, 0o600)
    assert list(world.state.glob("run/*/*.1.claim"))
    world.tmux("send-keys", "-t", after["pane"], "C-c")
    assert eventually(lambda: world.session("a")["signal"] == signal.SIGINT)


def test_without_a_name_it_is_the_only_one_or_all_are_named(world: World) -> None:
    complains(world.sesh("adopt"), 4, "no orphan")
    for name in ("a", "b"):
        world.start(name)
    lose(world, "sessions")
    complains(world.sesh("adopt"), 2, "a, b")
    assert world.ok("adopt", "--all").out == "a\nb\n"
    world.record("b").unlink()
    assert [one["name"] for one in world.ok("adopt", "--json").json] == ["b"]
    assert {one["state"] for one in world.ls()} == {"running"}


def test_what_is_no_orphan(world: World) -> None:
    world.start("a")
    complains(world.sesh("adopt", "a"), 8, "not an orphan")
    complains(world.sesh("adopt", "b"), 4, "no orphan named b")
    complains(world.sesh("adopt", "-x"), 2)
    complains(world.sesh("adopt", "a", "--all"), 2, "only one")
    world.record("a").write_text("nonsense")
    complains(world.sesh("adopt", "a"), 8, "damaged", "doctor")


def test_a_name_that_is_taken_meanwhile(world: World) -> None:
    """Its record was lost, and the name used again before the old record came back."""
    world.start("a")
    lost = world.record("a").read_bytes()
    world.ok("stop", "a")
    world.start("a", "cat")
    newer = world.record("a").read_bytes()
    world.record("a").write_bytes(lost)
    complains(world.sesh("adopt", "a"), 8, "exists")
    world.record("a").write_bytes(newer)
    assert [one["command"] for one in world.ls()] == [["cat"]]


def test_a_start_without_any_file_does_not_join_the_session_of_a_living_agent(
    world: World,
) -> None:
    world.start("a")
    shutil.rmtree(world.state)
    complains(
        world.sesh("start", "a", "--", "cat"), 8, "runs an agent without a record", "ls --all"
    )
    assert world.ls() == []
    world.ok("adopt", "a")
    assert [one["command"] for one in world.ls()] == [["sleep", "1000"]]


# --- an orphan that has a record -----------------------------------------------------------------


def test_one_whose_terminal_is_gone(world: World) -> None:
    """The agent ignores the hangup."""
    world.start("a", "sh", "-c", "trap '' HUP; while :; do sleep 1; done")
    pid = world.session("a")["pid"]
    world.tmux("kill-server")
    assert eventually(lambda: world.state_of("a") == "orphan")
    world.ok("adopt", "a")
    assert (world.state_of("a"), world.session("a")["pid"]) == ("running", pid)
    complains(world.sesh("attach", "a"), 2, "terminal")
    complains(world.sesh("send", "a", "hello"), 8, "without a terminal", "sesh restart a")
    assert "sesh restart a gives it a terminal" in world.ok("show", "a").out
    world.ok("stop", "a", "--grace", "0.5s")
    assert world.state_of("a") == "stopped"


def test_one_whose_record_says_that_it_has_ended(world: World) -> None:
    world.start("a")
    record = world.record("a")
    text = record.read_text().partition("\n")[2]
    ended = 'outcome = "stopped"\ncause = "stopped"\nended = 2026-01-01T00:00:00Z\n'
    record.write_text(text.replace("[status]\n", f"[status]\n{ended}"))
    assert world.state_of("a") == "orphan"
    world.ok("adopt", "a")
    assert world.state_of("a") == "running"
    assert world.session("a")["ended"] is None


# --- a tmux session made by hand -----------------------------------------------------------------


@pytest.fixture
def own_tmux(world: World) -> Iterator[World]:
    """A tmux server of the user's own, with a session `mine`."""
    world.env["TMUX_TMPDIR"] = str(world.root)
    command = ["tmux", "-f", os.devnull, "new-session", "-d", "-s", "mine", "exec cat"]
    subprocess.run(command, env=world.env, cwd=world.cwd, check=True)
    shown = ["tmux", "list-panes", "-t", "=mine:", "-F", "#{pane_pid}"]
    done = subprocess.run(shown, env=world.env, check=True, capture_output=True, text=True)
    program = Path(f"/proc/{done.stdout.strip()}/cmdline")
    assert eventually(lambda: program.read_bytes() == b"cat\0")  # tmux, then sh, before that
    yield world
    subprocess.run(["tmux", "kill-server"], env=world.env, check=False, capture_output=True)


def test_a_tmux_session_of_ones_own_becomes_a_session(own_tmux: World) -> None:
    world = own_tmux
    assert world.ok("adopt", "--tmux", "mine").out == "mine\n"
    shown = world.session("mine")
    assert shown["state"] == "running"
    assert shown["command"] == ["cat"]
    assert shown["cwd"] == str(world.cwd)
    assert shown["socket"] == f"{world.root}/tmux-{os.getuid()}/default"
    assert "keeper     none (adopted)" in world.ok("show", "mine").out
    world.ok("send", "mine", "hello")
    assert eventually(lambda: "hello" in world.ok("logs", "--raw", "mine").out)


def test_it_stays_where_it_is_and_its_end_is_seen_but_not_how(own_tmux: World) -> None:
    world = own_tmux
    pid = world.ok("adopt", "--tmux", "mine", "--json").json[0]["pid"]
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: world.state_of("mine") == "lost")
    assert "exit status unknown" in world.session("mine")["reason"]


def test_its_first_restart_makes_it_a_full_session(own_tmux: World) -> None:
    world = own_tmux
    world.ok("adopt", "--tmux", "mine")
    world.ok("restart", "mine", "-y")
    pid = world.session("mine")["pid"]
    assert world.session("mine")["generation"] == 2
    assert b"SESH_ID=mine-" in Path(f"/proc/{pid}/environ").read_bytes()
    os.kill(pid, signal.SIGTERM)
    assert eventually(lambda: world.session("mine")["signal"] == signal.SIGTERM)
    world.ok("stop", "mine")


def test_a_stop_ends_it_and_leaves_the_other_sessions_of_that_server(own_tmux: World) -> None:
    world = own_tmux
    subprocess.run(
        ["tmux", "new-session", "-d", "-s", "other", "exec cat"], env=world.env, check=True
    )
    world.ok("adopt", "--tmux", "mine")
    world.ok("stop", "mine")
    assert world.state_of("mine") == "stopped"
    listed = subprocess.run(
        ["tmux", "list-sessions", "-F", "#{session_name}"],
        env=world.env,
        capture_output=True,
        text=True,
        check=True,
    )
    assert listed.stdout == "other\n"


def test_what_can_not_be_taken_over(own_tmux: World) -> None:
    world = own_tmux
    complains(world.sesh("adopt", "--tmux", "nobody"), 4, "no tmux session named nobody")
    complains(world.sesh("adopt", "--tmux", "a b"), 2, "invalid session name", "rename-session")
    world.start("mine")
    complains(world.sesh("adopt", "--tmux", "mine"), 8, "mine")
    world.ok("rm", "-f", "mine")
    world.ok("adopt", "--tmux", "mine")
    complains(world.sesh("adopt", "--tmux", "mine"), 8, "already")
    assert json.loads(world.ok("ls", "--json").out)[0]["name"] == "mine"


def test_its_secrets_are_only_in_the_private_snapshot(world: World) -> None:
    world.env["TMUX_TMPDIR"] = str(world.root)
    env = {**world.env, "TOKEN": "s3cret-of-mine"}
    command = ["tmux", "-f", os.devnull, "new-session", "-d", "-s", "mine", "exec cat"]
    subprocess.run(command, env=env, check=True)
    try:
        world.ok("adopt", "--tmux", "mine")
        holders = [p for p in world.root.rglob("*") if p.is_file() and b"s3cret" in p.read_bytes()]
        assert [path.suffix for path in holders] == [".env"]
        assert holders[0].stat().st_mode & 0o777 == 0o600
    finally:
        subprocess.run(["tmux", "kill-server"], env=world.env, check=False)


def test_a_start_after_everything_was_deleted_goes_to_the_server_that_lives(world: World) -> None:
    """A second server on the same path would hide the first one and all its sessions."""
    world.start("a")
    server = world.server_pid()
    shutil.rmtree(world.state)
    world.start("b")
    assert world.server_pid() == server
    world.ok("adopt", "a")
    assert {one["name"]: one["state"] for one in world.ls()} == {"a": "running", "b": "running"}


def test_a_server_that_another_one_hides_is_told(world: World) -> None:
    world.start("a")
    shutil.rmtree(world.state)
    world.ok("pass")
    subprocess.run(
        [SESH, "start", "b", "--", "sleep", "1000"],
        env={**world.env, "XDG_STATE_HOME": str(world.root / "other")},
        cwd=world.cwd,
        check=True,
    )
    first = next((world.root / "other").rglob("tmux.sock"))
    place = Path(str(first).replace("/other/", "/state/"))
    place.parent.mkdir(parents=True)
    first.rename(place)
    complains(world.sesh("adopt", "a"), 5, "another server")
    assert not world.record("a").exists()


def test_a_name_whose_agent_lives_is_not_given_away(world: World) -> None:
    world.start("a")
    lose(world, "sessions")
    complains(world.sesh("start", "a", "--", "cat"), 8, "its record is lost", "sesh adopt a")
    for command in ("show", "status", "logs", "restart", "attach"):
        complains(world.sesh(command, "a"), 4, "its record is lost", "sesh adopt a")
    world.ok("stop", "a")
    assert world.ls() == []
    world.start("a")


def test_a_stop_by_name_without_any_file(world: World) -> None:
    world.start("a")
    shutil.rmtree(world.state)
    world.ok("stop", "a")
    assert world.ls("--all") == []
    complains(world.sesh("stop", "a"), 4, "no session named a")


def test_rm_by_force_ends_an_agent_whose_record_is_lost(world: World) -> None:
    world.start("a")
    lose(world, "sessions")
    complains(world.sesh("rm", "a"), 4, "its record is lost")
    assert world.state_of("a") == "orphan"
    world.ok("rm", "-f", "a")
    assert world.ls("--all") == []


@pytest.mark.parametrize("how", ["archived", "name used again"])
def test_what_has_left_the_list_is_the_users_own_again(own_tmux: World, how: str) -> None:
    """A pane that a person opened beside it is never taken for something of sesh's."""
    world = own_tmux
    world.ok("adopt", "--tmux", "mine")
    users_tmux(world, "split-window", "-d", "-t", "=mine:", "sleep 9200")
    world.ok("stop", "mine")
    if how == "archived":
        world.ok("gc", "--older-than", "0")
    else:
        world.ok("start", "--record-only", "mine")
    assert "mine" in users_tmux(world, "list-sessions")
    assert users_tmux(world, "show-options", "-v", "-q", "-t", "=mine:", "@sesh_id") == ""


def test_what_is_in_the_users_own_tmux_is_not_ended_as_an_orphan(own_tmux: World) -> None:
    world = own_tmux
    world.ok("adopt", "--tmux", "mine")
    users_tmux(world, "new-session", "-d", "-s", "other", "exec cat")
    world.ok("adopt", "--tmux", "other")
    world.record("mine").unlink()
    (told,) = [one for one in world.sesh("doctor", "--json").json if one["id"] == "orphan-tmux"]
    assert told["mend"] == "sesh adopt --tmux mine"
    done = world.ok("stop", "--orphans", "-y")
    assert "left alone: it is in your own tmux" in done.err
    assert "mine" in users_tmux(world, "list-sessions")
    world.ok("adopt", "--tmux", "mine")
    assert world.state_of("mine") == "running"


def users_tmux(world: World, *command: str) -> str:
    done = subprocess.run(
        ["tmux", *command], env=world.env, check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


def test_what_was_adopted_and_forgotten_can_be_adopted_again(own_tmux: World) -> None:
    """A second pane stands on when the first is stopped and forgotten."""
    world = own_tmux
    subprocess.run(["tmux", "split-window", "-d", "-t", "=mine:", "cat"], env=world.env, check=True)
    world.ok("adopt", "--tmux", "mine")
    world.ok("stop", "mine")
    world.ok("rm", "-f", "mine")
    world.ok("adopt", "--tmux", "mine")
    assert world.state_of("mine") == "running"
