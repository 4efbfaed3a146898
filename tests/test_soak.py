"""`make soak`, for a few seconds: that it works, and finds nothing."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.timeout(600)
def test_a_short_soak() -> None:
    argv = [sys.executable, "-m", "tests.soak", "--seconds", "6", "--seed", "1"]
    done = subprocess.run(argv, cwd=Path(__file__).parents[1], capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "wrong states: 0" in done.stdout
