"""An agent in a container may be hostile: whatever its inside says is data. It can lie about its
own session only, never stops another's, and its container can always be removed."""

from __future__ import annotations

from typing import Any

import pytest

from tests.engine import Engine
from tests.places.docker.boxes import PATIENCE, inside, lives, run_box, start_also
from tests.world import World, eventually

# Replaces the shell and tmux of a container by a program that only prints something.
_LIARS = (
    "b=$(readlink -f /bin/sh); for w in $(command -v tmux) /bin/sh; do rm -f $w;"
    " printf '#!%s sh\\necho \"{0}\"\\n' $b >$w; chmod 755 $w; done"
)
_END = "kill -9 $pid $keeper $leader"
_PANE = "tmux -S /tmp/.sesh-$short/tmux.sock set-option -p -t %0 @sesh_exit '1 {0}'; rm -f $id.*; "
_TIMES = f"{_END}; echo 3 here >$id.1.exit; touch -d '{{0}}' $id.1.exit $id.1.pid /run/sesh.log"
_HUNDRED = "d/" * 100
ATTACKS = {
    "digit": _LIARS.format("²"),
    "endless": _LIARS.format("9" * 5000),
    "directory": f"rm -f $id.1.exit*; mkdir $id.1.exit; {_END}",
    "directories": f"rm -rf *; mkdir $id.1.exit $id.1.pid $id.2.pid $id.2.launch words.sh; {_END}",
    "status": f"{_PANE.format(99999)}{_END}",
    "sign": f"{_PANE.format('²')}{_END}",
    "names": f"touch $id.².pid $id.².exit $id.٣.pid $id.{'9' * 200}.pid; {_END}",
    "future": _TIMES.format("9999-12-31 23:59"),
    "past": _TIMES.format("1910-01-01 00:00"),
    "long": f"{_END}; n={'9' * 3000}; echo $n 1 1 1 1 %0 1 1 >$id.1.pid; echo $n here >$id.1.exit",
    "deep": f"for i in $(seq 15); do mkdir -p {_HUNDRED} && cd {_HUNDRED}; done",
}


def attack(world: World, engine: Engine, name: str, script: str, *options: str) -> dict[str, Any]:
    """Start a session whose agent then does this as root of its container."""
    shown: dict[str, Any] = start_also(world, name, *options, command=("sleep", "1000"))
    identity = shown["id"]
    who = (
        f"cd /run/sesh; id={identity} short={identity[-8:]}; read pid _ keeper leader _ <$id.1.pid"
    )
    inside(engine, name, f"{who}; {script}; :")
    return shown


@pytest.mark.long
def test_reports_from_inside_are_only_data(boxed: World, engine: Engine) -> None:
    retried = ("--retries", "1", "--retry-delay", "1h", "--retry-max-delay", "1h")
    begun = {n: attack(boxed, engine, n, script, *retried) for n, script in ATTACKS.items()}
    boxed.start("honest")
    for command in (("ls",), ("ls", "--all", "--wide"), ("gc",), ("pass",), ("doctor", "--prompt")):
        assert boxed.sesh(*command).code == 0, command
    doctor = boxed.sesh("doctor")
    assert doctor.code == 10
    assert "the private mount of deep holds more than" in doctor.out
    assert "more than 10000 files" in boxed.ok("show", "deep").out
    shown = {one["name"]: one for one in boxed.ls()}
    assert shown["honest"]["state"] == "running"
    for name in ATTACKS:
        one = shown[name]
        assert one["state"] in ("running", "recovering", "stale"), one
        assert one["exit_code"] in (None, 3, 137), one
        assert begun[name]["created"] <= (one["ended"] or one["checked_at"]) <= one["checked_at"]
        assert (one["last_output"] or "") <= one["checked_at"]
        assert boxed.sesh("show", name).code == 0
    for name in ("names", "directories"):
        boxed.ok("restart", name)
        assert boxed.state_of(name) == "running"
    boxed.ok("stop", "--all", "--yes")
    assert engine.containers() == []
    boxed.ok("rm", *ATTACKS)
    assert not list(boxed.state.glob("run/*/*.box"))


def over(world: World, name: str) -> bool:
    """Has a pass ended it?"""
    world.ok("pass")
    return world.state_of(name) == "timeout"


def test_a_lying_agent_in_an_existing_container_is_ended_from_outside(
    boxed: World, engine: Engine
) -> None:
    run_box(engine, "theirs")
    options = ("--container", "theirs", "--timeout", "2s")
    boxed.start("a", options=("--container", "theirs"))
    pids = [boxed.session("a")["pid"], boxed.start("late", options=options)["pid"]]
    engine.docker("exec", "theirs", "sh", "-c", ATTACKS["digit"])
    boxed.ok("stop", "a", "--grace", "0")
    assert boxed.state_of("a") == "stopped"
    assert eventually(lambda: over(boxed, "late"), PATIENCE)
    assert not any(map(lives, pids))
    assert engine.containers(all=False) == ["theirs"]


def test_a_lying_agent_is_ended_at_its_timeout(boxed: World, engine: Engine) -> None:
    attack(boxed, engine, "liar", ATTACKS["digit"], "--timeout", "2s")
    assert eventually(lambda: over(boxed, "liar"), PATIENCE)
    assert engine.containers() == []
