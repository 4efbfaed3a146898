"""How far everyday commands walk through sesh: the modules that they enter, and the calls from one
module to another. `python -m tests.walks [-v]` prints the table; -v adds the most frequent calls.

Python's own modules, libraries and what runs while a module is imported do not count.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from types import FrameType

_ROOT = Path(__file__).parents[1]
_TOP = 12
_Calls = Counter[tuple[str, str]]

if sys.argv[1:2] != ["--count"]:
    from tests import agent
    from tests.world import SESH, World


# --- the command that is counted, in a process of its own ----------------------------------------


def _count(report: str, argv: list[str]) -> int:
    """Run sesh and write down who called whom."""
    sys.argv = argv
    from sesh.__main__ import main

    calls: _Calls = Counter()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event != "call" or frame.f_back is None:
            return
        there, here = frame.f_globals.get("__name__", ""), frame.f_back.f_globals.get("__name__")
        if there == here or not there.startswith("sesh.") or _importing(frame):
            return
        name = str(here)
        calls[name if name.startswith("sesh.") else "", f"{there}.{frame.f_code.co_name}"] += 1

    sys.setprofile(note)
    try:
        return main()
    finally:
        sys.setprofile(None)
        rows = [(here, there, number) for (here, there), number in calls.items()]
        Path(report).write_text(json.dumps(rows))


def _importing(frame: FrameType) -> bool:
    """Is it a module's own body, or called by one, also by the body of a class in it?"""
    back: FrameType | None = frame
    while back is not None and back.f_code.co_name != "<module>":
        back = back.f_back
    return back is not None and back.f_globals["__name__"] != "__main__"


# --- the table -----------------------------------------------------------------------------------


def _walk(world: World, *argv: str) -> _Calls:
    report = world.root / "walk.json"
    words = [sys.executable, __file__, "--count", str(report), SESH, *argv]
    env = {**world.env, "PYTHONPATH": str(_ROOT)}
    done = subprocess.run(words, env=env, cwd=world.cwd, capture_output=True, text=True)
    assert done.returncode in (0, 1), done
    return Counter(
        {(here, there): number for here, there, number in json.loads(report.read_text())}
    )


def _modules(calls: _Calls) -> int:
    return len({there.rpartition(".")[0] for _, there in calls})


def _between(calls: _Calls) -> _Calls:
    """Without those that come from outside: a library calls back, say."""
    return Counter({pair: number for pair, number in calls.items() if pair[0]})


# Calls whose number depends on how fast agents and tmux are, or on other processes of this machine,
# and how many further calls each of them brings, itself included.
_VARYING = {
    ("sesh.places.host.launch", "sesh.places.launch_files.read_exit"): 8,
    ("sesh.places.host.terminate", "sesh.system.processes.table"): 30,
    ("sesh.state.observe", "sesh.places.launch_files.read_exit"): 5,
    ("sesh.places.panes", "sesh.system.tmux.panes"): 40,
    ("sesh.places.panes", "sesh.places.panes.gone"): 3,
    ("sesh.system.processes", "sesh.system.quick_read.of_processes"): 2,
    ("sesh.doctor.tmux", "sesh.system.processes.command"): 3,
}


def steady(calls: _Calls) -> int:
    """The calls, without those that vary from run to run."""
    varying = sum(calls[pair] * each for pair, each in _VARYING.items())
    return _between(calls).total() - varying


def walks(world: World) -> list[tuple[str, _Calls]]:
    agent.install(world)
    world.start("one")  # the tmux server is up from now on
    found = [("start", _walk(world, "start", "two", "--", "sleep", "1000"))]
    world.start("three")
    world.ok("ls")
    found += [
        (" ".join(argv), _walk(world, *argv)) for argv in (("ls", "--json"), ("pass",), ("gc",))
    ]
    agent.begin(world, "agent")
    agent.prompt(world, "agent")
    found.append(("restart of an agent", _walk(world, "restart", "agent")))
    (callback,) = world.state.glob("run/*/callback")
    callback.write_text("exit\n")  # a pass that keepers call would change records meanwhile
    return [
        *found,
        ("stop --all of 4", _walk(world, "stop", "--all", "-y")),
        ("doctor --fix", _walk(world, "doctor", "--fix", "-y")),
    ]


def _print(walks: list[tuple[str, _Calls]], *, verbose: bool) -> None:
    processes = sum(name.isdigit() for name in os.listdir("/proc"))
    print(f"{'':22}modules   calls  steady   ({processes} processes on this machine)")
    for what, calls in walks:
        print(f"{what:22}{_modules(calls):7}{_between(calls).total():8}{steady(calls):8}")
        for (here, there), number in _between(calls).most_common(_TOP if verbose else 0):
            print(f"{number:10}  {here} → {there}")


def main() -> None:
    world = World()
    try:
        _print(walks(world), verbose="-v" in sys.argv)
    finally:
        world.end()


if __name__ == "__main__":
    if sys.argv[1:2] == ["--count"]:
        sys.exit(_count(sys.argv[2], sys.argv[3:]))
    main()
