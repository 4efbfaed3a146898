"""Sessions on an engine of another machine: nothing is mounted, no process can be looked at; one
question to each engine tells of all of them."""

from __future__ import annotations

from tests.emulator import Terminal
from tests.engine import Engine
from tests.places.docker.boxes import (
    IN_A_BOX,
    PATIENCE,
    Calls,
    becomes,
    id_of,
    inside,
    inspect,
    logged,
    start_also,
    told,
)
from tests.surroundings import complains, run
from tests.world import World, eventually

ON_WORD = ("sh", "-c", "echo ready; read word; echo got $word; exit $word")


def far_start(world: World, name: str, *command: str) -> dict[str, object]:
    return dict(start_also(world, name, "--no-mount", command=command))


def has_words(engine: Engine, *names: str) -> bool:
    """Wait until the health check of each container has spoken."""
    return bool(
        eventually(
            lambda: all(inspect(engine, f"sesh-{n}")["State"]["Health"]["Log"] for n in names),
            PATIENCE,
        )
    )


def test_limits_that_cannot_be_enforced_are_reported(far: World) -> None:
    argv = ("start", "a", *IN_A_BOX, "--no-mount", "--max-memory", "64M", "--max-cpu-time", "1h")
    done = far.ok(*argv, "--", "cat")
    assert (done.out, done.err.count("\n")) == ("a\n", 1)
    assert "--max-cpu-time: on another machine's engine" in done.err


# --- its life ------------------------------------------------------------------------------------


def test_a_remote_session_is_started_used_and_stopped_with_its_recorded_engine(
    far: World, far_engine: Engine
) -> None:
    shown = far_start(far, "a", "cat")
    assert told(shown, "state", "place", "container", "pid") == (
        *("running", "docker", "sesh-a", None),
    )
    mounts = {one["Destination"] for one in inspect(far_engine, "sesh-a")["Mounts"]}
    assert not [path for path in mounts if "sesh" in path]
    far.ok("send", "a", "hello")
    assert logged(far, "a", "hello\nhello\n")
    far.ok("status", "a")
    del far.env["DOCKER_HOST"]  # cron, say, has none: the engine is remembered
    assert far.state_of("a") == "running"
    far.ok("send", "a", "again")
    assert logged(far, "a", "again")
    far.ok("stop", "a")
    assert far.state_of("a") == "stopped"
    assert far_engine.containers() == []
    assert "hello" in far.ok("logs", "a").out
    far.ok("rm", "a")
    assert not [path for path in far.root.rglob("*") if str(shown["id"]) in path.name]


def test_the_ends_of_a_far_agent_and_its_returns(far: World, far_engine: Engine) -> None:
    far_start(far, "a", *ON_WORD)
    inside(far_engine, "a", "echo kept >/tmp/note")
    before = id_of(far_engine, "sesh-a")
    for generation, (code, state) in enumerate(((0, "stale"), (3, "failed")), 1):
        far.ok("send", "a", str(code))
        assert told(becomes(far, "a", state), "exit_code", "cause") == (code, "exit")
        assert logged(far, "a", f"got {code}")
        far.ok("restart", "a")
        assert told(far.session("a"), "state", "generation") == ("running", generation + 1)
        assert id_of(far_engine, "sesh-a") == before
    assert inside(far_engine, "a", "cat /tmp/note") == "kept"


def test_a_remote_container_that_is_removed_or_paused(far: World, far_engine: Engine) -> None:
    for name in ("gone", "killed", "held"):
        far_start(far, name, "cat")
    far_engine.docker("rm", "--force", "sesh-gone")
    far_engine.docker("kill", "sesh-killed")
    far_engine.docker("pause", "sesh-held")
    shown = {one["name"]: told(one, "state", "cause") for one in far.ls()}
    assert shown == {
        "gone": ("lost", "container-gone"),
        "killed": ("lost", "container-gone"),
        "held": ("paused", None),
    }
    far.ok("restart", "gone", "killed", "-y")
    far.ok("resume", "held")
    assert {one["state"] for one in far.ls()} == {"running"}


def test_values_of_variables_do_not_show_on_a_far_engine(far: World, far_engine: Engine) -> None:
    calls = Calls(far)
    far.env["KEY"] = "s3cret"
    script = "echo ${#KEY} characters; exec cat"
    start_also(far, "a", "--no-mount", "-e", "KEY", command=("sh", "-c", script))
    assert logged(far, "a", "6 characters")
    assert "s3cret" not in far_engine.docker("inspect", "sesh-a")
    assert "s3cret" not in "".join(calls.made())
    assert "s3cret" not in inside(far_engine, "a", "cat /tmp/.sesh-*/* 2>/dev/null || :")


def test_the_menu_of_a_far_session(far: World, far_engine: Engine) -> None:
    far_start(far, "a", *ON_WORD)
    terminal = Terminal(far)
    terminal.run("sesh attach a")
    terminal.see("[a] 0:")
    assert has_words(far_engine, "a")  # from now on the engine may say for a while that it lives
    terminal.type("3")
    terminal.see("a failed")
    terminal.see("[C]ancel ▸")
    terminal.press("d")
    terminal.see("[y/N] ▸")
    terminal.press("y")
    terminal.at_the_shell()
    assert far.ls() == []
    assert far_engine.containers() == []


# --- how it is asked -----------------------------------------------------------------------------


def test_one_question_covers_all_containers(far: World, far_engine: Engine) -> None:
    calls = Calls(far)
    names = ("one", "two")
    for name in names:
        far_start(far, name, "cat")
    assert has_words(far_engine, *names)
    calls.forget()
    assert {one["state"] for one in far.ls()} == {"running"}
    (call,) = calls.made()
    assert " container inspect " in call


def test_a_remote_engine_that_is_down(far: World, far_engine: Engine) -> None:
    far_start(far, "a", "cat")
    before = far.record("a").read_bytes()
    far_engine.kill()
    assert told(far.session("a"), "state", "last_known") == ("unknown", "running")
    assert far.sesh("status", "a").code == 5
    for verb in ("stop", "restart", "attach", "pause"):
        complains(far.sesh(verb, "a"), 5, "a: ")
    complains(far.sesh("rm", "--force", "a"), 5, "a: ")
    assert far.record("a").read_bytes() == before
    far_engine.start()
    assert told(becomes(far, "a", "lost"), "cause") == ("container-gone",)


def test_one_of_two_engines_hangs(far: World, far_engine: Engine, engine: Engine) -> None:
    """A context counts as another machine too, whatever it points to."""
    far.configure("")  # as patient as people are
    far_start(far, "hung", "cat")
    run(far, "docker", "context", "create", "other", "--docker", f"host={engine.host}")
    other = {**far.env, "DOCKER_CONTEXT": "other"}
    del other["DOCKER_HOST"]
    far.ok("start", "well", *IN_A_BOX, "--no-mount", "--", "cat", env=other)
    assert has_words(engine, "well")
    far_engine.freeze()
    shown = {one["name"]: one for one in far.ls()}
    assert told(shown["hung"], "state", "last_known") == ("unknown", "running")
    assert "no answer within 2.5 s" in shown["hung"]["reason"]
    assert shown["well"]["state"] == "running"
    far_engine.thaw()
    assert becomes(far, "hung", "running")
    far.ok("stop", "well")
    assert engine.containers() == []
