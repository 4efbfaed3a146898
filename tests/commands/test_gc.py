"""sesh gc: each rule once as kept and once as removed; what a dry run shows is what a run does."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from sesh.model.place import Process
from sesh.model.reconcile import reconcile
from sesh.model.record import Record
from sesh.model.value_object import replace
from sesh.state import judge, records, sightings
from sesh.system import files
from tests.emulator import Terminal
from tests.faults.living import command_line, marked
from tests.faults.living import look as process_at
from tests.surroundings import complains, fake_tmux
from tests.world import SESH, World, eventually

DAY = 86400.0
MONTH = 31 * DAY
NOBODY = "gone-20260101-000000-00000001"


@pytest.fixture
def inside(world: World, monkeypatch: pytest.MonkeyPatch) -> World:
    """A world whose records the test itself can change."""
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)
    return world


def steps(done: Any) -> list[tuple[str, str, str]]:
    return [(one["verb"], one["what"], one["subject"]) for one in done.json]


def gc(world: World, *options: str) -> list[tuple[str, str, str]]:
    """Run it after a dry run that must show the same; what was done."""
    before = world.ok("gc", "--dry-run", "--json", *options).json
    after = world.ok("gc", "--json", *options).json
    keys = ("verb", "what", "subject", "id", "why")
    plain = [tuple(one[key] for key in keys) for one in before]
    assert sorted(plain) == sorted(tuple(one[key] for key in keys) for one in after)
    assert not any(one["done"] for one in before)
    return [(one["verb"], one["what"], one["subject"]) for one in after if one["done"]]


def ended(world: World, name: str, *command: str) -> None:
    world.start(name, *(command or ("true",)))
    assert eventually(lambda: world.state_of(name) in ("completed", "failed"))
    living = ("list-panes", "-a", "-f", "#{==:#{pane_dead},0}", "-F", "#{session_name}")
    assert eventually(lambda: name not in world.tmux(*living).split())


def age(name: str, seconds: float) -> None:
    """Make an ended session look as if it had ended so long ago."""
    entry = records.entry(name)
    assert entry is not None
    assert isinstance(entry.record, Record)
    moment = datetime.now(UTC) - timedelta(seconds=seconds)
    session = judge.judge([entry])[0].session
    assert session is not None
    old = replace(entry.record, status=replace(entry.record.status, ended=moment))
    verdict = reconcile(old, session.seen, datetime.now(UTC))
    assert records.swap(entry, old, verdict)


def leave(path: Path, seconds: float = 0.0, text: str = "x") -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    moment = time.time() - seconds
    os.utime(path, (moment, moment))
    return path


def listed(world: World) -> list[str]:
    return sorted(path.stem for path in (world.state / "sessions").glob("*.toml"))


def archived(world: World) -> list[str]:
    found = (path.stem for path in (world.state / "history").glob("*.toml"))
    return sorted(stem.rsplit("-", 3)[0] for stem in found)


def run_dir(world: World) -> Path:
    return Path(world.socket).parent


# --- the list ----------------------------------------------------------------------------------


def test_what_ended_well_is_archived_after_an_hour(inside: World) -> None:
    for name in ("young", "old"):
        ended(inside, name)
    inside.start("running")
    age("old", 3700)
    age("young", 3500)
    assert gc(inside) == [("close", "tmux session", "old"), ("archive", "record", "old")]
    assert listed(inside) == ["running", "young"]
    assert archived(inside) == ["old"]
    assert inside.state_of("running") == "running"
    assert gc(inside) == []


def test_older_than(inside: World) -> None:
    ended(inside, "done")
    assert gc(inside, "--older-than", "1m") == []
    age("done", 90)
    assert ("archive", "record", "done") in gc(inside, "--older-than", "1m")
    kinds = [event["kind"] for event in inside.events() if event["name"] == "done"]
    assert kinds == ["started", "ended", "archived"]


def test_what_needs_somebody_stays_for_a_month(inside: World) -> None:
    for name in ("young", "old"):
        ended(inside, name, "false")
    age("young", 29 * DAY)
    age("old", MONTH)
    assert ("archive", "record", "old") in gc(inside)
    assert listed(inside) == ["young"]


def test_a_failure_that_somebody_has_seen_goes_like_what_ended_well(inside: World) -> None:
    ended(inside, "failed", "false")
    age("failed", 2 * DAY)
    inside.ok("stop", "failed")
    assert gc(inside) == [("archive", "record", "failed")]


def test_an_archived_session_leaves_no_launch_files_and_no_environment(inside: World) -> None:
    ended(inside, "done")
    ended(inside, "kept")
    session_id = inside.session("done")["id"]
    gone = [*run_dir(inside).glob(f"{session_id}*"), inside.runtime / f"{session_id}.env"]
    assert all(path.exists() for path in gone)
    assert len(gone) > 2
    age("done", 4000)
    inside.ok("gc")
    assert not [path for path in gone if path.exists()]
    assert list(run_dir(inside).glob(f"{inside.session('kept')['id']}*"))
    assert (inside.state / f"transcripts/{session_id}.log").exists()


def test_what_nobody_can_tell_is_left_alone(inside: World) -> None:
    """Another machine's, a damaged record, an agent without a record."""
    for name in ("elsewhere", "damaged", "lost"):
        inside.start(name)
    entry = records.entry("elsewhere")
    assert entry is not None
    text = entry.raw.decode().partition("\n")[2]
    machine = text.partition('machine = "')[2].partition('"')[0]
    inside.record("elsewhere").write_text(text.replace(machine, "another"))
    inside.record("damaged").write_text("[[[")
    inside.record("lost").unlink()
    living = marked(inside)
    done = inside.ok("gc", "--kill-orphans", "--json")
    assert not [one for one in done.json if one["done"]]
    assert ("keep", "agent", "lost") in steps(done)
    assert marked(inside) == living
    assert listed(inside) == ["damaged", "elsewhere"]


