"""tmux's words told apart, and nothing of a user's ever run by it."""

from __future__ import annotations

import os
import shutil
import socket
import time
from pathlib import Path

import pytest

from sesh.model.errors import CannotTellError, StateError
from sesh.system.subprocesses import Reply
from sesh.system.tmux import (
    Keeper,
    Launched,
    Pane,
    Tmux,
    Trouble,
    barrier,
    check_socket,
    check_trust,
    check_version,
    woken_by,
)
from tests import pace
from tests.emulator import Terminal
from tests.surroundings import STRANGER, as_stranger, complains, need_root, run
from tests.world import World, eventually


def fake(world: World, script: str) -> str:
    path = world.root / "fake-tmux"
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return str(path)


def server(world: World, binary: str | None = None) -> Tmux:
    return Tmux(
        binary or shutil.which("tmux") or "tmux",
        str(world.root / "sock"),
        str(world.root),
        timeout=1,
    )


@pytest.mark.parametrize(
    ("said", "trouble"),
    [
        ("error connecting to /x/sock (No such file or directory)", Trouble.NO_SERVER),
        ("error connecting to /x/sock (Connection refused)", Trouble.NO_SERVER),
        ("error connecting to /x/sock (Permission denied)", Trouble.OTHER),
        ("no server running on /x/sock", Trouble.NO_SERVER),
        ("can't find session: x", Trouble.NO_TARGET),
        ("can't find pane: %9", Trouble.NO_TARGET),
        ("duplicate session: x", Trouble.DUPLICATE),
        ("server exited unexpectedly", Trouble.EXITING),
        ("kein Server läuft", Trouble.OTHER),
        ("", Trouble.OTHER),
    ],
)
def test_messages(world: World, said: str, trouble: Trouble) -> None:
    """Only known words prove that something is absent."""
    host = server(world, fake(world, f'echo "{said}" >&2; exit 1'))
    assert host.ask("list-sessions").trouble is trouble


def test_a_hang_is_no_answer(world: World) -> None:
    begin = time.monotonic()
    assert server(world, fake(world, "exec sleep 60")).ask("x").trouble is Trouble.OTHER
    assert time.monotonic() - begin < pace.seconds(9)


@pytest.mark.parametrize("lie", ["%1 2", "hello", "%1 x 0 $1 s name", "%1 2 3 $1 s name"])
def test_a_lie_is_no_answer(world: World, lie: str) -> None:
    answer = server(world, fake(world, f"echo '{lie}'")).panes()
    assert isinstance(answer, Reply)
    assert answer.trouble is Trouble.OTHER


def test_real_panes(world: World) -> None:
    host = server(world)
    answer = host.panes()
    assert isinstance(answer, Reply)
    assert answer.trouble is Trouble.NO_SERVER
    host.write_config()
    assert host.ask("new-session", "-d", "-s", "x", "sleep", "99").ok
    panes = host.panes()
    assert isinstance(panes, list)
    assert [(pane.dead, pane.sesh_id, pane.name) for pane in panes] == [(False, "", "x")]
    assert isinstance(panes[0], Pane)


@pytest.mark.parametrize(
    ("said", "fine"),
    [
        ("tmux 3.2", True),
        ("tmux 3.3a", True),
        ("tmux next-3.6", True),
        ("tmux master", True),
        ("tmux openbsd-7.5", True),
        ("tmux 3.1c", False),
        ("tmux 2.9a", False),
        ("hello", False),
    ],
)
def test_versions(world: World, said: str, fine: bool) -> None:
    binary = fake(world, f"echo {said}")
    if fine:
        check_version(binary, 1)
    else:
        with pytest.raises(CannotTellError, match=r"3\.2"):
            check_version(binary, 1)


@pytest.mark.parametrize("junk", ["x", "a b", "0x10", "inf", "-1", "9" * 5000, "#{pid}", "'"])
def test_panes_are_listed_with_any_value_of_the_wake_up_option(world: World, junk: str) -> None:
    host = server(world)
    host.write_config()
    host.ask("new-session", "-d", "-s", "x", "sleep", "99")
    assert host.ask("set-option", "-s", "@sesh_wake", junk).ok
    listed = host.panes()
    assert isinstance(listed, list)
    assert [pane.name for pane in listed] == ["x"]
    assert not woken_by(time.time() + 600, listed)


def test_a_long_socket_path_is_refused() -> None:
    check_socket("/" + "x" * 106)
    with pytest.raises(StateError, match="107"):
        check_socket("/" + "x" * 107)


