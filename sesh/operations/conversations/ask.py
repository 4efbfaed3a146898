"""Ask an agent: send a prompt, wait until the turn is over, and return the answer.

The answer is read from the agent's transcript: what it wrote after the prompt, once the transcript
shows the end of the turn and the agent is idle. Only what was appended after the prompt is read.
"""

from __future__ import annotations

import os
import time

from sesh.agents import questions, screen, transcripts
from sesh.agents.activity import Activity
from sesh.model.agents.hook_event import BUSY, IDLE, WAITING
from sesh.model.agents.turns import ASSISTANT, USER, Turn
from sesh.model.errors import EndedError, SeshError, TimedOutError
from sesh.model.record import Record
from sesh.operations import send
from sesh.operations.conversations import read
from sesh.operations.conversations.read import Conversation
from sesh.operations.send import AskedError, Terminal
from sesh.state import lookup
from sesh.system import files

TICK = 0.1
SETTLED = 2.0  # seconds after which a turn that is over needs no activity to prove it
_ASKED = 3  # looks in a row that see a question: a screen may be half drawn
_WORDS = 200  # characters of a prompt that are looked for


class Answer:
    """What was said since a prompt: the end of the turn, and its texts."""

    def __init__(self, kind: str, text: str, *, alone: bool) -> None:
        self._reader = transcripts.reader(kind)
        self._text = _squeezed(text)[:_WORDS]
        self._begun = alone  # was the agent idle? Then all that is said is probably about it
        self.sure = False  # the prompt was found
        self.over = False
        self.turns: list[Turn] = []

    def add(self, line: bytes) -> None:
        for turn in self._reader.turns(line):
            if turn.role == USER and self._text in _squeezed(turn.text):
                self._begun, self.sure, self.over, self.turns = True, True, False, []
            elif self._begun and turn.role == ASSISTANT:
                self.turns.append(turn)
        if self._begun and self._reader.over(line):
            self.over = True
        elif self._begun and self.turns and self._reader.turns(line):
            self.over = False  # it goes on, after a hook for example

    @property
    def text(self) -> str | None:
        """The last text; None while there is none."""
        return next((turn.text for turn in reversed(self.turns) if turn.text), None)

    @property
    def error(self) -> str | None:
        """The error that ended the turn."""
        return self.turns[-1].error if self.turns else None


class _Transcript:
    """The transcripts of the conversation, from the prompt on. The conversation may begin, or be
    another one, with the prompt."""

    def __init__(self, record: Record) -> None:
        self._record = record
        found = read.current(record)
        self._places = {path: _size(path) for path in found.files.main} if found else {}

    def read(self, answer: Answer) -> None:
        found = read.current(self._record)
        for path in found.files.main if found else ():
            self._read(path, found, answer)

    def _read(self, path: str, found: Conversation | None, answer: Answer) -> None:
        offset = self._places.get(path, 0)
        if found is None or _size(path) <= offset:
            return
        try:
            with files.open_binary(path, follow=found.files.follow) as file:
                size = os.fstat(file.fileno()).st_size
                lines = transcripts.Lines(file.fileno(), offset, size)
                for line in lines:
                    answer.add(line)
                self._places[path] = lines.offset
        except OSError as error:
            why = f"its transcript {path} cannot be read: {error.strerror}"
            raise SeshError(f"{self._record.name}: {why}") from None


def ask(terminal: Terminal, text: str, deadline: float | None) -> str:
    """Send a prompt and return the answer. Raises when the agent asks something, when its turn ends
    with an error, when the session ends, and at the deadline (of time.monotonic)."""
    kind = read.kind_of(terminal.record)
    doing = _doing(terminal)
    log = _Transcript(terminal.record)
    answer = Answer(kind, text, alone=doing is not None and doing.kind != BUSY)
    send.send(terminal, send.clean(os.fsencode(text)), (), enter=True, force=False)
    asked, over = 0, None
    while True:
        lives = terminal.lives()
        log.read(answer)
        doing = _doing(terminal) if lives else None
        if answer.over:
            over = over or time.monotonic()
            settled = time.monotonic() >= over + SETTLED * terminal.slowness
            rests = answer.error is not None or (doing is not None and _rests(doing))
            if not lives or settled or (answer.sure and rests):
                return _result(terminal, answer)
        else:
            over = None
        if not lives:
            raise _ended(terminal)
        asked = asked + 1 if doing is not None and _asks(doing) else 0
        if asked >= _ASKED and doing is not None:
            raise _asks_back(terminal, doing)
        if deadline is not None and time.monotonic() >= deadline:
            raise TimedOutError(
                f"{terminal.name}: no answer in time; it goes on: sesh show {terminal.name}"
            )
        time.sleep(TICK)


def _doing(terminal: Terminal) -> Activity | None:
    place = terminal.record.place
    return screen.doing(terminal.launch, place.socket, place.pane)


def _rests(doing: Activity) -> bool:
    return doing.kind == IDLE or doing.trouble


def _asks(doing: Activity) -> bool:
    return doing.kind == WAITING and not doing.trouble


def _result(terminal: Terminal, answer: Answer) -> str:
    if answer.error is not None:
        raise SeshError(f"{terminal.name}: its turn failed: {answer.error}")
    if answer.text is None:
        raise SeshError(f"{terminal.name}: its turn ended without an answer")
    return answer.text


def _asks_back(terminal: Terminal, doing: Activity) -> AskedError:
    found = terminal.dialog()
    if found is not None:
        what = send.brief(found)
    elif doing.question:
        what = questions.line(doing.question["text"])
    else:
        what = doing.what or "an answer"
    return AskedError(
        f"{terminal.name} asks back: {what}",
        f"answer it: sesh answer {terminal.name} …",
        f"then see its answer: sesh transcript {terminal.name} --last",
    )


def _ended(terminal: Terminal) -> SeshError:
    state = lookup.one(terminal.name).state
    return EndedError(f"{terminal.name} ended before it answered ({state})")


def _squeezed(text: str) -> str:
    return "".join(text.split())


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0
