"""Attach this terminal to a session, by handing it over to tmux. There are three cases.

In a plain terminal: exec the tmux client (a parent process would get Ctrl-C and hangups too). In a
client of the same server: switch this client. In another tmux: open a new window there.
"""

from __future__ import annotations

import os
import re
import signal

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, UsageError
from sesh.model.record import Record
from sesh.model.text.shell_words import join
from sesh.places import registry
from sesh.system import paths, subprocesses
from sesh.system.tmux import Tmux, barrier, find_binary


def need_terminal() -> None:
    if not (os.isatty(0) and os.isatty(1)):
        raise UsageError("attach needs a terminal; next: sesh logs NAME")


def attach(record: Record, config: Config, *, read_only: bool, alone: bool) -> None:
    """Attach this terminal. Returns only when another client or window does it."""
    place = registry.of(record)
    argv = place.attach_command(record, config, read_only=read_only, alone=alone)
    here = record.place.calls_back
    if not here:  # its client does not show how the session ended: always look afterwards
        argv = _client(record.name, argv, always=True)
    outer = os.environ.get("TMUX", "").split(",")[0]
    if not outer:
        client = _client(record.name, argv) if here else argv
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # Python ignores it; exec passes that on
        os.execv(client[0], client)
    elif here and _same_file(outer, record.place.socket):
        _switch(place.tmux(record, config), record.name, read_only=read_only, alone=alone)
    else:
        _in_a_window_of(outer, record.name, find_binary(), argv, place.tmux(record, config))


def _switch(server: Tmux, name: str, *, read_only: bool, alone: bool) -> None:
    """Switch the client that shows our pane to the session."""
    client = _own_client(server)
    if client is None:
        raise UsageError("no client is attached to the session that this runs in")
    if alone:
        server.detach_all(name)
    how = ("-r",) if read_only and not client.endswith(" 1") else ()  # -r toggles
    tty = client.rpartition(" ")[0]
    reply = server.ask("switch-client", *how, "-c", tty, "-t", f"={name}:")
    if not reply.ok:
        raise CannotTellError(f"{name}: tmux: {reply.text}")


def _own_client(server: Tmux) -> str | None:
    """`TTY READONLY` of the most recently active client of our session."""
    pane = os.environ.get("TMUX_PANE", "")
    if not re.fullmatch(r"%\d+", pane):
        return None
    form = "#{client_activity} #{client_name} #{client_readonly}"
    listed = server.ask("list-clients", "-t", pane, "-F", form).out.splitlines()
    latest = max(listed, key=lambda line: int(line.split()[0]), default=None)
    return latest.partition(" ")[2] if latest else None


# A client whose server was killed cannot restore the terminal or report the end of the session. We
# notice that by changed terminal settings. (Not by the exit code: a menu may come in between.)
# The shell around the client does nothing else, so that Ctrl-C and hangups reach no Python.
_CLIENT = """\
saved=$(stty -g)
"$@"
code=$?
{keep}if [ "$(stty -g)" != "$saved" ]; then
  stty "$saved"
  printf '\\033[r\\033[?1049l\\033[?25h\\033[0m'
fi
exec {again}
"""
_IN_ORDER = '[ "$(stty -g)" = "$saved" ] && exit $code\n'


def _client(name: str, argv: list[str], *, always: bool = False) -> list[str]:
    """The command of the client, followed by a report on the session if the terminal was not
    restored, or `always`."""
    again = join([*paths.own_command(), "attach", "--ended", name])
    script = _CLIENT.format(again=again, keep="" if always else _IN_ORDER)
    return ["/bin/sh", "-c", script, "attach", *argv]


def _same_file(one: str, other: str) -> bool:
    try:
        return os.path.samefile(one, other)
    except OSError:
        return False


def _in_a_window_of(outer: str, name: str, binary: str, argv: list[str], server: Tmux) -> None:
    barred = barrier(outer)
    if barred is not None:
        raise CannotTellError(f"{name}: {barred.text}")
    keys = _detach_keys(outer, binary, server, name)
    server.ask("set-option", "-t", f"={name}:", "@sesh_detach", keys)  # status-right shows them
    inner = ["env", "-u", "TMUX", "-u", "TMUX_PANE", *argv]
    answer = subprocesses.call(
        [binary, "-S", outer, "new-window", "-n", name, f"exec {join(inner)}"], timeout=3
    )
    if not answer.ok:
        why = answer.problem or answer.err.strip()
        raise CannotTellError(f"{name}: no window could be opened in the tmux around us: {why}")


def _detach_keys(outer: str, binary: str, server: Tmux, name: str) -> str:
    """The keys that detach a client in a window of another tmux. Where both have the same prefix,
    the outer one must send it, if a key is bound to that; or else the command that detaches."""
    prefix = server.ask("display-message", "-p", "-t", f"={name}:", "#{prefix}").out.strip()
    pane = os.environ.get("TMUX_PANE", "")
    ask = (
        "display-message",
        "-p",
        "-t",
        pane,
        "#{prefix} #{prefix2}",
        ";",
        "list-keys",
        "-T",
        "prefix",
    )
    answer = subprocesses.call([binary, "-S", outer, *ask], timeout=3)
    first, *bound = answer.out.splitlines() or [""]
    if prefix not in first.split():
        return f"{prefix or 'C-b'} d"
    send = "send-prefix" if first.split()[0] == prefix else "send-prefix -2"
    for line in bound:
        words = line.removesuffix(f" {send}").split()
        if line.endswith(f" {send}") and words[-2:-1] == ["prefix"]:
            return f"{prefix} {words[-1]} d"
    return f"sesh detach {name}"
