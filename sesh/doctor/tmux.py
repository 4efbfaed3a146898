"""Checks of tmux: is it there, does every server answer, and is it the right one?"""

from __future__ import annotations

from functools import partial

from sesh.doctor.context import FIX, Check, Context, Finding, Level, Step, hangs, shown
from sesh.model.errors import CannotTellError, SeshError
from sesh.model.place import Process
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value
from sesh.places.host import terminate, tmux_server
from sesh.system import paths, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Pane, Tmux, Trouble

END_PATIENCE = 5.0  # seconds that a server may take to vanish
_INSTALLERS = (
    ("apt-get", "sudo apt-get install tmux"),
    ("dnf", "sudo dnf install tmux"),
    ("pacman", "sudo pacman -S tmux"),
    ("zypper", "sudo zypper install tmux"),
    ("apk", "sudo apk add tmux"),
    ("brew", "brew install tmux"),
)


def installed(context: Context) -> list[Finding]:
    """Is there a tmux, new enough? One that hangs has been asked already."""
    try:
        binary = tmux.find_binary()
        if not any(hangs(answer) for answer in context.answers.values()):
            tmux.check_version(binary, context.config.tmux.timeout)
    except CannotTellError as error:
        install = next((how for program, how in _INSTALLERS if paths.which(program)), None)
        return [Finding(Level.FAIL, str(error), install)]
    return []


# --- servers that answer, and those that don't ---------------------------------------------------


def silent_servers(context: Context) -> list[Finding]:
    return [
        _silent(context, socket, answer)
        for socket, answer in context.answers.items()
        if isinstance(answer, Reply) and answer.trouble is not Trouble.NO_SERVER
    ]


def _silent(context: Context, socket: str, answer: Reply) -> Finding:
    living = _servers_at(context, socket)
    empty = [process for process in living if not _inhabited(context, process)]
    if answer.trouble is Trouble.EXITING and empty:
        pids = ", ".join(str(process.pid) for process in empty)
        text = f"tmux server {pids} is wedged: it answers every call with {answer.text!r}"
        return Finding(Level.FAIL, text, FIX, "asks, then ends it", (shown(socket),))
    stopped = [one for one in living if (stat := context.table.get(one.pid)) and stat.stopped]
    if stopped:
        text = f"tmux server {stopped[0].pid} is stopped by a signal: {answer.text}"
        remedy, note = f"kill -CONT {stopped[0].pid}", "continues it"
    else:
        text = f"the tmux server of {shown(socket)} gives no usable answer: {answer.text}"
        remedy, note = f"tmux -S {quote(socket)} list-sessions", "shows its error"
    return Finding(Level.FAIL, text, remedy, note, (shown(socket),))


def end_wedged(context: Context) -> list[Step]:
    """End the servers that answer nothing but that they are exiting, and in which nothing lives."""
    return [
        Step(
            f"ended the wedged tmux server {process.pid}",
            partial(_end_server, process),
            f"end the wedged tmux server {process.pid}, in which nothing runs?",
        )
        for socket, answer in context.answers.items()
        if isinstance(answer, Reply) and answer.trouble is Trouble.EXITING
        for process in _servers_at(context, socket)
        if not _inhabited(context, process)
    ]


def _inhabited(context: Context, server: Process) -> bool:
    """Does anything live in it? Then it is not ours to end, whatever it says."""
    return any(stat.ppid == server.pid and stat.alive for stat in context.table.values())


def _has_panes(table: processes.Table, server: Process) -> bool:
    """Does something live in a terminal of it? (A dead pane's log pipe does not count.)"""
    children = (stat for stat in table.values() if stat.ppid == server.pid)
    return any(stat.alive and stat.tty for stat in children)


def _servers_at(context: Context, socket: str) -> list[Process]:
    """The living tmux servers that belong to a socket: by their command line, and as those above
    its living sessions. The oldest first."""
    pids = {view["pid"] for view in context.living if view["socket"] == socket}
    above = {one for pid in pids for one in processes.ancestors(context.table, pid)}
    stats = [
        stat
        for stat in processes.tmux_servers(context.table)
        if stat.pid in above or _serves(stat.pid, socket)
    ]
    return [stat.process for stat in sorted(stats, key=lambda stat: stat.start)]


def _serves(pid: int, socket: str) -> bool:
    argv = processes.command(pid)
    return "-S" in argv[:-1] and argv[argv.index("-S") + 1] == socket


