"""The table of sessions at any width, and the line below it."""

from __future__ import annotations

import re
from textwrap import dedent
from typing import Any

import pytest

from sesh.model.text import formatting
from sesh.terminal import output, session_table

NOW = 1_800_000_000.0
LONG = "a-very-long-name-that-was-chosen-for-one-session"


def view(
    name: str, state: str = "running", command: str = "sleep 9", **more: Any
) -> dict[str, Any]:
    times = {"started": formatting.stamp(NOW - 7200), "last_output": formatting.stamp(NOW - 240)}
    return (
        {"name": name, "state": state, "command": command.split(), "place": "host"} | times | more
    )


def failed(name: str, state: str = "failed", reason: str = "exit 1", **more: Any) -> dict[str, Any]:
    ended = formatting.stamp(NOW - 1200)
    return view(name, state, reason=reason, attention=reason, ended=ended, **more)


def table(views: list[dict[str, Any]], width: int | None = None, **options: bool) -> str:
    wanted = {"wide": False, "colour": False} | options
    return session_table.session_table(views, width=width, now=NOW, **wanted)


def is_shown(shown: str, wanted: str) -> None:
    assert shown.strip("\n") == dedent(wanted).strip("\n")


DAY = [
    view("api", command="./server --port 8080"),
    view("hangs", reason="hung: silent for 10 minutes", attention="hung: silent for 10 minutes"),
    failed("payments", reason="exit 1; all 3 retries used"),
    failed("docs", "lost", "this machine was restarted"),
    view("e2e", "stopped", reason="stopped on request", ended=formatting.stamp(NOW - 60)),
    view("build", "completed", reason="exit 0", ended=formatting.stamp(NOW)),
]


def test_the_table_shows_how_and_when_sessions_have_ended() -> None:
    is_shown(
        table(DAY),
        """
        NAME       STATE       UP   LAST OUTPUT   COMMAND
        api        running     2h   4m ago        ./server --port 8080
        hangs      running     2h   4m ago        sleep 9                hung: silent for 10 minutes
        payments   failed      –    4m ago        sleep 9                exit 1; all 3 retries used, 20m ago
        docs       lost        –    4m ago        sleep 9                this machine was restarted, 20m ago
        e2e        stopped     –    4m ago        sleep 9                1m ago
        build      completed   –    4m ago        sleep 9                exit 0, just now
        """,  # noqa: E501  # as it is shown
    )


def test_narrow_tables_keep_commands_and_reasons() -> None:
    is_shown(
        table(DAY, 80),
        """
        NAME      STATE      LAST OUTPUT  COMMAND
        api       running    4m ago       ./server --port 8080
        hangs     running    4m ago       sleep 9  hung: silent for 10 minutes
        payments  failed     4m ago       sleep 9  exit 1; all 3 retries used, 20m ago
        docs      lost       4m ago       sleep 9  this machine was restarted, 20m ago
        e2e       stopped    4m ago       sleep 9  1m ago
        build     completed  4m ago       sleep 9  exit 0, just now
        """,
    )
    is_shown(
        table(DAY, 60),
        """
        NAME      STATE      COMMAND
        api       running    ./server --port 8080
        hangs     running    sleep 9  hung: silent for 10 minutes
        payments  failed     sleep 9  exit 1; all 3 retries used, 2…
        docs      lost       sleep 9  this machine was restarted, 2…
        e2e       stopped    sleep 9  1m ago
        build     completed  sleep 9  exit 0, just now
        """,
    )


AGENT = view("agent", activity="waiting", waiting_for="permission: Bash", attention="waits: Bash")


def test_in_narrow_tables_a_reason_takes_the_place_of_columns() -> None:
    is_shown(
        table([*DAY, AGENT], 40),
        """
        NAME      STATE    ACTIVITY  COMMAND
        api       running  –         ./server -…
        hangs     hung: silent for 10 minutes
        payments  exit 1; all 3 retries used, 2…
        docs      lost: this machine was restar…
        e2e       stopped, 1m ago
        build     completed: exit 0, just now
        agent     waiting: Bash
        """,
    )
    is_shown(
        table(DAY, 30),
        """
        NAME      STATE    COMMAND
        api       running  ./server -…
        hangs     hung: silent for 10…
        payments  exit 1; all 3 retri…
        docs      lost: this machine …
        e2e       stopped, 1m ago
        build     completed
        """,
    )
    is_shown(
        table([*DAY, AGENT], 20),
        """
        NAME      STATE
        api       running
        hangs     hung: sil…
        payments  exit 1; a…
        docs      lost
        e2e       stopped
        build     completed
        agent     waiting: …
        """,
    )


