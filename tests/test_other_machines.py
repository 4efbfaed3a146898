"""Records of another machine or pid namespace: unknown, untouched. Of another boot: lost."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from contextlib import suppress
from datetime import UTC, datetime
from pathlib import Path

import pytest

from sesh.model.observation import Observation, unknown
from sesh.model.place import Process
from sesh.model.reconcile import reconcile
from sesh.model.value_object import replace
from sesh.state import observe, records
from sesh.system import processes
from tests import pace
from tests.surroundings import (
    before_this_boot,
    complains,
    files,
    move,
    need_root,
    read_record,
    run,
    write_record,
)
from tests.world import SESH, World, eventually

ELSEWHERE = "0123456789abcdef0123456789abcdef"
OLD_BOOT = "00000000-1111-2222-3333-444444444444"


def refused(world: World, name: str, *before: str) -> None:
    """Every command that would change it says that it can't tell, and does nothing."""
    for command in (["stop"], ["restart"], ["rm"], ["rm", "--force"]):
        done = run(world, *before, SESH, *command, name)
        complains(done, 5, name)
    taken = run(world, *before, SESH, "start", name, "--", "sleep", "9")
    complains(taken, 5, name)
    status = run(world, *before, SESH, "status", name)
    assert (status.code, status.err) == (5, "")
    assert status.out.startswith(f"{name} unknown (")
    assert run(world, *before, SESH, "pass").code == 0
    shown = run(world, *before, SESH, "show", name)
    assert shown.code == 0
    assert f"{name}  unknown" in shown.out


def test_another_machines_session_is_unknown_and_untouched(world: World) -> None:
    pid = world.start("a")["pid"]
    world.start("mine")
    raw = move(world, "a", id=ELSEWHERE)
    for _ in range(2):
        states = {one["name"]: one["state"] for one in world.ls()}
        assert states == {"a": "unknown", "mine": "running"}
    shown = world.session("a")
    assert (shown["last_known"], shown["reason"]) == ("running", "it runs on another machine")
    refused(world, "a")
    assert world.record("a").read_bytes() == raw
    assert Path(f"/proc/{pid}").exists()
    assert "(was running) it runs on another machine" in world.ok("ls").out


def test_another_machines_session_survives_selections(world: World) -> None:
    """--all and --lost go on with the rest, and say what they left alone."""
    world.start("a")
    world.start("mine")
    raw = move(world, "a", id=ELSEWHERE)
    done = world.sesh("stop", "--all", "-y")
    assert (done.code, done.err.startswith("sesh: a: ")) == (9, True)
    assert world.state_of("mine") == "stopped"
    done = world.sesh("restart", "--all", "-y")
    assert (done.code, done.out) == (9, "mine\n")
    assert done.err.startswith("sesh: a: ")
    done = world.sesh("stop", "-y", "a", "mine")
    assert done.code == 9
    assert world.record("a").read_bytes() == raw


def test_another_machines_ended_session_stays_ended(world: World) -> None:
    """What its own machine has written down is believed; only nothing new can be learned."""
    world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    old = read_record(world, "a")
    there = replace(old.place.machine, id=ELSEWHERE)
    moved = replace(old, place=replace(old.place, machine=there))
    verdict = reconcile(moved, Observation(unknown("elsewhere")), datetime.now(UTC))
    raw = records.render(moved, verdict)
    world.record("a").write_bytes(raw)
    assert world.state_of("a") == "failed"
    assert world.sesh("status", "a").code == 3
    world.ok("ls", "--wide")
    world.ok("pass")
    assert world.record("a").read_bytes() == raw


def test_another_pid_namespace_by_its_record(world: World) -> None:
    world.start("a")
    raw = move(world, "a", pidns="pid:[1]")
    assert world.state_of("a") == "unknown"
    assert "pid namespace" in world.session("a")["reason"]
    refused(world, "a")
    assert world.record("a").read_bytes() == raw


def test_from_inside_a_container_on_the_same_home(world: World) -> None:
    """Really: in a pid namespace of its own sesh sees no process of the host, and claims none."""
    need_root()
    inside = ("unshare", "-p", "-f", "--mount-proc")
    if run(world, *inside, "true").code:
        pytest.skip("may not make a pid namespace here")
    pid = world.start("a")["pid"]
    world.start("dead", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("dead") == "failed")
    world.ok("pass")
    before = files(world.state / "sessions")
    for options in ([], ["--sort", "name"]):
        done = run(world, *inside, SESH, "ls", "--json", *options)
        states = {one["name"]: one["state"] for one in json.loads(done.out)}
        assert states == {"a": "unknown", "dead": "failed"}
    refused(world, "a", *inside)
    assert files(world.state / "sessions") == before
    assert Path(f"/proc/{pid}").exists()
    assert world.state_of("a") == "running"


