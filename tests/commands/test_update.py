"""sesh update: a word of the agent itself."""

from __future__ import annotations

import os

import pytest

from sesh.model.session_json import FIELDS
from tests import pace
from tests.world import SESH, World, eventually


def beat(world: World) -> float:
    found = list(world.state.glob("run/*/one-*.beat"))
    return os.stat(found[0]).st_mtime if found else 0.0


def test_by_name(world: World) -> None:
    world.start("one")
    assert world.ok("update", "one").out == ""
    first = beat(world)
    assert first
    (file,) = world.state.glob("run/*/one-*.beat")
    assert file.stat().st_mode & 0o777 == 0o600
    os.utime(file, (1.0, 1.0))
    world.ok("update", "one")
    assert beat(world) >= first


def test_inside_a_session_the_name_is_known(world: World) -> None:
    world.start("one", "sh", "-c", f"{SESH} update; sleep 99")
    assert eventually(lambda: beat(world), within=10)


def test_outside_and_without_a_name(world: World) -> None:
    done = world.sesh("update")
    assert (done.code, "missing session name" in done.err) == (2, True)


def test_one_that_has_ended_or_does_not_exist(world: World) -> None:
    world.start("one", "true")
    assert eventually(lambda: world.state_of("one") == "completed")
    assert world.sesh("update", "one").code == 3
    assert world.sesh("update", "none").code == 4


def test_a_disk_that_takes_nothing_is_told(world: World) -> None:
    world.start("one")
    (file,) = world.state.glob("run/*/one-*.pid")
    file.with_suffix(".beat").mkdir()
    done = world.sesh("update", "one")
    assert done.code == 6
    assert len(done.err.splitlines()) == 1


# --- phases, metadata, errors --------------------------------------------------------------------


def bare(world: World, name: str = "one", *said: str) -> None:
    """A session without a process."""
    world.ok("start", name, "--record-only")
    if said:
        world.ok("update", name, *said)


def test_what_is_said_is_shown(world: World) -> None:
    world.start("one")
    options = ("--phase", "planning", "--meta", "plan=a.md", "--meta", "n:=[1, {}]", "--error", "x")
    assert world.ok("update", "one", *options, "--summary", "mend it").out == ""
    shown = world.session("one")
    assert (shown["state"], shown["phase"], shown["errors"]) == ("running", "planning", 1)
    assert (shown["last_error"], shown["summary"]) == ("x", "mend it")
    assert shown["metadata"] == {"plan": "a.md", "n": [1, {}]}
    assert [one["phase"] for one in shown["history"]] == ["planning"]
    text = world.ok("show", "one").out
    assert "planning" in text
    assert "mend it" in text
    assert beat(world)  # a word is a sign of life, too


def test_the_changed_session_as_json(world: World) -> None:
    bare(world)
    shown = world.ok("update", "one", "--phase", "approval", "--json").json
    assert tuple(shown) == FIELDS
    assert shown["phase"] == "approval"


def test_inside_a_session(world: World) -> None:
    world.start("one", "sh", "-c", f"{SESH} update --phase executing; sleep 99")
    assert eventually(lambda: world.session("one")["phase"] == "executing", within=10)


def test_what_has_ended_can_still_be_spoken_of(world: World) -> None:
    world.start("one", "true")
    assert eventually(lambda: world.state_of("one") == "completed")
    world.ok("update", "one", "--phase", "validating", "--error", "late")
    assert (world.state_of("one"), world.session("one")["phase"]) == ("completed", "validating")


