"""Records on disk: what is written comes back, what is damaged is told, nobody's change is lost."""

from __future__ import annotations

import json
import math
import os
import re
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.commands import _types
from sesh.model import codec, digest
from sesh.model.configuration import Count, Start
from sesh.model.errors import ConflictError, StateError
from sesh.model.observation import Observation, Verdict, seen
from sesh.model.place import Process
from sesh.model.reconcile import reconcile
from sesh.model.record import AgentReport, Damaged, Kit, Record, Step, Supervision, Worktree
from sesh.model.session_json import view
from sesh.model.states import Cause, State
from sesh.model.value_object import replace
from sesh.state import history, records, settings
from sesh.system import container_engine
from tests.samples import NOW, record

RUNNING = Verdict(State.RUNNING)
DATA = Path(__file__).parents[1] / "data"


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records.prepare()
    return tmp_path / "sesh"


def put(name: str = "demo") -> records.Entry:
    made = replace(record(), name=name, id=f"{name}-20261115-115900-0123abcd")
    return records.claim(made, RUNNING, None)


def reason(name: str) -> str:
    found = records.entry(name)
    assert found is not None
    assert isinstance(found.record, Damaged), found.record
    return found.record.reason


# --- round trip ---------------------------------------------------------------------------------

texts = st.text(st.characters(codec="utf-8"), max_size=50)
any_record = st.builds(
    lambda command, cwd, group, tags, metadata, kit: replace(
        record(),
        spec=replace(
            record().spec,
            command=tuple(command),
            cwd=f"/{cwd}",
            group=group,
            tags=tuple(tags),
            kit=kit,
            branch=group,
            worktree=Worktree("/w", "/r", cwd, made_branch=bool(kit)),
        ),
        agent=AgentReport(
            phase="planning",
            history=(Step("planning", NOW),),
            updated=NOW,
            errors=len(tags),
            last_error=group,
            resume_ready=bool(tags),
            metadata=metadata,
        ),
    ),
    st.lists(texts, min_size=1, max_size=5),
    texts,
    st.none() | texts,
    st.lists(texts, max_size=3),
    st.dictionaries(texts, texts | st.integers(-(2**60), 2**60) | st.booleans(), max_size=3),
    st.none()
    | st.builds(
        lambda kind, words: Kit(kind, start=tuple(words), resume=(kind,), transcript=kind),
        texts,
        st.lists(texts, max_size=3),
    ),
)


@given(any_record)
def test_whatever_a_record_holds_comes_back(made: Record) -> None:
    raw = records.render(made, RUNNING)
    assert codec.decode(raw) == made
    assert digest.intact(raw)


def largest(name: str) -> float:
    """The largest value that options and settings take for it."""
    default = getattr(Start, name)
    if not isinstance(default, float):
        return default.highest if isinstance(default, Count) else settings.LARGEST
    most = math.nextafter(1e9, 0)
    assert settings.checked(most, default, name) == most
    with pytest.raises(StateError):
        settings.checked(1e9, default, name)
    return max(most, float(_types.LONGEST))


NUMBERS = [
    name
    for name in Supervision.fields
    if isinstance(default := getattr(Supervision, name), int | float) and default is not False
]


@pytest.mark.parametrize("name", NUMBERS)
def test_the_largest_supervision_values_are_kept(name: str) -> None:
    supervision = replace(Supervision(), **{name: largest(name)})
    made = replace(record(), spec=replace(record().spec, supervision=supervision))
    assert codec.decode(records.render(made, RUNNING)) == made


def test_a_sesh_that_is_the_first_process_may_stop_a_session() -> None:
    made = record(stopper=Process(1, 5), starter=Process(1, 5))
    assert codec.decode(records.render(made, RUNNING)) == made


@pytest.mark.parametrize("on_top", [0.0, container_engine.RUN_TIMEOUT])
def test_the_largest_limits_come_back(on_top: float) -> None:
    """A launch in a container gets the engine's time, too."""
    most = largest("launch_timeout")
    spec = replace(record().spec, launch_timeout=most + on_top, max_age=most, max_idle=most)
    made = replace(record(), spec=spec)
    assert codec.decode(records.render(made, RUNNING)) == made


def test_a_record_of_schema_1_loads_for_ever() -> None:
    """The file is of the first release and is never to be changed."""
    found = codec.decode((DATA / "record-1.toml").read_bytes())
    assert found.name == "fix-login"
    assert found.spec.command == ("claude", "--session-id", "5b1e")
    assert found.place.generation == 2
    assert found.place.agent is not None
    assert found.place.agent.process.pid == 4711
    assert found.status.outcome is State.FAILED


@pytest.mark.parametrize("name", ["host", "docker", "least"])
def test_the_bytes_of_a_record_stay_as_they_are(name: str) -> None:
    """The files hold every field that there is, and as few as there can be; they are what the first
    release has written."""
    raw = (DATA / f"record-{name}.toml").read_bytes()
    assert codec.encode(codec.decode(raw)) == raw


