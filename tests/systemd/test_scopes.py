"""Where the tmux server runs, and what a logout leaves of it: logind kills all that is in a login's
own scope here (KillUserProcesses=yes)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.systemd.machine import Machine, User
from tests.world import eventually

OWN = re.compile(r"/user\.slice/user-\d+\.slice/user@\d+\.service/app\.slice/run-\w+\.scope")


def start(user: User, name: str, *options: str) -> int:
    """Start a session and return its agent's pid."""
    done = user.ok("sesh", "start", name, *options, "--json", "--", "sleep", "1000")
    return int(done.json["pid"])


def server(user: User) -> int:
    """The pid of the tmux server."""
    return int(user.machine.ok("pgrep", "-u", user.name, "-x", "tmux: server"))


def kill_server(user: User) -> None:
    pid = str(server(user))
    user.machine.ok("kill", "-KILL", pid)
    assert eventually(lambda: user.machine.run("kill", "-0", pid).code != 0)
    assert eventually(lambda: user.ls()["a"]["state"] == "lost")


@pytest.mark.parametrize("options", [(), ("--scope",)])
def test_a_restart_after_a_killed_server_outlives_the_logout(
    user: User, options: tuple[str, ...]
) -> None:
    start(user, "a", *options)
    assert OWN.fullmatch(user.cgroup(server(user)))
    kill_server(user)
    user.ok("sesh", "restart", "--lost")  # and logs out
    assert OWN.fullmatch(user.cgroup(server(user)))
    shown = user.ls()["a"]
    assert (shown["state"], shown["generation"]) == ("running", 2)


def test_a_logout_ends_what_is_in_its_own_scope(user: User) -> None:
    """The test above can fail."""
    user.run("sh", "-c", "setsid sleep 1234 >/dev/null 2>&1 & sleep 0.2")
    assert eventually(lambda: user.machine.run("pgrep", "-f", "sleep 1234").code == 1)


def test_a_logout_that_kills_nothing_spares_the_sessions_of_who_does_not_linger(
    spared: User,
) -> None:
    """The user manager, and every scope in it, ends with the last login."""
    start(spared, "a")
    assert eventually(lambda: spared.left() or not spared.has_manager())
    assert "/session-" in spared.cgroup(server(spared))
    assert spared.ls()["a"]["state"] == "running"


@pytest.fixture
def spared(machine: Machine) -> Iterator[User]:
    with machine.sparing():
        made = machine.user(linger=False)
        yield made
        made.remove()


def test_a_session_with_a_scope_of_its_own(user: User) -> None:
    start(user, "plain")
    pid = start(user, "a", "--scope", "--max-memory", "64M")
    own = user.cgroup(pid)
    assert OWN.fullmatch(own)
    assert own != user.cgroup(server(user))
    assert limit(user, own.rpartition("/")[2]) == f"MemoryMax={64 << 20}\n"
    user.ok("sesh", "stop", "--all", "--yes")
    assert eventually(lambda: "run-" not in scopes(user))


def limit(user: User, unit: str) -> str:
    return user.ok("systemctl", "--user", "show", "--property=MemoryMax", unit).out


def scopes(user: User) -> str:
    return user.ok("systemctl", "--user", "list-units", "--no-legend", "--type=scope").out
