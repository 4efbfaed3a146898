"""`make soak`: random commands in parallel, some killed by -9, agents and tmux servers too, gc in
between. Every so often all pause, and what sesh says is compared with what is true. A table at the
end; exit 1 if anything was wrong. A seed makes the same choices again, not the same timing.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from tests import pace
from tests.faults.living import command_line, look, marked, servers
from tests.surroundings import read_record
from tests.world import SESH, World, eventually

NAMES = tuple(f"s{number}" for number in range(10))
GROUPS = ("g", "h")
WORKERS = 4
HUNG = 90.0  # seconds after which a command that should have ended is hung, on a quick machine
ROUND = 20.0  # seconds of work between two comparisons
KILLED = 0.1  # of all commands
SERVER, AGENT, RECORD = 0.04, 0.15, 0.05  # a second: how often one of these is killed or deleted
FINE = {0, 1, 3, 4, 5, 8, 9, 10, 124}  # 2, 6 and 70 never
ALIVE = ("running", "paused", "starting", "stopping")
ENDED = ("completed", "failed", "stopped", "timeout", "lost", "stale")
AGENTS = (
    ("sleep", "1000"),
    ("sh", "-c", "while :; do echo line; sleep 0.2; done"),
    ("sh", "-c", "trap '' HUP; sleep 1000 & wait"),
    ("sh", "-c", "trap 'sleep 0.2; exit 0' TERM; while :; do sleep 0.1; done"),
    ("sh", "-c", "sleep 0.5; exit 3"),
    ("sh", "-c", "echo done"),
    ("cat",),
)
OPTIONS = (
    (),
    ("--retries", "2", "--retry-delay", "200ms", "--retry-on", "failure,lost"),
    ("--timeout", "3s"),
    ("--idle-timeout", "2s", "--tag", "quiet"),
    ("--max-memory", "1g", "--health-cmd", "true", "--health-interval", "1s"),
)


@dataclass
class Tally:
    """What has happened so far."""

    codes: Counter[tuple[str, str]] = field(default_factory=Counter)  # command and exit code
    kills: Counter[str] = field(default_factory=Counter)
    wrong: dict[str, list[str]] = field(default_factory=dict)
    started: dict[str, str] = field(default_factory=dict)  # id → name, acknowledged by `start`
    forgotten: set[str] = field(default_factory=set)  # ids whose record we or a killed rm removed

    def note(self, kind: str, what: str) -> None:
        self.wrong.setdefault(kind, []).append(what)

    def forget(self, name: str) -> None:
        self.forgotten |= {session_id for session_id, one in self.started.items() if one == name}


def choose(dice: random.Random) -> tuple[str, ...]:
    """A random command."""
    name, group = dice.choice(NAMES), dice.choice(GROUPS)
    start = ("start", name, "--json", "--group", group, *dice.choice(OPTIONS))
    commands: dict[tuple[str, ...], int] = {
        (*start, "--", *dice.choice(AGENTS)): 16,
        ("stop", name, "--grace", "500ms"): 6,
        ("restart", name, "--grace", "500ms"): 6,
        ("rm", "-f", name): 3,
        ("rm", name): 1,
        ("pause", name): 3,
        ("resume", name): 4,
        ("send", name, "hello"): 3,
        ("ls", "--json"): 4,
        ("ls", "--all", "--wide"): 1,
        ("show", name): 2,
        ("status", name): 2,
        ("logs", name): 1,
        ("gc",): 2,
        ("gc", "--auto"): 2,
        ("gc", "--older-than", "1s"): 1,
        ("doctor",): 1,
        ("adopt", "--all"): 2,
        ("pass",): 2,
        ("restart", "--lost", "-y"): 1,
        ("stop", "--group", group, "-y", "--grace", "500ms"): 1,
        ("stop", "--orphans", "-y", "--grace", "500ms"): 1,
        ("wait", name, "--timeout", "1s"): 1,
        ("update", name, "--phase", "executing"): 2,
        ("events",): 1,
        ("stats",): 1,
    }
    return dice.choices([*commands], [*commands.values()])[0]


class Soak:
    def __init__(self, world: World, seed: int) -> None:
        self.world, self.seed, self.tally = world, seed, Tally()
        self.lock = threading.Lock()
        world.configure("[start]\nlaunch_timeout = 30\n[breaker]\nfailures = 0\n")

    # --- what is done ----------------------------------------------------------------------------

    def work(self, number: int, deadline: float) -> None:
        """One of the workers, for one round."""
        dice = random.Random(f"{self.seed} {number}")
        while time.monotonic() < deadline:
            self.command(dice, choose(dice))

    def command(self, dice: random.Random, argv: tuple[str, ...]) -> None:
        process = subprocess.Popen(
            [SESH, *argv],
            env=self.world.env,
            cwd=self.world.cwd,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )
        doomed = dice.random() < KILLED
        try:
            limit = dice.uniform(0.0, 0.6) if doomed else pace.seconds(HUNG)
            out, err = process.communicate(timeout=limit)
        except subprocess.TimeoutExpired:
            process.kill()
            out, err = process.communicate()
            if not doomed:
                self.note("hung commands", " ".join(argv))
        self.judge(argv, process.returncode, out, err, doomed=doomed)

    def judge(
        self, argv: tuple[str, ...], code: int, out: bytes, err: bytes, *, doomed: bool
    ) -> None:
        killed = doomed and code == -signal.SIGKILL
        with self.lock:
            self.tally.codes[argv[0], "killed" if killed else str(code)] += 1
            self.tally.kills["commands"] += killed
            if killed and argv[0] == "rm":
                self.tally.forget(argv[-1])
            if argv[0] == "start" and code == 0:
                self.tally.started[json.loads(out)["id"]] = argv[1]
        if code not in FINE and not killed:
            kind = "exit 70" if code == 70 else "wrong exit codes"
            self.note(kind, f"{' '.join(argv)}: {code}: {err.decode(errors='replace')[-300:]}")

    def harm(self, deadline: float, dice: random.Random) -> None:
        """Kill servers and agents, delete records."""
        while time.monotonic() < deadline:
            time.sleep(1.0)
            for chance, harm in ((SERVER, self.kill_server), (AGENT, self.kill_agent)):
                if dice.random() < chance:
                    harm(dice)
            if dice.random() < RECORD:
                self.lose_record(dice)

    def kill_server(self, dice: random.Random) -> None:
        self.kill(dice, "servers", servers(self.world))

    def kill_agent(self, dice: random.Random) -> None:
        self.kill(dice, "agents", [*marked(self.world)])

    def kill(self, dice: random.Random, what: str, pids: list[int]) -> None:
        if pids:
            with suppress(ProcessLookupError):
                os.kill(dice.choice(sorted(pids)), signal.SIGKILL)
                self.tally.kills[what] += 1

    def lose_record(self, dice: random.Random) -> None:
        name = dice.choice(NAMES)
        with suppress(FileNotFoundError):
            self.tally.forgotten.add(read_record(self.world, name).id)
            self.world.record(name).unlink()
            self.tally.kills["records deleted"] += 1

    # --- what must be true -----------------------------------------------------------------------

    def note(self, kind: str, what: str) -> None:
        with self.lock:
            self.tally.note(kind, what)

    def compare(self) -> None:
        """Nobody does anything: what sesh says is true. What is under way may take a while."""
        self.world.sesh("pass")
        found: list[tuple[str, str]] = []

        def quiet() -> bool:
            found[:] = self.differences()
            return not found

        if not eventually(quiet, within=20, pause=0.5):
            for kind, what in found:
                self.note(kind, what)

    def differences(self) -> Iterator[tuple[str, str]]:
        done = self.world.exec("ls", "--json", "--all", timeout=pace.seconds(HUNG))
        if done.code:
            yield "wrong states", f"ls: exit {done.code}: {done.err}"
            return
        living = marked(self.world)
        listed = done.json
        for one in listed:
            yield from ((("wrong states", f"{one['name']}: {why}")) for why in wrong(one, living))
        told = {one["id"] for one in listed}
        for pid, session_id in living.items():
            if session_id not in told and is_agent(pid):
                yield "lost sessions", f"agent {pid} of {session_id} is not listed"
        yield from self.lost(told)

    def lost(self, listed: set[str]) -> Iterator[tuple[str, str]]:
        events = self.world.events()
        removed = {event["id"] for event in events if event["kind"] == "removed"}
        archived = {path.stem for path in (self.world.state / "history").glob("*.toml")}
        known = listed | removed | archived | self.tally.forgotten
        for session_id in self.tally.started.keys() - known:
            yield "lost sessions", f"{session_id} was started, and is nowhere"

    def check_events(self) -> None:
        """Each end once, and none missing."""
        told = Counter(
            (event["id"], event["generation"], event["kind"], str(event.get("reason")))
            for event in self.world.events()
            if event["kind"] in ("ended", "stopped")
        )
        for end, times in told.items():
            if times > 1:
                self.note("wrong events", f"told {times} times: {end}")
        known = {(session_id, generation) for session_id, generation, _, _ in told}
        for one in self.world.ls("--all"):
            key = (one["id"], one["generation"])
            if one["state"] in ENDED and one["cause"] != "launch" and key not in known:
                self.note("wrong events", f"no event of the end of {key}: {one['reason']}")

    # --- the whole -------------------------------------------------------------------------------

    def run(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        rounds = 0
        while time.monotonic() < end:
            deadline = min(end, time.monotonic() + ROUND)
            self.together(rounds, deadline)
            self.compare()
            rounds += 1
            print(f"  {max(0.0, end - time.monotonic()):4.0f} s left", file=sys.stderr, flush=True)
        self.check_events()
        self.finish()

    def together(self, rounds: int, deadline: float) -> None:
        dice = random.Random(f"{self.seed} harm {rounds}")
        threads = [threading.Thread(target=self.harm, args=(deadline, dice))]
        for number in range(WORKERS):
            place = rounds * WORKERS + number
            threads.append(threading.Thread(target=self.work, args=(place, deadline)))
        for one in threads:
            one.start()
        for one in threads:
            one.join()

    def finish(self) -> None:
        """Everything is stopped and removed: nothing is left."""
        sweep: tuple[tuple[str, ...], ...] = (
            ("adopt", "--all"),
            ("stop", "--all", "-y", "--grace", "1s"),
            ("stop", "--orphans", "-y", "--grace", "1s"),
            ("rm", "-f", *NAMES),
            ("gc",),
            ("pass",),
        )

        def gone() -> bool:
            for argv in sweep:
                self.world.exec(*argv, timeout=pace.seconds(HUNG))
            return not [pid for pid in self.world.processes() if pid not in servers(self.world)]

        if not eventually(gone, within=60, pause=1.0):
            for pid in self.world.processes():
                self.note("leftover processes", f"{pid} {command_line(pid)[:200]}")
        if (self.world.state / "bugs.log").exists():
            self.note("exit 70", (self.world.state / "bugs.log").read_text()[-2000:])


def wrong(one: dict[str, Any], living: dict[int, str]) -> Iterator[str]:
    """What of a session, as it is listed, is not true."""
    state, pid = one["state"], one["pid"]
    if state in ("damaged", "unknown"):
        yield f"{state}: {one['reason']}"
    if state in ("running", "paused") and not (pid and alive(pid)):
        yield f"{state}, but process {pid} is gone"
    if state in ("starting", "stopping"):
        yield f"{state} while nobody does anything: {one['reason']}"
    if state in ENDED:
        agents = [p for p, owner in living.items() if owner == one["id"] and is_agent(p)]
        if agents and alive(agents[0]):
            yield f"{state}, but its agent {agents} lives"


def alive(pid: int) -> bool:
    found = look(pid)
    return found is not None and found.alive


def is_agent(pid: int) -> bool:
    """Is it what a keeper has launched, and no keeper itself?"""
    found = look(pid)
    above = command_line(found.parent) if found and found.alive else ""
    return "keeper.sh" in above and "keeper.sh" not in command_line(pid)


def table(tally: Tally) -> list[str]:
    """Commands by exit code; then what was done to them; then what was wrong."""
    codes = sorted({code for _, code in tally.codes}, key=lambda c: (not c.isdigit(), len(c), c))
    rows = [["command", *codes, "all"]]
    for name in sorted({command for command, _ in tally.codes}):
        counts = [tally.codes[name, code] for code in codes]
        rows.append([name, *(str(one or "") for one in counts), str(sum(counts))])
    sums = [sum(n for (_, c), n in tally.codes.items() if c == code) for code in codes]
    rows.append(["all", *map(str, sums), str(sum(sums))])
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [" | ".join(f"{cell:>{w}}" for cell, w in zip(r, widths, strict=True)) for r in rows]
    kills = ", ".join(f"{count} {what}" for what, count in sorted(tally.kills.items()))
    lines += ["", f"killed or deleted: {kills or 'nothing'}", f"sessions: {len(tally.started)}", ""]
    kinds = ("wrong states", "lost sessions", "leftover processes", "hung commands")
    for kind in (*kinds, "exit 70", "wrong exit codes", "wrong events"):
        lines.append(f"{kind}: {len(tally.wrong.get(kind, []))}")
    lines += [f"  {kind}: {what}" for kind, all_ in tally.wrong.items() for what in all_[:20]]
    return lines


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=900.0)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    given = parser.parse_args()
    print(f"soak: {given.seconds:g} s, seed {given.seed}", flush=True)
    world = World()
    soak = Soak(world, given.seed)
    try:
        soak.run(given.seconds)
    finally:
        if not soak.tally.wrong:
            world.end()
    print("\n".join(table(soak.tally)))
    result = f"wrong; see {world.root}" if soak.tally.wrong else "all right"
    print(f"seed {given.seed}: {result}")
    if soak.tally.wrong:
        for pid in world.processes():
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    return 1 if soak.tally.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
