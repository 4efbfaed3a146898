"""What the clocks prove: standing still is no silence, and a jump is no age."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from sesh.model import due
from sesh.state import clocks
from sesh.state.clocks import DAY, HOUR, Boot, Reading
from sesh.system import processes

T = 1_790_000_000.0  # a time of day


def at(seconds: float, *, asleep: float = 0.0, jump: float = 0.0) -> Reading:
    """So long after a boot at T."""
    return Reading(T + seconds + jump, seconds, asleep)


def looks(*readings: Reading, wrote: float | None = T, promise: float | None = None) -> Boot:
    boot: Boot | None = None
    for one in readings:
        boot = clocks.looked(boot, [], one, wrote)
    assert boot is not None
    return Boot(boot.host, boot.last, promise, boot.naps, boot.stretches)


# --- standing still ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("silent", "naps", "awake"),
    [
        (100.0, [], 100.0),
        (5000.0, [(10.0, 4800.0)], 200.0),  # it spoke, the machine slept, a pass noticed
        (5.0, [(10.0, 4800.0)], 5.0),  # it has spoken since
        (40.0, [(10.0, 4800.0)], 10.0),  # it spoke after waking, before the pass: from then on
        (9000.0, [(10.0, 3000.0), (5000.0, 1000.0)], 5000.0),
        (3.0, [(0.0, 9999.0)], 0.0),
    ],
)
def test_time_asleep_is_no_silence(
    silent: float, naps: list[tuple[float, float]], awake: float
) -> None:
    assert due.awake(silent, naps) == awake
    now, age = T + 20_000, 20_000.0
    assert due.silence(now, age, T, now - silent, naps) == awake


def test_a_sleep_is_seen_before_and_after_a_pass_has_noted_it() -> None:
    before = looks(at(0), at(100))
    woken = at(8000, asleep=7000)
    assert clocks.naps_of(before, woken) == ((0.0, 7000.0),)
    noted = clocks.looked(before, [], woken, None)
    assert clocks.naps_of(noted, at(8050, asleep=7000)) == ((50.0, 7000.0),)


def test_a_look_that_comes_far_too_late_shows_that_nothing_ran() -> None:
    waits = looks(at(0), at(100), promise=700.0)
    assert clocks.stood_still(waits, at(730)) == 0.0  # a busy machine
    assert clocks.stood_still(waits, at(5000)) == 4900.0
    assert clocks.stood_still(looks(at(0), at(100)), at(5000)) == 0.0  # nothing was promised
    assert clocks.stood_still(waits, at(5000, asleep=4300)) == 4300.0  # it came in time


def test_many_sleeps_are_kept_in_bounds_and_none_is_forgotten() -> None:
    readings = [at(100.0 * n, asleep=50.0 * n) for n in range(1000)]
    boot = looks(*readings)
    assert len(boot.naps) <= 200
    assert sum(still for _, still in boot.naps) == 50.0 * 999


# --- jumps ---------------------------------------------------------------------------------------


def believed(boot: Boot, now: Reading, settle: float, *others: Boot) -> float:
    return upto(now, clocks.believed(others, clocks.looked(boot, others, now, None), now, settle))


def upto(now: Reading, believed: float) -> float:
    return min(now.wall, believed)


def test_a_steady_clock_is_trusted() -> None:
    assert believed(looks(at(0)), at(60), DAY) == T + 60
    assert believed(looks(at(0)), at(90 * DAY), DAY) == T + 90 * DAY


@pytest.mark.parametrize("later", [0.0, 60.0, HOUR, DAY - 1])
def test_a_jump_is_not_believed_at_once_nor_by_many_looks(later: float) -> None:
    jumped = [at(1000 + later * n / 5, jump=40 * DAY) for n in range(5)]
    boot = looks(at(0), at(1000), *jumped)
    now = at(1000 + later, jump=40 * DAY)
    assert believed(boot, now, DAY) <= T + 1000


def test_a_jump_is_trusted_after_a_steady_day() -> None:
    boot = looks(at(0), at(1000, jump=40 * DAY))
    now = at(1000 + DAY, jump=40 * DAY)
    assert believed(boot, now, DAY) == now.wall


def test_a_jump_that_was_reverted_has_no_effect() -> None:
    boot = looks(at(0), at(1000, jump=40 * DAY), at(2000))
    assert believed(boot, at(3 * DAY), DAY) == T + 3 * DAY
    assert believed(boot, at(2100), DAY) <= T + 2100


def test_the_clock_of_a_machine_that_was_off_is_trusted_after_a_day() -> None:
    before = looks(at(0), at(1000))
    now = Reading(T + 40 * DAY, 30.0, 0.0)
    here = clocks.looked(None, [before], now, T + 1000)
    assert upto(now, clocks.believed([before], here, now, DAY)) == T + 1000
    later = Reading(now.wall + DAY, 30.0 + DAY, 0.0)
    assert upto(
        later, clocks.believed([before], clocks.looked(here, [before], later, None), later, DAY)
    ) == (later.wall)


def test_a_machine_that_is_off_every_night_lags_at_most_a_day() -> None:
    boots: list[Boot] = []
    for day in range(5):
        morning = Reading(T + day * DAY, 20.0, 0.0)
        evening = Reading(T + day * DAY + 10 * HOUR, 20.0 + 10 * HOUR, 0.0)
        first = clocks.looked(None, boots, morning, None)
        boots.append(clocks.looked(first, boots, evening, None))
    evening = boots[-1].last
    assert upto(evening, clocks.believed(boots[:-1], boots[-1], evening, DAY)) == evening.wall - DAY
    assert upto(evening, clocks.believed(boots[:-1], boots[-1], evening, HOUR)) == evening.wall


def test_a_quick_reboot_is_no_jump() -> None:
    before = looks(at(0), at(1000))
    now = Reading(T + 1300, 60.0, 0.0)
    here = clocks.looked(None, [before], now, None)
    assert upto(now, clocks.believed([before], here, now, DAY)) == now.wall


def test_the_first_look_is_compared_with_the_last_event() -> None:
    now = at(1000)
    for wrote in (None, now.wall - 60):
        new = clocks.looked(None, [], now, wrote)
        assert upto(now, clocks.believed([], new, now, DAY)) == now.wall
    doubtful = clocks.looked(None, [], now, now.wall - 40 * DAY)
    assert upto(now, clocks.believed([], doubtful, now, DAY)) == 0.0


# --- the file ------------------------------------------------------------------------------------


def test_only_valid_notes_are_read_again(tmp_path: Path) -> None:
    run, boot = str(tmp_path), processes.here().boot
    clocks.note(run)
    clocks.promise(run, 60.0)
    known = clocks.boot_of(run, boot)
    assert known is not None
    assert known.promise == pytest.approx(clocks.read().awake + 60, abs=5)
    file = tmp_path / f"boot.{boot}"
    wrong = json.dumps({**json.loads(file.read_text()), "last": 3})
    for text in ("", "[]", "{}", '{"host": 1}', wrong):
        file.write_text(text)
        assert clocks.boot_of(run, boot) is None
    clocks.note(run)
    assert clocks.boot_of(run, boot)


def test_the_oldest_of_many_boots_are_forgotten(tmp_path: Path) -> None:
    for number in range(40):
        (tmp_path / f"boot.{number}").write_text("{}")
    clocks.note(str(tmp_path))
    assert len([*tmp_path.glob("boot.*")]) == 20
    assert clocks.boot_of(str(tmp_path), processes.here().boot)
