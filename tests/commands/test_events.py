"""sesh events: what happened, and what happens now."""

from __future__ import annotations

import json
import re
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tests import pace
from tests.emulator import Terminal, reading
from tests.surroundings import Terminal as OneCommand
from tests.surroundings import complains
from tests.world import SESH, World, eventually

SCRIPT = "until [ -e go ]; do sleep 0.05; done; test -e flag && exec sleep 1000; exit 3"


def history(world: World) -> None:
    """A session that fails, is started again, and is stopped; another one that runs."""
    world.start("a", "sh", "-c", SCRIPT)
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("a") == "failed")
    world.start("b")
    (world.cwd / "flag").touch()
    world.ok("restart", "a")
    world.ok("stop", "a")


def log(world: World) -> Path:
    return world.state / "events.jsonl"


def event(kind: str, name: str | None, minutes_ago: float, **details: Any) -> str:
    moment = datetime.now(UTC) - timedelta(minutes=minutes_ago)
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return json.dumps({"time": stamp, "kind": kind, "name": name, **details}) + "\n"


def shown(world: World, *options: str) -> list[tuple[str, str]]:
    """Name and kind of each event."""
    lines = world.ok("events", "--json", *options).out.splitlines()
    return [(one["name"], one["kind"]) for one in map(json.loads, lines)]


# --- what happened -----------------------------------------------------------------------------


def test_everything_in_the_order_in_which_it_happened(world: World) -> None:
    history(world)
    assert shown(world) == [
        ("a", "started"),
        ("a", "ended"),
        ("b", "started"),
        ("a", "restarted"),
        ("a", "stopping"),
        ("a", "stopped"),
    ]


def test_who_was_told_of_what(world: World) -> None:
    world.start("a")
    told = {"target": "hook.example", "event": "ended"}
    with log(world).open("a") as file:
        file.write(event("notified", "a", 0, **told))
        file.write(event("notify-failed", "a", 0, **told, reason="Connection refused"))
        file.write(event("breaker-opened", "a", 0, group="g", until="2026-11-17T12:00:00Z"))
        file.write(event("recovering", "a", 0, retry=1, retries_max=2, retry_at="whenever"))
    world.env["TZ"] = "UTC-3"
    lines = world.ok("events").out.splitlines()[1:]
    assert [line.split(maxsplit=3)[3] for line in lines] == [
        "notified        ended to hook.example",
        "notify-failed   ended to hook.example: Connection refused",
        "breaker-opened  group g, until 2026-11-17 15:00:00",
        "recovering      retry 1 of 2 at whenever",
    ]


def test_what_somebody_else_has_written_there(world: World) -> None:
    world.start("a")
    with log(world).open("a") as file:
        file.write(event("ended", "a", 0, state=["failed"], reason="odd"))
        file.write(event("start-failed", "a", 0, state="failed", reason="no such command"))
    lines = world.ok("events").out.splitlines()[1:]
    assert [line.split(maxsplit=3)[3] for line in lines] == [
        "ended           ['failed']: odd",
        "start-failed    no such command",
    ]


def test_of_what_has_no_name(world: World) -> None:
    world.start("a")
    with log(world).open("a") as file:
        file.write(event("notify-failed", None, 0, target=None, reason="its file can't be read"))
    line = world.ok("events").out.splitlines()[-1]
    assert line.split(maxsplit=2)[2].split() == [
        *("–", "notify-failed", "an", "event", "to", "an", "unknown", "target:", "its"),
        *("file", "can't", "be", "read"),
    ]


def test_the_lines_for_people(world: World) -> None:
    history(world)
    lines = [
        re.sub(r"^\d{4}-\d\d-\d\d \d\d:\d\d:\d\d  ", "TIME  ", line)
        for line in world.ok("events").out.splitlines()
    ]
    command = f"sh -c '{SCRIPT}'"
    assert lines == [
        f"TIME  a                     started         {command}",
        "TIME  a                     ended           failed: exit 3",
        "TIME  b                     started         sleep 1000",
        f"TIME  a                     restarted       {command}",
        "TIME  a                     stopping",
        "TIME  a                     stopped         stopped on request",
    ]


