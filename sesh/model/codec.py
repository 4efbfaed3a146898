"""Records as TOML and back. Strict: a wrong type or an unknown key is an error, never a guess."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import isfinite
from typing import Any

from sesh.model.pattern import lazy
from sesh.model.place import (
    KINDS,
    Agent,
    Boxing,
    Container,
    Engine,
    InContainer,
    Machine,
    Place,
    Process,
)
from sesh.model.record import (
    ID_PATTERN,
    SCHEMA,
    AgentWord,
    Answers,
    BreakerLimits,
    Care,
    Kit,
    Record,
    Spec,
    Status,
    Step,
    Worktree,
    name_of,
    valid_name,
)
from sesh.model.session_json import asked
from sesh.model.states import OUTCOMES, Cause, Desired, Health, Retry, State
from sesh.model.toml_table import DecodeError as DecodeError  # decode() raises it
from sesh.model.toml_table import Table
from sesh.model.value import Value

_STRING = lazy(rb'"(?:[^"\\\n]|\\.)*"|\'[^\'\n]*\'')
_MAX_DOTS = 200  # tomllib takes seconds for a key of some thousand parts
_LONGEST = 2e9  # seconds: beyond all that can be asked for, with what an engine gets on top


def decode(raw: bytes) -> Record:
    root = Table(_parse(raw), "")
    schema = root.take("schema", int)
    if schema != SCHEMA:
        newer = schema > SCHEMA
        raise DecodeError(f"schema {schema} is newer than this sesh" if newer else "unknown schema")
    name = root.take("name", str)
    if not valid_name(name):
        raise DecodeError("name: not a valid name")
    record = Record(
        name=name,
        id=root.take("id", str),
        spec=_spec(root.table("spec")),
        place=_place(root.table("place")),
        status=_status(root.table("status")),
        agent=_agent_word(root.table("agent", optional=True)),
    )
    if not re.fullmatch(ID_PATTERN, record.id) or name_of(record.id) != name:
        raise DecodeError("id: does not fit the name")
    if not record.spec.command and record.place.has_process:
        raise DecodeError("spec.command: missing")
    if (record.spec.box is not None) != isinstance(record.place, InContainer):
        raise DecodeError("spec.box: should be there for a container, and only then")
    root.done()
    return record


def encode(record: Record) -> bytes:
    import tomli_w

    spec, place, status, word = record.spec, record.place, record.status, record.agent
    agent, server = place.agent, place.server
    tree = {
        "schema": record.schema,
        "name": record.name,
        "id": record.id,
        "spec": {
            "command": list(spec.command),
            "cwd": spec.cwd,
            "created": spec.created,
            "group": spec.group,
            "tags": list(spec.tags),
            "env": list(spec.env),
            "launch_timeout": spec.launch_timeout,
            "max_age": spec.max_age,
            "max_idle": spec.max_idle,
            "box": _box_dict(spec.box) if spec.box else None,
            "template": spec.template,
            "care": asked(spec.care),
            "breaker": _fields(spec.breaker) if spec.breaker else None,
            "kit": _kit_dict(spec.kit) if spec.kit else None,
            "prompt": spec.prompt,
            "branch": spec.branch,
            "worktree": _fields(spec.worktree) if spec.worktree else None,
        },
        "place": {
            "kind": place.kind,
            "generation": place.generation,
            "machine": place.machine.id,
            "boot": place.machine.boot,
            "pidns": place.machine.pidns,
            "run": place.run,
            "snapshot": place.snapshot,
            "socket": place.socket,
            "branch": place.branch,
            "pane": place.pane,
            "since": place.since or None,
            "server": _process_dict(server) if server else None,
            "agent": (
                {
                    **_process_dict(agent.process),
                    "keeper": agent.keeper,
                    "leader": agent.leader,
                    "tty": agent.tty,
                }
                if agent
                else None
            ),
            "engine": _fields(place.engine) if isinstance(place, InContainer) else None,
            "container": _container_dict(place),
        },
        "status": {
            "desired": status.desired.value,
            "launched": status.launched,
            "started": status.started,
            "ended": status.ended,
            "outcome": status.outcome.value if status.outcome else None,
            "cause": status.cause.value if status.cause else None,
            "exit_code": status.exit_code,
            "signal": status.signal,
            "reason": status.reason,
            "paused": status.paused,
            "retries": status.retries,
            "retries_max": status.retries_max,
            "retry_at": status.retry_at,
            "stop_asked": status.stop_asked,
            "stop_grace": status.stop_grace,
            "stopper": _process_dict(status.stopper) if status.stopper else None,
            "starter": _process_dict(status.starter) if status.starter else None,
            "stop_tries": status.stop_tries or None,
            "stop_reason": status.stop_reason,
            "stop_cause": status.stop_cause.value if status.stop_cause else None,
            "remains": [_process_dict(process) for process in status.remains] or None,
            "keep": status.keep or None,
            "lived": status.lived or None,
            "held": status.held or None,
            "resumed": status.resumed,
            "health": status.health.value if status.health else None,
            "health_reason": status.health_reason,
            "waits_for": status.waits_for,
            "gave_up": status.gave_up,
        },
        "agent": {
            "phase": word.phase,
            "history": [_fields(step) for step in word.history] or None,
            "updated": word.updated,
            "finished": word.finished,
            "errors": word.errors or None,
            "last_error": word.last_error,
            "resume_ready": None if word.resume_ready else False,
            "conversation": word.conversation,
            "prompted": word.prompted or None,
            "summary": word.summary,
        },
    }
    known = _without_none(tree)
    if word.metadata:  # as it is: what is empty in there was meant
        known.setdefault("agent", {})["metadata"] = dict(word.metadata)
    return tomli_w.dumps(known).encode()


def _process_dict(process: Process) -> dict[str, int]:
    return {"pid": process.pid, "start": process.start}


def _box_dict(box: Boxing) -> dict[str, Any]:
    return {**_fields(box), "mounts": list(box.mounts), "options": list(box.options)}


def _kit_dict(kit: Kit) -> dict[str, Any]:
    words = {name: list(getattr(kit, name)) for name in ("start", "resume", "prompt")}
    answers = {name: list(getattr(kit.answers, name)) for name in Answers.fields}
    return {**_fields(kit), **words, "answers": answers}


def _container_dict(place: Place) -> dict[str, Any] | None:
    container = place.container if isinstance(place, InContainer) else None
    if container is None:
        return None
    init = container.init
    return {**_fields(container), "init": _process_dict(init) if init else None}


def _fields(value: Value) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.fields}


def _without_none(tree: Mapping[str, Any]) -> dict[str, Any]:
    """TOML has no null: what is not known is left out. So is what is empty."""
    return {
        key: _without_none(value) if isinstance(value, dict) else value
        for key, value in tree.items()
        if value is not None and value != {}
    }


def _parse(raw: bytes) -> dict[str, Any]:
    import tomllib

    bare = _STRING.sub(b"", raw)
    if any(line.count(b".") > _MAX_DOTS for line in bare.splitlines()):
        raise DecodeError("not a record: a key of too many parts")
    try:
        return tomllib.loads(raw.decode())
    except UnicodeDecodeError:
        raise DecodeError("not UTF-8") from None
    except RecursionError:
        raise DecodeError("nested too deep") from None
    except ValueError as error:  # a TOMLDecodeError, or a number of thousands of digits
        raise DecodeError(f"not valid TOML: {error}") from None


def _spec(table: Table) -> Spec:
    timeout = table.get("launch_timeout", float)
    spec = Spec(
        command=table.texts("command"),
        cwd=table.take("cwd", str),
        created=table.need("created", table.moment("created")),
        group=table.get("group", str),
        tags=table.texts("tags"),
        env=table.texts("env"),
        launch_timeout=10.0 if timeout is None else timeout,
        max_age=_limit(table, "max_age"),
        max_idle=_limit(table, "max_idle"),
        box=_box(table.maybe_table("box")),
        care=_care(table.table("care", optional=True)),
        breaker=_breaker(table.maybe_table("breaker")),
        template=table.get("template", str),
        kit=_kit(table.maybe_table("kit")),
        prompt=table.get("prompt", str),
        branch=table.get("branch", str),
        worktree=_worktree(table.maybe_table("worktree")),
    )
    if not spec.cwd.startswith("/"):
        raise table.fail("cwd", "should be an absolute path")
    if not 0 < spec.launch_timeout < _LONGEST:
        raise table.fail("launch_timeout", "out of range")
    table.done()
    return spec


def _box(table: Table | None) -> Boxing | None:
    if table is None:
        return None
    box = Boxing(
        image=table.get("image", str),
        existing=table.get("existing", str),
        mount=table.take("mount", bool),
        mounts=table.texts("mounts"),
        user=table.get("user", str),
        network=table.get("network", str),
        memory=table.get("memory", str),
        cpus=table.get("cpus", str),
        options=table.texts("options"),
    )
    if (box.image is None) == (box.existing is None):
        raise table.fail("image", "either image or existing should be there")
    table.done()
    return box


def _kit(table: Table | None) -> Kit | None:
    if table is None:
        return None
    kit = Kit(
        table.take("kind", str),
        conversation=table.take("conversation", str),
        start=table.texts("start"),
        resume=table.texts("resume"),
        prompt=table.texts("prompt"),
        transcript=table.take("transcript", str),
        rules=table.take("rules", str),
        answers=_answers(table.maybe_table("answers")),
    )
    table.done()
    return kit


def _answers(table: Table | None) -> Answers:
    """Records of older versions have none."""
    if table is None:
        return Answers()
    answers = Answers(**{name: table.texts(name) for name in Answers.fields})
    table.done()
    return answers


def _worktree(table: Table | None) -> Worktree | None:
    if table is None:
        return None
    worktree = Worktree(
        table.take("path", str),
        table.take("repository", str),
        table.take("branch", str),
        made_branch=table.take("made_branch", bool),
    )
    table.done()
    return worktree


def _care(table: Table) -> Care:
    values: dict[str, Any] = {}
    for key in Care.fields:
        default = getattr(Care, key)
        if isinstance(default, tuple):
            values[key] = table.texts(key) or default
        elif isinstance(default, float):
            values[key] = default if (limit := _limit(table, key)) is None else limit
        elif type(default) is int:
            values[key] = table.number(key, 0) if table.has(key) else default
        else:
            value = table.get(key, type(default))
            values[key] = default if value is None else value
    if not set(values["retry_on"]) <= set(Retry):
        raise table.fail("retry_on", "unknown word")
    table.done()
    return Care(**values)


def _breaker(table: Table | None) -> BreakerLimits | None:
    if table is None:
        return None
    limits = BreakerLimits(
        failures=table.number("failures", 0),
        within=table.need("within", _limit(table, "within")),
        cooldown=table.need("cooldown", _limit(table, "cooldown")),
    )
    table.done()
    return limits


def _limit(table: Table, key: str) -> float | None:
    value = table.get(key, float)
    if value is not None and not 0 <= value < _LONGEST:
        raise table.fail(key, "out of range")
    return value


def _place(table: Table) -> Place:
    server, agent = table.maybe_table("server"), table.maybe_table("agent")
    kind = table.take("kind", str)
    engine = _engine(table.maybe_table("engine"))
    if kind not in KINDS:
        raise table.fail("kind", "unknown word")
    if (kind == InContainer.kind) != (engine is not None):
        raise table.fail("engine", "should be there for a container, and only then")
    own = {"engine": engine, "container": _container(table.maybe_table("container"))}
    place = KINDS[kind](
        generation=table.number("generation", 1),
        machine=Machine(
            table.take("machine", str), table.take("boot", str), table.take("pidns", str)
        ),
        run=table.take("run", str),
        snapshot=table.take("snapshot", str),
        socket=table.take("socket", str),
        branch=table.get("branch", str),
        pane=table.get("pane", str),
        server=_process(server) if server else None,
        agent=_agent(agent) if agent else None,
        since=table.count("since"),
        **(own if engine else {}),
    )
    if not place.has_process and (server or agent or place.pane):
        raise table.fail("kind", "nothing can run there")
    if place.pane is not None and not re.fullmatch(r"%\d+", place.pane):
        raise table.fail("pane", "not a tmux pane id")
    if server:
        server.done()
    table.done()
    return place


def _engine(table: Table | None) -> Engine | None:
    if table is None:
        return None
    engine = Engine(
        table.take("command", str), host=table.get("host", str), context=table.get("context", str)
    )
    table.done()
    return engine


def _container(table: Table | None) -> Container | None:
    if table is None:
        return None
    init = table.maybe_table("init")
    container = Container(
        id=table.take("id", str),
        name=table.take("name", str),
        started=table.take("started", str),
        made=table.take("made", bool),
        mounted=table.take("mounted", bool),
        init=_process(init) if init else None,
        freezer=table.get("freezer", str),
        ooms=table.count("ooms"),
        created=table.get("created", str) or "",
    )
    if not re.fullmatch(r"[0-9a-f]{64}", container.id):
        raise table.fail("id", "not a container id")
    if init:
        init.done()
    table.done()
    return container


def _process(table: Table, lowest: int = 2) -> Process:
    return Process(table.number("pid", lowest), table.number("start", 0))


def _agent(table: Table) -> Agent:
    agent = Agent(
        _process(table),
        keeper=table.number("keeper", 0),
        leader=table.number("leader", 0),
        tty=table.number("tty", 0),
    )
    table.done()
    return agent


def _status(table: Table) -> Status:
    stopper, starter = table.maybe_table("stopper"), table.maybe_table("starter")
    status = Status(
        desired=table.need("desired", table.choice("desired", Desired)),
        launched=table.need("launched", table.moment("launched")),
        started=table.moment("started"),
        ended=table.moment("ended"),
        outcome=table.choice("outcome", State),
        cause=table.choice("cause", Cause),
        exit_code=table.get("exit_code", int),
        signal=table.get("signal", int),
        reason=table.get("reason", str),
        paused=table.moment("paused"),
        retries=table.count("retries"),
        retries_max=table.count("retries_max"),
        retry_at=table.moment("retry_at"),
        stop_asked=table.moment("stop_asked"),
        stop_grace=table.get("stop_grace", float),
        stopper=_process(stopper, 1) if stopper else None,  # a sesh may be the first of all
        starter=_process(starter, 1) if starter else None,
        stop_tries=table.count("stop_tries"),
        stop_reason=table.get("stop_reason", str),
        stop_cause=table.choice("stop_cause", Cause),
        remains=tuple(_process(one) for one in table.tables("remains")),
        keep=table.get("keep", bool) or False,
        lived=_limit(table, "lived") or 0.0,
        held=table.get("held", float) or 0.0,
        resumed=table.moment("resumed"),
        health=table.choice("health", Health),
        health_reason=table.get("health_reason", str),
        waits_for=table.get("waits_for", str),
        gave_up=table.get("gave_up", str),
    )
    if status.outcome is not None and status.outcome not in OUTCOMES:
        raise table.fail("outcome", "not an end")
    table.done()
    return status


def _agent_word(table: Table) -> AgentWord:
    word = AgentWord(
        phase=table.get("phase", str),
        history=tuple(_step(one) for one in table.tables("history")),
        updated=table.moment("updated"),
        finished=table.moment("finished"),
        errors=table.count("errors"),
        last_error=table.get("last_error", str),
        resume_ready=table.get("resume_ready", bool) is not False,
        conversation=table.get("conversation", str),
        prompted=table.get("prompted", bool) is True,
        summary=table.get("summary", str),
        metadata=table.get("metadata", dict) or {},
    )
    if not _plain(word.metadata):
        raise table.fail("metadata", "should hold texts, numbers, true, false, lists and tables")
    table.done()
    return word


def _plain(value: object) -> bool:
    """Can JSON say it too? It has neither times nor infinities."""
    if isinstance(value, Mapping):
        return all(map(_plain, value.values()))
    if isinstance(value, list):
        return all(map(_plain, value))
    return isinstance(value, str | int) or (isinstance(value, float) and isfinite(value))


def _step(table: Table) -> Step:
    step = Step(table.take("phase", str), table.need("at", table.moment("at")))
    table.done()
    return step
