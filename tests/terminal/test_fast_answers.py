"""The fast lanes: light, and never wrong: at any sign of change the full path answers."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sesh.model import errors
from sesh.model.session_json import FIELDS
from tests import agent
from tests.surroundings import move
from tests.world import World, eventually

ROOT = Path(errors.__file__).parents[2]
HEAVY = {"click", "psutil", "sh", "tomllib", "subprocess", "dataclasses", "typing", "inspect"}
LANES = [["ls", "--json"], ["ls"]]
STATUS_LANE = ["status", "one"]
PROMPT_LANES = [["doctor", "--prompt"], ["doctor", "--prompt", "--exit-code"]]
QUIET_LANES = [["doctor", "--prompt", "--refresh"], ["init", "bash"], ["init", "fish"]]
_PROBE = """
import sys
from sesh.__main__ import main
code = main({argv!r})
print(*sorted(sys.modules), file=sys.stderr)
sys.exit(code)
"""


def loaded(world: World, argv: list[str]) -> tuple[str, set[str]]:
    """Run a lane in a fresh interpreter: its output, and the modules it loaded."""
    done = subprocess.run(
        [sys.executable, "-c", _PROBE.format(argv=argv)],
        env=world.env,
        cwd=world.cwd,
        capture_output=True,
        text=True,
    )
    assert done.returncode in (0, errors.PROBLEMS), done.stderr
    return done.stdout, set(done.stderr.splitlines()[-1].split())


def took_fast_lane(world: World, argv: list[str] = LANES[0]) -> bool:
    return "sesh.terminal.command_table" not in loaded(world, argv)[1]


@pytest.mark.parametrize("argv", [*LANES, STATUS_LANE, *PROMPT_LANES, *QUIET_LANES], ids=" ".join)
def test_lane_imports_nothing_heavy(world: World, argv: list[str]) -> None:
    world.start("one")
    world.start("two", "sh", "-c", "exit 3")
    eventually(lambda: world.state_of("two") == "failed")
    out, modules = loaded(world, argv)
    assert argv not in [*LANES, STATUS_LANE] or "one" in out
    assert argv not in PROMPT_LANES or out == "1 failed\n"
    assert not modules & HEAVY
    assert not {"sesh.terminal.command_table", "sesh.system.tmux", "sesh.state.records"} & modules


LEAST = {"sesh", "sesh.__main__", "sesh.model", "sesh.model.digest", "sesh.state"} | {
    *("sesh.state.freshness", "sesh.system", "sesh.system.paths", "sesh.system.quick_read"),
    *("sesh.terminal", "__future__", "binascii", "gc", "marshal", "posix", "time"),
}


@pytest.mark.parametrize(
    ("argv", "own"), [(LANES[0], "fast_answers"), (PROMPT_LANES[0], "prompt")], ids=" ".join
)
def test_the_fastest_lanes_import_these_modules_only(
    world: World, argv: list[str], own: str
) -> None:
    """As `make install` starts them, without `site`. `os` would cost as much as all of these."""
    world.start("one")
    first = f"import sys; before = set(sys.modules); sys.path.append({str(ROOT)!r})"
    code = f"{first}{_PROBE.replace('sys.modules', 'set(sys.modules) - before').format(argv=argv)}"
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code], env=world.env, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert set(done.stderr.split()) - LEAST == {f"sesh.terminal.{own}"}


@pytest.mark.parametrize("words", ["show one", "logs -n 5 one", "send one x", "stop one"])
def test_an_everyday_command_imports_nothing_heavy(world: World, words: str) -> None:
    """tmux has to be asked, but libraries that are slow to import are left alone."""
    world.start("one", "cat")
    _, modules = loaded(world, words.split())
    assert "sesh.terminal.command_table" in modules
    assert not modules & {*HEAVY, "json", "shlex", "importlib.util", "threading"}


def test_a_hook_goes_without_click(world: World) -> None:
    """It has JSON to read and a word to write; the agent waits for it."""
    agent.install(world)
    session = agent.begin(world)
    [kit] = world.state.glob("run/*/*.kit")
    world.env |= {"SESH_ID": session["id"], "SESH_NAME": "one", "SESH_RUN": str(kit.parent)}
    event = {"hook_event_name": "UserPromptSubmit", "session_id": session["conversation"]}
    out, modules = loaded(world, ["hook", "claude", json.dumps(event)])
    assert out == ""
    assert kit.with_suffix(".said").exists()
    assert not modules & {
        "click",
        "psutil",
        "sh",
        "tomllib",
        "sesh.terminal.command_table",
        "sesh.state.records",
    }


def test_an_agent_is_listed_by_a_lane_too(world: World) -> None:
    agent.install(world)
    agent.begin(world)
    world.ok("ls")  # its screen has been looked at
    out, modules = loaded(world, ["ls", "--json"])
    assert "sesh.terminal.command_table" not in modules
    assert json.loads(out)[0]["agent"] == "claude"


def test_a_plain_start_goes_without_click(world: World) -> None:
    """It has tmux to call and a record to write, but needs no parser of options or TOML."""
    out, modules = loaded(world, ["start", "one", "--", "sleep", "1000"])
    assert out == "one\n"
    assert not modules & {
        "click",
        "psutil",
        "sh",
        "tomllib",
        "dataclasses",
        "inspect",
        "sesh.terminal.command_table",
    }
    assert world.state_of("one") == "running"


@pytest.mark.parametrize(
    ("argv", "code"),
    [
        (("start", "one", "--", "sleep", "1000"), 8),
        (("start", "b d", "--", "sleep", "1000"), 2),
        (("start", "two", "--", "no-such-program"), 1),
        (("start", "two", "--", ""), 1),
        (("start", "--", "sleep", "1"), 0),
        (("start", "-h", "--", "sleep"), 0),
        (("start", "two", "--"), 0),
    ],
)
def test_a_plain_start_and_one_with_options_say_the_same(
    world: World, argv: tuple[str, ...], code: int
) -> None:
    world.start("one")
    plain = world.sesh(*argv)
    assert plain.code == code
    if code:
        optioned = world.sesh(argv[0], "--tag=x", *argv[1:])
        assert (optioned.code, optioned.out, optioned.err) == (plain.code, plain.out, plain.err)


def test_gc_of_a_timer_goes_without_click(world: World) -> None:
    """It looks and cleans like any gc."""
    world.configure('[gc]\narchive_after = "1ms"\n')
    world.start("one", "true")
    eventually(lambda: world.state_of("one") == "completed")
    out, modules = loaded(world, ["gc", "--auto"])
    assert "archived" in out
    assert "one" in out
    assert not modules & {"click", "psutil", "sh"}
    assert world.ls() == []
    assert loaded(world, ["gc", "--auto"])[0] == ""


def test_lane_and_full_path_agree(world: World) -> None:
    """Field by field, in the same order; only the moment of the look may differ."""
    world.start("one", options=("--group", "g", "--tag", "ü"))
    world.start("two", "sh", "-c", "exit 3")
    eventually(lambda: world.state_of("two") == "failed")
    assert took_fast_lane(world)
    fast = world.ok("ls", "--json").json
    full = world.ok("ls", "--json", "--sort", "name").json
    for one in (*fast, *full):
        assert tuple(one) == FIELDS
        assert one.pop("checked_at")
    assert fast == full


@pytest.mark.parametrize("name", ["one", "two", "three"])
def test_status_lane_and_full_path_say_the_same(world: World, name: str) -> None:
    world.start("one")
    world.start("two", "sh", "-c", "exit 3")
    world.start("three", "true")
    eventually(lambda: {"failed", "completed"} <= {one["state"] for one in world.ls()})
    lane = world.sesh("status", name)
    full = world.sesh("status", "--", name)
    assert (lane.code, lane.out, lane.err) == (full.code, full.out, full.err)


def kill_agent(world: World) -> None:
    os.kill(world.session("one")["pid"], signal.SIGKILL)


def stop_agent(world: World) -> None:
    os.kill(world.session("one")["pid"], signal.SIGSTOP)


def close_pane(world: World) -> None:
    world.tmux("kill-pane", "-t", "=one:")


def edit(world: World) -> None:
    path = world.record("one")
    path.write_text(path.read_text() + "\n# a note of mine\n")


def edit_digest(world: World) -> None:
    path = world.record("one")
    path.write_text(path.read_text().replace('"state":"running"', '"state":"stopped"', 1))


def truncate(world: World) -> None:
    os.truncate(world.record("one"), 700)


def delete_record(world: World) -> None:
    world.record("one").unlink()


def rename(world: World) -> None:
    world.record("one").rename(world.record("other"))


def exit_file(world: World) -> None:
    stem = next(world.state.glob("run/*/one-*.pid")).with_suffix(".exit")
    stem.write_text("0 here\n")


@pytest.mark.parametrize(
    ("deed", "state"),
    [
        (kill_agent, "failed"),
        (stop_agent, "running"),
        (close_pane, "lost"),
        (edit, "running"),
        (edit_digest, "running"),
        (truncate, "damaged"),
        (delete_record, "orphan"),
        (rename, "damaged"),
        (exit_file, "orphan"),
    ],
)
def test_lane_hands_over(world: World, deed: Callable[[World], None], state: str) -> None:
    world.start("one")
    assert took_fast_lane(world)
    deed(world)
    eventually(lambda: not took_fast_lane(world))
    found = world.ls()
    assert state in [one["state"] for one in found]


@pytest.mark.parametrize(
    ("deed", "state"),
    [(kill_agent, "failed"), (close_pane, "lost"), (edit, "running"), (edit_digest, "running")],
)
def test_status_lane_hands_over(world: World, deed: Callable[[World], None], state: str) -> None:
    world.start("one")
    assert took_fast_lane(world, STATUS_LANE)
    deed(world)
    assert eventually(lambda: world.sesh("status", "one").out.startswith(f"one {state}"))


def test_lane_hands_over_when_another_boot_is_on_record(world: World) -> None:
    world.start("one")
    while pids := world.processes():
        for pid in pids:
            with suppress(ProcessLookupError):  # some end with their parents
                os.kill(pid, signal.SIGKILL)
    for word in world.state.glob("run/*/*.exit"):  # a machine that goes down writes none
        word.unlink()
    move(world, "one", boot="another-boot")
    assert world.session("one")["cause"] == "reboot"


ODD_RECORD = """
from datetime import UTC, datetime
from sesh.model.progress import Report
from sesh.model.record import Spec
from sesh.operations.launch import record_only
from sesh.state import settings
spec = Spec(command=(1,), cwd="/", created=datetime.now(UTC))
record_only.create("odd", spec, Report(), settings.load())
"""


def test_a_record_that_should_not_be_breaks_no_list(world: World) -> None:
    """Older versions of sesh.api let such be made."""
    world.start("one")
    subprocess.run([sys.executable, "-c", ODD_RECORD], env=world.env, check=True)
    for argv in (["ls"], ["ls", "--sort", "name"], ["ls", "--format", "{name} {command}"]):
        done = world.ok(*argv)
        assert ("odd" in done.out, "one" in done.out, done.err) == (True, True, "")


@pytest.mark.parametrize("argv", LANES, ids=" ".join)
def test_a_lane_that_fails_hands_over(world: World, argv: list[str]) -> None:
    world.start("one")
    broken = f"""
