"""Notifications: the right ones, each once, whatever is killed, full, slow or gone; no pass waits;
what is lost is written down."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from sesh.model.configuration import Config, Count, Notify
from sesh.model.observation import Verdict
from sesh.model.session_json import FIELDS
from sesh.model.states import ENDED, State
from sesh.model.value_object import replace
from sesh.state import events, history, records
from sesh.supervision.notify import message, notices
from sesh.system import files, paths, subprocesses
from tests import pace, samples
from tests.receiver import Receiver, closed_port, receiving
from tests.surroundings import mounted, read_only, read_record, silence_timers, write_record
from tests.world import SESH, World, eventually

FAILS = ("sh", "-c", "exit 3")


# --- in this process -----------------------------------------------------------------------------


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty state directory, into which tests write events."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    records.prepare()
    return tmp_path / "sesh"


def happens(kind: str, name: str = "a", generation: int = 1, **details: Any) -> None:
    session_id = f"{name}-20261115-115900-0123abcd"
    events.write(events.new(kind, name, session_id, generation, **details))


def fails(name: str = "a", generation: int = 1) -> None:
    happens("ended", name, generation, state="failed", reason="exit 3")


def wanting(*on: str, **others: Any) -> Config:
    given: dict[str, Any] = {"command": "true", **others}
    return Config(notify=Notify(**given, on=on) if on else Notify(**given))


def kept() -> list[dict[str, Any]]:
    """What is in the outbox."""
    return [json.loads(Path(path).read_text()) for path in notices.waiting()]


def collected(config: Config) -> list[str]:
    """What a pass would have told, in words."""
    notices.collect(config)
    texts = [one["body"]["text"] for one in kept()]
    for path in notices.waiting():
        os.unlink(path)
    return texts


@pytest.mark.parametrize(
    ("on", "told"),
    [
        ((), ["a failed: exit 3", "e is lost: reboot", "f is waiting: permission: Bash"]),
        (("completed",), ["c completed: exit 0"]),
        (("ended",), ["a failed: exit 3", "c completed: exit 0", "e is lost: reboot"]),
        (("stopped",), ["d was stopped"]),
        (("started", "archived"), ["a was started", "c was moved to the history"]),
        (("notified", "notify-failed"), []),
        (("nonsense",), []),
    ],
)
def test_which_events(state: Path, on: tuple[str, ...], told: list[str]) -> None:
    happens("started", command=["x"])
    fails()
    happens("ended", "c", state="completed", reason="exit 0")
    happens("stopped", "d", state="stopped")
    happens("archived", "c")
    happens("ended", "e", state="lost", reason="reboot")
    happens("waiting", "f", reason="permission: Bash")
    happens("notified", target="x", event="ended")
    happens("notify-failed", target="x", event="ended", reason="failed")
    assert collected(wanting(*on)) == told


def test_an_end_that_is_retried_is_not_final(state: Path) -> None:
    """Else every retry would cry."""
    fails()
    happens("recovering", retry=1, retries_max=2)
    fails("b")
    happens("recovering", "b", generation=2, retry=1, retries_max=2)  # of another launch
    assert collected(wanting()) == ["b failed: exit 3"]
    fails(generation=2)
    happens("recovering", generation=2, retry=2, retries_max=2)
    told = collected(wanting("failed", "recovering"))
    assert told == ["a failed: exit 3", "a will be restarted: retry 2 of 2"]
    fails(generation=3)
    assert collected(wanting()) == ["a failed: exit 3"]


def test_nothing_is_notified_twice(state: Path) -> None:
    fails()
    assert collected(wanting()) == ["a failed: exit 3"]
    assert collected(wanting()) == []
    fails("b")
    assert collected(wanting()) == ["b failed: exit 3"]


def test_events_without_a_target_are_not_kept_for_later(state: Path) -> None:
    fails()
    assert not notices.collect(Config())
    assert collected(wanting()) == []
    fails("b")
    assert collected(wanting()) == ["b failed: exit 3"]


def test_a_lost_cursor_begins_at_the_end(state: Path) -> None:
    for damage in ("unlink", "nonsense", "1 2", ""):
        fails()
        assert collected(wanting()) == ["a failed: exit 3"]
        fails("b")
        cursor = state / "notices" / "cursor"
        cursor.unlink() if damage == "unlink" else cursor.write_text(damage)
        assert collected(wanting()) == []
    fails("c")
    assert collected(wanting()) == ["c failed: exit 3"]


def test_a_log_that_is_another_one_begins_at_its_end(state: Path) -> None:
    """A home that was copied, or a log that was cut: its lines may all have been told."""
    for _ in range(3):
        fails()
    assert len(collected(wanting())) == 3
    log = Path(paths.events_file())
    copy = log.with_name("copy")
    copy.write_text(log.read_text() * 2)
    copy.replace(log)
    assert collected(wanting()) == []
    log.write_text(log.read_text().splitlines()[0] + "\n")
    assert collected(wanting()) == []
    fails("b")
    assert collected(wanting()) == ["b failed: exit 3"]


def test_where_nothing_was_ever_collected_only_the_last_minute_is_new(state: Path) -> None:
    """The first session of all may fail before the first pass; a log of years is the past."""
    stamp = (datetime.now(UTC) - timedelta(minutes=2)).isoformat()
    events.write({**events.new("ended", "old", "old-1", 1, state="failed"), "time": stamp})
    fails()
    assert collected(wanting()) == ["a failed: exit 3"]


def test_settings_that_are_being_written_lose_nothing(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An editor may empty config.toml for a moment, and a pass may read it in that moment."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(state.parent))
    notices.collect(wanting())
    fails()
    settings = state / "config.toml"
    settings.write_text("")
    assert collected(Config()) == []
    assert collected(wanting()) == ["a failed: exit 3"]
    fails("b")
    os.utime(settings, (0, 0))
    assert collected(Config()) == []  # these settings are meant: nobody is notified
    assert collected(wanting()) == []


def test_a_log_is_rotated_between(state: Path) -> None:
    notices.collect(wanting())
    fails()
    events.rotate()
    assert collected(wanting()) == ["a failed: exit 3"]
    assert collected(wanting()) == []
    fails("b")
    assert collected(wanting()) == ["b failed: exit 3"]
    fails("c")
    events.rotate()
    fails("d")
    assert collected(wanting()) == ["c failed: exit 3", "d failed: exit 3"]
    assert collected(wanting()) == []


def test_a_line_that_is_not_whole_yet_is_read_later(state: Path) -> None:
    notices.collect(wanting())
    fails()
    log = Path(paths.events_file())
    line = log.read_bytes()
    log.write_bytes(line + line[:40])
    assert collected(wanting()) == ["a failed: exit 3"]
    log.write_bytes(line * 2)
    assert collected(wanting()) == ["a failed: exit 3"]


def test_lines_of_others_do_no_harm(state: Path) -> None:
    notices.collect(wanting())
    now = datetime.now(UTC).isoformat()
    strange: list[dict[str, Any]] = [
        {"kind": "ended", "state": "failed"},
        {"kind": "ended", "state": "failed", "name": "../../x", "id": "../../../tmp/x"},
        {"kind": "ended", "state": ["failed"], "name": {"a": 1}, "id": [1], "generation": "x"},
        {"kind": "ended", "state": "failed", "name": "x" * 5000, "id": "y" * 5000},
        {"kind": "ended", "state": "failed", "name": "\x00\n/", "id": "\x00\n/"},
    ]
    with open(paths.events_file(), "ab") as log:
        for one in strange:
            log.write(json.dumps({"time": now, **one}).encode() + b"\n")
        log.write(b"\xff\xfe{\n[1]\n")
    fails()
    told = collected(wanting())
    assert len(told) == 5
    assert told[-1] == "a failed: exit 3"
    assert {path.parent for path in state.rglob("*.json")} <= {state / "notices"}


def test_each_target_has_its_own(state: Path) -> None:
    fails()
    webhooks = ("http://one/", "http://two/", "http://one/")
    notices.collect(wanting(webhooks=webhooks))
    found = [(one["target"]["kind"], one["target"]["what"]) for one in kept()]
    assert found == [("command", "true"), ("webhook", "http://one/"), ("webhook", "http://two/")]


def test_files_of_a_killed_collect_do_not_count(state: Path) -> None:
    """Killed behind its files and before the cursor: they are not sent, and made anew."""
    fails()
    notices.collect(wanting())
    (path,) = notices.waiting()
    left = path.replace(".1.0.json", ".2.0.json")
    Path(left).write_bytes(Path(path).read_bytes())
    assert notices.waiting() == [path]
    fails("b")
    notices.collect(wanting())
    assert not os.path.exists(left)
    assert [one["body"]["name"] for one in kept()] == ["a", "b"]


COLLECTOR = """\
import sys
from sesh.model.configuration import Config, Notify
from sesh.state import events
from sesh.supervision.notify import notices
print("ready", flush=True)
sys.stdin.read()
for number in range(10):
    name = f"s{sys.argv[1]}-{number}"
    events.write(events.new("ended", name, f"{name}-20261115-115900-0123abcd", 1, state="failed"))
    notices.collect(Config(notify=Notify(command="true")))