# --- panes -------------------------------------------------------------------------------------


def panes(world: World) -> list[str]:
    return sorted(world.tmux("list-panes", "-a", "-F", "#{session_name}").split())


def test_dead_panes_are_closed_after_an_hour_and_their_screen_is_kept(inside: World) -> None:
    inside.start("running")
    for name in ("young", "old"):
        ended(inside, name, "sh", "-c", f"echo last words of {name}; exit 3")
    age("old", 4000)
    assert gc(inside) == [("close", "tmux session", "old")]
    assert panes(inside) == ["running", "young"]
    assert "last words of old" in inside.ok("logs", "old").out


def test_a_window_that_somebody_opened_stays(inside: World) -> None:
    ended(inside, "done", "false")
    inside.tmux("new-window", "-d", "-t", "=done:", "sleep 1000")
    age("done", 4000)
    inside.ok("gc")
    assert panes(inside) == ["done"]
    assert inside.tmux("list-panes", "-a", "-F", "#{pane_dead}") == "0"


def test_a_dead_pane_that_nobody_knows_is_closed_after_its_grace(inside: World) -> None:
    inside.start("running")
    ended(inside, "stray")
    session_id = inside.session("stray")["id"]
    inside.record("stray").unlink()
    assert gc(inside) == []
    log = inside.state / f"transcripts/{session_id}.log"
    os.utime(log, (time.time() - 4000,) * 2)
    assert gc(inside) == [("close", "forgotten tmux session", "stray")]
    assert panes(inside) == ["running"]


# --- stops and limits --------------------------------------------------------------------------


