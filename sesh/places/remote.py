"""A place that is reached by commands only: a shell somewhere, with tmux and a /tmp.

The functions here take `run`, which runs a command in the place of a record. `Reached` has what all
kinds with such a `run` share, containers too. `Remote` makes a whole kind of place of three
primitives: `command`, `standing` and `unclaimed_ids`. The answers of a place may be forged: they
are parsed strictly, and can only lie about their own session.
"""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, SeshError, StateError
from sesh.model.observation import (
    ExitReport,
    LaunchReport,
    Observation,
    Sight,
    absent,
    seen,
    unknown,
)
from sesh.model.place import Place
from sesh.model.record import ID_PATTERN, Record, Spec, Status
from sesh.model.states import Desired
from sesh.model.text import parse
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import quote
from sesh.model.value_object import replace
from sesh.places import claims, environment, launch_files, panes
from sesh.places.host import terminate
from sesh.places.host.terminate import Target
from sesh.places.interface import (
    Answers,
    Elsewhere,
    Inventory,
    Look,
    Recorded,
    guarded,
)
from sesh.places.unclaimed import UnclaimedPlace
from sesh.system import files, paths, processes, subprocesses, tmux
from sesh.system.container_engine import Trouble
from sesh.system.subprocesses import NOTHING, PIPE, Reply
from sesh.system.tmux import Tmux

Run = Callable[..., Reply]  # run(record, *argv, timeout=…, stdin=…, stdout=…)
KEEPER_PATIENCE = 1.0  # seconds from an agent's end to its keeper's report
_ID = lazy(ID_PATTERN)
_LINE = lazy(r"(pid|exit|error) ([0-9]+) ([0-9]*) ?(.*)")

# Prints what is known of one launch, a line each; its status says whether the agent lives. It lives
# as long as its keeper has not reported its end. Asked first: an end in between shows below.
WORDS = """\
alive=
[ ! -e {base}.exit ] && read -r pid start keeper rest <{base}.pid &&
  {{ [ -d "/proc/$pid" ] || [ -d "/proc/$keeper" ]; }} && alive=yes
for kind in pid exit error; do
  file={base}.$kind line= at=
  [ -f "$file" ] && read -r line <"$file" && at=$(stat -c %Y "$file" 2>/dev/null)
  echo "$kind {generation} $at $line"
done
[ -n "$alive" ] && echo "alive {generation}"
"""

# Signals all processes with the session's marker; prints their pids. (No `grep -F`: busybox's ends
# at the first NUL.) With TERM, an interactive shell (it ignores TSTP and TTOU) gets HUP too: it
# ignores TERM.
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


# Prints who owns the sessions that are in a place, a line each.
OWNERS = "cat /tmp/.sesh-*/owner 2>/dev/null; exit 0"


def home(session_id: str) -> str:
    """Inside: the directory of its tmux socket and of all files of its launches."""
    return f"/tmp/.sesh-{session_id[-8:]}"


# --- files for a launch --------------------------------------------------------------------------


def launch_contents(
    record: Record,
    base: str,
    variables: environment.Environment,
    command: tuple[str, ...],
    kit: Mapping[str, bytes],
) -> dict[str, bytes]:
    """The files of a launch of this command, by their names. `base`: their stem in the place;
    `kit`: the files of its agent, by their endings."""
    stem = record.launch
    blank = b" " * (launch_files.WORD_SIZE - 1) + b"\n"
    return {
        f"{stem}.pid": blank,
        f"{stem}.exit.tmp": blank,
        f"{stem}.env": environment.exports(variables),
        f"{stem}.launch": launch_files.script_elsewhere(record, command, base).encode(),
        **{f"{stem}{ending}": data for ending, data in kit.items()},
        **tools(record, base),
    }


def tools(record: Record, base: str) -> dict[str, bytes]:
    """The files that every launch and every look needs there."""
    words = WORDS.format(base=quote(base), generation=record.place.generation)
    found = {
        "keeper.sh": _shipped("places/keeper.sh"),
        "words.sh": words.encode(),
        "tmux.conf": tmux.CONFIG.format(terminal="screen-256color").encode(),
    }
    return {**found, "hook.sh": _shipped("places/docker/hook.sh")} if record.spec.kit else found


