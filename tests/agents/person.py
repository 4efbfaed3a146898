"""A person with a real agent in a session: prompts it, looks at its screen, asks sesh about it."""

from __future__ import annotations

import os
import signal
import time
from dataclasses import dataclass
from typing import Any

from tests.agents.stub import Stub
from tests.emulator import reading
from tests.world import World, eventually

PATIENCE = 60.0  # an agent starts in a second or two; on a busy machine it may take many


@dataclass
class Person:
    """`agent` is the template's name too. `asks` is on the screen while a permission is asked
    for."""

    world: World
    stub: Stub
    agent: str
    asks: str
    name: str = "mine"

    def start(self) -> dict[str, Any]:
        """Start it by its template, and wait until it says that it is idle."""
        self.world.ok("start", self.name, "-t", self.agent)
        self.waits_for("idle")
        return self.session()

    def is_idle_only_after(self, prompt: str) -> None:
        """Start it with a prompt that is answered slowly: it is not idle before it has answered."""
        self.world.ok("start", self.name, "-t", self.agent, "--prompt", f"slowly {prompt}")
        with reading(self.world, "wait", self.name, "--for", "idle") as waiter:
            begun = eventually(lambda: f"slowly {prompt}" in self.stub.prompts, PATIENCE)
            assert begun, self.screen()
            assert waiter.running(), self.session()
            self.stub.go_on.set()
            assert waiter.rest() == (0, f"{self.name} idle\n".encode(), "")
        self.sees(f"you said: slowly {prompt}")

    def session(self) -> dict[str, Any]:
        return self.world.session(self.name)

    def prompts(self, text: str) -> None:
        """Type a prompt. Enter once more while it only stands there: in an agent's first second
        the key may be lost. (The agent's own commands ask the stub nothing.)"""
        before = len(self.stub.prompts)
        self.world.ok("send", self.name, text)
        for _ in range(0 if text.startswith("/") else 5):
            if eventually(lambda: len(self.stub.prompts) > before, 5):
                return
            if self._stands_in_the_input(text):
                self.presses("Enter")

    def _stands_in_the_input(self, text: str) -> bool:
        lines = [line for line in self.screen().splitlines() if line.startswith(("❯", "›"))]
        return bool(lines) and text in lines[-1]

    def presses(self, *keys: str) -> None:
        """Press keys. On a busy machine the agent may react later than `send` waits for that: what
        a test expects next shows whether they arrived."""
        done = self.world.sesh("send", self.name, *(f"--key={key}" for key in keys))
        assert done.code == 0 or "not confirmed" in done.err, done

    def waits_for(self, activity: str) -> None:
        self._until(activity)

    def screen(self) -> str:
        return self.world.tmux("capture-pane", "-p", "-t", f"={self.name}:")

    def sees(self, text: str) -> None:
        assert eventually(lambda: text in self.screen(), PATIENCE), self.screen()

    def is_asked(self, command: str, what: str = "permission") -> float:
        """Prompt for a tool that needs permission; how long after the dialog stands on the screen
        does `ls` say that it is waited for?"""
        self.prompts(f"run {command}")
        asked = eventually(lambda: self.asks in self.screen() and time.monotonic(), PATIENCE)
        assert asked, self.screen()
        assert eventually(lambda: self._waits_for(what), PATIENCE), self.session()
        return time.monotonic() - float(asked)

    def _waits_for(self, what: str) -> bool:
        return str(self.session()["waiting_for"]).startswith(what)

    def kills(self) -> None:
        """kill -9, and wait until sesh has noticed."""
        os.kill(self.session()["pid"], signal.SIGKILL)
        self._until("failed")

    def _until(self, word: str) -> None:
        limit = ("--timeout", f"{PATIENCE:.0f}s")
        done = self.world.sesh("wait", self.name, "--for", word, *limit, timeout=2 * PATIENCE)
        assert done.code == 0, f"{done}\n{self.session()}\n{self.screen()}"
