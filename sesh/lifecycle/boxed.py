"""Sessions in containers: make the container, launch in it, bring it down, remove it.

A container that sesh has made is found again by its labels, whatever is lost here; one that existed
before is used and never removed. A start that fails leaves none behind.
"""

from __future__ import annotations

import json
import os
import time
from contextlib import suppress
from datetime import timedelta

from sesh import (
    boxes,
    codec,
    containers,
    engines,
    environment,
    files,
    git,
    launchfiles,
    observe,
    paths,
    processes,
    store,
    tmux,
)
from sesh.config import Config
from sesh.engines import Facts, Said, Trouble
from sesh.errors import CannotTellError, ConflictError, SeshError
from sesh.lifecycle import claims, panes
from sesh.lifecycle.claims import Order
from sesh.lifecycle.forget import bury
from sesh.lifecycle.launch import (
    LaunchError,
    forget_files,
    into_tmux,
    judge_launch,
    now,
    record_failure,
)
from sesh.look import Seen
from sesh.model import Boxing, Container, Engine, Place, Record, Spec
from sesh.store import Entry
from sesh.tmux import Keeper, Reply
from sesh.values import replace

KEEPER_PATIENCE = 1.0  # seconds from an agent's end to its keeper's word
_LABEL_LIMIT = 60_000  # bytes: docker reads no longer lines
_MAIN = 'trap "exit 0" TERM INT; while :; do sleep 3600 & wait $!; done'
_HEALTH_EVERY = "5s"  # how old the word of an agent on a far engine may be
_PREPARE = (
    "command -v tmux >/dev/null || {{ echo no tmux >&2; exit 1; }}; "
    "tmux -V && mkdir -p -m 700 {home}"
)
_NO_TMUX = (
    "{0} has no tmux; add it to the image (Debian, Ubuntu: apt-get install -y tmux; "
    "Alpine: apk add tmux)"
)


# --- start ---------------------------------------------------------------------------------------


def start(order: Order, config: Config) -> Seen:
    """Start a new session in a container and see that it runs."""
    store.prepare()
    engine = engines.chosen(config)
    assert order.spec.box is not None
    spec = _checked(order.spec, order.spec.box, engine, config)
    before = claims.free_name(order.name)
    record = _new_record(replace(order, spec=spec), engine)
    try:
        environment.save_text(record.place.snapshot, environment.exports(order.environment))
        boxes.make(record)
        entry = store.claim(record, claims.starting(record), before.entry if before else None)
    except BaseException:
        _forget(record)
        raise
    try:
        if before and before.session:
            bury(before.session.record, config)
        return _begin(entry, record, order.environment, config, "started")
    except LaunchError:
        boxes.remove_container(record, config.docker.timeout * 2)
        raise
    except BaseException:
        boxes.remove_container(record, config.docker.timeout * 2)
        _take_back(record)
        raise


def _checked(spec: Spec, box: Boxing, engine: Engine, config: Config) -> Spec:
    """What was asked for, if the engine has it; its directory is the image's where none is given
    and none is mounted."""
    timeout = config.docker.timeout
    if box.existing is not None:
        facts = _existing(engine, box.existing, timeout)
        return spec if spec.cwd else replace(spec, cwd=facts.directory)
    assert box.image is not None
    directory = engines.directory_of(engine, box.image, timeout)
    if isinstance(directory, Said):
        if directory.trouble is Trouble.NO_IMAGE:
            raise SeshError(
                f"no image {box.image} here; docker pull {box.image}, or start with --pull"
            )
        raise engines.problem(engine, directory)
    return spec if spec.cwd else replace(spec, cwd=directory)


def _existing(engine: Engine, name: str, timeout: float) -> Facts:
    found = engines.inspect(engine, [name], timeout)
    if isinstance(found, Said):
        raise engines.problem(engine, found)
    facts = next(iter(found.values()), None)
    if facts is None:
        raise SeshError(f"no container {name}; docker ps shows those that run")
    if facts.paused:
        raise ConflictError(f"the container {name} is paused; docker unpause {name}")
    if not facts.running:
        raise SeshError(f"the container {name} does not run; docker start {name}")
    return facts


