"""The environment an agent gets: the caller's plus -e, minus what belongs to an outer terminal."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from pathlib import Path

from tests.surroundings import complains, run, shell
from tests.world import SESH, World, eventually

# What the new place sets by itself.
PLACE = {"TERM", "TMUX", "TMUX_PANE", "TERM_PROGRAM", "SESH_ID", "SESH_NAME", "SESH_RUN", "PWD"}
OUTER = {
    "TMUX": "/tmp/outer,1,0",
    "TMUX_PANE": "%99",
    "TMUX_TMPDIR": "/outer",
    "SESH_ID": "outer",
    "SESH_NAME": "outer",
    "SESH_ANYTHING": "outer",
    "STY": "outer",
    "WINDOW": "outer",
    "TERM_PROGRAM": "outer",
    "TERM_PROGRAM_VERSION": "outer",
    "COLUMNS": "7",
    "LINES": "7",
    "INVOCATION_ID": "outer",
    "LISTEN_FDS": "3",
    "NOTIFY_SOCKET": "/outer",
    "OPTIND": "x",
}
DIFFICULT = {
    "NEWLINES": "a\nb\n\n",
    "QUOTES": "'\"`$(touch PWNED)\\ ${HOME} 'x'",
    "EMPTY": "",
    "SPACES": "  a  b  ",
    "EQUALS": "a=b=c",
    "UNICODE": "日本 ü",
    "BYTES": "\udcff\udcfe raw",
    "CONTROL": "\x01\x1b[31m\x7f\r\t",
    "IFS": "x",
    "LONG": "y" * 100_000,
    "_private": "1",
    "lower": "1",
}


def environment_of(pid: int) -> dict[str, str]:
    entries = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
    pairs = (os.fsdecode(entry).split("=", 1) for entry in entries if entry)
    return {pair[0]: pair[1] for pair in pairs}


def started(world: World, env: Mapping[str, str], *options: str) -> dict[str, str]:
    done = world.ok("start", "a", *options, "--json", "--", "sleep", "1000", env=env)
    return environment_of(done.json["pid"])


def test_the_agent_gets_the_callers_environment_byte_for_byte(world: World) -> None:
    got = started(world, {**world.env, **DIFFICULT})
    expected = {**world.env, **DIFFICULT}
    del expected["TERM"]
    assert {name: value for name, value in got.items() if name not in PLACE} == expected
    assert set(got) == set(expected) | PLACE
    assert got["PWD"] == str(world.cwd)
    assert not (world.cwd / "PWNED").exists()


def test_what_belongs_to_an_outer_terminal_or_session_stays_outside(world: World) -> None:
    got = started(world, {**world.env, **OUTER})
    assert "outer" not in " ".join(got.values())
    assert not {"COLUMNS", "LINES", "LISTEN_FDS", "STY", "TMUX_TMPDIR"} & set(got)
    assert got["TMUX"].split(",")[0] == world.socket
    assert got["TMUX_PANE"] == world.session("a")["pane"]
    assert got["SESH_ID"] == world.session("a")["id"]
    assert got["SESH_NAME"] == "a"
    assert got["TERM"] in ("tmux-256color", "screen-256color")


def test_e_adds_to_it_and_wins(world: World) -> None:
    env = {**world.env, "OVER": "old", "PASSED": DIFFICULT["NEWLINES"]}
    value = DIFFICULT["QUOTES"] + DIFFICULT["BYTES"]
    got = started(world, env, "-e", "OVER=new", "-e", f"ADDED={value}", "-e", "PASSED")
    assert (got["OVER"], got["ADDED"], got["PASSED"]) == ("new", value, "a\nb\n\n")


def test_the_callers_path_finds_the_program(world: World) -> None:
    tools = world.root / "tools"
    tools.mkdir()
    (tools / "mine").write_text("#!/bin/sh\nexec sleep 1000\n")
    (tools / "mine").chmod(0o755)
    env = {**world.env, "PATH": f"{tools}:{world.env['PATH']}"}
    world.ok("start", "a", "--", "mine", env=env)
    assert world.state_of("a") == "running"
    # -e PATH counts too, for the search and for the agent.
    path = f"PATH={tools}:/usr/bin:/bin"
    world.ok("start", "b", "-e", path, "--", "mine")
    assert world.state_of("b") == "running"
    complains(world.sesh("start", "c", "--", "mine"), 1, "mine: command not found")


def test_no_path_at_all(world: World) -> None:
    env = {name: value for name, value in world.env.items() if name != "PATH"}
    done = world.ok("start", "a", "--json", "--", "/bin/sleep", "1000", env=env)
    assert "PATH" not in environment_of(done.json["pid"])


def test_names_that_a_shell_cannot_export_are_reported(world: World) -> None:
    env = {**world.env, "a-b": "1", "BASH_FUNC_f%%": "() { :; }", "GOOD": "1"}
    done = world.sesh("start", "a", "--json", "--", "sleep", "1000", env=env)
    assert done.code == 0
    assert done.err.count("\n") == 1
    assert "BASH_FUNC_f%%, a-b" in done.err
    got = environment_of(done.json["pid"])
    assert got["GOOD"] == "1"
    assert "a-b" not in got


def test_each_session_has_the_environment_of_its_caller(world: World) -> None:
    """The tmux server was started by somebody else, long ago."""
    first = started(world, {**world.env, "WHO": "first"})
    done = world.ok(
        "start", "b", "--json", "--", "sleep", "9", env={**world.env, "OTHER": "second"}
    )
    second = environment_of(done.json["pid"])
    assert first["WHO"] == "first"
    assert "WHO" not in second
    assert second["OTHER"] == "second"


def test_umask_and_limits_are_the_callers(world: World) -> None:
    world.start("server-first")
    script = 'umask 027; ulimit -S -n 123; exec "$SESH" start a -- sleep 1000'
    assert shell(world, script).code == 0
    pid = world.session("a")["pid"]
    assert "Umask:\t0027\n" in Path(f"/proc/{pid}/status").read_text()
    limits = Path(f"/proc/{pid}/limits").read_text().splitlines()
    files = next(line for line in limits if line.startswith("Max open files"))
    assert files.split()[3] == "123"
    other = world.session("server-first")["pid"]
    files = next(
        line
        for line in Path(f"/proc/{other}/limits").read_text().splitlines()
        if line.startswith("Max open files")
    )
    assert files.split()[3] != "123"


def test_signals_are_as_usual_for_the_agent(world: World) -> None:
    """Nothing that sesh or its keeper ignores or blocks is inherited."""
    pid = world.start("a")["pid"]
    ours = signals(run(world, "cat", "/proc/self/status").out)
    agents = signals(Path(f"/proc/{pid}/status").read_text())
    assert [agent & ~our for agent, our in zip(agents, ours, strict=True)] == [0, 0]


def signals(status: str) -> list[int]:
    """What a process blocks and ignores, but for TTIN and TTOU: some tmux leave these ignored in
    every pane, and no shell can undo that."""
    left_by_tmux = 1 << (signal.SIGTTIN - 1) | 1 << (signal.SIGTTOU - 1)
    lines = (line.split() for line in status.splitlines())
    return [int(w[1], 16) & ~left_by_tmux for w in lines if w[0] in ("SigBlk:", "SigIgn:")]


def test_no_descriptor_but_the_terminal_is_inherited(world: World) -> None:
    with open(world.root / "secret-file", "w") as file:
        os.set_inheritable(file.fileno(), True)
        run(world, SESH, "start", "a", "--", "sleep", "1000")
    pid = world.session("a")["pid"]
    targets = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
    assert len(targets) == 1
    assert targets.pop().startswith("/dev/pts/")


def test_a_restart_from_cron_finds_the_snapshot(world: World) -> None:
    env = {**world.env, **DIFFICULT}
    first = started(world, env, "-e", "GIVEN=with e")
    world.ok("stop", "a")
    cron = {
        "PATH": "/usr/bin:/bin",
        "HOME": world.env["HOME"],
        "XDG_STATE_HOME": world.env["XDG_STATE_HOME"],
    }
    world.ok("restart", "a", env=cron, cwd=Path("/"))
    again = environment_of(world.session("a")["pid"])
    changing = {"TMUX", "TMUX_PANE"}
    assert {k: v for k, v in again.items() if k not in changing} == {
        k: v for k, v in first.items() if k not in changing
    }
    assert world.session("a")["generation"] == 2


def test_without_the_snapshot_the_callers_environment_serves(world: World) -> None:
    started(world, {**world.env, "WHO": "first"})
    world.ok("stop", "a")
    (snapshot,) = world.runtime.glob("*.env")
    snapshot.unlink()
    world.ok("restart", "a", env={**world.env, "WHO": "second"})
    assert environment_of(world.session("a")["pid"])["WHO"] == "second"


def test_without_the_snapshot_a_lacking_e_is_named_and_nothing_restarted(world: World) -> None:
    """After a reboot: a session must not come back without what it was given."""
    env = {**world.env, "SECOND": "2"}
    started(world, env, "-e", "FIRST=1", "-e", "SECOND")
    world.ok("stop", "a")
    (snapshot,) = world.runtime.glob("*.env")
    snapshot.unlink()
    before = world.record("a").read_bytes()
    complains(world.sesh("restart", "a"), 1, "a", "FIRST, SECOND", "-e")
    complains(world.sesh("restart", "a", env={**world.env, "FIRST": "1"}), 1, "SECOND")
    assert world.record("a").read_bytes() == before
    assert world.state_of("a") == "stopped"
    world.ok("restart", "a", env={**world.env, "FIRST": "one", "SECOND": "two"})
    again = environment_of(world.session("a")["pid"])
    assert (again["FIRST"], again["SECOND"]) == ("one", "two")


def test_a_session_started_inside_a_session_is_its_own(world: World) -> None:
    world.start("outer", "sh", "-c", f"{SESH} start inner -- sleep 1000; exec sleep 1000")
    assert eventually(lambda: "inner" in {one["name"] for one in world.ls()}, 10)
    assert eventually(lambda: world.state_of("inner") == "running")
    got = environment_of(world.session("inner")["pid"])
    assert got["SESH_ID"] == world.session("inner")["id"]
    assert got["SESH_NAME"] == "inner"
    world.ok("stop", "outer")
    assert world.state_of("inner") == "running"
