"""sesh wait: until sessions reach a state; soon, and without busy work."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from tests import pace
from tests.emulator import Reader, reading
from tests.surroundings import complains
from tests.world import FULL, World, count, eventually

NOTICED_WITHIN = 0.3
CPU_LIMIT = 0.02  # of a core


def cpu_seconds(pid: int) -> float:
    """What a process and its ended children have used."""
    with open(f"/proc/{pid}/stat") as file:
        field = file.read().rpartition(")")[2].split()
    return sum(map(int, field[11:15])) / os.sysconf("SC_CLK_TCK")


# --- what it waits for -------------------------------------------------------------------------


def test_prints_each_name_and_state_as_it_gets_there(world: World) -> None:
    world.start("slow", "sh", "-c", "sleep 4; exit 3")
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


def test_for_one_of_several_words(world: World) -> None:
    world.start("a", "sh", "-c", "exit 1")
    world.start("b", "true")
    done = world.ok("wait", "--for", "failed,completed", "a", "b", timeout=20)
    assert sorted(done.out.splitlines()) == ["a failed", "b completed"]


def test_for_a_state_or_an_activity(world: World) -> None:
    """The first that is there; a plain command can still get to the state."""
    world.start("plain", "sleep", "0.2")
    idle = r"printf '\033]0;✳ Idle\007'; exec sleep 1000"
    world.ok("start", "agent", "-t", "claude", "--", "sh", "-c", idle)
    done = world.ok("wait", "--for", "idle,waiting,ended", "plain", "agent", timeout=20)
    assert sorted(done.out.splitlines()) == ["agent idle", "plain completed"]


def test_all_is_the_default_and_contradicts_any(world: World) -> None:
    world.start("a", "true")
    world.start("b", "true")
    assert world.ok("wait", "--all", "a", "b").out.count("\n") == 2
    complains(world.sesh("wait", "--all", "--any", "a"), 2, "--all", "--any")


@pytest.mark.parametrize("wanted", ["failed", "failed,running", "stopped,idle"])
def test_an_end_from_which_none_of_them_can_be_reached(world: World, wanted: str) -> None:
    world.start("a", "true")
    words = wanted.replace(",", " or ")
    complains(
        world.sesh("wait", "--for", wanted, "a", timeout=30),
        *(3, "a has ended (completed)", f"cannot become {words}", "sesh restart a"),
    )


def test_an_agent_that_ends_while_its_activity_is_waited_for(world: World) -> None:
    """Told once, and the others are waited for."""
    busy = r"printf '\033]0;⠋ Busy\007'; until [ -e go ]; do sleep 0.05; done; exit 1"
    idle = rf"{busy.removesuffix('exit 1')} printf '\033]0;✳ Idle\007'; exec sleep 1000"
    world.ok("start", "ends", "-t", "claude", "--", "sh", "-c", busy)
    world.ok("start", "idles", "-t", "claude", "--", "sh", "-c", idle)
    with reading(world, "wait", "--for", "idle,waiting", "ends", "idles") as waiter:
        world.ok("wait", "--for", "busy", "ends", "idles")
        assert waiter.running()
        (world.cwd / "go").touch()
        code, out, err = waiter.rest()
    assert (code, out) == (9, b"idles idle\n")
    assert err.startswith("sesh: ends has ended (failed) and cannot become idle or waiting; ")
    assert err.count("\n") == 1


def test_a_restart_is_no_end(world: World) -> None:
    """For a moment its record says `stopped`."""
    idle = r"printf '\033]0;✳ Idle\007'; exec sleep 1000"
    line = f"if [ -e flag ]; then {idle}; fi; exec sleep 1000"
    world.ok("start", "a", "-t", "claude", "--", "sh", "-c", line)
    with reading(world, "wait", "--for", "idle", "a") as waiter:
        (world.cwd / "flag").touch()
        world.ok("restart", "--fresh", "a")
        assert waiter.rest() == (0, b"a idle\n", "")


def test_for_running_again_after_a_retry(world: World) -> None:
    script = "test -e flag && exec sleep 1000; touch flag; exit 1"
    options = ["--retries", "1", "--retry-delay", "0.5"]
    world.start("a", "sh", "-c", script, options=options)
    assert eventually(lambda: world.session("a")["generation"] == 2)
    world.ok("wait", "--for", "running", "a", timeout=20)


def test_a_stop_is_an_end(world: World) -> None:
    world.start("a")
    with reading(world, "wait", "a") as waiter:
        time.sleep(0.3)
        world.ok("stop", "a")
        assert waiter.rest() == (0, b"a stopped\n", "")


def test_an_agent_whose_server_is_killed_is_lost(world: World) -> None:
    world.start("a")
    with reading(world, "wait", "a") as waiter:
        time.sleep(0.3)
        os.kill(world.server_pid(), signal.SIGKILL)
        assert waiter.rest() == (0, b"a lost\n", "")


def test_a_frozen_agent_is_still_waited_for(world: World) -> None:
    pid = world.start("a", "sleep", "1")["pid"]
    with reading(world, "wait", "a") as waiter:
        os.kill(pid, signal.SIGSTOP)
        time.sleep(1.2)
        assert waiter.running()
        os.kill(pid, signal.SIGCONT)
        assert waiter.rest() == (0, b"a completed\n", "")


# --- exit codes --------------------------------------------------------------------------------


def test_a_timeout_is_124_and_says_who_is_missing(world: World) -> None:
    world.start("a")
    world.start("b", "true")
    begin = time.monotonic()
    done = world.sesh("wait", "--timeout", "0.6", "a", "b")
    assert 0.6 <= time.monotonic() - begin < pace.seconds(9)
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


# --- what it prints ----------------------------------------------------------------------------


def test_for_a_line_of_output(world: World) -> None:
    """All that this launch printed counts, without escape sequences; an earlier launch does not."""
    script = r"""
        read -r word <word; printf 'listen\033[1ming\033[0m on %s\n' $word
        while read -r line; do echo "got $line"; printf 'more? '; done
    """
    (world.cwd / "word").write_text("80\n")
    world.start("web", "sh", "-c", f"stty -echo; {script}")
    for regex in ("^listening on", r"\b80$"):
        found = world.ok("wait", "web", "--output", regex, "--timeout", "1m")
        assert (found.out, found.err) == ("web listening on 80\n", "")
    with reading(world, "wait", "web", "--output", "^got") as waiting:
        world.ok("send", "web", "this")
        assert waiting.line() == "web got this"
        assert waiting.rest() == (0, b"", "")
    assert world.ok("wait", "web", "--output", "^more. $").out == "web more? \n"
    (world.cwd / "word").write_text("90\n")
    world.ok("restart", "web")
    assert world.ok("wait", "web", "--output", "listening on").out == "web listening on 90\n"
    late = world.sesh("wait", "web", "--output", "on 80|got this", "--timeout", "0.5")
    assert (late.code, late.out, late.err) == (124, "", "sesh: timed out waiting for web\n")
    complains(world.sesh("wait", "web", "--output", "a**"), 2, "--output a**: invalid")
    complains(world.sesh("wait", "web", "--output", "a", "--for", "ended"), 2, "use one of them")
    world.ok("stop", "web")
    assert world.ok("wait", "web", "--output", "listening").out == "web listening on 90\n"


def test_a_session_that_ends_without_printing_it(world: World) -> None:
    world.start("a", "sh", "-c", "read -r line; echo last word; exit 7")
    world.start("b", "sh", "-c", "read -r line; echo other words")
    with reading(world, "wait", "a", "b", "--output", "last word") as waiting:
        world.ok("send", "a", "go")
        assert waiting.line() == "a last word"
        world.ok("send", "b", "go")
        code, out, err = waiting.rest(20)
    why = "sesh: b has ended (completed: exit 0) and printed no line that matches 'last word'; "
    assert (code, out, err) == (9, b"", f"{why}next: sesh restart b\n")
    complains(world.sesh("wait", "b", "--output", "last"), 3, "(completed: exit 0)")


def test_a_state_that_does_not_exist(world: World) -> None:
    world.start("a")
    complains(world.sesh("wait", "--for", "finished", "a"), 2, "finished", "completed", "ended")
    complains(world.sesh("wait", "--for", "idle,", "a"), 2, "should be one of")


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
    with reading(world, "wait", "a") as waiter:
        time.sleep(0.5)
        world.ok("rm", "--force", "a")
        code, out, err = waiter.rest()
        assert (code, out) in ((4, b""), (0, b"a stopped\n")), err


# --- one of several that can't be waited for ---------------------------------------------------


def damage(world: World, name: str) -> None:
    world.record(name).write_text("nonsense")


@pytest.mark.parametrize("meanwhile", [False, True])
def test_a_damaged_record_of_several_is_told_and_the_others_waited_for(
    world: World, meanwhile: bool
) -> None:
    for name in ("bad", "good"):
        world.start(name)
    if not meanwhile:
        damage(world, "bad")
    with reading(world, "wait", "bad", "good") as waiter:
        time.sleep(0.5)
        damage(world, "bad")
        time.sleep(0.5)
        assert waiter.running()
        world.ok("stop", "good")
        code, out, err = waiter.rest()
    assert (code, out) == (9, b"good stopped\n")
    assert err.count("\n") == 1
    assert "bad: its record is damaged" in err


def test_a_single_damaged_record_is_6(world: World) -> None:
    world.start("bad")
    damage(world, "bad")
    complains(world.sesh("wait", "bad", timeout=10), 6, "damaged")


def test_several_of_which_none_can_be_waited_for(world: World) -> None:
    for name in ("one", "two"):
        world.start(name)
        damage(world, name)
    done = world.sesh("wait", "one", "two", timeout=10)
    assert (done.code, done.out, done.err.count("damaged")) == (6, "", 2)


def test_any_of_several_is_enough_also_beside_a_damaged_one(world: World) -> None:
    world.start("bad")
    damage(world, "bad")
    world.start("good", "sleep", "0.5")
    done = world.sesh("wait", "--any", "bad", "good", timeout=20)
    assert (done.code, done.out, "damaged" in done.err) == (0, "good completed\n", True)


def test_a_timeout_names_only_those_that_were_still_waited_for(world: World) -> None:
    for name in ("bad", "good"):
        world.start(name)
    damage(world, "bad")
    done = world.sesh("wait", "--timeout", "0.5", "bad", "good")
    assert (done.code, done.err.splitlines()[-1]) == (124, "sesh: timed out waiting for good")


def test_a_plain_command_in_a_group_of_agents(world: World) -> None:
    """Nobody will ever know what it does; of the agent its title tells."""
    world.start("plain", options=["--group", "crew"])
    busy = r"printf '\033]0;✳ Idle\007'; exec sleep 1000"
    world.ok(*("start", "agent", "-t", "claude", "--group", "crew", "--", "sh", "-c", busy))
    done = world.sesh("wait", "--group", "crew", "--for", "idle", "--timeout", "20s")
    assert (done.code, done.out) == (9, "agent idle\n"), done
    assert "plain: its activity is not tracked" in done.err
    complains(world.sesh("wait", "plain", "--for", "idle"), 2, "plain")


def test_ctrl_c(world: World) -> None:
    world.start("a")
    with reading(world, "wait", "a") as waiter:
        time.sleep(2)
        waiter.interrupt()
        code, _, err = waiter.rest()
        assert code == 130
        assert "Traceback" not in err


# --- soon, and without busy work ---------------------------------------------------------------


class Watch:
    """Reads the lines of a `wait`, with the time of each."""

    def __init__(self, waiter: Reader, many: int) -> None:
        self.seen: dict[str, float] = {}
        self._waiter, self._many = waiter, many
        self._thread = threading.Thread(target=self._read)
        self._thread.start()

    def _read(self) -> None:
        while len(self.seen) < self._many:
            name = self._waiter.line().split()[0]
            self.seen[name] = time.monotonic()

    def finish(self) -> None:
        self._thread.join(timeout=30)
        assert self._waiter.rest() == (0, b"", "")


def test_each_of_many_is_noticed_soon_and_the_wait_costs_next_to_nothing(world: World) -> None:
    names = [f"s{number}" for number in range(count(10, 50))]
    pids = {name: world.start(name)["pid"] for name in names}
    killed = {}
    with reading(world, "wait", *names) as waiter:
        watch = Watch(waiter, len(names))
        time.sleep(1.5)  # it has looked at each once
        before, begin = cpu_seconds(waiter.pid), time.monotonic()
        time.sleep(3.5)
        used = (cpu_seconds(waiter.pid) - before) / (time.monotonic() - begin)
        for name in names:
            os.kill(pids[name], signal.SIGTERM)
            killed[name] = time.monotonic()
            time.sleep(0.12)
        watch.finish()
    assert used < CPU_LIMIT, f"{used:.1%} of a core"
    late = {name: watch.seen[name] - killed[name] for name in names}
    if FULL:  # else others may use the cores
        assert max(late.values()) < pace.seconds(NOTICED_WITHIN), late


def test_all_of_many_that_end_at_once_are_noticed(world: World) -> None:
    """They all wait for the same gate to be opened."""
    gate = world.cwd / "gate"
    os.mkfifo(gate)
    names = [f"s{number}" for number in range(count(10, 50))]
    for name in names:
        world.start(name, "sh", "-c", ": <gate")
    with reading(world, "wait", *names) as waiter:
        watch = Watch(waiter, len(names))
        time.sleep(1)
        assert watch.seen == {}
        begin = time.monotonic()
        gate.write_text("")
        watch.finish()
    # They compete for the cores while they end, each with its call back: not all within the time
    # for one, but no slower than one after another.
    assert max(watch.seen.values()) - begin < pace.seconds(NOTICED_WITHIN) * len(names)
