"""sesh ls: the table for people, JSON for programs, and the ways to choose."""

from __future__ import annotations

import json
import os
import re
import signal
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from sesh.model.agents.hook_event import ACTIVITIES
from sesh.model.record import Damaged
from sesh.model.session_json import FIELDS, damaged_view
from sesh.model.states import Health, State
from sesh.model.text.formatting import display_width
from sesh.model.value_object import replace
from sesh.terminal import filters
from tests.conftest import a_world
from tests.surroundings import Terminal, complains, read_record, write_record
from tests.world import SESH, World, eventually

_COLOUR = re.compile(r"\x1b\[([0-9;]*)m")


@pytest.fixture(scope="module")
def several() -> Iterator[World]:
    """To be looked at only."""
    with a_world() as made:
        populate(made)
        yield made


def populate(world: World) -> None:
    """One running, one failed, one completed, one stopped; groups and tags."""
    world.start("api", options=["--group", "web", "--tag", "x", "--tag", "y"])
    world.start("bad", "sh", "-c", "exit 3", options=["--group", "web", "--tag", "y"])
    world.start("done", "true")
    world.start("held")
    world.ok("stop", "held")
    assert eventually(lambda: world.state_of("bad") == "failed")
    assert eventually(lambda: world.state_of("done") == "completed")


def names(world: World, *options: str) -> list[str]:
    return world.ok("ls", "-q", *options).out.split()


# --- JSON --------------------------------------------------------------------------------------


def test_json_of_nothing_is_an_empty_array(world: World) -> None:
    assert world.ok("ls", "--json").out == "[]\n"
    assert world.ok("ls", "--json", "--sort", "name").out == "[]\n"


def test_json_has_every_field_in_the_documented_order(several: World) -> None:
    for one in several.ls():
        assert tuple(one) == FIELDS


def test_json_is_the_same_from_the_fast_lane_and_from_the_full_path(several: World) -> None:
    """`--sort name` changes nothing but the path."""

    def without_time(text: str) -> Any:
        return re.sub(r'"checked_at":"[^"]*"', "", text)

    eventually(lambda: several.ok("pass").code == 0)
    fast = several.ok("ls", "--json").out
    full = several.ok("ls", "--json", "--sort", "name").out
    assert without_time(fast) == without_time(full)
    assert [one["name"] for one in json.loads(fast)] == ["api", "bad", "done", "held"]


def test_times_are_rfc_3339_in_utc(several: World) -> None:
    failed = several.session("bad")
    for field in ("created", "started", "ended", "checked_at"):
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", failed[field]), field
    assert several.session("api")["ended"] is None


def test_memory_and_cpu_only_when_asked_for(several: World) -> None:
    assert all(one["memory_bytes"] is None for one in several.ls())
    wide = {one["name"]: one for one in several.ls("--wide")}
    assert wide["api"]["memory_bytes"] > 10_000
    assert wide["api"]["cpu_seconds"] >= 0
    assert wide["bad"]["memory_bytes"] is None


def test_memory_is_that_of_the_whole_process_tree(world: World) -> None:
    hog = "import time; x = b'x' * (64 << 20); open('up', 'w').close(); time.sleep(1000)"
    world.start("tree", "sh", "-c", f'python3 -c "{hog}"; true')
    assert eventually((world.cwd / "up").exists, 10)
    assert world.ls("--wide")[0]["memory_bytes"] > 64 << 20


def test_a_damaged_record_is_listed_beside_the_others(world: World) -> None:
    populate(world)
    path = world.record("bad")
    path.write_text("nonsense")
    found = world.ls()
    assert [one["name"] for one in found] == ["api", "bad", "done", "held"]
    shape = damaged_view(Damaged("bad", str(path), "?"))
    assert tuple(found[1]) == tuple(shape)
    assert (found[1]["state"], found[1]["path"]) == ("damaged", str(path))
    assert "damaged" in world.ok("ls").out