@pytest.mark.parametrize("name", ["host", "docker", "least"])
def test_the_json_of_a_record_stays_as_it_is(name: str) -> None:
    made = codec.decode((DATA / f"record-{name}.toml").read_bytes())
    why, end = "exit 3", made.spec.created
    ended = Verdict(State.FAILED, why, Cause.EXIT, exit_code=3, ended=end, attention=why)
    shown = view(made, RUNNING if name == "docker" else ended)
    assert json.dumps(shown, indent=1) + "\n" == (DATA / f"record-{name}.json").read_text()


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("mount = false\n", "", "spec.box.mount: missing"),
        ('conversation = "minted"\n', "", "spec.kit.conversation: missing"),
        ("pidns = ", "pidnt = ", "place.pidns: missing"),
        ("pid = 21", "pid = 1", "status.remains.pid: should be at least 2"),
        ("generation = 7", "generation = 0", "place.generation: should be at least 1"),
        ("retries = 2", "retries = -2", "status.retries: should be at least 0"),
        ("launch_timeout = 12.5", "launch_timeout = 0.0", "spec.launch_timeout: out of range"),
        ("max_age = 3600.0", "max_age = nan", "spec.max_age: out of range"),
        ("max_age = 3600.0", "max_age = 3600", "spec.max_age: should be of type float"),
        ("ooms = 2", "ooms = 2\nnew = 1", "place.container.new: unknown key"),
        ('image = "debian:13"\n', "", "spec.box.image: either image or existing"),
        ('outcome = "timeout"', 'outcome = "stale"', "status.outcome: not an end"),
        ('"lost",\n', '"often",\n', "spec.care.retry_on: unknown word"),
        ('tags = [\n    "urgent",', "tags = [\n    1,", "spec.tags: should be a list of strings"),
        ("+00:00\nstarted", "\nstarted", "status.launched: should have a time zone"),
    ],
)
def test_every_field_is_read_strictly(old: str, new: str, told: str) -> None:
    raw = (DATA / "record-docker.toml").read_text()
    assert old in raw
    with pytest.raises(codec.DecodeError, match=re.escape(told)):
        codec.decode(raw.replace(old, new, 1).encode())


def test_an_agent_of_an_older_record_is_answered_as_most_are() -> None:
    made = replace(record(), spec=replace(record().spec, kit=Kit("claude", "minted")))
    raw = codec.encode(made).decode()
    older = re.sub(r"^\[spec\.kit\.answers\]\n(?:.+\n|\n(?!\[))*", "", raw, flags=re.M)
    assert "answers" in raw
    assert "answers" not in older
    assert codec.decode(older.encode()) == codec.decode(raw.encode()) == made


@given(st.integers(0, 10_000), st.integers(0, 255))
def test_any_changed_byte_shows(at: int, byte: int) -> None:
    raw = bytearray(records.render(record(), RUNNING))
    at %= len(raw)
    before = raw[at]
    raw[at] = byte
    assert digest.intact(bytes(raw)) == (before == byte)


# --- damage -------------------------------------------------------------------------------------

BODY = codec.encode(record()).decode()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "empty file"),
        ("\0" * 500, "empty file"),
        ("[[[", "not valid TOML"),
        (BODY.replace("schema = 1", "schema = 2"), "schema 2 is newer"),
        (BODY.replace("schema = 1", "schema = true"), "schema: should be of type int"),
        (BODY.replace("pid = 4711", "pid = true"), "place.agent.pid: should be of type int"),
        (BODY.replace("pid = 4711", "pid = -1"), "place.agent.pid: should be at least 2"),
        (BODY.replace("pid = 4711", "pid = 1"), "place.agent.pid: should be at least 2"),
        (BODY.replace('desired = "running"', 'desired = "flying"'), "status.desired: unknown word"),
        (BODY + 'outcome = "running"\n', "agent"),
        (BODY.replace('kind = "host"', 'kind = "moon"'), "place.kind: unknown word"),
        (BODY.replace('pane = "%3"', 'pane = "3; kill"'), "place.pane: not a tmux pane id"),
        (BODY.replace('cwd = "/srv"', 'cwd = "srv"'), "spec.cwd: should be an absolute path"),
        (BODY.replace("[spec]", "[spec]\ncolour = 1"), "spec.colour: unknown key"),
        (BODY.replace('name = "demo"', 'name = "other"'), "the record inside is of other"),
        (BODY.replace('name = "demo"', 'name = "-rf"'), "name: not a valid name"),
        ("a = " + "[" * 20_000, "nested too deep"),
        ("a." * 10_000 + "a = 1", "too many parts"),
        ("x = '" + "y" * 70_000 + "'", "larger than 64 KiB"),
        ("x = '" + "y" * (2 << 20) + "'", "larger than 1024 KiB"),
    ],
)
def test_damage_is_reported(state: Path, text: str, told: str) -> None:
    (state / "sessions" / "demo.toml").write_text(text)
    assert told in reason("demo")
    assert (state / "sessions" / "demo.toml").read_text() == text


