"""sesh stats: figures for people, scripts and Prometheus."""

from __future__ import annotations

import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh.model.observation import Verdict
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.state import records
from tests import samples
from tests.conftest import a_world, need
from tests.surroundings import Terminal, complains, files, mounted, move, read_only
from tests.test_other_machines import ELSEWHERE
from tests.world import SESH, Done, World, eventually

BLOCKS = re.compile("[▏▎▍▌▋▊▉█]")


def stats(world: World, *options: str) -> dict[str, Any]:
    found: dict[str, Any] = world.ok("stats", "--json", *options).json
    return found


def counted(found: dict[str, Any]) -> dict[str, int]:
    """The states that occur."""
    return {state: count for state, count in found["states"].items() if count}


def a_day(world: World) -> None:
    """One that runs, one that failed twice, one that was stopped, one that is in the history."""
    world.start("done", "true")
    assert eventually(lambda: world.state_of("done") == "completed")
    world.ok("gc", "--older-than", "0")
    world.start("runs", options=["--group", "web"])
    world.start("fails", "sh", "-c", "exit 3", options=["--group", "web"])
    assert eventually(lambda: world.state_of("fails") == "failed")
    world.ok("restart", "fails")
    assert eventually(lambda: world.state_of("fails") == "failed")
    world.start("stops")
    world.ok("stop", "stops")


@pytest.fixture(scope="module")
def day() -> Iterator[World]:
    """To be looked at only."""
    with a_world() as made:
        a_day(made)
        yield made


def tell(world: World, kind: str, hours_ago: float, **more: Any) -> None:
    """Write an event of a session that is long forgotten."""
    moment = datetime.now(UTC) - timedelta(hours=hours_ago)
    stamp = moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    line = {"time": stamp, "kind": kind, "name": "old", "id": "old", "generation": 1, **more}
    with (world.state / "events.jsonl").open("a") as file:
        file.write(json.dumps(line) + "\n")


def archive(world: World, count: int, *, seconds: int = 60, group: str | None = None) -> list[Path]:
    """Records in the history, of sessions that failed two hours ago after so many seconds."""
    began = datetime.now(UTC) - timedelta(hours=2, seconds=seconds)
    ended = began + timedelta(seconds=seconds)
    end: dict[str, Any] = {"ended": ended, "cause": Cause.EXIT, "exit_code": 3}
    made = []
    for number in range(count):
        old = samples.record(started=began, outcome=State.FAILED, **end)
        session_id = f"demo-20261115-{seconds:06d}-{number:08x}"
        record = replace(old, id=session_id, spec=replace(old.spec, group=group))
        made.append(world.state / "history" / f"{session_id}.toml")
        made[-1].write_bytes(records.render(record, Verdict(State.FAILED, **end)))
    return made


# --- the figures -------------------------------------------------------------------------------


def test_a_day_in_figures(day: World) -> None:
    found = stats(day)
    assert (found["total"], found["listed"], found["archived"]) == (4, 3, 1)
    assert counted(found) == {"running": 1, "failed": 1, "completed": 1, "stopped": 1}
    assert (found["alive"], found["healthy"], found["attention"]) == (1, 1, 1)
    assert (found["launches"], found["ends"], found["failures"]) == (5, 4, 2)
    assert (found["failure_rate"], found["causes"]["exit"]) == (0.5, 2)
    assert (found["restarts"], found["resume_rate"], found["recovery_rate"]) == (1, None, None)
    assert sum(bucket["count"] for bucket in found["durations"]) == 4
    web, rest = found["groups"]
    assert (web["name"], web["total"], web["alive"], web["ends"]) == ("web", 2, 1, 2)
    assert (rest["name"], rest["total"], rest["alive"], rest["ends"]) == (None, 2, 0, 2)
    (template,) = found["templates"]
    assert template == {"name": None, **{key: found[key] for key in template if key != "name"}}