# --- sockets -------------------------------------------------------------------------------------


class Hidden(Value):
    """A living server that cannot be reached, because its socket is gone or another's now."""

    socket: str
    process: Process
    by: Process | None = None  # the server that answers instead
    empty: bool = False  # has that one no pane?
    idle: bool = False  # does nothing live in the hidden one?


def sockets(context: Context) -> list[Finding]:
    return [_unreachable(one) for one in _hidden_servers(context)]


def _hidden_servers(context: Context) -> list[Hidden]:
    return [
        hidden
        for socket, answer in context.answers.items()
        for hidden in _hidden_at(context, socket, answer)
    ]


def _hidden_at(context: Context, socket: str, answer: list[Pane] | Reply) -> list[Hidden]:
    living = _servers_at(context, socket)
    if isinstance(answer, Reply):
        swept = answer.trouble is Trouble.NO_SERVER
        return [Hidden(socket, process) for process in living[:1] if swept]
    if answer:
        pid: int | None = answer[0].server
    else:  # a server without panes does not say who it is unless it is asked
        server = tmux_server.server(socket, context.run, context.config)
        pid = server.server_pid() if living else None
    by = context.table.get(pid or 0)
    if by is None:
        return []
    return [
        Hidden(
            *(socket, process, by.process),
            empty=not answer,
            idle=not _has_panes(context.table, process),
        )
        for process in living
        if process != by.process
    ]


def _unreachable(one: Hidden) -> Finding:
    pid, where = one.process.pid, shown(one.socket)
    subjects = (str(pid), where)
    if one.by is None:
        text = f"tmux server {pid} is alive, but its socket {where} was deleted"
        return Finding(Level.FAIL, text, FIX, "restores it", subjects)
    text = f"tmux server {one.by.pid} hides another, {pid}: both claim {where}"
    if one.empty:
        return Finding(Level.FAIL, text, FIX, "makes the hidden one reachable", subjects)
    if one.idle:
        text += f"; nothing runs in {pid}"
        return Finding(Level.WARN, text, FIX, f"asks, then ends {pid}", subjects)
    note = f"makes {pid} reachable instead: end what runs in one of them, then sesh doctor --fix"
    return Finding(Level.FAIL, text, f"kill -USR1 {pid}", note, subjects)


def reach_servers(context: Context) -> list[Step]:
    return [
        _reach(context, hidden)
        for hidden in _hidden_servers(context)
        if hidden.by is None or hidden.empty or hidden.idle
    ]


def _reach(context: Context, hidden: Hidden) -> Step:
    """Make a server that lives reachable again. A server removes the socket when it ends, so one
    that is in the way must go first."""
    server = tmux_server.server(hidden.socket, context.run, context.settings)
    blocking = hidden.by
    if blocking is not None and not hidden.empty:
        return _leave_one(server, hidden.process, blocking)

    def restore() -> None:
        if blocking is not None:
            _end_server(blocking)
        tmux_server.restore_socket(server, hidden.process)

    what = f"restored {shown(hidden.socket)}, the socket of tmux server {hidden.process.pid}"
    question = None
    if blocking is not None:
        question = f"end tmux server {blocking.pid}, which has no session and hides another?"
    return Step(what, restore, question)


def _leave_one(server: Tmux, idle: Process, other: Process) -> Step:
    """End a server in which nothing lives, and make sure that the other is reached after it."""

    def end() -> None:
        if _has_panes(processes.table(), idle):
            raise SeshError(f"something runs in tmux server {idle.pid} now; not ended")
        _end_server(idle)
        tmux_server.restore_socket(server, other)

    what = f"ended tmux server {idle.pid}; {other.pid} is the only one at {shown(server.socket)}"
    question = f"end tmux server {idle.pid}, in which nothing runs?"
    return Step(what, end, question)


def _end_server(process: Process) -> None:
    """Ask exactly this process to end, and see that it does."""
    stat = processes.look(process.pid)
    if stat is None or stat.process != process:
        return
    if not processes.is_tmux(stat):
        raise SeshError(f"process {process.pid} is not a tmux server")
    if terminate.end_each([process], END_PATIENCE, kill=False):
        raise SeshError(f"tmux server {process.pid} does not end")


CHECKS = (
    Check("tmux", "tmux is installed and new enough", installed),
    Check("tmux-server", "every tmux server answers", silent_servers, end_wedged),
    Check("tmux-socket", "every tmux server can be reached at its socket", sockets, reach_servers),
)
