"""Timers: the texts for cron and systemd, each read back by whom it is written for."""

from __future__ import annotations

import os
import re
import subprocess
from datetime import datetime
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from sesh.model.errors import SeshError, StateError, UsageError
from sesh.supervision.timer import schedules, timers
from sesh.supervision.timer.schedules import BEGIN, END, Job
from sesh.system import paths
from tests.conftest import need
from tests.surroundings import run
from tests.world import Done, World

EXACT = sorted(schedules._CRON)
ODD = "a b%c$d"  # may be in any path
WORDS = st.text(
    st.characters(exclude_categories=["Cc", "Cs"]) | st.sampled_from("%\\'\"$ `;"), min_size=1
)
KEY = "0123abcd"
MARKS = schedules.marks(KEY)
JOB = Job(("/opt/sesh", "gc", "--auto"), {"PATH": "/usr/bin:/bin"})


# --- how often ---------------------------------------------------------------------------------


def field(text: str, values: range) -> list[int]:
    """The values that a field of a crontab means: *, 5, or */5."""
    if text.startswith("*"):
        return list(values)[:: int(text.partition("/")[2] or 1)]
    return [int(text)]


@pytest.mark.parametrize("every", EXACT)
def test_cron_runs_gc_at_the_given_interval(every: int) -> None:
    minutes, hours, *days = schedules.cron_fields(every).split()
    assert days == ["*"] * 3
    runs = [h * 60 + m for h in field(hours, range(24)) for m in field(minutes, range(60))]
    gaps = {b - a for a, b in zip(runs, [*runs[1:], runs[0] + 24 * 60], strict=True)}
    assert gaps == {every // 60}


@pytest.mark.parametrize("every", EXACT)
def test_systemd_runs_gc_at_the_given_interval(every: int) -> None:
    need("systemd-analyze")
    (calendar, persistent) = schedules.timer_lines(every)
    assert persistent == "Persistent=true"
    argv = ["systemd-analyze", "calendar", "--iterations=3", calendar.removeprefix("OnCalendar=")]
    env = {**os.environ, "TZ": "UTC", "LC_ALL": "C"}
    out = subprocess.run(argv, env=env, capture_output=True, text=True, check=True).stdout
    found = re.findall(r"(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d) UTC", out)
    moments = [datetime.fromisoformat(f"{one}+00:00") for one in dict.fromkeys(found)]
    gaps = {(b - a).total_seconds() for a, b in pairwise(moments)}
    assert (len(moments), gaps) == (3, {every})


@pytest.mark.parametrize(
    ("every", "near"),
    [(420, "6m or 10m"), (90, "1m or 2m"), (5400, "1h or 2h"), (86400 * 3, "1d")],
)
def test_an_interval_that_cron_does_not_support_is_refused_with_the_nearest(
    every: float, near: str
) -> None:
    with pytest.raises(UsageError, match=rf"the nearest is {near}$"):
        schedules.cron_fields(every)


@given(st.floats(60, 366 * 86400) | st.sampled_from(EXACT))
def test_how_often_is_read_back_from_what_was_written(every: float) -> None:
    every = round(every, 3)
    line = next(line for line in schedules.timer_lines(every) if "Startup" not in line)
    assert schedules.every_of(line.partition("=")[2]) == every
    if every in EXACT:
        assert schedules.every_of(schedules.cron_fields(every)) == every


# --- systemd -----------------------------------------------------------------------------------


def write_units(world: World, job: Job, every: float = 300) -> Path:
    """The service; its timer is beside it."""
    service, timer = (world.root / "units" / f"sesh-gc.{kind}" for kind in ("service", "timer"))
    service.parent.mkdir(exist_ok=True)
    service.write_bytes(os.fsencode(schedules.service_text(job)))
    timer.write_text(schedules.timer_text(every))
    return service


def verify(service: Path, world: World) -> Done:
    """What systemd itself says of a service and its timer."""
    need("systemd-analyze")
    both = (str(service), str(service.with_suffix(".timer")))
    return run(world, "systemd-analyze", "verify", "--user", "--man=no", *both)


def odd_job(world: World) -> Job:
    """A program in an odd place, with odd arguments and variables."""
    program = world.root / ODD / "sesh"
    program.parent.mkdir()
    program.write_text("#!/bin/sh\n")
    program.chmod(0o755)
    odd = f"{ODD} ünï \" ' \\ \\\\ \\n ${{HOME}} $HOME %h ; #"
    return Job((str(program), odd, "gc"), {"PATH": "/usr/bin:/bin", "XDG_STATE_HOME": f"/{odd}"})


@pytest.mark.parametrize("every", [60, 90, 300, 420, 3600, 5400, 86400, 86400 * 30])
def test_systemd_finds_nothing_wrong_with_the_units(world: World, every: float) -> None:
    done = verify(write_units(world, odd_job(world), every), world)
    assert (done.code, done.out, done.err) == (0, "", "")


def test_systemd_would_find_a_path_that_is_written_wrongly(world: World) -> None:
    """The test above can fail: systemd looks for the program."""
    service = write_units(world, odd_job(world))
    service.write_text(service.read_text().replace("%%", "%", 1))
    assert verify(service, world).code != 0


@pytest.mark.parametrize("program", ["/a'b/sesh", '/a"b/sesh', "/a\\b/sesh"])
def test_a_program_that_systemd_cannot_run(program: str) -> None:
    with pytest.raises(SeshError, match="--scheduler cron"):
        schedules.service_text(Job((program,), {}))


def test_texts_that_a_unit_cannot_hold() -> None:
    with pytest.raises(SeshError, match="control characters"):
        schedules.service_text(Job(("/a\nb",), {}))
    with pytest.raises(SeshError, match="UTF-8"):
        schedules.service_text(Job(("/a", "\udcff"), {}))


# --- the job -----------------------------------------------------------------------------------


def test_a_job_finds_the_programs_that_its_installer_finds(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for place in ("first/docker", "second/tmux", "second/docker", "third/tmux", "other/thing"):
        program = tmp_path / place
        program.parent.mkdir(exist_ok=True)
        program.touch(mode=0o755)
    names = ("other", "first", "second", "third")
    own = [str(tmp_path / name) for name in names]
    monkeypatch.setenv("PATH", ":".join(("", "relative", *own, "/usr/bin/", "/sbin")))
    path = timers.job().env["PATH"]
    assert path == f"{tmp_path}/first:{tmp_path}/second:/usr/bin:/usr/local/bin:/bin"
    for name in ("tmux", "docker"):
        assert paths.which(name, path) == paths.which(name)


def test_a_job_knows_where_its_files_are(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("XDG_CONFIG_HOME", "XDG_STATE_HOME", "XDG_DATA_HOME", "HOME"):
        monkeypatch.delenv(name, raising=False)
    assert set(timers.job().env) == {"PATH"}
    monkeypatch.setenv("HOME", paths.home())
    monkeypatch.setenv("XDG_CONFIG_HOME", "relative, so it does not count")
    monkeypatch.setenv("TOKEN", "secret")
    assert set(timers.job().env) == {"PATH"}
    monkeypatch.setenv("HOME", "/elsewhere")
    monkeypatch.setenv("XDG_STATE_HOME", "/state")
    env = timers.job().env
    assert env == {"PATH": env["PATH"], "HOME": "/elsewhere", "XDG_STATE_HOME": "/state"}


# --- cron --------------------------------------------------------------------------------------


def as_cron_reads_it(command: str, *, pairs: bool) -> str:
    r"""What cron gives to the shell: \% is %, and a bare % ends the command. `pairs`: of those
    that take \\ for one backslash."""
    command = re.split(r"(?<!\\)%", command)[0]
    taken = re.sub(r"\\([%\\])", r"\1", command) if pairs else command.replace(r"\%", "%")
    assert not (pairs and "\\\\" in command)
    return taken


@settings(max_examples=20)
@given(st.lists(WORDS, min_size=1, max_size=30))
def test_arguments_reach_the_program_through_cron_and_shell(words: list[str]) -> None:
    line = " ".join(schedules.cron_word(word) for word in words)
    assert "\n" not in line
    readings = {as_cron_reads_it(line, pairs=True), as_cron_reads_it(line, pairs=False), line}
    for reading in readings:  # the last is a cron to which % is nothing special
        argv = ["sh", "-c", f"for word in {reading}; do printf '%s\\0' \"$word\"; done"]
        out = subprocess.run(argv, capture_output=True, check=True, timeout=20).stdout
        assert out.decode().split("\0")[:-1] == words


def test_texts_that_a_crontab_cannot_hold() -> None:
    for word in ("a\nb", "", "a\rb"):
        with pytest.raises(SeshError):
            schedules.cron_word(word)


def test_a_path_that_is_not_utf8_stays_as_it_is() -> None:
    assert b"'/\xff/sesh'" in schedules.cron_block(Job(("/\udcff/sesh",), {}), 300, KEY)


@given(st.lists(st.binary().filter(lambda line: b"sesh" not in line)), st.booleans())
def test_lines_of_others_stay_byte_for_byte(lines: list[bytes], behind: bool) -> None:
    others = b"".join(line + b"\n" for line in lines)
    block = schedules.cron_block(JOB, 300, KEY)
    new = schedules.parse(others, *MARKS).with_block(block)
    if behind:
        new = block + others  # somebody moved it
    assert schedules.parse(new, *MARKS).others == others
    assert schedules.parse(new, *MARKS).with_block(block) == new
    other = schedules.cron_block(JOB, 60, KEY)
    assert schedules.parse(schedules.parse(new, *MARKS).with_block(other), *MARKS).others == others


def test_several_blocks_become_one() -> None:
    block = schedules.cron_block(JOB, 300, KEY)
    new = schedules.parse(b"a\n" + block + b"b\n" + block + b"c\n", *MARKS).with_block(block)
    assert new == b"a\n" + block + b"b\nc\n"


def test_a_crontab_without_an_end_of_line() -> None:
    block = schedules.cron_block(JOB, 300, KEY)
    assert schedules.parse(b"# mine", *MARKS).with_block(block) == b"# mine\n" + block


@pytest.mark.parametrize(
    "crontab",
    [BEGIN, END, BEGIN + b"\n" + BEGIN + b"\n" + END, BEGIN + b"\n" + END + b"\n" + END],
)
def test_marks_that_do_not_match_are_no_block(crontab: bytes) -> None:
    with pytest.raises(StateError, match="crontab -e"):
        schedules.parse(b"a\n" + crontab + b"\nb\n")


def test_text_like_the_marks_is_not_a_mark() -> None:
    crontab = b"# sesh beginning\n## sesh begin\n# sesh end of all\necho # sesh end\n"
    assert schedules.parse(crontab) == schedules.Crontab(crontab, None, b"")


@pytest.mark.parametrize(
    ("block", "schedule"),
    [
        (b"# x\n\nA = b\n  */5 *  * * * a b c\n", "*/5 * * * *"),
        (b"@daily a b c d e\n", "@daily"),
        (b"3 4 * * 1-5 \xff", "3 4 * * 1-5"),
        (b"#\n", None),
    ],
)
def test_when_a_block_runs(block: bytes, schedule: str | None) -> None:
    assert schedules.block_schedule(block) == schedule


@pytest.mark.parametrize("state", ["/s", "/a b%c$d 'e' \"f\" \\g", "", "/ünï"])
def test_the_state_directory_of_a_block_or_service_without_a_key(state: str) -> None:
    env = {"PATH": "/bin", **({"XDG_STATE_HOME": state} if state else {})}
    job = Job(("/opt/sesh", "gc", "--auto"), env)
    expected = f"{state or '/home/me/.local/state'}/sesh"
    assert schedules.block_state(schedules.cron_block(job, 300, KEY), "/home/me") == expected
    assert schedules.unit_state(schedules.service_text(job), "/home/me") == expected
    elsewhere = Job(job.argv, {**env, "HOME": "/elsewhere"})
    expected = expected.replace("/home/me", "/elsewhere")
    assert schedules.unit_state(schedules.service_text(elsewhere), "/home/me") == expected


@pytest.mark.parametrize("block", [b"", b"# only\n", b"* * * * * 'half\n"])
def test_a_block_without_variables_is_of_the_default_state_directory(block: bytes) -> None:
    assert schedules.block_state(block, "/home/me") == "/home/me/.local/state/sesh"
