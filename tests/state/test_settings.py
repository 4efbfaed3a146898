"""Settings: strict, with a line that says what is wrong where."""

from __future__ import annotations

import pytest

from sesh.state import settings
from tests.surroundings import complains
from tests.world import World


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[start", "not valid TOML"),
        ("[stat]\n", "unknown section [stat]; did you mean [start]?"),
        ("[qqqq]\n", "unknown section [qqqq]; see sesh-config(5)"),
        ("[stop]\ngrase = 3\n", "unknown key stop.grase; did you mean stop.grace?"),
        ("[stop]\nqqqq = 3\n", "unknown key stop.qqqq; see sesh-config(5)"),
        ("[logs]\ngrace = 3\n", "unknown key logs.grace; did you mean stop.grace?"),
        ("grace = 3\n", ":1: unknown key grace; put it below [stop]"),
        ("max_idle = 3\n", ":1: unknown key max_idle; put it below [gc] or [resume]"),
        ("[start]\nretires = 3\n", "did you mean start.retries?"),
        ("[stop]\ngrace = true\n", "stop.grace should be a number"),
        ("[stop]\ngrace = -1\n", "stop.grace should be a number"),
        ("[tmux]\nsocket = 3\n", "tmux.socket should be a string"),
        ("stop = 3\n", "stop should be a table"),
        ("[logs]\nmax_size = 100\n", 'at least "64 KB"'),
        ('[logs]\nmax_size = "lots"\n', 'a size, for example "32 MB"'),
        ("[logs]\nmax_size = true\n", "logs.max_size"),
        ("[gc]\nkill_orphans = 1\n", "gc.kill_orphans should be true or false"),
        ('[gc]\nkill_orphans = "true"\n', "gc.kill_orphans should be true or false"),
        ("[gc]\nmax_history = -1\n", "gc.max_history should be a whole number, 0 or more"),
        ("[gc]\nmax_history = 1000000001\n", "should be a whole number, 0 to 1000000000"),
        ("[gc]\nmax_age = 1000000000\n", "gc.max_age should be below 1000000000 seconds"),
        ("[stop]\ngrace = inf\n", "stop.grace should be below 1000000000 seconds"),
        ("[gc]\nmax_history = true\n", "gc.max_history should be a whole number"),
        ("[gc]\nmax_age = -1\n", "gc.max_age should be a number of seconds 0 or more"),
        ("[gc]\narchive_after = 0\n", "gc.archive_after should be a number of seconds above 0"),
        ('[gc]\nmax_events = "1 KB"\n', "gc.max_events"),
        ('[gc]\nmax_events = "9999999999T"\n', "gc.max_events is more than 1024T"),
        ("[start]\nretries = 1001\n", "start.retries should be a whole number, 0 to 1000"),
        (
            "[start]\nhealth_retries = 0\n",
            "start.health_retries should be a whole number, 1 to 1000",
        ),
        ("[start]\nretry_on = ['failures']\n", "start.retry_on: failures: use failure"),
    ],
)
def test_a_wrong_config_is_reported_and_nothing_is_done(world: World, text: str, told: str) -> None:
    world.configure(text)
    done = world.sesh("start", "one", "--", "sleep", "9")
    assert done.code == 6
    assert told in done.err
    assert "config.toml" in done.err
    assert len(done.err.splitlines()) == 1
    assert not world.state.exists()


@pytest.mark.parametrize(
    ("text", "where"),
    [
        ("# ours\n\n[stop]\n  grase = 3\n", ":4: unknown key stop.grase"),
        ("[logs]\ngrace = 3\n[stop]\ngrace = -1 # soon\n", ":2: unknown key logs.grace"),
        ("[gc]\nmax_age = 1\n[stop]\ngrace = -1\n", ":4: stop.grace should be"),
        ("stop.grace = -1\n", ":1: stop.grace should be"),
        ("[gc]\n[stat]\n", ":2: unknown section [stat]"),
        ("\nstop = 3\n", ":2: stop should be a table"),
        ("stop = {grace = -1}\n", ": stop.grace should be"),
        ("[stop]\ngrace = \n", "line 2"),
    ],
)
def test_a_wrong_setting_is_named_with_its_line(world: World, text: str, where: str) -> None:
    world.configure(text)
    complains(world.sesh("gc"), 6, where, "config.toml")


def test_grace_and_launch_timeout_come_from_the_config(world: World) -> None:
    world.configure("[start]\nlaunch_timeout = 7\n[stop]\ngrace = 0.2\n")
    world.start("one", "sh", "-c", "trap '' TERM; while :; do sleep 0.1; done")
    assert "launch_timeout = 7.0" in world.record("one").read_text()
    world.ok("stop", "one", timeout=8)
    assert world.session("one")["signal"] == 9


@pytest.mark.parametrize(
    ("written", "meant"),
    [("100000", 100000), ('"64 KB"', 65536), ('"10M"', 10 << 20), ('"2GB"', 2 << 30)],
)
def test_sizes(world: World, monkeypatch: pytest.MonkeyPatch, written: str, meant: int) -> None:
    world.configure(f"[logs]\nmax_size = {written}\n")
    monkeypatch.setenv("XDG_CONFIG_HOME", world.env["XDG_CONFIG_HOME"])
    assert settings.load().logs.max_size == meant


def test_the_facts_that_gc_needs(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.configure(
        "[gc]\nkill_orphans = true\nmax_history = 3\nmax_idle = 0\nkeep_history = 5e6\n"
    )
    monkeypatch.setenv("XDG_CONFIG_HOME", world.env["XDG_CONFIG_HOME"])
    found = settings.load().gc
    assert (found.kill_orphans, found.max_history, found.max_idle) == (True, 3, 0.0)
    assert found.keep_history == 5e6