def _new_record(order: Order, engine: Engine) -> Record:
    identity = claims.new_id(order.name)
    run = processes.run_dir()
    return claims.new_record(order, identity, place_of(identity, 1, engine, run, order.spec))


def place_of(identity: str, generation: int, engine: Engine, run: str, spec: Spec) -> Place:
    return Place(
        kind="docker",
        generation=generation,
        machine=processes.here(),
        run=boxes.path(run, identity),
        snapshot=environment.snapshot_path(identity, run),
        socket=f"{boxes.home(identity)}/tmux.sock",
        branch=git.branch(spec.cwd) if spec.box and spec.box.mount else None,
        engine=engine,
    )


def _forget(record: Record) -> None:
    forget_files(record)
    boxes.remove(record.place.run)


def _take_back(record: Record) -> None:
    """The start never came to anything: nothing of it stays."""
    entry = store.entry(record.name)
    if entry and isinstance(entry.record, Record) and entry.record.id == record.id:
        store.remove(entry)
    _forget(record)


# --- the container -------------------------------------------------------------------------------


def _begin(
    entry: Entry,
    record: Record,
    variables: environment.Environment,
    config: Config,
    event: str,
) -> Seen:
    """Have the container, then launch in it."""
    engine, box = record.place.engine, record.spec.box
    assert engine is not None
    assert box is not None
    if box.existing is not None:
        facts = _existing(engine, box.existing, config.docker.timeout)
    else:
        facts = _make(record, box, engine, config)
    mounted = box.existing is None and not engines.far(engine)
    return _launch_in(facts, entry, record, variables, config, event, mounted=mounted)


def _launch_in(
    facts: Facts,
    entry: Entry,
    record: Record,
    variables: environment.Environment,
    config: Config,
    event: str,
    *,
    mounted: bool,
) -> Seen:
    container = container_of(facts, record, mounted=mounted)
    record = replace(
        record,
        place=replace(record.place, container=container),
        status=replace(record.status, launched=now()),
    )
    written = store.swap(entry, record, claims.starting(record))
    if written is None:
        raise ConflictError(f"{record.name} was changed by another sesh just now")
    _prepare(record, container, config)
    filled = boxes.fill(record, variables, config.docker.timeout * 4)
    if not filled.ok:
        assert record.place.engine is not None
        raise engines.problem(record.place.engine, filled)
    return _launch(written, record, config, event)


def container_of(facts: Facts, record: Record, *, mounted: bool) -> Container:
    box, engine = record.spec.box, record.place.engine
    assert box is not None
    assert engine is not None
    init = containers.near(facts)
    return Container(
        id=facts.id,
        name=facts.name,
        started=facts.started,
        made=box.existing is None,
        mounted=mounted,
        init=None if engines.far(engine) else init,
        freezer=containers.freezer(init.pid) if init else None,
        ooms=containers.ooms(init.pid) if init else 0,
    )


def _make(record: Record, box: Boxing, engine: Engine, config: Config) -> Facts:
    """A new container, and proof that it runs."""
    labels = f"{record.place.run}.labels"
    files.write_private(labels, _labels(record), durable=False)
    try:
        argv = _run_argv(record, box, labels, far=engines.far(engine))
        said = engines.ask(engine, *argv, timeout=engines.RUN_TIMEOUT)
    finally:
        with suppress(FileNotFoundError):
            os.unlink(labels)
    if said.trouble is Trouble.NAME_TAKEN:
        raise _name_taken(record, engine, config)
    if not said.ok:
        raise engines.problem(engine, said)
    found = engines.inspect(engine, [said.out.strip()], config.docker.timeout * 2)
    if isinstance(found, Said):
        raise engines.problem(engine, found)
    facts = next(iter(found.values()), None)
    if facts is None or not facts.running:
        raise SeshError(f"a container of {box.image} ends at once; has it /bin/sh and sleep?")
    return facts


