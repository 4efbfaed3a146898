"""Values of the environment are in the private snapshot and nowhere else; all files are private."""

from __future__ import annotations

import os
import secrets
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.surroundings import as_stranger, give_to_stranger, shell
from tests.world import SESH, World, eventually


def holders(root: Path, secret: str) -> list[Path]:
    """The files below `root` that hold the secret."""
    found = []
    for path in root.rglob("*"):
        if path.is_file() and not path.is_symlink() and secret.encode() in path.read_bytes():
            found.append(path)
    return found


class Watch:
    """Reads every process's command line, over and over."""

    def __init__(self, secret: str) -> None:
        self._secret = secret.encode()
        self._stop = threading.Event()
        self.rounds = 0
        self.found: set[bytes] = set()

    def look(self) -> None:
        while not self._stop.is_set():
            for pid in filter(str.isdigit, os.listdir("/proc")):
                try:
                    line = Path(f"/proc/{pid}/cmdline").read_bytes()
                except OSError:
                    continue
                if self._secret in line:
                    self.found.add(line)
            self.rounds += 1

    def end(self) -> None:
        self._stop.set()


@contextmanager
def watching(secret: str) -> Iterator[Watch]:
    watch = Watch(secret)
    thread = threading.Thread(target=watch.look)
    thread.start()
    try:
        yield watch
    finally:
        watch.end()
        thread.join()


@pytest.mark.parametrize("runtime", [True, False])
def test_a_secret_is_in_the_snapshot_and_nowhere_else(world: World, runtime: bool) -> None:
    """In no other file, no command line, not in tmux; through start, restart, stop."""
    secret = f"secret-{secrets.token_hex(16)}"
    if not runtime:
        del world.env["XDG_RUNTIME_DIR"]
    env = {**world.env, "TOKEN": secret, "GIVEN": secret}
    script = "echo begin; while ! test -e go; do sleep 0.05; done; rm go; exit 3"
    with watching(secret) as watch:
        world.ok("start", "a", "-e", "GIVEN", "--", "sh", "-c", script, env=env)
        pid = world.session("a")["pid"]
        assert secret in Path(f"/proc/{pid}/environ").read_text()
        (world.cwd / "go").touch()
        assert eventually(lambda: world.state_of("a") == "failed")
        world.ok("restart", "a", env=env)
        pid = world.session("a")["pid"]
        assert secret in Path(f"/proc/{pid}/environ").read_text()
        (holder,) = holders(world.root, secret)
        world.ok("ls", "--wide", "--all", env=env)
        world.ok("show", "a", env=env)
        assert secret not in world.tmux("show-environment", "-g")
        assert secret not in world.tmux("show-environment", "-t", "=a")
        assert secret not in world.tmux("show-options", "-A", "-t", "=a")
        server = Path(f"/proc/{world.server_pid()}/environ").read_text()
        assert secret not in server
        world.ok("stop", "a", env=env)
    assert watch.rounds > 5
    assert watch.found == set()
    assert holders(world.root, secret) == [holder]
    assert holder.suffix == ".env"
    assert stat.S_IMODE(holder.stat().st_mode) == 0o600
    in_runtime = holder.is_relative_to(world.root / "run")
    assert in_runtime == runtime
    world.ok("rm", "a")
    assert holders(world.root, secret) == []


def test_a_value_given_on_the_command_line_goes_no_further(world: World) -> None:
    """The caller's own command line is the caller's affair; nothing else gets it."""
    secret = f"secret-{secrets.token_hex(16)}"
    done = world.ok("start", "a", "--json", "-e", f"GIVEN={secret}", "--", "sleep", "1000")
    (holder,) = holders(world.root, secret)
    assert holder.suffix == ".env"
    assert secret not in done.out
    assert secret not in world.ok("show", "a").out
    with watching(secret) as watch:
        world.ok("restart", "a")
        assert eventually(lambda: watch.rounds > 3)
    assert watch.found == set()


def test_a_refused_start_leaves_no_secret_behind(world: World) -> None:
    secret = f"secret-{secrets.token_hex(16)}"
    world.start("a")
    done = world.sesh("start", "a", "-e", f"GIVEN={secret}", "--", "sleep", "9")
    assert done.code == 8
    assert secret not in done.err
    assert holders(world.root, secret) == []


def test_a_failed_launch_does_not_print_values(world: World) -> None:
    secret = f"secret-{secrets.token_hex(16)}"
    script = world.cwd / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    done = world.sesh("start", "a", "-e", f"GIVEN={secret}", "--", "./script")
    assert done.code == 1
    assert secret not in done.err
    assert [path.suffix for path in holders(world.root, secret)] in ([], [".env"])


def _everything(world: World) -> list[Path]:
    return [
        path
        for top in ("state", "run")
        for path in (world.root / top, *(world.root / top).rglob("*"))
        if path != world.root / "run"
    ]


def _wrong(paths: list[Path]) -> list[str]:
    """What others could read, or what we ourselves can't."""
    bad = []
    for path in paths:
        mode = path.lstat().st_mode
        wanted = 0o700 if stat.S_ISDIR(mode) else 0o600
        if stat.S_ISSOCK(mode):
            if mode & 0o007:
                bad.append(f"{path} {stat.S_IMODE(mode):o}")
        elif stat.S_IMODE(mode) != wanted:
            bad.append(f"{path} {stat.S_IMODE(mode):o}")
    return bad


LIFE = """
umask "$1"; shift
"$@" start a -- sh -c 'echo hello; exit 3' || exit 11
"$@" start b -- sleep 1000 || exit 12
"$@" start bad -- ./script && exit 13
"$@" pass || exit 14
"$@" restart a || exit 15
"$@" restart b || exit 16
"$@" stop b || exit 17
"$@" start b -- sleep 1000 || exit 18
"$@" ls >/dev/null || exit 19
"""


def _script_that_cannot_run(world: World) -> None:
    script = world.cwd / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)


@pytest.mark.parametrize("umask", ["000", "022", "777"])
def test_directories_0700_and_files_0600_under_any_umask(world: World, umask: str) -> None:
    _script_that_cannot_run(world)
    done = shell(world, LIFE, umask, SESH)
    assert done.code == 0, done
    assert eventually(lambda: world.state_of("a") == "failed")
    found = _everything(world)
    names = {path.name for path in found}
    assert {"a.toml", "b.toml", ".lock", "events.jsonl", "callback", "tmux.conf"} <= names
    assert {".log", ".env", ".screen", ".error"} <= {path.suffix for path in found}
    assert list((world.state / "history").iterdir())
    assert _wrong(found) == []


def test_an_ordinary_user_with_umask_777_and_an_empty_home(world: World) -> None:
    """Only root could read what that umask makes, were it not put right."""
    world.root.chmod(0o755)
    _script_that_cannot_run(world)
    give_to_stranger(world)
    env = {"PATH": world.env["PATH"], "HOME": world.env["HOME"]}
    done = shell(world, LIFE, "777", *as_stranger(SESH), env=env)
    assert done.code == 0, done
    assert "bad could not be launched" in done.err
    home = world.root / "home"
    assert (home / ".local/state/sesh/sessions/a.toml").exists()
    assert _wrong(list(home.rglob("*"))) == []
