"""The tests find the programs that tests/setup.sh has unpacked, if there are no others. Not cron's:
without its package, crontab(1) works only where it gets a spool (see tests/schedulers.py)."""

import os
from pathlib import Path

TOOLS = Path(__file__).parents[1] / ".venv" / "tools"
for _place in (*TOOLS.glob("*/usr/bin"), *TOOLS.glob("*/bin")):
    if TOOLS / "cron" not in _place.parents:
        os.environ["PATH"] += f":{_place}"