def test_an_agent_without_a_record_is_an_orphan_with_every_field(world: World) -> None:
    shown = world.start("a")
    world.record("a").unlink()
    (orphan,) = world.ls()
    assert tuple(orphan) == FIELDS
    assert (orphan["state"], orphan["pid"], orphan["id"]) == ("orphan", shown["pid"], shown["id"])


# --- choosing ----------------------------------------------------------------------------------


_FILTERS = [
    (["state=running"], ["api"]),
    (["state=running", "state=failed"], ["api", "bad"]),
    (["group=web"], ["api", "bad"]),
    (["group=we"], []),
    (["tag=y"], ["api", "bad"]),
    (["tag=x", "tag=nothing"], ["api"]),
    (["name=*d*"], ["bad", "done", "held"]),
    (["name=api"], ["api"]),
    (["name=ap"], []),
    (["place=host"], ["api", "bad", "done", "held"]),
    (["place=docker"], []),
    (["activity=busy"], []),
    (["phase=planning"], ["held"]),
    (["phase=approval", "phase=planning"], ["held"]),
    (["phase="], ["api", "bad", "done"]),
    (["template=shell"], []),
    (["template=", "name=a*"], ["api"]),
    (["attention=yes"], ["bad"]),
    (["attention=no"], ["api", "done", "held"]),
    (["group=web", "state=failed"], ["bad"]),
]


def test_filters(several: World) -> None:
    several.ok("update", "held", "--phase", "planning")
    for given, expected in _FILTERS:
        options = [word for one in given for word in ("--filter", one)]
        assert names(several, *options) == expected, given
    assert [one["name"] for one in several.ls("--filter", "group=web")] == ["api", "bad"]


def test_a_filter_that_means_nothing_is_refused(world: World) -> None:
    for given in ("state", "colour=red", "=x", "", "attention=maybe", "state="):
        complains(world.sesh("ls", "--filter", given), 2, "--filter")


@pytest.mark.parametrize(
    ("key", "some"),
    [
        ("state", ("running", "orphan", "damaged")),
        ("activity", ("busy", "waiting", "idle")),
        ("place", ("host", "docker", "none")),
        ("phase", ("planning", "abandoned")),
        ("attention", ("yes", "no")),
    ],
)
def test_a_value_that_can_not_be_is_refused(world: World, key: str, some: tuple[str, ...]) -> None:
    complains(world.sesh("ls", "--filter", f"{key}=bogus"), 2, f"{key}=bogus", *some)
    for value in some:
        world.ok("ls", "--filter", f"{key}={value}")


@pytest.mark.parametrize(
    ("word", "key"),
    [("running", "state"), ("lost", "state"), ("waiting", "activity"), ("hung", "health")],
)
def test_a_word_alone_is_a_filter(several: World, word: str, key: str) -> None:
    assert names(several, "-f", word) == names(several, "-f", f"{key}={word}")
    assert filters.parse([word]) == {key: [word]}


def test_words_alone_are_alternatives_like_others_of_their_key(several: World) -> None:
    both = names(several, "-f", "running", "-f", "failed")
    assert both == names(several, "-f", "state=running", "-f", "state=failed")
    assert {*names(several, "-f", "failed")} < {*both}


def test_a_word_that_is_none_is_refused_with_all_that_are(world: World) -> None:
    words = (*State, *ACTIVITIES, *Health)
    complains(world.sesh("ls", "-f", "runing"), 2, "--filter runing", "group", *words)


def test_only_those_that_are_named(several: World) -> None:
    assert names(several, "held", "api", "held") == ["api", "held"]
    assert [one["name"] for one in several.ls("bad")] == ["bad"]
    assert names(several, "api", "bad", "-f", "failed") == ["bad"]
    assert several.ok("ls", "bad", "--wide").out.splitlines()[1].startswith("bad ")


def test_a_named_one_is_listed_however_long_ago_it_ended(world: World) -> None:
    world.start("old", "true")
    assert eventually(lambda: world.state_of("old") == "completed")
    record = read_record(world, "old")
    assert record.status.ended is not None
    ended = record.status.ended - timedelta(hours=2)
    write_record(
        world, replace(record, status=replace(record.status, ended=ended)), State.COMPLETED
    )
    assert (names(world), names(world, "old")) == ([], ["old"])


