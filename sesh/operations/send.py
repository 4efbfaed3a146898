"""Type into a session: check for an open question first, and prove that the text arrived.

The Enter after a text is dangerous: an open dialog ignores the paste, and Enter takes the marked
option, usually a yes. So the screen is read right before a text is typed, and again before Enter.
The echo proves nothing: see `_Proof`.
"""

from __future__ import annotations

import os
import time
from contextlib import suppress

from sesh.agents import activity, dialogs, questions, screen
from sesh.agents.dialogs import Choice, Dialog
from sesh.agents.screen import OpenQuestion
from sesh.model.agents import claude, codex
from sesh.model.agents.hook_event import BUSY, HookEvent
from sesh.model.configuration import Config
from sesh.model.errors import CannotTellError, ConflictError, SeshError
from sesh.model.record import OPTION, Answers, Record
from sesh.model.states import State
from sesh.model.text import formatting
from sesh.operations import report_progress
from sesh.places import agent_files, environment, registry
from sesh.places.agent_files import Launch
from sesh.places.host import tmux_server
from sesh.state import lookup
from sesh.state.judge import Seen
from sesh.system import files, paths, processes, tmux
from sesh.system.subprocesses import Reply
from sesh.system.tmux import Tmux

PAUSE = 0.15  # seconds between text and Enter, so that the key is not read as part of the paste
QUIET, LONG = 0.5, 4.0  # for a known agent: wait for this silence, but not longer than that
PATIENCE, LISTENING = 1.0, 10.0  # how long to wait for a proof: from a program, from an agent
DRAWING = 1.0  # how long a dialog may take to be shown
GONE = 5.0  # how long a dialog may stay after its answer
AGAIN = 2.0  # when to press Enter again, because the text is still in the agent's input
USUAL = 0.1  # seconds: a slower answer of tmux scales all times
_TICK = 0.05
_HEAD = 20  # characters of a text that are searched for on the screen
_PROMPTS = {"claude": claude.prompts, "codex": codex.prompts}
_COMMANDS = ("/", "!", "#")  # commands of an agent: they need not reach its conversation
_INPUT = ("❯", "›", ">")
_MOST = 1 << 22  # new bytes of a transcript that are read
_LINE, _LABEL = 100, 40  # columns of a question, and of an answer
# The end of a bracketed paste: text after it would be typed as keys. Terminals filter it too.
_BRACKETS = (b"\x1b[201~", b"\xc2\x9b201~")


def clean(data: bytes) -> bytes:
    """A text without sequences that would end the paste."""
    for bracket in _BRACKETS:
        data = data.replace(bracket, b"")
    return data


class AskedError(ConflictError):
    """The session asks a question, so nothing was typed; `hint` shows how to answer."""

    def __init__(self, text: str, *hint: str) -> None:
        super().__init__(text)
        self.hint = hint


