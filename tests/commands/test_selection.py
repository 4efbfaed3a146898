"""Selection by --group, --tag and --filter, the same in all commands; --dry-run; and questions."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.conftest import a_world
from tests.emulator import Terminal
from tests.surroundings import complains
from tests.world import World, eventually

COMMANDS = ["stop", "restart", "rm", "send", "wait", "pause", "resume"]
ON_A = ("--group", "web", "--tag", "blue")


def call(command: str, *options: str) -> list[str]:
    return [command, *options, *(["hello"] if command == "send" else [])]


def states(world: World) -> dict[str, str]:
    return {one["name"]: one["state"] for one in world.ls()}


def labelled(world: World) -> None:
    """a: web, blue; b: web, red; c: blue, without a group; dead: web, red, failed."""
    world.start("a", "cat", options=("--group", "web", "--tag", "blue"))
    world.start("b", "cat", options=("--group", "web", "--tag", "red"))
    world.start("c", "cat", options=("--tag", "blue"))
    world.start("dead", "sh", "-c", "exit 3", options=("--group", "web", "--tag", "red"))
    assert eventually(lambda: world.state_of("dead") == "failed")


@pytest.fixture(scope="module")
def looked_at() -> Iterator[World]:
    """A world that no test changes."""
    with a_world() as made:
        labelled(made)
        yield made


def clear(terminal: Terminal) -> None:
    terminal.run("clear")
    terminal.see_screen("$")


# --- selection -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "names"),
    [
        (("--group", "web"), "a b dead"),
        (("--tag", "blue"), "a c"),
        (("--tag", "blue", "--tag", "red"), "a b c dead"),
        (("--group", "web", "--tag", "blue"), "a"),
        (("--filter", "state=running"), "a b c"),
        (("--filter", "state=failed", "--filter", "state=running"), "a b c dead"),
        (("--filter", "name=[ab]", "--filter", "tag=red"), "b"),
        (("--filter", "group=", "--tag", "blue"), "c"),
        (("--group", "web", "--filter", "attention=yes"), "dead"),
    ],
)
def test_options_are_combined_as_by_ls(
    looked_at: World, options: tuple[str, ...], names: str
) -> None:
    done = looked_at.ok("restart", *options, "--dry-run")
    assert [line.split("(")[0].split()[-1] for line in done.out.splitlines()] == names.split()


@pytest.mark.parametrize("command", COMMANDS)
def test_what_matches_nothing(looked_at: World, command: str) -> None:
    for options, code, said in (
        ("--group db", 4, "no session is in group db"),
        ("--tag green", 4, "no session matches --tag green"),
        ("--group web --filter name=x*", 4, "no session matches --group web --filter name=x*"),
        ("--filter colour=red", 2, "--filter colour=red"),
    ):
        complains(looked_at.sesh(*call(command, *options.split())), code, said)
    if command != "send":
        complains(looked_at.sesh(command, "a", "--tag", "blue"), 2, "not both")
        complains(looked_at.sesh(command), 2, "--group, --tag or --filter")


def test_an_empty_group_or_tag_selects_nothing(looked_at: World) -> None:
    """As of a variable that is not set: not all sessions without a group or tag."""
    complains(looked_at.sesh("stop", "-y", "--group", ""), 4, "no session is in group")
    complains(looked_at.sesh("stop", "-y", "--tag", ""), 4, "no session matches --tag")


def test_pause_send_resume_wait_and_stop_act_on_what_is_selected(world: World) -> None:
    labelled(world)
    world.ok("pause", "--tag", "blue")
    assert states(world) == {"a": "paused", "b": "running", "c": "paused", "dead": "failed"}
    world.ok("resume", "--filter", "state=paused", "--group", "web")
    assert states(world)["a"] == "running"
    assert states(world)["c"] == "paused"
    world.ok("send", *ON_A, "to", "a", "only")
    assert "to a only" in world.ok("logs", "a").out
    assert "to a only" not in world.ok("logs", "b").out
    assert world.ok("wait", *ON_A, "--for", "running").out == "a running\n"
    world.ok("stop", *ON_A)
    assert states(world) == {"a": "stopped", "b": "running", "c": "paused", "dead": "failed"}
    assert "nothing to stop" in world.ok("stop", "--filter", "state=failed").err


def test_restart_and_rm_act_on_what_is_selected(world: World) -> None:
    labelled(world)
    assert world.ok("restart", *ON_A).out == "a\n"
    assert world.session("a")["generation"] == 2
    done = world.ok("rm", "--group", "web", "-y")
    assert done.err == "sesh: not ended: a and b; next: sesh stop, or repeat with --force\n"
    assert [*states(world)] == ["a", "b", "c"]
    world.ok("rm", "--tag", "blue", "--force", "-y")
    assert [*states(world)] == ["b"]


# --- rm --ended ----------------------------------------------------------------------------------


def test_ended_sessions_are_forgotten_after_a_question(world: World) -> None:
    labelled(world)
    world.start("over", "true")
    assert eventually(lambda: world.state_of("over") == "completed")
    complains(world.sesh("rm", "--ended"), 2, "remove dead and over?", "-y")
    complains(world.sesh("rm", "--ended", "a"), 2, "not both")
    terminal = Terminal(world)
    terminal.run("sesh rm --ended; echo code $?")
    terminal.see("remove dead and over? [y/N]")
    terminal.type("n")
    terminal.see("code 1")
    assert len(states(world)) == 5
    terminal.run("sesh rm --ended")
    terminal.see("code 1\n$ sesh rm --ended\nremove")
    terminal.type("y")
    terminal.see("removed dead and over")
    assert [*states(world)] == ["a", "b", "c"]
    assert world.ok("rm", "--ended").err == "sesh: nothing to remove\n"


def test_ended_and_a_selection_go_together(looked_at: World) -> None:
    done = looked_at.ok("rm", "--ended", "--group", "web", "--force", "--dry-run")
    assert done.out == "would remove dead (failed): its record and its transcript\n"
    assert done.err == ""


# --- --dry-run -----------------------------------------------------------------------------------


def test_a_dry_run_prints_a_line_each_and_changes_nothing(looked_at: World) -> None:
    before = looked_at.ls("--all")
    events = looked_at.events()
    for call, lines in (
        ("stop --all", ["would stop a (running)", "would stop b (running)", "…c (running)"]),
        ("stop a dead", ["would stop a (running)", "would leave dead: it has ended (failed)"]),
        ("stop --orphans", []),
        ("restart a dead", ["would stop and restart a (running)", "would restart dead (failed)"]),
        ("rm dead", ["would remove dead (failed): its record and its transcript"]),
        ("rm -f a nope", ["would stop and remove a (running): its record and its transcript"]),
        ("rm a", ["would leave a: a is running; next: sesh stop a, or sesh rm --force a"]),
    ):
        done = looked_at.ok(*call.split(), "--dry-run")
        shown = [line.replace("would stop c", "…c") for line in done.out.splitlines()]
        assert (shown, done.err) == (lines, ""), call
    complains(looked_at.sesh("stop", "nope", "--dry-run"), 4, "nope")

    def lasting(view: dict[str, object]) -> dict[str, object]:
        return {key: value for key, value in view.items() if key != "checked_at"}

    assert [*map(lasting, looked_at.ls("--all"))] == [*map(lasting, before)]
    assert looked_at.events() == events


def test_a_dry_run_ends_nothing_that_no_record_claims(world: World) -> None:
    pid = world.start("lost")["pid"]
    world.record("lost").unlink()
    for call in ("stop lost", "rm -f lost", "stop --orphans"):
        done = world.ok(*call.split(), "--dry-run")
        assert done.out.startswith("would end"), call
        assert f"process {pid}" in done.out
    assert world.session("lost")["pid"] == pid


# --- questions and messages ----------------------------------------------------------------------


def test_a_question_names_what_it_is_about(world: World) -> None:
    for name in ("api", "db", "mail", "web", "worker"):
        world.start(name, options=("--group", "shop"))
    complains(world.sesh("stop", "--all"), 2, "stop api, db and 3 more?", "-y")
    complains(world.sesh("stop", "api", "web"), 2, "stop api and web?", "-y")
    complains(world.sesh("restart", "--group", "shop"), 2, "restart api, db and 3 more (5 alive)?")
    complains(world.sesh("rm", "-f", "--group", "shop"), 2, "remove api, db and 3 more?")
    terminal = Terminal(world)
    terminal.run("sesh stop --group shop")
    terminal.see("stop api, db and 3 more? [y/N]")
    # Meanwhile one of them is another launch, and one is not selected any more.
    world.ok("restart", "mail")
    world.ok("stop", "web")
    terminal.type("y")
    terminal.see_screen("""
        $ sesh stop --group shop
        stop api, db and 3 more? [y/N]: y
        sesh: mail and web changed meanwhile: skipped
        stopped api, db and worker
        $
    """)
    assert states(world)["mail"] == "running"
    clear(terminal)
    terminal.run("sesh stop mail; sesh rm mail web | cat; sesh stop nope")
    terminal.see_screen("""
        $ sesh stop mail; sesh rm mail web | cat; sesh stop nope
        stopped mail
        sesh: no session named nope; next: sesh ls
        $
    """)


def test_what_was_done_is_told_to_a_person_only(world: World) -> None:
    world.start("a", "cat")
    terminal = Terminal(world)
    terminal.run("sesh pause a; sesh resume a; sesh resume a; sesh stop a; sesh rm a")
    terminal.see_screen("""
        $ sesh pause a; sesh resume a; sesh resume a; sesh stop a; sesh rm a
        paused a
        resumed a
        sesh: a is not paused
        stopped a
        removed a
        $
    """)
    world.start("a", "cat")
    for command in ("pause", "resume", "stop", "rm"):
        done = world.ok(command, "a")
        assert (done.out, done.err) == ("", "")
