"""A person at a terminal: a shell in a pane of a tmux server of the test's own; and whoever reads
from a pipe what a sesh that goes on (`logs -f`, `events -f`, `wait`) prints.

What is typed goes through a real terminal, and what is seen is its real screen. The server is not
sesh's: with `nested=False` the shell does not even know that it runs in one.
"""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from textwrap import dedent

from tests import pace
from tests.world import SESH, World, eventually

_PATIENCE = 60.0
_numbers = count(1)


class Terminal:
    """One terminal with a shell in it, whose prompt is `$ `."""

    def __init__(
        self,
        world: World,
        *,
        columns: int = 80,
        rows: int = 24,
        nested: bool = False,
        env: Mapping[str, str] | None = None,
    ) -> None:
        self._socket = str(world.root / f"outer-{next(_numbers)}")
        changed = {
            "PATH": f"{Path(SESH).parent}:{world.env['PATH']}",
            "PS1": "$ ",
            "ENV": "",
            "SHELL": "/bin/sh",
            **(env or {}),
        }
        told = [f"{name}={value}" for name, value in changed.items()]
        hidden = () if nested else ("-u", "TMUX", "-u", "TMUX_PANE", "-u", "TERM_PROGRAM")
        self._tmux(
            *("new-session", "-d", "-s", "outer", "-x", str(columns), "-y", str(rows)),
            *("env", *hidden, *told, "sh", "-i"),
            *(";", "set-option", "-g", "status", "off"),
            *(";", "set-option", "-g", "prefix", "C-q"),  # C-b is for the tmux inside
            *(";", "set-option", "-s", "escape-time", "0"),
            env=world.env,
            cwd=world.cwd,
        )
        self.resize(columns, rows)
        self.see("$")

    def _tmux(
        self, *command: str, env: Mapping[str, str] | None = None, cwd: Path | None = None
    ) -> str:
        argv = ["tmux", "-S", self._socket, "-f", os.devnull, *command]
        done = subprocess.run(
            argv, env=env, cwd=cwd, check=True, capture_output=True, text=True, timeout=100
        )
        return done.stdout

    # --- what a person does --------------------------------------------------------------------

    def type(self, text: str) -> None:
        """Type a line and press Enter."""
        self._tmux("send-keys", "-l", "--", text)
        self.press("Enter")

    def run(self, line: str) -> None:
        """Type a line as soon as the shell asks for one."""
        assert eventually(lambda: self.screen().endswith("$"), _PATIENCE), self.screen()
        self.type(line)

    def press(self, *keys: str) -> None:
        """Press keys by their tmux names, one after another."""
        self._tmux("send-keys", *keys)

    def resize(self, columns: int, rows: int) -> None:
        self._tmux("resize-window", "-t", "=outer:", "-x", str(columns), "-y", str(rows))

    def hang_up(self) -> None:
        """The terminal is closed under whatever runs in it."""
        self._tmux("kill-pane", "-t", "=outer:")

    # --- what a person sees --------------------------------------------------------------------

    def screen(self) -> str:
        """The lines of the screen, without the empty ones at its end."""
        lines = self._tmux("capture-pane", "-p").splitlines()
        return "\n".join(line.rstrip() for line in lines).rstrip()

    def coloured(self) -> str:
        """The screen with its colours, as escape sequences."""
        return self._tmux("capture-pane", "-p", "-e")

    def see(self, text: str, within: float = _PATIENCE) -> None:
        """Wait until the text is on the screen."""
        assert eventually(lambda: text in self.screen(), within), self._missing(text)

    def see_no_more(self, text: str, within: float = _PATIENCE) -> None:
        assert eventually(lambda: text not in self.screen(), within), self.screen()

    def see_screen(self, wanted: str, within: float = _PATIENCE) -> None:
        """Wait until the whole screen is `wanted`, where `…` stands for any text in a line, and a
        line that is only `…` for any lines."""
        text = dedent(wanted).strip("\n")
        parts = [".*" if line == "…" else _line_pattern(line) for line in text.splitlines()]
        pattern = re.compile("\n".join(parts), re.DOTALL)
        assert eventually(lambda: pattern.fullmatch(self.screen()), within), self._missing(text)

    def at_the_shell(self) -> None:
        """The terminal is as it was: its shell reads a line, echoes it, and runs it."""
        self.run("echo $((6 * 7)). line")
        self.see("$ echo $((6 * 7)). line\n42. line\n$")

    def windows(self) -> list[str]:
        """The names of the windows of the tmux around."""
        return self._tmux("list-windows", "-F", "#{window_name}").splitlines()

    def _missing(self, wanted: str) -> str:
        return f"wanted:\n{wanted}\n--- on the screen:\n{self.screen()}\n---"


def _line_pattern(line: str) -> str:
    return "[^\n]*".join(re.escape(part) for part in line.split("…"))


# --- who is attached ---------------------------------------------------------------------------


def clients(world: World, session: str) -> list[str]:
    """The terminals that are attached to a session."""
    return world.tmux("list-clients", "-t", f"={session}", "-F", "#{client_tty}").splitlines()


def attached(world: World, session: str, count: int = 1) -> bool:
    """Wait until that many terminals are attached."""
    return bool(eventually(lambda: len(clients(world, session)) == count, 10))


# --- at the other end of a pipe ----------------------------------------------------------------


class Reader:
    """Reads what a sesh prints."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        assert process.stdout is not None
        assert process.stderr is not None
        self._stdout, self._stderr = process.stdout, process.stderr
        self._process = process

    @property
    def pid(self) -> int:
        return self._process.pid

    def line(self) -> str:
        """The next line, without its end; waits for it."""
        data = self._stdout.readline()
        assert data.endswith(b"\n"), (data, *self.rest())
        return data.decode().removesuffix("\n")

    def running(self) -> bool:
        return self._process.poll() is None

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def rest(self, within: float = 10) -> tuple[int, bytes, str]:
        """Wait for its end: the exit code, what it still printed, what it said on stderr."""
        out, err = self._process.communicate(timeout=pace.seconds(within))
        return self._process.returncode, out, err.decode()

    def go_away(self, within: float = 10) -> tuple[int, str]:
        """Close the pipe, and wait for the end of who writes into it."""
        self._stdout.close()
        return self._process.wait(timeout=pace.seconds(within)), self._stderr.read().decode()


@contextmanager
def reading(world: World, *args: str) -> Iterator[Reader]:
    """Run sesh and read along; it is killed at the end of the block."""
    with subprocess.Popen(
        [SESH, *args],
        env=world.env,
        cwd=world.cwd,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        try:
            yield Reader(process)
        finally:
            process.kill()