def test_of_one_session(world: World) -> None:
    history(world)
    assert shown(world, "b") == [("b", "started")]


def test_of_a_session_that_was_removed(world: World) -> None:
    world.start("a", "true")
    assert eventually(lambda: world.state_of("a") == "completed")
    world.ok("rm", "a")
    assert shown(world, "a") == [("a", "started"), ("a", "ended"), ("a", "removed")]


def test_of_some_kinds(world: World) -> None:
    history(world)
    assert shown(world, "--kind", "ended") == [("a", "ended")]
    assert shown(world, "--kind", "ended", "--kind", "stopped", "a") == [
        ("a", "ended"),
        ("a", "stopped"),
    ]


def test_a_kind_that_does_not_exist(world: World) -> None:
    complains(world.sesh("events", "--kind", "exploded"), 2, "exploded", "started")


def test_since(world: World) -> None:
    world.start("now")
    old = event("started", "older", 90) + event("started", "old", 30)
    log(world).write_text(old + log(world).read_text())
    assert [name for name, _ in shown(world)] == ["older", "old", "now"]
    assert [name for name, _ in shown(world, "--since", "1h")] == ["old", "now"]
    assert [name for name, _ in shown(world, "--since", "10m")] == ["now"]
    moment = (datetime.now(UTC) - timedelta(minutes=60)).strftime("%Y-%m-%dT%H:%M:%SZ")
    assert [name for name, _ in shown(world, "--since", moment)] == ["old", "now"]
    assert shown(world, "--since", "2000-01-01") == shown(world)


def test_since_something_that_is_no_time(world: World) -> None:
    for moment in ("yesterday", "", "10x", "-5m", "2026-13-01"):
        complains(world.sesh("events", f"--since={moment}"), 2)


def test_the_last_few(world: World) -> None:
    world.start("new")
    past = "".join(event("started", f"old{number}", 90 - number) for number in range(3))
    log(world).write_text(past + log(world).read_text())
    assert [name for name, _ in shown(world, "-n", "2")] == ["old2", "new"]
    assert [name for name, _ in shown(world, "--lines", "9")] == ["old0", "old1", "old2", "new"]
    assert shown(world, "-n", "1", "old1") == [("old1", "started")]
    assert shown(world, "-n", "1", "--kind", "ended") == []
    complains(world.sesh("events", "-n", "-1"), 2)
    with reading(world, "events", "-f", "-n", "1") as events:
        assert "  new  " in events.line()
        world.start("newer")
        assert "  newer  " in events.line()


def test_json_is_an_object_a_line_with_its_details(world: World) -> None:
    history(world)
    lines = world.ok("events", "--json", "--kind", "ended").out.splitlines()
    (found,) = map(json.loads, lines)
    datetime.fromisoformat(found["time"])
    assert found["id"].startswith("a-")
    wanted = {"generation": 1, "state": "failed", "cause": "exit", "exit_code": 3, "signal": None}
    assert {key: found[key] for key in wanted} == wanted


def test_nothing_has_happened_yet(world: World) -> None:
    done = world.ok("events")
    assert (done.out, done.err) == ("", "")


def test_no_valid_name(world: World) -> None:
    complains(world.sesh("events", "../a"), 2, "invalid name")


# --- a file that is not as it should be --------------------------------------------------------