def test_one_wake_up_is_pending_and_only_an_earlier_one_replaces_it(world: World) -> None:
    host = server(world)
    host.write_config()
    called = world.root / "called"
    host.ask("new-session", "-d", "-s", "x", "sleep", "99",
             ";", "set-option", "-s", "@sesh_callback", f"echo x >>{called} ;:")  # fmt: skip
    now = int(time.time())

    def wake() -> str:
        return host.ask("show-options", "-sqv", "@sesh_wake").out.strip()

    host.wake_at(now + 100)
    first = wake()
    listed = host.panes()
    assert woken_by(now + 100, listed)
    assert not woken_by(now + 99, listed)
    assert not woken_by(now + 100, None)
    host.wake_at(now + 200)
    assert wake() == first
    host.wake_at(now + 1)
    assert int(wake()) < int(first)
    assert eventually(called.exists, within=5)
    host.wake_at(now + 300)
    assert eventually(lambda: int(wake()) == (now + 300) * 1000)


def test_users_text_is_never_run(world: World) -> None:
    """Hostile directories, of the session and of the state, reach tmux as text and nothing else."""
    evil = world.root / "#(touch pwned) %H 'q' $(touch pwned2)"
    work = evil / "#(touch pwned3)"
    work.mkdir(parents=True)
    world.env["XDG_STATE_HOME"] = str(evil)
    done = world.ok("start", "x", "-C", str(work), "--json", "--", "sh", "-c", "pwd; sleep 99")
    log = Path(evil) / "sesh" / "transcripts" / f"{done.json['id']}.log"
    assert eventually(lambda: log.exists() and str(work) in log.read_text())
    world.ok("stop", "x")
    assert not [path for path in world.root.rglob("*") if path.name.startswith("pwned")]
    assert not [name for name in os.listdir(evil) if name != "sesh" and name != work.name]


# --- whom to trust -----------------------------------------------------------------------------


def bound(path: Path, mode: int = 0o700, owner: int | None = None) -> str:
    """A socket in a directory of its own with that mode and owner."""
    path.parent.mkdir(exist_ok=True)
    with socket.socket(socket.AF_UNIX) as one:
        one.bind(str(path))
    path.parent.chmod(mode)
    if owner is not None:
        os.chown(path, owner, owner)
    return str(path)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o775, 0o1777])
def test_a_socket_of_ours_where_nobody_else_can_replace_it(world: World, mode: int) -> None:
    path = bound(world.root / "d" / "sock", mode)
    assert barrier(path) is None
    (world.root / "link").symlink_to(world.root / "d")
    assert barrier(f"{world.root}/link/sock") is None


def test_a_directory_that_all_may_write_to(world: World) -> None:
    path = bound(world.root / "d" / "sock", 0o777)
    barred = barrier(path)
    assert barred
    assert (barred.trouble, "can be written to by others" in barred.text) == (Trouble.OTHER, True)
    os.unlink(path)
    (world.root / "d").chmod(0o1777)
    barred = barrier(path)
    assert barred
    assert barred.trouble is Trouble.NO_SERVER  # who makes it next may be anybody
    with pytest.raises(CannotTellError, match=r"tmux\.socket"):
        check_trust(path)


def test_sockets_of_another_user_are_not_trusted(world: World) -> None:
    need_root()
    of_another = bound(world.root / "d" / "sock", 0o1777, STRANGER)
    (world.root / "theirs").mkdir()
    inside = bound(world.root / "theirs" / "sock")
    os.chown(world.root / "theirs", STRANGER, STRANGER)
    bound(world.root / "ours" / "sock")
    (world.root / "link").symlink_to(world.root / "ours")
    os.chown(world.root / "link", STRANGER, STRANGER, follow_symlinks=False)
    for path in (of_another, inside, f"{world.root}/link/sock"):
        barred = barrier(path)
        assert barred, path
        assert barred.trouble is Trouble.OTHER
        assert f"belongs to uid {STRANGER}" in barred.text