def test_memory_of_those_that_live(world: World) -> None:
    world.start("failed", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("failed") == "failed")
    fields = ("memory_bytes", "memory_average_bytes", "memory_peak_bytes")
    assert [stats(world)[field] for field in fields] == [None, None, None]
    for name in ("a", "b"):
        world.start(name)
    found = stats(world)
    total, average, peak = (found[field] for field in fields)
    assert 0 < average <= peak < total
    assert abs(average - total / 2) <= 1

    def as_in_ls() -> bool:
        shown = [one["memory_bytes"] for one in world.ls("--wide") if one["memory_bytes"]]
        return len(shown) == 2 and stats(world)["memory_bytes"] == sum(shown)

    assert eventually(as_in_ls)


def test_recoveries_by_their_events(world: World) -> None:
    """Launched again 30 minutes after its end; that lasted."""
    world.start("a")
    failed = {"state": "failed", "cause": "exit", "group": "night"}
    tell(world, "started", 5)
    tell(world, "ended", 4, **failed)
    tell(world, "restarted", 3.5, generation=2, retry=1)
    tell(world, "ended", 1, generation=2, **failed)
    tell(world, "restarted", 0.9, generation=3, retry=2)
    tell(world, "ended", 0.9, generation=3, **failed)
    found = stats(world)
    assert (found["recoveries"], found["recovered"], found["recovery_rate"]) == (2, 1, 0.5)
    assert found["recovery_median_seconds"] == pytest.approx(1800, abs=2)
    assert [part["recoveries"] for part in found["groups"]] == [2, 0]
    line = "recovery   1 of 2 attempts succeeded (50%) · after median 30m, p95 30m"
    assert line in world.ok("stats").out


def test_since(world: World) -> None:
    a_day(world)
    archive(world, 2)
    tell(world, "ended", 3, state="failed", cause="oom")
    everything = stats(world)
    assert everything["since"] is None
    assert (everything["archived"], everything["causes"]["oom"]) == (3, 1)
    found = stats(world, "--since", "1h")
    assert (found["archived"], found["causes"]["oom"]) == (1, 0)
    begin, end = (datetime.fromisoformat(found[field]) for field in ("since", "checked_at"))
    assert end - begin == pytest.approx(timedelta(hours=1), abs=timedelta(seconds=30))
    assert stats(world, "--since", "2000-01-01")["total"] == everything["total"]


def test_an_orphan_is_counted(world: World) -> None:
    world.start("a")
    world.record("a").unlink()
    found = stats(world)
    assert (counted(found), found["attention"]) == ({"orphan": 1}, 1)
    assert found["memory_bytes"] > 0


# --- records and events that are not as they should be -----------------------------------------


def test_damaged_records_are_counted_and_in_nobodys_way(world: World) -> None:
    a_day(world)
    world.record("stops").write_text("")
    (world.state / "history" / "odd.toml").write_text("nonsense")
    os.mkfifo(world.state / "history" / "pipe.toml")
    found = stats(world)
    assert counted(found) == {"damaged": 3, "running": 1, "failed": 1, "completed": 1}
    assert (found["total"], found["damaged"]) == (6, 3)
    assert stats(world, "--since", "1d")["damaged"] == 3
    assert "3 damaged · 1 running" in world.ok("stats").out


def test_another_machines_session(world: World) -> None:
    """Its pid is alive here, but means nothing."""
    world.start("there")
    raw = move(world, "there", id=ELSEWHERE)
    found = stats(world)
    assert (counted(found), found["memory_bytes"]) == ({"unknown": 1}, None)
    assert (found["alive"], found["healthy"], found["ends"]) == (0, 0, 0)
    assert world.record("there").read_bytes() == raw


