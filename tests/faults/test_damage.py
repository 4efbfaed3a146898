"""A running session's files deleted, edited, truncated, replaced: `ls` tells, all the others are
listed as before, nothing is killed, nothing is deleted."""

from __future__ import annotations

import json
import os
import re
import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests import pace
from tests.faults.living import Known, dead, look
from tests.faults.table import Campaign
from tests.world import World, count

pytestmark = pytest.mark.timeout(count(600, 3600))

OTHERS = ("before", "zafter")  # sorted around the victim
NAME = "victim"
IN_TIME = count(15, 5)  # seconds; at full nothing else keeps the machine busy

Damage = Callable[[Path, bytes], None]


class Scene:
    """A victim between two others, and its record as it was."""

    def __init__(self, world: World) -> None:
        self.world = world
        running = {one["name"] for one in world.ls()}
        for name in OTHERS:
            if name not in running:
                world.start(name)
        self.session = world.start(NAME, options=("--group", "old"))
        self.agents = [self.agent(one["pid"]) for one in world.ls()]
        self.path = world.record(NAME)
        self.raw = self.path.read_bytes()

    def agent(self, pid: int) -> Known:
        found = look(pid)
        assert found is not None
        return found

    def list(self) -> dict[str, dict[str, Any]]:
        """What `ls --json` says, in time, by name."""
        before = time.monotonic()
        listed = self.world.ok("ls", "--json").json
        took = time.monotonic() - before
        assert took < pace.seconds(IN_TIME), f"ls took {took:.1f} s"
        names = [one["name"] for one in listed]
        assert len(names) == len(set(names)), f"listed twice: {names}"
        return {one["name"]: one for one in listed}

    def check_others(self, listed: dict[str, dict[str, Any]]) -> None:
        """The rest works, nothing is killed."""
        for name in OTHERS:
            assert listed[name]["state"] == "running", listed[name]
        for agent in self.agents:
            assert not dead(agent), f"agent {agent.pid} was killed"

    def check_told(self, states: tuple[str, ...]) -> dict[str, Any]:
        """`ls` says what is wrong with the victim, in one of these words."""
        listed = self.list()
        self.check_others(listed)
        assert NAME in listed, f"nothing is said about it: {listed.keys()}"
        victim = listed[NAME]
        assert victim["state"] in states, f"{victim['state']}, not one of {states}: {victim}"
        if victim["state"] == "running":
            assert victim["pid"] == self.session["pid"], f"another pid: {victim}"
        if victim["state"] == "damaged":
            assert victim["reason"], "it does not say why"
            assert victim["path"] == str(self.path)
        return victim

    def restore(self) -> None:
        """Put the record back: it must be as if nothing had been."""
        if self.path.is_symlink() or not self.path.is_dir():
            self.path.unlink(missing_ok=True)
        else:
            shutil.rmtree(self.path)
        self.path.write_bytes(self.raw)
        listed = self.list()
        self.check_others(listed)
        assert listed[NAME]["state"] == "running", f"put back, but {listed[NAME]}"
        self.path.write_bytes(self.raw)


def fingerprint(path: Path) -> tuple[int, int, bytes] | None:
    """What a path is: kind and contents, without following or blocking."""
    try:
        status = path.lstat()
    except FileNotFoundError:
        return None
    kind = status.st_mode & 0o170000
    readable = kind == 0o100000 and os.access(path, os.R_OK)
    return kind, status.st_ino, path.read_bytes() if readable else b""


# --- replaced by something that is no record ----------------------------------------------------


def bytes_instead(data: bytes | Callable[[bytes], bytes]) -> Damage:
    def damage(path: Path, raw: bytes) -> None:
        path.write_bytes(data if isinstance(data, bytes) else data(raw))

    return damage


def fifo(path: Path, raw: bytes) -> None:
    path.unlink()
    os.mkfifo(path)


def directory(path: Path, raw: bytes) -> None:
    path.unlink()
    path.mkdir()


