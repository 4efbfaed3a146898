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


def test_narrow_tables_keep_names_states_and_reasons() -> None:
    is_shown(
        table(DAY, 80),
        """
        NAME       STATE       LAST OUTPUT   COMMAND
        api        running     4m ago        ./server …
        hangs      running     4m ago        sleep 9      hung: silent for 10 minutes
        payments   failed      4m ago        sleep 9      exit 1; all 3 retries used, 2…
        docs       lost        4m ago        sleep 9      this machine was restarted, 2…
        e2e        stopped     4m ago        sleep 9      1m ago
        build      completed   4m ago        sleep 9      exit 0, just now
        """,
    )
    is_shown(
        table(DAY, 60),
        """
        NAME       STATE
        api        running
        hangs      running     hung: silent for 10 minutes
        payments   failed      exit 1; all 3 retries used, 20m ago
        docs       lost        this machine was restarted, 20m ago
        e2e        stopped     1m ago
        build      completed   exit 0, just now
        """,
    )
    is_shown(
        table(DAY, 40),
        """
        NAME       STATE
        api        running
        hangs      running     hung: silent for…
        payments   failed      exit 1; all 3 re…
        docs       lost        this machine was…
        e2e        stopped     1m ago
        build      completed   exit 0, just now
        """,
    )
    is_shown(
        table(DAY, 20),
        """
        NAME       STATE
        api        running
        hangs      running
        payments   failed
        docs       lost
        e2e        stopped
        build      completed
        """,
    )


def test_a_long_name_or_command_does_not_squeeze_other_rows() -> None:
    views = [view("api", command="./server --port 8080"), view("web", command="npm run dev")]
    odd = [view(LONG), view("x", command="make " + "all " * 30)]
    is_shown(
        table(views + odd, 80),
        """
        NAME                           STATE     UP   LAST OUTPUT   COMMAND
        api                            running   2h   4m ago        ./server --port 8080
        web                            running   2h   4m ago        npm run dev
        a-very-long-name-that-was-c…   running   2h   4m ago        sleep 9
        x                              running   2h   4m ago        make all all all al…
        """,
    )


def test_a_long_reason_takes_no_more_than_is_left() -> None:
    shown = table([*DAY, failed("odd", reason="because " * 30)], 100).splitlines()
    assert shown[3].endswith("exit 1; all 3 retries used, 20m ago")
    assert shown[-1].endswith("…")
    assert all(len(line) <= 100 for line in shown)


@pytest.mark.parametrize("width", range(16, 140, 5))
@pytest.mark.parametrize("wide", [False, True])
def test_no_line_is_wider_than_the_terminal(width: int, wide: bool) -> None:
    odd = [view(LONG, tags=["x", "y"], container="c" * 30), failed("日本語" * 12)]
    plain = table([*DAY, *odd], width, wide=wide).splitlines()
    assert all(formatting.display_width(line) <= width for line in plain)
    assert all(row[0] != " " and row.split()[1] for row in plain)
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
        "8 need attention: agent (waiting: sesh attach agent) · hangs (sesh show hangs)"
        " · again (sesh restart again) · docs (sesh restart docs, or sesh stop docs to dismiss)"
        f" · payments, more, {LONG} (sesh restart --failed)"
        " · left (sesh adopt left, or sesh stop left)"
    )
    for columns in (120, 80, 60, 50):
        monkeypatch.setattr(output, "terminal_width", lambda width=columns: width)
        lines = (session_table.closing_line(some) or "").splitlines()
        assert " ".join(lines) == closing
        assert all(len(line) <= columns for line in lines)