def test_lines_that_make_no_sense(world: World) -> None:
    a_day(world)
    before = stats(world)
    odd = [
        '{"time":"2026-01-01T00:00:00Z","kind":"ended"}',
        '{"time":"2026-01-01T00:00:00Z","kind":"ended","id":[],"generation":1}',
        '{"time":"2026-01-01T00:00:00Z","kind":"ended","id":"x","generation":"1"}',
        '{"time":"2026-01-01T00:00:00Z","kind":"exploded","id":"x","generation":1}',
        '{"time":"2026-01-01T00:00:00Z","kind":"ended","id":"x","gener',
    ]
    with (world.state / "events.jsonl").open("a") as file:
        file.write("\n".join(odd))
    after = stats(world)
    assert {**after, "checked_at": 0} == {**before, "checked_at": 0, **_memory(after)}


def _memory(found: dict[str, Any]) -> dict[str, Any]:
    """What differs from moment to moment."""
    return {key: found[key] for key in found if "memory" in key or key in ("groups", "templates")}


def test_events_that_cannot_be_read(world: World) -> None:
    world.start("a")
    (world.state / "events.jsonl").unlink()
    (world.state / "events.jsonl").mkdir()
    complains(world.sesh("stats"), 6, "events.jsonl")


def test_a_long_history(world: World) -> None:
    """What was edited by hand, so that its digest line is not believed, counts as well."""
    world.start("a")
    made = archive(world, 1000)
    found = stats(world)
    assert (found["total"], found["archived"], found["failures"]) == (1001, 1000, 1000)
    assert found["duration_median_seconds"] == 60
    for path in made[:3]:
        _, body = path.read_bytes().split(b"\n", 1)
        path.write_bytes(body)
    made[3].write_text("")
    again = stats(world)
    assert (again["archived"], again["failures"], again["damaged"]) == (1000, 999, 1)
    assert again["duration_p95_seconds"] == 60


def test_counting_changes_nothing(day: World) -> None:
    day.ok("pass")

    def kept() -> list[object]:
        folders = [files(day.state / name) for name in ("sessions", "history")]
        return [*folders, day.events()]

    before = kept()
    for options in ([], ["--json"], ["--prometheus"], ["--since", "1d"]):
        day.ok("stats", *options)
    assert kept() == before


# --- for people --------------------------------------------------------------------------------


def test_nothing_to_count_yet(world: World) -> None:
    done = world.ok("stats")
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert "sesh start NAME COMMAND" in done.err
    assert not world.state.exists()
    found = stats(world)
    assert (found["total"], found["failure_rate"], found["groups"]) == (0, None, [])


def test_nothing_since_then(world: World) -> None:
    world.start("a")
    done = world.ok("stats", "--since", "0")
    assert (done.out, done.err.count("\n")) == ("", 1)
    assert "since then" in done.err


def test_the_lines_for_people(world: World) -> None:
    world.start("a")
    archive(world, 3, seconds=5)
    archive(world, 2, seconds=90)
    archive(world, 1, seconds=7200, group="web")
    tell(world, "restarted", 1, generation=2, resumed_conversation=True)
    lines = [_without_sizes(line) for line in world.ok("stats").out.splitlines()]
    assert lines == [
        "7 sessions: 1 in the list, 6 in the history",
        "  states     1 running · 6 failed",
        "  health     1 healthy · 0 need attention",
        "  memory     SIZE on average · SIZE at most · SIZE in all",
        "  ends       6 · 6 failed (100%): 6 exit (100%)",
        "  durations  median 47s · p95 1h · max 2h",
        "             under 10s  3",
        "             under 1m   0",
        "             under 10m  2",
        "             under 1h   0",
        "             under 6h   1",
        "  restarts   1 · 1 resumed a conversation (100% of those with one)",
        "",
        "GROUP   SESSIONS   ALIVE   ENDS   FAILED   MEDIAN   RECOVERED   MEMORY",
        "web            1       0      1     100%       2h           –        –",
        "–              6       1      5     100%       5s           –   SIZE",
    ]


def _without_sizes(line: str) -> str:
    return re.sub(r" {3,}SIZE$", "   SIZE", re.sub(r"[\d.]+ [KM]B", "SIZE", line))


def test_a_pipe_gets_neither_colours_nor_bars(day: World) -> None:
    text = day.ok("stats").out
    assert "\x1b" not in text
    assert "#" not in text
    assert not BLOCKS.search(text)