def test_a_long_name_or_command_does_not_squeeze_other_rows() -> None:
    views = [view("api", command="./server --port 8080"), view("web", command="npm run dev")]
    odd = [view(LONG), view("x", command="make " + "all " * 30)]
    is_shown(
        table(views + odd, 80),
        """
        NAME                              STATE    UP  LAST OUTPUT  COMMAND
        api                               running  2h  4m ago       ./server --port 8080
        web                               running  2h  4m ago       npm run dev
        a-very-long-name-that-was-chose…  running  2h  4m ago       sleep 9
        x                                 running  2h  4m ago       make all all all al…
        """,
    )


@pytest.mark.parametrize("width", [60, 70, 80, 100])
def test_a_reason_does_not_squeeze_the_commands_of_other_rows(width: int) -> None:
    """They may run into the room that the reason of another row takes."""
    command = "./server --port 8080 --verbose"
    views = [view("api", command=command), view("web", command="npm run dev")]
    bad = failed("bad", reason="exit 1; all 3 retries used", command="make all tests docs")
    shown = table([*views, bad], width).splitlines()
    assert shown[1].endswith(command)
    assert "  make all " in shown[3]
    assert "  exit 1; all 3 re" in shown[3]


def test_a_long_reason_takes_no_more_than_is_left() -> None:
    shown = table([*DAY, failed("odd", reason="because " * 30)], 100).splitlines()
    assert shown[3].endswith("exit 1; all 3 retries used, 20m ago")
    assert shown[-1].endswith("…")
    assert all(len(line) <= 100 for line in shown)


def test_long_names_that_begin_alike_stay_different() -> None:
    names = [f"worker-for-the-shop-number-{number}" for number in range(3)]
    names += [f"shop-{number}-of-all-the-shops-that-there-are" for number in range(2)]
    views = [view(name) for name in names]
    is_shown(
        table(views, 40),
        """
        NAME                    STATE    COMMAND
        worker-for-the…umber-0  running  sleep 9
        worker-for-the…umber-1  running  sleep 9
        worker-for-the…umber-2  running  sleep 9
        shop-0-of-all-the-sho…  running  sleep 9
        shop-1-of-all-the-sho…  running  sleep 9
        """,
    )
    middle = [view("w" * 25 + number + "x" * 25) for number in "12"]
    for width in range(20, 120, 3):
        shown = [line.split()[0] for line in table(views + middle, width).splitlines()]
        assert len({*shown}) == len(shown), shown


def test_columns_that_say_nothing_go_first_and_tags_late() -> None:
    """`ls --wide`: WHERE is only `host`, no session has a group."""
    known: dict[str, Any] = {
        "pid": 12345,
        "memory_bytes": 5 << 20,
        "cpu_seconds": 0.3,
        "generation": 1,
    }
    some: dict[str, Any] = known | {"cwd": "/home/ada/src/shop/frontend", "tags": ["web", "prod"]}
    views = [view("web", command="./server --port 8080", **some), failed("api", **some)]

    def titles(width: int, wide: bool = True) -> str:
        return " ".join(table(views, width, wide=wide).splitlines()[0].split())

    assert titles(140) == ("NAME STATE UP LAST OUTPUT PID MEMORY CPU GEN DIRECTORY TAGS COMMAND")
    assert titles(110) == "NAME STATE UP LAST OUTPUT PID MEMORY CPU DIRECTORY TAGS COMMAND"
    assert titles(90) == "NAME STATE LAST OUTPUT MEMORY DIRECTORY TAGS COMMAND"
    assert titles(60) == "NAME STATE TAGS COMMAND"
    assert titles(60, wide=False) == "NAME STATE TAGS COMMAND"