def _owner() -> str:
    return f"{processes.here().id} {processes.run_dir()}"


def owned(said: str) -> set[str]:
    """The ids of sessions of this state directory, by what `OWNERS` printed in a place."""
    lines = (line.partition(" ") for line in said.splitlines())
    return {found for found, _, who in lines if who == _owner() and _ID.fullmatch(found)}


def _shipped(name: str) -> bytes:
    with open(paths.package_file(name), "rb") as file:
        return file.read()


def push(run: Run, record: Record, contents: Mapping[str, bytes], timeout: float) -> Reply:
    """Transfer files as a shell script: no other program is sure to be there."""
    end = f"END-{os.urandom(8).hex()}"
    begin = f"umask 022; mkdir -p -m 700 {home(record.id)} && cd {home(record.id)} || exit 1\n"
    script = begin.encode()
    for name, data in contents.items():
        whole = data if data.endswith(b"\n") else data + b"\n"
        here = b"rm -rf %s; cat >%s <<'%s' || exit 1\n%s%s\n"
        file = quote(name).encode()
        script += here % (file, file, end.encode(), whole, end.encode())
    with files.unnamed(script) as fd:
        return run(record, "sh", timeout=timeout, stdin=fd)


# --- reports -------------------------------------------------------------------------------------


def look(run: Run, record: Record, base: str, timeout: float) -> str | Reply:
    """The reports of a launch, fetched by a command."""
    said = run(record, "sh", f"{os.path.dirname(base)}/words.sh", timeout=timeout)
    return said.out if said.ok or _LINE.search(said.out) else said


def refresh(run: Run, record: Record, base: str, timeout: float) -> None:
    """Fetch the reports and keep them on this machine."""
    said = look(run, record, base, timeout)
    if isinstance(said, str):
        keep_words(record, said)


def says_alive(record: Record, said: str) -> bool:
    return f"alive {record.place.generation}" in said.splitlines()


def keep_words(record: Record, said: str) -> bool:
    """Keep reports of this generation as the keeper would have written them. Was there any?"""
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
    with suppress(StateError):  # another kind of file is in its place: then there is no report
        files.write_private(file, word.encode(errors="replace") + b"\n", durable=False)
        seconds = parse.number(at, int(time.time()))
        if seconds is not None:
            os.utime(file, (seconds, seconds))


def reap(run: Run, record: Record, signal: int, timeout: float) -> list[int] | Reply:
    """Signal (0: only find) the processes with the session's marker in the place; their pids. As
    the session's own user, because not even root can always read environments there; and by a
    script from here, because one that is there may be forged."""
    script = ("sh", "-c", _REAP, "reap", record.id, str(int(signal)))
    said = run(record, *script, timeout=timeout)
    if not said.ok:
        return said
    told = (parse.number(word, parse.PID) for word in said.out.split())
    return [pid for pid in told if pid is not None]


def pull_transcript(run: Run, record: Record, log: str, timeout: float) -> Reply:
    """Fetch the output since the last time."""
    with files.opened(paths.transcript(record.id), os.O_WRONLY | os.O_APPEND) as fd:
        tail = ("tail", "-c", f"+{os.fstat(fd).st_size + 1}", log)
        return run(record, *tail, timeout=timeout, stdout=fd)


def leave(run: Run, record: Record, timeout: float) -> None:
    """Remove our files from a place that stays."""
    there = home(record.id)
    script = f"tmux -S {there}/tmux.sock kill-session -t ={record.name}; rm -rf {there}"
    run(record, "sh", "-c", script, timeout=timeout)


# --- the end -------------------------------------------------------------------------------------


def end(reach: Callable[[int], list[int] | Reply], grace: float) -> None:
    """End the processes of a session. `reach` signals all of them (0: none), and returns those that
    are left, or why the place could not be asked: then nothing more is tried."""

    def look(targets: list[Target], now: float) -> None:
        (target,) = targets
        left = reach(target.due(now))
        target.done = not left or isinstance(left, Reply)

    terminate.end_all([Target("", time.monotonic() + grace)], look, pause=0.1)


# --- a kind of place -----------------------------------------------------------------------------


class Standing(Inventory):
    """What is there of a kind: sessions with and without a record."""

    unclaimed: frozenset[str]  # ids