def link(path: Path, raw: bytes) -> None:
    """Even to a good copy: a link can be pointed anywhere."""
    copy = path.with_name("copy")
    copy.write_bytes(raw)
    path.unlink()
    path.symlink_to(copy)


def dangling(path: Path, raw: bytes) -> None:
    path.unlink()
    path.symlink_to("nowhere")


def device(path: Path, raw: bytes) -> None:
    path.unlink()
    path.symlink_to("/dev/zero")


def body(raw: bytes) -> bytes:
    return raw.partition(b"\n")[2]


def changed(old: str, new: str) -> Damage:
    """Edit one line by hand, the digest line left as it was."""

    def damage(path: Path, raw: bytes) -> None:
        head, _, rest = raw.decode().partition("\n")
        edited = re.sub(old, new, rest, count=1, flags=re.MULTILINE)
        assert edited != rest, f"nothing to edit: {old}"
        path.write_text(f"{head}\n{edited}")

    return damage


UNREADABLE: dict[str, Damage] = {
    "emptied": bytes_instead(b""),
    "one newline": bytes_instead(b"\n"),
    "NULs": bytes_instead(lambda raw: b"\0" * len(raw)),
    "a block of NULs": bytes_instead(lambda raw: raw[:900] + b"\0" * 512 + raw[1412:]),
    "random bytes": bytes_instead(lambda raw: os.urandom(len(raw))),
    "not UTF-8": bytes_instead(lambda raw: raw + b'x = "\xff\xfe"\n'),
    "10 MB": bytes_instead(lambda raw: raw + b"# filler\n" * (10 << 20 >> 3)),
    "10 MB of NULs": bytes_instead(b"\0" * (10 << 20)),
    "deep nesting": bytes_instead(lambda raw: raw + b"x = " + b"[" * 20000 + b"]" * 20000 + b"\n"),
    "deep nesting alone": bytes_instead(b"x = " + b"[" * 60000),
    "a long dotted key": bytes_instead(lambda raw: raw + b"a." * 15000 + b"b = 1\n"),
    "many tables": bytes_instead(b"".join(b"[a%d]\n" % n for n in range(6000))),
    "another format": bytes_instead(lambda raw: json.dumps({"name": NAME}).encode()),
    "digest line alone": bytes_instead(lambda raw: raw.partition(b"\n")[0] + b"\n"),
    "a FIFO": fifo,
    "a directory": directory,
    "a link": link,
    "a dangling link": dangling,
    "a link to a device": device,
    "newer schema": changed(r"^schema = 1$", "schema = 2"),
    "no schema": changed(r"^schema = 1\n", ""),
    "another's name": changed(rf'^name = "{NAME}"$', 'name = "before"'),
    "a path as name": changed(rf'^name = "{NAME}"$', 'name = "../../x"'),
    "pid = true": changed(r"^(\[place\.agent\]\n)pid = \d+$", r"\1pid = true"),
    "pid = -1": changed(r"^(\[place\.agent\]\n)pid = \d+$", r"\1pid = -1"),
    "pid = 1": changed(r"^(\[place\.agent\]\n)pid = \d+$", r"\1pid = 1"),
    "generation as text": changed(r"^generation = 1$", 'generation = "1"'),
    "generation 0": changed(r"^generation = 1$", "generation = 0"),
    "a word unknown": changed(r'^desired = "running"$', 'desired = "flying"'),
    "a key unknown": changed(r"^retries = 0$", "retries = 0\nsurprise = 1"),
    "a key missing": changed(r"^cwd = .*\n", ""),
    "a key twice": changed(r"^retries = 0$", "retries = 0\nretries = 0"),
    "an open quote": changed(r'^kind = "host"$', 'kind = "host'),
}


@pytest.fixture
def scene(world: World) -> Scene:
    return Scene(world)