@pytest.mark.parametrize("width", range(16, 180, 5))
@pytest.mark.parametrize("wide", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, wide: bool) -> None:
    odd = [view(LONG, tags=["x", "y"], container="c" * 30), failed("日本語" * 12)]
    plain = table([*DAY, *odd], width, wide=wide).splitlines()
    assert all(formatting.display_width(line) <= width for line in plain)
    assert all(row[0] != " " and row.split()[1] for row in plain), plain
    painted = table([*DAY, *odd], width, wide=wide, colour=True)
    assert re.sub(r"\x1b\[\d*m", "", painted).splitlines() == plain


def test_where_is_shown_if_any_session_is_not_on_this_host_and_tags_if_any_has_some() -> None:
    assert not {"WHERE", "TAGS"} & set(table(DAY).split())
    views = [view("a", container="node-22"), view("b", tags=["web", "prod"])]
    is_shown(
        table(views),
        """
        NAME   STATE     UP   LAST OUTPUT   WHERE     TAGS        COMMAND
        a      running   2h   4m ago        node-22   –           sleep 9
        b      running   2h   4m ago        host      web, prod   sleep 9
        """,
    )


def test_the_home_directory_is_a_tilde(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", "/home/ada")
    views = [view("a", command="/home/ada/bin/run /home/adam /home/ada", cwd="/home/ada/src")]
    assert table(views).splitlines()[1].endswith("~/bin/run /home/adam ~")
    assert "   ~/src   " in table(views, wide=True)
    monkeypatch.setenv("HOME", "/")
    assert output.from_home("/usr/bin /") == "/usr/bin /"


def test_colours_point_at_what_needs_attention() -> None:
    """Names bold, ended rows dim, states and reasons in their colour; hung is yellow."""
    shown = table(DAY, colour=True)
    for painted in (
        "\x1b[1mapi\x1b[0m",
        "\x1b[32mrunning\x1b[0m",
        "\x1b[33mrunning\x1b[0m",
        "\x1b[33mhung: silent for 10 minutes\x1b[0m",
        "\x1b[1mpayments\x1b[0m",
        "\x1b[31mfailed\x1b[0m",
        "\x1b[31mexit 1; all 3 retries used, 20m ago\x1b[0m",
        "\x1b[2me2e\x1b[0m",
        "\x1b[2mstopped\x1b[0m",
        "\x1b[2m1m ago\x1b[0m",
    ):
        assert painted in shown, shown


def test_the_closing_line_names_the_next_commands(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = view("agent", attention="waits", activity="waiting")
    orphan = view("left", "orphan", attention="alive", generation=1)
    again = view("again", "recovering", attention="the breaker of group g is open")
    some = [*DAY, waits, orphan, again, failed("more"), failed(LONG, "timeout")]
    closing = session_table.closing_line(some)
    assert closing == (
        "8 need attention: agent (waiting: sesh attach agent) · hangs (hung)"
        " · again (sesh restart again) · docs (sesh restart docs, or sesh stop docs to dismiss)"
        f" · payments, more, {LONG} (sesh restart --failed)"
        " · left (sesh adopt left, or sesh stop left)"
    )
    for columns in (120, 80, 60, 50):
        monkeypatch.setattr(output, "terminal_width", lambda width=columns: width)
        lines = (session_table.closing_line(some) or "").splitlines()
        assert " ".join(lines).replace(") again", ") · again") == closing
        assert all(len(line) <= columns for line in lines)


def troubled(name: str, why: str) -> dict[str, Any]:
    return view(name, reason=why, attention=why)


def test_the_closing_line_names_what_is_wrong_with_running_sessions() -> None:
    hangs = troubled("hangs", "hung: silent for 10m")
    sick = troubled("sick", "unhealthy: health check exited 1")
    frozen = troubled("cold", "the agent is stopped by a signal (kill -CONT continues it)")
    astray = troubled("off", "on branch main, should be on topic")
    closing = session_table.closing_line
    assert closing([hangs, sick]) == "2 need attention: hangs (hung), sick (unhealthy)"
    assert closing([frozen]) == "1 needs attention: cold (stopped by a signal)"
    assert closing([astray, hangs, hangs, sick]) == (
        "4 need attention: off (on branch main, should be on topic), hangs (hung), hangs (hung)"
        " and 1 more"
    )
    damaged = {"name": "odd", "state": "damaged", "reason": "empty file", "attention": None}
    assert closing([damaged]) == "1 needs attention: odd (damaged: sesh show odd)"
