"""The files that a session in a container shares with this machine, and how they get in and out.

On this machine they are in `run/MACHINE/ID.box`: open to any user, below a private directory. sesh
mounts it into containers that it creates. For other containers, and on engines of other machines,
files go through the engine; the launch's files that come back are kept there too, so that readers
see no difference. What runs in the container may forge files in the mount: only regular files are
read, no larger than expected, and no link is followed, not even to delete.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress

from sesh.model.place import Container, Engine, InContainer
from sesh.model.record import Record, Spec
from sesh.model.text.units import amount
from sesh.places import environment, launch_files, remote
from sesh.system import container_engine, directory_tree, files
from sesh.system.subprocesses import NOTHING, PIPE, Reply

MOUNT = "/run/sesh"  # inside: where the directory is mounted
LOG = "/run/sesh.log"  # inside: where the transcript is mounted
LIMIT = 64 << 20  # bytes: a mount that holds more, or more files than are counted, is reported
_OPEN = 0o666  # below a directory that no other user can enter


def patience(spec: Spec) -> float:
    """How long the agent may take to begin, as requested. The recorded timeout counts from the
    claim and includes the time for creating a container, unless the record was rebuilt."""
    whole, creation = spec.launch_timeout, container_engine.RUN_TIMEOUT
    return whole - creation if spec.box and whole > creation else whole


def place(record: Record) -> InContainer:
    """The place of a record that is known to be in a container."""
    assert isinstance(record.place, InContainer)
    return record.place


def container_of(record: Record) -> Container:
    """Its container, which is known by now."""
    container = place(record).container
    assert container is not None
    return container


def overfull(held: directory_tree.Measure) -> str | None:
    """How much is in a mount, if that is too much."""
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
    """Is the directory mounted in a running container? One that was deleted under the mount and
    created again is another directory."""
    token = f".{os.urandom(8).hex()}"
    path = f"{record.place.run}/{token}"
    os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    try:
        look = ("sh", "-c", f"[ -e {MOUNT}/{token} ]")
        return container_engine.ask(engine, "exec", container_id, *look, timeout=timeout).ok
    finally:
        with suppress(FileNotFoundError):
            os.unlink(path)


# --- files for a launch --------------------------------------------------------------------------


def fill(
    record: Record,
    variables: environment.Environment,
    command: tuple[str, ...],
    kit: Mapping[str, bytes],
    timeout: float,
) -> Reply:
    """Put in the files of a launch of this command; `kit`: those of its agent, by their endings."""
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
    """Put in the tools and the transcript again, where the mount that held them is dead: the
    transcript continues from there."""
    tools = remote.tools(record, base(record))
    said = remote.push(run_inside, record, tools, timeout)
    if not said.ok:
        return said
    copy = f"[ -e {log(record)} ] || cat {LOG} >{log(record)} 2>/dev/null || :"
    return run_inside(record, "sh", "-c", copy, timeout=timeout)


def _put(directory: int, name: str, data: bytes) -> None:
    """Write a file into a directory that other users can write to, never through a link."""
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
        except IsADirectoryError:  # which the agent made
            directory_tree.remove_in(directory, name)
            os.replace(temp, name, src_dir_fd=directory, dst_dir_fd=directory)


def run_inside(
    record: Record, *argv: str, timeout: float, stdin: int = NOTHING, stdout: int = PIPE
) -> Reply:
    """Run a command in its container, as the session's user."""
    how = ("-i",) if stdin != NOTHING else ()
    whole = ("exec", *how, *as_user(record), container_of(record).id, *argv)
    return container_engine.ask(
        place(record).engine, *whole, timeout=timeout, stdin=stdin, stdout=stdout
    )


def as_user(record: Record) -> tuple[str, ...]:
    box = record.spec.box
    return ("--user", box.user) if box and box.user else ()