def test_an_unknown_name_is_an_error_and_the_others_are_listed(several: World) -> None:
    complains(several.sesh("ls", "nonsense"), 4, "no session named nonsense")
    done = several.sesh("ls", "-q", "nonsense", "api")
    assert (done.code, done.out) == (9, "api\n")


def test_a_group_and_tags_are_options(several: World) -> None:
    assert names(several, "-g", "web") == ["api", "bad"]
    assert names(several, "--group", "nonsense") == []
    assert names(several, "-g", "web", "-f", "failed") == ["bad"]
    assert names(several, "-g", "web", "-f", "group=other") == []
    assert names(several, "--tag", "x", "--tag", "nonsense") == ["api"]
    assert names(several, "--tag", "y", "-f", "tag=x") == ["api"]


def test_the_template_is_a_filter(world: World) -> None:
    world.ok("start", "one", "-t", "shell")
    world.start("two")
    assert [one["name"] for one in world.ls("--filter", "template=shell")] == ["one"]


def test_sort(several: World) -> None:
    assert names(several, "--sort", "name") == ["api", "bad", "done", "held"]
    assert names(several, "--sort=-name") == ["held", "done", "bad", "api"]
    assert names(several, "--sort", "state") == ["done", "bad", "api", "held"]
    # What has no value comes last, either way round.
    assert names(several, "--sort", "ended")[-1] == "api"
    assert names(several, "--sort=-ended")[-1] == "api"
    assert names(several, "--sort", "memory_bytes")[0] == "api"
    complains(several.sesh("ls", "--sort", "beauty"), 2, "--sort beauty", "name")


def test_format(several: World) -> None:
    done = several.ok("ls", "--format", r"{name}\t{state} {{x}} {tags} {exit_code}")
    assert done.out.splitlines()[:2] == ["api\trunning {x} x y ", "bad\tfailed {x} y 3"]
    assert len(done.out.splitlines()) == 4


def test_every_field_can_be_formatted(world: World) -> None:
    world.start("a")
    template = "|".join("{" + field + "}" for field in FIELDS)
    values = world.ok("ls", "--format", template).out.rstrip("\n").split("|")
    shown = dict(zip(FIELDS, values, strict=True))
    assert (shown["name"], shown["state"], shown["command"]) == ("a", "running", "sleep 1000")


def test_a_template_that_means_nothing_is_refused(world: World) -> None:
    for template in ("{nope}", "{name", "}", "{}", "{name!r}", "{name:>9}", "{name.x}", "{0}"):
        complains(world.sesh("ls", "--format", template), 2, "--format")


def test_quiet_is_names_only(several: World) -> None:
    assert several.ok("ls", "-q").out == "api\nbad\ndone\nheld\n"


def test_exit_code_tells_whether_anything_matches(several: World) -> None:
    assert several.sesh("ls", "--exit-code", "--filter", "state=failed").code == 0
    none = several.sesh("ls", "--exit-code", "--filter", "state=lost")
    assert (none.code, none.out) == (1, "")
    assert several.sesh("ls", "--filter", "state=lost").code == 0
    assert several.sesh("ls", "-q", "--exit-code", "--filter", "state=lost").code == 1


def test_nothing_to_list_is_one_line_for_people(world: World) -> None:
    done = world.ok("ls")
    assert done.out == ""
    assert done.err == "sesh: no sessions; next: sesh start NAME COMMAND\n"
    assert not world.state.exists()


def test_what_ended_well_longer_ago_needs_all(world: World) -> None:
    """A failure stays in sight; a success does not, after an hour."""
    populate(world)
    for name, state in (("done", State.COMPLETED), ("held", State.STOPPED), ("bad", State.FAILED)):
        record = read_record(world, name)
        assert record.status.ended is not None
        long_ago = replace(record.status, ended=record.status.ended - timedelta(hours=2))
        write_record(world, replace(record, status=long_ago), state)
    assert names(world) == ["api", "bad"]
    assert [one["name"] for one in world.ls()] == ["api", "bad"]  # the fast lane
    assert names(world, "--all") == ["api", "bad", "done", "held"]


