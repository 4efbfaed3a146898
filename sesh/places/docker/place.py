"""Sessions in containers, as operations see them."""

from __future__ import annotations

import os
import re
import signal
from collections.abc import Sequence
from contextlib import suppress

from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.observation import ExitWord, LaunchWord, Observation
from sesh.model.place import Process
from sesh.model.record import Record, Spec
from sesh.model.text import formatting
from sesh.model.text.units import amount
from sesh.places import panes, remote
from sesh.places.docker import mailbox, observe
from sesh.places.docker.launch import await_agent as await_agent
from sesh.places.docker.launch import check as check
from sesh.places.docker.launch import clear_before as clear_before
from sesh.places.docker.launch import hook as hook
from sesh.places.docker.launch import keeper as keeper
from sesh.places.docker.launch import launch_server as launch_server
from sesh.places.docker.launch import make_files as make_files
from sesh.places.docker.launch import next_place as next_place
from sesh.places.docker.launch import provide as provide
from sesh.places.docker.launch import put as put
from sesh.places.docker.launch import refused as refused
from sesh.places.docker.launch import reserve as reserve
from sesh.places.docker.launch import stem as stem
from sesh.places.docker.launch import take_back as take_back
from sesh.places.docker.launch import withdraw as withdraw
from sesh.places.host import tmux_server
from sesh.places.interface import Answers, Look
from sesh.system import container_engine, directory_tree, files, processes
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux


def tmux(record: Record, config: Config) -> Tmux:
    place = record.place
    if place.container_name is None:  # nobody answers at that socket
        return tmux_server.server(place.socket, place.run, config)
    return observe.server(record, config)


def _need_container(record: Record) -> None:
    if mailbox.place(record).container is None:
        raise CannotTellError(f"{record.name}: its container is not known yet; try again")


def enter_command(record: Record) -> list[str]:
    where = ("-w", record.spec.cwd) if record.spec.cwd else ()
    how = (*mailbox.as_user(record), *where, mailbox.container_of(record).id)
    return container_engine.argv(mailbox.place(record).engine, "exec", *how)


def words(record: Record) -> tuple[LaunchWord | None, ExitWord | None]:
    return observe.words(record)


def complete(looks: Sequence[Look], config: Config, answers: Answers) -> list[Observation]:
    return observe.complete(looks, config)


def by_proc(record: Record, sight: Observation) -> Observation | None:
    return observe.by_init(record, sight) if record.place.pids_here else None


def has_screen(record: Record) -> bool:
    container = mailbox.place(record).container
    return container is not None and (container.init is None or processes.alive(container.init))


def fetch_transcript(record: Record, config: Config) -> None:
    with suppress(OSError):
        mailbox.pull_transcript(record, config.docker.timeout)


def usage(record: Record) -> str | None:
    if not os.path.isdir(record.place.run):
        return None
    held = directory_tree.measure(record.place.run)
    much = mailbox.overfull(held) or f"{formatting.size(held.size)} of {amount(mailbox.LIMIT)}"
    return f"{much}   ({record.place.run})"


def describe(record: Record) -> str:
    place, box = mailbox.place(record), record.spec.box
    engine = place.engine.host or place.engine.context
    return (
        f"container {place.container_name or 'no container yet'}"
        f"{f', image {box.image}' if box and box.image else ', not made by sesh'}"
        f"{f', engine {engine}' if engine else ''}, tmux pane {place.pane or '–'}"
    )


# --- attach --------------------------------------------------------------------------------------

# Inside: clients whose terminal has gone without a word are detached (a killed `docker exec` leaves
# its process), ours is noted, and a terminal type is chosen that is known in there.
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


def attach_command(record: Record, config: Config, *, read_only: bool, alone: bool) -> list[str]:
    _need_container(record)
    place, container = mailbox.place(record), mailbox.container_of(record)
    how = " ".join((*(("-r",) if read_only else ()), *(("-d",) if alone else ())))
    user = mailbox.as_user(record)
    argv = container_engine.argv(
        place.engine, "exec", "-it", "-e", f"TERM={_terminal()}", *user, container.id
    )
    mine, gone = _clients(record)
    inside = ["sh", "-c", _INSIDE, "attach", remote.home(record.id), record.name, mine, how]
    return [*argv, *inside, *gone]


def _terminal() -> str:
    return os.environ.get("TERM") or "dumb"


def _clients(record: Record) -> tuple[str, list[str]]:
    """A token for this terminal, and those of terminals whose client ended without a word."""
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


# --- pause ---------------------------------------------------------------------------------------


def freeze(record: Record, config: Config) -> None:
    _need_container(record)
    container, engine = mailbox.container_of(record), mailbox.place(record).engine
    timeout = config.docker.timeout * 2
    if container.made:
        said = container_engine.ask(engine, "pause", container.id, timeout=timeout)
        if not said.ok and said.trouble is not container_engine.Trouble.PAUSED:
            raise container_engine.problem(engine, said)
    else:  # others may run in there
        _check(record, mailbox.reap(record, signal.SIGSTOP, timeout))


def thaw(record: Record, config: Config) -> None:
    _need_container(record)
    container, engine = mailbox.container_of(record), mailbox.place(record).engine
    timeout = config.docker.timeout * 2
    found = container_engine.inspect(engine, [container.id], config.docker.timeout)
    if isinstance(found, Reply):
        raise container_engine.problem(engine, found)
    facts = found.get(container.id)
    if facts is not None and facts.paused:
        said = container_engine.ask(engine, "unpause", container.id, timeout=timeout)
        if not said.ok:
            raise container_engine.problem(engine, said)
    if not container.made:
        _check(record, mailbox.reap(record, signal.SIGCONT, timeout))


def _check(record: Record, said: list[int] | Reply) -> None:
    if isinstance(said, Reply):
        raise CannotTellError(f"{record.name}: its container: {said.text}")


# --- the end -------------------------------------------------------------------------------------


def terminate(record: Record, config: Config, grace: float) -> None:
    from sesh.places.docker import terminate as ending

    ending.terminate(record, config, grace)


def clear(record: Record, config: Config, *, close_panes: bool) -> None:
    container, keep = mailbox.place(record).container, record.status.keep
    if close_panes and container is not None and (keep or not container.made):
        panes.put_away([record], tmux(record, config))
    if not keep:
        said = mailbox.remove_container(record, config.docker.timeout * 2)
        if not said.ok:
            raise CannotTellError(f"{record.name}: its container: {said.text}")


def release(record: Record, config: Config) -> None:
    mailbox.leave(record, config.docker.timeout * 2)
    said = mailbox.remove_container(record, config.docker.timeout * 2)
    if not said.ok:
        raise CannotTellError(f"{record.name}: its container: {said.text}; not forgotten")


def remove_files(record: Record) -> None:
    mailbox.remove(record.place.run)


def made(record: Record) -> str | None:
    container = mailbox.place(record).container
    return f"container {container.name}" if container is not None and container.made else None


def patience(spec: Spec) -> float:
    return mailbox.patience(spec)
