"""sesh wait: until sessions reach a state; soon, and without busy work."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import pytest

from tests.surroundings import complains
from tests.world import SESH, World, count, eventually

NOTICED_WITHIN = 0.3
CPU_LIMIT = 0.02  # of a core


def waiting(world: World, *args: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [SESH, "wait", *args],
        env=world.env,
        cwd=world.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def cpu_seconds(pid: int) -> float:
    """What a process and its ended children have used."""
    with open(f"/proc/{pid}/stat") as file:
        field = file.read().rpartition(")")[2].split()
    return sum(map(int, field[11:15])) / os.sysconf("SC_CLK_TCK")


# --- what it waits for -------------------------------------------------------------------------


def test_prints_each_name_and_state_as_it_gets_there(world: World) -> None:
    world.start("slow", "sh", "-c", "sleep 0.8; exit 3")
    world.start("quick", "sleep", "0.2")
    done = world.ok("wait", "slow", "quick")
    assert (done.out, done.err) == ("quick completed\nslow failed\n", "")


def test_one_that_has_ended_already(world: World) -> None:
    world.start("a", "true")
    assert eventually(lambda: world.state_of("a") == "completed")
    assert world.ok("wait", "a").out == "a completed\n"


def test_a_name_given_twice_is_waited_for_once(world: World) -> None:
    world.start("a", "sleep", "0.2")
    assert world.ok("wait", "a", "a").out == "a completed\n"


def test_any_of_several_is_enough(world: World) -> None:
    world.start("never")
    world.start("soon", "sleep", "0.3")
    assert world.ok("wait", "--any", "never", "soon", timeout=10).out == "soon completed\n"


@pytest.mark.parametrize(
    ("wanted", "command", "printed"),
    [
        ("running", "sleep 1000", "a running\n"),
        ("alive", "sleep 1000", "a running\n"),
        ("failed", "sleep 0.2; exit 1", "a failed\n"),
        ("ended", "sleep 0.2; exit 1", "a failed\n"),
        ("completed", "sleep 0.2", "a completed\n"),
    ],
)
def test_for_a_state_or_a_kind_of_states(
    world: World, wanted: str, command: str, printed: str
) -> None:
    world.start("a", "sh", "-c", command)
    assert world.ok("wait", "--for", wanted, "a", timeout=10).out == printed


def test_an_end_that_is_not_the_one_waited_for_goes_on(world: World) -> None:
    world.start("a", "true")
    done = world.sesh("wait", "--for", "failed", "--timeout", "0.5", "a")
    assert done.code == 124


def test_for_running_again_after_a_restart(world: World) -> None:
    world.start("a", "sh", "-c", "test -e flag && exec sleep 1000; exit 1")
    assert eventually(lambda: world.state_of("a") == "failed")
    process = waiting(world, "--for", "running", "a")
    time.sleep(0.5)
    (world.cwd / "flag").touch()
    world.ok("restart", "a")
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "a running\n")


def test_a_stop_is_an_end(world: World) -> None:
    world.start("a")
    process = waiting(world, "a")
    time.sleep(0.3)
    world.ok("stop", "a")
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "a stopped\n")


def test_an_agent_whose_server_is_killed_is_lost(world: World) -> None:
    world.start("a")
    process = waiting(world, "a")
    time.sleep(0.3)
    os.kill(world.server_pid(), signal.SIGKILL)
    out, _ = process.communicate(timeout=10)
    assert (process.returncode, out) == (0, "a lost\n")


def test_a_frozen_agent_is_still_waited_for(world: World) -> None:
    pid = world.start("a", "sleep", "1")["pid"]
    process = waiting(world, "a")
    os.kill(pid, signal.SIGSTOP)
    time.sleep(1.2)
    assert process.poll() is None
    os.kill(pid, signal.SIGCONT)
    out, _ = process.communicate(timeout=10)
    assert out == "a completed\n"


# --- exit codes --------------------------------------------------------------------------------


def test_a_timeout_is_124_and_says_who_is_missing(world: World) -> None:
    world.start("a")
    world.start("b", "true")
    begin = time.monotonic()
    done = world.sesh("wait", "--timeout", "0.6", "a", "b")
    assert 0.6 <= time.monotonic() - begin < 3
    assert (done.code, done.out) == (124, "b completed\n")
    assert done.err == "sesh: timed out waiting for a\n"


def test_a_timeout_of_nothing_only_looks(world: World) -> None:
    world.start("a")
    assert world.sesh("wait", "--timeout", "0", "a").code == 124
    assert world.sesh("wait", "--timeout", "0", "--for", "running", "a").code == 0


def test_the_exit_code_of_the_agent_is_passed_on_when_asked(world: World) -> None:
    world.start("a", "sh", "-c", "exit 42")
    assert world.sesh("wait", "--exit-code", "a").code == 42
    assert world.sesh("wait", "a").code == 0
    world.start("b", "true")
    assert world.sesh("wait", "--exit-code", "b").code == 0
    assert world.sesh("wait", "--exit-code", "b", "a").code == 42


def test_an_agent_killed_by_a_signal_is_128_and_more(world: World) -> None:
    pid = world.start("a")["pid"]
    os.kill(pid, signal.SIGKILL)
    assert world.sesh("wait", "--exit-code", "a").code == 137


def test_an_agent_that_was_lost_is_no_success(world: World) -> None:
    """There is no exit status to pass on, but `&&` must not go on."""
    world.start("a", "sh", "-c", "trap 'exit 0' HUP; echo up; while :; do sleep 0.1; done")
    os.kill(world.server_pid(), signal.SIGKILL)
    done = world.sesh("wait", "--exit-code", "a")
    assert done.out == "a lost\n"
    assert done.code != 0


def test_a_state_that_does_not_exist(world: World) -> None:
    world.start("a")
    complains(world.sesh("wait", "--for", "finished", "a"), 2, "finished", "completed", "ended")


def test_a_name_that_does_not_exist(world: World) -> None:
    world.start("alpha")
    complains(world.sesh("wait", "alfa"), 4, "did you mean alpha?")


def test_a_name_that_does_not_exist_beside_one_that_does_is_told_at_once(world: World) -> None:
    world.start("alpha")
    complains(world.sesh("wait", "alpha", "nobody", timeout=10), 4, "nobody")


def test_no_name_at_all(world: World) -> None:
    complains(world.sesh("wait"), 2)


def test_a_session_that_is_forgotten_meanwhile(world: World) -> None:
    world.start("a")
    process = waiting(world, "a")
    time.sleep(0.5)
    world.ok("rm", "--force", "a")
    out, err = process.communicate(timeout=10)
    assert (process.returncode, out) in ((4, ""), (0, "a stopped\n")), err


def test_ctrl_c(world: World) -> None:
    world.start("a")
    process = waiting(world, "a")
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=10)
    assert process.returncode == 130
    assert "Traceback" not in err


# --- soon, and without busy work ---------------------------------------------------------------


class Watch:
    """Reads what a `wait` prints, with the time of each line."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.seen: dict[str, float] = {}
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self.seen[line.split()[0]] = time.monotonic()

    def finish(self) -> int:
        self._thread.join(timeout=30)
        _, err = self.process.communicate(timeout=10)
        assert err == ""
        return self.process.returncode