def _labels(record: Record) -> bytes:
    """Who it is, in full: what is lost here can be rebuilt from there. (In a file: a command line
    would show it to everybody.)"""
    labels = {
        boxes.LABEL: record.id,
        "sesh.name": record.name,
        "sesh.machine": record.place.machine.id,
        "sesh.run": os.path.dirname(record.place.run),
        "sesh.claim": json.dumps(codec.encode(record).decode()),
    }
    lines = [f"{key}={value}".encode() for key, value in labels.items()]
    return b"".join(line + b"\n" for line in lines if len(line) < _LABEL_LIMIT)


def _run_argv(record: Record, box: Boxing, labels: str, *, far: bool) -> list[str]:
    assert box.image is not None
    argv = ["run", "--detach", "--init", "--pull", "never", "--name", f"sesh-{record.name}"]
    argv += ["--label-file", labels, "--workdir", record.spec.cwd]
    if far:
        argv += ["--health-cmd", f"sh {boxes.home(record.id)}/words.sh"]
        argv += ["--health-interval", _HEALTH_EVERY, "--health-retries", "1"]
    else:
        argv += _bind(record.place.run, boxes.MOUNT)
        argv += _bind(paths.transcript(record.id), boxes.LOG)
    if box.mount:
        argv += _bind(record.spec.cwd, record.spec.cwd)
    for mount in box.mounts:
        source, target, mode = mount.split(":")
        kind = "bind" if source.startswith("/") else "volume"
        argv += _mount(kind, source, target, read_only=mode == "ro")
    for option in ("user", "network", "memory", "cpus"):
        value = getattr(box, option)
        argv += [f"--{option}", value] if value is not None else []
    return [*argv, *box.options, "--entrypoint", "/bin/sh", box.image, "-c", _MAIN]


def _bind(source: str, target: str) -> list[str]:
    return _mount("bind", source, target)


def _mount(kind: str, source: str, target: str, *, read_only: bool = False) -> list[str]:
    """A mount, quoted as CSV: a directory's name may hold commas and quotes."""
    quoted = [word.replace('"', '""') for word in (f"src={source}", f"dst={target}")]
    fields = [
        f"type={kind}",
        *(f'"{word}"' for word in quoted),
        *(["readonly"] if read_only else []),
    ]
    return ["--mount", ",".join(fields)]


def _name_taken(record: Record, engine: Engine, config: Config) -> SeshError:
    name = f"sesh-{record.name}"
    found = engines.inspect(engine, [name], config.docker.timeout)
    facts = next(iter(found.values()), None) if isinstance(found, dict) else None
    if facts is not None and facts.labels.get("sesh.run") == processes.run_dir():
        return ConflictError(
            f"the container {name} is left of a session whose record is lost; "
            f"sesh adopt {record.name} brings it back, sesh gc removes it once it has ended"
        )
    return ConflictError(
        f"a container named {name} exists that sesh did not make; choose another name"
    )


def _prepare(record: Record, container: Container, config: Config) -> None:
    """See that tmux is in there, and make the directory of its socket."""
    engine, box = record.place.engine, record.spec.box
    assert engine is not None
    assert box is not None
    script = _PREPARE.format(home=boxes.home(record.id))
    argv = ("exec", *boxes.as_user(record), container.id, "sh", "-c", script)
    said = engines.ask(engine, *argv, timeout=config.docker.timeout * 4)
    where = box.image or f"the container {box.existing}"
    if said.ok:
        old = tmux.too_old(said.out.strip())
        if old:
            raise SeshError(f"{where}: {old}")
        return
    if "no tmux" in said.text:
        raise SeshError(_NO_TMUX.format(where))
    if said.trouble is Trouble.NO_PROGRAM:
        raise SeshError(f"{where} has no sh; sesh needs sh and tmux in it")
    if "UTF-8" in said.text:
        raise SeshError(f"tmux in {where} finds no UTF-8 locale; add C.UTF-8 to the image")
    raise engines.problem(engine, said)