ODD_LINES = [
    '{"time":"2026-01-01T00:00:00Z","kind":"started","na',
    "",
    "nonsense",
    "[]",
    "7",
    '{"kind":"started"}',
    '{"kind":"started","name":"x","time":"yesterday"}',
    '{"kind":"started","name":"x","time":"2026-01-01T00:00:00"}',
    '{"kind":"started","name":"x","time":5}',
    '{"kind":null,"name":"x","time":"2026-01-01T00:00:00Z"}',
    '{"kind":"ended","name":"x","time":"2026-01-01T00:00:00Z","reason":7,"command":5}',
    '{"kind":"ended","name":"x","time":"2026-01-01T00:00:00Z","reason":"\\u001b[2J"}',
    '{"kind":"\\u001b[2J","name":"\\u001b[2J","time":"2026-01-01T00:00:00Z"}',
    "[" * 100_000,
]


def test_a_line_that_is_torn_or_odd_is_in_nobodys_way(world: World) -> None:
    world.start("a")
    whole = log(world).read_text()
    for line in ODD_LINES:
        log(world).write_text(f"{line}\n{whole}")
        for options in (["--since", "2000-01-01"], ["--json"]):
            done = world.ok("events", *options)
            assert "started" in done.out.splitlines()[-1], line[:100]
            assert "\x1b" not in done.out, line[:100]


def test_bytes_that_are_no_text(world: World) -> None:
    world.start("a")
    log(world).write_bytes(b"\xff\xfe\x00\n" + log(world).read_bytes())
    assert shown(world) == [("a", "started")]