def test_on_a_terminal_lines_are_wrapped_between_their_parts(world: World) -> None:
    a_day(world)
    archive(world, 2)
    plain = world.ok("stats").out
    for columns in (80, 40, 20):
        code, screen = Terminal(world, SESH, "stats", columns=columns).finish()
        lines = screen.rstrip("\n").splitlines()
        assert (code, max(map(len, lines)) <= columns) == (0, True), screen
        assert "…" not in screen
        above, below = screen.split("\nGROUP")[0], plain.split("\nGROUP")[0]
        assert re.sub(r"[█▏▎▍▌▋▊▉]", "", above).split() == below.split()
        for part in ("3 failed", "median", "p95"):
            assert part in above


def test_colours_point_and_can_be_had_without(day: World) -> None:
    _, screen = Terminal(day, SESH, "stats").finish("-e")
    assert "\x1b[31m1 failed" in screen
    assert "\x1b[33m1 needs attention" in screen
    env = {**day.env, "NO_COLOR": "1"}
    _, screen = Terminal(day, SESH, "stats", env=env).finish("-e")
    assert "\x1b" not in screen
    assert BLOCKS.search(screen)


def test_a_hostile_group_is_shown_harmless(world: World) -> None:
    world.start("a")
    tell(world, "ended", 1, state="failed", cause="exit", group="\x1b[2J\nx")
    text = world.ok("stats").out
    assert "\x1b" not in text
    assert "\\x1b[2J\\nx" in text


# --- Prometheus --------------------------------------------------------------------------------


def promtool(text: str) -> tuple[int, str]:
    need("promtool")
    done = subprocess.run(
        ["promtool", "check", "metrics"], input=text, capture_output=True, text=True, timeout=60
    )
    return done.returncode, done.stdout + done.stderr


def test_promtool_accepts_the_metrics(world: World) -> None:
    assert promtool(world.ok("stats", "--prometheus").out) == (0, "")
    a_day(world)
    tell(world, "ended", 4, state="failed", cause="exit", group='a "quoted\\ \n\x07 näme')
    tell(world, "restarted", 3.5, generation=2, retry=1, resumed_conversation=True)
    text = world.ok("stats", "--prometheus").out
    assert promtool(text) == (0, "")
    for line in (
        'sesh_sessions{state="running"} 1',
        'sesh_failures{cause="exit"} 3',
        "sesh_recovery_ratio 1.0",
        "sesh_resume_ratio 1.0",  # of one that said so
        'sesh_group_sessions_alive{group="web"} 1',
    ):
        assert f"\n{line}\n" in text
    assert re.search(r"^sesh_session_memory_bytes_max [1-9]\d+$", text, re.M)


def test_a_tool_that_would_complain_does(world: World) -> None:
    """Else the test above would prove nothing."""
    code, said = promtool("# TYPE sesh_sessions_total gauge\nsesh_sessions_total 3\n")
    assert code != 0
    assert "sesh_sessions_total" in said


# --- into a file -------------------------------------------------------------------------------


def written(world: World, path: Path | str, *options: str) -> Done:
    return world.sesh("stats", *(options or ("--prometheus",)), "--output", str(path))


def test_into_a_file_that_others_may_read(world: World) -> None:
    world.start("a")
    directory = world.root / "collector"
    directory.mkdir()
    target = directory / "sesh.prom"
    assert written(world, target) == Done(0, "", "")
    assert stat.S_IMODE(target.stat().st_mode) == 0o644
    assert target.read_text().startswith("# HELP sesh_sessions ")
    assert written(world, directory / "sesh.json", "--json") == Done(0, "", "")
    assert json.loads((directory / "sesh.json").read_text())["total"] == 1
    assert sorted(path.name for path in directory.iterdir()) == ["sesh.json", "sesh.prom"]


