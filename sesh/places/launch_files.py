"""The files of one launch, in `run/MACHINE/ID.GEN.*`, and what the keeper and the agent's shell
write into them.

  .launch    sh file that becomes the agent: says who it is, goes to the directory, loads the
             environment, execs the command. No secret is in it. It removes itself, and ends if
             another process has removed it before: then the launch was given up.
  .pid       "PID START KEEPER LEADER TTY PANE SERVER START", written by .launch before it becomes
             the agent: its own identity, its keeper's two shells, its terminal, and tmux's server
  .exit.tmp  made beforehand at full size, so that a full disk can't lose the word; becomes .exit
  .exit      "STATUS here|gone", written by the keeper when the agent has ended
  .error     why the command could not even be executed
  .claim     a copy of the record as it was when the launch began, should the record be lost
  .care      what passes remember of a session that they look after: see checkups.py
  .check     exists while its health command runs, and identifies it
  .health    the exit status of its health command, when that has ended
  .beat      its time is that of the agent's last `sesh update`; in a container, `beat` is one too
  .kit .hooks .said .seen .told   of an agent that sesh knows: see agents/

Of a session in a container, the files that the keeper and the agent's shell write or need are in a
shared directory, where processes in the container may forge them. All others stay outside.
"""

from __future__ import annotations

import os
import resource
import time
from contextlib import suppress
from datetime import UTC, datetime

from sesh.model.errors import ConflictError, SeshError, StateError, UsageError
from sesh.model.observation import ExitReport, LaunchReport
from sesh.model.place import Agent, Process
from sesh.model.record import Record
from sesh.model.text import parse
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import join, quote
from sesh.system import paths
from sesh.system.files import make_private, open_regular, read_regular, write_private, writing

WORD_SIZE = 128
_BLANK = b" " * (WORD_SIZE - 1) + b"\n"
KINDS = (
    *(".launch", ".pid", ".exit.tmp", ".exit", ".error", ".claim"),
    *(".care", ".check", ".health", ".beat", ".kit", ".hooks", ".said", ".seen"),
    ".told",
)
ARGUMENT_LIMIT = 128 * 1024 - 1  # of one argument: the kernel's MAX_ARG_STRLEN
_MARGIN = 60  # seconds at most by which the kernel's limit on processor time lies beyond ours

# No variable that is set here may be one of the agent's: SESH_* is the one kind that is never
# loaded, and that no image sets.
_LAUNCH = """\
exec 2>&3 3>&-
umask {umask}
[ -z "$BASH_VERSION" ] || shopt -s execfail
read -r SESH_LINE </proc/$$/stat
set -- ${{SESH_LINE##*) }}
SESH_AGENT="$$ ${{20}} $2 $4 $5"
SESH_SERVER=${{TMUX#*,}} SESH_SERVER=${{SESH_SERVER%%,*}}
read -r SESH_LINE </proc/$SESH_SERVER/stat
set -- ${{SESH_LINE##*) }}
printf '%-{width}s\\n' "$SESH_AGENT $TMUX_PANE $SESH_SERVER ${{20}}" 1<>{base}.pid
SESH_STEP=begin
trap {trap} EXIT
rm {base}.launch </dev/null 2>/dev/null || [ -e {base}.launch ] || exit 126
SESH_STEP=directory
cd {cwd} || exit 126
unset OLDPWD
SESH_STEP=environment
. {snapshot} || exit 126
{forget}SESH_STEP=command
{limits}export PWD
exec {command}
"""

_PANE = lazy(r"%[0-9]{1,9}")
# The most that each number of a launch file's word may be.
_LAUNCH_WORD = (parse.PID, parse.TICKS, parse.PID, parse.PID, parse.DEVICE, parse.PID, parse.TICKS)

_LIMITS = (
    ("n", resource.RLIMIT_NOFILE, 1),
    ("s", resource.RLIMIT_STACK, 1024),
    ("v", resource.RLIMIT_AS, 1024),
    ("t", resource.RLIMIT_CPU, 1),
)


def base(record: Record) -> str:
    return f"{record.place.run}/{record.launch}"


def mount_path(run: str, session_id: str) -> str:
    """The directory that a place elsewhere shares with this machine, or whose files are kept here:
    the private mount of a container, for example."""
    return f"{run}/{session_id}.box"


def mounts_left(run: str) -> bool:
    """Is there any such directory? Then a place may be left too."""
    try:
        return any(name.endswith(".box") for name in os.listdir(run))
    except OSError:
        return False


def mount_owner(path: str) -> str | None:
    """The id of the session whose private mount this is, by its name; None: it is no mount."""
    name = os.path.basename(path)
    return name.removesuffix(".box") if name.endswith(".box") else None