def test_a_record_that_is_not_a_regular_file_is_reported(state: Path) -> None:
    sessions = state / "sessions"
    os.mkfifo(sessions / "fifo.toml")
    (sessions / "dir.toml").mkdir()
    (sessions / "link.toml").symlink_to("/etc/passwd")
    (sessions / "bytes.toml").write_bytes(b"\xff\xfe")
    put("good")
    found = {entry.record.name: entry.record for entry in records.entries()}
    assert isinstance(found.pop("good"), Record)
    assert set(found) == {"fifo", "dir", "link", "bytes"}
    assert all(isinstance(one, Damaged) for one in found.values())


def test_a_record_under_another_name_is_reported(state: Path) -> None:
    put("good")
    os.link(state / "sessions" / "good.toml", state / "sessions" / "copy.toml")
    assert reason("copy") == "the record inside is of good"


# --- writing ------------------------------------------------------------------------------------


def test_claim_is_exclusive(state: Path) -> None:
    put()
    with pytest.raises(ConflictError):
        put()


def test_an_ended_record_moves_to_the_history(state: Path) -> None:
    old = put()
    new = replace(record(), id="demo-20261116-000000-ffffffff")
    records.claim(new, RUNNING, old)
    kept = [entry.record for entry in history.entries()]
    assert kept == [old.record]
    assert [entry.record for entry in records.entries()] == [new]


def test_swap_refuses_when_another_process_was_faster(state: Path) -> None:
    old = put()
    assert isinstance(old.record, Record)
    changed = replace(old.record, place=replace(old.record.place, generation=3))
    assert records.swap(old, changed, RUNNING) is not None
    assert records.swap(old, old.record, RUNNING) is None
    assert not records.remove(old)
    assert history.archive([old]) == []
    found = records.entry("demo")
    assert found is not None
    assert found.record == changed


_ADD_ONE = """
from sesh.model.observation import Verdict
from sesh.model.states import State
from sesh.model.value_object import replace
from sesh.state import records
for _ in range(20):
    while True:
        old = records.entry("demo")
        status = replace(old.record.status, retries=old.record.status.retries + 1)
        if records.swap(old, replace(old.record, status=status), Verdict(State.RUNNING)):
            break
"""


def test_no_update_of_many_processes_is_lost(state: Path) -> None:
    put()
    crowd = [subprocess.Popen([sys.executable, "-c", _ADD_ONE]) for _ in range(8)]
    assert [one.wait() for one in crowd] == [0] * 8
    found = records.entry("demo")
    assert found is not None
    assert isinstance(found.record, Record)
    assert found.record.status.retries == 160


@pytest.mark.parametrize("umask", [0o000, 0o022, 0o777])
def test_private_under_any_umask(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, umask: int
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    (tmp_path / "state").mkdir()
    before = os.umask(umask)
    try:
        records.prepare()
        put()
    finally:
        os.umask(before)
    made = [tmp_path / "state" / "sesh", *(tmp_path / "state" / "sesh").rglob("*")]
    modes = {path.is_dir(): stat.S_IMODE(path.stat().st_mode) for path in made}
    assert modes == {True: 0o700, False: 0o600}


def test_a_write_that_fails_leaves_the_old_record(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = put()
    assert isinstance(old.record, Record)

    def full(fd: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    changed = replace(old.record, place=replace(old.record.place, generation=3))
    with pytest.raises(StateError, match="No space left"):
        records.swap(old, changed, RUNNING)
    monkeypatch.undo()
    assert (state / "sessions" / "demo.toml").read_bytes() == old.raw
    assert not [name for name in os.listdir(state / "sessions") if name.endswith(".tmp")]


def test_the_lock_is_not_inherited(state: Path) -> None:
    with records.lock():
        child = subprocess.Popen(["sleep", "5"], close_fds=False)
    with records.lock():  # would wait for the child if it had the lock
        pass
    child.kill()
    child.wait()


def test_a_foreign_directory_is_refused(state: Path) -> None:
    if os.getuid() != 0:
        pytest.skip("only root can give a directory away")
    os.chown(state, 12345, 12345)
    with pytest.raises(StateError, match="belongs to uid 12345"):
        records.entries()


def test_the_digest_of_a_living_session_guards_by_pid() -> None:
    verdict = reconcile(record(), Observation(seen("alive"), seen("stands")), NOW)
    found = digest.parse(records.render(record(), verdict))
    assert found is not None
    assert (found.mode, found.pid, found.start, found.tty) == ("pid", "4711", "99", "34816")