@pytest.mark.parametrize(
    ("options", "code", "text"),
    [
        (("--phase", "thinking"), 2, "initializing, investigating"),
        (("--meta", "a"), 2, "KEY=TEXT"),
        (("--meta", "a:={"), 2, "valid JSON"),
        (("--meta", "a b=1"), 2, "invalid key"),
        (("--meta", "a:=[null]"), 2, "null inside"),
        (("--meta", "db_password=hunter"), 2, "--force"),
        (("--meta", "note=" + "ghp_" + "x1" * 18), 2, "--force"),
        (("--meta", "big=" + "x" * 40000), 2, "at most 32768"),
        (("--conversation", ""), 2, "conversation"),
        (("--resume-ready", "perhaps"), 2, "resume-ready"),
    ],
)
def test_refused_and_nothing_is_changed(
    world: World, options: tuple[str, ...], code: int, text: str
) -> None:
    bare(world)
    before = world.record("one").read_bytes()
    done = world.sesh("update", "one", "--error", "e", *options)
    assert (done.code, done.out) == (code, "")
    assert text in done.err
    assert len(done.err.splitlines()) == 1
    assert "hunter" not in done.err
    assert world.record("one").read_bytes() == before


def test_force_keeps_what_looks_like_a_secret(world: World) -> None:
    bare(world)
    world.ok("update", "one", "--force", "--meta", "token=abc")
    assert world.session("one")["metadata"] == {"token": "abc"}


def test_metadata_is_merged_and_taken_away(world: World) -> None:
    bare(world, "one", "--meta", "a=1", "--meta", "b:={}")
    world.ok("update", "one", "--meta", "a:=2", "--meta", "c=x y")
    assert world.session("one")["metadata"] == {"a": 2, "b": {}, "c": "x y"}
    world.ok("update", "one", "--meta", "a:=null")
    assert world.session("one")["metadata"] == {"b": {}, "c": "x y"}


def test_phases_are_events(world: World) -> None:
    bare(world, "one", "--phase", "planning")
    world.ok("update", "one", "--phase", "planning", "--meta", "a=1")
    told = [one for one in world.events() if one["kind"] == "phase"]
    assert [(one["phase"], one["previous"]) for one in told] == [("planning", "initializing")]
    assert "planning, was initializing" in world.ok("events").out


def test_a_final_phase_is_the_last_word(world: World) -> None:
    bare(world, "one", "--phase", "completed")
    for options in (("--phase", "planning"), ("--meta", "a=1"), ()):
        done = world.sesh("update", "one", *options)
        assert (done.code, "has already finished (completed" in done.err) == (8, True)
    assert world.state_of("one") == "completed"


def test_a_word_without_words_is_a_sign_of_life(world: World) -> None:
    bare(world)
    before = world.record("one").read_bytes()
    world.ok("update", "one")
    assert world.record("one").read_bytes() != before
    assert not list(world.state.glob("run/*/one-*.beat"))


def test_twenty_at_once_lose_nothing(world: World) -> None:
    bare(world)
    many = [
        world.popen("update", "one", "--meta", f"k{number}:={number}", "--error", f"e{number}")
        for number in range(20)
    ]
    assert [one.wait(pace.seconds(60)) for one in many] == [0] * 20
    shown = world.session("one")
    assert shown["metadata"] == {f"k{number}": number for number in range(20)}
    assert shown["errors"] == 20


def test_twenty_at_once_on_one_that_runs(world: World) -> None:
    world.start("one")
    many = [world.popen("update", "one", "--meta", f"k{number}=x") for number in range(20)]
    assert [one.wait(pace.seconds(60)) for one in many] == [0] * 20
    assert len(world.session("one")["metadata"]) == 20
    assert world.state_of("one") == "running"


def test_a_damaged_record_is_left_alone(world: World) -> None:
    bare(world)
    world.record("one").write_text("what?")
    assert world.sesh("update", "one", "--phase", "planning").code == 6
    assert world.record("one").read_text() == "what?"


def test_a_restart_after_the_last_word_begins_anew(world: World) -> None:
    world.start("one")
    world.ok("update", "one", "--phase", "failed", "--error", "x")
    world.ok("restart", "one")
    shown = world.session("one")
    assert (shown["phase"], shown["finished"], shown["errors"]) == ("initializing", None, 0)
    assert [one["phase"] for one in shown["history"]] == ["failed", "initializing"]
    world.ok("update", "one", "--phase", "planning")
