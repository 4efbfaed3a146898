"""What bad input and bad surroundings get: one clear line, the right exit code, nothing lost."""

from __future__ import annotations

import fcntl
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from sesh import __version__
from sesh.__main__ import main
from sesh.model.states import State
from sesh.model.value_object import replace
from tests import pace
from tests.surroundings import (
    STRANGER,
    Terminal,
    as_stranger,
    complains,
    fake_tmux,
    files,
    give_to_stranger,
    mounted,
    need_root,
    read_only,
    read_record,
    run,
    shell,
    start_stubborn,
    write_record,
)
from tests.world import SESH, Done, World, eventually

BAD_NAMES = ["..", ".", "", "a b", "a/b", "_a", "a.b", "a:b", "x" * 64, "a\nb", "a\n", "ä", "$(x)"]
HOSTILE = "\x1b]0;owned\x07\x1b[31m"


def harmless(text: str) -> bool:
    """Nothing in it that a terminal would obey."""
    return all(c.isprintable() or c == "\n" for c in text)


Inside = Callable[..., Done]


@pytest.fixture
def inside(
    world: World, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> Inside:
    """sesh in this very process: much faster, for what is refused before anything is done."""
    for name in list(os.environ):
        if not name.startswith("PYTEST"):
            monkeypatch.delenv(name)
    for name, value in world.env.items():
        monkeypatch.setenv(name, value)

    def call(*args: str) -> Done:
        code = main(list(args))
        captured = capfd.readouterr()
        return Done(code, captured.out, captured.err)

    return call


# --- names, options, commands ------------------------------------------------------------------


def test_a_name_outside_the_pattern_is_refused_everywhere(world: World, inside: Inside) -> None:
    for name in [*BAD_NAMES, HOSTILE]:
        done = inside("start", name, "--", "sleep", "9")
        complains(done, 2, "name")
        assert harmless(done.err)
        for command in (["show"], ["status"], ["stop"], ["restart"], ["rm"], ["rm", "-f"]):
            done = inside(*command, name)
            complains(done, 2, "name")
            assert harmless(done.err), (command, name)
    complains(world.sesh("start", "..", "--", "sleep", "9"), 2, "name")
    assert not world.state.exists()


def test_the_longest_and_the_shortest_name(world: World) -> None:
    for name in ("x" * 63, "0"):
        world.ok("start", name, "--", "sleep", "1000")
        assert world.state_of(name) == "running"
        world.ok("stop", name)
        world.ok("rm", name)


def test_words_that_look_like_options_are_options(world: World, inside: Inside) -> None:
    world.start("a")
    for command in ("start", "stop", "rm", "restart", "show", "status", "ls"):
        complains(inside(command, "-rZ"), 2, f"next: sesh {command} --help")
        complains(inside(command, "--no-such-option"), 2, "--no-such-option")
    complains(world.sesh("start", "-rf"), 2)
    complains(world.sesh("rm", "--", "-rf"), 2, "-rf")
    assert world.state_of("a") == "running"


def test_unknown_commands(world: World) -> None:
    complains(world.sesh("stat"), 2, "no command named stat", "did you mean")
    complains(world.sesh("frobnicate"), 2, "no command named frobnicate")
    hostile = world.sesh(HOSTILE)
    complains(hostile, 2)
    assert harmless(hostile.err)
    complains(world.sesh("--nope"), 2, "--nope")


def test_no_command_at_all_shows_the_list_and_what_one_needs_first(world: World) -> None:
    assert world.ok().err.count("sesh start NAME COMMAND") == 1
    assert world.ok().code == 0
    world.start("a")
    bare = world.ok()
    assert timeless(bare.out) == timeless(world.ok("ls").out)
    assert "sesh attach NAME" in bare.err


def timeless(table: str) -> list[str]:
    """The words of a list, whenever it was printed."""
    return re.sub(r"\b\d+s( ago)?\b|\bnow\b", "?", table).split()


def test_version_and_help(inside: Inside) -> None:
    assert (
        inside("--version").out == inside("-V").out == inside("-v").out == f"sesh {__version__}\n"
    )
    listing = inside("--help")
    assert (listing.code, listing.err) == (0, "")
    assert inside("-h").out == listing.out
    for command in ("start", "ls", "show", "status", "stop", "restart", "rm", "pass"):
        text = inside(command, "--help")
        assert (text.code, text.err) == (0, "")
        assert text.out.startswith(f"Usage: sesh {command}")
        assert inside(command, "-h").out == text.out
        assert (f"  {command} " in listing.out) == (command != "pass")


# --- tmux --------------------------------------------------------------------------------------


def test_no_tmux(world: World) -> None:
    """In a mount namespace where the machine's tmux can't be executed."""
    need_root()
    hide = 'for t in $(which -a tmux); do mount --bind /dev/null "$t"; done; exec "$@"'
    hidden = ("unshare", "-m", "sh", "-c", hide, "sh", SESH)
    done = run(world, *hidden, "start", "a", "--", "sleep", "9")
    complains(done, 5, "tmux is not installed", "3.2")
    assert not world.record("a").exists()
    world.start("alive")
    world.start("dead", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("dead") == "failed")
    listed = run(world, *hidden, "ls", "--format", "{name} {state}")
    assert (listed.code, listed.out) == (0, "alive running\ndead failed\n")
    complains(run(world, *hidden, "restart", "dead"), 5, "tmux is not installed")
    assert world.session("dead")["generation"] == 1
    assert run(world, *hidden, "stop", "alive").code == 0
    assert world.state_of("alive") == "stopped"


@pytest.mark.parametrize(
    ("says", "words"),
    [
        ("echo tmux 2.9a", ["tmux 2.9a", "too old", "3.2 or newer"]),
        ("echo tmux 3.1c", ["tmux 3.1c", "too old", "3.2 or newer"]),
        ("echo hello", ["hello", "3.2 or newer"]),
        ("exit 1", ["tmux"]),
        ("echo 'Befehl nicht gefunden' >&2; exit 127", ["Befehl nicht gefunden"]),
        ("sleep 1000", ["no answer"]),
    ],
)
def test_a_tmux_that_is_too_old_or_none_at_all(world: World, says: str, words: list[str]) -> None:
    world.configure("[tmux]\ntimeout = 1.5\n")
    env = fake_tmux(world, says)
    begin = time.monotonic()
    complains(world.sesh("start", "a", "--", "sleep", "9", env=env), 5, *words)
    assert time.monotonic() - begin < pace.seconds(25)
    assert not world.record("a").exists()
    assert not list(world.root.rglob("a-2*")), "nothing of the launch is left"


LIES = [
    "sleep 1000",
    "printf '\\033[31m%%0 junk\\n'; exit 0",
    "echo 'kein Server auf /tmp/x' >&2; exit 1",
    "head -c 100000 /dev/urandom; exit 0",
    "kill -9 $$",
]


def test_a_hanging_or_lying_tmux_never_makes_a_session_dead(world: World) -> None:
    """The keeper is killed too, so that only tmux could tell: unknown, and nothing is changed."""
    world.start("alive")
    shown = world.start("gone")
    world.configure("[tmux]\ntimeout = 0.3\n")
    agent = read_record(world, "gone").place.agent
    assert agent is not None
    for pid in (agent.keeper, agent.leader, shown["pid"]):  # first who would tell of the others
        with suppress(ProcessLookupError):  # the end of one may have ended the next
            os.kill(pid, signal.SIGKILL)
    for lie in LIES:
        env = fake_tmux(world, lie)
        before = files(world.state / "sessions")
        done = world.sesh("ls", "--format", "{name} {state} {last_known}", env=env)
        assert done.out == "alive running \ngone unknown running\n", (lie, done)
        assert harmless(done.err)
        complains(world.sesh("restart", "gone", env=env), 5, "gone")
        complains(world.sesh("rm", "gone", env=env), 5, "gone")
        assert world.sesh("status", "gone", env=env).code == 5
        assert files(world.state / "sessions") == before, lie
    world.configure("")
    assert world.state_of("gone") == "lost"  # the real tmux can tell


# --- home, directories -------------------------------------------------------------------------


def test_no_home_is_the_password_databases(world: World) -> None:
    """HOME unset or empty: the uid's own entry serves."""
    homes: dict[str, dict[str, str]] = {"a": {}, "b": {"HOME": ""}, "c": {"HOME": "relative"}}
    for name, home in homes.items():
        env = {k: v for k, v in world.env.items() if k != "HOME"} | home
        started = world.sesh("start", name, "--", "sleep", "1000", env=env)
        assert (started.code, started.out, started.err) == (0, f"{name}\n", "")
        assert name in world.ok("ls", "-q", env=env).out.split()


def test_no_home_and_an_unknown_user(world: World) -> None:
    need_root()
    world.root.chmod(0o755)
    give_to_stranger(world)
    bare = {"PATH": world.env["PATH"]}
    for command in (["ls"], ["ls", "--json"], ["ls", "-q"], ["start", "a", "--", "sleep", "9"]):
        done = run(world, *as_stranger(SESH, *command), env=bare, cwd="/")
        complains(done, 6, "HOME", "XDG_STATE_HOME")
    known = bare | {"XDG_STATE_HOME": world.env["XDG_STATE_HOME"]}
    for command, out in (
        (["start", "a", "--", "sleep", "1000"], "a\n"),
        (["ls", "-q"], "a\n"),
        (["status", "a"], "a running\n"),
    ):
        done = run(world, *as_stranger(SESH, *command), env=known, cwd="/")
        assert (done.code, done.out, done.err) == (0, out, ""), command
    assert run(world, *as_stranger(SESH, "show", "a"), env=known, cwd="/").code == 0


def test_no_runtime_directory(world: World) -> None:
    """The snapshot then lies beside the launch's files; still private, still found."""
    env = {k: v for k, v in world.env.items() if k != "XDG_RUNTIME_DIR"} | {"KEY": "value"}
    done = world.ok("start", "a", "--", "sh", "-c", 'echo "$KEY" >>got; exit 3', env=env)
    assert done.out == "a\n"
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("restart", "a")
    got = world.cwd / "got"
    assert eventually(lambda: got.read_text() == "value\nvalue\n")


@pytest.mark.parametrize("mode", [0o755, 0o770])
def test_a_runtime_directory_that_others_can_enter_is_not_used(world: World, mode: int) -> None:
    (world.root / "run").chmod(mode)
    world.start("a")
    assert list((world.root / "run").iterdir()) == []


def test_a_deleted_working_directory(world: World) -> None:
    world.start("a")
    script = 'mkdir d && cd d && rmdir "$PWD" && exec "$SESH" "$@"'
    complains(shell(world, script, "start", "b", "--", "sleep", "9"), 1, "directory is gone", "-C")
    assert shell(world, script, "ls", "-q").out == "a\n"
    assert shell(world, script, "start", "c", "-C", "/", "--", "sleep", "1000").out == "c\n"
    assert shell(world, script, "stop", "a").code == 0
    assert shell(world, script, "restart", "a").code == 0
    assert {one["name"]: one["state"] for one in world.ls()} == {"a": "running", "c": "running"}


def test_a_foreign_state_directory_is_refused(world: World) -> None:
    need_root()
    world.start("a")
    before = files(world.state)
    os.chown(world.state, STRANGER, STRANGER)
    for command in (
        ["ls"],
        ["ls", "--json"],
        ["ls", "-q"],
        ["start", "b", "--", "sleep", "9"],
        ["status", "a"],
        ["stop", "a"],
        ["rm", "-f", "a"],
        ["pass"],
    ):
        complains(world.sesh(*command), 6, f"belongs to uid {STRANGER}", "XDG_STATE_HOME")
    assert files(world.state) == before
    os.chown(world.state, os.getuid(), os.getgid())
    assert world.state_of("a") == "running"


def test_a_state_directory_that_is_none(world: World) -> None:
    world.state.parent.mkdir()
    world.state.write_text("a file")
    complains(world.sesh("start", "a", "--", "sleep", "9"), 6, str(world.state))
    complains(world.sesh("ls"), 6, str(world.state))
    assert world.state.read_text() == "a file"


def test_a_read_only_state_directory(world: World) -> None:
    """Looking works and tells the truth; what would have to write is refused."""
    world.start("alive")
    world.start("dead", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("dead") == "failed")
    with read_only(world.root / "state"):
        listed = world.sesh("ls", "--format", "{name} {state}")
        assert (listed.code, listed.out) == (0, "alive running\ndead failed\n"), listed
        assert world.sesh("status", "alive").code == 0
        for command in (
            ["start", "b", "--", "sleep", "9"],
            ["stop", "alive"],
            ["restart", "dead"],
            ["rm", "dead"],
            ["pass"],
        ):
            complains(world.sesh(*command), 6, "Read-only file system")
        assert world.state_of("alive") == "running"
    world.ok("stop", "alive")


def _end_all(world: World) -> None:
    """So that nothing holds the mount."""
    for pid in world.processes():
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    eventually(lambda: not world.processes())


def test_a_state_directory_without_permission(world: World) -> None:
    give_to_stranger(world)
    world.root.chmod(0o755)
    (world.root / "state").mkdir()
    for command in (["start", "a", "--", "sleep", "9"],):
        done = run(world, *as_stranger(SESH, *command), cwd="/")
        complains(done, 6, "cannot write", "Permission denied")
    (world.root / "state" / "sesh").mkdir(mode=0)
    os.chown(world.root / "state" / "sesh", STRANGER, STRANGER)
    os.chmod(world.root / "state" / "sesh", 0)
    for command in (["ls"], ["ls", "--json"], ["start", "a", "--", "sleep", "9"], ["pass"]):
        complains(run(world, *as_stranger(SESH, *command), cwd="/"), 6, "Permission denied")


def test_a_full_disk(world: World) -> None:
    """A start is refused and leaves nothing; ends are still seen, told and, later, written down."""
    state = world.root / "state"
    with mounted(state, "size=1m"):
        world.start("ends", "sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 3")
        world.start("lives")
        fill = state / "fill"
        with open(fill, "wb", buffering=0) as file:
            try:
                while True:
                    file.write(b"x" * 4096)
            except OSError:
                pass
        before = {p.name for p in state.rglob("*")}
        complains(world.sesh("start", "b", "--", "sleep", "9"), 6, "No space left on device")
        assert {p.name for p in state.rglob("*")} == before
        assert list(world.runtime.glob("b-*")) == []
        complains(world.sesh("restart", "lives", "--grace", "1"), 6, "No space left")
        (world.cwd / "go").touch()
        assert eventually(lambda: world.sesh("status", "ends").out == "ends failed (exit 3)\n")
        listed = world.sesh("ls", "--format", "{name} {state} {exit_code}")
        assert listed.out == "ends failed 3\nlives running \n"
        assert (listed.code, listed.err) == (0, "")
        fill.unlink()
        assert world.ok("ls", "-q").err == ""
        status = read_record(world, "ends").status
        assert (status.outcome, status.exit_code) == (State.FAILED, 3)
        world.ok("stop", "lives")
        _end_all(world)


@pytest.mark.parametrize("options", ["size=1m", "size=1m,nr_inodes=100"])
def test_a_session_that_fills_the_disk_can_be_stopped(world: World, options: str) -> None:
    """By hand and by its limit; stopping needs no new file."""
    state = world.root / "state"
    with mounted(state, options):
        world.start("limited", "sleep", "1000", options=("--timeout", pace.option(1)))
        world.start("a", "sleep", "1000")
        world.start("b", "sleep", "1000")
        fill_up(state, inodes="inodes" in options)
        complains(world.sesh("start", "c", "--", "sleep", "9"), 6, "No space left on device")
        world.ok("stop", "a")
        assert eventually(lambda: world.state_of("limited") == "timeout", pace.seconds(20))
        world.ok("pass")
        world.ok("gc", "--auto")
        world.ok("gc")
        world.ok("stop", "b")
        assert {one["name"]: one["state"] for one in world.ls()} == {
            "limited": "timeout",
            "a": "stopped",
            "b": "stopped",
        }
        _end_all(world)


def test_gc_beside_a_pass_on_a_full_disk(world: World) -> None:
    """Without room for lock files a pass locks its directory. That keeps no gc from its work."""
    state = world.root / "state"
    with mounted(state, "size=1m,nr_inodes=100"):
        world.start("a", "sleep", "1000")
        fill_up(state, inodes=True)
        run = os.open(os.path.dirname(world.socket), os.O_RDONLY)
        fcntl.flock(run, fcntl.LOCK_EX)
        try:
            world.ok("gc")
        finally:
            os.close(run)
        world.ok("stop", "a")


def fill_up(directory: Path, *, inodes: bool) -> None:
    """Leave no room for another byte, or for another file."""
    with suppress(OSError):
        for number in range(100_000):
            with open(directory / f"fill{number}", "xb", buffering=0) as file:
                if not inodes:
                    file.write(b"x" * 4096)


def test_a_config_that_is_wrong(world: World) -> None:
    """It keeps nobody from looking at sessions and stopping them, but nothing is started."""
    world.start("a", "sh", "-c", "echo words; exec cat")
    world.start("b")
    path = world.root / "config" / "sesh" / "config.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    wrong = ("nonsense", "[tmux]\nsocket = 1\n", "[nope]\n", "[stop]\ngrace = -1\n", "\xff\n")
    refused = ("start", "c", "--", "sleep", "9"), ("restart", "a"), ("gc",), ("rm", "--force", "a")
    for text in wrong:
        path.write_bytes(text.encode("latin-1"))
        for command in refused:
            complains(world.sesh(*command), 6, "config.toml")
        warned = world.ok("stop", "b").err.splitlines()
        assert "config.toml" in warned[0], warned
        assert world.state_of("b") == "stopped"
        path.unlink()
        world.ok("restart", "b")
    assert world.state_of("a") == "running"


@pytest.mark.parametrize(
    "command",
    [
        *(("ls", "--all"), ("ls", "--wide"), ("show", "a"), ("show", "a", "--json"), ("logs", "a")),
        *(("status", "a"), ("wait", "a", "--for", "running"), ("events",), ("stats", "--json")),
        *(("ls", "--json", "--all"), ()),
    ],
)
def test_a_read_only_command_continues_with_a_warning(
    world: World, command: tuple[str, ...]
) -> None:
    world.start("a", "sh", "-c", "echo words; exec cat")
    before = world.ok(*command)
    world.configure("[stop]\ngrce = 1\n")
    done = world.ok(*command)
    assert len(done.out.splitlines()) == len(before.out.splitlines())
    added = [line for line in done.err.splitlines() if line not in before.err.splitlines()]
    assert len(added) <= 1, done
    for line in added:
        assert "config.toml:2: unknown key stop.grce" in line
    if "--json" in command:
        assert done.json


def test_the_doctor_reports_a_config_that_is_wrong(world: World) -> None:
    world.configure("[stop]\ngrce = 1\n")
    done = world.sesh("doctor", "--json")
    assert (done.code, done.err) == (10, "")
    assert "config" in [one["id"] for one in done.json]


def test_a_path_too_long_for_a_socket(world: World) -> None:
    env = {**world.env, "XDG_STATE_HOME": str(world.root / ("d" * 100))}
    complains(world.sesh("start", "a", "--", "sleep", "9", env=env), 6, "socket", "107")
    assert not list(world.root.rglob("a.toml"))


# --- streams -----------------------------------------------------------------------------------


def test_closed_streams(world: World) -> None:
    """Whichever of 0, 1, 2 is closed: the work is done, and no record gets a stray line."""
    closed = ["0<&-", "1>&-", "2>&-", "0<&- 1>&-", "1>&- 2>&-", "0<&- 2>&-", "0<&- 1>&- 2>&-"]
    for number, how in enumerate(closed):
        name = f"n{number}"
        done = shell(world, f'"$SESH" start {name} {how} -- sleep 1000')
        assert done.code == 0, (how, done)
        assert done.out == ("" if "1>" in how else f"{name}\n"), how
        assert done.err == "", how
        assert shell(world, f'"$SESH" status nope {how}').code == 4
        assert shell(world, f'"$SESH" ls {how}').code == 0
    for command in ("ls --json", "ls -q", "show n0", "status n0", "pass", "--help"):
        again = shell(world, f'"$SESH" {command} {closed[-1]}')
        assert (again.code, again.out, again.err) == (0, "", ""), (command, again)
    assert {one["state"] for one in world.ls()} == {"running"}
    assert len(world.ls()) == len(closed)


def test_a_reader_that_goes_away(world: World) -> None:
    """`| head -1`, with more than a pipe holds: quiet, and no failure."""
    world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    record = read_record(world, "a")
    for number in range(400):
        name = f"n{number:04}"
        write_record(world, replace(record, name=name), State.FAILED)
    for command in ("ls", "ls --json", "ls --sort name", "ls --json --all", "ls --wide"):
        done = shell(world, f'{{ "$SESH" {command}; echo "$?" >code; }} | head -1')
        assert done.out.count("\n") == 1
        assert done.err == "", (command, done)
        assert eventually(lambda: (world.cwd / "code").read_text()) == "0\n", command
        (world.cwd / "code").unlink()
    quick = shell(world, '{ sleep 0.3; "$SESH" --help; echo "$?" >code; } | true')
    assert (quick.err, (world.cwd / "code").read_text()) == ("", "0\n")


def test_a_full_standard_output(world: World) -> None:
    world.start("a")
    for command in (
        ["ls"],
        ["ls", "--json"],
        ["ls", "-q"],
        ["show", "a"],
        ["status", "a"],
        ["--help"],
        ["--version"],
        ["stop", "--help"],
    ):
        done = shell(world, '"$SESH" "$@" >/dev/full', *command)
        complains(done, 1, "cannot write to standard output", "No space left")
    # What was asked for is done all the same.
    done = shell(world, '"$SESH" start b >/dev/full -- sleep 1000')
    complains(done, 1, "cannot write to standard output")
    assert world.state_of("b") == "running"


def test_a_full_standard_error(world: World) -> None:
    world.start("a", "sh", "-c", "exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    assert shell(world, '"$SESH" status nope 2>/dev/full').code == 4
    screen = Terminal(world, "sh", "-c", f"{SESH} ls 2>/dev/full").finish()
    assert screen[0] == 0
    assert "failed" in screen[1]


# --- languages and terminals -------------------------------------------------------------------


@pytest.mark.parametrize("locale", [{"LANG": "C"}, {"LC_ALL": "C"}, {"LC_ALL": "POSIX"}, {}])
def test_any_language_will_do(world: World, locale: dict[str, str]) -> None:
    directory = world.root / "größe-日本"
    directory.mkdir()
    env = {k: v for k, v in world.env.items() if k != "LANG"} | locale
    script = 'pwd >here; printf "%s" "$1" >word; exec sleep 1000'
    done = world.ok(
        *("start", "a", "-C", str(directory), "--json", "--", "sh", "-c", script, "sh", "wörd"),
        env=env,
    )
    assert done.json["cwd"] == str(directory)
    assert done.json["command"][-1] == "wörd"
    assert eventually((directory / "word").exists)
    assert (directory / "here").read_text() == f"{directory}\n"
    assert eventually(lambda: (directory / "word").read_text()) == "wörd"
    assert "größe-日本" in world.ok("show", "a", env=env).out
    assert "wörd" in world.ok("ls", env=env).out
    missing = world.sesh("start", "b", "-C", "größe", "--", "sleep", "9", env=env)
    complains(missing, 1, "größe")


def test_names_that_are_not_utf_8_are_refused(world: World) -> None:
    bad = os.fsencode(world.root) + b"/\xff\xfe"
    os.mkdir(bad)
    for command in (["start", "a", "-C", os.fsdecode(bad), "--", "sleep", "9"],):
        complains(world.sesh(*command), 2, "UTF-8")
    complains(world.sesh("start", "a", "--", "echo", os.fsdecode(b"\xff")), 2, "UTF-8")
    complains(world.sesh("status", os.fsdecode(b"\xff")), 2)
    assert world.ls() == []


def test_a_dumb_terminal(world: World) -> None:
    start_stubborn(world, "slow")
    terminal = Terminal(world, "env", "TERM=dumb", SESH, "stop", "--grace", "1.5", "slow")
    code, screen = terminal.finish("-e")
    assert (code, screen.strip()) == (0, "stopped slow")


# --- interruption ------------------------------------------------------------------------------


def test_ctrl_c_during_the_grace_of_a_stop(world: World) -> None:
    pid = start_stubborn(world, "a")
    stop = subprocess.Popen(
        [SESH, "stop", "--grace", "30", "a"],
        env=world.env,
        cwd=world.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert eventually(lambda: read_record(world, "a").status.desired == "stopped")
    time.sleep(0.3)
    stop.send_signal(signal.SIGINT)
    out, err = stop.communicate(timeout=pace.seconds(25))
    assert (stop.returncode, out) == (130, "")
    assert err == "sesh: a keeps stopping; next: sesh wait a\n"
    assert world.state_of("a") == "stopping"
    assert Path(f"/proc/{pid}").exists()
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "stopped")
    world.ok("start", "a", "--", "sleep", "1000")


def test_ctrl_c_on_a_terminal_at_the_question(world: World) -> None:
    world.start("a")
    world.start("b")
    terminal = Terminal(world, SESH, "stop", "--all")
    assert terminal.shows("[y/N]")
    terminal.type("C-c")
    code, screen = terminal.finish()
    assert code == 130
    assert screen.strip().splitlines()[-1] == "sesh: interrupted"
    assert "Traceback" not in screen
    assert {one["state"] for one in world.ls()} == {"running"}


# --- hostile text ------------------------------------------------------------------------------

NASTY = "\x1b[31m\x1b]0;owned\x07 \u202egnp.exe \u2028 line\nnew \x9b31m \r over"


def test_hostile_text_never_reaches_a_terminal(world: World) -> None:
    """Command, directory, group, tag, reason, branch: escaped for people, escaped in JSON."""
    directory = world.root / f"dir-{NASTY}"
    directory.mkdir()
    (directory / ".git").mkdir()
    (directory / ".git" / "HEAD").write_text("ref: refs/heads/\x1b[32mbranch\n")
    world.ok("start", "a", "-C", str(directory), "--", "sh", "-c", "sleep 1000", NASTY)
    world.ok("start", "-C", str(directory), "--", "sleep", "1000")
    record = read_record(world, "a")
    labelled = replace(record.spec, group=NASTY, tags=(NASTY,))
    word = replace(record.agent, phase=NASTY, summary=NASTY)
    write_record(world, replace(record, spec=labelled, agent=word))
    fields = ("command", "cwd", "group", "tags", "branch", "reason", "phase", "summary")
    template = " ".join("{" + field + "}" for field in fields)
    for command in (
        ["ls"],
        ["ls", "--wide"],
        ["ls", "--sort", "name"],
        ["ls", "--format", template],
        ["show", "a"],
        ["status", "a"],
        ["start", "x", "-C", str(directory / NASTY)],
        ["start", "x", "--", NASTY],
        ["start", "x", "-e", NASTY],
        ["ls", "--filter", NASTY],
        ["ls", "--sort", NASTY],
        ["ls", "--format", "{" + NASTY + "}"],
        ["ls", "--color", NASTY],
        ["stop", "--grace", NASTY, "a"],
        ["status", NASTY],
    ):
        done = world.sesh(*command)
        assert harmless(done.out + done.err), (command, done)
    for command in (["ls", "--json"], ["show", "--json", "a"], ["ls", "--json", "--wide"]):
        out = world.ok(*command).out
        assert harmless(out)
        assert out.isascii()
    assert [one["group"] for one in world.ls() if one["name"] == "a"] == [NASTY]


def test_a_damaged_record_cannot_speak_to_the_terminal(world: World) -> None:
    world.start("a")
    path = world.record("a")
    path.write_text(f'schema = 1\nname = "{NASTY}')
    evil = path.with_name("evil\x1b[31m\n.toml")
    evil.write_text("x")
    for command in (["ls"], ["ls", "--wide"], ["ls", "-q"], ["show", "a"], ["status", "a"]):
        done = world.sesh(*command)
        assert harmless(done.out + done.err), command
    assert harmless(world.ok("ls", "--json").out)
    for command in (
        ["stop", "a"],
        ["restart", "a"],
        ["start", "a", "--", "sleep", "9"],
        ["rm", "a"],
    ):
        done = world.sesh(*command)
        assert done.code in (0, 6), (command, done)
        assert harmless(done.out + done.err)


def test_tmux_formats_in_paths_run_nothing(world: World) -> None:
    """`#(…)` in a tmux format runs a program: no path may ever become part of one."""
    state = world.root / "s #(cd;touch PWNED) %H ' $(touch PWNED);x"
    state.mkdir()
    env = {**world.env, "XDG_STATE_HOME": str(state)}
    directory = world.root / "#(cd;touch PWNED)" / "%H #{pane_id} $(touch PWNED)"
    directory.mkdir(parents=True)
    script = "pwd; echo said; test -e again && exec sleep 1000; touch again; exit 3"
    done = world.ok("start", "a", "-C", str(directory), "--json", "--", "sh", "-c", script, env=env)

    def state_of() -> str:
        return str(world.ok("ls", "--json", env=env).json[0]["state"])

    log = state / "sesh" / "transcripts" / f"{done.json['id']}.log"
    assert eventually(lambda: log.exists() and "said" in log.read_text())
    assert log.read_bytes().startswith(f"{directory}\r\n".encode())
    assert eventually(lambda: state_of() == "failed")
    events = state / "sesh" / "events.jsonl"
    assert eventually(lambda: "ended" in events.read_text()), "the call back works there too"
    world.ok("restart", "a", env=env)
    assert eventually(lambda: log.read_text().count("said") == 2)
    assert state_of() == "running"
    world.ok("stop", "a", env=env)
    assert list(world.root.rglob("PWNED")) == []
    assert not Path("/PWNED").exists()
