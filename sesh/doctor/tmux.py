"""Checks of tmux: is it there, does every server answer, and is it the right one?"""

from __future__ import annotations

from shlex import quote

from sesh.doctor.scene import FIX, Finding, Level, Scene, hangs, shown
from sesh.model.errors import CannotTellError
from sesh.model.place import Process
from sesh.model.value import Value
from sesh.state import observe
from sesh.system import paths, processes, tmux
from sesh.system.tmux import Pane, Reply, Trouble

_INSTALLERS = (
    ("apt-get", "sudo apt-get install tmux"),
    ("dnf", "sudo dnf install tmux"),
    ("pacman", "sudo pacman -S tmux"),
    ("zypper", "sudo zypper install tmux"),
    ("apk", "sudo apk add tmux"),
    ("brew", "brew install tmux"),
)


def installed(scene: Scene) -> list[Finding]:
    """Is there a tmux, new enough? One that hangs has been asked already."""
    try:
        binary = tmux.find_binary()
        if not any(hangs(answer) for answer in scene.answers.values()):
            tmux.check_version(binary, scene.config.tmux.timeout)
    except CannotTellError as error:
        return [Finding("tmux", Level.FAIL, str(error), _how_to_install())]
    return []


def _how_to_install() -> str | None:
    return next((how for program, how in _INSTALLERS if paths.which(program)), None)


# --- servers that answer, and those that don't ---------------------------------------------------


def silent_servers(scene: Scene) -> list[Finding]:
    return [
        _silent(scene, socket, answer)
        for socket, answer in scene.answers.items()
        if isinstance(answer, Reply) and answer.trouble is not Trouble.NO_SERVER
    ]


def _silent(scene: Scene, socket: str, answer: Reply) -> Finding:
    living = servers_at(scene, socket)
    empty = [process for process in living if not _inhabited(scene, process)]
    if answer.trouble is Trouble.EXITING and empty:
        pids = ", ".join(str(process.pid) for process in empty)
        text = f"tmux server {pids} is wedged: it says {answer.text!r} to everybody"
        return Finding("tmux-server", Level.FAIL, text, FIX, "asks, and ends it", (shown(socket),))
    stopped = [one for one in living if (stat := scene.table.get(one.pid)) and stat.stopped]
    if stopped:
        text = f"tmux server {stopped[0].pid} is stopped by a signal: {answer.text}"
        mend, note = f"kill -CONT {stopped[0].pid}", "lets it go on"
    else:
        text = f"the tmux server of {shown(socket)} gives no usable answer: {answer.text}"
        mend, note = f"tmux -S {quote(socket)} list-sessions", "shows what it says"
    return Finding("tmux-server", Level.FAIL, text, mend, note, (shown(socket),))


def wedged(scene: Scene) -> list[Process]:
    """The servers that answer nothing but that they are exiting, and in which nothing lives."""
    return [
        process
        for socket, answer in scene.answers.items()
        if isinstance(answer, Reply) and answer.trouble is Trouble.EXITING
        for process in servers_at(scene, socket)
        if not _inhabited(scene, process)
    ]


def _inhabited(scene: Scene, server: Process) -> bool:
    """Does anything live in it? Then it is not ours to end, whatever it says."""
    return any(stat.ppid == server.pid and stat.alive for stat in scene.table.values())


def has_panes(table: processes.Table, server: Process) -> bool:
    """Does something live in a terminal of it? (A dead pane's log pipe does not count.)"""
    children = (stat for stat in table.values() if stat.ppid == server.pid)
    return any(stat.alive and stat.tty for stat in children)


def servers_at(scene: Scene, socket: str) -> list[Process]:
    """The living tmux servers that belong to a socket: by their command line, and as those above
    its living sessions. The oldest first."""
    above = _above_sessions(scene, socket)
    stats = [
        stat
        for stat in scene.table.values()
        if processes.is_tmux(stat)
        and stat.alive
        and (stat.pid in above or _serves(stat.pid, socket))
    ]
    return [stat.process for stat in sorted(stats, key=lambda stat: stat.start)]


def _above_sessions(scene: Scene, socket: str) -> set[int]:
    pids = {view["pid"] for view in scene.living if view["socket"] == socket}
    return {above for pid in pids for above in processes.ancestors(scene.table, pid)}


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


def sockets(scene: Scene) -> list[Finding]:
    return [_unreachable(one) for one in hidden_servers(scene)]


def hidden_servers(scene: Scene) -> list[Hidden]:
    return [
        hidden
        for socket, answer in scene.answers.items()
        for hidden in _hidden_at(scene, socket, answer)
    ]


def _hidden_at(scene: Scene, socket: str, answer: list[Pane] | Reply) -> list[Hidden]:
    living = servers_at(scene, socket)
    if isinstance(answer, Reply):
        swept = answer.trouble is Trouble.NO_SERVER
        return [Hidden(socket, process) for process in living[:1] if swept]
    pid = answer[0].server if answer else _who_answers(scene, socket) if living else None
    by = scene.table.get(pid or 0)
    if by is None:
        return []
    return [
        Hidden(
            *(socket, process, by.process),
            empty=not answer,
            idle=not has_panes(scene.table, process),
        )
        for process in living
        if process != by.process
    ]


def _who_answers(scene: Scene, socket: str) -> int | None:
    """A server without panes does not say who it is unless it is asked."""
    return observe.server(socket, scene.run, scene.config).server_pid()


def _unreachable(one: Hidden) -> Finding:
    pid, where = one.process.pid, shown(one.socket)
    subjects = (str(pid), where)
    if one.by is None:
        text = f"tmux server {pid} lives, but its socket {where} was swept away"
        return Finding("tmux-socket", Level.FAIL, text, FIX, "restores it", subjects)
    text = f"tmux server {one.by.pid} hides another that lives, {pid}: both say {where} is theirs"
    if one.empty:
        return Finding("tmux-socket", Level.FAIL, text, FIX, "lets the first be reached", subjects)
    if one.idle:
        text += f"; nothing runs in {pid}"
        return Finding("tmux-socket", Level.WARN, text, FIX, f"asks, and ends {pid}", subjects)
    note = f"makes {pid} reachable instead: end what runs in one of them, then sesh doctor --fix"
    return Finding("tmux-socket", Level.FAIL, text, f"kill -USR1 {pid}", note, subjects)