def test_damage_record_replaced(scene: Scene, campaign: Campaign) -> None:
    """What is no record is `damaged`, says why, and stays where it is as it is."""
    for _ in range(count(1, 5)):
        for what, damage in UNREADABLE.items():
            with campaign.round(what):
                damage(scene.path, scene.raw)
                before = fingerprint(scene.path)
                scene.check_told(("damaged",))
                assert fingerprint(scene.path) == before, "ls has touched what it can't read"
                scene.restore()
    campaign.remark(f"{len(UNREADABLE)} kinds")
    campaign.conclude()


def test_damage_is_told_to_people(scene: Scene, campaign: Campaign) -> None:
    """The table names the damaged one, and the reason is in `show`."""
    with campaign.round("emptied"):
        scene.path.write_bytes(b"")
        done = scene.world.ok("ls")
        (line,) = (line for line in done.out.splitlines() if NAME in line)
        assert "damaged" in line
        assert "empty" in scene.world.ok("show", NAME).out
    campaign.conclude()


def test_damage_record_deleted(scene: Scene, campaign: Campaign) -> None:
    """The agent is an orphan: alive, and no record claims it."""
    for _ in range(count(1, 20)):
        with campaign.round("deleted"):
            scene.path.unlink()
            victim = scene.check_told(("orphan",))
            assert victim["pid"] == scene.session["pid"]
            assert not scene.path.exists(), "a look made a record"
            scene.restore()
    campaign.conclude()


def test_damage_all_records_deleted(world: World, campaign: Campaign) -> None:
    """The whole directory of records is gone: every agent is listed as an orphan."""
    scene = Scene(world)
    with campaign.round("sessions/ deleted"):
        shutil.rmtree(world.state / "sessions")
        listed = scene.list()
        assert {name: one["state"] for name, one in listed.items()} == dict.fromkeys(
            (*OTHERS, NAME), "orphan"
        )
        assert not any(dead(agent) for agent in scene.agents)
    campaign.conclude()


# --- truncated ---------------------------------------------------------------------------------


def cuts(raw: bytes, campaign: Campaign) -> Iterator[int]:
    """Where to cut: the ends of lines (what a parser may take for a whole file), and in between."""
    first = raw.index(b"\n")
    ends = [at for at in range(first, len(raw)) if raw[at : at + 1] == b"\n"]
    yield from campaign.random.sample(ends, count(12, len(ends)))
    yield from campaign.random.sample(range(len(raw)), count(12, 400))
    yield from campaign.random.sample(range(first), 4)


def test_damage_record_truncated(scene: Scene, campaign: Campaign) -> None:
    """Cut anywhere, a record is damaged; only where the cut takes away nothing that matters may it
    still be the same running session. Never does it turn into an end that did not happen."""
    as_good_as_whole = 0
    for at in cuts(scene.raw, campaign):
        with campaign.round(f"cut to {at} of {len(scene.raw)} bytes, {scene.raw[:at][-40:]!r}"):
            scene.path.write_bytes(scene.raw[:at])
            victim = scene.check_told(("damaged", "orphan", "running"))
            assert scene.path.exists(), "the file was deleted"
            if victim["state"] == "running":
                as_good_as_whole += 1
                assert victim["id"] == scene.session["id"]
                assert victim["group"] == "old"
                assert victim["command"] == scene.session["command"]
            scene.path.write_bytes(scene.raw)
    campaign.remark(f"{as_good_as_whole} still read as the same session")
    campaign.conclude()


# --- doctor --fix ------------------------------------------------------------------------------


def no_permission(path: Path, raw: bytes) -> None:
    """Damaged for everybody but root, who reads it all the same: then the file is empty, too."""
    path.write_bytes(b"" if os.getuid() == 0 else raw)
    path.chmod(0)


FIXABLE: dict[str, Damage] = {
    **UNREADABLE,
    "mode 0000": no_permission,
    "a byte order mark": bytes_instead(lambda raw: b"\xef\xbb\xbf" + raw.partition(b"\n")[2]),
}


