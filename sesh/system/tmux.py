"""tmux, spoken to in one way: one command list a call, exact targets, constant formats.

Three-valued: "no server" and "no such pane" are answers only when tmux says so in words that are
known; everything else (a timeout, an unknown text) is `Trouble.OTHER` and proves nothing.

Text of users never becomes part of a tmux format, because `#(…)` in one runs a program: it goes
through files, `@options` (whose values are not expanded again) or the client's directory.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import Enum

from sesh.model.errors import CannotTellError, ScarceError, StateError
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import join, quote
from sesh.model.value_object import Value, replace
from sesh.system import paths, subprocesses
from sesh.system.files import make_private, unnamed, write_private
from sesh.system.subprocesses import NOTHING, Reply

OLDEST = (3, 2)
LOOK_EVERY = 600.0  # seconds after which a server makes sesh look, whatever happens
DEFAULT_SIZE = (200, 50)

# What a server needs to know of its caller's environment. No more: agents get theirs from a file.
_SERVER_ENVIRONMENT = lazy(
    r"PATH|HOME|USER|LOGNAME|SHELL|LANG|LC_.*|TZ|TMPDIR|XDG_.*|DBUS_SESSION_BUS_ADDRESS|TERMINFO.*"
)

CONFIG = """\
set-environment -gu LC_ALL
set-option -g default-terminal {terminal}
set-option -g history-limit 50000
set-option -s escape-time 10
set-option -g focus-events on
set-option -s extended-keys on
set-option -g status-left-length 66
set-option -g status-right "detach: #{{?#{{&&:#{{@sesh_detach}},\
#{{m/r:^(tmux|screen),#{{client_termname}}}}}},#{{@sesh_detach}},#{{prefix}} d}}"
"""

_LAUNCH_FORMAT = "#{pane_id} #{pane_pid} #{pid}"
_PANES_FORMAT = (
    "#{pane_id} #{pane_pid} #{pane_dead} #{pane_pipe} #{pid} "
    "w#{e|*:#{@sesh_wake},1} #{session_id} s#{@sesh_id} #{session_name}"  # a number, or nothing
)
_CAPTURE = ("capture-pane", "-p", "-J", "-S", "-", "-t")
_EACH = 0.02  # seconds that a server may take for each of many commands
_LIST_PANES = ("list-panes", "-a", "-F", _PANES_FORMAT)
# A tmux in a container may say anything: no number is longer than it can be.
_NUMBER = "[0-9]{1,9}"
_PANE_LINE = lazy(
    rf"(%{_NUMBER}) ({_NUMBER}) ([01]) ([01]) ({_NUMBER}) w(-?[0-9]{{0,25}}) "
    rf"(\${_NUMBER}) s([A-Za-z0-9_-]*) (.*)"
)
_LAUNCHED = rf"(%{_NUMBER}) ({_NUMBER}) ({_NUMBER})"
_PIPE = "umask 077; exec cat >>#{@sesh_log}"
CALLBACK = "#{@sesh_callback} >/dev/null 2>&1 || :"
WORDLESS = " without a word"
EXITING_TRIES = 5  # many commands at once may all meet servers that are just exiting
EXITING_PAUSE = 0.05  # seconds in which such a server is gone

_NAMED_KEYS = (
    "Enter Escape Tab BTab Space BSpace Up Down Left Right Home End PageUp PageDown PPage NPage "
    "IC DC Insert Delete"
)
KEY = lazy(rf"(?:[CMS]-)*(?:[!-~]|F(?:1[0-2]|[1-9])|{'|'.join(_NAMED_KEYS.split())})")


Words = tuple[str, ...]
Commands = tuple[Words, ...]


class Trouble(Enum):
    NO_SERVER = "no tmux server"
    NO_TARGET = "no such session or pane"
    NO_SESSIONS = "the tmux server has no session"
    DUPLICATE = "duplicate session"
    EXITING = "the tmux server is exiting"
    ACTIVE = "the pane is still active"
    REFUSED = "nothing could be launched"
    SCARCE = "tmux could not be run"
    OTHER = "tmux gave no usable answer"


_MESSAGES = (
    (
        lazy(r"error connecting to .* \((No such file or directory|Connection refused)\)"),
        Trouble.NO_SERVER,
    ),
    (lazy(r"no server running on "), Trouble.NO_SERVER),
    (lazy(r"can't find (session|window|pane)"), Trouble.NO_TARGET),
    (lazy(r"no current target"), Trouble.NO_SESSIONS),
    (lazy(r"no current client"), Trouble.NO_TARGET),
    (lazy(r"duplicate session: "), Trouble.DUPLICATE),
    (lazy(r"(server exited unexpectedly|lost server)"), Trouble.EXITING),
    (lazy(r"respawn pane failed: pane .* still active"), Trouble.ACTIVE),
    (lazy(r"(create (session|window|pane)|respawn pane) failed: "), Trouble.REFUSED),
    (lazy(r"fork error: "), Trouble.REFUSED),  # of the log pipe: its pane is there
)


_UNKNOWN_FORM = Reply("", Trouble.OTHER, "tmux answered in an unknown form")
_OF_SERVER = (Trouble.NO_SERVER, Trouble.EXITING)


class Pane(Value):
    id: str
    pid: int
    dead: bool
    session: str
    sesh_id: str
    name: str
    piped: bool = True  # is its output logged
    server: int = 0  # the server's own pid
    wake: float = 0.0  # when the server makes sesh look, in seconds of the epoch


class Launched(Value):
    pane: str
    pane_pid: int
    server_pid: int


class Step(Value):
    """The command list of one launch, and the pane that it launches in."""

    target: str
    commands: Commands
    cwd: str | None = None  # the directory of a new session


class Keeper(Value):
    """The command of a pane, and where its output goes."""

    argv: Words
    session_id: str
    log: str
    callback: str
    look_after: float = LOOK_EVERY  # seconds until sesh has to look


class Tmux(Value):
    """One tmux server, by its socket."""

    binary: str
    socket: str
    run: str  # directory for the server's own config
    own: bool = True  # False: the user's server, whose options are not ours to set
    include: str = ""
    timeout: float = 2.0
    prefix: Words = ()  # the command before tmux where that runs in a container

    def ask(self, *command: str, stdin: int = NOTHING) -> Reply:
        """Hand one command list to the server."""
        return self._barred() or _reply(self._call(command, self.timeout, stdin=stdin))

    def _call(
        self,
        command: Sequence[str],
        timeout: float,
        *,
        cwd: str | None = None,
        wrap: Words = (),
        stdin: int = NOTHING,
    ) -> subprocesses.Answer:
        return subprocesses.call(
            [*wrap, *self._argv(), *command],
            timeout=timeout,
            env=self._environment(),
            cwd=cwd,
            stdin=stdin,
            adapting=True,
        )

    def _begin(self, command: Sequence[str]) -> Callable[[], Reply]:
        """`ask` in two steps: what is returned waits for the answer, and must be called."""
        barred = self._barred()
        if barred is not None:
            return lambda: barred
        argv = [*self._argv(), *command]
        answered = subprocesses.begin(argv, timeout=self.timeout, env=self._environment())
        return lambda: _reply(answered())

    def _barred(self) -> Reply | None:
        return None if self.prefix else barrier(self.socket)

    def _argv(self) -> Words:
        return (*self.prefix, self.binary, "-u", "-S", self.socket, *self._config_option())

    def _environment(self) -> dict[str, str]:
        return subprocesses.engine_environment() if self.prefix else _environment()

    def _config_option(self) -> Words:
        return ("-f", f"{self.run}/tmux.conf") if self.own else ()

    def write_config(self) -> None:
        """The config of a server of ours about to start."""
        if not self.own or self.prefix:
            return
        text = CONFIG.format(terminal=_terminal())
        if self.include:
            text += f"source-file {quote(self.include)}\n"
        make_private(self.run)
        write_private(f"{self.run}/tmux.conf", text.encode(), durable=False)

    def panes(self) -> list[Pane] | Reply:
        """All panes of the server; the reply when it did not list them. One that is just exiting
        is asked until it has gone."""
        answer = _panes(self.ask(*_LIST_PANES))
        for _ in range(EXITING_TRIES):
            if isinstance(answer, list) or answer.trouble is not Trouble.EXITING:
                break
            time.sleep(EXITING_PAUSE)
            answer = _panes(self.ask(*_LIST_PANES))
        return answer

    def known_panes(self) -> list[Pane]:
        """The same; empty when the server did not list them."""
        answer = self.panes()
        return [] if isinstance(answer, Reply) else answer

    def panes_later(self) -> Callable[[], list[Pane] | Reply]:
        """The same, in two steps: what is returned waits for the answer, and must be called."""
        answered = self._begin(_LIST_PANES)
        return lambda: _panes(answered())

    def new_session(self, name: str, keeper: Keeper, cwd: str, size: tuple[int, int]) -> Step:
        """Start a session in a directory. (In a container the client is in it already.)"""
        new = ("new-session", "-d", "-s", name, "-x", str(size[0]), "-y", str(size[1]))
        step = self._step(f"={name}:", (*new, *keeper.argv), keeper)
        return step if self.prefix else replace(step, cwd=cwd)

    def new_window(self, name: str, keeper: Keeper) -> Step:
        """Start in a session of ours that is alive because of a window that a person opened."""
        return self._step(f"={name}:", ("new-window", "-t", f"={name}:", *keeper.argv), keeper)

    def respawn(self, pane: str, keeper: Keeper, *, force: bool) -> Step:
        """Start the next generation in the pane of the last one; its scrollback stays."""
        kill = ("-k",) if force else ()
        return self._step(pane, ("respawn-pane", *kill, "-t", pane, *keeper.argv), keeper)

    def _step(self, target: str, first: Words, keeper: Keeper) -> Step:
        commands = (
            first,
            ("set-option", "-p", "-t", target, "remain-on-exit", "on"),
            ("set-option", "-t", target, "@sesh_id", keeper.session_id),
            ("set-option", "-t", target, "@sesh_log", quote(keeper.log)),
            *(() if self.prefix else self._call_back(keeper)),
            ("pipe-pane", "-t", target, _PIPE),
        )
        return Step(target, commands)

    def _call_back(self, keeper: Keeper) -> Commands:
        """What makes the server call sesh back. In a container there is no sesh to call."""
        return (
            ("set-option", "-s", "@sesh_callback", f"/bin/sh {quote(keeper.callback)}"),
            _wake(time.time() + keeper.look_after),
            *((("set-option", "-s", "exit-empty", "off"),) if self.own else ()),
        )

    def launch(self, steps: Sequence[Step], wrap: Words = ()) -> list[Launched | Reply]:
        """Launch what these steps launch, in one call. Each step is one command list, so that even
        an agent that ends at once leaves its pane; a step that fails does not stop the others."""
        if len(steps) == 1 or self.prefix:
            return [self._launch(step, wrap) for step in steps]
        barred = self._barred()
        if barred is not None:
            return [barred] * len(steps)
        lists = [(*_with_directory(step), _show(step, f"{at} ")) for at, step in enumerate(steps)]
        before = ("start-server", ";") if any(step.cwd for step in steps) else ()
        return _all_launched(self._source(lists, before, wrap), len(steps))

    def _launch(self, step: Step, wrap: Words) -> Launched | Reply:
        """The directory of the client becomes that of the session. It is in no command line: that
        of the first client stays that of the server."""
        words = [word for command in (*step.commands, _show(step)) for word in (*command, ";")]
        cwd = step.cwd if step.cwd and os.access(step.cwd, os.X_OK) else None
        reply = self._barred() or _reply(self._call(words[:-1], self.timeout, cwd=cwd, wrap=wrap))
        if not reply.ok:
            return reply
        found = re.fullmatch(_LAUNCHED, reply.out.strip())
        return Launched(found[1], int(found[2]), int(found[3])) if found else _UNKNOWN_FORM

    def pipe(self, pane: str) -> Reply:
        """Log a pane again, to the file in `@sesh_log` of its session: `cat` may have lost it."""
        return self.ask("pipe-pane", "-t", pane, ";", "pipe-pane", "-t", pane, _PIPE)

    def active_pane(self, name: str) -> Pane | Reply:
        """The active pane of a session; the reply when there is none."""
        only = ("-f", "#{pane_active}", "-F", _PANES_FORMAT)
        found = _panes(self.ask("list-panes", "-t", f"={name}:", *only))
        if isinstance(found, Reply):
            return found
        return found[0] if len(found) == 1 else _UNKNOWN_FORM

    def adopt(self, name: str, made: Pane, keeper: Keeper) -> Reply:
        """Mark a session that a person made as ours; log it, unless it is being logged already."""
        target = f"={name}:"
        pipe = () if made.piped else (";", "pipe-pane", "-t", made.id, _PIPE)
        return self.ask(
            *("set-option", "-t", target, "@sesh_id", keeper.session_id),
            *(";", "set-option", "-t", target, "@sesh_log", quote(keeper.log)),
            *(";", "set-option", "-s", "@sesh_callback", f"/bin/sh {quote(keeper.callback)}"),
            *(";", *_wake(time.time() + LOOK_EVERY)),
            *pipe,
        )

    def rename(self, pane: Pane, name: str) -> Reply:
        """Give the session of a pane another name."""
        return self.ask("rename-session", "-t", pane.id, name)

    def release(self, ids: Mapping[str, str]) -> Reply:
        """Remove our marks from tmux sessions, by name, if they are still those of these ids."""
        commands = []
        for name, session_id in ids.items():
            target, mine = f"={name}:", f"#{{==:#{{@sesh_id}},{session_id}}}"
            unset = " ; ".join(f"set-option -u -t {target} @sesh_{what}" for what in ("id", "log"))
            commands.append(("if-shell", "-F", "-t", target, mine, unset))
        return self.ask_all(commands)

    def ask_all(self, commands: Sequence[Words]) -> Reply:
        """Run many commands in one call, each by itself: one that fails does not stop the others.
        The words must be known to be harmless: numbers, formats, names."""
        if not commands:
            return Reply("")
        if self.prefix:  # a container has one session, and an exec has no standard input
            replies = [self.ask(*command) for command in commands]
            return Reply("".join(reply.out for reply in replies))
        return self._barred() or _reply(self._source([(command,) for command in commands]))

    def _source(
        self, lists: Sequence[Commands], before: Words = (), wrap: Words = ()
    ) -> subprocesses.Answer:
        """Run command lists, each by itself. They are passed in a file without a name: a command
        line could not take many."""
        lines = [" ; ".join(map(join, commands)) + "\n" for commands in lists]
        timeout = self.timeout + _EACH * sum(map(len, lists))
        with unnamed("".join(lines).encode(errors="surrogateescape")) as fd:
            return self._call((*before, "source-file", "-"), timeout, wrap=wrap, stdin=fd)

    def close_all(self, dead: Iterable[str], gone: Iterable[tuple[str, int]] = ()) -> None:
        """Close panes: those that are still dead, and those that still belong to this process,
        which is gone: not one that was respawned in between."""
        closing = [(pane, "#{pane_dead}") for pane in dead]
        closing += [(pane, f"#{{==:#{{pane_pid}},{pid}}}") for pane, pid in gone]
        if closing:
            self.ask_all([_if(pane, still, f"kill-pane -t {pane}") for pane, still in closing])

    def kill_panes(self, panes: Iterable[str]) -> None:
        self.ask_all([("kill-pane", "-t", pane) for pane in panes])

    def capture(self, pane: str) -> Reply:
        """Screen and scrollback as text."""
        return self.ask(*_CAPTURE, pane)

    def capture_all(self, panes: Sequence[str]) -> dict[str, str]:
        """The same of many panes in one call; those that are gone are left out."""
        if len(panes) > 1 and not self.prefix:
            between = f"sesh-{os.urandom(16).hex()}"
            show = ("display-message", "-p", between)
            each = [(show, _if(pane, "1", join((*_CAPTURE, pane)))) for pane in panes]
            reply = self.ask_all([command for pair in each for command in pair])
            texts = reply.out.split(f"{between}\n")[1:]
            if reply.ok and len(texts) == len(panes):
                return {pane: text for pane, text in zip(panes, texts, strict=True) if text}
        captured = {pane: self.capture(pane) for pane in panes}
        return {pane: reply.out for pane, reply in captured.items() if reply.ok}

    def screen(self, pane: str) -> str | None:
        """What a person would see in it now."""
        reply = self.ask("capture-pane", "-p", "-J", "-t", pane)
        return reply.out if reply.ok else None

    def detach_all(self, name: str) -> Reply:
        """Detach all clients of a session."""
        return self.ask("detach-client", "-s", f"={name}")

    def detach_each(self, then: Mapping[str, str]) -> Reply:
        """The same for many sessions; the terminal of each client then runs this shell command, if
        there is one."""
        after = {name: ("-E", command) if command else () for name, command in then.items()}
        return self.ask_all([("detach-client", "-s", f"={name}", *after[name]) for name in then])

    def watched(self) -> set[str]:
        """The names of the sessions with attached clients."""
        reply = self.ask("list-clients", "-F", "#{client_session}")
        return set(reply.out.splitlines()) if reply.ok else set()

    def paste(self, pane: str, text: bytes) -> Reply:
        """Put text into a pane as a terminal pastes it: in brackets where the program asks for
        them, so that its newlines are no Enter keys."""
        buffer = f"sesh-{os.getpid()}"
        with unnamed(text) as fd:
            return self.ask(
                *_leave_mode(pane),
                *(";", "load-buffer", "-b", buffer, "-"),
                *(";", "paste-buffer", "-d", "-p", "-r", "-b", buffer, "-t", pane),
                stdin=fd,
            )

    def press(self, pane: str, *keys: str) -> Reply:
        """Press keys by their tmux names."""
        literal = [key.replace(";", "\\;") if key.endswith(";") else key for key in keys]
        return self.ask(*_leave_mode(pane), ";", "send-keys", "-t", pane, *literal)

    def wake_at(self, at: float) -> Reply:
        """Make sesh look again later."""
        if self.prefix:
            return Reply("")
        return self.ask(*_wake(at))

    def wake_later(self, at: float) -> Callable[[], Reply]:
        """The same, in two steps: what is returned waits for the answer, and must be called."""
        return self._begin(_wake(at))

    def call_back_now(self) -> Reply:
        if self.prefix:
            return Reply("")
        return self.ask("run-shell", "-b", CALLBACK)

    def may_exit(self) -> Reply:
        """Let an own server end when its last session has gone."""
        return self.ask("set-option", "-s", "exit-empty", "on")

    def server_pid(self) -> int | None:
        """The pid of the server at this socket; None when no server answers."""
        reply = self.ask("display-message", "-p", "#{pid}")
        return int(reply.out) if reply.ok and re.fullmatch(_NUMBER, reply.out.strip()) else None

    def answers(self) -> bool:
        return self.ask("list-sessions").ok


def _reply(answer: subprocesses.Answer) -> Reply:
    if answer.ok:
        return Reply(answer.out)
    if answer.problem:
        return Reply("", Trouble.SCARCE if answer.scarce else Trouble.OTHER, answer.problem)
    return _refusal(answer.err.strip() or f"exit {answer.code}{WORDLESS}")


def _refusal(said: str) -> Reply:
    trouble = next((t for pattern, t in _MESSAGES if pattern.match(said)), Trouble.OTHER)
    return Reply("", trouble, said.splitlines()[0])


def _panes(reply: Reply) -> list[Pane] | Reply:
    if reply.trouble is Trouble.NO_SESSIONS:
        return []
    if not reply.ok:
        return reply
    panes = []
    for line in reply.out.splitlines():
        found = _PANE_LINE.fullmatch(line)
        if found is None:
            return _UNKNOWN_FORM
        pane, pid, dead, piped, server, wake, session, sesh_id, name = found.groups()
        panes.append(
            Pane(
                *(pane, int(pid), dead == "1", session, sesh_id, name),
                piped=piped == "1",
                server=int(server),
                wake=int(wake or 0) / 1000,
            )
        )
    return panes


def _if(pane: str, condition: str, command: str) -> Words:
    """Run a command if a condition holds for a pane, and the pane exists."""
    exists = f"#{{&&:#{{==:#{{pane_id}},{pane}}},{condition}}}"
    return ("if-shell", "-F", "-t", pane, exists, command)


def _leave_mode(pane: str) -> Words:
    """A pane that was left scrolled back would take keys as commands of its copy mode."""
    return ("if-shell", "-F", "-t", pane, "#{pane_in_mode}", f"send-keys -X -t {pane} cancel")


def silent(answer: list[Pane] | Reply) -> bool:
    """Has it given no usable answer?"""
    return isinstance(answer, Reply) and answer.trouble in (Trouble.OTHER, Trouble.SCARCE)


def woken_by(at: float, answer: list[Pane] | Reply | None) -> bool:
    """Does this answer of a server say that it will make sesh look until then anyway?"""
    return isinstance(answer, list) and any(time.time() < pane.wake <= at for pane in answer[:1])


def _wake(at: float) -> Words:
    """One wake-up is pending for all sessions: a new one is set only when it is earlier, or when
    the pending one has passed (like in `woken_by`). In milliseconds."""
    now, moment = int(time.time() * 1000), int(at * 1000)
    delay = max(100, moment - now)
    pending = f"#{{&&:#{{e|>:#{{@sesh_wake}},{now}}},#{{e|<=:#{{@sesh_wake}},{moment}}}}}"
    later = (
        f"set-option -s @sesh_wake {now + delay} ; run-shell -b -d {delay / 1000:.3f} '{CALLBACK}'"
    )
    return ("if-shell", "-F", pending, "", later)


def _show(step: Step, before: str = "") -> Words:
    return ("display-message", "-p", "-t", step.target, before + _LAUNCH_FORMAT)


def _with_directory(step: Step) -> Commands:
    """The commands of one of many steps. An option holds the directory: that is not expanded."""
    if step.cwd is None:
        return step.commands
    (new, *words), *others = step.commands
    remember = ("set-option", "-s", "@sesh_directory", step.cwd)
    return (remember, (new, "-c", "#{@sesh_directory}", *words), *others)


def _all_launched(answer: subprocesses.Answer, count: int) -> list[Launched | Reply]:
    """What came of each of `count` launches. Those that succeeded are named by their numbers; the
    others have one line each on stderr, in their order. If there are more or fewer lines, only what
    is true of the whole server is known of them."""
    found = re.findall(rf"^([0-9]+) {_LAUNCHED}$", answer.out, re.M)
    done = {int(at): Launched(pane, int(pid), int(server)) for at, pane, pid, server in found}
    failed = [at for at in range(count) if at not in done]
    said = [_refusal(line) for line in answer.err.splitlines()]
    if len(said) != len(failed):
        of_server = [reply for reply in said if reply.trouble in _OF_SERVER]
        whole = _UNKNOWN_FORM if answer.ok else (*of_server, _reply(answer))[0]
        known = len(failed) == 1 or whole.trouble in (*_OF_SERVER, Trouble.SCARCE)
        said = [whole if known else replace(whole, trouble=Trouble.OTHER)] * len(failed)
    replies = dict(zip(failed, said, strict=True))
    return [done.get(at) or replies[at] for at in range(count)]


def _environment() -> dict[str, str]:
    kept = {k: v for k, v in os.environ.items() if _SERVER_ENVIRONMENT.fullmatch(k)}
    return {**kept, "LC_ALL": "C.UTF-8"}


def _terminal() -> str:
    """The terminal type that panes get: the good one where the system knows it."""
    places = ("/usr/share", "/lib", "/etc", "/usr/lib")
    known = any(os.path.exists(f"{place}/terminfo/t/tmux-256color") for place in places)
    return "tmux-256color" if known else "screen-256color"


def find_binary() -> str:
    """tmux in PATH, or where cron's short PATH does not look."""
    binary = paths.which("tmux") or paths.which("tmux", "/usr/local/bin:/opt/homebrew/bin")
    if binary is None:
        raise CannotTellError("tmux is not installed; install it (3.2 or newer) and try again")
    return os.path.abspath(binary)


