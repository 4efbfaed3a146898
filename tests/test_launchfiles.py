"""The files of a launch: the kernel's limits in its script; and the call back: however many agents
end at one moment, few passes are started."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from sesh import launchfiles
from sesh.model import Care
from sesh.values import replace
from tests.samples import record


@pytest.mark.parametrize(
    ("limit", "interval", "kernel"),
    [(1.0, 0.5, 3), (0.5, 0.1, 1), (100.0, 10.0, 121), (1.0, 30.0, 61), (3600.0, 86400.0, 3660)],
)
def test_the_kernels_limit_lies_beyond_ours_by_a_minute_at_most(
    limit: float, interval: float, kernel: int
) -> None:
    care = Care(max_cpu_time=limit, check_interval=interval)
    limited = replace(record(), spec=replace(record().spec, care=care))
    script = launchfiles.boxed_script(limited, ("true",), "/run/sesh/x")
    assert re.findall(r"ulimit -S -t (\d+)", script) == [str(kernel)]


@pytest.fixture
def passes(tmp_path: Path) -> Path:
    """Where a stand-in for sesh notes each pass; like the real one it takes the word away once it
    begins to look, after a while."""
    script = tmp_path / "stand-in"
    again = launchfiles.pass_announced(str(tmp_path))
    script.write_text(f"#!/bin/sh\nsleep 0.3\nrm -f {again}\necho $1 >>{tmp_path}/passes\n")
    script.chmod(0o700)
    return tmp_path / "passes"


def test_many_call_backs_at_once_are_few_passes(passes: Path) -> None:
    run = passes.parent
    callback = launchfiles.write_callback(str(run), [str(run / "stand-in")])
    first = subprocess.Popen(["/bin/sh", callback])
    again = Path(launchfiles.pass_announced(str(run)))
    while not again.exists():
        assert first.poll() is None
    rest = [subprocess.Popen(["/bin/sh", callback]) for _ in range(20)]
    assert [one.wait(20) for one in (first, *rest)] == [0] * 21
    # On a busy machine some may come so late that the first pass is over.
    assert passes.read_text() in ["pass\n" * number for number in range(1, 5)]


def test_a_pass_that_was_announced_and_never_came_is_made_up_for(passes: Path) -> None:
    run = passes.parent
    callback = launchfiles.write_callback(str(run), [str(run / "stand-in")])
    Path(launchfiles.pass_announced(str(run))).touch()
    assert subprocess.run(["/bin/sh", callback], check=False).returncode == 0
    assert passes.read_text() == "pass\n"


def test_a_call_back_after_the_look_has_begun_makes_another(passes: Path) -> None:
    run = passes.parent
    callback = launchfiles.write_callback(str(run), [str(run / "stand-in")])
    for _ in range(2):
        subprocess.run(["/bin/sh", callback], check=True)
    assert passes.read_text() == "pass\npass\n"
