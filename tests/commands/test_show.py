"""sesh show: everything known, with the evidence and the cause of death."""

from __future__ import annotations

import re

import pytest

from sesh.model.session_json import FIELDS
from tests.conftest import need
from tests.surroundings import Terminal, complains
from tests.world import SESH, World, eventually


def test_a_running_session(world: World) -> None:
    shown = world.start("a", options=["--group", "web", "--tag", "x", "-e", "KEY=value"])
    done = world.ok("show", "a")
    assert done.err == ""
    assert done.out.startswith("a  running\n")
    for words in (
        "command    sleep 1000",
        f"pane {shown['pane']}",
        str(world.cwd),
        "generation 1",
        "web   tags x",
        "variables  KEY",
        f"agent present: process {shown['pid']} is alive",
        "sesh stop a",
    ):
        assert words in done.out, words
    assert "value" not in done.out


@pytest.mark.parametrize(
    ("command", "state", "cause", "words"),
    [
        ("exit 0", "completed", "exit", "exit status 0"),
        ("exit 3", "failed", "exit", "exit status 3"),
        ("kill -9 $$", "failed", "signal", "signal 9"),
        ("kill -15 $$", "failed", "signal", "signal 15"),
    ],
)
def test_the_cause_of_death(world: World, command: str, state: str, cause: str, words: str) -> None:
    world.start("a", "sh", "-c", command)
    assert eventually(lambda: world.state_of("a") == state)
    out = world.ok("show", "a").out
    assert out.startswith(f"a  {state}")
    line = next(line for line in out.splitlines() if line.strip().startswith("cause"))
    assert cause in line
    assert words in line
    assert f"record says {state}" in out
    assert "sesh restart a" in out


def test_a_session_whose_terminal_was_closed(world: World) -> None:
    world.start("a")
    world.start("keeps-the-server")
    world.tmux("kill-session", "-t", "=a")
    assert eventually(lambda: world.state_of("a") == "lost")
    out = world.ok("show", "a").out
    assert "a  lost" in out
    assert "terminal-gone" in out


def test_evidence_of_the_first_look_names_the_exit_file(world: World) -> None:
    """Before anything is in the record, the keeper's word is what proves the end."""
    world.start("a", "sh", "-c", "sleep 0.3; exit 5")
    assert eventually(lambda: list(world.state.glob("run/*/*.exit")))
    shown = world.ok("show", "a", "--json").json
    assert (shown["state"], shown["exit_code"]) == ("failed", 5)
    text = " ".join(shown["evidence"])
    assert "exit file of generation 1 says 5, terminal here" in text or "record says" in text


def test_json_is_the_session_plus_evidence_and_usage(world: World) -> None:
    world.start("a")
    shown = world.ok("show", "a", "--json").json
    assert tuple(shown) == (*FIELDS, "evidence")
    assert shown["memory_bytes"] > 10_000
    assert shown["cpu_seconds"] >= 0
    assert shown["evidence"]


def test_a_damaged_record_is_named_with_its_file(world: World) -> None:
    world.start("a")
    world.record("a").write_text("")
    done = world.ok("show", "a")
    assert "a  damaged" in done.out
    assert str(world.record("a")) in done.out
    assert "empty file" in done.out
    shown = world.ok("show", "a", "--json").json
    assert shown["state"] == "damaged"


def test_no_such_session_with_a_near_name(world: World) -> None:
    world.start("fix-login")
    complains(world.sesh("show", "fix-logn"), 4, "did you mean fix-login?")
    complains(world.sesh("show", "zzz"), 4, "zzz", "sesh ls")


def test_colour(world: World) -> None:
    world.start("a")
    assert "\x1b[32mrunning\x1b[0m" in world.ok("show", "a", "--color", "always").out
    assert "\x1b" not in world.ok("show", "a").out


def test_the_work_in_git_is_told(world: World) -> None:
    need("git")
    from tests.surroundings import shell

    done = shell(
        world,
        "git init -q -b topic . && git -c user.name=a -c user.email=a@b commit -q "
        "--allow-empty -m x && touch new",
    )
    assert done.code == 0, done
    world.start("a")
    out = world.ok("show", "a").out
    assert "branch topic (uncommitted changes)" in out


