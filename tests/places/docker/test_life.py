"""The life of a session in a container: started, spoken to, stopped, and brought back."""

from __future__ import annotations

from tests import pace
from tests.engine import IMAGE, Engine
from tests.places.docker.boxes import (
    IN_A_BOX,
    Calls,
    becomes,
    command_lines,
    environ,
    id_of,
    inside,
    inspect,
    lives,
    logged,
    processes_in,
    run_box,
    start,
    start_also,
    told,
)
from tests.surroundings import complains
from tests.world import World, eventually

AGAIN = ("sh", "-c", "cat /tmp/note 2>/dev/null; echo started; exec cat")


# --- what start makes ----------------------------------------------------------------------------


def test_an_agent_runs_in_a_new_container_that_is_its_own(boxed: World, engine: Engine) -> None:
    shown = start(boxed, "a")
    assert told(shown, "state", "place", "container", "image") == (
        *("running", "docker", "sesh-a", IMAGE),
    )
    assert engine.containers() == ["sesh-a"]
    assert "cat" in processes_in(engine, "sesh-a")
    assert f"SESH_ID={shown['id']}".encode() in environ(shown["pid"])
    assert boxed.session("a") | {"checked_at": 0, "last_output": 0} == shown | {
        "checked_at": 0,
        "last_output": 0,
    }
    found = inspect(engine, "sesh-a")
    labels = found["Config"]["Labels"]
    assert found["HostConfig"]["Init"] is True
    assert labels["sesh.id"] == shown["id"]
    assert labels["sesh.name"] == "a"
    assert labels["sesh.run"].startswith(str(boxed.state))
    assert shown["id"] in labels["sesh.claim"]
    complains(boxed.sesh("rm", "a"), 8, "a is running")
    complains(boxed.sesh("start", "a", *IN_A_BOX, "--", "cat"), 8, "a is already running")
    assert id_of(engine, "sesh-a") == found["Id"]
    assert boxed.state_of("a") == "running"


def test_directories_are_mounted_at_the_same_path_or_another_or_read_only(
    boxed: World, engine: Engine
) -> None:
    odd = boxed.cwd / 'a, "b" $c\'d'
    one, two = boxed.root / "one", boxed.root / "two"
    for directory in (odd, one, two):
        directory.mkdir()
    (odd / "from outside").write_text("hello")
    mounts = ("--mount", str(one), "--mount", f"{two}:/two:ro", "--mount", "vol:/vol")
    script = "pwd; cat 'from outside'; echo hi >'from inside'; exec cat"
    start_also(boxed, "a", "-C", str(odd), *mounts, command=("sh", "-c", script))
    assert logged(boxed, "a", f"{odd}\nhello")
    assert eventually(lambda: (odd / "from inside").read_text() == "hi\n", 10)
    inside(engine, "a", f"touch {one}/made /vol/made")
    assert (one / "made").exists()
    assert "Read-only" in inside(engine, "a", "touch /two/made 2>&1 || :")


def test_without_a_mount_nothing_of_the_directory_is_in_there(boxed: World, engine: Engine) -> None:
    (boxed.cwd / "secret").write_text("")
    shown = start_also(boxed, "a", "--no-mount", command=("sh", "-c", "pwd; exec cat"))
    assert shown["cwd"] == "/"
    assert logged(boxed, "a", "/\n")
    assert inside(engine, "a", f"ls {boxed.cwd} 2>&1 || :").endswith("No such file or directory")
    shown = start_also(boxed, "b", "--no-mount", "-C", "/var", command=("sh", "-c", "pwd; cat"))
    assert shown["cwd"] == "/var"
    assert logged(boxed, "b", "/var\n")


def test_limits_user_and_further_options_reach_the_engine(boxed: World, engine: Engine) -> None:
    boxed.root.chmod(0o755)
    boxed.cwd.chmod(0o755)
    options = ("--user", "dev", "--memory", "64m", "--cpus", "0.5")
    start_also(
        *(boxed, "a", *options, "--docker-opt", "--hostname=inner"),
        command=("sh", "-c", "whoami; hostname; exec cat"),
    )
    found = inspect(engine, "sesh-a")
    assert found["HostConfig"]["Memory"] == 64 << 20
    assert found["HostConfig"]["NanoCpus"] == 500_000_000
    assert logged(boxed, "a", "dev\ninner\n")
    boxed.ok("send", "a", "hello")
    assert logged(boxed, "a", "hello\nhello\n")
    boxed.ok("stop", "a")
    assert engine.containers() == []