class Terminal:
    """The terminal of a running session."""

    def __init__(self, found: Seen, settings: Config) -> None:
        record = lookup.must_be(found, State.RUNNING)
        tmux_server.need_terminal(record)
        if record.place.pane is None:
            raise CannotTellError(f"{record.name}: its tmux pane is not known yet; try again")
        self.record: Record = record
        self.name: str = record.name
        self.settings = settings
        self.launch: Launch = agent_files.launch_of(record)
        self.server: Tmux = registry.of(record).tmux(record, settings)
        self.answers: Answers = record.spec.kit.answers if record.spec.kit else Answers()
        self._pane: str = record.place.pane
        begun = time.monotonic()
        tmux_server.reach(record, self.server)
        self.slowness = max(1.0, (time.monotonic() - begun) / USUAL)

    def screen(self) -> str:
        text = self.server.screen(self._pane)
        if text is None and self.lives():
            raise CannotTellError(f"{self.name}: its screen cannot be read")
        return text or ""

    def asked(self) -> OpenQuestion | None:
        """The open question, from the current screen."""
        text = self.screen()
        return (
            screen.open_question(self.launch, text)
            if self.record.spec.kit
            else screen.menu_question(text)
        )

    def dialog(self) -> OpenQuestion | None:
        """The same, but wait a moment for the rest of the dialog and for the agent's hook."""
        deadline = time.monotonic() + DRAWING * self.slowness
        while (found := self.asked()) and not found.complete and time.monotonic() < deadline:
            time.sleep(_TICK)
        return found

    def paste(self, data: bytes) -> None:
        self._check(self.server.paste(self._pane, data))

    def press(self, *keys: str) -> None:
        self._check(self.server.press(self._pane, *keys))

    def _check(self, reply: Reply) -> None:
        if reply.trouble is tmux.Trouble.OTHER:
            raise CannotTellError(
                f"{self.name}: tmux: {reply.text}; it may or may not have arrived"
            )
        if not reply.ok:
            raise SeshError(f"{self.name}: tmux: {reply.text}; nothing was sent")

    def printed(self) -> int:
        """The size of its output so far."""
        registry.of(self.record).fetch_transcript(self.record, self.settings)
        try:
            return os.stat(paths.transcript(self.record.id)).st_size
        except OSError:
            return 0

    def lives(self) -> bool:
        place = self.record.place
        return place.agent is None or not place.pids_here or processes.alive(place.agent.process)


# --- a text --------------------------------------------------------------------------------------


def send(
    terminal: Terminal, data: bytes, keys: tuple[str, ...], *, enter: bool, force: bool
) -> None:
    """Type a text, press Enter, then keys; raises without a proof that it arrived."""
    if data and not force:
        _refuse(terminal, "nothing was sent")
    printed, proof = terminal.printed(), _Proof(terminal, data)
    if data:
        with suppress(SeshError):  # a full disk does not prevent a send
            report_progress.prompted(terminal.record)
        terminal.paste(data)
        if enter:
            settle(terminal, printed)
            if not force:
                _refuse(terminal, "the text was pasted without Enter")
            proof.begin()
            terminal.press("Enter")
    if keys:
        terminal.press(*keys)
    by_agent = bool(data) and enter and terminal.record.spec.kit is not None
    if not (proof.comes() if by_agent else _prints(terminal, printed)):
        raise SeshError(
            f"{terminal.name}: not confirmed: no sign that it arrived; "
            f"next: sesh logs {terminal.name}"
        )


def _refuse(terminal: Terminal, outcome: str) -> None:
    """Raise when a question is open: the text would be taken as its answer."""
    found = terminal.dialog()
    if found is None:
        return
    name = terminal.name
    words = dialogs.words(found.dialog, terminal.answers) if found.dialog else []
    how = f"sesh answer {name} {'|'.join(words)}" if words else f"sesh attach {name}"
    raise AskedError(
        f"{name} is waiting for an answer, {outcome}: {brief(found)}",
        f"answer it: {how}",
        "type anyway: sesh send --force …",
    )


def brief(found: OpenQuestion) -> str:
    """The question in a short line."""
    return formatting.cut(questions.line(found.question.text), _LINE)


def settle(terminal: Terminal, before: int) -> None:
    """Wait until an agent has shown the text and is quiet: it takes an early Enter as part of the
    text. Other programs get a fixed pause, because they may echo nothing."""
    deadline = time.monotonic() + (LONG if terminal.record.spec.kit else PAUSE) * terminal.slowness
    seen, quiet_since = before, time.monotonic()
    while (now := time.monotonic()) < deadline:
        if seen != before and now - quiet_since >= QUIET:
            return
        time.sleep(0.02)
        size = terminal.printed()
        if size != seen:
            seen, quiet_since = size, time.monotonic()


def _prints(terminal: Terminal, before: int) -> bool:
    """Wait for any new output. Most programs echo what is typed."""
    deadline = time.monotonic() + PATIENCE * terminal.slowness
    while time.monotonic() < deadline:
        if terminal.printed() != before or not terminal.lives():
            return True
        time.sleep(0.02)
    return False