class Reached(Elsewhere):
    """A kind whose places are reached by commands. A subclass must have `run`."""

    def run(
        self,
        record: Record,
        *argv: str,
        timeout: float,
        stdin: int = NOTHING,
        stdout: int = PIPE,
    ) -> Reply:
        """Run a command in the place."""
        raise NotImplementedError

    def timeout(self, config: Config) -> float:
        """The seconds that a command in the place may take."""
        return 20.0

    def reap(self, record: Record, number: int, config: Config) -> list[int] | Reply:
        """Signal (0: only find) the processes of the session; their pids."""
        return reap(self.run, record, number, self.timeout(config))

    def refresh(self, record: Record, config: Config) -> None:
        """Bring the reports of the launch on this machine up to date."""
        refresh(self.run, record, self.stem(record), self.timeout(config))

    def fetch_transcript(self, record: Record, config: Config) -> None:
        with suppress(OSError):
            pull_transcript(self.run, record, self.log(record), self.timeout(config))

    def terminate(self, record: Record, config: Config, grace: float) -> None:
        with suppress(SeshError, OSError):  # what could not be done shows at the next look
            end(lambda number: self.reap(record, number, config), grace)
            panes.save_screens([record], self.tmux(record, config))
            self.fetch_transcript(record, config)
            self._await_exit(record, config)

    def _await_exit(self, record: Record, config: Config) -> None:
        """Give the keeper a moment to report how the agent ended, before its place is removed."""
        deadline = time.monotonic() + KEEPER_PATIENCE
        while time.monotonic() < deadline:
            self.refresh(record, config)
            if self.words(record)[1] is not None:
                return
            time.sleep(0.02)

    def await_agent(self, record: Record, config: Config) -> None:
        deadline = time.monotonic() + self.patience(record.spec)
        script = self.stem(record) + ".launch"
        while time.monotonic() < deadline:
            self.refresh(record, config)
            launch, exit_word = self.words(record)
            if exit_word is not None:
                return
            if launch is not None and (
                not record.place.pids_here or processes.became(launch.agent.process.pid, script)
            ):
                return
            time.sleep(self.pause(record))

    def pause(self, record: Record) -> float:
        """Seconds between two looks at a launch, each of which may run a command in the place."""
        return 0.1

    def old_pane(self, old: Record, config: Config) -> str | None:
        """The pane of the last launch, if it is still there; its screen is saved."""
        server = self.tmux(old, config)
        if panes.find(old, server.panes()) is None:
            return None
        panes.save_screens([old], server)
        return old.place.pane

    def remove_files(self, record: Record) -> None:
        launch_files.remove_mount(record.place.run)


