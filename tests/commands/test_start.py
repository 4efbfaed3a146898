"""sesh start: names, directories, options, checks; what it prints and what it leaves."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from pathlib import Path

import pytest

from sesh.commands import start
from sesh.model.record import Record
from sesh.model.session_json import FIELDS
from sesh.model.states import State
from sesh.places import launch_files
from sesh.state import lookup
from tests import pace
from tests.surroundings import complains, files, read_record
from tests.terminal.test_fast_answers import loaded
from tests.world import World, eventually

CHECKOUT = Path(__file__).parents[2]


def test_prints_the_name_and_nothing_else(world: World) -> None:
    done = world.ok("start", "alpha", "--", "sleep", "1000")
    assert (done.out, done.err) == ("alpha\n", "")
    assert world.state_of("alpha") == "running"


def test_json_is_the_session_with_every_field_in_order(world: World) -> None:
    shown = json.loads(
        world.ok(
            *("start", "alpha", "--json", "--group", "web", "--tag", "a", "--tag", "b"),
            *("--tag", "a", "--", "sleep", "1000"),
        ).out
    )
    assert tuple(shown) == FIELDS
    assert shown["name"] == "alpha"
    assert shown["state"] == "running"
    assert shown["generation"] == 1
    assert shown["place"] == "host"
    assert shown["group"] == "web"
    assert shown["tags"] == ["a", "b"]
    assert shown["command"] == ["sleep", "1000"]
    assert shown["cwd"] == str(world.cwd)
    assert Path(f"/proc/{shown['pid']}/cmdline").read_bytes() == b"sleep\x001000\x00"


@pytest.mark.parametrize(
    ("directory", "expected"),
    [
        ("project", "project"),
        ("my project.v2", "my-project-v2"),
        ("-_odd_-", "odd"),
        ("日本", "session"),
        ("x" * 80, "x" * 63),
    ],
)
def test_name_defaults_to_the_directorys_made_valid(
    world: World, directory: str, expected: str
) -> None:
    (world.root / directory).mkdir()
    done = world.ok("start", "--", "sleep", "1000", cwd=world.root / directory)
    assert done.out == f"{expected}\n"


def test_a_default_name_that_is_taken_is_numbered(world: World) -> None:
    names = [world.ok("start", "--", "sleep", "1000").out.strip() for _ in range(3)]
    assert names == ["work", "work-2", "work-3"]
    assert {one["name"]: one["state"] for one in world.ls()} == dict.fromkeys(names, "running")


def test_a_long_default_name_that_is_taken_is_numbered_within_the_limit(world: World) -> None:
    directory = world.root / ("x" * 80)
    directory.mkdir()
    names = [world.ok("start", "--", "sleep", "9", cwd=directory).out.strip() for _ in range(2)]
    assert names == ["x" * 63, "x" * 58 + "-2"]


def test_command_defaults_to_the_callers_shell(world: World) -> None:
    shown = json.loads(world.ok("start", "a", "--json", env={**world.env, "SHELL": "/bin/sh"}).out)
    assert shown["command"] == ["/bin/sh"]
    assert shown["state"] == "running"
    del world.env["SHELL"]
    assert json.loads(world.ok("start", "b", "--json").out)["command"] == ["/bin/sh"]


@pytest.mark.parametrize("given", ["sub", "./sub/", "../work/sub"])
def test_runs_in_the_directory_of_c(world: World, given: str) -> None:
    (world.cwd / "sub").mkdir()
    done = world.ok("start", "-C", given, "--json", "a", "--", "sh", "-c", "pwd >here; sleep 1000")
    assert done.json["cwd"] == str(world.cwd / "sub")
    here = world.cwd / "sub" / "here"
    assert eventually(lambda: here.exists() and here.read_text()) == f"{world.cwd}/sub\n"


def test_default_name_is_that_of_c(world: World) -> None:
    (world.cwd / "sub").mkdir()
    assert world.ok("start", "-C", "sub", "--", "sleep", "1000").out == "sub\n"


def test_a_relative_program_is_looked_up_in_the_sessions_directory(world: World) -> None:
    tool = world.cwd / "sub" / "tool"
    tool.parent.mkdir()
    tool.write_text("#!/bin/sh\nexec sleep 1000\n")
    tool.chmod(0o755)
    world.ok("start", "-C", "sub", "a", "--", "./tool")
    assert world.state_of("a") == "running"


def test_e_sets_or_passes_on_a_variable(world: World) -> None:
    env = {**world.env, "PASSED": "from the caller", "OVER": "old"}
    script = 'printf "%s|%s|%s|%s" "$GIVEN" "$PASSED" "$OVER" "$EMPTY" >got; sleep 1000'
    world.ok(
        *("start", "a", "-e", "GIVEN=a=b c", "-e", "PASSED", "-e", "OVER=new", "-e", "EMPTY="),
        *("--", "sh", "-c", script),
        env=env,
    )
    got = world.cwd / "got"
    expected = "a=b c|from the caller|new|"
    assert eventually(lambda: got.exists() and got.read_text()) == expected
    # Names are in the record; values never.
    assert read_record(world, "a").spec.env == ("EMPTY", "GIVEN", "OVER", "PASSED")
    assert b"from the caller" not in world.record("a").read_bytes()


@pytest.mark.parametrize(
    ("option", "words"),
    [
        ("UNSET", "not set here"),
        ("a-b=1", "a-b"),
        ("=1", "not a name"),
        ("1A=x", "1A"),
        ("", "not a name"),
        ("SESH_ID=x", "SESH_ID"),
        ("TMUX=x", "TMUX"),
    ],
)
def test_an_e_that_cannot_be_is_refused_before_anything_starts(
    world: World, option: str, words: str
) -> None:
    complains(world.sesh("start", "a", "-e", option, "--", "sleep", "9"), 2, words)
    assert world.ls() == []


def test_a_live_session_of_that_name_is_left_alone_with_a_hint(world: World) -> None:
    before = world.start("a")
    done = world.sesh("start", "a", "--", "sleep", "5")
    complains(done, 8, "a is already running", "attach")
    after = world.session("a")
    assert (after["pid"], after["id"]) == (before["pid"], before["id"])


def test_the_name_of_an_ended_session_is_used_again_and_its_record_kept(world: World) -> None:
    old = world.start("a", "sh", "-c", "exit 3")
    eventually(lambda: world.state_of("a") == "failed")
    new = world.start("a")
    assert new["id"] != old["id"]
    assert new["generation"] == 1
    assert world.state_of("a") == "running"
    assert [p.name for p in (world.state / "history").iterdir()] == [f"{old['id']}.toml"]
    kept = [one for one in world.ls("--all") if one["id"] == old["id"]]
    assert [(one["state"], one["exit_code"]) for one in kept] == [("failed", 3)]
    assert world.tmux("list-panes", "-a", "-F", "#{session_name}") == "a"


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (["no-such-program"], ["no-such-program", "command not found"]),
        (["./missing"], ["./missing", "no such file"]),
        (["/tmp"], ["/tmp", "not an executable file"]),
        ([""], ["command not found"]),
    ],
)
def test_a_program_that_is_not_there_is_refused(
    world: World, command: list[str], words: list[str]
) -> None:
    complains(world.sesh("start", "a", "--", *command), 1, *words)
    assert not world.state.exists() or files(world.state) == {}


def test_a_file_without_permission_to_execute_is_refused(world: World) -> None:
    (world.cwd / "plain").write_text("no program\n")
    complains(world.sesh("start", "a", "--", "./plain"), 1, "not an executable file")


@pytest.mark.parametrize(("given", "code"), [("nowhere", 1), ("", 2), ("file", 1)])
def test_a_directory_that_is_not_there_is_refused(world: World, given: str, code: int) -> None:
    (world.cwd / "file").touch()
    complains(world.sesh("start", "a", "-C", given, "--", "sleep", "9"), code, "director")
    assert not world.state.exists() or files(world.state) == {}


def test_a_command_that_cannot_be_executed_says_so(world: World) -> None:
    """It passed every check beforehand: only the exec itself can tell."""
    script = world.cwd / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    complains(world.sesh("start", "a", "--", "./script"), 1, "a could not be launched", "command")
    shown = world.session("a")
    assert (shown["state"], shown["cause"]) == ("failed", "launch")
    assert shown["exit_code"] in (126, 127)
    assert [e["kind"] for e in world.events()][-1] == "start-failed"


def test_a_session_that_ends_at_once_is_told(world: World) -> None:
    done = world.ok("start", "a", "--", "sh", "-c", "exit 4")
    assert done.out == "a\n"
    if done.err:  # whether it has ended by then is a race; what is said must be true
        assert "a failed at once: exit 4" in done.err
    assert eventually(lambda: world.state_of("a") == "failed")
    assert world.session("a")["exit_code"] == 4


def test_a_quick_success_is_quiet(world: World) -> None:
    done = world.ok("start", "a", "--", "true")
    assert (done.out, done.err) == ("a\n", "")
    assert eventually(lambda: world.state_of("a") == "completed")


def test_a_launch_into_a_hanging_tmux_is_given_up_and_found_out_later(world: World) -> None:
    world.start("first")
    world.configure("[tmux]\ntimeout = 0.5\n[start]\nlaunch_timeout = 1\n")
    server = world.server_pid()
    os.kill(server, signal.SIGSTOP)
    try:
        begin = time.monotonic()
        complains(world.sesh("start", "b", "--", "sleep", "1000"), 5, "tmux", "no answer")
        assert time.monotonic() - begin < pace.seconds(25)
    finally:
        os.kill(server, signal.SIGCONT)
    # Whether the server has still heard the request is its affair; the truth shows.
    assert eventually(lambda: world.state_of("b") in ("running", "timeout")), world.session("b")

    def is_true() -> bool:
        return ("b 0" in panes(world)) == (world.state_of("b") == "running")

    assert eventually(is_true), world.session("b")


def launch_into_hanging_tmux(world: World, first: str) -> None:
    """Give up the launch of `b`, and let tmux continue: then b's launch file runs `first`."""
    world.start("first")
    world.configure("[tmux]\ntimeout = 0.5\n[start]\nlaunch_timeout = 1\n")
    server = world.server_pid()
    os.kill(server, signal.SIGSTOP)
    try:
        complains(world.sesh("start", "b", "--", "sleep", "1000"), 5, "no answer")
        (file,) = world.state.glob("run/*/b-*.launch")
        file.write_text(f"{first}\n{file.read_text()}")
    finally:
        os.kill(server, signal.SIGCONT)


