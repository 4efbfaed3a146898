"""The box: what a session in a container has outside of it, and how files and words get in and out.

On this machine it is the directory `run/MACHINE/ID.box`, open to any user below a private one. It
is mounted into containers that sesh makes; into others, and on far engines, its files go through
the engine, and the words that come back are kept in it all the same: what reads them need not know.
What is in a mounted box may be forged by what runs in the container: regular files only, none
larger than a word, no link followed, not even to delete.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from contextlib import suppress
from shlex import quote

from sesh.model import parse
from sesh.model.errors import StateError
from sesh.model.pattern import lazy
from sesh.model.place import Container, Engine, InContainer
from sesh.model.record import Record, Spec
from sesh.model.units import amount
from sesh.places import environment, launch_files
from sesh.system import container_engine, directory_tree, files, paths, tmux
from sesh.system.container_engine import Facts, Said, Trouble
from sesh.system.subprocesses import NOTHING, PIPE

MOUNT = "/run/sesh"  # where a box is mounted
LABEL = "sesh.id"
LOG = "/run/sesh.log"  # where the transcript is
_LINE = lazy(r"(pid|exit|error) ([0-9]+) ([0-9]*) ?(.*)")
LIMIT = 64 << 20  # bytes: a mount that holds more, or more files than are counted, is reported
_OPEN = 0o666  # below a directory that nobody else can enter

# Prints what is known of one launch, a line each; its status says whether the agent lives.
_WORDS = """\
for kind in pid exit error; do
  file={base}.$kind line= at=
  [ -f "$file" ] && read -r line <"$file" && at=$(stat -c %Y "$file" 2>/dev/null)
  echo "$kind {generation} $at $line"
done
[ ! -e {base}.exit ] && read -r pid rest <{base}.pid && [ -d "/proc/$pid" ] &&
  echo "alive {generation}"