class _Proof:
    """The proof that an agent has taken a prompt: its prompt hook, or the text in its conversation.
    For agents without these, and for their own commands: an empty input and a changed screen."""

    def __init__(self, terminal: Terminal, data: bytes) -> None:
        self._terminal = terminal
        self._text = _squeezed(data.decode(errors="replace"))
        kit = terminal.record.spec.kit
        self._kind = kit.kind if kit else ""
        doing = activity.of(terminal.launch) if kit else None
        self._busy = doing is not None and doing.kind == BUSY
        self._variables = environment.known(terminal.record.place.snapshot) if kit else {}
        self._sizes = {path: _size(path) for path in self._files()}
        self._screen, self._since = "", 0.0

    def begin(self) -> None:
        """Call this right before Enter is pressed."""
        self._screen, self._since = self._terminal.screen(), time.time()

    def comes(self) -> bool:
        """Wait for the proof. In its first second an agent may lose the key: press it again."""
        slowness = self._terminal.slowness
        begun, again = time.monotonic(), AGAIN * slowness
        while (passed := time.monotonic() - begun) < LISTENING * slowness:
            if self._is_taken() or not self._terminal.lives():
                return True
            if passed > again and self._still_there() and self._terminal.asked() is None:
                self._terminal.press("Enter")
                again += AGAIN * slowness
            time.sleep(_TICK)
        return False

    def _is_taken(self) -> bool:
        event = agent_files.last_hook(self._terminal.launch)
        if event is not None and event.taken >= self._since:
            return True
        files_here = self._terminal.record.place.agent_files_here
        if not files_here and event is not None and event.at >= self._since and not self._busy:
            return True  # only the last event is kept: the turn has begun since
        if self._in_conversation():
            return True
        readable = self._kind in _PROMPTS and files_here
        queued = self._kind == "codex" and self._busy  # until its turn is over
        if readable and not queued and not self._text.startswith(_COMMANDS):
            return False
        return self._terminal.screen() != self._screen and not self._still_there()

    def _in_conversation(self) -> bool:
        prompts = _PROMPTS.get(self._kind)
        if prompts is None:
            return False
        for path in self._files():
            added = _read(path, self._sizes.get(path, 0))
            if any(self._text in _squeezed(prompt) for prompt in prompts(added)):
                return True
        return False

    def _files(self) -> list[str]:
        """The transcripts of its conversation, or the transcript that it holds open."""
        record, kit = self._terminal.record, self._terminal.record.spec.kit
        if kit is None or not kit.transcript or not record.place.agent_files_here:
            return []
        event = agent_files.last_hook(self._terminal.launch)
        known = (event.conversation if event else None) or record.agent.conversation
        if known is None and record.place.agent is not None:
            known = agent_files.open_conversation(
                kit, record.place.agent.process.pid, self._variables
            )
        return agent_files.transcripts(kit, known, self._variables) if known else []

    def _still_there(self) -> bool:
        """Is the text still in the agent's input?"""
        lines = [line.strip(" │┃|") for line in self._terminal.screen().splitlines()]
        inputs = [line for line in lines if line.startswith(_INPUT)]
        last = _squeezed(inputs[-1]) if inputs else ""
        return "[Pasted" in last or (bool(self._text) and self._text[:_HEAD] in last)


# --- an answer -----------------------------------------------------------------------------------


