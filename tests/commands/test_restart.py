"""sesh restart: the next generation, in the same place where it still stands."""

from __future__ import annotations

import os
import shutil
import signal
import time
from pathlib import Path

from tests import pace
from tests.emulator import Terminal
from tests.surroundings import complains, fake_tmux, files
from tests.world import World, eventually


def fail(world: World, name: str, *options: str) -> None:
    world.start(name, "sh", "-c", "exit 3", options=options)
    assert eventually(lambda: world.state_of(name) == "failed")


def lose(world: World, name: str, *options: str) -> None:
    world.start(name, options=options)
    world.tmux("kill-session", "-t", f"={name}")
    assert eventually(lambda: world.state_of(name) == "lost")


def make_stale(world: World, name: str) -> None:
    world.start(name, "sh", "-c", "test -e again && exec sleep 1000; sleep 0.2")
    world.tmux("new-window", "-d", "-t", f"={name}:", "sleep", "1000")
    assert eventually(lambda: world.state_of(name) == "stale")
    (world.cwd / "again").touch()


def states(world: World) -> dict[str, tuple[str, int]]:
    return {one["name"]: (one["state"], one["generation"]) for one in world.ls()}


def test_same_name_next_generation_same_pane_scrollback_kept(world: World) -> None:
    script = "echo generation; test -e again && exec sleep 1000; touch again; exit 3"
    first = world.start("a", "sh", "-c", script)
    assert eventually(lambda: world.state_of("a") == "failed")
    window = world.tmux("display-message", "-p", "-t", "=a:", "#{window_id}")
    done = world.ok("restart", "a")
    assert (done.out, done.err) == ("a\n", "")
    second = world.session("a")
    assert (second["state"], second["generation"], second["id"]) == ("running", 2, first["id"])
    assert second["pane"] == first["pane"]
    assert world.tmux("display-message", "-p", "-t", "=a:", "#{window_id}") == window
    text = f"{world.state}/transcripts/{first['id']}"
    assert "generation" in Path(text + ".screen").read_text()
    assert eventually(lambda: Path(text + ".log").read_text().count("generation") == 2)
    assert "restarted" in [e["kind"] for e in world.events()]


def test_scrollback_stays_in_the_pane(world: World) -> None:
    """What had scrolled off the screen is still there to scroll back to."""
    script = "seq -f 'line-%g' 200; test -e again && exec sleep 1000; touch again; exit 3"
    world.start("a", "sh", "-c", script)
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("restart", "a")

    def lines() -> int:
        text = world.tmux("capture-pane", "-p", "-S", "-", "-t", "=a:")
        return text.splitlines().count("line-1")

    assert eventually(lambda: lines() == 2), lines()


def test_a_living_one_is_stopped_first(world: World) -> None:
    first = world.start("a")
    done = world.ok("restart", "a")
    assert done.out == "a\n"
    second = world.session("a")
    assert (second["state"], second["generation"]) == ("running", 2)
    assert second["pane"] == first["pane"]
    assert second["pid"] != first["pid"]
    assert not Path(f"/proc/{first['pid']}").exists()


def test_with_the_tmux_server_gone_a_new_one_is_made(world: World) -> None:
    world.start("a", "sh", "-c", "echo begin; sleep 1000")
    server = world.server_pid()
    os.kill(server, signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "lost")
    world.ok("restart", "a")
    assert states(world) == {"a": ("running", 2)}
    assert world.server_pid() != server


def test_a_tmux_server_that_is_just_exiting_is_left_to_go(world: World) -> None:
    """It says so to everybody who asks, until its socket is gone."""
    world.start("a")
    world.ok("stop", "a")
    left = world.root / "left"
    left.write_text("2")
    leaving = 'case "$*" in *list-panes*) n=$(cat {0}); [ $n = 0 ] || {{ echo $((n - 1)) >{0}; '
    leaving += "echo server exited unexpectedly >&2; exit 1; }};; esac; "
    env = fake_tmux(world, f'{leaving.format(left)}exec {shutil.which("tmux")} "$@"')
    world.ok("restart", "a", env=env)
    assert left.read_text().strip() == "0"
    assert world.state_of("a") == "running"


def test_with_its_tmux_session_gone_a_new_one_is_made(world: World) -> None:
    world.start("other")
    lose(world, "a")
    world.ok("restart", "a")
    assert states(world)["a"] == ("running", 2)
    assert world.tmux("list-panes", "-a", "-F", "#{session_name}").split() == ["a", "other"]


def test_a_second_window_of_the_user_stays(world: World) -> None:
    make_stale(world, "a")
    world.ok("restart", "a")
    assert states(world) == {"a": ("running", 2)}
    assert len(world.tmux("list-panes", "-a").splitlines()) == 2


def test_word_of_the_last_generation_is_not_believed(world: World) -> None:
    fail(world, "a")
    (old,) = world.state.glob("run/*/*.exit")
    word = old.read_bytes()
    world.start("b")
    world.ok("restart", "a")
    assert eventually(lambda: states(world)["a"] == ("failed", 2))
    old.write_bytes(word)  # somebody puts the old word back
    assert states(world)["a"] == ("failed", 2)
    world.sesh("restart", "b")
    stray = Path(str(old).replace(world.session("a")["id"], world.session("b")["id"]))
    stray.write_bytes(word)
    assert states(world)["b"] == ("running", 2)


def test_the_directory_is_gone(world: World) -> None:
    (world.cwd / "sub").mkdir()
    world.start("a", "sh", "-c", "exit 3", options=["-C", "sub"])
    assert eventually(lambda: world.state_of("a") == "failed")
    (world.cwd / "sub").rmdir()
    complains(world.sesh("restart", "a"), 1, "a", "directory")
    assert world.session("a")["cause"] == "launch"