def check_version(binary: str, timeout: float) -> None:
    """Refuse a tmux too old for the options that a launch needs."""
    answer = subprocesses.call([binary, "-V"], timeout=timeout, env=_environment(), adapting=True)
    if answer.scarce:
        raise ScarceError(f"{answer.problem}")
    if not answer.ok:
        raise CannotTellError(f"{binary} -V: {answer.problem or answer.err.strip() or 'failed'}")
    problem = too_old(answer.out.strip())
    if problem:
        raise CannotTellError(f"{problem} ({binary})")


def too_old(said: str) -> str | None:
    """Why the tmux that says this of itself will not do."""
    version = re.search(r"([0-9]{1,4})\.([0-9]{1,4})", said)
    if version is None and "master" not in said:
        return f"tmux -V printed {said[:40]!r}; is that tmux? 3.2 or newer is needed"
    if version and "openbsd" not in said and (int(version[1]), int(version[2])) < OLDEST:
        return f"{said} is too old: sesh needs tmux 3.2 or newer"
    return None


def check_socket(path: str) -> None:
    size = len(os.fsencode(path))
    if size > paths.SOCKET_LIMIT:
        raise StateError(
            f"the tmux socket's path has {size} bytes, {paths.SOCKET_LIMIT} are the limit; "
            f"set XDG_STATE_HOME to a shorter directory ({path})"
        )


