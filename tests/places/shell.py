"""A kind of place for tests: a shell on this machine, reached by `sh -c` as if it were far away. It
shows all that a new kind needs: a class for the record, three methods, and its registration."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from sesh.model import place as places
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError
from sesh.model.observation import Sight, absent, seen, unknown
from sesh.model.record import Record
from sesh.places import registry
from sesh.places.interface import Elsewhere
from sesh.places.remote import OWNERS, Remote, home, owned
from tests.world import World

MUTE = "sesh-test-mute"  # a file in the runtime directory: while it is there, no answer comes
_THERE = '[ -e "$XDG_RUNTIME_DIR/sesh-test-mute" ] && exit 255; '


class ShellPlace(places.Elsewhere):
    kind = "shell"


class Shell(Remote):
    place = ShellPlace

    def command(self, record: Record, *argv: str, terminal: bool = False) -> list[str]:
        return ["sh", "-c", _THERE + 'exec "$@"', "sh", *argv]

    def standing(self, records: Sequence[Record], config: Config) -> Mapping[str, Sight]:
        script = f'{_THERE}for home; do [ -S "$home/tmux.sock" ] && echo "$home"; done; exit 0'
        homes = {record.id: home(record.id) for record in records}
        done = subprocess.run(
            ["sh", "-c", script, "sh", *homes.values()], capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            return dict.fromkeys(homes, unknown("the shell gives no answer"))
        there = done.stdout.split()
        gone = absent("its shell is gone")
        return {key: seen("it is there") if path in there else gone for key, path in homes.items()}

    def unclaimed_ids(self, known: Collection[str], config: Config) -> set[str]:
        argv = ["sh", "-c", _THERE + OWNERS]
        done = subprocess.run(argv, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise CannotTellError("the shell gives no answer")
        return owned(done.stdout) - {*known}


def _shell() -> Elsewhere:
    return Shell()


def _requested(by: registry.Requesting) -> Elsewhere:
    return Shell()


def register(put: Callable[[Any, str, Any], object] = dict.__setitem__) -> None:
    """What a kind of ours has as lines in `model/place` and `places/registry`."""
    put(places.KINDS, ShellPlace.kind, ShellPlace)
    put(registry.KINDS, ShellPlace.kind, _shell)
    put(registry.ELSEWHERE, ShellPlace.kind, _shell)


def main() -> None:
    """`sesh` with this kind, for every new session."""
    register()
    registry.requested = _requested
    from sesh.__main__ import main as sesh

    sys.exit(sesh())


class ShellWorld(World):
    """A world whose sesh knows the kind."""

    @property
    def program(self) -> tuple[str, ...]:
        here = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
        code = f"import sys; sys.path.insert(0, {here!r}); from tests.places import shell; "
        return (sys.executable, "-c", code + "shell.main()")

    def end(self) -> None:
        """Also remove what sessions left in `/tmp`, which is the place here."""
        homes = [home(path.stem) for path in self.state.glob("transcripts/*.log")]
        super().end()
        for one in homes:
            shutil.rmtree(one, ignore_errors=True)
