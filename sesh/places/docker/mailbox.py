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

from sesh.model.place import Container, Engine, InContainer
from sesh.model.record import Record, Spec
from sesh.model.text.units import amount
from sesh.places import environment, launch_files, remote
from sesh.system import container_engine, directory_tree, files
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import NOTHING, PIPE, Reply

MOUNT = "/run/sesh"  # where a box is mounted
LABEL = "sesh.id"
LOG = "/run/sesh.log"  # where the transcript is
LIMIT = 64 << 20  # bytes: a mount that holds more, or more files than are counted, is reported
_OPEN = 0o666  # below a directory that nobody else can enter


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


def inside(record: Record) -> str:
    """Inside: the directory of its launches."""
    return MOUNT if container_of(record).mounted else remote.home(record.id)


def base(record: Record) -> str:
    return f"{inside(record)}/{record.launch}"


def log(record: Record) -> str:
    """Inside: where its output goes."""
    return LOG if container_of(record).mounted else f"{remote.home(record.id)}/log"


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
) -> Reply:
    """Put in what a launch of this command needs; `kit`: the files of its agent, by their ends."""
    contents = remote.launch_contents(record, base(record), variables, command, kit)
    if not container_of(record).mounted:
        return remote.push(run_inside, record, contents, timeout)
    directory = os.open(record.place.run, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        for name, data in contents.items():
            _put(directory, name, data)
    finally:
        os.close(directory)
    return Reply("")


def equip(record: Record, timeout: float) -> Reply:
    """Put in again what every look needs, where the mount that held it is dead; and what was
    printed until now: the transcript continues from there."""
    tools = remote.tools(record, base(record))
    said = remote.push(run_inside, record, tools, timeout)
    if not said.ok:
        return said
    copy = f"[ -e {log(record)} ] || cat {LOG} >{log(record)} 2>/dev/null || :"
    return run_inside(record, "sh", "-c", copy, timeout=timeout)


def hook(record: Record) -> list[str]:
    """How an agent in there leaves word of an event."""
    return ["sh", f"{inside(record)}/hook.sh", base(record)]


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


def forget_variables(record: Record) -> None:
    """The agent has them by now, or never will."""
    with suppress(OSError):
        os.unlink(f"{record.place.run}/{record.launch}.env")


def run_inside(
    record: Record, *argv: str, timeout: float, stdin: int = NOTHING, stdout: int = PIPE
) -> Reply:
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


def look_inside(record: Record, timeout: float) -> str | Reply:
    return remote.look(run_inside, record, base(record), timeout)


def refresh(record: Record, timeout: float) -> None:
    """Fetch the words where no mount brings them."""
    container = place(record).container
    if container is not None and not container.mounted:
        remote.refresh(run_inside, record, base(record), timeout)


def reap(record: Record, signal: int, timeout: float) -> list[int] | Reply:
    return remote.reap(run_inside, record, signal, timeout)


def pull_transcript(record: Record, timeout: float) -> Reply:
    """Bring what was printed since the last time, where no mount does."""
    container = place(record).container
    if container is None or container.mounted:
        return Reply("")
    return remote.pull_transcript(run_inside, record, log(record), timeout)


def leave(record: Record, timeout: float) -> None:
    """Remove our files from a container that sesh does not own."""
    container = place(record).container
    if container is not None and not container.made:
        remote.leave(run_inside, record, timeout)


def remove_container(record: Record, timeout: float) -> Reply:
    """Remove every container that sesh has made for a session, also one that was never started, and
    say which. Not all done: the reply that says why."""
    engine = place(record).engine
    found = container_engine.labelled(engine, f"{LABEL}={record.id}", timeout)
    if isinstance(found, Reply):
        return found
    own = [facts.id for facts in found if made_for(record, facts)]
    for container in own:
        said = _remove_one(engine, container)
        if not said.ok:
            return said
    return Reply(" ".join(own))


def _remove_one(engine: Engine, container_id: str) -> Reply:
    """Remove a container, or see it go when another sesh (a pass, say) removes it just now."""
    deadline = time.monotonic() + container_engine.STOP_TIMEOUT
    while True:
        said = container_engine.ask(
            engine, "rm", "--force", container_id, timeout=container_engine.STOP_TIMEOUT
        )
        if said.trouble is Trouble.NO_CONTAINER:
            return Reply("")
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