from sesh.terminal import fast_answers
def fail(): raise TypeError("odd")
fast_answers.ls_json = fast_answers.ls_table = fail
{_PROBE.format(argv=argv)}"""
    done = subprocess.run(
        [sys.executable, "-c", broken], env=world.env, capture_output=True, text=True
    )
    assert (done.returncode, "one" in done.stdout) == (0, True), done.stderr
    assert "Traceback" not in done.stderr


def test_no_records_at_all(world: World) -> None:
    assert world.ok("ls", "--json").out == "[]\n"


def test_json_is_ascii_whatever_the_command_holds(world: World) -> None:
    """Pure JSON that can't do anything to a terminal."""
    world.start("one", "sh", "-c", "sleep 100 # \x1b[31m\x9b2J ü")
    out = world.ok("ls", "--json").out
    assert out.isascii()
    assert "\x1b" not in out
    assert json.loads(out)[0]["command"][2].endswith("\x1b[31m\x9b2J ü")


def test_a_pass_goes_without_click(world: World) -> None:
    """What every end of an agent and every timer calls."""
    world.start("one", "sleep", "99", options=("--timeout", "1h"))
    out, modules = loaded(world, ["pass"])
    assert out == ""
    assert not modules & {"click", "psutil", "sh", "sesh.terminal.command_table"}