"""


def test_many_collect_at_once(state: Path) -> None:
    """On a home of several machines the lock of the pass is not the same: none is taken twice, and
    none is lost."""
    notices.collect(wanting())
    running = [
        subprocess.Popen(
            [sys.executable, "-c", COLLECTOR, str(number)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        for number in range(6)
    ]
    for one in running:
        assert one.stdout is not None
        assert one.stdout.readline() == b"ready\n"
    for one in running:  # all begin together, once all are ready
        assert one.stdin is not None
        one.stdin.close()
    for one in running:
        assert one.wait(pace.seconds(30)) == 0
        assert one.stdout is not None
        one.stdout.close()
    names = [one["body"]["name"] for one in kept()]
    assert sorted(names) == sorted(f"s{a}-{b}" for a in range(6) for b in range(10))


def test_when_to_wake_up(state: Path) -> None:
    assert notices.wake() is None
    fails()
    notices.collect(wanting("failed", command="false"))
    assert notices.wake() == notices.AGAIN  # it is being delivered
    assert notices.deliver(wanting("failed", command="false"))
    waits = notices.wake()
    assert waits is not None
    assert 0 < waits <= notices.DELAYS[0]
    (path,) = notices.waiting()
    far = json.loads(Path(path).read_text()) | {"due": time.time() + 10 * notices.DELAYS[-1]}
    Path(path).write_text(json.dumps(far))  # the clock was set back
    assert notices.wake() == notices.AGAIN


def lost() -> list[dict[str, Any]]:
    return list(events.of_kind("notify-failed"))


def test_a_delivery_by_another_process_is_not_lost(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is gone between the look at the outbox and that at its files."""
    fails()
    notices.collect(wanting())
    found = notices.waiting()
    assert notices.deliver(wanting()) is False
    monkeypatch.setattr(notices, "waiting", lambda: found)
    notices.deliver(wanting())
    assert notices.wake() is None
    with pytest.raises(FileNotFoundError):
        notices.drop(found[0], notices.LATE)
    assert lost() == []
    assert len(list(events.of_kind("notified"))) == 1