def own(record: Record) -> str:
    """The stem of the files of a launch that only sesh writes and believes."""
    return f"{record.place.private_run}/{record.launch}"


def stage(record: Record, command: tuple[str, ...], before: tuple[str, ...] = ()) -> None:
    """Write the files of a launch under names of our own: they need space, and the generation is
    not claimed yet. Another sesh may be about to launch the same one. `before` is what the command
    is an argument of."""
    make_private(record.place.run)
    script = _script(record, (*before, *command))
    files = {".pid": _BLANK, ".exit.tmp": _BLANK, ".launch": script.encode()}
    stem = base(record)
    for kind, data in files.items():
        write_private(_staged(stem, kind), data, durable=False)


def commit(record: Record) -> None:
    """The generation is ours: give its files their names."""
    stem = base(record)
    try:
        for kind in (".pid", ".exit.tmp", ".launch"):
            os.replace(_staged(stem, kind), stem + kind)
    except FileNotFoundError:
        raise ConflictError(f"{record.name} was removed by another sesh just now") from None


def withdraw(record: Record) -> bool:
    """Remove the launch file: an agent that has not begun yet never will. False: the file is not
    there, because the agent has begun, or another sesh has withdrawn it."""
    try:
        os.unlink(base(record) + ".launch")
    except OSError:  # a directory, say, which something in a container has made there
        return False
    return True


def keep_claim(record: Record, raw: bytes) -> None:
    """A copy of the record, should it be lost. An insurance: a disk that has no room for it is no
    reason not to launch."""
    with suppress(StateError):
        write_private(own(record) + ".claim", raw, durable=False)


def beat(record: Record) -> None:
    """The agent has said that it is at work."""
    path = f"{own(record)}.beat"
    with writing(path):
        os.close(open_regular(path, os.O_WRONLY | os.O_CREAT))
        os.utime(path)


def last_beat(record: Record) -> float:
    """When it has said so; 0: never. In a container, where there is no sesh, by touching a file."""
    place = record.place
    inside = () if place.run == place.private_run else (f"{place.run}/beat",)
    return max(map(_time_of, (f"{own(record)}.beat", *inside)))


def _time_of(path: str) -> float:
    try:
        return parse.moment(os.lstat(path).st_mtime, time.time())
    except OSError:
        return 0.0


def forget_exit(record: Record) -> None:
    """Take back the word that it has ended: it lives."""
    with suppress(FileNotFoundError, IsADirectoryError):  # forged, in a container
        os.unlink(base(record) + ".exit")


def remove_mount(directory: str) -> bool:
    """Delete the private mount of a place that is gone; False when not all of it could be
    deleted."""
    from sesh.system import directory_tree

    with suppress(FileNotFoundError):
        os.unlink(f"{directory}.clients")
    return directory_tree.remove(directory)


def write_word(run: str, session_id: str, word: LaunchReport) -> None:
    """Write the identity of an agent again: what its launch file wrote is lost."""
    agent, server = word.agent, word.server
    numbers = (agent.process.pid, agent.process.start, agent.keeper, agent.leader, agent.tty)
    text = " ".join(map(str, (*numbers, word.pane, server.pid, server.start)))
    path = f"{run}/{session_id}.{word.generation}.pid"
    write_private(path, text.ljust(WORD_SIZE - 1).encode() + b"\n", durable=False)
    os.utime(path, (word.at.timestamp(), word.at.timestamp()))


def reserve_exit(run: str, session_id: str, generation: int) -> None:
    """Make room again for the keeper's word, unless it is just being written."""
    stem = f"{run}/{session_id}.{generation}"
    if os.path.lexists(stem + ".exit"):
        return
    blank = f"{stem}.exit.tmp.{os.getpid()}"
    write_private(blank, _BLANK, durable=False)
    with suppress(FileExistsError):
        os.link(blank, stem + ".exit.tmp")
    os.unlink(blank)


def discard(record: Record) -> None:
    stem = base(record)
    for kind in (".pid", ".exit.tmp", ".launch"):
        with suppress(FileNotFoundError):
            os.unlink(_staged(stem, kind))


def _staged(stem: str, kind: str) -> str:
    return f"{stem}{kind}.{os.getpid()}"


def _script(record: Record, command: tuple[str, ...]) -> str:
    mask = os.umask(0o077)
    os.umask(mask)
    stem = quote(base(record))
    return _LAUNCH.format(
        umask=f"{mask:04o}",
        width=WORD_SIZE - 1,
        base=stem,
        trap=quote(f'umask 077; echo "$SESH_STEP" >{stem}.error'),
        cwd=quote(record.spec.cwd),
        snapshot=quote(record.place.snapshot),
        forget="",
        limits=_limits() + _processor_limit(record),
        command=join(command),
    )


