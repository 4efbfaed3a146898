"""Sessions in containers, as operations see them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, SeshError
from sesh.model.observation import ExitReport, LaunchReport, Observation
from sesh.model.place import Process
from sesh.model.record import Record, Spec
from sesh.model.text import formatting
from sesh.model.text.units import amount
from sesh.places import panes, remote
from sesh.places.docker import observe, ownership, session_files
from sesh.places.docker.container import facts_of
from sesh.places.docker.launch import LaunchInContainer
from sesh.places.docker.unclaimed import UnclaimedContainers
from sesh.places.finding import Finding
from sesh.places.host import tmux_server
from sesh.places.interface import Answers, Examined, Look
from sesh.system import container_engine, directory_tree, files, processes
from sesh.system.container_engine import Trouble
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux


class Docker(LaunchInContainer, UnclaimedContainers):
    """Sessions in containers."""

    def tmux(self, record: Record, config: Config) -> Tmux:
        place = record.place
        if place.container_name is None:  # nothing answers at that socket
            return tmux_server.server(place.socket, place.run, config)
        return observe.server(record, config)

    def enter_command(self, record: Record) -> list[str]:
        where = ("-w", record.spec.cwd) if record.spec.cwd else ()
        how = (*session_files.as_user(record), *where, session_files.container_of(record).id)
        return container_engine.argv(session_files.place(record).engine, "exec", *how)

    def words(self, record: Record) -> tuple[LaunchReport | None, ExitReport | None]:
        return observe.words(record)

    def complete(
        self, looks: Sequence[Look], config: Config, answers: Answers
    ) -> list[Observation]:
        return observe.complete(looks, config)

    def by_proc(self, record: Record, sight: Observation) -> Observation | None:
        return observe.by_init(record, sight) if record.place.pids_here else None

    def has_screen(self, record: Record) -> bool:
        container = session_files.place(record).container
        return container is not None and (container.init is None or processes.alive(container.init))

    run = staticmethod(session_files.run_inside)

    def timeout(self, config: Config) -> float:
        return config.docker.timeout * 2

    def refresh(self, record: Record, config: Config) -> None:
        if not _mounted(record):
            super().refresh(record, config)

    def fetch_transcript(self, record: Record, config: Config) -> None:
        if not _mounted(record):
            super().fetch_transcript(record, config)

    def reap(self, record: Record, number: int, config: Config) -> list[int] | Reply:
        """From inside. An agent that this machine still sees alive, although the inside reports
        nothing, is signalled from here."""
        left = super().reap(record, number, config)
        silent = left.trouble is Trouble.NO_PROGRAM if isinstance(left, Reply) else not left
        agent = record.place.agent
        if silent and record.place.pids_here and agent and processes.alive(agent.process):
            if number:
                processes.send(agent.process, number)
            return [agent.process.pid]
        return left

    def usage(self, record: Record) -> str | None:
        if not os.path.isdir(record.place.run):
            return None
        held = directory_tree.measure(record.place.run)
        usual = f"{formatting.size(held.size)} of {amount(session_files.LIMIT)}"
        return f"{session_files.overfull(held) or usual}   ({record.place.run})"

    def shared(self, record: Record, inside: str) -> str | None:
        box = record.spec.box
        if box is None or not inside:
            return None
        mounts = [(record.spec.cwd, record.spec.cwd)] if box.mount else []
        for words in (mount.split(":") for mount in box.mounts):
            mounts += [(words[0], words[1])] if len(words) >= 2 else []
        for outside, there in mounts:
            if outside.startswith("/") and (inside == there or inside.startswith(f"{there}/")):
                return outside + inside[len(there) :]
        return None

    def describe(self, record: Record) -> str:
        place, box = session_files.place(record), record.spec.box
        engine = place.engine.host or place.engine.context
        return (
            f"container {place.container_name or 'no container yet'}"
            f"{f', image {box.image}' if box and box.image else ', not made by sesh'}"
            f"{f', engine {engine}' if engine else ''}, tmux pane {place.pane or '–'}"
        )

    def attach_command(
        self, record: Record, config: Config, *, read_only: bool, alone: bool
    ) -> list[str]:
        _need_container(record)
        place, container = session_files.place(record), session_files.container_of(record)
        how = " ".join((*(("-r",) if read_only else ()), *(("-d",) if alone else ())))
        terminal = ("-it", "-e", f"TERM={os.environ.get('TERM') or 'dumb'}")
        user = session_files.as_user(record)
        argv = container_engine.argv(place.engine, "exec", *terminal, *user, container.id)
        mine, gone = _clients(record)
        inside = ["sh", "-c", _INSIDE, "attach", remote.home(record.id), record.name, mine, how]
        return [*argv, *inside, *gone]

    def freeze(self, record: Record, config: Config) -> None:
        _need_container(record)
        container, engine = session_files.container_of(record), session_files.place(record).engine
        timeout = config.docker.timeout * 2
        if container.made:
            said = container_engine.ask(engine, "pause", container.id, timeout=timeout)
            if not said.ok and said.trouble is not Trouble.PAUSED:
                raise container_engine.problem(engine, said)
        else:  # other processes may run in it
            _check(record, remote.reap(self.run, record, signal.SIGSTOP, timeout))

    def thaw(self, record: Record, config: Config) -> None:
        _need_container(record)
        container, engine = session_files.container_of(record), session_files.place(record).engine
        timeout = config.docker.timeout * 2
        facts = facts_of(record, config)
        if facts is not None and facts.paused:
            container_engine.must(engine, "unpause", container.id, timeout=timeout)
        if not container.made:
            _check(record, remote.reap(self.run, record, signal.SIGCONT, timeout))

    def terminate(self, record: Record, config: Config, grace: float) -> None:
        """End the agent, then remove the container, if sesh made it and it is not to be kept."""
        container = session_files.place(record).container
        if container is None:
            ownership.remove_container(record, self.timeout(config))
            return
        with suppress(SeshError):
            facts = facts_of(record, config)
            if facts is None:
                return
            if facts.running and facts.started == container.started:
                with suppress(OSError, ValueError):  # the container goes in any case
                    if facts.paused:
                        engine = session_files.place(record).engine
                        container_engine.ask(
                            engine, "unpause", facts.id, timeout=config.docker.timeout
                        )
                    super().terminate(record, config, grace)
            if container.made and not record.status.keep:
                ownership.remove_container(record, self.timeout(config))

    def clear(self, record: Record, config: Config, *, close_panes: bool) -> None:
        container, keep = session_files.place(record).container, record.status.keep
        if close_panes and container is not None and (keep or not container.made):
            panes.put_away([record], self.tmux(record, config))
        if not keep and record.spec.box and record.spec.box.image:
            _check(record, ownership.remove_container(record, self.timeout(config)))

    def release(self, record: Record, config: Config) -> None:
        container = session_files.place(record).container
        if container is not None and not container.made:
            remote.leave(self.run, record, self.timeout(config))
        removed = ownership.remove_container(record, self.timeout(config))
        _check(record, removed, "; not removed")

    def made(self, record: Record) -> str | None:
        container = session_files.place(record).container
        return f"container {container.name}" if container is not None and container.made else None

    def patience(self, spec: Spec) -> float:
        return session_files.patience(spec)

    def problems(self, check: str, look: Examined) -> list[Finding]:
        from sesh.places.docker import checks

        return checks.CHECKS[check](look) if check in checks.CHECKS else []


def _mounted(record: Record) -> bool:
    """Do its files arrive by themselves? (Without a container there are none.)"""
    container = session_files.place(record).container
    return container is None or container.mounted


def _need_container(record: Record) -> None:
    if session_files.place(record).container is None:
        raise CannotTellError(f"{record.name}: its container is not known yet; try again")


# Inside: detach clients whose terminal is gone (a killed `docker exec` leaves its process), note
# our own client, and choose a terminal type that is known there.
_INSIDE = """\
home=$1 name=$2 mine=$3 how=$4
shift 4
for gone in "$@"; do
  [ -f "$home/client.$gone" ] || continue
  read -r tty <"$home/client.$gone" && tmux -S "$home/tmux.sock" detach-client -t "$tty" 2>/dev/null
  rm -f "$home/client.$gone"