def test_all_shows_the_history_too(world: World) -> None:
    old = world.start("a", "true")
    eventually(lambda: world.state_of("a") == "completed")
    new = world.start("a")
    assert [one["id"] for one in world.ls()] == [new["id"]]
    assert {one["id"] for one in world.ls("--all")} == {old["id"], new["id"]}


# --- the table ---------------------------------------------------------------------------------


def test_the_table_tells_state_and_reason(several: World) -> None:
    header, *rows = several.ok("ls").out.splitlines()
    assert header.split() == ["NAME", "STATE", "UP", "LAST", "OUTPUT", "TAGS", "COMMAND"]
    assert [row.split()[:2] for row in rows] == [
        ["api", "running"],
        ["bad", "failed"],
        ["done", "completed"],
        ["held", "stopped"],
    ]
    assert re.search(r"   exit 3, (just now|\d+[sm] ago)$", rows[1])
    assert "sleep 1000" in rows[0]


def test_the_table_is_the_same_from_the_fast_lane_and_from_the_full_path(several: World) -> None:
    several.ok("ls", "-q")

    def without_times(text: str) -> str:
        return re.sub(r"\b(\d+[smhd]( ago)?|(just )?now)\b", "T", re.sub(" +", " ", text))

    fast, full = several.ok("ls").out, several.ok("ls", "--sort", "name").out
    assert without_times(fast) == without_times(full)


def test_wide_adds_columns(several: World) -> None:
    header, first, *_ = several.ok("ls", "--wide").out.splitlines()
    for title in ("PID", "MEMORY", "CPU", "GEN", "GROUP", "BRANCH", "DIRECTORY"):
        assert title in header
    assert str(several.session("api")["pid"]) in first
    assert "web" in first
    assert str(several.cwd) in first


def test_the_table_fits_the_terminal(world: World) -> None:
    """Never wrapped: each session is one row of the screen. Without colour nothing is lost."""
    (world.root / "日本語のとても長い名前のディレクトリ").mkdir()
    long = "sleep 1000 # " + "a very long command line " * 9
    world.start("a", "sh", "-c", long)
    world.start("b" * 30)
    world.start("wide", "sh", "-c", "sleep 1000 # 日本語" + "日本語" * 30)
    world.start("x", "sh", "-c", "exit 3")
    eventually(lambda: world.state_of("x") == "failed")
    for columns in (20, 50, 80, 200):
        for option in ("--color=auto", "--wide"):
            code, screen = Terminal(world, SESH, "ls", option, columns=columns).finish()
            assert code == 0
            table = screen.split("\n\n")[0].splitlines()
            assert [line[0] for line in table] == ["N", "a", "b", "w", "x"], screen
            assert all(display_width(line) <= columns for line in table), screen


def test_without_a_terminal_nothing_is_cut(world: World) -> None:
    long = "x" * 300
    world.start("a", "sh", "-c", "sleep 1000", long)
    assert long in world.ok("ls").out
    assert long in world.ok("ls", env={**world.env, "COLUMNS": "40"}).out


def test_a_terminal_gets_colours_and_a_closing_line(world: World) -> None:
    populate(world)
    world.start("lost")
    world.tmux("kill-session", "-t", "=lost")
    assert eventually(lambda: world.state_of("lost") == "lost")
    code, screen = Terminal(world, SESH, "ls").finish("-e")
    assert code == 0
    painted = dict(re.findall(r"\x1b\[(\d+)m(running|failed|completed|stopped|lost)\b", screen))
    assert painted["32"] == "running"
    assert "\x1b[31mfailed" in screen
    assert "\x1b[31mlost" in screen
    assert "2 need attention: " in screen
    closing = screen[screen.index("2 need attention: ") :]
    assert "bad, lost (sesh restart NAME, or sesh stop NAME to dismiss)" in closing
    assert "lost" in closing


