"""The tests find the programs that tests/setup.sh has unpacked, if there are no others."""

import os
from pathlib import Path

_TOOLS = Path(__file__).parents[1] / ".venv" / "tools"
os.environ["PATH"] += "".join(f":{_TOOLS / part}" for part in ("usr/bin", "usr/sbin", "bin"))