done
tty >"$home/client.$mine"
for term in "$TERM" xterm-256color xterm screen linux vt100; do
  for place in /usr/share/terminfo /lib/terminfo /etc/terminfo /usr/lib/terminfo; do
    [ -e "$place/${term%"${term#?}"}/$term" ] && break 2
  done
done
export TERM=$term
tmux -N -u -S "$home/tmux.sock" attach-session $how -t "=$name"
code=$?
rm -f "$home/client.$mine"
exit $code
"""


def _clients(record: Record) -> tuple[str, list[str]]:
    """A token for this terminal, and the tokens of terminals whose client was killed."""
    path = f"{record.place.run}.clients"
    me = processes.look(os.getpid())
    assert me is not None
    mine = f"{me.pid}.{me.start}"
    try:
        known = files.read_regular(path, 1 << 16).decode(errors="replace").split()
    except OSError:
        known = []
    found = [token for token in known if re.fullmatch(r"\d+\.\d+", token)]
    living = [token for token in found if processes.alive(Process(*map(int, token.split("."))))]
    files.write_private(path, " ".join({*living, mine}).encode(), durable=False)
    return mine, sorted(set(found) - set(living))


def _check(record: Record, reply: list[int] | Reply, effect: str = "") -> None:
    if isinstance(reply, Reply) and not reply.ok:
        raise CannotTellError(f"{record.name}: its container: {reply.text}{effect}")
