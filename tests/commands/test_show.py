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
        f"agent: alive (pid {shown['pid']})",
        "terminal: alive",
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
    assert f"recorded state: {state}" in out
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
    assert "exit file: status 5, terminal alive (generation 1)" in text or "recorded" in text


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


def rows_of(world: World, name: str) -> dict[str, str]:
    """The values of each label; of several lines, joined by a space."""
    rows: dict[str, str] = {}
    label = ""
    for line in world.ok("show", name).out.splitlines()[1:]:
        label = line[2:12].strip() or label
        rows[label] = f"{rows.get(label, '')} {line[13:]}".strip()
    return rows


def test_limits_retries_and_breaker_are_in_plain_words(world: World) -> None:
    limits = [
        "--timeout",
        "3h",
        "--idle-timeout",
        "5m",
        "--max-memory",
        "2G",
        "--max-cpu-time",
        "90s",
    ]
    retries = ["--retries", "3", "--retry-on", "failure,lost", "--group", "boom"]
    breaker = ["--breaker-failures", "1"]
    world.start("a", options=[*limits, *retries, *breaker, "--launch-timeout", "40s"])
    rows = rows_of(world, "a")
    assert re.fullmatch(
        r"timeout 3h, retries included \((3h|2h59m) left\), idle timeout 5m, memory 2G,"
        r" CPU time 90s, measured every \d+s, launch timeout 40s",
        rows["limits"],
    )
    assert rows["retries"] == ("0/3 used, on failure or lost, backoff 10s–5m, reset after 10m")
    assert rows["breaker"] == "opens for 30m after more than 1 failure of group boom in 10m"
    assert "care" not in rows
    world.start("b", options=["--retries", "1", "--group", "boom", "--breaker-failures", "0"])
    assert rows_of(world, "b")["breaker"] == "off"
    world.start("c")
    assert not {"limits", "retries", "health", "breaker"} & set(rows_of(world, "c"))


def test_health_by_silence_alone(world: World) -> None:
    world.start("a", "cat", options=["--max-silence", "1s"])
    assert eventually(lambda: world.session("a")["health"] == "hung")
    rows = rows_of(world, "a")
    assert (rows["limits"], rows["health"]) == ("hung after 1s of silence", "hung: silent for 1s")
    world.start("b", options=["--max-silence", "1h"])
    world.ok("pass")
    assert rows_of(world, "b")["health"] == "ok"


def test_a_health_command_did_not_say_what_silence_says(world: World) -> None:
    world.start("a", "cat", options=["--max-silence", "1s", "--health-cmd", "true"])
    assert eventually(lambda: world.session("a")["health"] == "hung")
    assert rows_of(world, "a")["health"] == (
        "hung: silent for 1s check: true every 30s, timeout 30s, unhealthy after 3 failures"
    )


def test_a_failing_health_command(world: World) -> None:
    options = ["--health-cmd", "exit 7", "--health-interval", "300ms", "--health-retries", "1"]
    world.start("a", options=options)
    assert (
        "health     unknown (no result yet)" in world.ok("show", "a").out
        or (world.session("a")["health"])
    )
    assert eventually(lambda: world.session("a")["health"] == "failing")
    check = "check: exit 7 every 0.3s, timeout 30s, unhealthy after 1 failure"
    assert rows_of(world, "a")["health"] == f"unhealthy: health check exited 7 {check}"
    assert world.session("a")["attention"] == "unhealthy: health check exited 7"
    world.ok("stop", "a")
    assert rows_of(world, "a")["health"] == check


def test_a_retry_delay_beyond_the_longest_is_shown_as_it_works(world: World) -> None:
    world.start("a", options=["--retries", "1", "--retry-delay", "10m"])
    assert "0/1 used, on failure, backoff 5m, reset" in rows_of(world, "a")["retries"]
    world.start("b", options=["--retries", "1", "--retry-delay", "1m"])
    assert "on failure, backoff 1m–5m, reset" in rows_of(world, "b")["retries"]