def test_an_interrupted_stop_is_finished(inside: World) -> None:
    inside.configure("[stop]\ngrace = 1\n")
    inside.start("one", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    stopping = inside.popen("stop", "one")
    assert eventually(lambda: inside.state_of("one") == "stopping")
    stopping.kill()
    stopping.wait()
    planned = inside.ok("gc", "--dry-run", "--json")
    if inside.state_of("one") == "stopping":  # else the wake-up of tmux was faster
        assert steps(planned) == [("finish", "stop", "one")]
    inside.ok("gc")
    assert eventually(lambda: inside.state_of("one") == "stopped")  # or that one is at it


def test_max_age_ends_a_session_that_has_it_and_no_other(world: World) -> None:
    world.start("limited", options=("--max-age", "1s"))
    world.start("unlimited")
    world.start("later", options=("--max-age", "1h"))
    time.sleep(1.1)
    assert gc(world) == [("end", "session", "limited")]
    shown = world.session("limited")
    assert (shown["state"], shown["cause"]) == ("timeout", "limit")
    assert shown["reason"] == shown["attention"] == "ran longer than max_age (1 second)"
    assert [world.state_of(name) for name in ("unlimited", "later")] == ["running"] * 2
    world.ok("stop", "limited")
    assert world.session("limited")["attention"] is None


def test_a_restarted_session_begins_its_age_anew(world: World) -> None:
    world.start("one", options=("--max-age", "1s"))
    time.sleep(1.1)
    world.ok("gc")
    assert world.state_of("one") == "timeout"
    world.ok("restart", "one")
    assert (world.session("one")["state"], world.session("one")["max_age"]) == ("running", 1.0)


def test_limits_of_the_settings_and_a_session_that_has_none(world: World) -> None:
    world.configure("[gc]\nmax_age = 1\n")
    world.start("one")
    world.start("ever", options=("--max-age", "0"))
    time.sleep(1.1)
    assert gc(world) == [("end", "session", "one")]
    assert world.state_of("ever") == "running"


def test_max_idle_ends_what_prints_nothing(world: World) -> None:
    world.configure("[gc]\nmax_idle = 4\n")
    world.start("busy", "sh", "-c", "while :; do echo; sleep 0.1; done")
    world.start("idle")
    time.sleep(5)
    assert gc(world) == [("end", "session", "idle")]
    assert world.session("idle")["reason"] == (
        "printed nothing for longer than max_idle (4 seconds)"
    )
    assert world.state_of("busy") == "running"


def test_after_some_tries_a_stop_asks_for_attention(inside: World) -> None:
    """As when its processes hang in the kernel: nothing here can be killed, it seems."""
    inside.start("one")
    (callback,) = inside.state.glob("run/*/callback")
    callback.write_text("exit 0\n")  # or a pass would come and kill it for real
    program = """
import sys
from sesh.operations.stop import stop
from sesh.places.host import terminate
from sesh.state import lookup, settings
from sesh.system import processes
processes.send = lambda *_: True
terminate.KILL_PATIENCE = 0.05
for _ in range(int(sys.argv[1])):
    stop.stop([lookup.one("one")], settings.load(), 0.01)
"""

    def tries(count: int) -> None:
        argv = [str(Path(SESH).with_name("python")), "-c", program, str(count)]
        subprocess.run(argv, env=inside.env, check=True, timeout=60)

    tries(4)
    entry = records.entry("one")
    assert entry is not None
    assert b"stop_tries = 4" in entry.raw
    assert b'"attention":null' in entry.raw
    tries(1)
    entry = records.entry("one")
    assert entry is not None
    assert b"could not be stopped after 5 tries" in entry.raw
    inside.ok("gc")
    assert inside.state_of("one") == "stopped"


# --- history, transcripts, files ---------------------------------------------------------------


def keep(world: World, name: str, days: float = 0.0, size: int = 10) -> str:
    """A session in the history, with a transcript."""
    session_id = f"{name}-20260101-000000-00000001"
    leave(world.state / f"history/{session_id}.toml", days * DAY)
    for kind in ("log", "screen", "times"):
        leave(world.state / f"transcripts/{session_id}.{kind}", days * DAY, "x" * size)
    return name


def kept(world: World) -> list[str]:
    """Whose transcripts there are."""
    found = (path.stem for path in (world.state / "transcripts").glob("*.log"))
    return sorted(stem.rsplit("-", 3)[0] for stem in found)


def test_history_older_than_a_month_goes_with_its_transcripts(world: World) -> None:
    world.start("running")
    keep(world, "young", 29)
    keep(world, "old", 31)
    assert gc(world) == [("remove", "history record", "old")]
    assert archived(world) == ["young"]
    assert kept(world) == ["running", "young"]
    assert not list((world.state / "transcripts").glob("old-*"))


def test_history_beyond_the_number_goes_the_oldest_first(world: World) -> None:
    world.configure("[gc]\nmax_history = 2\n")
    world.start("running")
    for days, name in enumerate(("a", "b", "c", "d")):
        keep(world, name, days)
    assert sorted(gc(world)) == [("remove", "history record", name) for name in ("c", "d")]
    assert kept(world) == ["a", "b", "running"]


def test_history_goes_when_transcripts_take_too_much_but_never_the_lists(world: World) -> None:
    world.configure('[gc]\nmax_transcripts = "256 KB"\n')
    shown = world.start("running")
    leave(world.state / f"transcripts/{shown['id']}.log", MONTH, "x" * (150 << 10))
    for days, name in enumerate(("a", "b", "c")):
        keep(world, name, days, 20 << 10)
    assert gc(world) == [("remove", "history record", "c"), ("remove", "history record", "b")]
    assert kept(world) == ["a", "running"]


def test_transcripts_of_nobody_go_after_a_month(world: World) -> None:
    world.start("damaged")
    world.record("damaged").write_text("[[[")
    for path in (world.state / "transcripts").iterdir():
        os.utime(path, (time.time() - MONTH,) * 2)
    young = leave(world.state / "transcripts/young-20260101-000000-00000001.log", 29 * DAY)
    old = leave(world.state / f"transcripts/{NOBODY}.log", MONTH)
    foreign = leave(world.state / "transcripts/notes.log", MONTH)
    assert gc(world) == [("remove", "transcript", "gone")]
    assert (young.exists(), old.exists(), foreign.exists()) == (True, False, True)
    assert "damaged" in kept(world)


def test_temporary_files_go_after_an_hour(world: World) -> None:
    world.start("running")
    places = (
        *(world.state / "sessions", world.state / "history", world.state / "transcripts"),
        *(run_dir(world), world.runtime, world.state),
    )
    old = [leave(place / ".one.toml.4711.tmp", 3700) for place in places]
    young = [leave(place / ".two.toml.4711.tmp", 3000) for place in places]
    others = [leave(place / "three.tmp", 3700) for place in places]
    assert len(gc(world)) == len(places)
    assert not [path for path in old if path.exists()]
    assert all(path.exists() for path in (*young, *others))


def test_leavings_of_killed_commands_go(world: World) -> None:
    world.start("running")
    old = leave(run_dir(world) / f"{NOBODY}.1.pid", 120)
    young = leave(run_dir(world) / "new-20260101-000000-00000001.1.pid", 5)
    assert gc(world) == [("remove", "launch file", str(old))]
    assert (old.exists(), young.exists()) == (False, True)


def test_the_event_log_is_rotated_and_both_are_read(world: World) -> None:
    world.configure('[gc]\nmax_events = "64 KB"\n')
    world.start("a")
    assert gc(world) == []
    log = world.state / "events.jsonl"
    line = '{"time":"2026-01-01T00:00:00.000Z","kind":"removed","name":"filler"}\n'
    with log.open("a") as file:
        file.write(line * 1000)
    assert gc(world) == [("rotate", "event log", str(log))]
    world.start("b")
    lines = world.ok("events", "--json", "--kind", "started").out.splitlines()
    assert ['"a"' in lines[0], '"b"' in lines[1], len(lines)] == [True, True, 2]
    assert len(world.ok("events", "--json").out.splitlines()) == 1002
    older = world.state / "events.jsonl.1"
    assert gc(world) == []
    os.utime(older, (time.time() - MONTH,) * 2)
    assert gc(world) == [("remove", "event log", str(older))]


# --- orphans -----------------------------------------------------------------------------------

NOHUP = "setsid sleep 1000 </dev/null >/dev/null 2>&1 & sleep 0.2"


def leftover(world: World, name: str = "parent") -> Process:
    """A process that outlives its session."""
    ended(world, name, "sh", "-c", NOHUP)
    (pid,) = marked(world)
    found = process_at(pid)
    assert found is not None
    return Process(pid, found.start)


def seen_before(world: World, seconds: float) -> None:
    """As if the first sighting had been so long ago."""
    path = run_dir(world) / "orphans.seen"
    boot, *lines = path.read_text().splitlines()
    moved = [f"{line.rpartition(' ')[0]} {float(line.split()[3]) - seconds}" for line in lines]
    path.write_text("\n".join([boot, *moved, ""]))


def test_orphans_are_named_and_left_alone(world: World) -> None:
    process = leftover(world)
    world.ok("gc")
    seen_before(world, 100)
    done = world.ok("gc", "--json")
    (step,) = [one for one in done.json if one["what"] == "orphaned process"]
    assert (step["verb"], step["done"], step["mend"]) == ("keep", False, "sesh stop --orphans")
    assert step["subject"] == f"{process.pid} sleep"
    assert process_at(process.pid) is not None


@pytest.mark.parametrize("by", ["option", "settings"])
def test_orphans_are_killed_when_two_passes_agree(world: World, by: str) -> None:
    options = ("--kill-orphans",) if by == "option" else ()
    if by == "settings":
        world.configure("[gc]\nkill_orphans = true\n")
    process = leftover(world)
    world.start("running")
    assert gc(world, *options) == []
    seen_before(world, 50)
    assert gc(world, *options) == []
    assert process_at(process.pid) is not None
    seen_before(world, 20)
    assert gc(world, *options) == [("kill", "orphaned process", f"{process.pid} sleep")]
    assert process.pid not in marked(world)
    assert world.state_of("running") == "running"
    assert len((run_dir(world) / "orphans.seen").read_text().splitlines()) == 2
    assert gc(world, *options) == []
    assert len((run_dir(world) / "orphans.seen").read_text().splitlines()) == 1


def test_sightings_of_another_boot_or_another_process_do_not_count(inside: World) -> None:
    process = leftover(inside)
    path = run_dir(inside) / "orphans.seen"
    session_id = next(iter(marked(inside).values()))
    boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    same = f"{process.pid} {process.start} {session_id} 1.0"
    for text in (
        f"another\n{same}\n",
        f"{boot}\n{process.pid} {process.start - 1} {session_id} 1.0\n",
        f"{boot}\n{process.pid} {process.start} {NOBODY} 1.0\n",
        "\0\0",
        "",
    ):
        path.write_text(text)
        assert gc(inside, "--kill-orphans") == []
    assert sightings.read(str(path.parent), boot)
    path.write_text(f"{boot}\n{same}\n")
    assert len(gc(inside, "--kill-orphans")) == 1


def test_an_orphaned_session_is_killed_too(world: World) -> None:
    """Its terminal was closed, and it does not mind."""
    world.start("one", "sh", "-c", "trap '' HUP; while :; do sleep 0.1; done")
    world.start("other")
    world.tmux("kill-session", "-t", "=one")
    assert eventually(lambda: world.state_of("one") == "orphan")
    done = world.ok("gc", "--kill-orphans", "--json")
    assert ("keep", "agent", "one") in steps(done)
    seen_before(world, 61)
    assert ("kill", "agent", "one") in gc(world, "--kill-orphans")
    one = world.session("one")
    assert (one["state"], one["cause"]) == ("lost", "terminal-gone")
    assert one["reason"] == "ended by gc as an orphan: alive, but its terminal is gone"
    assert world.state_of("other") == "running"


def test_an_orphan_that_is_to_be_retried_is_killed_all_the_same(world: World) -> None:
    """And that is no failure of gc's."""
    options = ["--retries", "2", "--retry-delay", "1h", "--retry-max-delay", "1h"]
    stubborn = ("sh", "-c", "trap '' HUP; while :; do sleep 0.1; done")
    world.start("one", *stubborn, options=[*options, "--retry-on", "lost"])
    world.start("other")
    world.tmux("kill-session", "-t", "=one")
    assert eventually(lambda: world.state_of("one") == "orphan")
    world.ok("gc", "--kill-orphans")
    seen_before(world, 61)
    assert ("kill", "agent", "one") in gc(world, "--kill-orphans")
    assert world.state_of("one") == "recovering"


def test_a_living_tmux_session_that_no_record_claims_is_named(world: World) -> None:
    world.start("one", "sh", "-c", "until [ -e go ]; do sleep 0.05; done")
    world.tmux("new-window", "-d", "-t", "=one:", "sleep 7777")
    (world.cwd / "go").touch()
    assert eventually(lambda: world.state_of("one") == "stale")
    world.record("one").unlink()
    done = world.ok("gc")
    assert "of one: a tmux session without a record: sh -c 'sleep 7777'" in done.out
    assert "sesh stop --orphans" in done.out
    complains(world.sesh("adopt", "one"), 8, "without an agent of sesh", "sesh stop --orphans")
    assert "sleep 7777" in world.ok("stop", "--orphans", "-y").err
    assert left_panes(world) == []


def left_panes(world: World) -> list[str]:
    return world.tmux("list-panes", "-a", "-F", "#{session_name}").splitlines()


def test_the_advice_for_an_agent_whose_record_is_damaged_is_taken(world: World) -> None:
    world.start("one")
    world.record("one").write_text("[[[")
    assert "fix with: sesh doctor --fix" in world.ok("gc").out


# --- surroundings ------------------------------------------------------------------------------


def test_without_a_state_directory_what_lives_is_named(world: World) -> None:
    world.start("one")
    shutil.rmtree(world.state)
    done = world.ok("gc")
    assert "alive, but without a record" in done.out
    assert not world.state.exists()


def test_without_a_state_directory_nothing_is_done_and_nothing_made(world: World) -> None:
    assert world.ok("gc").err == "nothing to clean up\n"
    assert world.ok("gc", "--json").json == []
    assert world.ok("gc", "--auto").err == ""
    assert not world.state.exists()


def calls_back(world: World) -> list[int]:
    """What runs on its own after an end."""
    return [pid for pid in world.processes() if " pass" in command_line(pid)]


def test_a_dry_run_changes_no_file(inside: World) -> None:
    ended(inside, "done")
    inside.start("running")
    assert eventually(lambda: (run_dir(inside) / "pass.lock").exists())  # that of the end of `done`
    assert eventually(lambda: not calls_back(inside))
    age("done", 4000)
    leave(run_dir(inside) / f"{NOBODY}.1.pid", 120)

    def state() -> dict[str, float]:
        return {str(p): p.lstat().st_mtime for p in inside.state.rglob("*") if not p.is_dir()}

    inside.ok("gc", "--dry-run")
    before = state()
    done = inside.ok("gc", "--dry-run")
    assert state() == before
    assert done.out.splitlines() == [
        "would close     1 tmux session of an ended agent      done",
        "would archive   1 record ended more than 1 hour ago   done",
        "would remove    1 launch file without a record",
    ]
    assert done.err == "nothing was done (--dry-run)\n"


def test_what_was_done_is_told_and_auto_is_silent_without(inside: World) -> None:
    ended(inside, "done")
    inside.start("running")
    assert (inside.ok("gc").out, inside.ok("gc").err) == ("", "nothing to clean up\n")
    quiet = inside.ok("gc", "--auto")
    assert (quiet.out, quiet.err) == ("", "")
    age("done", 4000)
    assert inside.ok("gc", "--auto").out.splitlines() == [
        "closed     1 tmux session of an ended agent      done",
        "archived   1 record ended more than 1 hour ago   done",
    ]


def test_names_are_cut_to_the_terminal(inside: World) -> None:
    for number in range(6):
        ended(inside, f"build-{number}")
        age(f"build-{number}", 4000)
    terminal = Terminal(inside, columns=90)
    terminal.run("sesh gc --dry-run")
    terminal.see_screen("""
        $ sesh gc --dry-run
        would close     6 tmux sessions of an ended agent      build-0, build-1, build-2, build-3…
        would archive   6 records ended more than 1 hour ago   build-0, build-1, build-2, build-3…
        nothing was done (--dry-run)
        $
    """)


def test_one_works_and_the_other_says_so(inside: World) -> None:
    inside.start("running")
    with files.only_one(f"{run_dir(inside)}/gc.lock") as mine:
        assert mine
        other = inside.sesh("gc")
        assert (other.code, other.out) == (8, "")
        assert other.err == "sesh: another sesh gc is running\n"
        auto = inside.ok("gc", "--auto")
        assert (auto.out, auto.err) == ("", "")
        inside.ok("gc", "--dry-run")
    inside.ok("gc")


def test_it_notes_when_it_ran(world: World) -> None:
    world.start("one")
    world.ok("gc", "--dry-run")
    assert not (run_dir(world) / "gc.last").exists()
    world.ok("gc")
    assert abs((run_dir(world) / "gc.last").stat().st_mtime - time.time()) < 60


def test_crons_empty_environment(inside: World) -> None:
    """As in cron, with the usual places."""
    home = inside.root / "home"
    env = {"PATH": "/usr/bin:/bin", "HOME": str(home)}
    inside.ok("start", "one", "--", "true", env=env)
    assert eventually(lambda: '"completed"' in inside.ok("ls", "--json", env=env).out)
    assert inside.ok("gc", "--auto", env=env).out == ""
    assert "archived" in inside.ok("gc", "--auto", "--older-than", "0", env=env).out
    assert list((home / ".local/state/sesh/history").glob("one-*.toml"))


@pytest.mark.parametrize("trouble", ["hung", "nonsense", "foreign"])
def test_when_tmux_gives_no_answer_nothing_is_removed_or_killed(world: World, trouble: str) -> None:
    world.configure("[tmux]\ntimeout = 0.5\n")
    shown = world.start("running")
    ended(world, "failed", "false")
    process = leftover_of(world, "parent", shown["pid"])
    world.ok("gc", "--kill-orphans")
    seen_before(world, 100)
    with broken_tmux(world, trouble) as env:
        planned = world.ok("gc", "--kill-orphans", "--json", "--dry-run", env=env)
        done = world.ok("gc", "--kill-orphans", "--json", env=env)
        said = world.ok("gc", env=env)
        assert world.ok("gc", "--auto", env=env).out == ""
    assert not [one for one in done.json if one["done"]]
    assert done.json == planned.json
    (server,) = (one for one in done.json if one["what"] == "tmux server")
    assert (server["verb"], server["subject"]) == ("keep", str(world.socket))
    (line,) = (
        line for line in said.out.splitlines() if " 1 tmux server without a usable answer: " in line
    )
    assert line.endswith("see why with: sesh doctor")
    assert process_at(process) is not None
    assert world.state_of("running") == "running"
    assert listed(world) == ["failed", "parent", "running"]


def test_a_server_that_hangs_is_waited_for_once(world: World) -> None:
    world.configure("[tmux]\ntimeout = 0.3\n")
    world.start("one")
    agent, server = world.start("two")["pid"], world.server_pid()
    os.kill(server, signal.SIGSTOP)
    try:
        os.kill(agent, signal.SIGKILL)
        assert questions(world) == 1
    finally:
        os.kill(server, signal.SIGCONT)


def test_one_question_is_enough_when_nothing_is_to_be_done(world: World) -> None:
    """The server's answer says that it will make sesh look anyway."""
    world.start("one")
    world.ok("gc")
    assert questions(world) == 1


def questions(world: World) -> int:
    """How often a gc asks tmux."""
    calls = world.root / "calls"
    world.ok("gc", env=fake_tmux(world, f'echo x >>{calls}; exec {shutil.which("tmux")} "$@"'))
    return len(calls.read_text().splitlines())


@contextmanager
def broken_tmux(world: World, trouble: str) -> Iterator[dict[str, str]]:
    """The environment in which tmux gives no usable answer."""
    if trouble == "hung":
        server = world.server_pid()
        os.kill(server, signal.SIGSTOP)
        yield world.env
        os.kill(server, signal.SIGCONT)
    else:
        yield fake_tmux(
            world, {"nonsense": "echo nonsense", "foreign": "echo rien >&2; exit 1"}[trouble]
        )


def leftover_of(world: World, name: str, besides: int) -> int:
    ended(world, name, "sh", "-c", NOHUP)
    (pid,) = (pid for pid in marked(world) if pid != besides)
    return pid
