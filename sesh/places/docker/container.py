"""The container of a session: checked, created or found, and prepared for use.

A container that sesh creates carries labels with the whole record of its session; one that existed
before is used and never removed.
"""

from __future__ import annotations

import os
from contextlib import suppress

from sesh.model import codec
from sesh.model.configuration import Config
from sesh.model.errors import ConflictError, SeshError
from sesh.model.place import Container, ContainerRequest, Engine, InContainer
from sesh.model.record import Record, Spec
from sesh.model.text import quick_json
from sesh.model.value_object import replace
from sesh.places import environment, launch_files, remote
from sesh.places.docker import observe, ownership, session_files
from sesh.system import container_engine, files, git, paths, processes, tmux
from sesh.system.container_engine import Facts, Trouble
from sesh.system.subprocesses import Reply

_LABEL_LIMIT = 60_000  # bytes: docker reads no longer lines
_MAIN = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
_HEALTH_EVERY = "5s"  # how old the report of an agent on another machine may be
_PREPARE = (
    "command -v tmux >/dev/null || {{ echo no tmux >&2; exit 1; }}; "
    "tmux -V && mkdir -p -m 700 {home}"
)
_NO_HOME = (
    "{0}: /tmp is not writable in the container: {1}; sesh needs it for a tmux socket; "
    "next: --docker-opt --tmpfs=/tmp"
)
_NO_TMUX = (
    "{0} has no tmux; add it to the image (Debian, Ubuntu: apt-get install -y tmux; "
    "Alpine: apk add tmux)"
)


def checked(spec: Spec, box: ContainerRequest, engine: Engine, config: Config) -> Spec:
    """The request, if the engine can meet it; its directory is the image's where none is given and
    none is mounted."""
    timeout = config.docker.timeout
    if box.existing is not None:
        facts = existing(engine, box.existing, timeout)
        return spec if spec.cwd else replace(spec, cwd=facts.directory)
    assert box.image is not None
    directory = container_engine.directory_of(engine, box.image, timeout)
    if isinstance(directory, Reply):
        if directory.trouble is Trouble.NO_IMAGE:
            raise SeshError(
                f"no local image {box.image}; next: docker pull {box.image}, or start with --pull"
            )
        raise container_engine.problem(engine, directory)
    return spec if spec.cwd else replace(spec, cwd=directory)


def find(engine: Engine, name: str, timeout: float) -> Facts | None:
    """The container of this name or id; None when it is gone."""
    found = container_engine.inspect(engine, [name], timeout)
    if isinstance(found, Reply):
        raise container_engine.problem(engine, found)
    return next(iter(found.values()), None)


def existing(engine: Engine, name: str, timeout: float) -> Facts:
    facts = find(engine, name, timeout)
    if facts is None:
        raise SeshError(f"no container {name}; next: docker ps")
    if facts.paused:
        raise ConflictError(f"the container {name} is paused; next: docker unpause {name}")
    if not facts.running:
        raise SeshError(f"the container {name} is not running; next: docker start {name}")
    return facts


def place_of(identity: str, generation: int, engine: Engine, run: str, spec: Spec) -> InContainer:
    return InContainer(
        generation=generation,
        machine=processes.here(),
        run=launch_files.mount_path(run, identity),
        snapshot=environment.snapshot_path(identity, run),
        socket=f"{remote.home(identity)}/tmux.sock",
        branch=git.branch(spec.cwd) if spec.box and spec.box.mount else None,
        engine=engine,
    )


def facts_of(record: Record, config: Config) -> Facts | None:
    """The facts about its container; None when it is gone."""
    known = session_files.container_of(record)
    return find(session_files.place(record).engine, known.id, config.docker.timeout)


# --- a new container -----------------------------------------------------------------------------


def make(record: Record, box: ContainerRequest, engine: Engine, config: Config) -> Facts:
    """Create a container, and prove that it runs."""
    labels = f"{record.place.run}.labels"
    files.write_private(labels, _labels(record), durable=False)
    try:
        argv = _run_argv(record, box, labels, far=container_engine.far(engine))
        said = container_engine.ask(engine, *argv, timeout=container_engine.RUN_TIMEOUT)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(labels)
    if said.trouble is Trouble.NAME_TAKEN:
        raise _name_taken(record, engine, config)
    made = container_engine.checked(engine, said)
    facts = find(engine, made.out.strip(), config.docker.timeout * 2)
    if facts is None or not facts.running:
        raise SeshError(
            f"a container of {box.image} exits at once; does it have /bin/sh and sleep?"
        )
    return facts