"""

# Signals whatever carries the session's marker; prints who that is. (No `grep -F`: busybox's ends
# at the first NUL.) Asked to end, a shell with a person in front (it ignores TSTP and TTOU) gets a
# HUP too: it ignores TERM.
_REAP = """\
for file in $(grep -l "SESH_ID=$1" /proc/[0-9]*/environ 2>/dev/null); do
  pid=${file#/proc/} pid=${pid%/environ}
  [ "$2" = 0 ] || kill -"$2" "$pid" 2>/dev/null || continue
  echo "$pid"
  [ "$2" = 15 ] || continue
  while read -r key value; do
    [ "$key" = SigIgn: ] && [ $((0x$value >> 19 & 0x$value >> 21 & 1)) = 1 ] && kill -1 "$pid"
  done <"/proc/$pid/status"
  kill -18 "$pid"
done 2>/dev/null
exit 0
"""


def patience(spec: Spec) -> float:
    """How long the agent may take to begin, as it was asked for. What is recorded counts from the
    claim on: it holds what the engine may take for a container, too (see `ordering`), unless the
    record was rebuilt."""
    whole = spec.launch_timeout
    return (
        whole - container_engine.RUN_TIMEOUT
        if spec.box and whole > container_engine.RUN_TIMEOUT
        else whole
    )


def place(record: Record) -> InContainer:
    """The place of a record that is known to be in a container."""
    assert isinstance(record.place, InContainer)
    return record.place


def container_of(record: Record) -> Container:
    """Its container, which is known by now."""
    container = place(record).container
    assert container is not None
    return container


def container_name(name: str) -> str:
    return f"sesh-{name}"


def path(run: str, session_id: str) -> str:
    return f"{run}/{session_id}.box"


def left(run: str) -> bool:
    """Is there any box, so that containers may be left too?"""
    try:
        return any(name.endswith(".box") for name in os.listdir(run))
    except OSError:
        return False


def overfull(held: directory_tree.Measure) -> str | None:
    """How much is in a mount, if that is more than belongs there."""
    if held.size > LIMIT:
        return f"more than {amount(LIMIT)}"
    most, deepest = directory_tree.MOST, directory_tree.DEEPEST
    too_many = f"more than {most} files, or directories over {deepest} levels deep"
    return None if held.whole else too_many


def home(session_id: str) -> str:
    """Inside: where its tmux socket is, and all else where nothing is mounted."""
    return f"/tmp/.sesh-{session_id[-8:]}"


def inside(record: Record) -> str:
    """Inside: the directory of its launches."""
    return MOUNT if container_of(record).mounted else home(record.id)


def base(record: Record) -> str:
    return f"{inside(record)}/{record.launch}"


def log(record: Record) -> str:
    """Inside: where its output goes."""
    return LOG if container_of(record).mounted else f"{home(record.id)}/log"


def make(record: Record) -> None:
    """The directory on this machine."""
    files.make_private(os.path.dirname(record.place.run))
    with suppress(FileExistsError):
        os.mkdir(record.place.run)
    os.chmod(record.place.run, 0o777)
    os.chmod(launch_files.make_transcript(record.id), _OPEN)


def stands(record: Record, engine: Engine, container_id: str, timeout: float) -> bool:
    """Is it what is mounted in a running container? A directory that was deleted under a mount and
    made again is another one."""
    token = f".{os.urandom(8).hex()}"
    path = f"{record.place.run}/{token}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        look = ("sh", "-c", f"[ -e {MOUNT}/{token} ]")
        return container_engine.ask(engine, "exec", container_id, *look, timeout=timeout).ok
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


def remove(directory: str) -> bool:
    """Delete a box whose container is gone; False when something in it is not ours to delete."""
    with suppress(FileNotFoundError):
        os.unlink(f"{directory}.clients")
    return directory_tree.remove(directory)


# --- files for a launch --------------------------------------------------------------------------


def fill(
    record: Record,
    variables: environment.Environment,
    command: tuple[str, ...],
    kit: Mapping[str, bytes],
    timeout: float,
) -> Said:
    """Put in what a launch of this command needs; `kit`: the files of its agent, by their ends."""
    stem = record.launch
    blank = b" " * (launch_files.WORD_SIZE - 1) + b"\n"
    contents = {
        f"{stem}.pid": blank,
        f"{stem}.exit.tmp": blank,
        f"{stem}.env": environment.exports(variables),
        f"{stem}.launch": launch_files.boxed_script(record, command, base(record)).encode(),
        **{f"{stem}{ending}": data for ending, data in kit.items()},
        **_tools(record),
    }
    if not container_of(record).mounted:
        return _push(record, contents, timeout)
    directory = os.open(record.place.run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, data in contents.items():
            _put(directory, name, data)
    finally:
        os.close(directory)
    return Said("")


def equip(record: Record, timeout: float) -> Said:
    """Put in again what every look needs, where the mount that held it is dead; and what was
    printed until now: the transcript continues from there."""
    said = _push(record, _tools(record), timeout)
    if not said.ok:
        return said
    copy = f"[ -e {log(record)} ] || cat {LOG} >{log(record)} 2>/dev/null || :"
    return run_inside(record, "sh", "-c", copy, timeout=timeout)


def hook(record: Record) -> list[str]:
    """How an agent in there leaves word of an event."""
    return ["sh", f"{inside(record)}/hook.sh", base(record)]


def _tools(record: Record) -> dict[str, bytes]:
    words = _WORDS.format(base=quote(base(record)), generation=record.place.generation)
    tools = {
        "keeper.sh": _shipped("places/keeper.sh"),
        "words.sh": words.encode(),
        "tmux.conf": tmux.config_text("screen-256color").encode(),
    }
    return {**tools, "hook.sh": _shipped("places/docker/hook.sh")} if record.spec.kit else tools


def _shipped(name: str) -> bytes:
    with open(paths.package_file(name), "rb") as file:
        return file.read()


def _put(directory: int, name: str, data: bytes) -> None:
    """Write a file where others may write too: never through a link that one of them has put."""
    temp = f".{name}.{os.urandom(4).hex()}"
    with files.writing(name):
        how = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        fd = os.open(temp, how, 0o600, dir_fd=directory)
        try:
            os.fchmod(fd, _OPEN)
            files.write_all(fd, data)
        finally:
            os.close(fd)
        try:
            os.replace(temp, name, src_dir_fd=directory, dst_dir_fd=directory)
        except IsADirectoryError:  # the agent has put it there
            directory_tree.remove_in(directory, name)
            os.replace(temp, name, src_dir_fd=directory, dst_dir_fd=directory)


def _push(record: Record, contents: dict[str, bytes], timeout: float) -> Said:
    """Hand files over as a shell script: nothing else is sure to be in there."""
    end = f"END-{os.urandom(8).hex()}"
    begin = f"umask 022; mkdir -p -m 700 {home(record.id)} && cd {home(record.id)} || exit 1\n"
    script = begin.encode()
    for name, data in contents.items():
        whole = data if data.endswith(b"\n") else data + b"\n"
        here = b"rm -rf %s; cat >%s <<'%s' || exit 1\n%s%s\n"
        file = quote(name).encode()
        script += here % (file, file, end.encode(), whole, end.encode())
    fd = os.memfd_create("sesh-box", os.MFD_CLOEXEC)
    try:
        files.write_all(fd, script)
        os.lseek(fd, 0, os.SEEK_SET)
        return run_inside(record, "sh", timeout=timeout, stdin=fd)
    finally:
        os.close(fd)


def forget_variables(record: Record) -> None:
    """The agent has them by now, or never will."""
    with suppress(OSError):
        os.unlink(f"{record.place.run}/{record.launch}.env")


def run_inside(
    record: Record, *argv: str, timeout: float, stdin: int = NOTHING, stdout: int = PIPE
) -> Said:
    """Run something in its container, as the session's user."""
    how = ("-i",) if stdin != NOTHING else ()
    whole = ("exec", *how, *as_user(record), container_of(record).id, *argv)
    return container_engine.ask(
        place(record).engine, *whole, timeout=timeout, stdin=stdin, stdout=stdout
    )


def as_user(record: Record) -> tuple[str, ...]:
    box = record.spec.box
    return ("--user", box.user) if box and box.user else ()


# --- words ---------------------------------------------------------------------------------------


def look_inside(record: Record, timeout: float) -> str | Said:
    """The words of a launch, fetched through the engine."""
    said = run_inside(record, "sh", f"{inside(record)}/words.sh", timeout=timeout)
    return said.out if said.ok or _LINE.search(said.out) else said


def refresh(record: Record, timeout: float) -> None:
    """Fetch the words where no mount brings them."""
    container = place(record).container
    if container is not None and not container.mounted:
        said = look_inside(record, timeout)
        if isinstance(said, str):
            keep_words(record, said)


def says_alive(record: Record, said: str) -> bool:
    return f"alive {record.place.generation}" in said.splitlines()


def keep_words(record: Record, said: str) -> bool:
    """Keep words of this generation as the keeper would have written them. Was there any?"""
    found = False
    for line in said[:4096].splitlines():
        match = _LINE.fullmatch(line.rstrip())
        if match is None or match[2] != str(record.place.generation):
            continue
        found = True
        kind, _, at, word = match.groups()
        if word:
            _keep_word(f"{record.place.run}/{record.launch}.{kind}", word, at)
    return found


def _keep_word(file: str, word: str, at: str) -> None:
    with suppress(OSError):
        if files.read_regular(file, 4096).decode(errors="replace").split() == word.split():
            return
    with suppress(StateError):  # something else is in its place: then there is no word
        files.write_private(file, word.encode(errors="replace") + b"\n", durable=False)
        seconds = parse.number(at, int(time.time()))
        if seconds is not None:
            os.utime(file, (seconds, seconds))


def reap(record: Record, signal: int, timeout: float) -> list[int] | Said:
    """Signal (0: only look for) whatever carries the session's marker in there; its pids. As the
    session's own user, whose environments not even root can read in there; and by a script from
    here: one that lies in there may be anybody's."""
    script = ("sh", "-c", _REAP, "reap", record.id, str(int(signal)))
    said = run_inside(record, *script, timeout=timeout)
    if not said.ok:
        return said
    told = (parse.number(word, parse.PID) for word in said.out.split())
    return [pid for pid in told if pid is not None]


def pull_transcript(record: Record, timeout: float) -> Said:
    """Bring what was printed since the last time, where no mount does."""
    container = place(record).container
    if container is None or container.mounted:
        return Said("")
    target = paths.transcript(record.id)
    fd = files.open_regular(target, os.O_WRONLY | os.O_APPEND)
    try:
        tail = ("tail", "-c", f"+{os.fstat(fd).st_size + 1}", log(record))
        return run_inside(record, *tail, timeout=timeout, stdout=fd)
    finally:
        os.close(fd)


def leave(record: Record, timeout: float) -> None:
    """Take what a session has put into a container that stays."""
    container = place(record).container
    if container is not None and not container.made:
        inner = home(record.id)
        script = f"tmux -S {inner}/tmux.sock kill-session -t ={record.name}; rm -rf {inner}"
        run_inside(record, "sh", "-c", script, timeout=timeout)


def remove_container(record: Record, timeout: float) -> Said:
    """Remove every container that sesh has made for a session, also one that was never started, and
    say which. Not all done: the reply that says why."""
    engine = place(record).engine
    found = container_engine.labelled(engine, f"{LABEL}={record.id}", timeout)
    if isinstance(found, Said):
        return found
    own = [facts.id for facts in found if made_for(record, facts)]
    for container in own:
        said = _remove_one(engine, container)
        if not said.ok:
            return said
    return Said(" ".join(own))


def _remove_one(engine: Engine, container_id: str) -> Said:
    """Remove a container, or see it go when another sesh (a pass, say) removes it just now."""
    deadline = time.monotonic() + container_engine.STOP_TIMEOUT
    while True:
        said = container_engine.ask(
            engine, "rm", "--force", container_id, timeout=container_engine.STOP_TIMEOUT
        )
        if said.trouble is Trouble.NO_CONTAINER:
            return Said("")
        if "already in progress" not in said.text or time.monotonic() > deadline:
            return said
        time.sleep(0.1)


def made_for(record: Record, facts: Facts) -> bool:
    """Is it proven that sesh has made this container for this session? Labels prove nothing: an
    image that was made of one of ours (`docker commit`) gives them to each container of it. By the
    id and the creation that are recorded; before they are, by all that its making would show."""
    box = record.spec.box
    if box is None or box.image is None or not _names(record, facts):
        return False
    container = place(record).container
    if container is not None:
        return facts.id == container.id and _same_moment(container.created, facts.created)
    return as_asked(record, facts)


def _same_moment(recorded: str, told: str) -> bool:
    """In any zone; what was recorded by an older version has none."""
    return recorded in ("", told) or container_engine.moment(recorded) == container_engine.moment(
        told
    )


def as_asked(record: Record, facts: Facts) -> bool:
    """Could it be what this launch has made: its name, its image, created since it was claimed?"""
    box = record.spec.box
    if facts.name != container_name(record.name) or not box or not _is_image(facts, box.image):
        return False
    if container_engine.far(place(record).engine):
        return True  # by another clock
    created = container_engine.moment(facts.created)
    return created is not None and created >= record.status.launched


def _names(record: Record, facts: Facts) -> bool:
    """Do its labels name this session, of this state directory?"""
    run = os.path.dirname(record.place.run)
    return (facts.labels.get(LABEL), facts.labels.get("sesh.run")) == (record.id, run)


def _is_image(facts: Facts, image: str | None) -> bool:
    """podman says the whole name of an image."""
    found, wanted = (name.removesuffix(":latest") for name in (facts.image, image or ""))
    return found == wanted or found.endswith(f"/{wanted}")