def barrier(socket: str) -> Reply | None:
    """The answer in place of the server's where another user may have put the socket; None: it may
    be asked. A client runs what its server tells it to, and tmux itself checks only sockets that it
    has chosen. For a socket that is not there yet, in a directory that all may write to, nobody
    knows who will have made it a moment later."""
    links = (os.path.dirname(socket), socket)  # they may be links: those have an owner, too
    real = os.path.realpath(socket)
    shared = False
    try:
        for path in (*links, os.path.dirname(real), real):
            status = os.lstat(path)
            if status.st_uid not in (os.getuid(), 0):
                return _distrusted(path, f"belongs to uid {status.st_uid}")
            if stat.S_ISDIR(status.st_mode) and _others_may_write(status):
                if not status.st_mode & stat.S_ISVTX:
                    return _distrusted(path, "can be written to by others")
                shared = True
    except FileNotFoundError:
        return Reply("", Trouble.NO_SERVER, f"no server running on {socket}") if shared else None
    except OSError as error:
        return _distrusted(socket, f"can't be looked at ({error.strerror})")
    return None


def _others_may_write(status: os.stat_result) -> bool:
    """The caller's own group does not count: it often has no other member."""
    group = status.st_mode & stat.S_IWGRP and status.st_gid not in (os.getgid(), 0)
    return bool(status.st_mode & stat.S_IWOTH or group)


