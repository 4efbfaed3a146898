"""`make bench`: how fast sesh is, in times of a bare interpreter start, and beside other tools.

Measures and prints; nothing here fails because something is slow. Everything runs in private
directories with servers of its own, and is ended and removed at the end.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shutil
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tests.bench import batches, care, containers, hooks, inprocess, memory, prompts, report
from tests.bench.install import BENCH, NotInstalledError, Tools, install
from tests.bench.peers import Peers, docker_case, docker_image
from tests.bench.report import Report, Times
from tests.bench.timing import Case, Runner, always, medians
from tests.world import World, eventually

AT_ONCE = 2  # sessions that are started side by side
_FIRST = "s0000"  # the session that is asked about alone
_READ = """
import os, sys
for path in sys.argv[1:]:
    fd = os.open(path, os.O_RDONLY)
    os.read(fd, 4096)
    os.close(fd)
os._exit(0)
"""


@dataclass(frozen=True, slots=True)
class Plan:
    sizes: tuple[int, ...] = (10, 100, 1000)
    rounds: int = 45
    slow_rounds: int = 11
    care_seconds: float = 300.0


QUICK = Plan(sizes=(10, 100), rounds=15, slow_rounds=5, care_seconds=60.0)


class Bench:
    """Our sessions and those of the peers, growing together."""

    def __init__(self, plan: Plan, tools: Tools, world: World) -> None:
        self.plan = plan
        self.tools = tools
        self.world = world
        self.peers = Peers(world, tools, plan.slow_rounds)
        self.runner = Runner(world.env, world.root / "stderr")
        self.started = 0

    def grow(self, count: int) -> None:
        """Start sessions until there are `count`, all of them running."""
        names = [f"s{number:04}" for number in range(self.started, count)]
        with ThreadPoolExecutor(AT_ONCE) as pool:
            list(pool.map(self._start, names))
        self.started = count
        running = [one for one in self._listed() if one["state"] == "running"]
        assert len(running) == count, f"{len(running)} of {count} sessions run"

    def _start(self, name: str) -> None:
        self._sesh("start", name, "--", "sleep", "100000")

    def _sesh(self, *words: str) -> str:
        done = subprocess.run(
            [self.tools.sesh, *words], env=self.world.env, capture_output=True, text=True
        )
        assert done.returncode == 0, f"sesh {' '.join(words)}: {done.stderr}"
        return done.stdout

    def _listed(self) -> list[dict[str, object]]:
        listed: list[dict[str, object]] = json.loads(self._sesh("ls", "--json"))
        return listed

    # --- lists ---

    def lists(self, *, with_peers: bool) -> Times:
        rounds = self.plan.rounds
        ours = always(self.peers.tmux, "-S", self.world.socket, "ls")
        cases = [
            self._bare(),
            Case(report.PROMPT, always(self.tools.sesh, "doctor", "--prompt"), rounds),
            Case("sesh ls --json", always(self.tools.sesh, "ls", "--json"), rounds),
            Case(report.PIP, always(self.tools.python, self.tools.sesh, "ls", "--json"), rounds),
            Case(report.FILES, always(self.tools.python, "-c", _READ, *self._files()), rounds),
            Case("sesh ls", always(self.tools.sesh, "ls"), rounds),
            Case("sesh gc", always(self.tools.sesh, "gc", "--auto"), rounds),  # nothing to do
            Case("sesh doctor", always(self.tools.sesh, "doctor"), self.plan.slow_rounds),
            Case("sesh status", always(self.tools.sesh, "status", _FIRST), rounds),
            Case("sesh show", always(self.tools.sesh, "show", _FIRST), self.plan.slow_rounds),
            Case("sesh logs -n", always(self.tools.sesh, "logs", "-n", "5", _FIRST), rounds),
            Case("tmux ls", ours, rounds),
        ]
        return medians([*cases, *(self.peers.list_cases() if with_peers else ())], self.runner)

    def _files(self) -> list[str]:
        """What says of every session whether it lives: its record, and its agent's process."""
        pids = [one["pid"] for one in self._listed()]
        return [
            *map(str, self.world.state.glob("sessions/*.toml")),
            *(f"/proc/{p}/stat" for p in pids),
        ]

    def _bare(self) -> Case:
        return Case(report.BARE, always(self.tools.python, "-c", "pass"), self.plan.rounds)

    def full_path(self) -> list[str]:
        """The lists that no fast lane answered, though nothing has changed: that would be a bug."""
        lanes = (["doctor", "--prompt"], ["ls", "--json"], ["ls"])
        return [" ".join(words) for words in lanes if self._imports(words)]

    def _imports(self, words: list[str]) -> bool:
        done = subprocess.run(
            [self.tools.python, "-X", "importtime", self.tools.sesh, *words],
            env=self.world.env,
            capture_output=True,
            text=True,
        )
        return "sesh.terminal.command_table" in done.stderr

    def prompts(self) -> Times:
        rounds = self.plan.slow_rounds
        return prompts.measure(self.tools.sesh, self.world.root, self.world.env, rounds)

    # --- commands that wait ---

    def without_waiting(self) -> Times:
        """By processor time. A call of attach ends where it would become a client of tmux."""
        rounds = self.plan.slow_rounds
        near, far = os.openpty()
        cases = [
            self._bare(),
            Case("sesh send", always(self.tools.sesh, "send", _FIRST, "x"), rounds),
            Case("sesh stop", always(self.tools.sesh, "stop", _FIRST), rounds, self._restart),
            Case("sesh attach, until its exec", always(*self._attach()), rounds),
        ]
        runner = Runner(self.world.env, self.runner.said, processor=True, terminal=os.ttyname(far))
        try:
            return medians(cases, runner)
        finally:
            os.close(near)
            os.close(far)

    def _attach(self) -> tuple[str, ...]:
        script = Path(self.tools.sesh)
        first, *code = script.read_text().splitlines()
        begin = f"import os, sys\nos.execv = lambda *_: os._exit(0)\nsys.argv[0] = {str(script)!r}"
        return (
            *first.removeprefix("#!").split(),
            "-c",
            "\n".join([begin, *code]),
            "attach",
            _FIRST,
        )

    def _restart(self, _: int) -> None:
        self._sesh("restart", _FIRST)

    # --- start ---

    def starts(self, image: str | None) -> Times:
        cases = [
            self._bare(),
            Case(
                report.START,
                lambda n: (self.tools.sesh, "start", f"new{n}", "--", "sleep", "100000"),
                3 * self.plan.slow_rounds,
                self._forget,
            ),
            *self.peers.start_cases(),
        ]
        if image:
            cases.append(docker_case(image, self.world.root.name, self.plan.slow_rounds))
        return medians(cases, self.runner)

    def _forget(self, number: int) -> None:
        """Remove a session, and wait until the pass that its end called for is over too."""
        self._sesh("rm", "--force", f"new{number}")
        time.sleep(0.05)
        eventually(lambda: not self._passing())

    def _passing(self) -> bool:
        wanted = f"{self.tools.sesh}\0pass\0".encode()
        for path in Path("/proc").glob("[0-9]*/cmdline"):
            with suppress(OSError):
                if path.read_bytes().endswith(wanted):
                    return True
        return False

    # --- many at once ---

    def many(self) -> batches.Batch:
        """Ends all sessions."""
        names = [f"s{number:04}" for number in range(self.started)]
        self.started = 0
        return batches.Batches(self.tools.sesh, self.world).many(names)

    # --- memory, and inside one process ---

    def memory(self) -> memory.Memory:
        agents = [pid for one in self._listed() if isinstance(pid := one["pid"], int)]
        return memory.measure(self.world.server_pid(), agents)

    def in_process(self, what: str, env: dict[str, str]) -> dict[str, float]:
        done = subprocess.run(
            [self.tools.python, inprocess.__file__, what], env=env, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        measured: dict[str, float] = json.loads(done.stdout)
        return measured

    def empty_state(self) -> dict[str, str]:
        return {**self.world.env, "XDG_STATE_HOME": str(self.world.root / "empty")}


def main() -> int:
    parser = argparse.ArgumentParser(description="Measure sesh beside other tools.")
    parser.add_argument("--quick", action="store_true", help="fewer sessions, fewer rounds")
    plan = QUICK if parser.parse_args().quick else Plan()
    _note("installing")
    try:
        tools = install()
    except NotInstalledError as error:
        sys.exit(f"bench: {error}")
    world = World()
    world.env |= {name: os.environ[name] for name in os.environ if name.startswith("DOCKER_")}
    os.chdir(world.cwd)
    told = Report()
    try:
        _measure(Bench(plan, tools, world), told)
    finally:
        os.chdir("/")
        world.end()
        told.save(BENCH / "results.txt")
    return 0


def _note(what: str) -> None:
    """Progress: some steps take minutes."""
    print(f"bench: {what}", file=sys.stderr)


def _measure(bench: Bench, told: Report) -> None:
    image, why_not = docker_image()
    _note(f"looking after 100 sessions for {bench.plan.care_seconds:.0f} s")
    looked_after = _looked_after(bench.plan.care_seconds)
    _note("starting 10 sessions")
    bench.grow(10)
    bench.peers.grow(10)
    _introduce(told, bench.tools, why_not)
    _note("measuring start")
    starts = bench.starts(image)
    _note("measuring commands that wait")
    waiting = bench.without_waiting()
    single = batches.Batches(bench.tools.sesh, bench.world).one(bench.plan.slow_rounds)
    many: dict[int, batches.Batch] = {}
    lists: dict[int, Times] = {}
    used: dict[int, memory.Memory] = {}
    inside = bench.in_process("records", bench.empty_state())
    for size in bench.plan.sizes:
        with_peers = size <= 100
        if with_peers and size > bench.peers.count:
            bench.peers.grow(size)
        elif not with_peers:
            bench.peers.end()
        _note(f"starting more sessions, up to {size}")
        bench.grow(size)
        _note(f"measuring lists of {size}")
        lists[size] = bench.lists(with_peers=with_peers)
        used[size] = bench.memory()
        for words in bench.full_path():
            told.say(f"  sesh {words} with {size} sessions took the full path")
        if size == 100:
            listed = bench.in_process("list", bench.world.env)
            inside |= {name.replace("list", "list 100"): took for name, took in listed.items()}
        if size == bench.plan.sizes[-1]:
            _note("measuring prompts")
            inside_shells = bench.prompts()
        _note(f"measuring restart, stop and rm of {size}")
        many[size] = bench.many()
    report.lists(told, lists)
    report.prompts(told, inside_shells)
    _note("measuring hooks")
    report.hooks(told, hooks.measure(bench.tools.sesh, bench.tools.python, bench.plan.rounds))
    report.starts(told, starts)
    report.without_waiting(told, waiting)
    report.batches(told, single, many)
    _note("measuring containers")
    plan, tools = bench.plan, bench.tools
    boxed = containers.measure(tools.sesh, tools.python, plan.rounds, plan.slow_rounds)
    report.containers(told, boxed)
    report.memory(told, used)
    report.care(told, looked_after)
    report.in_process(told, inside)


def _looked_after(seconds: float) -> care.Cost:
    world = World()
    try:
        return care.measure(world, 100, seconds)
    finally:
        world.end()


def _introduce(told: Report, tools: Tools, no_docker: str) -> None:
    load = os.getloadavg()[0]
    told.say(f"{time.strftime('%F %R')}, {_processor()} × {os.cpu_count()}, load {load:.1f}")
    if load > (os.cpu_count() or 1):
        told.say("The machine is busy: what starts several processes looks slower than it is.")
    told.say(f"{_version(tools.python, '--version')}, {_version('tmux', '-V')}")
    for name, shown in (("supervisorctl", "supervisor"), ("tmuxp", "tmuxp"), ("pm2", "pm2")):
        if name in tools.missing:
            told.say(f"without {shown}: {tools.missing[name]}")
    if no_docker:
        told.say(f"without docker: {no_docker}")


def _version(program: str, option: str) -> str:
    found = shutil.which(program)
    if found is None:
        return f"no {program}"
    return subprocess.run([found, option], capture_output=True, text=True).stdout.strip()


def _processor() -> str:
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.machine()


if __name__ == "__main__":
    sys.exit(main())