# --- settings ------------------------------------------------------------------------------------

VALID, BROKEN = "[stop]\ngrace = 3\n", "[stop]\ngrase = 3\n"


def warns(world: World, *argv: str) -> bool:
    """Does the command do its work, with one line that names file, line, key and what is meant?"""
    done = world.ok(*argv)
    assert argv[0] in ("stop", "logs") or "one" in done.out, done
    meant = "config.toml:2: unknown key stop.grase; did you mean stop.grace?"
    return meant in done.err and done.err.count("\n") == 1


def test_settings_that_were_read_without_an_error_keep_no_lane_from_answering(world: World) -> None:
    world.start("one")
    world.configure(VALID)
    assert not took_fast_lane(world)
    for argv in (*LANES, STATUS_LANE):
        assert took_fast_lane(world, argv)
    world.configure(VALID.replace("3", "4"))
    assert not took_fast_lane(world, STATUS_LANE)
    assert took_fast_lane(world)


def test_every_look_reports_a_typing_error_in_the_settings(world: World) -> None:
    world.start("one")
    world.configure(VALID)
    world.ok("ls")
    world.configure(BROKEN)
    looks = ("ls", "ls --json", "status one", "show one", "logs one", "events", "ps", "stop one")
    for words in looks:
        assert warns(world, *words.split()), words
    assert json.loads(world.ok("ls", "--json").out)[0]["state"] == "stopped"
    world.configure(VALID)
    for words in looks[:-1]:
        assert world.sesh(*words.split()).err == "", words
    assert took_fast_lane(world)


def test_a_file_that_cannot_be_noted_as_valid_is_read_each_time(world: World) -> None:
    world.start("one")
    (world.state / "settings").mkdir()
    for _ in range(2):
        world.configure(VALID)
        assert world.ok("ls").err == ""
        assert not took_fast_lane(world)
        world.configure(BROKEN)
        assert warns(world, "ls")