class Remote(Reached):
    """A kind of place. A subclass must have `command`, `standing` and `unclaimed_ids`. Nothing is
    made for a session but its tmux server and a directory."""

    place: type[Place]  # of `model/place`

    def command(self, record: Record, *argv: str, terminal: bool = False) -> list[str]:
        """The command, on this machine, that runs `argv` in the place."""
        raise NotImplementedError

    def standing(self, records: Sequence[Record], config: Config) -> Mapping[str, Sight]:
        """Session id → is its place there? One question for all. ABSENT only on proof."""
        raise NotImplementedError

    def unclaimed_ids(self, known: Collection[str], config: Config) -> set[str]:
        """The sessions that are there (`OWNERS`, `owned`) and not among the known ones. Raises when
        a place gives no answer."""
        raise NotImplementedError

    def run(
        self,
        record: Record,
        *argv: str,
        timeout: float,
        stdin: int = NOTHING,
        stdout: int = PIPE,
    ) -> Reply:
        env = subprocesses.engine_environment()
        answer = subprocesses.call(
            self.command(record, *argv), timeout=timeout, env=env, stdin=stdin, stdout=stdout
        )
        if answer.ok:
            return Reply(answer.out)
        text = answer.problem or answer.err.strip() or f"exit {answer.code} without a message"
        return Reply(answer.out, Trouble.OTHER, text)

    def _must(self, record: Record, said: Reply | list[int]) -> None:
        if isinstance(said, Reply) and not said.ok:
            raise CannotTellError(f"{record.name}: {said.text}")

    def describe(self, record: Record) -> str:
        return f"{record.place.kind}, tmux pane {record.place.pane or '–'}"

    def tmux(self, record: Record, config: Config) -> Tmux:
        prefix = tuple(self.command(record))
        there = home(record.id)
        return Tmux("tmux", record.place.socket, there, timeout=self.timeout(config), prefix=prefix)

    def attach_command(
        self, record: Record, config: Config, *, read_only: bool, alone: bool
    ) -> list[str]:
        options = (*(("-r",) if read_only else ()), *(("-d",) if alone else ()))
        client = ("tmux", "-N", "-u", "-S", record.place.socket, "attach-session", *options)
        return self.command(record, *client, "-t", f"={record.name}", terminal=True)

    def enter_command(self, record: Record) -> list[str]:
        return self.command(record, "sh", "-c", 'cd "$0" && exec "$@"', record.spec.cwd)

    def freeze(self, record: Record, config: Config) -> None:
        self._must(record, self.reap(record, signal.SIGSTOP, config))

    def thaw(self, record: Record, config: Config) -> None:
        self._must(record, self.reap(record, signal.SIGCONT, config))

    # --- what is seen of it ---

    def words(self, record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
        return launch_files.words(record, record.status.launched)

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        asked = [record for record, _ in looks if record.status.outcome is None]
        there = self.standing(asked, config) if asked else {}
        return [
            guarded(self._complete, record, sight, there[record.id], config)
            if record.id in there
            else sight
            for record, sight in looks
        ]

    def _complete(
        self, record: Record, sight: Observation, where: Sight, config: Config
    ) -> Observation:
        sight = replace(sight, container=where)
        if where.unknown:
            return replace(sight, agent=where, others=where, remains=where)
        if where.absent:
            gone = absent("nothing of it")
            return replace(sight, agent=where, terminal=where, others=gone, remains=gone)
        said = look(self.run, record, self.stem(record), self.timeout(config))
        if isinstance(said, Reply):
            return replace(sight, agent=unknown(said.text), remains=unknown(said.text))
        keep_words(record, said)
        launch, exit_word = self.words(record)
        agent = absent("it is gone" if launch else "it has not started yet")
        if says_alive(record, said):
            agent = seen("it lives there")
        sight = replace(sight, agent=agent, launch=launch, exit=exit_word)
        if record.status.desired is not Desired.STOPPED:
            return sight
        found = self.reap(record, 0, config)
        if isinstance(found, Reply):
            return replace(sight, remains=unknown(found.text))
        left = seen(f"{len(found)} of its processes are left")
        return replace(sight, remains=left if found else absent("no process of it is left"))

    # --- the end ---

    def clear(self, record: Record, config: Config, *, close_panes: bool) -> None:
        if close_panes:
            panes.put_away([record], self.tmux(record, config))

    def release(self, record: Record, config: Config) -> None:
        there = self.standing([record], config)[record.id]
        if there.unknown:
            raise CannotTellError(f"{record.name}: {there.what}; not removed")
        if there.present:
            leave(self.run, record, self.timeout(config))

    # --- launches ---

    def reserve(self, identity: str, spec: Spec, config: Config) -> Place:
        return self._place(identity, 1)

    def _place(self, identity: str, generation: int) -> Place:
        run = processes.run_dir()
        return self.place(
            generation=generation,
            machine=processes.here(),
            run=launch_files.mount_path(run, identity),
            snapshot=environment.snapshot_path(identity, run),
            socket=f"{home(identity)}/tmux.sock",
        )

    def next_place(self, old: Record, config: Config) -> tuple[Place, bool]:
        place, pane = self._place(old.id, old.place.generation + 1), self.old_pane(old, config)
        return replace(place, pane=pane), pane is not None

    def make_files(self, record: Record) -> None:
        files.make_private(record.place.private_run)
        files.make_private(record.place.run)
        launch_files.make_transcript(record.id)

    def provide(self, record: Record, config: Config) -> Place:
        ready = f"tmux -V >/dev/null && mkdir -p -m 700 {home(record.id)}"
        self._must(record, self.run(record, "sh", "-c", ready, timeout=self.timeout(config)))
        return record.place

    def put(
        self,
        record: Record,
        variables: environment.Environment,
        command: tuple[str, ...],
        kit: Mapping[str, bytes],
        config: Config,
    ) -> None:
        contents = launch_contents(record, self.stem(record), variables, command, kit)
        owner = {"owner": f"{record.id} {_owner()}\n".encode()}
        self._must(record, push(self.run, record, {**contents, **owner}, self.timeout(config)))

    def stem(self, record: Record) -> str:
        return f"{home(record.id)}/{record.launch}"

    def launch_server(self, record: Record, config: Config) -> Tmux:
        return self.tmux(record, config)

    def log(self, record: Record) -> str:
        return f"{home(record.id)}/log"

    def refused(self, record: Record, reply: Reply) -> SeshError:
        return CannotTellError(f"{record.name}: tmux: {reply.text}")

    def take_back(self, claimed: Record, config: Config) -> bool:
        if isinstance(self.reap(claimed, signal.SIGKILL, config), Reply):
            return False
        leave(self.run, claimed, self.timeout(config))
        return True

    # --- what is left without a record ---

    def inventory(self, sessions: Sequence[Record], config: Config, *, thorough: bool) -> Standing:
        none: frozenset[str] = frozenset()
        if not (sessions or thorough or launch_files.mounts_left(processes.run_dir())):
            return Standing(none, none)
        known = {record.id for record in sessions}
        there = self.standing(sessions, config) if sessions else {}
        try:
            unclaimed = frozenset(self.unclaimed_ids(known, config))
        except SeshError:
            return Standing(None, none)
        if any(sight.unknown for sight in there.values()):
            return Standing(None, unclaimed)
        present = {key for key, sight in there.items() if sight.present}
        return Standing(unclaimed | present, unclaimed)

    def ask_again(self, inventory: Inventory, config: Config) -> Standing:
        return self.inventory([], config, thorough=True)

    def unclaimed(
        self, inventory: Inventory, recorded: Recorded, config: Config
    ) -> list[UnclaimedPlace]:
        assert isinstance(inventory, Standing)
        found = (self._unclaimed(one, recorded) for one in sorted(inventory.unclaimed))
        return [one for one in found if one is not None]

    def _unclaimed(self, session_id: str, recorded: Recorded) -> UnclaimedPlace | None:
        """Only a copy of the record that is on this machine proves that a session is ours, and says
        where it runs."""
        if recorded.listed(session_id) is not None:
            return None
        past = recorded.archived(session_id)
        kept = [*claims.kept(processes.run_dir(), session_id), *((past,) if past else ())]
        claim = max(kept, key=lambda one: one.place.generation, default=None)
        return UnclaimedPlace(
            session_id=session_id,
            since=claim.spec.created if claim else None,
            command=claim.spec.command if claim else (),
            kind=self.place.kind,
            label=home(session_id),
            status="running",
            claim=claim,
            busy=True,
            archived=past is not None,
            proven=claim is not None,
            copied=False,
            spent=False,
        )

    def still_unclaimed(
        self, found: UnclaimedPlace, recorded: Recorded, config: Config
    ) -> UnclaimedPlace | None:
        there = found.session_id in self.unclaimed_ids((), config)
        return self._unclaimed(found.session_id, recorded) if there else None

    def rebuild(self, found: UnclaimedPlace, config: Config) -> Record:
        claim = found.claim
        if claim is None:
            raise SeshError(f"{found.name}: no copy of its record is left on this machine")
        place = self._place(claim.id, claim.place.generation)
        status = Status(desired=Desired.RUNNING, launched=claim.status.launched)
        record = Record(claim.name, claim.id, claim.spec, place, status)
        self.make_files(record)
        listed = self.tmux(record, config).panes()
        if isinstance(listed, Reply):
            raise CannotTellError(f"{record.name}: tmux: {listed.text}")
        pane = next((one.id for one in listed if one.sesh_id == record.id), None)
        self.refresh(record, config)
        return replace(record, place=replace(place, pane=pane))

    def remove_unclaimed(self, found: UnclaimedPlace, config: Config) -> bool:
        claim = found.claim
        if claim is None or not self.take_back(claim, config):
            return False
        self.remove_files(claim)
        return self.standing([claim], config)[claim.id].absent
