"""What a prompt says: right without asking tmux, silent whatever is broken; and its file."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sesh.model import digest
from sesh.model.observation import Verdict
from sesh.model.session_json import view
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.terminal import prompt
from tests import pace
from tests.samples import record
from tests.surroundings import (
    STRANGER,
    as_stranger,
    fake_tmux,
    files,
    give_to_stranger,
    move,
    need_root,
    run,
)
from tests.terminal.test_fast_answers import (
    close_pane,
    delete_record,
    edit,
    edit_digest,
    exit_file,
    kill_agent,
    rename,
    stop_agent,
    truncate,
)
from tests.world import SESH, World, count, eventually


def said(world: World, *options: str) -> str:
    done = world.ok("doctor", "--prompt", *options)
    assert done.err == ""
    return done.out.removesuffix("\n")


def says(world: World, line: str) -> None:
    assert eventually(lambda: said(world) == line, 20), (said(world), line)


def test_every_state_has_a_place_in_the_order() -> None:
    assert prompt.words() == [
        *("damaged", "orphan", "failed", "timeout", "stale", "lost", "waiting", "hung", "failing"),
        *("frozen", "off-branch", "stopping", "recovering", "starting", "running", "paused"),
        *("unknown", "completed", "stopped"),
    ]
    others = ["frozen", "hung", "failing", "off-branch", "waiting"]
    assert sorted(prompt.words()) == sorted([*State, *others])


def test_nothing_when_nothing_was_ever_started(world: World) -> None:
    assert said(world) == ""
    assert not world.state.exists()


def test_nothing_when_all_is_well(world: World) -> None:
    world.start("one")
    world.start("two", "true")
    eventually(lambda: world.state_of("two") == "completed")
    assert said(world) == ""
    assert world.sesh("doctor", "--prompt", "--exit-code").code == 0


@pytest.mark.parametrize(
    ("deed", "line"),
    [
        (kill_agent, "1 failed"),
        (stop_agent, "1 frozen"),
        (close_pane, "1 lost"),
        (edit, ""),
        (edit_digest, ""),
        (truncate, "1 damaged"),
        (delete_record, "1 orphan"),
        (rename, "1 damaged · 1 orphan"),
        (exit_file, "1 orphan"),
    ],
)
def test_what_has_happened_is_seen_at_once_and_still_after_a_look(
    world: World, deed: Callable[[World], None], line: str
) -> None:
    world.start("one")
    deed(world)
    says(world, line)
    world.ls()
    says(world, line)
    code = world.sesh("doctor", "--prompt", "--exit-code").code
    assert code == (10 if line else 0)


def test_a_death_that_nobody_noted_is_seen(world: World) -> None:
    """No keeper is left to call back, so only a look can find it."""
    world.start("one")
    for pid in world.processes():
        with suppress(ProcessLookupError):  # some end with their parents
            os.kill(pid, signal.SIGKILL)
    says(world, "1 lost")


def test_worst_first_and_counted(world: World) -> None:
    for name in ("a", "b", "c", "d"):
        world.start(name)
    for name in ("a", "b"):
        os.kill(world.session(name)["pid"], signal.SIGKILL)
    world.tmux("kill-pane", "-t", "=c:")
    world.record("broken").write_text("nonsense")
    says(world, "1 damaged · 2 failed · 1 lost")
    listed = Counter(one["state"] for one in world.ls() if one.get("attention", "damaged"))
    assert listed == {"damaged": 1, "failed": 2, "lost": 1}


def test_stale_until_the_other_pane_is_gone(world: World) -> None:
    world.start("one", "sh", "-c", "read x")
    world.tmux("new-window", "-d", "-t", "=one:", "sleep", "1000")
    world.ok("send", "one", "go")
    eventually(lambda: world.state_of("one") == "stale")
    says(world, "1 stale")
    server = world.server_pid()
    os.kill(server, signal.SIGKILL)
    says(world, "")
    assert eventually(lambda: world.state_of("one") == "completed")


def test_what_was_acknowledged_is_not_mentioned_again(world: World) -> None:
    world.start("one", "false")
    says(world, "1 failed")
    world.ok("stop", "one")
    says(world, "")


def test_a_frozen_agent_that_goes_on_is_well(world: World) -> None:
    """Whatever the digest line says that a look wrote meanwhile."""
    pid = world.start("one")["pid"]
    os.kill(pid, signal.SIGSTOP)
    says(world, "1 frozen")
    world.ls()
    os.kill(pid, signal.SIGCONT)
    says(world, "")


def test_another_machine_is_nobody_to_worry_about(world: World) -> None:
    world.start("one")
    move(world, "one", id="0" * 32)
    assert world.state_of("one") == "unknown"
    assert said(world) == ""


def test_agents_are_found_when_all_records_are_gone(world: World) -> None:
    world.start("one")
    world.start("two")
    shutil.rmtree(world.state / "sessions")
    says(world, "2 orphan")


HOSTILE = '","state":"failed","attention":"look","x":"\\'


def test_names_and_commands_can_fool_nobody(world: World) -> None:
    """Quotes are escaped in JSON: what looks like a key in a text is none."""
    options = ("--tag", HOSTILE, "--group", '"attention":"x"')
    world.start("one", "sh", "-c", f"sleep 100 # {HOSTILE}", options=options)
    assert said(world) == ""
    world.start("two", "sh", "-c", 'exit 3 # "attention":null,"state":"running"')
    says(world, "1 failed")


def test_the_bytes_of_a_view_say_what_its_json_says() -> None:
    texts = ['"attention":null,', '\\"attention":null,', HOSTILE, 'x"attention', "ü\x00\n"]
    for text in texts:
        sample = record(outcome=State.FAILED, reason=text)
        spec = replace(sample.spec, command=(text, text), cwd=text, tags=(text,), group=text)
        word = replace(sample.agent, phase=text, metadata={"attention": "null", text: text})
        hostile = replace(sample, spec=spec, agent=word)
        for attention in (text, None):
            verdict = Verdict(State.FAILED, reason=text, attention=attention)
            shown = view(hostile, verdict)
            raw = json.dumps(shown, separators=(",", ":")).encode()
            assert digest.state(raw) == shown["state"]
            assert digest.needs_attention(raw) == (shown["attention"] is not None)


def test_no_program_is_asked_and_nothing_is_written(world: World) -> None:
    os.kill(world.start("one")["pid"], signal.SIGSTOP)  # nobody is called back for this
    world.record("broken").write_text("nonsense")
    env = fake_tmux(world, f"touch {world.root}/asked")
    env["PATH"] = str(world.root / "fake")
    before = files(world.root)
    assert eventually(
        lambda: world.ok("doctor", "--prompt", env=env).out == "1 damaged · 1 frozen\n"
    )
    assert files(world.root) == before


# --- what is broken stays out of the shell -------------------------------------------------------


def test_a_directory_of_somebody_else_says_nothing(world: World) -> None:
    need_root()
    world.start("one", "false")
    says(world, "1 failed")
    os.chown(world.state, STRANGER, STRANGER)
    assert said(world) == ""


def test_an_unreadable_directory_says_nothing(world: World) -> None:
    world.start("one", "false")
    says(world, "1 failed")
    give_to_stranger(world)
    os.chmod(world.state / "sessions", 0)
    done = run(world, *as_stranger(SESH, "doctor", "--prompt"))
    assert (done.code, done.out, done.err) == (0, "", "")


@pytest.mark.parametrize("broken", ["state", "state/sesh", "state/sesh/sessions"])
def test_a_file_instead_of_a_directory_says_nothing(world: World, broken: str) -> None:
    path = world.root / broken
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("")
    assert said(world) == ""


def test_no_home_says_nothing(world: World) -> None:
    done = world.sesh("doctor", "--prompt", env={"PATH": world.env["PATH"], "HOME": "/nowhere"})
    assert (done.code, done.out, done.err) == (0, "", "")


# --- the file ------------------------------------------------------------------------------------


def prompt_file(world: World) -> Path:
    return world.runtime / "prompt"


def kept(world: World) -> str:
    found = re.fullmatch(r"\d+ (.*)\n", prompt_file(world).read_text())
    assert found
    return found[1]


def test_no_command_makes_the_file_unasked(world: World) -> None:
    world.start("one")
    world.ok("stop", "one")
    assert not prompt_file(world).exists()


def test_every_command_leaves_the_truth_in_the_file(world: World) -> None:
    world.ok("doctor", "--prompt", "--refresh")
    assert stat.S_IMODE(prompt_file(world).stat().st_mode) == 0o600
    assert kept(world) == ""
    world.start("one", "sh", "-c", "exit 3")
    assert eventually(lambda: kept(world) == "1 failed"), "the pass that the keeper calls for"
    world.ok("stop", "one")
    assert kept(world) == ""
    assert not list(prompt_file(world).parent.glob(".prompt*"))


def test_a_death_reaches_the_file_by_the_pass_that_follows(world: World) -> None:
    world.start("one")
    world.ok("doctor", "--prompt", "--refresh")
    kill_agent(world)
    assert eventually(lambda: kept(world) == "1 failed")
    world.ok("restart", "one")
    assert kept(world) == ""


def test_without_a_runtime_directory_the_file_is_with_the_launches(world: World) -> None:
    if Path(f"/run/user/{os.getuid()}").is_dir():
        pytest.skip("there is one, and it is not ours to write to")
    env = {name: value for name, value in world.env.items() if name != "XDG_RUNTIME_DIR"}
    world.ok("doctor", "--prompt", "--refresh", env=env)
    (path,) = world.state.glob("run/*/prompt")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert stat.S_IMODE(world.state.stat().st_mode) == 0o700


def test_nothing_is_written_for_somebody_else(world: World) -> None:
    need_root()
    world.ok("doctor", "--prompt", "--refresh")
    prompt_file(world).unlink()
    world.state.mkdir(parents=True)
    os.chown(world.state, STRANGER, STRANGER)
    world.ok("doctor", "--prompt", "--refresh")
    assert not prompt_file(world).exists()


def test_many_at_once_leave_one_true_line(world: World) -> None:
    world.start("one", "false")
    says(world, "1 failed")
    several = [world.popen("doctor", "--prompt", "--refresh") for _ in range(count(8, 100))]
    assert [one.wait(pace.seconds(60)) for one in several] == [0] * len(several)
    assert kept(world) == "1 failed"
    left = {path.name for path in prompt_file(world).parent.glob("*prompt*")}
    assert left == {"prompt", "prompt.lock"}


def test_a_restart_during_refreshes_has_the_last_word(world: World) -> None:
    """A refresh that began before the restart must not put the old line back after it."""
    world.start("one", "sh", "-c", "[ -e well ] && exec sleep 1000; exit 3")
    says(world, "1 failed")
    for _ in range(count(3, 50)):
        several = [world.popen("doctor", "--prompt", "--refresh") for _ in range(4)]
        (world.cwd / "well").touch()
        world.ok("restart", "one")
        assert [one.wait(pace.seconds(60)) for one in several] == [0] * len(several)
        assert kept(world) == ""
        (world.cwd / "well").unlink()
        kill_agent(world)
        says(world, "1 failed")


def test_a_file_that_cannot_be_written_fails_no_command(world: World) -> None:
    prompt_file(world).mkdir(parents=True)
    assert world.ok("doctor", "--prompt", "--refresh").err == ""
    assert world.ok("start", "one", "--", "sleep", "1000").err == ""
    assert prompt_file(world).is_dir()


# A command that left no file to open: old Pythons keep pipes open when a subprocess can't be begun.
_NO_FILES_LEFT = """
import resource
from sesh import __main__

def full(argv):
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    return 1

__main__._full = full
__main__.script()
"""


def test_no_open_files_left_for_the_file_fails_no_command(world: World) -> None:
    done = run(world, sys.executable, "-c", _NO_FILES_LEFT, "start")
    assert (done.code, done.err) == (1, "")
