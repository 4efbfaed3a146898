"""A state directory that version 0.1.0 wrote, put into a test's world.

`tests/data/state-0.1.0` holds its files. What differs from machine to machine is written there as
@NAME@: directories, machine, boot, pids. Times move with the test, so nothing there ever gets old.
The sessions that ran then run again: by the tmux calls, launch files and keeper of 0.1.0.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import time
from binascii import crc32
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

from sesh.system import processes
from tests import agent
from tests.world import SESH, World, eventually

_DATA = Path(__file__).parents[1] / "data" / "state-0.1.0"
_WRITTEN = 1795011161  # when 0.1.0 wrote it
_BLANK = " " * 127 + "\n"
_ISO = re.compile(r"\b2026-11-18[ T][0-9:]{8}|\b2026-12-18[ T][0-9:]{8}")
_EPOCH = re.compile(r"\b179[0-9]{7}\b")
_TOKEN = re.compile(r"@([A-Za-z_.]+)@")
_WORD = ("pid", "start", "keeper", "leader", "tty", "pane")


class OldState:
    def __init__(self, world: World, *, boot: str = "", now: float | None = None) -> None:
        here = processes.here()
        self._world = world
        self._shift = int(time.time() if now is None else now) - _WRITTEN
        self._values = {
            "ROOT": str(world.root),
            "SESH": SESH,
            "KEY": world.key,
            "MACHINE": here.id,
            "BOOT": boot or here.boot,
            "PIDNS": here.pidns,
            "SINCE": str(processes.now()),
            "UPTIME": str(processes.uptime()),
            "CONVERSATION": str(uuid4()),  # two tests at once must not be in the same one
        }
        run = processes.run_dir().rpartition("/")[2]
        self._values["RUN"] = run
        self.run = world.state / "run" / run
        self.ids = {path.name.split("-")[0]: path.stem for path in self._of_run(".1.launch")}
        agent.install(world)

    @staticmethod
    def _of_run(kind: str) -> list[Path]:
        return sorted((_DATA / "state/sesh/run/@RUN@").glob(f"*{kind}"))

    def filled(self, text: str) -> str:
        """The text with this machine's values, and times that moved along."""
        text = _TOKEN.sub(lambda found: self._values.get(found[1], found[0]), text)
        text = _EPOCH.sub(lambda found: str(int(found[0]) + self._shift), text)
        return _ISO.sub(lambda found: self._moved(found[0]), text)

    def _moved(self, text: str) -> str:
        then = datetime.fromisoformat(text).replace(tzinfo=UTC) + timedelta(seconds=self._shift)
        return then.isoformat(sep=text[10])[: len(text)]

    def _write(self, source: Path) -> None:
        target = self._world.root / self.filled(str(source.relative_to(_DATA)))
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        text = self.filled(source.read_text())
        if text.startswith('#{"crc":'):  # of a record, or of the copy that a launch keeps
            rest = text.partition(",")[2]
            text = f'#{{"crc":{crc32(rest.encode())},{rest}'
        target.write_text(text)
        target.chmod(0o600)

    def put(self, *, living: bool) -> None:
        """Write the files. Before the records, which name pids, and before the agent's
        conversation, run what ran then."""
        sources = [path for path in sorted(_DATA.rglob("*")) if path.is_file()]
        sources = [path for path in sources if path.parent != _DATA]
        later = [path for path in sources if path.parent.name in ("sessions", "history", "p")]
        for path in sources:
            if path not in later:
                self._write(path)
        for session in self.ids.values():
            for kind in (".pid", ".exit.tmp"):
                (self.run / f"{session}{kind}").write_text(_BLANK)
        if living:
            self._launch()
        else:
            self._end()
        for path in later:
            self._write(path)

    def _launch(self) -> None:
        keeper = self._world.root / "old" / "sesh" / "keeper.sh"
        keeper.parent.mkdir(parents=True)
        keeper.write_text((_DATA / "keeper.sh").read_text())
        os.symlink(str(_which("tmux")), self._world.root / "bin" / "tmux")
        for argv in json.loads(self.filled((_DATA / "tmux.json").read_text())):
            subprocess.run(
                ["tmux", *argv], env=self._world.env, check=True, timeout=100, capture_output=True
            )
        for name, session in self.ids.items():
            self._note(name, self._word(self.run / f"{session}.pid"))
        os.kill(self.pid("pauses"), signal.SIGSTOP)
        log = self._world.state / "transcripts" / f"{self.ids['agent'][:-2]}.log"
        assert eventually(lambda: log.exists() and "ready" in log.read_text())
        assert eventually(lambda: not list(self.run.glob("*.launch")))

    @staticmethod
    def _word(path: Path) -> list[str]:
        word: list[str] = eventually(lambda: path.read_text().split())
        assert word, path
        return word

    def _end(self) -> None:
        """They ended with an earlier boot."""
        for number, (name, session) in enumerate(self.ids.items()):
            self._note(name, ["4194303", "7", "2", "2", "34816", f"%{number}", "4194302", "5"])
            (self.run / f"{session}.launch").unlink()

    def _note(self, name: str, word: list[str]) -> None:
        self._values |= {f"{name}.{key}": value for key, value in zip(_WORD, word, strict=False)}
        self._values |= {"SERVER": word[6], "SERVER_START": word[7]}

    def pid(self, name: str) -> int:
        return int(self._values[f"{name}.pid"])

    def listed(self) -> list[dict[str, Any]]:
        """What `ls --all --json` of 0.1.0 said."""
        found: list[dict[str, Any]] = json.loads(self.filled((_DATA / "ls.json").read_text()))
        return found

    @property
    def crontab(self) -> bytes:
        """What `timer install` of 0.1.0 wrote."""
        return self.filled((_DATA / "crontab").read_text()).encode()


def _which(program: str) -> str:
    done = subprocess.run(["which", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()