def script_elsewhere(record: Record, command: tuple[str, ...], stem: str) -> str:
    """The same for a container: umask and limits are its own, and so are most variables; the given
    ones are removed once they are loaded."""
    stem = quote(stem)
    return _LAUNCH.format(
        umask="0022",
        width=WORD_SIZE - 1,
        base=stem,
        trap=quote(f'echo "$SESH_STEP" >{stem}.error'),
        cwd=quote(record.spec.cwd),
        snapshot=f"{stem}.env",
        forget=f"rm -f {stem}.env\n",
        limits=_processor_limit(record),
        command=join(command),
    )


def _limits() -> str:
    """The caller's soft limits: the agent is not the caller's child, it would get the server's."""
    lines = []
    for flag, limit, unit in _LIMITS:
        soft, _ = resource.getrlimit(limit)
        value = "unlimited" if soft == resource.RLIM_INFINITY else str(soft // unit)
        lines.append(f"ulimit -S -{flag} {value} 2>/dev/null\n")
    return "".join(lines)


def _processor_limit(record: Record) -> str:
    """If no pass looks in time, the kernel ends each process a little later."""
    supervision = record.spec.supervision
    if not supervision.max_cpu_time:
        return ""
    latest = int(supervision.max_cpu_time + min(2 * supervision.check_interval + 1, _MARGIN))
    return f"ulimit -S -t {latest} 2>/dev/null\n"


def check_command(command: tuple[str, ...]) -> None:
    """Refuse what could not arrive byte for byte."""
    for word in command:
        if "\0" in word:
            raise UsageError("an argument holds a NUL byte")
        try:
            size = len(word.encode())
        except UnicodeEncodeError:
            raise UsageError(
                "an argument is not valid UTF-8: a record can't hold it; use a script"
            ) from None
        if size > ARGUMENT_LIMIT:
            raise UsageError(
                f"an argument of {size} bytes is more than the system takes; use a file"
            )


def directory(given: str | None) -> str:
    """The whole path of the directory to run in; raises where that can't be."""
    try:
        path = os.path.abspath(given) if given is not None else os.getcwd()
    except FileNotFoundError:
        raise SeshError("the current directory is gone; choose one with -C DIR") from None
    if given == "":
        raise UsageError("-C: the directory's name is empty")
    if not os.path.isdir(path):
        raise SeshError(f"{given}: no such directory")
    if not os.access(path, os.X_OK):
        raise SeshError(f"{given or path}: no permission to enter that directory")
    try:
        path.encode()
    except UnicodeEncodeError:
        raise UsageError(
            "the directory's name is not valid UTF-8: a record can't hold it"
        ) from None
    return path


# A callback that finds a pass announced by another one leaves it to that pass. The announcement
# holds the pid of its process: if the same one is still there after a second, that process may have
# died, and one of the waiting callbacks announces the pass again. The others find its pid and exit.
# Called with a number, it is what was held in reserve for a pass: needed only if that one has not
# come to its end. A server that has just called us answers; `timeout` is for when the keeper did.
# On a full disk neither word can be left (`echo` may fail): the pass comes first.
_CALLBACK = """\
umask 077
again={again} reserve={reserve} known= now=
for word in "$again" "$reserve"; do [ ! -p "$word" ] || rm -f "$word"; done
if [ -n "$1" ] && [ "$1" != "$(cat "$reserve" 2>/dev/null)" ]; then exit; fi
if [ -e "$again" ]; then
  read -r known 2>/dev/null <"$again"
  sleep 1
  read -r now 2>/dev/null <"$again"
  [ -e "$again" ] && [ "$now" = "$known" ] || exit 0
fi
echo $$ >"$again"
{exports}if [ -O "${{TMUX%%,*}}" ]; then
  echo $$ >"$reserve"
  PATH="$PATH:/usr/local/bin:/opt/homebrew/bin" timeout 2 tmux -S "${{TMUX%%,*}}" \\
    run-shell -b -d 60 "#{{@sesh_callback}} $$ >/dev/null 2>&1 || :" </dev/null
fi
cd / && exec {command} pass
"""


def pass_announced(run: str) -> str:
    """The file by which a pass is announced; it holds the pid of the process that will run it."""
    return f"{run}/pass.again"


def reserve(run: str) -> str:
    """The file that stands while a pass that a server has called for is not at its end: should it
    die, the server calls once more in a minute."""
    return f"{run}/pass.reserve"


def write_callback(run: str, command: list[str]) -> str:
    """The script that makes sesh look: it carries the absolute paths that cron or a server's
    environment do not know."""
    path = f"{run}/callback"
    names = ("HOME", "PATH", "XDG_STATE_HOME", "XDG_CONFIG_HOME", "XDG_RUNTIME_DIR")
    exports = join([f"{name}={os.environ[name]}" for name in names if name in os.environ])
    text = _CALLBACK.format(
        again=quote(pass_announced(run)),
        reserve=quote(reserve(run)),
        exports=f"export {exports}\n" if exports else "",
        command=join(command),
    ).encode()
    try:
        if read_regular(path, 1 << 16) == text:
            return path
    except OSError:
        pass
    make_private(run)
    write_private(path, text, durable=False)
    return path


def words(
    record: Record, since: datetime | None = None
) -> tuple[LaunchReport | None, ExitReport | None]:
    """What the launch file and the keeper of this generation reported."""
    which = (record.place.run, record.id, record.place.generation, since)
    return read_launch(*which), read_exit(*which)


def read_launch(
    run: str, session_id: str, generation: int, since: datetime | None = None
) -> LaunchReport | None:
    """The launch file's word, or None while there is none. `since`: when it was launched."""
    word = _word(f"{run}/{session_id}.{generation}.pid", since)
    if word is None:
        return None
    fields, at = word
    if len(fields) != 8 or not _PANE.fullmatch(fields[5]):
        return None
    numbers = parse.numbers([*fields[:5], *fields[6:]], _LAUNCH_WORD)
    if numbers is None:
        return None
    pid, start, keeper, leader, tty, server, server_start = numbers
    agent = Agent(Process(pid, start), keeper, leader, tty)
    return LaunchReport(generation, agent, fields[5], Process(server, server_start), at)


def read_exit(
    run: str, session_id: str, generation: int, since: datetime | None = None
) -> ExitReport | None:
    """The keeper's word, or None while there is none. `since`: when it was launched."""
    stem = f"{run}/{session_id}.{generation}"
    word = _word(stem + ".exit", since)
    if word is None:
        return None
    fields, at = word
    if len(fields) != 2 or fields[1] not in ("here", "gone"):
        return None
    code = parse.number(fields[0], parse.STATUS)
    if code is None:
        return None
    return ExitReport(generation, code, fields[1] == "here", at, _problem(stem, code))


def _word(path: str, since: datetime | None) -> tuple[list[str], datetime] | None:
    """What a file says, and when it was written: in a container, where its time can be set to
    anything, not before the launch and not later than now. None while it says nothing."""
    try:
        text = read_regular(path, 4096).decode("ascii", errors="replace")
        if not text.strip():
            return None
        written = os.lstat(path).st_mtime
    except OSError:
        return None
    at = parse.moment(written, time.time(), since.timestamp() if since else 0.0)
    return text.split(), datetime.fromtimestamp(at, UTC)


def _problem(stem: str, code: int) -> str | None:
    try:
        step = read_regular(stem + ".error", 4096).strip()
    except OSError:
        return None
    if step == b"begin":
        return "no process could be started for it"
    if step == b"directory":
        return "its directory is gone or can't be entered"
    if step == b"environment":
        return "its saved environment can't be read"
    return "command not found" if code == 127 else "the command can't be executed"


def known(run: str, kind: str = ".pid") -> set[tuple[str, int]]:
    """Every launch (id, generation) that has a file of this kind in `run`."""
    try:
        names = [name for name in os.listdir(run) if name.endswith(kind)]
    except OSError:
        return set()
    launches = (name.removesuffix(kind).rpartition(".") for name in names)
    numbered = ((owner, parse.number(text, parse.GENERATION)) for owner, _, text in launches)
    return {(owner, launch) for owner, launch in numbered if owner and launch is not None}


def forget(record: Record, *, below: int | None = None) -> None:
    """Delete a session's per-launch files, those that it shares with its place too."""
    for directory in {record.place.run, record.place.private_run}:
        remove(directory, record.id, below=below)


def remove(run: str, session_id: str, *, below: int | None = None) -> None:
    """Delete a session's per-launch files, or those of the generations below one. Not the word of a
    health command: without it, no pass would end that."""
    with suppress(FileNotFoundError):
        for name in os.listdir(run):
            if not name.startswith(session_id + ".") or name.endswith(".check"):
                continue
            launch = parse.number(name.split(".")[1], parse.GENERATION)
            if below is None or (launch is not None and launch < below):
                with suppress(FileNotFoundError, IsADirectoryError):  # forged, in a container
                    os.unlink(f"{run}/{name}")


def make_transcript(session_id: str) -> str:
    """An empty, private transcript to append to."""
    path = paths.transcript(session_id)
    try:
        fd = open_regular(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.fchmod(fd, 0o600)
        os.close(fd)
    except OSError as error:
        raise StateError(f"cannot write {path}: {error.strerror}") from None
    return path