def test_values_of_variables_are_the_agents_alone(boxed: World, engine: Engine) -> None:
    calls = Calls(boxed)
    boxed.env["TAKEN"] = "s3cret-taken"
    file = boxed.root / "variables"
    file.write_text("# a comment\nFILED=s3cret-filed\nTAKEN\nNOT_SET_HERE\n")
    shown = start_also(boxed, "a", "-e", "TAKEN", "--env-file", str(file))
    held = environ(shown["pid"]).split(b"\0")
    assert {b"TAKEN=s3cret-taken", b"FILED=s3cret-filed"} <= set(held)
    assert not [line for line in held if line.startswith((b"NOT_SET_HERE", b"XDG_"))]
    assert b"s3cret" not in command_lines()
    assert "s3cret" not in engine.docker("inspect", "sesh-a")
    assert "s3cret" not in "".join(calls.made())
    assert "s3cret" not in boxed.record("a").read_text()
    assert "s3cret" not in inside(engine, "a", "cat /run/sesh/* /tmp/.sesh-*/* 2>/dev/null || :")


# --- every verb ----------------------------------------------------------------------------------


def test_the_verbs_work_as_on_the_host(boxed: World) -> None:
    start(boxed, "a", "sh", "-c", "echo ready; read word; echo got $word; exit 0")
    assert logged(boxed, "a", "ready")
    first = boxed.session("a")["last_output"]
    assert "sesh-a" in boxed.ok("ls").out
    shown = boxed.ok("show", "a").out
    assert "running" in shown
    assert IMAGE in shown
    boxed.ok("status", "a")
    boxed.ok("detach", "a")
    boxed.ok("send", "a", "the word")
    boxed.ok("wait", "a", "--for", "stale", "--timeout", "30s")
    assert logged(boxed, "a", "got the word")
    assert boxed.session("a")["last_output"] >= first  # of the transcript
    complains(boxed.sesh("send", "a", "more"), 3, "has ended")
    assert boxed.sesh("status", "a").code == 3
    events = [one["kind"] for one in boxed.events() if one["name"] == "a"]
    assert events[:2] == ["started", "ended"]


def test_an_ended_session_keeps_its_container_until_rm(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "true")
    becomes(boxed, "a", "stale")
    identity, before = boxed.session("a")["id"], id_of(engine, "sesh-a")
    complains(boxed.sesh("start", "a", *IN_A_BOX, "--", "cat"), 8, "a is stale")
    complains(boxed.sesh("rm", "a"), 8, "a is stale")
    assert boxed.state_of("a") == "stale"
    assert engine.containers() == ["sesh-a"]
    assert id_of(engine, "sesh-a") == before
    boxed.ok("rm", "--force", "a")
    assert boxed.ls() == []
    assert engine.containers() == []
    assert not [path for path in boxed.root.rglob("*") if identity in path.name]


# --- stop ----------------------------------------------------------------------------------------


def test_stop_ends_the_agent_in_order_and_removes_the_container(
    boxed: World, engine: Engine
) -> None:
    note = boxed.cwd / "note"
    script = "trap 'echo bye >note; exit 5' TERM; echo up; while :; do sleep 0.1; done"
    pid = start(boxed, "a", "sh", "-c", script)["pid"]
    assert logged(boxed, "a", "up")
    boxed.ok("stop", "a")
    assert note.read_text() == "bye\n"
    assert told(boxed.session("a"), "state", "exit_code") == ("stopped", 5)
    assert engine.containers() == []
    assert not lives(pid)
    assert "up" in boxed.ok("logs", "a").out