def spread_damage(scene: Scene, total: int) -> set[Path]:
    """Damaged records of every kind, the rest of them cut off at every byte in turn."""
    made: set[Path] = set()
    kinds = list(FIXABLE.values())
    body_at = scene.raw.index(b"\n") + 1
    for number in range(total):
        path = scene.path.with_name(f"bad{number:04}.toml")
        raw = scene.raw.replace(NAME.encode(), f"bad{number:04}".encode())
        path.write_bytes(raw)
        path.chmod(0o600)
        if number < len(kinds):
            kinds[number](path, scene.raw)
        else:
            path.write_bytes(raw[: body_at + (number * 7) % 500])
        made.add(path)
    return made


def test_damage_is_quarantined(scene: Scene, campaign: Campaign) -> None:
    """Every damaged record is reported and moved, none deleted; the good ones are listed, before
    and after, and the victim's own record is rebuilt."""
    world, total = scene.world, count(120, 1000)
    made = spread_damage(scene, total)
    scene.path.write_bytes(b"")
    with campaign.round("all are told"):
        listed = scene.list()
        scene.check_others(listed)
        told = {name for name, one in listed.items() if one["state"] == "damaged"}
        assert told >= {path.name.removesuffix(".toml") for path in made}, "not all are told"
    with campaign.round("a report changes nothing"):
        before = {path: fingerprint(path) for path in made}
        done = world.sesh("doctor", "--json", "--only", "record-damaged", timeout=600)
        assert done.code == 10
        (finding,) = done.json
        assert len(finding["subjects"]) == total + 1, len(finding["subjects"])
        assert {path: fingerprint(path) for path in made} == before
    with campaign.round("--fix moves them"):
        kinds = sorted((path.lstat().st_mode & 0o170000, path.lstat().st_size) for path in made)
        fixed = world.sesh("doctor", "--fix", "--only", "record-damaged", timeout=600)
        assert fixed.code == 0, fixed.out + fixed.err[-500:]
        quarantine = [p for p in (world.state / "quarantine").iterdir() if p.name[:3] == "bad"]
        found = [(path.lstat().st_mode & 0o170000, path.lstat().st_size) for path in quarantine]
        assert sorted(found) == kinds, "something is missing, or not as it was"
        assert all(
            p.lstat().st_mode & 0o77 == 0 for p in quarantine if p.is_file() and not p.is_symlink()
        )
        assert not any(os.path.lexists(path) for path in made)
    with campaign.round("the good ones are there"):
        listed = scene.list()
        scene.check_others(listed)
        assert set(listed) == {*OTHERS, NAME}
        assert listed[NAME]["id"] == scene.session["id"]
        assert listed[NAME]["state"] == "running"
    campaign.remark(f"{total} damaged records")
    campaign.conclude()


# --- edited by hand ----------------------------------------------------------------------------

EDITS: dict[str, tuple[Damage, dict[str, object]]] = {
    "group": (changed(r'^group = "old"$', 'group = "new"'), {"group": "new"}),
    "tags": (changed(r"^tags = \[\]$", 'tags = ["urgent"]'), {"tags": ["urgent"]}),
    "a comment": (changed(r"^\[status\]$", "# mine\n[status]"), {"group": "old"}),
    "order of tables": (
        bytes_instead(lambda raw: raw.replace(b"[agent]\n", b"") + b"\n[agent]\n"),
        {"group": "old"},
    ),
    "no digest line": (bytes_instead(body), {"group": "old"}),
    "Windows line ends": (
        bytes_instead(lambda raw: raw.replace(b"\n", b"\r\n")),
        {"group": "old"},
    ),
}


def test_damage_record_edited(scene: Scene, campaign: Campaign) -> None:
    """A valid edit counts, at once and through the fast lane."""
    for _ in range(count(1, 20)):
        for what, (edit, expected) in EDITS.items():
            with campaign.round(what):
                edit(scene.path, scene.raw)
                for _ in range(2):
                    victim = scene.check_told(("running",))
                    told = {key: victim[key] for key in expected}
                    assert told == expected, f"{told}, not {expected}"
                scene.restore()
    campaign.conclude()


