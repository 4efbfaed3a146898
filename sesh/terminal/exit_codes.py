"""The one place where an error becomes an exit code. No traceback ever reaches a user."""

from __future__ import annotations

import os
import sys

from sesh.model import errors
from sesh.model.errors import SeshError
from sesh.system import bug_log
from sesh.terminal import output

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable


def guarded(work: Callable[[], int]) -> int:
    """Do the work of one command; returns an exit code for every error."""
    _replace_missing_streams()
    try:
        return flushed(work())
    except SeshError as error:
        output.note(str(error), hint=error.hint)
        return error.exit_code
    except KeyboardInterrupt:
        return interrupted()
    except BrokenPipeError:
        return errors.OK
    except OSError as error:
        if error.filename is None:
            return stdout_failed(error)
        output.note(f"{error.filename}: {error.strerror}")
        return errors.FAILED if error.errno in errors.SCARCE else errors.STATE
    except Exception as error:
        return _bug(error)


def flushed(code: int) -> int:
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        return errors.OK
    except OSError as error:
        return stdout_failed(error)
    return code


def interrupted() -> int:
    output.note("interrupted", after_echo=True)
    return errors.INTERRUPTED


def stdout_failed(error: OSError) -> int:
    os.dup2(
        os.open(os.devnull, os.O_WRONLY), 1
    )  # else Python tries again at its end, and complains
    output.note(f"cannot write to standard output: {error.strerror}")
    return errors.FAILED


def _replace_missing_streams() -> None:
    """Python has no sys.stdout when it was started with a closed one; __main__ has reopened it."""
    if sys.stdout is None:
        sys.stdout = os.fdopen(1, "w", closefd=False)
    if sys.stderr is None:
        sys.stderr = os.fdopen(2, "w", closefd=False)


def _bug(error: Exception) -> int:
    """Write the traceback to a file, and print its path."""
    path = bug_log.write(error)
    where = f"; details in {path}" if path else ""
    output.note(f"a bug in sesh: {type(error).__name__}: {error}{where}")
    return errors.BUG
