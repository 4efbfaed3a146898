"""sesh hook: handle the hook calls of agents and orchestrators. The exit status is always 0."""

from __future__ import annotations

from collections.abc import Callable

from sesh.agents import hook_receiver
from sesh.commands._declare import argument, declare, flag
from sesh.model import errors
from sesh.operations import orchestrator_hooks
from sesh.system import stdin
from sesh.terminal import output


def _pre_delegate(data: bytes) -> None:
    try:
        output.write(orchestrator_hooks.pre_delegate(data))
    except OSError as error:
        output.note(f"hook pre-delegate: cannot write to standard output: {error.strerror}")


def _subagent_stop(data: bytes) -> None:
    problem = orchestrator_hooks.subagent_stop(data)
    if problem:
        output.note(f"hook subagent-stop: {problem}; nothing was changed")


# kind → the function that handles its input. None of them may fail.
_HANDLERS: dict[str, Callable[[bytes], None]] = {
    "pre-delegate": _pre_delegate,
    "subagent-stop": _subagent_stop,
}


@declare("hook")
def command(
    kind: str = argument(type=(*hook_receiver.KINDS, *_HANDLERS), metavar="KIND"),
    event: str | None = argument(required=False),
    test: bool = flag("--test", help="Try it on a sample and print the result."),
) -> int:
    """Handle an agent hook call: KIND is claude, codex, pre-delegate or subagent-stop.

    Reads JSON from standard input, or EVENT. Only pre-delegate prints an answer, which is always
    valid JSON. The exit status is always 0.
    """
    if kind in hook_receiver.KINDS:
        return hook_receiver.receive(kind, [] if event is None else [event])
    if test:
        output.write(orchestrator_hooks.try_out(kind))
        return errors.OK
    _HANDLERS[kind](stdin.read())
    return errors.OK
