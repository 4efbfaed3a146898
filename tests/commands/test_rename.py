"""sesh rename: another name for a living or ended session, and nothing else."""

from __future__ import annotations

import os
import signal

from tests.emulator import Terminal
from tests.surroundings import complains
from tests.world import SESH, World, eventually


def test_a_living_session(world: World) -> None:
    old = world.start(
        "a", "cat", options=["-gshop", "--timeout", "1h", "--retries", "1", "--retry-delay", "0.2"]
    )
    done = world.ok("rename", "a", "b")
    assert (done.out, done.err) == ("", "")
    assert [one["name"] for one in world.ls()] == ["b"]
    new = world.session("b")
    same = {"id", "pid", "pane", "group", "state", "started", "generation", "care"}
    assert {key: new[key] for key in same} == {key: old[key] for key in same}
    assert world.tmux("list-sessions", "-F", "#{session_name}") == "b"
    complains(world.sesh("show", "a"), 4, "no session named a")
    world.ok("send", "b", "hello")
    assert eventually(lambda: "hello" in world.ok("logs", "b").out)
    [event] = [one for one in world.events() if one["kind"] == "renamed"]
    assert (event["name"], event["previous"], event["id"]) == ("b", "a", old["id"])
    assert "was a" in world.ok("events", "b").out
    listed = world.ls("--all")  # nothing is an orphan
    assert [(one["name"], one["state"]) for one in listed] == [("b", "running")]
    assert old["id"] not in world.ok("gc", "--dry-run", "--json").out
    assert world.ok("stop", "--orphans", "-y").code == 0
    assert world.session("b")["pid"] == old["pid"]
    os.kill(old["pid"], signal.SIGKILL)  # the retry is made, under the new name
    assert eventually(lambda: world.session("b")["generation"] == 2 or None, 30)
    assert eventually(lambda: world.state_of("b") == "running", 30)
    world.ok("stop", "b")
    world.ok("rm", "-y", "b")
    assert world.ls() == []
    assert eventually(lambda: not [*world.state.rglob(f"*{old['id']}*")])


def test_the_old_name_is_free(world: World) -> None:
    first = world.start("a")
    world.ok("rename", "a", "b")
    second = world.start("a")
    assert {one["name"]: one["id"] for one in world.ls()} == {"a": second["id"], "b": first["id"]}
    world.ok("rename", "a", "c")
    world.ok("rename", "b", "a")
    assert {one["name"]: one["id"] for one in world.ls()} == {"a": first["id"], "c": second["id"]}
    assert set(world.tmux("list-sessions", "-F", "#{session_name}").split()) == {"a", "c"}
    assert world.ok("restart", "-y", "a", "c").code == 0
    assert {one["state"] for one in world.ls()} == {"running"}


def test_an_ended_session_keeps_its_output_and_starts_again(world: World) -> None:
    world.start("a", "sh", "-c", 'echo "i am $SESH_NAME"; exit 3')
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("rename", "a", "b")
    assert world.session("b")["exit_code"] == 3
    assert world.ok("logs", "b").out == "i am a\n"
    world.ok("restart", "b")
    assert eventually(lambda: "i am b" in world.ok("logs", "b").out)
    world.ok("stop", "b")
    world.ok("rename", "b", "c")
    world.start("b")
    world.ok("rm", "c")
    assert [one["name"] for one in world.ls()] == ["b"]


def test_a_name_that_is_taken(world: World) -> None:
    world.start("a")
    world.start("b")
    before = world.record("a").read_bytes()
    complains(world.sesh("rename", "a", "b"), 8, "b is already running")
    complains(world.sesh("rename", "a", "a"), 8, "already has that name")
    complains(world.sesh("rename", "a", "no/name"), 2, "invalid name")
    complains(world.sesh("rename", "nobody", "c"), 4, "no session named nobody")
    assert world.record("a").read_bytes() == before
    ended = world.session("b")["id"]
    world.ok("stop", "b")
    world.ok("rename", "a", "b")
    assert [one["name"] for one in world.ls()] == ["b"]
    assert (world.state / "history" / f"{ended}.toml").exists()
    assert world.state_of("b") == "running"
    world.tmux("new-session", "-d", "-s", "mine")
    complains(world.sesh("rename", "b", "mine"), 8, "tmux already has a session named mine")
    assert world.tmux("list-panes", "-s", "-t", "=b:", "-F", "#{pane_id}")


def test_inside_the_session_sesh_still_finds_it(world: World) -> None:
    world.start("a", "sh", "-c", f"while read -r line; do {SESH} update --phase $line; done")
    world.ok("rename", "a", "b")
    world.start("a")
    world.ok("send", "b", "executing")
    assert eventually(lambda: world.session("b")["phase"] == "executing", 30)
    assert world.session("a")["phase"] is None


def test_a_record_only_session(world: World) -> None:
    world.ok("start", "a", "--record-only")
    world.ok("rename", "a", "b")
    world.ok("update", "b", "--phase", "planning")
    assert world.session("b")["phase"] == "planning"


def test_a_kill_between_two_steps(world: World) -> None:
    """After the move of the file and before its new text; and between tmux and the record."""
    old = world.start("a")
    sessions = world.state / "sessions"
    (sessions / ".renamed").mkdir(mode=0o700)
    (sessions / ".renamed" / old["id"]).write_text("b\n")
    assert [one["name"] for one in world.ls()] == ["a"]
    (sessions / "a.toml").rename(sessions / "b.toml")
    assert [(one["name"], one["id"], one["state"]) for one in world.ls()] == [
        ("b", old["id"], "running")
    ]
    terminal = Terminal(world)
    terminal.run("sesh attach b")  # tmux has the old name
    assert eventually(lambda: world.tmux("list-clients", "-F", "#{client_session}") == "b")
    (sessions / "c.toml").write_bytes((sessions / "b.toml").read_bytes())
    assert {one["name"]: one["state"] for one in world.ls()} == {"b": "running", "c": "damaged"}