def test_a_session_started_inside_the_container_is_unknown_outside(world: World) -> None:
    need_root()
    inside = ("unshare", "-p", "-f", "--mount-proc")
    if run(world, *inside, "true").code:
        pytest.skip("may not make a pid namespace here")
    world.start("host")
    script = f"{SESH} start c -- sleep 1000 && {SESH} ls --format '{{name}} {{state}}'"
    done = run(world, *inside, "sh", "-c", script)
    assert (done.code, done.out) == (0, "c\nc running\nhost unknown\n")
    raw = world.record("c").read_bytes()
    assert world.state_of("c") == "unknown"
    assert world.record("c").read_bytes() == raw
    assert world.state_of("host") == "running"


def kill_as_a_reboot_would(world: World) -> None:
    """Everything at once: keepers first, so that none lives to write a word."""
    agents = [read_record(world, one["name"]).place.agent for one in world.ls() if one["pid"]]
    keepers = [agent.keeper for agent in agents if agent]
    for pid in (*keepers, *world.processes()):
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: not world.processes())


def test_after_a_reboot_all_are_lost_and_restart_lost_brings_them_back(world: World) -> None:
    names = ["a", "b", "c"]
    for name in names:
        world.start(name)
    world.start("stopped")
    world.ok("stop", "stopped")
    kill_as_a_reboot_would(world)
    for name in names:
        move(world, name, boot=OLD_BOOT)
    states = {one["name"]: (one["state"], one["cause"]) for one in world.ls()}
    assert states == {**dict.fromkeys(names, ("lost", "reboot")), "stopped": ("stopped", "stopped")}
    assert world.session("a")["reason"] == "this machine was restarted"
    assert world.sesh("status", "a").code == 3
    done = world.ok("restart", "--lost")
    assert done.out.split() == names
    after = {one["name"]: (one["state"], one["generation"]) for one in world.ls()}
    assert after == {**dict.fromkeys(names, ("running", 2)), "stopped": ("stopped", 1)}
    assert len(world.tmux("list-panes", "-a").splitlines()) == 3


def test_after_a_reboot_the_keepers_last_word_is_believed(world: World) -> None:
    """It ended, and was not looked at, before the machine went down."""
    world.start("a", "sh", "-c", "sleep 0.3; exit 3")
    (callback,) = world.state.glob("run/*/callback")
    callback.write_text("exit 0\n")  # nobody looks
    assert eventually(lambda: list(world.state.glob("run/*/*.exit")))
    kill_as_a_reboot_would(world)
    move(world, "a", boot=OLD_BOOT)
    shown = world.session("a")
    assert (shown["state"], shown["cause"], shown["exit_code"]) == ("failed", "exit", 3)


def test_after_a_reboot_another_process_of_that_pid_is_nobody(world: World) -> None:
    """Same pid, same start ticks even, but another boot: not the agent, never signalled."""
    world.start("a")
    kill_as_a_reboot_would(world)
    stranger = subprocess.Popen(["sleep", "1000"])
    try:
        start = int(Path(f"/proc/{stranger.pid}/stat").read_text().rpartition(")")[2].split()[19])
        old = read_record(world, "a")
        assert old.place.agent is not None
        agent = replace(old.place.agent, process=Process(stranger.pid, start))
        there = replace(old.place.machine, boot=OLD_BOOT)
        place = replace(old.place, agent=agent, machine=there)
        write_record(world, before_this_boot(replace(old, place=place)))
        assert world.state_of("a") == "lost"
        world.sesh("stop", "a")
        world.sesh("rm", "--force", "a")
        assert stranger.poll() is None
    finally:
        stranger.kill()
        stranger.wait()


# --- clones --------------------------------------------------------------------------------------

CLONE = """\
mount --bind "$0/boot_id" /proc/sys/kernel/random/boot_id && hostname "$1" || exit 99
touch "$0/up"
while [ ! -e "$0/go" ]; do sleep 0.05; done
"$2" ls --json
"$2" restart --lost
"$2" start twin -- sleep 1000
"""