# --- how it is looked after ----------------------------------------------------------------------


def care_of(world: World, name: str) -> str:
    return world.ok("show", name).out.partition("  care ")[2].partition("\n  why ")[0]


def test_health_by_silence_alone(world: World) -> None:
    world.start("a", "cat", options=["--max-silence", "1s"])
    assert eventually(lambda: world.session("a")["health"] == "hung")
    assert "health hung (silent for 1 second)" in care_of(world, "a")
    world.start("b", options=["--max-silence", "1h"])
    world.ok("pass")
    assert "health ok\n" in care_of(world, "b") + "\n"


def test_a_health_command_did_not_say_what_silence_says(world: World) -> None:
    world.start("a", "cat", options=["--max-silence", "1s", "--health-cmd", "true"])
    assert eventually(lambda: world.session("a")["health"] == "hung")
    supervision = care_of(world, "a")
    assert (
        "health hung (silent for 1 second); health command: true (every 30 seconds, " in supervision
    )


def test_a_failing_health_command(world: World) -> None:
    options = ["--health-cmd", "exit 7", "--health-interval", "300ms", "--health-retries", "1"]
    world.start("a", options=options)
    assert eventually(lambda: world.session("a")["health"] == "failing")
    assert "health failing (its health command: exit 7); health command:" in care_of(world, "a")
    world.ok("stop", "a")
    assert "health command: exit 7 (every" in care_of(world, "a")
    assert "not known" not in care_of(world, "a")


def test_a_retry_delay_beyond_the_longest_is_shown_as_it_works(world: World) -> None:
    world.start("a", options=["--retries", "1", "--retry-delay", "10m"])
    assert "0 of 1 retries used (failure; 5 minutes; reset" in care_of(world, "a")
    world.start("b", options=["--retries", "1", "--retry-delay", "1m"])
    assert "(failure; 1 minute to 5 minutes; reset" in care_of(world, "b")


# --- on a terminal -------------------------------------------------------------------------------

CARE = ["--retries", "5", "--retry-delay", "1m", "--timeout", "3h", "--max-memory", "2G"]
HEALTH = ["--health-cmd", "curl -sf http://localhost:8080/health | grep -q up"]


@pytest.mark.parametrize("columns", [60, 80, 120])
def test_long_values_are_wrapped_under_themselves(world: World, columns: int) -> None:
    world.start("a", "sh", "-c", "exit 3", options=[*CARE, *HEALTH])
    assert eventually(lambda: world.state_of("a") == "recovering")
    piped = world.ok("show", "a").out
    assert max(map(len, piped.splitlines())) > 120
    code, screen = Terminal(world, SESH, "show", "a", columns=columns, rows=60).finish()
    head, *lines = screen.rstrip().splitlines()
    assert (code, head.split()[:2]) == (0, ["a", "recovering"])
    assert all(len(line) <= columns for line in lines)
    assert all(line[:13] == " " * 13 or line[:3] != "   " for line in lines), screen
    assert all(line[12] == " " and line[13] != " " for line in lines), screen
    words = [re.sub(r"\d+", "0", text).split() for text in (screen, piped)]
    assert words[0] == words[1]  # none is broken, none is lost


def test_a_reason_that_does_not_fit_stands_below(world: World) -> None:
    world.start("a")
    world.record("a").write_text(world.record("a").read_text().replace("spec", "x" * 90))
    _, screen = Terminal(world, SESH, "show", "a", columns=80).finish()
    assert all(line.startswith(("a  damaged", "  ")) for line in screen.rstrip().splitlines())
    name = "long-" * 12
    world.start(f"{name}a", "sh", "-c", "exit 3", options=["--retries", "2"])
    assert eventually(lambda: world.state_of(f"{name}a") == "recovering")
    _, screen = Terminal(world, SESH, "show", f"{name}a", columns=80).finish()
    first, second, *_ = screen.splitlines()
    assert (first, second) == (f"{name}a  recovering", " " * 13 + "exit 3; retry 1 of 2")


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(world: World, option: str) -> None:
    assert "all details" in world.ok("show", option).out