def _launch(entry: Entry, record: Record, config: Config, event: str) -> Seen:
    launchfiles.keep_claim(record, entry.raw)
    server = containers.server(record, config, "--workdir", record.spec.cwd)
    script = f"{boxes.inside(record)}/keeper.sh"
    argv = ("/bin/sh", script, boxes.base(record), record.id, record.name, "tmux", "")
    keeper = Keeper(argv=argv, session_id=record.id, log=boxes.log(record), callback="")
    reply = into_tmux(record, server, keeper, ())
    if isinstance(reply, Reply):
        raise _refused(record, reply)
    record = replace(record, place=replace(record.place, pane=reply.pane))
    _await_agent(record, config)
    boxes.forget_variables(record)
    return judge_launch(entry, record, observe.observe([record], config)[0], event)


def _refused(record: Record, reply: Reply) -> SeshError:
    trouble = engines.trouble_in(reply.text)
    if trouble is Trouble.NO_DIRECTORY:
        return SeshError(f"{record.name}: no directory {record.spec.cwd} in the container")
    return CannotTellError(f"{record.name}: tmux in the container: {engines.tidy(reply.text)}")


def _await_agent(record: Record, config: Config) -> None:
    """Wait until the agent has said who it is and has become its command, or has ended."""
    container = record.place.container
    assert container is not None
    deadline = now() + timedelta(seconds=config.start.launch_timeout)
    pause = 0.005 if container.mounted else 0.1
    script = boxes.base(record) + ".launch"
    while now() < deadline:
        boxes.refresh(record, config.docker.timeout)
        word, exit_word = containers.words(record)
        became = word and (record.place.far or processes.became(word.agent.process.pid, script))
        if exit_word or became:
            return
        time.sleep(pause)


# --- restart -------------------------------------------------------------------------------------


def restart(found: Seen, config: Config) -> Seen:
    """The next generation: in the same container where it stands, else in a new one of the same
    kind."""
    store.prepare()
    assert found.session is not None
    old = found.session.record
    engine = old.place.engine
    assert engine is not None
    facts = _standing(old, engine, config)
    variables = _variables(old)
    run = processes.run_dir()
    place = place_of(old.id, old.place.generation + 1, engine, run, old.spec)
    if facts and old.place.container and facts.started == old.place.container.started:
        place = replace(place, pane=_pane(old, config))
    record = claims.next_generation(old, place)
    if facts is None:
        _clear(record, engine, config)
    boxes.make(record)
    environment.save_text(place.snapshot, environment.exports(variables))
    entry = claims.claim_generation(found, record)
    try:
        if facts is None:
            done = _begin(entry, record, variables, config, "restarted")
        else:
            mounted = _still_mounted(record, engine, facts, config)
            done = _launch_in(facts, entry, record, variables, config, "restarted", mounted=mounted)
        launchfiles.remove(record.place.run, record.id, below=record.place.generation)
        return done
    except BaseException as error:
        if facts is None:
            boxes.remove_container(record, config.docker.timeout * 2)
        if isinstance(error, SeshError) and not isinstance(error, LaunchError | CannotTellError):
            _note_failure(record, str(error))
        raise


def _note_failure(record: Record, why: str) -> None:
    """A restart that came to nothing has failed: it is not `starting` until its time is over."""
    entry = store.entry(record.name)
    claimed = entry.record if entry else None
    if entry and isinstance(claimed, Record) and claimed.launch == record.launch:
        record_failure(entry, claimed, why, "restarted")


def _clear(record: Record, engine: Engine, config: Config) -> None:
    """A start that was killed may have left a container that its record does not know."""
    said = boxes.remove_container(record, config.docker.timeout * 2)
    if not said.ok:
        raise engines.problem(engine, said)