def test_a_file_that_can_not_be_read_is_lost(state: Path) -> None:
    fails()
    notices.collect(wanting())
    (path,) = notices.waiting()
    Path(path).write_text("{")
    notices.deliver(wanting())
    (one,) = lost()
    assert (one["target"], one["reason"]) == (None, "its file can't be read")
    assert notices.waiting() == []


def test_one_process_delivers_to_a_target(state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is at work looks once more instead."""
    sent: list[Any] = []
    monkeypatch.setattr(subprocesses, "detach", lambda argv, **_: sent.append(argv[-1]))
    fails()
    notices.send_new(wanting())
    assert sent == ["--deliver"]
    (lock,) = (state / "notices").glob(".*[0-9a-f].lock")
    again = lock.with_suffix(".again")
    again.unlink()
    with files.only_one(str(lock)):
        for _ in range(3):
            notices.send_new(wanting())
    assert (sent, again.exists()) == (["--deliver"], True)
    notices.send_new(wanting())
    assert len(sent) == 2
    with files.only_one(str(lock)):  # another target is not kept waiting
        fails("b")
        notices.send_new(wanting(command="false"))
    assert len(sent) == 3


def test_files_are_private(state: Path) -> None:
    mask = os.umask(0)
    try:
        fails()
        notices.collect(wanting(command="false"))
        notices.deliver(wanting(command="false"))
    finally:
        os.umask(mask)
    found = [state / "notices", *(state / "notices").iterdir()]
    assert len(found) >= 4
    assert not [path for path in found if stat.S_IMODE(path.stat().st_mode) & 0o077]


def test_every_kind_and_every_end_has_a_sentence() -> None:
    for kind in {*events.KINDS} & {*events.NOTIFIABLE} - {"ended"}:
        text = message.sentence({"kind": kind, "name": "a", "retry": 1, "retries_max": 2})
        assert text.startswith("a ")
        assert text != f"a {kind}"
    for end in ENDED - {State.STALE}:
        assert message.sentence({"kind": "ended", "state": end.value, "name": "a"}) != "a ended"


@pytest.mark.parametrize(
    ("circle", "told"),
    [
        ({"group": "web"}, "group web"),
        ({"template": "claude"}, "template claude"),
        ({}, "its group"),
    ],
)
def test_a_notification_of_a_breaker_names_the_failing_group(
    circle: dict[str, str], told: str
) -> None:
    text = message.sentence({"kind": "breaker-opened", "name": "a", **circle})
    assert text == f"a is not retried for now: retries of {told} are paused"


# --- real sessions -------------------------------------------------------------------------------


@pytest.fixture
def there() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


def configure(world: World, there: Receiver | None = None, **config: Any) -> None:
    """Told are a file and, if given, a web server."""
    given = {"command": f"cat >>{world.root}/told", **config}
    if there is not None:
        given.setdefault("webhooks", [there.address])
    lines = [f"{key} = {json.dumps(value)}" for key, value in given.items()]
    world.configure("\n".join(["[notify]", *lines, ""]))


def told(world: World) -> list[dict[str, Any]]:
    path = world.root / "told"
    return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []


def noted(world: World, kind: str) -> list[dict[str, Any]]:
    return [event for event in world.events() if event["kind"] == kind]


def outbox(world: World) -> list[Path]:
    return sorted((world.state / "notices").glob("*.json"))


def later(world: World) -> None:
    """Time passes: what waits for another try is due."""
    for path in outbox(world):
        path.write_text(json.dumps(json.loads(path.read_text()) | {"due": 0}))


def quiet(world: World) -> bool:
    """Is nothing of sesh at work?"""
    lines = []
    for pid in world.processes():
        try:
            lines.append(Path(f"/proc/{pid}/cmdline").read_bytes())
        except OSError:
            continue
    return not [line for line in lines if b"\0pass" in line]


def settle(world: World, kind: str, count: int = 1) -> list[dict[str, Any]]:
    """Wait until so many events of a kind were written, and nobody writes any more."""
    assert eventually(lambda: len(noted(world, kind)) >= count, 20), world.events()
    assert eventually(lambda: quiet(world), 20)
    return noted(world, kind)


def test_a_failure_is_sent_to_command_and_webhook(world: World, there: Receiver) -> None:
    configure(world, there)
    shown = world.start("fix-login", *FAILS, options=["--group", "web"])
    settle(world, "notified", 2)
    (heard,) = told(world)
    assert heard == there.requests[0].body
    assert len(there.requests) == 1
    (ended,) = noted(world, "ended")
    assert heard.items() >= ended.items()
    assert heard["text"] == "fix-login failed: exit 3"
    assert heard["host"] == os.uname().nodename
    assert list(heard["session"]) == list(FIELDS)
    now = world.session("fix-login")
    changing = ("checked_at", "last_output")
    assert {k: v for k, v in heard["session"].items() if k not in changing} == {
        k: v for k, v in now.items() if k not in changing
    }
    by = {(event["target"], event["event"], event["id"]) for event in noted(world, "notified")}
    assert by == {("cat", "ended", shown["id"]), (there.address, "ended", shown["id"])}
    assert outbox(world) == []
    for _ in range(3):
        world.ok("pass")
    world.ok("gc")
    assert eventually(lambda: quiet(world))
    assert len(told(world)) == len(there.requests) == 1


def test_unwanted_events_are_not_notified(world: World) -> None:
    configure(world, on=["completed"])
    world.start("a", *FAILS)
    world.start("b", "true")
    settle(world, "notified")
    world.ok("pass")
    assert [one["text"] for one in told(world)] == ["b completed: exit 0"]


def test_a_session_with_a_choice_of_its_own(world: World) -> None:
    """Off, other kinds than in the settings, and as in the settings; also after gc and a rename."""
    configure(world)
    world.start("silent", *FAILS, options=["--notify", "off"])
    world.start("chosen", *FAILS, options=["--notify", "started,completed"])
    world.start("usual", *FAILS)
    settle(world, "notified", 2)
    assert sorted(one["text"] for one in told(world)) == [
        "chosen was started",
        "usual failed: exit 3",
    ]
    world.start("other", "cat")
    world.ok("set", "other", "notify=renamed,stopped")
    world.ok("rename", "other", "named")
    settle(world, "notified", 3)
    world.ok("set", "named", "notify=off")
    world.ok("stop", "named")
    world.ok("set", "named", "notify=")
    assert "notify" not in (world.session("named")["care"] or {})
    assert [one["text"] for one in told(world)][2:] == ["named was renamed"]


def test_a_session_that_has_left_the_list_keeps_its_choice(state: Path) -> None:
    for name, choice in (("a", ()), ("b", ("completed",)), ("c", None)):
        made = samples.record()
        supervision = replace(made.spec.supervision, notify=choice)
        made = replace(
            made,
            name=name,
            id=f"{name}-20261115-115900-0123abcd",
            spec=replace(made.spec, supervision=supervision),
        )
        records.claim(made, Verdict(State.FAILED), None)
        fails(name)
        entry = records.entry(name)
        assert entry
        assert history.archive([entry])
        happens("archived", name)
    assert collected(wanting()) == ["c failed: exit 3"]


def test_a_retry_does_not_cry(world: World) -> None:
    configure(world)
    world.start("a", *FAILS, options=["--retries", "2", "--retry-delay", "1h"])
    assert eventually(lambda: noted(world, "recovering"))
    world.ok("pass")
    assert eventually(lambda: quiet(world))
    assert told(world) == []


def test_an_end_whose_retry_has_no_event_yet_is_not_notified(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between the two lines that tell of it: the record was written before them."""
    monkeypatch.setenv("XDG_STATE_HOME", world.env["XDG_STATE_HOME"])
    world.start("a", *FAILS, options=["--retries", "2", "--retry-delay", "1h"])
    assert eventually(lambda: noted(world, "recovering"))
    cursor = world.state / "notices" / "cursor"
    assert eventually(lambda: cursor.exists() and quiet(world))  # the keeper's call back was there
    log = world.state / "events.jsonl"
    lines = [line for line in log.read_text().splitlines(True) if '"recovering"' not in line]
    cursor.write_text(f"{log.stat().st_ino} 0 0\n")
    log.write_text("".join(lines))
    assert collected(wanting()) == []
    record = read_record(world, "a")
    write_record(world, record, State.FAILED)
    cursor.write_text(f"{log.stat().st_ino} 0 0\n")
    assert collected(wanting()) == ["a failed: exit 3"]


def test_many_passes_at_once_notify_once(world: World) -> None:
    for name in "abcd":
        world.start(name, "sh", "-c", "while ! test -e go; do sleep 0.05; done; exit 3")
    configure(world)
    (world.cwd / "go").touch()
    running = [world.popen(*how) for how in [("pass",), ("gc", "--auto"), ("ls",)] * 4]
    assert [one.wait(pace.seconds(30)) for one in running] == [0] * len(running)
    settle(world, "notified", 4)
    running = [world.popen("pass", "--deliver") for _ in range(4)]
    assert [one.wait(pace.seconds(30)) for one in running] == [0] * len(running)
    assert sorted(one["name"] for one in told(world)) == list("abcd")
    assert len(noted(world, "notified")) == 4


def test_no_pass_waits_for_an_endpoint_that_does_not_answer(world: World, there: Receiver) -> None:
    """The endpoint answers nobody before the pass has come back, and the next one too."""
    there.answers = [None]
    configure(world, there, timeout=60)
    world.start("a", *FAILS)
    world.ok("pass")
    assert eventually(lambda: there.requests, 10)
    world.ok("pass")
    world.ok("gc")
    assert world.state_of("a") == "failed"
    world.start("b", *FAILS)
    assert eventually(lambda: len(told(world)) == 2, 10)  # nor does another target
    assert len(there.requests) == 1
    assert not quiet(world)


def test_an_endpoint_that_is_slow(world: World, there: Receiver) -> None:
    there.answers = [None, 200]
    configure(world, there, timeout=0.5)
    world.start("a", *FAILS)
    assert eventually(lambda: there.requests and quiet(world), 10)
    assert len(outbox(world)) == 1
    later(world)
    world.ok("pass")
    settle(world, "notified", 2)
    assert len(told(world)) == 1  # who was told is not told again
    assert outbox(world) == []


def _heard(world: World, there: Receiver, count: int) -> bool:
    return len(there.requests) == count and quiet(world)


def test_an_endpoint_that_answers_500_and_then_200(world: World, there: Receiver) -> None:
    there.answers = [500, 500, 200]
    configure(world, there)
    world.start("a", *FAILS)
    for tries in (1, 2):
        assert eventually(partial(_heard, world, there, tries), 10)
        (path,) = outbox(world)
        assert json.loads(path.read_text())["tries"] == tries
        later(world)
        world.ok("pass")
    settle(world, "notified", 2)
    assert there.texts == ["a failed: exit 3"] * 3
    assert noted(world, "notify-failed") == []
    assert len(told(world)) == 1


def test_failed_deliveries_are_recorded(world: World) -> None:
    address = f"http://127.0.0.1:{closed_port()}"
    configure(world, webhooks=[f"{address}/hook"], tries=2)
    shown = world.start("a", *FAILS)
    assert eventually(lambda: outbox(world) and noted(world, "notified") and quiet(world), 10)
    assert noted(world, "notify-failed") == []
    later(world)
    world.ok("pass")
    (lost,) = settle(world, "notify-failed")
    about = {key: lost[key] for key in ("name", "id", "generation", "target", "event", "reason")}
    assert about == {
        "name": "a",
        "id": shown["id"],
        "generation": 1,
        "target": address,
        "event": "ended",
        "reason": "Connection refused",
    }
    assert outbox(world) == []
    world.ok("pass")
    assert len(noted(world, "notify-failed")) == 1


def test_the_next_try_comes_by_itself(world: World, there: Receiver) -> None:
    """Woken up by tmux, though no session lives."""
    there.answers = [500, 200]
    configure(world, there)
    world.start("a", *FAILS)
    assert eventually(lambda: len(noted(world, "notified")) == 2, 40)
    assert len(there.requests) == 2


@pytest.mark.parametrize("command", [("ls", "--json"), ("stop", "a"), ("wait", "a")])
def test_an_end_that_no_pass_has_found_is_notified(
    world: World, there: Receiver, command: tuple[str, ...]
) -> None:
    """Whoever writes it down: the pass that the keeper calls may have been too early."""
    configure(world, there, on=["failed", "stopped"])
    silence_timers(world)
    world.start("a")
    if command[0] != "stop":
        os.kill(world.session("a")["pid"], signal.SIGKILL)
        assert eventually(lambda: [*world.state.glob("run/*/*.exit")])
    world.ok(*command)
    assert eventually(lambda: len(there.requests) == 1, 40)


def test_a_command_that_hangs(world: World) -> None:
    configure(world, command=f"echo $$ >>{world.root}/pids; sleep 1000", timeout=0.5, tries=2)
    world.start("a", *FAILS)
    assert eventually(lambda: outbox(world) and quiet(world), 10)
    later(world)
    world.ok("pass")
    (lost,) = settle(world, "notify-failed")
    assert (lost["target"], lost["reason"]) == ("echo", "no answer within 0.5 s")
    pids = (world.root / "pids").read_text().split()
    assert len(pids) == 2
    assert eventually(lambda: not [pid for pid in pids if int(pid) in world.processes()])


def delivering(world: World) -> int:
    """The process that delivers."""
    for pid in world.processes():
        try:
            line = Path(f"/proc/{pid}/cmdline").read_bytes()
        except OSError:
            continue
        if line.endswith(b"\0pass\0--deliver\0") and b"/sh\0" not in line:
            return pid
    return 0


def _grown(path: Path, before: str) -> bool:
    return path.exists() and path.read_text() == f"{before}x\n"


def test_a_delivery_that_is_killed_again_and_again(world: World) -> None:
    """No more tries than allowed, and the loss is recorded."""
    configure(world, command=f"echo x >>{world.root}/tried; exec sleep 1000", timeout=60, tries=2)
    tried = world.root / "tried"
    world.start("a", *FAILS)
    for before in ("", "x\n"):
        assert eventually(partial(_grown, tried, before), 10)
        os.kill(eventually(lambda: delivering(world)), signal.SIGKILL)
        assert eventually(lambda: not delivering(world))
        later(world)
        world.ok("pass")
    (lost,) = settle(world, "notify-failed")
    assert lost["reason"] == "the last try was interrupted"
    assert tried.read_text() == "x\n" * 2


def test_an_outbox_that_is_not_a_directory(world: World) -> None:
    """The pass does its work; what happened is told once it can be."""
    configure(world)
    world.start("a")
    world.ok("pass")
    directory = world.state / "notices"
    for path in directory.iterdir():
        path.unlink()
    directory.rmdir()
    directory.write_text("in the way")
    os.kill(world.session("a")["pid"], signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "failed")
    done = world.ok("pass")
    assert (done.out, done.err) == ("", "")
    world.ok("gc")
    directory.unlink()
    world.ok("pass")
    settle(world, "notified")
    assert [one["text"] for one in told(world)] == ["a failed: killed by SIGKILL"]


def test_an_outbox_that_can_not_be_written(world: World) -> None:
    configure(world)
    world.start("a")
    world.ok("pass")
    with read_only(world.state / "notices"):
        os.kill(world.session("a")["pid"], signal.SIGKILL)
        assert eventually(lambda: noted(world, "ended"))
        world.ok("pass")
        world.ok("gc")
        assert eventually(lambda: quiet(world))
        assert told(world) == []
    world.ok("pass")
    settle(world, "notified")
    assert len(told(world)) == 1


def test_a_full_outbox(world: World) -> None:
    """Room for some of a batch only: none of it counts, and none is told twice."""
    for name in "abc":
        world.start(name)
    no_call_backs(world)
    directory = world.state / "notices"
    with mounted(directory, "size=40k"):
        directory.chmod(0o700)
        configure(world)
        world.ok("pass")
        fill = directory / "fill"
        room = os.statvfs(directory)
        fill.write_bytes(b"x" * (room.f_bavail - 2) * room.f_frsize)
        for one in world.ls():
            os.kill(one["pid"], signal.SIGKILL)
        assert eventually(lambda: {one["state"] for one in world.ls()} == {"failed"}, 10)
        for _ in range(2):
            world.ok("pass")
            assert eventually(lambda: quiet(world), 10)
            assert len(outbox(world)) == 2
        assert told(world) == []
        fill.unlink()
        world.ok("pass")
        settle(world, "notified", 3)
    assert sorted(one["name"] for one in told(world)) == list("abc")


def test_inside_a_session_it_is_no_part_of_it(world: World) -> None:
    """A pass that an agent calls: what it starts would be taken for the agent's own."""
    configure(world, command=f"env >{world.root}/env")
    world.start(
        "b", "sh", "-c", f"while ! test -e go; do sleep 0.05; done; {SESH} pass; sleep 1000"
    )
    pid = world.start("a")["pid"]
    no_call_backs(world)
    os.kill(pid, signal.SIGKILL)
    assert eventually(lambda: world.state_of("a") == "failed")
    (world.cwd / "go").touch()
    settle(world, "notified")
    told = (world.root / "env").read_text().splitlines()
    assert f"HOME={world.env['HOME']}" in told
    assert not [line for line in told if line.startswith(("SESH_", "TMUX"))]


def no_call_backs(world: World) -> None:
    """From now on only the passes of the test."""
    (callback,) = world.state.glob("run/*/callback")
    callback.write_text("exit 0\n")


def test_for_one_call_by_variables(world: World) -> None:
    world.start("a")
    world.ok("pass")
    no_call_backs(world)
    os.kill(world.session("a")["pid"], signal.SIGKILL)
    variables = {"SESH_NOTIFY_COMMAND": f"cat >>{world.root}/told", "SESH_NOTIFY_ON": "lost,failed"}
    assert eventually(lambda: world.state_of("a") == "failed")
    world.ok("pass", env={**world.env, **variables})
    settle(world, "notified")
    assert [one["name"] for one in told(world)] == ["a"]


SECRET = "s3cr3t"


def test_no_secret_of_a_target_is_printed_or_written(world: World) -> None:
    port = closed_port()
    world.configure(
        f"[notify]\ncommand = 'TOKEN={SECRET} false {SECRET}'\ntries = 1\n"
        f"webhooks = ['http://me:{SECRET}@127.0.0.1:{port}/{SECRET}?key={SECRET}', '{SECRET}']\n"
    )
    world.start("a", *FAILS)
    lost = settle(world, "notify-failed", 3)
    found = sorted((one["target"], one["reason"]) for one in lost)
    assert found == [
        ("false", "exit 1"),
        (f"http://127.0.0.1:{port}", "Connection refused"),
        ("webhook", "is not an http or https address"),
    ]
    said = [world.sesh(*words) for words in (["doctor"], ["config", "test-notify"], ["events"])]
    said += [world.sesh("config", "check"), world.sesh("gc"), world.sesh("show", "a")]
    assert SECRET not in "".join(one.out + one.err for one in said)
    holders = [path for path in world.state.rglob("*") if path.is_file()]
    assert not [path for path in holders if SECRET.encode() in path.read_bytes()]


# --- doctor and gc -------------------------------------------------------------------------------


def findings(world: World) -> list[dict[str, Any]]:
    found = world.ok("doctor", "--only", "notices", "--json").json
    return [one for one in found if one["level"] != "ok"]


def test_doctor_reports_failed_notifications_of_the_last_day(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.start("a")
    assert findings(world) == []
    monkeypatch.setenv("XDG_STATE_HOME", world.env["XDG_STATE_HOME"])
    about: dict[str, Any] = {"target": "https://one", "event": "ended", "reason": "answered 500"}
    old = (datetime.now(UTC) - timedelta(hours=25)).isoformat()
    events.write({**events.new("notify-failed", "a", "a-1", 1, **about), "time": old})
    happens("ended", reason='"notify-failed"')
    assert findings(world) == []
    happens("notify-failed", **about)
    happens("notify-failed", **{**about, "target": "mail", "reason": "exit 1"})
    (one,) = findings(world)
    assert one["level"] == "warn"
    assert one["text"] == (
        "2 notifications could not be delivered in the last day; the last to mail: exit 1"
    )
    assert one["mend"] == "sesh config test-notify"
    assert one["subjects"] == ["https://one", "mail"]
    events.rotate()
    assert len(findings(world)) == 1
    happens("notify-failed", target=None, reason=None)
    (one,) = findings(world)
    assert one["text"].endswith("the last to an unknown target: reason unknown")
    assert one["subjects"] == ["https://one", "mail"]


def test_gc_gives_up_what_is_a_day_old(world: World) -> None:
    configure(world, command="false")
    world.start("a", *FAILS)
    assert eventually(lambda: outbox(world) and quiet(world), 10)
    assert "notification" not in world.ok("gc").out
    (path,) = outbox(world)
    os.utime(path, (time.time() - 90_000,) * 2)
    damaged = path.with_name("x.1.7.json")
    damaged.write_text("{")
    os.utime(damaged, (time.time() - 90_000,) * 2)
    planned = world.ok("gc", "--dry-run", "--json").json
    assert [one["verb"] for one in planned if one["what"] == "notification"] == ["remove"] * 2
    assert len(outbox(world)) == 2
    assert "removed   2 notifications not delivered within a day" in world.ok("gc").out
    assert outbox(world) == []
    lost = settle(world, "notify-failed", 2)
    assert {(one["name"], one["target"], one["event"]) for one in lost} == {
        ("a", "false", "ended"),
        (None, None, None),
    }


def test_old_events_are_not_notified(state: Path) -> None:
    fails()
    notices.collect(wanting(command="exit 0"))
    (path,) = notices.waiting()
    text = json.loads(Path(path).read_text())
    text["body"]["time"] = (datetime.now(UTC) - timedelta(hours=25)).isoformat()
    Path(path).write_text(json.dumps(text))
    Path(path.replace(".1.0.json", ".1.1.json")).write_text("nonsense")
    notices.deliver(wanting(command="exit 0"))
    assert notices.waiting() == []
    reasons = sorted(event["reason"] for event in events.of_kind("notify-failed"))
    assert reasons == ["its file can't be read", "not delivered within a day"]


def test_settings_are_those_of_now(state: Path) -> None:
    """How often, and for how long, is not decided when something happens."""
    fails()
    notices.collect(wanting(command="false"))
    notices.deliver(wanting(command="false", tries=Count(1)))
    assert notices.waiting() == []