def _distrusted(path: str, why: str) -> Reply:
    return Reply("", Trouble.OTHER, f"{path} {why}: a tmux server there can't be trusted")


def check_trust(socket: str) -> None:
    """Raise unless a server that is started at this socket will be the one that answers there."""
    barred = barrier(socket)
    if barred is None:
        return
    if barred.trouble is Trouble.NO_SERVER:
        barred = _distrusted(os.path.dirname(socket), "can be written to by others")
    raise CannotTellError(f"{barred.text}; set tmux.socket to a path that only you can write to")


def listens(socket: str) -> bool:
    """Is there a process behind this socket? Its file alone proves nothing: it outlives a killed
    server and a reboot."""
    import _socket  # 10 times cheaper than `socket`, and every start comes here

    client = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM)
    try:
        client.settimeout(0)
        client.connect(os.fsencode(socket))
    except BlockingIOError:
        pass  # it has no time for us just now
    except OSError:
        return False
    finally:
        client.close()
    return True


def scope_prefix() -> tuple[str, ...]:
    """Where a systemd user manager answers, a server of ours gets a scope of its own, so that no
    unit's or login's end takes it along."""
    runtime = os.environ.get("XDG_RUNTIME_DIR", "")
    if not runtime or not listens(f"{runtime}/systemd/private"):
        return ()
    program = paths.which("systemd-run")
    return (program, "--user", "--scope", "--quiet", "--collect", "--") if program else ()