def _still_mounted(record: Record, engine: Engine, facts: Facts, config: Config) -> bool:
    """Is its box mounted there? Not if it was deleted under the container, with all of ours."""
    made = record.spec.box is not None and record.spec.box.existing is None
    near = not engines.far(engine)
    return made and near and boxes.stands(record, engine, facts.id, config.docker.timeout)


def _standing(old: Record, engine: Engine, config: Config) -> Facts | None:
    """Its container, running; None when a new one has to be made."""
    container, box = old.place.container, old.spec.box
    assert box is not None
    if container is None:
        return None
    facts = _facts(old, engine, config)
    if box.existing is not None:
        return _existing(engine, facts.id if facts else box.existing, config.docker.timeout)
    if facts is None:
        return None
    if facts.paused:
        raise ConflictError(f"{old.name}: its container is paused; sesh resume {old.name}")
    if not facts.running:
        boxes.make(old)  # what it has mounted must be there
        said = engines.ask(engine, "start", facts.id, timeout=engines.RUN_TIMEOUT)
        if not said.ok:
            raise engines.problem(engine, said)
        facts = _facts(old, engine, config)
    return facts


def _facts(record: Record, engine: Engine, config: Config) -> Facts | None:
    """What is true of its container; None when it is gone."""
    assert record.place.container is not None
    found = engines.inspect(engine, [record.place.container.id], config.docker.timeout)
    if isinstance(found, Said):
        raise engines.problem(engine, found)
    return found.get(record.place.container.id)


def _variables(record: Record) -> environment.Environment:
    """What was given with -e; if a reboot took it, the caller's values."""
    try:
        return environment.load(record.place.snapshot)
    except FileNotFoundError:
        claims.lacking(record)
        return {os.fsencode(name): os.environb[os.fsencode(name)] for name in record.spec.env}


def _pane(old: Record, config: Config) -> str | None:
    """Its old pane, if that still stands."""
    server = containers.server(old, config)
    if panes.find(old, server.panes()) is None:
        return None
    panes.save_screen(old, server)
    return old.place.pane


# --- the end -------------------------------------------------------------------------------------


def bring_down(record: Record, config: Config, grace: float) -> None:
    """End the agent: ask, wait, kill; then remove the container, if sesh made it and it shall not
    be kept. What could not be done shows at the next look."""
    engine, container = record.place.engine, record.place.container
    assert engine is not None
    if container is None:
        boxes.remove_container(record, config.docker.timeout * 2)
        return
    with suppress(SeshError):
        facts = _facts(record, engine, config)
        if facts is None:
            return
        if facts.running and facts.started == container.started:
            _end_agent(record, engine, facts, config, grace)
        if container.made and not record.status.keep:
            boxes.remove_container(record, config.docker.timeout * 2)


def _end_agent(record: Record, engine: Engine, facts: Facts, config: Config, grace: float) -> None:
    if facts.paused:
        engines.ask(engine, "unpause", facts.id, timeout=config.docker.timeout)
    timeout = config.docker.timeout * 2
    begin = time.monotonic()
    left = boxes.reap(record, 15, timeout)
    while left and isinstance(left, list) and time.monotonic() < begin + grace:
        time.sleep(0.1)
        left = boxes.reap(record, 0, timeout)
    for _ in range(10):
        if not left or isinstance(left, Said):
            break
        boxes.reap(record, 9, timeout)
        time.sleep(0.1)
        left = boxes.reap(record, 0, timeout)
    with suppress(OSError):
        panes.save_screen(record, containers.server(record, config))
        boxes.pull_transcript(record, timeout)
    _await_last_word(record, config)


def _await_last_word(record: Record, config: Config) -> None:
    """Give the keeper a moment to say how it ended, before its container goes."""
    deadline = time.monotonic() + KEEPER_PATIENCE
    while time.monotonic() < deadline:
        boxes.refresh(record, config.docker.timeout)
        if containers.words(record)[1] is not None:
            return
        time.sleep(0.02)
