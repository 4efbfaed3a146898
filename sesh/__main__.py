"""Where sesh begins: the fast lanes by exact match, before anything heavy is imported; else cli."""

from __future__ import annotations

import gc
import os
import sys


def script() -> None:
    """main() for a process that ends with it: no garbage collection and no teardown of the
    interpreter, which together are a fifth of a `sesh start`."""
    gc.disable()
    code = main()
    os._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        argv = sys.argv[1:]
    _reopen_closed_streams()
    if argv == ["ls", "--json"]:
        from sesh import fast

        answer = fast.ls_json()
        if answer is not None:
            return _answer(answer)
    elif argv == ["ls"]:
        from sesh import fast

        table = fast.ls_table()
        if table is not None:
            return _answer(*table)
    elif argv[:1] == ["start"] and _plain_start(argv):
        from sesh import exits, ordering

        return exits.guarded(lambda: ordering.plain(argv[1], tuple(argv[3:])))
    from sesh.cli import run

    return run(argv)


def _plain_start(argv: list[str]) -> bool:
    """`start NAME -- COMMAND...` without any option: the commonest, and click costs as much as all
    the rest."""
    return len(argv) > 3 and argv[2] == "--" and not argv[1].startswith("-")


def _answer(data: bytes, closing: str | None = None) -> int:
    """Write a fast lane's answer; what stdout can't take is the full path's to explain."""
    try:
        while data:
            data = data[os.write(1, data) :]
    except BrokenPipeError:
        return 0
    except OSError as error:
        from sesh.exits import stdout_failed

        return stdout_failed(error)
    if closing and os.isatty(1):
        from sesh import output

        output.say(f"\n{closing}")
    return 0


def _reopen_closed_streams() -> None:
    """A closed 0, 1 or 2 would be taken by the first file opened: writes would land in a record."""
    for fd in (0, 1, 2):
        try:
            os.fstat(fd)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


if __name__ == "__main__":
    script()