def test_each_of_many_is_noticed_soon_and_the_wait_costs_next_to_nothing(world: World) -> None:
    many = count(10, 50)
    names = [f"s{number}" for number in range(many)]
    pids = {name: world.start(name)["pid"] for name in names}
    watch = Watch(waiting(world, *names))
    time.sleep(1.5)  # it has looked at each once
    before, begin = cpu_seconds(watch.process.pid), time.monotonic()
    time.sleep(3.5)
    used = (cpu_seconds(watch.process.pid) - before) / (time.monotonic() - begin)
    killed = {}
    for name in names:
        os.kill(pids[name], signal.SIGTERM)
        killed[name] = time.monotonic()
        time.sleep(0.12)
    assert watch.finish() == 0
    assert used < CPU_LIMIT, f"{used:.1%} of a core"
    late = {name: watch.seen[name] - killed[name] for name in names}
    assert max(late.values()) < NOTICED_WITHIN, late


def test_all_of_many_at_once_are_noticed_soon(world: World) -> None:
    """Their common end is a file that they all watch for."""
    many = count(10, 50)
    names = [f"s{number}" for number in range(many)]
    for name in names:
        world.start(name, "sh", "-c", "while ! [ -e go ]; do sleep 0.02; done")
    watch = Watch(waiting(world, *names))
    time.sleep(1.5)
    (world.cwd / "go").touch()
    begin = time.monotonic()
    assert watch.finish() == 0
    assert len(watch.seen) == many
    # They compete with each other for two cores while they end, so this is looser than for each.
    assert max(watch.seen.values()) - begin < NOTICED_WITHIN * 10