LIES: dict[str, Damage] = {
    "another pid": changed(r"^(\[place\.agent\]\n)pid = \d+$", r"\1pid = 4194000"),
    "another start": changed(r"^(\[place\.agent\]\npid = \d+\n)start = \d+$", r"\1start = 7"),
    "no agent": changed(r"^\[place\.agent\]\n(\w+ = \d+\n)+", ""),
    "an end": changed(
        r"^retries = 0$", 'retries = 0\noutcome = "completed"\nended = 2026-01-01T00:00:00Z'
    ),
    "another machine": changed(r'^machine = ".+"$', 'machine = "0123456789abcdef"'),
    "an old boot": changed(r'^boot = ".*"$', 'boot = "00000000-0000-0000-0000-000000000000"'),
    "another generation": changed(r"^generation = 1$", "generation = 2"),
}


def test_damage_record_lies(scene: Scene, campaign: Campaign) -> None:
    """A well-formed record that tells a lie about its agent: the agent lives on, and the list shows
    that it does (running, orphan), or that it can't be known."""
    for _ in range(count(1, 20)):
        for what, lie in LIES.items():
            with campaign.round(what):
                lie(scene.path, scene.raw)
                listed = scene.world.ls()
                pids = [one.get("pid") for one in listed if one["name"] == NAME]
                states = [one["state"] for one in listed if one["name"] == NAME]
                honest = {"running", "orphan", "unknown", "damaged"} & set(states)
                assert honest, f"alive, but the list says {states}, pid {pids}"
                scene.check_others({one["name"]: one for one in listed})
                scene.restore()
    campaign.conclude()


# --- the other files ---------------------------------------------------------------------------


def gone(path: Path) -> None:
    path.unlink()


def emptied(path: Path) -> None:
    path.write_bytes(b"")


def garbage(path: Path) -> None:
    path.write_bytes(b"\xff\0 1 2 3 {[(\n" * 50)


def as_directory(path: Path) -> None:
    path.unlink()
    path.mkdir()


FILES = {
    "pid file": "state/sesh/run/*/victim-*.pid",
    "exit file to be": "state/sesh/run/*/victim-*.exit.tmp",
    "call back": "state/sesh/run/*/callback",
    "tmux.conf": "state/sesh/run/*/tmux.conf",
    "transcript": "state/sesh/transcripts/victim-*.log",
    "events": "state/sesh/events.jsonl",
    "lock": "state/sesh/sessions/.lock",
    "environment": "run/sesh/*/victim-*.env",
    "tmux socket": "state/sesh/run/*/tmux.sock",
}


@pytest.mark.parametrize("harm", [gone, emptied, garbage, as_directory], ids=lambda h: h.__name__)
def test_damage_other_files(world: World, campaign: Campaign, harm: Callable[[Path], None]) -> None:
    """A running session's other files harmed: it runs, is listed so, and its end is still seen."""
    for what, pattern in FILES.items():
        if what == "tmux socket" and harm is not gone:
            continue  # a socket can't be written to
        with campaign.round(what):
            world.ok("rm", "-f", NAME)
            scene = Scene(world)
            (path,) = world.root.glob(pattern)
            harm(path)
            scene.check_told(("running",))
            (agent,) = (one for one in scene.agents if one.pid == scene.session["pid"])
            os.kill(agent.pid, 15)
            assert_ended(scene, what)
            if path.is_dir():
                path.rmdir()
    campaign.conclude()


def assert_ended(scene: Scene, what: str) -> None:
    """Its end is known: with signal 15, unless the very word of the keeper was made impossible."""
    deadline = time.monotonic() + pace.seconds(5)
    while (state := scene.list()[NAME])["state"] == "running" and time.monotonic() < deadline:
        pass
    blocked = what == "exit file to be"
    right = (state["state"], state["signal"]) == ("failed", 15)
    assert right or (blocked and state["state"] == "lost"), state
