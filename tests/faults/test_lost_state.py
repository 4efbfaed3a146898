"""The state directory is deleted while sessions run: nothing that lives is lost for good.

With `run/` spared, every session comes back as it was. With `run/` gone too, and the tmux socket
with it, it comes back as its processes show it.
"""

from __future__ import annotations

import shutil
import signal
import subprocess
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import pytest

from tests import pace
from tests.faults.brooms import MENDING, sweep
from tests.faults.living import servers
from tests.faults.table import Campaign
from tests.world import FULL, World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

Session = dict[str, Any]

# Says every line that it hears, and leaves with the status that it is told.
LISTEN = 'while read -r a b; do [ "$a" != leave ] || exit "$b"; echo "heard $a $b"; done'
BURST = "i=0; while :; do i=$((i+1)); echo line $i; done"
KEPT = ("name", "id", "generation", "command", "cwd", "pid", "pane", "socket", "state")
ASKED = (*KEPT, "group", "tags", "created")


@dataclass(frozen=True)
class Order:
    """What a session is started with."""

    arguments: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    directory: str = "plain"


ORDERS = (
    Order(),
    Order(("it's", 'a "b" c', "$HOME", "`x`", "a\\b", ";", "#{pid}")),
    Order(("naïve", "日本語", "🦊", "-e", "", " "), ("-g", "crew", "--tag", "x"), "two words"),
    Order(("line\nbreak", "tab\there"), ("-e", "SECRET=one two", "--tag", "a", "--tag", "b")),
    Order(("*", "~", "!!", "%0", "=x:"), ("-g", "crew", "-e", "EMPTY="), "日本語 'quoted'"),
)


def populate(world: World, number: int) -> dict[str, Session]:
    """So many sessions of all sorts; some in a later generation."""
    for index in range(number):
        order = ORDERS[index % len(ORDERS)]
        directory = world.root / order.directory
        directory.mkdir(exist_ok=True)
        options = (*order.options, "-C", str(directory))
        world.start(f"s{index}", "sh", "-c", LISTEN, "sh", *order.arguments, options=options)
        if index % 5 == 3:
            world.ok("restart", "-y", f"s{index}")
    return by_name(world.ls())


def by_name(listed: Iterable[Session]) -> dict[str, Session]:
    return {one["name"]: one for one in listed}


def lose(world: World, *, run: bool) -> None:
    """Delete all records, transcripts, events; the files of the launches too, if `run`."""
    for path in world.state.iterdir():
        if path.name == "run" and not run:
            continue
        shutil.rmtree(path) if path.is_dir() else path.unlink()


def seconds(stamp: str) -> float:
    return datetime.fromisoformat(stamp).timestamp()


def check_back(before: Session, after: Session | None, fields: Sequence[str]) -> None:
    assert after is not None, "it is not back"
    changed = {name: (before[name], after[name]) for name in fields if before[name] != after[name]}
    assert not changed, f"before and after: {changed}"
    late = abs(seconds(after["started"]) - seconds(before["started"]))
    assert late <= 2, f"its start is {late} s off: {before['started']} {after['started']}"


def check_speaks(world: World, name: str) -> None:
    """It is reached by its record, and what it says goes to its own transcript."""
    world.ok("send", name, f"hello {name}")
    wanted = f"heard hello {name}"
    assert eventually(lambda: wanted in world.ok("logs", "--raw", name).out), "not in its log"


def check_leaves(world: World, name: str, status: int) -> None:
    world.ok("send", name, f"leave {status}")
    assert eventually(lambda: world.session(name)["exit_code"] == status, 10), world.session(name)
    assert world.state_of(name) == ("failed" if status else "completed")


def check_server(world: World, before: int) -> None:
    assert servers(world) == [before], f"tmux servers: {servers(world)}; it was {before}"
    assert world.server_pid() == before


# --- the campaigns -------------------------------------------------------------------------------

mending = pytest.mark.parametrize("mend", MENDING, ids=" ".join)
LOSSES = {
    f"{'run too' if run else 'run spared'}-{' '.join(mend)}": (mend, run)
    for mend in MENDING
    for run in (False, True)
    if FULL or run == (mend is MENDING[0])  # each of both kinds once
}
some_of_all = pytest.mark.parametrize(("mend", "run"), LOSSES.values(), ids=LOSSES)