def test_stop_kills_agents_that_ignore_signals(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.1; done")
    assert logged(boxed, "a", "up")
    boxed.ok("stop", "a", "--grace", "0.5s")
    assert told(boxed.session("a"), "state", "signal") == ("stopped", 9)
    assert engine.containers() == []


def test_wait_sees_the_end_and_stop_removes_what_has_ended(boxed: World, engine: Engine) -> None:
    start(boxed, "a", "sh", "-c", "echo seen; sleep 0.5; exit 3")
    done = boxed.sesh("wait", "a", "--exit-code", "--timeout", "30s")
    assert (done.code, done.out) == (3, "a failed\n")
    boxed.sesh("stop", "a")
    assert engine.containers() == []
    assert told(boxed.session("a"), "state", "exit_code") == ("failed", 3)
    assert "seen" in boxed.ok("logs", "a").out


def test_stop_all_releases_ended_sessions(boxed: World, engine: Engine) -> None:
    """Failed beside its container, lost with it, and one that a person wants to keep."""
    start(boxed, "failed", "sh", "-c", "exit 3")
    for name in ("lost", "kept"):
        start(boxed, name)
    boxed.ok("stop", "--keep", "kept")
    engine.docker("kill", "sesh-lost")
    assert becomes(boxed, "lost", "lost")
    assert becomes(boxed, "failed", "failed")
    boxed.ok("stop", "--all", "-y", "--keep")
    assert len(engine.containers()) == 3
    boxed.ok("stop", "--all", "-y")
    assert engine.containers() == ["sesh-kept"]
    assert {one["name"]: one["state"] for one in boxed.ls()} == {
        "failed": "failed",
        "kept": "stopped",
        "lost": "lost",
    }
    assert "nothing to stop" in boxed.ok("stop", "--all", "-y").err


def test_several_stops_at_once_agree(boxed: World, engine: Engine) -> None:
    """While the end of the one on the host brings a pass, which goes on with the others too."""
    for name in ("a", "b"):
        start(boxed, name)
    boxed.start("host")
    stops = [boxed.popen("stop", "a") for _ in range(2)]
    boxed.ok("stop", "--all", "-y")
    assert [stop.wait(pace.seconds(60)) for stop in stops] == [0, 0]
    assert {one["state"] for one in boxed.ls()} == {"stopped"}
    assert engine.containers() == []


# --- restart -------------------------------------------------------------------------------------


def test_restart_is_in_the_same_container_and_after_a_stop_in_a_new_one(
    boxed: World, engine: Engine
) -> None:
    start(boxed, "a", "sh", "-c", "cat /tmp/note 2>/dev/null && exec cat; echo first >/tmp/note")
    becomes(boxed, "a", "stale")
    before = id_of(engine, "sesh-a")
    boxed.ok("restart", "a")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)
    assert logged(boxed, "a", "first")
    pid = boxed.session("a")["pid"]
    boxed.ok("restart", "a")  # a living one
    shown = boxed.session("a")
    assert told(shown, "state", "generation") == ("running", 3)
    assert shown["pid"] != pid
    assert not lives(pid)
    assert id_of(engine, "sesh-a") == before
    boxed.ok("stop", "a")
    assert engine.containers() == []
    boxed.ok("restart", "a")
    becomes(boxed, "a", "stale")  # there was no note
    assert engine.containers(all=False) == ["sesh-a"]
    assert id_of(engine, "sesh-a") != before


def test_restart_of_what_was_kept_stopped_or_removed(boxed: World, engine: Engine) -> None:
    """Its container and the files in it are used again, if there is one."""
    script = "cat /tmp/note 2>/dev/null; echo $WORD; exec cat"
    start_also(boxed, "a", "-e", "WORD=kept", command=("sh", "-c", script))
    inside(engine, "a", "echo remembered >/tmp/note")
    before = id_of(engine, "sesh-a")
    boxed.ok("stop", "--keep", "a")
    assert boxed.state_of("a") == "stopped"
    assert engine.containers(all=False) == ["sesh-a"]
    boxed.ok("restart", "a")
    assert boxed.state_of("a") == "running"
    assert logged(boxed, "a", "remembered")
    inside(engine, "a", "echo not forgotten >/tmp/note")
    engine.docker("stop", "sesh-a")
    becomes(boxed, "a", "lost")
    boxed.ok("restart", "a")
    assert boxed.state_of("a") == "running"
    assert logged(boxed, "a", "not forgotten\nkept")
    assert id_of(engine, "sesh-a") == before
    engine.docker("rm", "--force", "sesh-a")
    becomes(boxed, "a", "lost")
    boxed.ok("restart", "a")
    assert told(boxed.session("a"), "state", "generation") == ("running", 4)
    assert id_of(engine, "sesh-a") != before
    held = environ(boxed.session("a")["pid"]).split(b"\0")
    assert b"WORD=kept" in held
    assert inside(engine, "a", "ls /tmp/note 2>&1 || :").endswith("No such file or directory")


