"""A machine whose power was cut, and which was booted again, with another boot id, an empty
/run, and the files as they were."""

from __future__ import annotations

from tests.systemd.machine import Machine, User
from tests.systemd.test_scopes import OWN, server, start
from tests.world import eventually


def test_all_is_lost_found_and_back_after_a_reboot(machine: Machine, user: User) -> None:
    boot = machine.boot_id()
    for name, options in (("a", ()), ("b", ("--scope",)), ("c", ("--group", "g"))):
        start(user, name, *options)
    user.ok("sesh", "timer", "install", "--every", "1m")
    machine.crash()
    machine.boot()
    assert machine.boot_id() != boot
    assert eventually(user.has_manager), "nobody logged in, but it lingers"
    shown = user.ls()
    assert {one["state"] for one in shown.values()} == {"lost"}
    assert {one["cause"] for one in shown.values()} == {"reboot"}
    # Nobody has started it; there is no next time while gc runs.
    assert eventually(lambda: [bool(timer["next"]) for timer in user.timers()] == [True]), (
        user.timers()
    )
    assert user.ok("sesh", "timer", "status", "--json").json["problem"] is None
    user.ok("sesh", "restart", "--lost")  # and logs out
    shown = user.ls()
    assert {one["state"] for one in shown.values()} == {"running"}
    assert {one["generation"] for one in shown.values()} == {2}
    assert OWN.fullmatch(user.cgroup(server(user)))
    assert user.cgroup(shown["b"]["pid"]) != user.cgroup(server(user))
    assert user.sesh("doctor").code == 0


def test_what_the_timer_finds_after_a_reboot(machine: Machine, user: User) -> None:
    """Ends are written down before anybody looks."""
    start(user, "a")
    user.ok("sesh", "timer", "install", "--every", "1m")
    user.often()
    machine.crash()
    machine.boot()
    assert eventually(lambda: "reboot" in user.read(".local/state/sesh/events.jsonl"))
