"""sesh pass: run one supervision pass, for the keepers and the timers."""

from __future__ import annotations

from sesh.commands._declare import declare, flag
from sesh.model import errors
from sesh.state import settings
from sesh.supervision import run_pass
from sesh.supervision.notify import notices


@declare("pass")
def command(deliver: bool = flag("--deliver", hidden=True)) -> int:
    """Run one supervision pass: record ends, finish interrupted stops, enforce limits.

    Prints nothing. Concurrent passes are safe.
    """
    if not deliver or notices.deliver(settings.load()):  # a pass sets the wake-up for the next try
        return run_pass.run_anyway()
    return errors.OK