def _labels(record: Record) -> bytes:
    """The whole record: if it is lost here, it can be rebuilt from there. (In a file: all users can
    see a command line.)"""
    labels = {
        ownership.LABEL: record.id,
        "sesh.name": record.name,
        "sesh.machine": record.place.machine.id,
        "sesh.run": os.path.dirname(record.place.run),
        "sesh.claim": quick_json.dumps(codec.encode(record).decode()),
    }
    lines = [f"{key}={value}".encode() for key, value in labels.items()]
    return b"".join(line + b"\n" for line in lines if len(line) < _LABEL_LIMIT)


def _run_argv(record: Record, box: ContainerRequest, labels: str, *, far: bool) -> list[str]:
    assert box.image is not None
    name = ownership.container_name(record.name)
    argv = ["run", "--detach", "--init", "--pull", "never", "--name", name]
    argv += ["--label-file", labels, "--workdir", record.spec.cwd]
    if far:
        argv += ["--health-cmd", f"sh {remote.home(record.id)}/words.sh"]
        argv += ["--health-interval", _HEALTH_EVERY, "--health-retries", "1"]
    else:
        argv += _mount("bind", record.place.run, session_files.MOUNT)
        argv += _mount("bind", paths.transcript(record.id), session_files.LOG)
    if box.mount:
        argv += _mount("bind", record.spec.cwd, record.spec.cwd)
    for mount in box.mounts:
        source, target, mode = mount.split(":")
        kind = "bind" if source.startswith("/") else "volume"
        argv += _mount(kind, source, target, read_only=mode == "ro")
    limit = str(record.spec.supervision.max_memory) if record.spec.supervision.max_memory else None
    for option in ("user", "network", "memory", "cpus"):
        value = getattr(box, option) or (limit if option == "memory" else None)
        argv += [f"--{option}", value] if value is not None else []
    return [*argv, *box.options, "--entrypoint", "/bin/sh", box.image, "-c", _MAIN]


def _mount(kind: str, source: str, target: str, *, read_only: bool = False) -> list[str]:
    """A mount, quoted as CSV: a directory's name may hold commas and quotes."""
    fields = [f"type={kind}", f"src={source}", f"dst={target}", *(["readonly"] * read_only)]
    quoted = [field.replace('"', '""') for field in fields]
    return ["--mount", ",".join(f'"{field}"' for field in quoted)]


def _name_taken(record: Record, engine: Engine, config: Config) -> SeshError:
    name = ownership.container_name(record.name)
    found = container_engine.inspect(engine, [name], config.docker.timeout)
    facts = None if isinstance(found, Reply) else next(iter(found.values()), None)
    run = facts.labels.get("sesh.run") if facts else None
    if run == processes.run_dir():
        return ConflictError(
            f"the container {name} belongs to a session whose record is lost; "
            f"next: sesh adopt {record.name}, or docker rm --force {name}"
        )
    if run:
        where = os.path.dirname(os.path.dirname(run))
        return ConflictError(
            f"the container {name} belongs to a session of another state directory, {where}; "
            "choose another name"
        )
    return ConflictError(
        f"a container named {name} exists that sesh did not create; choose another name"
    )


# --- a running container -------------------------------------------------------------------------


def container_of(facts: Facts, record: Record, *, mounted: bool) -> Container:
    box, engine = record.spec.box, session_files.place(record).engine
    assert box is not None
    init = observe.near(facts)
    return Container(
        id=facts.id,
        name=facts.name,
        started=facts.started,
        created=facts.created,
        made=box.existing is None,
        mounted=mounted,
        init=None if container_engine.far(engine) else init,
        freezer=observe.freezer(init.pid) if init else None,
        ooms=observe.ooms(init.pid) if init else 0,
    )


def prepare(record: Record, config: Config) -> None:
    """Check that it has tmux, and make the directory of its socket."""
    engine, box = session_files.place(record).engine, record.spec.box
    assert box is not None
    script = _PREPARE.format(home=remote.home(record.id))
    said = session_files.run_inside(record, "sh", "-c", script, timeout=config.docker.timeout * 4)
    where = box.image or f"the container {box.existing}"
    if said.ok:
        old = tmux.too_old(said.out.strip())
        if old:
            raise SeshError(f"{where}: {old}")
        return
    if "no tmux" in said.text:
        raise SeshError(_NO_TMUX.format(where))
    if "mkdir: " in said.text:
        raise SeshError(_NO_HOME.format(where, said.text.rpartition(": ")[2]))
    if said.trouble is Trouble.NO_PROGRAM:
        raise SeshError(f"{where} has no sh; sesh needs sh and tmux in it")
    if "UTF-8" in said.text:
        raise SeshError(f"tmux in {where} finds no UTF-8 locale; add C.UTF-8 to the image")
    raise container_engine.problem(engine, said)