@mending
@pytest.mark.parametrize("run", [False, True], ids=["run spared", "run too"])
def test_lost_state(world: World, campaign: Campaign, mend: tuple[str, ...], run: bool) -> None:
    before = populate(world, count(3, 20))
    server = world.server_pid()
    lose(world, run=run)
    with campaign.round("shown"):
        listed = by_name(world.ls("--all"))
        assert {(name, one["state"], one["pid"]) for name, one in listed.items()} == {
            (name, "orphan", one["pid"]) for name, one in before.items()
        }
    with campaign.round("mended"):
        sweep(world, mend)
        check_server(world, server)
    after = by_name(world.ls())
    for index, name in enumerate(before):
        with campaign.round(name):
            check_back(before[name], after.get(name), KEPT if run else ASKED)
            check_speaks(world, name)
            check_leaves(world, name, index % 4)
    campaign.conclude()


def logs_much(world: World, session: Session) -> bool:
    path = world.state / "transcripts" / f"{session['id']}.log"
    return bool(eventually(lambda: path.stat().st_size > 10_000, 20))


@some_of_all
def test_lost_in_a_burst(
    world: World, campaign: Campaign, mend: tuple[str, ...], run: bool
) -> None:
    """Deleted while it prints as fast as it can: the rest of it is logged again."""
    for _ in range(count(1, 3)):
        with campaign.round("burst"):
            before = world.start("burst", "sh", "-c", BURST)
            assert logs_much(world, before), "it prints nothing"
            lose(world, run=run)
            sweep(world, mend)
            check_back(before, world.session("burst"), KEPT if run else ASKED)
            assert logs_much(world, before), "no longer logged"
            world.ok("stop", "burst")
            world.ok("rm", "burst")
    campaign.conclude()


@some_of_all
def test_lost_and_started_anew(
    world: World, campaign: Campaign, mend: tuple[str, ...], run: bool
) -> None:
    """A session that is started after the deletion hides none of the others."""
    for _ in range(count(1, 3)):
        before = populate(world, 2)
        server = world.server_pid()
        lose(world, run=run)
        with campaign.round("start"):
            world.start("new", "sh", "-c", LISTEN)
            check_server(world, server)
        with campaign.round("mended"):
            sweep(world, mend)
            after = by_name(world.ls())
            for name, one in before.items():
                check_back(one, after.get(name), KEPT if run else ASKED)
            for name in ("new", *before):
                check_speaks(world, name)
        world.sesh("rm", "-f", "new", *before)
    campaign.conclude()


@mending
def test_lost_and_the_next_server(world: World, campaign: Campaign, mend: tuple[str, ...]) -> None:
    """Mended, then all ended: the server of the next session has its configuration again."""
    for _ in range(count(1, 3)):
        with campaign.round("the next server"):
            world.start("s0", "cat")
            lose(world, run=True)
            sweep(world, mend)
            world.ok("rm", "-f", "s0")
            assert eventually(lambda: not servers(world), 10), "the server did not end"
            world.start("s0", "cat")
            shown = world.tmux("list-panes", "-a", "-F", "#{pane_in_mode} #{history_limit}")
            assert shown == "0 50000", f"in a mode, or not our configuration: {shown}"
            world.ok("rm", "-f", "s0")
    campaign.conclude()


@mending
def test_lost_and_the_mending_killed(
    world: World, campaign: Campaign, mend: tuple[str, ...]
) -> None:
    """The command that brings them back is killed at any moment, or runs twice at once."""
    before = populate(world, 3)
    hit = 0
    lose(world, run=False)
    begin = time.monotonic()
    world.exec(*mend)
    usual = time.monotonic() - begin
    for _ in range(count(1, 20)):
        with campaign.round("killed"):
            lose(world, run=campaign.random.random() < 0.5)
            process = world.popen(*mend)
            try:
                process.wait(campaign.random.uniform(0.1, 1.0) * usual)
            except subprocess.TimeoutExpired:
                process.kill()
            hit += process.wait() == -signal.SIGKILL
            world.sesh(*mend)  # says so when all are back already
            check_all_back(world, before)
        with campaign.round("twice at once"):
            lose(world, run=campaign.random.random() < 0.5)
            for process in [world.popen(*mend), world.popen(*mend)]:
                process.wait(pace.seconds(30))
            check_all_back(world, before)
    campaign.remark(f"{hit} hit")
    campaign.conclude()


def check_all_back(world: World, before: dict[str, Session]) -> None:
    after = by_name(world.ls())
    for name, one in before.items():
        check_back(one, after.get(name), KEPT)
        check_speaks(world, name)