def test_a_hostile_server_at_the_default_socket_runs_nothing(world: World) -> None:
    """A client obeys its server: one that another user has put there would run any command as us,
    here by the command of the client that attaches."""
    need_root()
    world.root.chmod(0o755)
    base, home = world.root / "tmp", world.root / "theirs"
    base.mkdir()
    home.mkdir()
    base.chmod(0o1777)
    os.chown(home, STRANGER, STRANGER)
    directory = base / f"tmux-{os.getuid()}"
    asked = home / "asked"
    script = (
        f"umask 0; mkdir {directory}; tmux -S {directory}/default -f /dev/null "
        f"new-session -d -s trap \\; set-hook -g after-list-panes 'run-shell \"touch {asked}\"' "
        f"\\; server-access -a root 2>/dev/null; chmod 777 {directory}/default"
    )
    run(world, *as_stranger("sh", "-c", script), cwd="/")
    try:
        assert eventually((directory / "default").exists)
        world.env["TMUX_TMPDIR"] = str(base)
        world.configure('[tmux]\nsocket = "default"\n')
        why = (5, f"{directory} belongs to uid {STRANGER}")
        complains(world.sesh("start", "a", "--", "sleep", "9"), *why)
        complains(world.sesh("adopt", "--tmux", "trap"), *why)
        assert world.ls() == []
        assert not asked.exists()
        around = {"TMUX": f"{directory}/default,1,0", "TMUX_PANE": "%0"}
        world.configure("")
        world.start("b", "cat")
        terminal = Terminal(world, env=around)
        terminal.run("sesh attach b; echo code $?")
        terminal.see("code 5")
        assert not asked.exists()
    finally:
        run(world, *as_stranger("tmux", "-S", f"{directory}/default", "kill-server"), cwd="/")


# --- many launches in one call -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("said", "troubles"),
    [
        ("duplicate session: b", [None, Trouble.DUPLICATE, None]),
        ("lost server", [None, Trouble.EXITING, None]),
        ("a warning\nduplicate session: b", [None, Trouble.OTHER, None]),
    ],
)
def test_a_launch_that_fails_among_others(
    world: World, said: str, troubles: list[Trouble | None]
) -> None:
    assert _launched(world, "echo 0 %1 10 9; echo 2 %3 30 9", said, 3) == troubles


@pytest.mark.parametrize(
    ("said", "troubles"),
    [
        ("can't find pane: %1\nduplicate session: b", [Trouble.NO_TARGET, Trouble.DUPLICATE]),
        ("duplicate session: b", [Trouble.OTHER, Trouble.OTHER]),  # whose is it?
        ("duplicate session: a\nlost server\nx", [Trouble.EXITING, Trouble.EXITING]),
        ("", [Trouble.OTHER, Trouble.OTHER]),
    ],
)
def test_errors_are_told_apart_by_their_order_or_not_at_all(
    world: World, said: str, troubles: list[Trouble | None]
) -> None:
    assert _launched(world, ":", said, 2) == troubles


def _launched(world: World, out: str, said: str, count: int) -> list[Trouble | None]:
    """The trouble of each of several launches, when tmux answers like this."""
    (world.root / "said").write_text(f"{said}\n" if said else "")
    tmux = server(world, fake(world, f"{out}; cat {world.root}/said >&2; exit 1"))
    keeper = Keeper(("sleep", "9"), "id", "/log", "/callback")
    steps = [tmux.new_session(f"s{at}", keeper, "/", (80, 24)) for at in range(count)]
    replies = tmux.launch(steps)
    return [reply.trouble if isinstance(reply, Reply) else None for reply in replies]  # type: ignore[misc]


def test_directories_reach_tmux_unchanged_by_many_launches(world: World) -> None:
    """No part of a name is a format, an option or a command to it."""
    names = ["#(touch hit)", "a;", "-x", "two\nlines", "#{pid}", "~", "it's"]
    for name in names:
        (world.cwd / name).mkdir()
    tmux = server(world)
    keeper = Keeper(("sleep", "1000"), "id", str(world.root / "log"), "/callback")
    try:
        for at, reply in enumerate(
            tmux.launch(
                [
                    tmux.new_session(f"s{at}", keeper, str(world.cwd / name), (80, 24))
                    for at, name in enumerate(names)
                ]
            )
        ):
            assert isinstance(reply, Launched), reply
            there, expected = f"/proc/{reply.pane_pid}/cwd", str(world.cwd / names[at])
            # The pane's process changes its directory after tmux has answered.
            assert eventually(lambda: os.readlink(there) == expected), names[at]  # noqa: B023
        assert not (world.cwd / "hit").exists()
    finally:
        listed = tmux.panes()
        assert isinstance(listed, list)
        tmux.kill_panes([pane.id for pane in listed])
        tmux.may_exit()