# --- in a container that exists ------------------------------------------------------------------


def test_an_existing_container_is_used_and_never_removed(boxed: World, engine: Engine) -> None:
    run_box(engine, "theirs")
    engine.docker("exec", "--detach", "theirs", "sleep", "4321")
    before = processes_in(engine, "theirs")
    assert "sleep 4321" in before
    shown = start(boxed, "a", *AGAIN, options=("--container", "theirs"))
    assert told(shown, "state", "container", "image") == ("running", "theirs", None)
    assert logged(boxed, "a", "started")
    boxed.ok("send", "a", "hello")
    assert logged(boxed, "a", "hello\nhello\n")
    boxed.ok("stop", "a")
    assert boxed.state_of("a") == "stopped"
    assert "started" in boxed.ok("logs", "a").out
    assert engine.containers(all=False) == ["theirs"]
    assert not lives(shown["pid"])
    assert processes_in(engine, "theirs") == before
    boxed.ok("restart", "a")
    assert boxed.state_of("a") == "running"
    boxed.ok("stop", "a")
    boxed.ok("rm", "a")
    assert engine.containers(all=False) == ["theirs"]
    assert processes_in(engine, "theirs") == before
    assert engine.docker("exec", "theirs", "ls", "-A", "/tmp") == ""


def test_ends_and_neighbours_in_an_existing_container(boxed: World, engine: Engine) -> None:
    run_box(engine, "theirs")
    there = ("--container", "theirs")
    start(boxed, "fails", "sh", "-c", "sleep 0.3; exit 3", options=there)
    assert told(becomes(boxed, "fails", "failed"), "exit_code", "cause") == (3, "exit")
    start(boxed, "ends", "true", options=there)
    becomes(boxed, "ends", "stale")
    for name in ("a", "b"):
        start(boxed, name, options=there)
    boxed.ok("stop", "a")
    assert (boxed.state_of("a"), boxed.state_of("b")) == ("stopped", "running")
    boxed.ok("send", "b", "still here")
    assert logged(boxed, "b", "still here")


# --- names ---------------------------------------------------------------------------------------


def test_a_name_goes_from_the_host_to_containers_and_back(boxed: World, engine: Engine) -> None:
    boxed.start("a", "true")
    becomes(boxed, "a", "completed")
    first = start(boxed, "a", "false")["id"]
    becomes(boxed, "a", "failed")
    before = id_of(engine, "sesh-a")
    assert start(boxed, "a", "false")["id"] != first
    assert engine.containers() == ["sesh-a"]
    assert id_of(engine, "sesh-a") != before
    assert not [path for path in boxed.state.glob("run/*/*") if first in path.name]
    becomes(boxed, "a", "failed")
    assert boxed.start("a")["place"] == "host"
    assert engine.containers() == []


# --- without asking ------------------------------------------------------------------------------


def test_the_engine_is_not_asked_while_nothing_changes_or_an_agent_ends(boxed: World) -> None:
    calls = Calls(boxed)
    pid = start(boxed, "lives", "sh", "-c", "read word; exit 3")["pid"]
    start(boxed, "stale", "true")
    start(boxed, "failed", "false")
    becomes(boxed, "stale", "stale")
    becomes(boxed, "failed", "failed")
    calls.forget()
    before = boxed.record("lives").stat().st_mtime_ns
    for _ in range(3):
        states = {one["name"]: one["state"] for one in boxed.ls()}
        assert states == {"lives": "running", "stale": "stale", "failed": "failed"}
    boxed.ok("ls")
    assert calls.made() == []
    assert boxed.record("lives").stat().st_mtime_ns == before
    boxed.ok("send", "lives", "go")
    assert eventually(lambda: not lives(pid), 10)
    calls.forget()
    assert boxed.state_of("lives") == "failed"
    assert calls.made() == []