def test_an_agent_that_begins_after_its_launch_was_given_up_ends(world: World) -> None:
    """Its shell has read the launch file, but is too slow to say so."""
    read, go = world.cwd / "read", world.cwd / "go"
    launch_into_hanging_tmux(world, f"touch {read}; until [ -e {go} ]; do sleep 0.1; done")
    assert eventually(read.exists)
    assert eventually(lambda: world.state_of("b") == "timeout"), world.session("b")
    go.touch()
    assert eventually(lambda: "b 1" in panes(world)), panes(world)
    assert world.state_of("b") == "timeout"


def test_an_agent_that_begins_while_its_launch_is_given_up_runs(
    here: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It says so after it was looked at, and before its launch file is removed."""
    go = here.cwd / "go"
    launch_into_hanging_tmux(here, f"until [ -e {go} ]; do sleep 0.1; done")
    time.sleep(1)  # its launch timeout
    withdraw = launch_files.withdraw

    def late(record: Record) -> bool:
        go.touch()
        assert eventually(lambda: not Path(f"{launch_files.base(record)}.launch").exists())
        return withdraw(record)

    monkeypatch.setattr(launch_files, "withdraw", late)
    session = lookup.one("b").session
    assert session is not None
    assert session.verdict.state is State.RUNNING
    assert "b 0" in panes(here)


def panes(world: World) -> list[str]:
    return world.tmux("list-panes", "-a", "-F", "#{session_name} #{pane_dead}").splitlines()


def test_everything_behind_the_double_dash_is_the_command(world: World) -> None:
    shown = world.ok("start", "a", "--json", "--", "sh", "-c", "sleep 1000", "--", "--json").json
    assert shown["command"] == ["sh", "-c", "sleep 1000", "--", "--json"]
    arguments = Path(f"/proc/{shown['pid']}/cmdline").read_bytes()
    assert arguments == b"sh\0-c\0sleep 1000\0--\0--json\0"


def test_a_label_that_would_harm_a_terminal_is_refused(world: World) -> None:
    for word in ("", "a\nb", "\x1b[31mred", "x" * 201, "\u202eback"):
        for option in ("--group", "--tag"):
            complains(world.sesh("start", "a", option, word, "--", "sleep", "9"), 2, "printable")
    assert world.ls() == []


def test_the_start_is_an_event(world: World) -> None:
    shown = world.start("a")
    events = [e for e in world.events() if e["kind"] == "started"]
    assert [(e["name"], e["id"], e["generation"]) for e in events] == [("a", shown["id"], 1)]


def test_the_branch_of_the_directory_is_recorded(world: World) -> None:
    (world.cwd / ".git").mkdir()
    (world.cwd / ".git" / "HEAD").write_text("ref: refs/heads/fix/login\n")
    assert world.start("a")["branch"] == "fix/login"


def test_the_same_name_in_tmux_that_sesh_did_not_make_is_a_conflict(world: World) -> None:
    world.start("a")
    world.tmux("new-session", "-d", "-s", "b", "sleep", "1000")
    complains(world.sesh("start", "b", "--", "sleep", "5"), 8, "b", "sesh did not start")
    assert "b" in world.tmux("list-sessions", "-F", "#{session_name}").split()


SECTIONS = [
    *("Basics", "Agent", "Git", "Limits", "Retries", "Health", "Breaker", "Container"),
    "Examples",
]
ONE_NAME_IS_ENOUGH = ("--max-age", "--max-idle", "--memory")  # the older ones


def test_the_help_has_sections_and_examples(world: World) -> None:
    text = world.ok("start", "--help").out
    assert re.findall(r"^([A-Z]\w+):$", text, re.M) == SECTIONS
    assert len(re.findall(r"^  sesh start", text, re.M)) == 4
    assert [word for word in ONE_NAME_IS_ENOUGH if re.search(rf"^  {word} ", text, re.M)] == []
    assert "[0<=x" not in text


def test_the_manual_has_the_sections_of_the_help() -> None:
    page = (CHECKOUT / "man" / "sesh-start.1").read_text()
    titles = re.findall(r"^\.Ss (.*)$", page, re.M)
    assert titles[: len(SECTIONS) - 1] == SECTIONS[:-1]
    for word in ONE_NAME_IS_ENOUGH:
        assert f".Ql {word}" in page


@pytest.mark.parametrize(
    ("call", "name", "command"),
    [
        ("web sleep 100", "web", ["sleep", "100"]),
        ("web -C / sleep 100", "web", ["sleep", "100"]),
        ("-d -n web sleep 100", "web", ["sleep", "100"]),
        ("--name=web -- sleep 100", "web", ["sleep", "100"]),
        ("-dgx web --json sh -c true", "web", ["sh", "-c", "true"]),
        ("web sh -c : -C -- --json", "web", ["sh", "-c", ":", "-C", "--", "--json"]),
        ("sleep sleep -- 100", "sleep", ["sleep", "--", "100"]),
        ("-- sleep 100", "dir", ["sleep", "100"]),
    ],
)
def test_the_command_begins_at_the_second_word(call: str, name: str, command: list[str]) -> None:
    """As with docker run: what follows belongs to it."""
    context = start.command.click().make_context("start", call.split())
    given = context.params["name"] or context.params["named"] or "dir"
    assert (given, list(context.obj)) == (name, command)


def test_a_command_without_dashes(world: World) -> None:
    assert world.ok("start", "web", "sleep", "1000").out == "web\n"
    assert world.session("web")["command"] == ["sleep", "1000"]
    assert world.ok("start", "api", "-C", "/", "sh", "-c", "sleep 1000", "-C").out == "api\n"
    shown = world.session("api")
    assert (shown["cwd"], shown["command"]) == ("/", ["sh", "-c", "sleep 1000", "-C"])
    assert world.ok("start", "-d", "-n", "job", "sleep", "1000").out == "job\n"
    world.ok("start", "shell")
    assert world.session("shell")["command"] == [world.env.get("SHELL", "/bin/sh")]


def test_a_plain_command_without_dashes_needs_no_click(world: World) -> None:
    _, modules = loaded(world, ["start", "web", "sleep", "1000"])
    assert not modules & {"click", "sesh.terminal.main", "sesh.commands.start"}


def test_a_command_in_the_place_of_the_name(world: World) -> None:
    for call, right in (
        ("./server", "sesh start server -- ./server"),
        ("-C / ./server --port 80", "sesh start -C / server -- ./server --port 80"),
        ("/bin/sleep 100", "sesh start sleep -- /bin/sleep 100"),
    ):
        complains(world.sesh("start", *call.split()), 2, "not a session name", right)
    complains(world.sesh("start", "./server", "--", "sleep", "9"), 2, "invalid name")
    done = world.sesh("start", "sleep", "100")
    complains(done, 1, "100: command not found", "sesh start NAME -- sleep 100")
    assert world.ls() == []


def test_contradictions_are_refused(world: World) -> None:
    complains(world.sesh("start", "web", "-n", "api"), 2, "two names")
    complains(world.sesh("start", "-ad", "web"), 2, "--attach or --detach")


def test_a_limit_of_its_own_replaces_the_one_of_gc(world: World) -> None:
    """Also that of a template; the older option still sets the one of gc."""
    world.configure("[gc]\nmax_age = 1\nmax_idle = 1\n")
    template = world.root / "config" / "sesh" / "templates" / "long.toml"
    template.parent.mkdir(parents=True)
    template.write_text('[start]\ntimeout = "1h"\nidle_timeout = "1h"\n')
    world.start("one", options=("--timeout", "1h", "--idle-timeout", "0"))
    world.start("two", options=("-t", "long"))
    world.start("old", options=("--max-age", "2h", "--max-idle", "0"))
    limits = {one["name"]: (one["max_age"], one["max_idle"]) for one in world.ls()}
    assert limits == {"one": (0.0, 0.0), "two": (0.0, 0.0), "old": (7200.0, 0.0)}
    world.start("none")
    assert world.session("none")["max_age"] is None


@pytest.mark.parametrize("options", [("--memory", "1g"), ("--memory=1G",)])
def test_memory_is_an_older_spelling_of_max_memory(world: World, options: tuple[str, ...]) -> None:
    shown = world.start("one", options=options)
    assert shown["care"] == {"max_memory": 1 << 30}
    complains(world.sesh("start", "two", "--memory", "lots"), 2, "--max-memory", "not a size")
    named = world.ok("start", "-g", "--memory", "three", "--json", "--", "sleep", "9").json
    assert (named["group"], named["care"]) == ("--memory", None)


@pytest.mark.parametrize("option", ["-h", "--help"])
def test_help(world: World, option: str) -> None:
    done = world.ok("start", option)
    for word in ("[NAME]", "-C, --dir", "-e, --env", "-g, --group", "--tag", "--json", "COMMAND"):
        assert word in done.out


@pytest.mark.parametrize("where", ["option", "variable"])
def test_a_life_of_nothing_does_not_give_retries_back(world: World, where: str) -> None:
    """With a reset of 0 every end would: it would be tried again for ever."""
    given = ["--retry-reset", "0"] if where == "option" else []
    env = {**world.env, **({} if given else {"SESH_START_RETRY_RESET": "0"})}
    done = world.sesh("start", "a", "--retries", "1", *given, "--", "false", env=env)
    complains(done, 2 if given else 6, "above 0")
    assert world.ls() == []


def test_the_longest_launch_timeout_makes_no_damaged_record(world: World) -> None:
    world.start("a", options=["--launch-timeout", "366d"])
    assert world.state_of("a") == "running"
    assert "launch timeout 366d" in world.ok("show", "a").out
