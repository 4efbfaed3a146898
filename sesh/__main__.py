"""The entry point: the fast lanes by exact match, before anything heavy is imported; else click.

Fast lanes use `posix`: to import `os` takes a sixth of a bare interpreter start.
"""

from __future__ import annotations

import gc
import posix
import sys


def script() -> None:
    """main() for a process that ends with it: no garbage collection and no teardown of the
    interpreter, which together are a fifth of a `sesh start`."""
    gc.disable()
    code = main()
    posix._exit(code)


def main(argv: list[str] | None = None) -> int:
    """Run one command and return its exit code."""
    if argv is None:
        argv = sys.argv[1:]
    _reopen_closed_streams()
    code = _fast(argv)
    if code is None:
        code = _full(argv)
        try:
            _follow_up()
        except (ImportError, OSError):  # for example no open files left: the command is done
            pass
    return code


def _follow_up() -> None:
    """Refresh the line for prompts, and call a pass if notifications are configured and this
    command recorded events: these may have come too late for the pass that was called when they
    happened."""
    from sesh.terminal import prompt

    prompt.refresh()
    events = sys.modules.get("sesh.state.events")
    if events is None or not events.written:
        return
    from sesh.model import errors
    from sesh.state import settings

    try:
        config = settings.load()
        if config.notify.command or config.notify.webhooks:
            from sesh.supervision.notify import notices

            notices.call_pass(config)
    except errors.SeshError:
        return


def _fast(argv: list[str]) -> int | None:
    """Answer by a fast lane, if one can."""
    try:
        return _lane(argv)
    except Exception:
        return None  # a damaged record, for example: the full path reports it


def _lane(argv: list[str]) -> int | None:
    """Answer by a fast lane; None where there is none, or where a session must be judged."""
    if argv == ["ls", "--json"]:
        from sesh.terminal import fast_answers

        answer = fast_answers.ls_json()
        return None if answer is None else _answer(answer)
    if argv == ["ls"]:
        from sesh.terminal import fast_answers

        table = fast_answers.ls_table()
        return None if table is None else _answer(*table)
    if argv[:1] == ["status"] and len(argv) == 2:
        from sesh.terminal import fast_answers

        status = fast_answers.status(argv[1])
        return None if status is None else _answer(status[0]) or status[1]
    if argv[:2] == ["doctor", "--prompt"]:
        return _prompt(argv[2:])
    if argv[:1] == ["init"]:
        return _init(argv[1:])
    helping = argv[2:] in (["--help"], ["-h"])  # by a person: no agent calls it so
    if argv[:2] in (["hook", "claude"], ["hook", "codex"]) and not helping:
        from sesh.agents import hook_receiver

        return hook_receiver.receive(argv[1], argv[2:])
    return None


def _full(argv: list[str]) -> int:
    """A plain `start NAME COMMAND...` and `pass` import the least; then well-formed calls, which
    need no click."""
    from sesh.terminal import exit_codes

    if argv[:1] == ["start"] and len(argv) > 2 and _is_name(argv[1]):
        command = argv[3:] if argv[2] == "--" else argv[2:] if argv[2][:1] != "-" else []
        if command:
            return exit_codes.guarded(lambda: _start(argv[1], tuple(command)))
    if argv == ["pass"]:
        from sesh.supervision import run_pass

        return exit_codes.guarded(run_pass.run_anyway)
    return exit_codes.guarded(lambda: _command(argv))


def _is_name(word: str) -> bool:
    return word[:1] != "-" and f"_{word}".replace("-", "_").isidentifier()


def _start(name: str, command: tuple[str, ...]) -> int:
    """`start NAME COMMAND` or `start NAME -- COMMAND`, and nothing else."""
    from sesh.operations.launch import start_request
    from sesh.state import settings
    from sesh.terminal import output

    request = start_request.Request(name, command)
    found = start_request.start_session(request, settings.load(), output.note)
    output.write(f"{found.name}\n")
    start_request.note_end(found, output.note)
    return 0


def _command(argv: list[str]) -> int:
    """A well-formed call goes without click too. An alias goes the way of the command's name."""
    from sesh.terminal import command_table

    meant = command_table.without_alias(argv)
    if meant != argv:
        code = _fast(meant)
        return _full(meant) if code is None else code
    code = command_table.run_plain(argv)
    if code is None:
        from sesh.terminal.main import run

        code = run(argv)
    return code


def _prompt(options: list[str]) -> int | None:
    """`doctor --prompt`; None for other options: the full path reads them."""
    from sesh.terminal import prompt

    if options == ["--refresh"]:
        prompt.refresh(make=True)
        return 0
    if options not in ([], ["--exit-code"]):
        return None
    line = prompt.line()
    if not line:
        return 0
    from sesh.model import errors

    try:
        posix.write(1, f"{line}\n".encode())
    except OSError:  # a prompt shows no errors
        pass
    return errors.PROBLEMS if options else errors.OK


def _init(arguments: list[str]) -> int | None:
    """`init SHELL`, which delays the start of every shell; None for any other call."""
    from sesh.model import errors
    from sesh.terminal import prompt

    if len(arguments) != 1 or arguments[0] not in prompt.SHELLS:
        return None
    try:
        script = prompt.script(arguments[0])
    except (OSError, errors.SeshError):
        return None
    return _answer(script.encode(errors="surrogateescape"))


def _answer(data: bytes, closing: str | None = None) -> int:
    """Write a fast lane's answer; returns an exit code."""
    try:
        while data:
            data = data[posix.write(1, data) :]
    except BrokenPipeError:
        return 0
    except OSError as error:
        from sesh.terminal.exit_codes import stdout_failed

        return stdout_failed(error)
    if closing and posix.isatty(1):
        from sesh.terminal import output

        output.say(f"\n{closing}")
    return 0


def _reopen_closed_streams() -> None:
    """A closed 0, 1 or 2 would be taken by the first file opened: writes would land in a record."""
    for fd in (0, 1, 2):
        try:
            posix.fstat(fd)
        except OSError:
            posix.open("/dev/null", posix.O_RDWR)


if __name__ == "__main__":
    script()