def test_a_line_cut_short_takes_no_other_with_it(world: World) -> None:
    """The next event begins on a line of its own."""
    world.start("a")
    whole = log(world).read_text()
    log(world).write_text(whole + whole[: len(whole) // 2])
    world.start("b")
    assert shown(world) == [("a", "started"), ("b", "started")]


# --- what happens now --------------------------------------------------------------------------


def test_following_shows_the_past_and_each_new_one_soon(world: World) -> None:
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        world.start("b")
        begin = time.monotonic()
        assert "b  " in events.line()
        assert time.monotonic() - begin < pace.seconds(5)
        assert events.running()


def test_following_chooses_too(world: World) -> None:
    world.start("a")
    world.start("b", "sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 3")
    with reading(world, "events", "-f", "--json", "--kind", "ended", "b") as events:
        (world.cwd / "go").touch()
        found = json.loads(events.line())
        assert (found["name"], found["kind"], found["exit_code"]) == ("b", "ended", 3)


def test_following_begins_before_there_is_anything(world: World) -> None:
    with reading(world, "events", "-f") as events:
        time.sleep(0.5)
        assert events.running()
        world.start("a")
        assert "started" in events.line()


def test_following_goes_on_after_a_rotation(world: World) -> None:
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        log(world).rename(log(world).with_suffix(".1"))
        world.start("b")
        assert "b  " in events.line()


def test_what_was_written_just_before_a_rotation_is_not_lost(world: World) -> None:
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        with log(world).open("a") as file:
            file.write(event("started", "last", 0))
        log(world).rename(log(world).with_suffix(".1"))
        log(world).write_text(event("started", "first", 0))
        assert "last" in events.line()
        assert "first" in events.line()


def test_a_line_in_two_pieces_is_shown_whole(world: World) -> None:
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        line = event("started", "pieces", 0)
        for piece in (line[:20], line[20:]):
            with log(world).open("a") as file:
                file.write(piece)
            time.sleep(0.5)
        assert "pieces" in events.line()


def test_following_ends_quietly_when_its_reader_goes_away(world: World) -> None:
    """`sesh events -f | head -1`: also when nothing happens any more."""
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        assert events.go_away(5) == (0, "")


def test_following_ends_by_ctrl_c_without_a_traceback(world: World) -> None:
    world.start("a")
    with reading(world, "events", "-f") as events:
        assert "a  " in events.line()
        events.interrupt()
        code, _, err = events.rest()
    assert (code, err) == (130, "")


def test_on_a_terminal_ctrl_c_leaves_a_line_of_its_own(world: World) -> None:
    world.start("a", "sh", "-c", "echo up; exec cat")
    assert eventually(lambda: "up" in world.ok("logs", "a").out)
    terminal = Terminal(world)
    for call, shown in (("events -f", "started"), ("logs -f a", "up")):
        terminal.run(f"clear; sesh {call}")
        terminal.see(f"{shown}")
        terminal.press("C-c")
        terminal.see("^C\n$")
        terminal.run("echo code $?")
        terminal.see("code 130")


def test_what_was_rotated_before_is_shown_too(world: World) -> None:
    history(world)
    log(world).rename(log(world).with_suffix(".jsonl.1"))
    world.ok("stop", "b")
    assert [name for name, _ in shown(world)] == ["a", "a", "b", "a", "a", "a", "b", "b"]
    with reading(world, "events", "-f", "--json") as reader:
        kinds = [json.loads(reader.line())["kind"] for _ in range(8)]
        assert (kinds[0], kinds[-1]) == ("started", "stopped")
        world.ok("rm", "b")
        assert json.loads(reader.line())["kind"] == "removed"


LONG = "a-very-long-name-that-was-chosen"


def lines_of(columns: int | None) -> str:
    from sesh.terminal.event_line import event_line

    time = {"time": datetime(2026, 11, 19, 9, 5, 1).astimezone().isoformat()}
    command = ["./server", "--port", "8080", "--verbose", "--with-reload"]
    some: list[dict[str, Any]] = [
        {**time, "name": "api", "kind": "started", "command": command},
        {**time, "name": LONG, "kind": "ended", "state": "failed", "reason": "exit 1; no retries"},
    ]
    return "\n".join(event_line(one, columns) for one in some) + "\n"


def test_on_a_terminal_columns_stay_aligned_and_words_whole() -> None:
    assert (
        lines_of(100)
        == """\
2026-11-19 09:05:01  api                   started         ./server --port 8080 --verbose
                                                           --with-reload
2026-11-19 09:05:01  a-very-long-name-that-was-chosen
                                           ended           failed: exit 1; no retries
"""
    )
    assert (
        lines_of(40)
        == """\
2026-11-19 09:05:01  api
  started         ./server --port 8080
                  --verbose
                  --with-reload
2026-11-19 09:05:01
a-very-long-name-that-was-chosen
  ended           failed: exit 1; no
                  retries
"""
    )
    assert (
        lines_of(24)
        == """\
2026-11-19 09:05:01  api
  started
    ./server --port 8080
    --verbose
    --with-reload
2026-11-19 09:05:01
a-very-long-name-that-was-chosen
  ended
    failed: exit 1; no
    retries
"""
    )


def test_in_a_pipe_an_event_is_one_line(world: World) -> None:
    assert lines_of(None).count("\n") == 2
    world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    _, screen = OneCommand(world, SESH, "events", columns=40).finish()
    assert re.fullmatch(
        r"(20\S+ \S+  a\n  started         sh -c 'exit 3'\n)20\S+ \S+  a\n  ended           failed:"
        r" exit 3\n",
        screen,
    )
    assert len(world.ok("events").out.splitlines()) == 2


# --- of one session ----------------------------------------------------------------------------


def test_an_unknown_name_is_an_error(world: World) -> None:
    complains(world.sesh("events", "web"), 4, "no session named web")
    world.start("webb")
    complains(world.sesh("events", "web"), 4, "did you mean webb?")
    complains(world.sesh("events", "-f", "web"), 4, "did you mean webb?")


def test_a_known_name_without_such_events_is_none(world: World) -> None:
    world.start("a")
    assert shown(world, "a", "--kind", "ended") == []
    world.ok("rm", "-f", "a")
    assert ("a", "removed") in shown(world, "a")
    assert shown(world, "a", "--since", "2100-01-01") == []
    world.start("old")
    world.ok("rename", "old", "new")
    assert ("old", "started") in shown(world, "old")
    world.ok("events", "new")