def test_an_agent_that_has_reported_nothing_yet(world: World) -> None:
    world.ok("start", "a", "-t", "shell")
    assert rows_of(world, "a").get("activity", "unknown (no report from the agent yet)")


# --- on a terminal -------------------------------------------------------------------------------

CARE = ["--retries", "5", "--retry-delay", "1m", "--timeout", "3h", "--max-memory", "2G"]
HEALTH = ["--health-cmd", "curl -sf http://localhost:8080/health | grep -q up"]


@pytest.mark.parametrize("columns", [40, 60, 80, 120])
def test_long_values_are_wrapped_under_themselves(world: World, columns: int) -> None:
    world.start("a", "sh", "-c", "exit 3", options=[*CARE, *HEALTH, "-C", "/"])
    assert eventually(lambda: world.state_of("a") == "recovering")
    piped = world.ok("show", "a").out
    code, screen = Terminal(world, SESH, "show", "a", columns=columns, rows=60).finish()
    head, *lines = screen.rstrip().splitlines()
    assert (code, head.split()[:2]) == (0, ["a", "recovering"])
    assert all(len(line) <= columns for line in lines)
    assert all(line[:13] == " " * 13 or line[:3] != "   " for line in lines), screen
    assert all(line[12] == " " and line[13] != " " for line in lines), screen
    if columns > 40:  # where one is longer than a line
        # None is broken, none is lost. ("now" becomes "1s ago" between two looks.)
        ages = re.compile(r"now|in \d+s|\d+s ago|\d+s|\d+|·")
        assert ages.sub("", screen).split() == ages.sub("", piped).split()


@pytest.mark.parametrize("columns", [20, 30])
def test_in_a_very_narrow_terminal_values_are_below_their_labels(
    world: World, columns: int
) -> None:
    world.start("a", "sh", "-c", "exit 3", options=["--retries", "3", "-C", "/"])
    assert eventually(lambda: world.state_of("a") == "recovering")
    _, screen = Terminal(world, SESH, "show", "a", columns=columns, rows=80).finish()
    lines = screen.rstrip().splitlines()
    assert all(len(line) <= columns for line in lines), screen
    assert "  retries" in lines
    words = " ".join(screen[screen.index("  retries") :].split())
    assert words.startswith("retries 0/3 used, on failure, backoff 10s–5m, reset after 10m,")
    assert "    sesh restart a" in screen
    assert "sesh stop a" in screen


@pytest.mark.parametrize("columns", range(34, 90, 7))
def test_commands_are_never_broken(world: World, columns: int) -> None:
    world.start("bad", "false")
    assert eventually(lambda: world.state_of("bad") == "failed")
    _, screen = Terminal(world, SESH, "show", "bad", columns=columns, rows=60).finish()
    following = screen[screen.index("  next") :]
    for command in ("sesh attach bad", "sesh restart bad", "sesh stop bad"):
        assert command in following, screen


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


# --- several -----------------------------------------------------------------------------------


def test_several_are_shown_in_turn_with_an_empty_line_between(world: World) -> None:
    world.start("a")
    world.start("b")
    done = world.ok("show", "b", "a", "b")
    assert re.findall(r"^(\S+)  running$", done.out, re.M) == ["b", "a"]
    assert "\n\na  running\n" in done.out
    assert [one["name"] for one in world.ok("show", "b", "a", "--json").json] == ["b", "a"]
    assert all(one["evidence"] for one in world.ok("show", "b", "a", "--json").json)
    assert world.ok("show", "b", "--json").json["name"] == "b"


def test_an_unknown_one_of_several_keeps_none_of_the_others(world: World) -> None:
    world.start("a")
    world.start("torn")
    world.record("torn").write_text("x")
    done = world.sesh("show", "none", "a", "torn")
    assert done.code == 9
    assert "no session named none" in done.err
    assert re.findall(r"^(a|torn)  (\S+)", done.out, re.M) == [
        ("a", "running"),
        ("torn", "damaged"),
    ]
    done = world.sesh("show", "none", "a", "--json")
    assert (done.code, [one["name"] for one in done.json]) == (9, ["a"])
    assert world.sesh("show", "none", "nothing").code == 4