@pytest.mark.parametrize("sign", ["another name", "a sign of life", "none"])
def test_a_clone_on_the_same_home_is_another_machine(world: World, sign: str) -> None:
    """Really: another boot, with its own processes, and the same machine id. Without any sign of
    the other machine since this one was started, it is this one, restarted."""
    need_root()
    own = ("unshare", "--mount", "--uts", "--pid", "--fork", "--mount-proc", "--kill-child")
    if run(world, *own, "true").code:
        pytest.skip("may not make namespaces here")
    agent = world.start("a")["pid"]
    (world.root / "boot_id").write_text(f"{OLD_BOOT}\n")
    name = "other" if sign == "another name" else os.uname().nodename
    time.sleep(2.1)  # a machine that is just being started may be off by two seconds
    argv = [*own, "sh", "-c", CLONE, str(world.root), name, SESH]
    clone = subprocess.Popen(
        argv, env=world.env, cwd=world.cwd, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    if not eventually((world.root / "up").exists):
        pytest.skip("may not mount over the boot id here")
    if sign == "a sign of life":
        time.sleep(2.1)
        world.ok("pass")
    (world.root / "go").touch()
    out, err = (text.decode() for text in clone.communicate(timeout=pace.seconds(60)))
    listed, *rest = out.splitlines()
    (shown,) = json.loads(listed)
    if sign == "none":
        assert (shown["state"], shown["cause"], rest) == ("lost", "reboot", ["a", "twin"]), err
        return
    assert (shown["state"], rest) == ("unknown", ["twin"]), (shown, err)
    assert "another machine" in shown["reason"]
    assert "nothing to restart" in err
    assert world.state_of("a") == "running"
    assert world.session("a")["pid"] == agent
    twin = world.session("twin")  # the clone has gone meanwhile: that it has, nobody knows here
    assert (twin["state"], "another machine" in twin["reason"]) == ("unknown", True)


def test_another_name_is_another_machine_until_it_is_silent_for_long(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start("a")
    move(world, "a", boot=OLD_BOOT)
    record = read_record(world, "a")
    began = time.time()
    path = Path(record.place.run) / f"boot.{OLD_BOOT}"
    known = json.loads(next(Path(record.place.run).glob("boot.*")).read_text())
    monkeypatch.setattr(processes, "booted_at", lambda: began)
    for host, last, now, twin in (
        (os.uname().nodename, began - 60, began + 60, False),
        (os.uname().nodename, began + 60, began + 90, True),
        ("other", began - 60, began + 60, True),
        ("other", began - 60, began + 4000, False),
        ("other", began + 60, began + 4000, True),
    ):
        path.write_text(json.dumps({**known, "host": host, "last": [last, 1.0, 0.0]}))
        monkeypatch.setattr(time, "time", lambda now=now: now)
        assert (observe.twin_of(record) is not None) == twin, (host, last - began)
    path.unlink()  # one of an older version
    assert observe.twin_of(record) is None


# --- batches -----------------------------------------------------------------------------------


def group(world: World, *names: str) -> None:
    for name in names:
        world.start(name, options=("--group", "g"))


@pytest.mark.parametrize("command", [("stop", "-y"), ("pause",), ("resume",), ("send",)])
def test_a_batch_names_whom_it_can_not_ask(world: World, command: tuple[str, ...]) -> None:
    group(world, "a", "b")
    if command == ("resume",):
        world.ok("pause", "a")
    move(world, "b", id=ELSEWHERE)
    text = ("hello",) if command == ("send",) else ()
    done = world.sesh(*command, "--group", "g", *text)
    assert done.code == 9
    assert "b: it runs on another machine" in done.err
    world.ok("rm", "--force", "a")
    done = world.sesh(*command, "--group", "g", *text)
    assert done.code == 5
    assert "b: it runs on another machine" in done.err


@pytest.mark.parametrize("which", [("--idle", "1s"), ("--idle", "1s", "--group", "g")])
def test_idle_ones_that_can_not_be_asked_are_named(world: World, which: tuple[str, ...]) -> None:
    group(world, "a", "b")
    move(world, "b", id=ELSEWHERE)
    time.sleep(1.2)
    done = world.sesh("stop", "-y", *which)
    assert done.code == 9
    assert "b: it runs on another machine" in done.err
    assert world.state_of("a") == "stopped"


def test_a_paused_member_is_named_by_send_as_it_is_by_its_name(world: World) -> None:
    group(world, "a", "b")
    world.ok("pause", "a")
    done = world.sesh("send", "--group", "g", "hello")
    assert (done.code, done.err.count("paused")) == (9, 1)
    world.ok("pause", "b")
    done = world.sesh("send", "--group", "g", "hello")
    assert (done.code, done.err.count("paused")) == (8, 2)


@pytest.mark.parametrize("command", ["stop", "restart", "pause", "resume", "send", "wait"])
def test_a_group_that_nobody_is_in(world: World, command: str) -> None:
    group(world, "a")
    text = ("hello",) if command == "send" else ()
    complains(world.sesh(command, "--group", "h", *text), 4, "no session is in group h")