def test_selections(world: World) -> None:
    """--failed, --lost, --stale: just these, and each is reported."""
    world.start("fine")
    fail(world, "f1")
    fail(world, "f2")
    lose(world, "l1")
    make_stale(world, "s1")
    assert world.ok("restart", "--lost").out == "l1\n"
    assert world.ok("restart", "--failed").out == "f1\nf2\n"
    assert world.ok("restart", "--stale").out == "s1\n"
    assert eventually(lambda: states(world)["f2"] == ("failed", 2))
    after = states(world)
    assert after["fine"] == ("running", 1)
    assert after["l1"] == ("running", 2)
    assert after["s1"] == ("running", 2)
    assert after["f1"] == ("failed", 2)
    assert world.ok("restart", "--lost").err == "sesh: nothing to restart\n"


def test_what_a_limit_ended_has_failed_too(world: World) -> None:
    world.start("one", options=("--timeout", "500ms"))
    assert eventually(lambda: world.state_of("one") == "timeout")
    assert world.ok("restart", "--failed").out == "one\n"


def test_a_selection_within_a_group(world: World) -> None:
    lose(world, "a", "--group", "web")
    lose(world, "b", "--group", "db")
    world.start("c", options=["--group", "web"])
    assert world.ok("restart", "--lost", "--group", "web").out == "a\n"
    assert states(world) == {"a": ("running", 2), "b": ("lost", 1), "c": ("running", 1)}
    world.ok("restart", "--group", "web", "-y")
    assert states(world) == {"a": ("running", 3), "b": ("lost", 1), "c": ("running", 2)}


def test_all_means_living_ones_too_and_needs_a_yes(world: World) -> None:
    world.start("a")
    world.start("b")
    lose(world, "c")
    complains(world.sesh("restart", "--all"), 2, "restart a, b and c (2 alive)?", "-y")
    assert states(world) == {"a": ("running", 1), "b": ("running", 1), "c": ("lost", 1)}
    assert world.ok("restart", "--all", "-y").out == "a\nb\nc\n"
    assert set(states(world).values()) == {("running", 2)}


def test_some_of_several_fail(world: World) -> None:
    (world.cwd / "sub").mkdir()
    world.start("a", "sh", "-c", "exit 3", options=["-C", "sub"])
    lose(world, "b")
    (world.cwd / "sub").rmdir()
    done = world.sesh("restart", "a", "b")
    assert (done.code, done.out) == (9, "b\n")
    assert done.err.startswith("sesh: a could not be launched")
    assert done.err.count("\n") == 1


def test_while_tmux_hangs_nothing_is_changed(world: World) -> None:
    fail(world, "a")
    world.ok("pass")
    server = world.server_pid()
    world.configure("[tmux]\ntimeout = 0.5\n")
    before = files(world.state / "sessions")
    os.kill(server, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        complains(world.sesh("restart", "a"), 5, "a", "tmux")
        assert time.monotonic() - begin < pace.seconds(25)
        assert files(world.state / "sessions") == before
    finally:
        os.kill(server, signal.SIGCONT)
    world.configure("")
    pane = world.session("a")["pane"]
    world.ok("restart", "a")
    assert world.session("a")["generation"] == 2
    assert world.session("a")["pane"] == pane


def test_an_agent_cannot_restart_itself(world: World) -> None:
    from tests.world import SESH

    world.start("a", "sh", "-c", f"{SESH} restart a 2>told; sleep 1000")
    told = world.cwd / "told"
    assert eventually(lambda: told.exists() and told.read_text())
    assert "cannot restart itself" in told.read_text()
    assert states(world) == {"a": ("running", 1)}


def test_names_or_a_selection(world: World) -> None:
    complains(world.sesh("restart"), 2, "--lost")
    complains(world.sesh("restart", "a", "--lost"), 2, "not both")
    complains(world.sesh("restart", "nope"), 4, "nope")


def test_the_socket_swept_away_under_a_living_server(world: World) -> None:
    """tmux's socket is deleted; the server and its other sessions live: it is found again."""
    world.start("b")
    fail(world, "a")
    server = world.server_pid()
    Path(world.socket).unlink()
    assert world.state_of("b") == "running"
    world.ok("restart", "a")
    assert world.server_pid() == server
    assert world.session("a")["generation"] == 2


# --- without a name ----------------------------------------------------------------------------


def test_without_a_name_a_person_picks_one_that_can_be_restarted(world: World) -> None:
    """Ended ones first: Enter alone ends nothing that lives."""
    world.ok("start", "record", "--record-only")
    world.start("api")
    world.start("broken", "false")
    world.start("torn")
    world.record("torn").write_text("x")
    assert eventually(lambda: world.state_of("broken") == "failed")
    terminal = Terminal(world, env={"SESH_PICKER": "builtin"})
    terminal.type("sesh restart; echo code $?")
    terminal.see_screen("""
        $ sesh restart; echo code $?
        restart ▸
          NAME     STATE     COMMAND
        ▸ broken   failed    false
          api      running   sleep 1000
          2 of 2   type to filter · ↑ ↓ choose · Enter takes it · Esc leaves
    """)
    terminal.press("a", "p", "i", "Enter")
    terminal.see("api\ncode 0")
    assert [world.session(name)["generation"] for name in ("api", "broken")] == [2, 1]
    terminal.type("clear; sesh restart; echo code $?")
    terminal.see("2 of 2")
    terminal.press("Escape")
    terminal.see("code 130")


def test_without_a_name_and_nothing_to_restart(world: World) -> None:
    world.ok("start", "record", "--record-only")
    terminal = Terminal(world)
    terminal.type("sesh restart; echo code $?")
    terminal.see("nothing to restart\ncode 0")