def answer(terminal: Terminal, word: str, about: str = "") -> str:
    """Answer the open question, if it contains `about`; returns what was done, for people."""
    name, answers = terminal.name, terminal.answers
    found = terminal.dialog()
    if found is None:
        raise ConflictError(f"{name} has no open question; nothing was typed")
    if not questions.is_about(found.question, about):
        raise ConflictError(
            f"{name}: open question does not match; nothing was typed: {brief(found)}"
        )
    if found.dialog is None:
        raise ConflictError(
            f"{name}: its question cannot be read from its screen: {brief(found)}; "
            f"next: sesh attach {name}"
        )
    choice = dialogs.choose(found.dialog, answers, word)
    if choice is None or len(choice.option.key) > 1:
        labels = [(one.key, formatting.cut(one.label, _LABEL)) for one in found.dialog.options]
        offered = ", ".join(f"{key} {label}" for key, label in labels)
        raise ConflictError(f"{name}: no option {word!r}: {brief(found)}; options: {offered}")
    keys = [choice.option.key if key == OPTION else key for key in answers.keys]
    event = agent_files.last_hook(terminal.launch)
    now = terminal.asked()  # immediately before
    if now is None or now.dialog is None or not dialogs.same(now.dialog, found.dialog):
        raise ConflictError(f"{name}: its question has changed; nothing was typed")
    printed = terminal.printed()
    if not now.dialog.numbered:
        _mark(terminal, now.dialog, choice)
        keys = [*answers.marked]
    terminal.press(*keys)
    if choice.text:
        _type_answer(terminal, choice, printed)
    if not _is_gone(terminal, found.dialog, event):
        raise SeshError(
            f"{name}: not confirmed: the question is still open: {brief(found)}; "
            f"next: sesh show {name}"
        )
    text = f" {questions.line(choice.text)}:" if choice.text else ""
    return f"{choice.verb}{text} {questions.subject(found.question, _LINE)}"


def _mark(terminal: Terminal, dialog: Dialog, choice: Choice) -> None:
    """Move the mark to an option that has no key."""
    steps = int(choice.option.key) - int(dialog.marked)
    if steps:
        terminal.press(*(["Down"] * steps if steps > 0 else ["Up"] * -steps))
    deadline = time.monotonic() + GONE * terminal.slowness
    while time.monotonic() < deadline:
        now = terminal.asked()
        if now is None or now.dialog is None or not dialogs.same(now.dialog, dialog):
            break
        if now.dialog.marked == choice.option.key:
            return
        time.sleep(_TICK)
    raise ConflictError(f"{terminal.name}: its question has changed; it was not answered")


def _type_answer(terminal: Terminal, choice: Choice, printed: int) -> None:
    """Type a text into the field that the option has opened."""
    settle(terminal, printed)
    now = terminal.asked()
    if now is None or now.dialog is None or now.dialog.marked != choice.option.key:
        raise SeshError(
            f"{terminal.name}: not confirmed: no text field opened; next: sesh show {terminal.name}"
        )
    printed = terminal.printed()
    terminal.paste(clean(os.fsencode(choice.text)))
    settle(terminal, printed)
    terminal.press("Enter")


def _is_gone(terminal: Terminal, dialog: Dialog, before: HookEvent | None) -> bool:
    """Wait until the dialog is gone or replaced. Look twice, because a screen may be half drawn.
    The agent's hooks distinguish two dialogs that look the same."""
    deadline, away = time.monotonic() + GONE * terminal.slowness, 0
    while away < 2:
        if not terminal.lives():
            return True
        away = 0 if _is_same(terminal, dialog, before) else away + 1
        if away == 0 and time.monotonic() > deadline:
            return False
        time.sleep(_TICK)
    return True


def _is_same(terminal: Terminal, dialog: Dialog, before: HookEvent | None) -> bool:
    now = dialogs.read(terminal.screen())
    if now is None or now.core != dialog.core or len(now.options) != len(dialog.options):
        return False
    event = agent_files.last_hook(terminal.launch)
    newer = event and (not before or (event.at, event.input) != (before.at, before.input))
    return now.body == dialog.body or not newer


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def _read(path: str, offset: int) -> bytes:
    try:
        with files.open_binary(path, follow=True) as file:
            file.seek(offset)
            return file.read(_MOST)
    except OSError:
        return b""
