"""sesh set: what a session was started with is changed, all values at once or none."""

from __future__ import annotations

from functools import partial

import pytest

from tests.surroundings import complains
from tests.world import World, eventually


def test_several_values_at_once(world: World) -> None:
    world.start("a", options=["-gold", "--tag", "x", "--timeout", "1h"])
    done = world.ok(
        *("set", "a", "group=shop", "tags=urgent, api", "timeout=2h", "retries=3", "max-age=1d"),
        *("retry-on=failure,lost", "max-memory=2G", "health-cmd=test -e ok", "breaker-failures=7"),
    )
    assert (done.out, done.err) == ("", "")
    shown = world.session("a")
    assert (shown["group"], shown["tags"]) == ("shop", ["urgent", "api"])
    assert (shown["max_age"], shown["retries_max"], shown["state"]) == (86400, 3, "running")
    supervision = shown["care"]
    assert (supervision["timeout"], supervision["retries"], supervision["retry_on"]) == (
        7200,
        3,
        ["failure", "lost"],
    )
    assert (supervision["max_memory"], supervision["health_cmd"]) == (2 << 30, "test -e ok")
    [changed] = [event for event in world.events() if event["kind"] == "changed"]
    assert changed["keys"][:3] == ["group", "tags", "timeout"]
    assert "test -e ok" not in str(changed)
    assert "group, tags, timeout" in world.ok("events", "a", "--kind", "changed").out
    world.ok("set", "a", "group=", "tags=", "timeout=", "retries=", "max-age=", "breaker-failures=")
    shown = world.session("a")
    assert (shown["group"], shown["tags"], shown["max_age"]) == (None, [], None)
    assert not {"timeout", "retries"} & set(shown["care"])
    assert shown["retries_max"] == 0
    assert shown["care"]["max_memory"] == 2 << 30
    world.ok("restart", "a")
    assert world.session("a")["care"]["max_memory"] == 2 << 30


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("timeout=soon", "timeout: 'soon' is not a time"),
        ("max-memory=5", "max-memory: '5' is below the minimum of 64K"),
        ("retries=1001", "retries: 1001 should be a whole number from 0 to 1000"),
        ("retry-delay=0", "retry-delay should be above 0"),
        ("retry-on=often", "retry-on often: use failure"),
        ("breaker-within=0", "breaker-within should be above 0"),
        ("group=\n", "should be 1 to 200 printable characters"),
        ("command=true", "command cannot be changed after the start"),
        ("memory=5", "max-memory: '5' is below the minimum of 64K"),
        ("notify=faild", "notify faild: unknown event or end; did you mean failed?"),
        ("notify=notified", "notify notified: unknown event or end"),
        ("notify=off,failed", "notify off: unknown event or end"),
        ("cpus=2", "cpus cannot be changed after the start"),
        ("name=b", "sesh rename a NEW"),
        ("timeuot=1h", "unknown key 'timeuot'; did you mean timeout?"),
        ("nonsense", "unknown key 'nonsense'; next: sesh man set"),
        ("timeout", "timeout needs a value"),
    ],
)
def test_one_bad_value_changes_nothing(world: World, word: str, says: str) -> None:
    world.ok("start", "a", "--record-only") if "=" not in word else world.start("a")
    before = world.record("a").read_bytes()
    complains(world.sesh("set", "a", "tags=new", word), 2, says)
    assert world.record("a").read_bytes() == before


def test_older_keys(world: World) -> None:
    world.start("a", options=["--max-age", "1h"])
    world.ok("set", "a", "memory=1g", "max-age=")
    shown = world.session("a")
    assert (shown["care"], shown["max_age"]) == ({"max_memory": 1 << 30}, None)
    complains(world.sesh("set", "a", "memory=1g", "max-memory=2g"), 2, "max-memory is given twice")
    assert "did you mean max-age?" not in world.sesh("set", "a", "max-agee=1h").err


def test_a_shorter_limit_is_acted_on_at_once(world: World) -> None:
    """Nobody looks but the session's own tmux server."""
    world.start("old", options=["--timeout", "1h"])
    world.start("none")
    world.ok("set", "old", "timeout=1s")
    world.ok("set", "none", "timeout=2s")
    for name in ("old", "none"):
        assert eventually(partial(_has_ended, world, name), 30)


def _has_ended(world: World, name: str) -> bool:
    """Without a look at it."""
    return b'outcome = "' in world.record(name).read_bytes()


def test_what_waits_for_the_next_launch_says_so(world: World) -> None:
    world.start("a", options=["--max-cpu-time", "1h"])
    done = world.ok("set", "a", "launch-timeout=20s", "max-cpu-time=2h")
    assert done.err.splitlines() == [
        "sesh: launch-timeout takes effect at the next restart of a",
        "sesh: max-cpu-time: the limit of the kernel stays as it was until the next restart",
    ]
    assert world.session("a")["launch_timeout"] == 20
    world.ok("stop", "a")
    assert world.ok("set", "a", "launch-timeout=", "tags=done").err == ""
    shown = world.session("a")
    assert (shown["launch_timeout"], shown["tags"], shown["state"]) == (10, ["done"], "stopped")


def test_notifications(world: World) -> None:
    world.start("a", options=["--notify", "failed, completed"])
    assert world.session("a")["care"] == {"notify": ["failed", "completed"]}
    assert "notify     failed, completed" in world.ok("show", "a").out
    world.ok("set", "a", "notify=off")
    assert world.session("a")["care"] == {"notify": []}
    assert "notify     off" in world.ok("show", "a").out
    world.ok("restart", "a")
    assert world.session("a")["care"] == {"notify": []}
    world.ok("set", "a", "notify=")
    assert world.session("a")["care"] is None
    assert "notifications" not in world.ok("show", "a").out
    complains(world.sesh("start", "b", "--notify", "faild"), 2, "--notify faild", "failed?")
    complains(world.sesh("start", "b", "--notify", ""), 2, "--notify", "off")


def test_a_health_check_that_is_removed_leaves_no_failure(world: World) -> None:
    options = ["--health-cmd", "false", "--health-interval", "1s", "--health-retries", "1"]
    world.start("a", options=options)
    assert eventually(lambda: world.session("a")["health"] == "failing", 30)
    world.ok("set", "a", "health-cmd=")
    assert world.session("a")["health"] is None


def test_only_labels_of_a_session_without_a_process(world: World) -> None:
    world.ok("start", "a", "--record-only")
    world.ok("set", "a", "group=shop", "tags=x")
    assert world.session("a")["group"] == "shop"
    complains(world.sesh("set", "a", "tags=y", "timeout=1h"), 8, "record only")
    assert world.session("a")["tags"] == ["x"]
    complains(world.sesh("set", "b", "tags=x"), 4, "no session named b")
    complains(world.sesh("set", "a", "tags=x", "tags=y"), 2, "tags is given twice")