def test_stale_is_yellow_and_unknown_dim(world: World) -> None:
    from sesh.terminal.output import paint

    assert paint("stale", "stale", colour=True) == "\x1b[33mstale\x1b[0m"
    assert paint("unknown", "unknown", colour=True) == "\x1b[2munknown\x1b[0m"


def test_the_closing_line_is_for_people_only(several: World) -> None:
    assert several.ok("ls").err == ""
    assert several.ok("ls", "--json").err == ""


_COLOURING: list[tuple[dict[str, str], list[str], bool]] = [
    ({}, [], False),
    ({"FORCE_COLOR": "1"}, [], True),
    ({"FORCE_COLOR": "1", "TERM": "dumb"}, [], True),
    ({"FORCE_COLOR": "1", "NO_COLOR": "1"}, [], False),
    ({"NO_COLOR": "1"}, ["--color", "always"], True),
    ({"FORCE_COLOR": "1"}, ["--color", "never"], False),
    ({"NO_COLOR": "", "FORCE_COLOR": "1"}, [], True),
]


def test_colour_without_a_terminal(world: World) -> None:
    """flag > NO_COLOR > FORCE_COLOR > TERM=dumb > isatty, in the fast lane and on the full path."""
    world.start("a")
    for env, options, coloured in _COLOURING:
        for more in ([], ["--sort", "name"]):
            out = world.ok("ls", *options, *more, env={**world.env, **env}).out
            assert bool(_COLOUR.search(out)) == coloured, (env, options, out)


def test_a_terminal_without_colour(world: World) -> None:
    world.start("a")
    for extra in ("NO_COLOR=1", "TERM=dumb"):
        code, screen = Terminal(world, "env", extra, SESH, "ls").finish("-e")
        assert code == 0
        assert not _COLOUR.search(screen)
        assert "running" in screen


def test_json_is_never_coloured(world: World) -> None:
    world.start("a")
    out = world.ok("ls", "--json", env={**world.env, "FORCE_COLOR": "1"}).out
    assert json.loads(out)[0]["name"] == "a"


def test_listing_changes_nothing(several: World) -> None:
    """Once all is known, looking writes no file."""
    several.ok("ls", "-q")
    before = {p: os.stat(p).st_mtime_ns for p in (several.state / "sessions").iterdir()}
    for options in ([], ["--json"], ["--wide"], ["--all"]):
        several.ok("ls", *options)
    assert {p: os.stat(p).st_mtime_ns for p in (several.state / "sessions").iterdir()} == before


def test_up_and_last_output_are_times(world: World) -> None:
    world.start("a", "sh", "-c", "echo hello; sleep 1000")
    record = read_record(world, "a")
    assert record.status.started is not None
    begun = replace(record.status, started=record.status.started - timedelta(hours=5))
    write_record(world, replace(record, status=begun))
    log = world.state / "transcripts" / f"{record.id}.log"
    assert eventually(lambda: log.stat().st_size)
    os.utime(log, (time.time(), time.time() - 130))
    row = world.ok("ls").out.splitlines()[1]
    assert row.split()[:5] == ["a", "running", "5h", "2m", "ago"]


def test_what_has_printed_nothing_has_no_last_output(world: World) -> None:
    """The time of its empty transcript is that of its start."""
    assert world.start("a", "cat")["last_output"] is None
    assert world.session("a")["last_output"] is None  # by a fast lane
    assert world.ls("--wide")[0]["last_output"] is None
    assert world.ok("show", "--json", "a").json["last_output"] is None
    assert world.ok("ls").out.splitlines()[1].split()[3] == "–"
    assert "nothing printed" in world.ok("show", "a").out
    world.tmux("send-keys", "-t", "=a:", "x", "Enter")
    assert eventually(lambda: world.session("a")["last_output"])


def test_an_agent_that_was_stopped_and_goes_on_needs_nobody_any_more(world: World) -> None:
    pid = world.start("a")["pid"]
    os.kill(pid, signal.SIGSTOP)
    assert eventually(lambda: "stopped by a signal" in str(world.session("a")["attention"]))
    os.kill(pid, signal.SIGCONT)
    assert eventually(lambda: world.session("a")["attention"] is None)