def test_a_file_is_replaced_and_never_rewritten(world: World) -> None:
    """Whoever has it open reads the old one to its end."""
    target = world.cwd / "sesh.prom"
    target.write_text("old\n")
    target.chmod(0o600)
    with target.open() as reader:
        assert written(world, "sesh.prom").code == 0
        assert reader.read() == "old\n"
    assert "sesh_sessions" in target.read_text()
    assert stat.S_IMODE(target.stat().st_mode) == 0o644


def test_behind_a_link(world: World) -> None:
    target, link = world.root / "real.prom", world.cwd / "sesh.prom"
    link.symlink_to(target)
    assert written(world, link).code == 0
    assert link.is_symlink()
    assert "sesh_sessions" in target.read_text()


@pytest.mark.parametrize("path", ["/dev/null", ".", "missing/sesh.prom", "pipe", "file/sesh.prom"])
def test_what_is_no_place_for_a_file(world: World, path: str) -> None:
    os.mkfifo(world.cwd / "pipe")
    (world.cwd / "file").touch()
    complains(written(world, path), 6, "cannot write")
    assert Path("/dev/null").is_char_device()
    assert sorted(path.name for path in world.cwd.iterdir()) == ["file", "pipe"]


@pytest.mark.parametrize("path", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1", "link"])
def test_a_log_behind_a_stream_is_not_replaced(world: World, path: str) -> None:
    (world.cwd / "link").symlink_to("/dev/stdout")
    log = world.root / "log"
    log.write_text("precious\n")
    with log.open("ab") as file:
        done = subprocess.run(
            [SESH, "stats", "--json", "--output", path],
            env=world.env,
            cwd=world.cwd,
            stdout=file,
            stderr=subprocess.PIPE,
        )
    assert done.returncode == 6
    assert done.stderr.decode() == f"sesh: cannot write {path}: not a regular file location\n"
    assert log.read_text() == "precious\n"


def test_links_that_lead_nowhere(world: World) -> None:
    (world.cwd / "a").symlink_to("b")
    (world.cwd / "b").symlink_to("a")
    complains(written(world, "a"), 6, "cannot write")


def test_a_directory_that_cannot_be_written(world: World) -> None:
    directory = world.root / "collector"
    directory.mkdir()
    (directory / "sesh.prom").write_text("old\n")
    with read_only(directory):
        complains(written(world, directory / "sesh.prom"), 6, str(directory))
    assert files(directory) == {"sesh.prom": b"old\n"}


def test_a_full_disk_leaves_the_old_file_and_nothing_else(world: World) -> None:
    directory = world.root / "small"
    with mounted(directory, "size=8k"):
        (directory / "sesh.prom").write_text("old\n")
        (directory / "filler").write_bytes(b"x" * 4096)
        complains(written(world, directory / "sesh.prom"), 6, "cannot write")
        assert files(directory, without=["filler"]) == {"sesh.prom": b"old\n"}


@pytest.mark.parametrize("zone", ["UTC", "UTC-12", "UTC+12"])
@pytest.mark.parametrize("moment", ["0001-01-01", "0001-01-01T00:00:00+14:00", "9999-12-31T23:59"])
def test_since_the_ends_of_the_calendar(world: World, moment: str, zone: str) -> None:
    world.ok("start", "--record-only", "a")
    env = {**world.env, "TZ": zone}
    for command in (("stats", "--json"), ("stats",), ("events",)):
        done = world.ok(*command, "--since", moment, env=env)
        assert "bug" not in done.err
        assert ("a" in done.out) == (moment[0] == "0" or "--json" in command)


# --- usage -------------------------------------------------------------------------------------


def test_options_that_do_not_fit(world: World) -> None:
    complains(world.sesh("stats", "--output", "x"), 2, "--output", "--prometheus")
    complains(world.sesh("stats", "--json", "--prometheus"), 2, "--json", "--prometheus")
    complains(world.sesh("stats", "--since", "yesterday"), 2, "yesterday")
    complains(world.sesh("stats", "name"), 2)
    assert list(world.cwd.iterdir()) == []
