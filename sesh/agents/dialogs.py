"""Dialogs on an agent's screen: the question, its options, and the option that an answer means.
PURE.

A dialog is a list of options, numbered or not, with a mark at the option that Enter takes; or a
line with letters in parentheses. The last dialog on the screen counts.
"""

from __future__ import annotations

import re

from sesh.agents.questions import SCREEN, USES, Option, Question, matter
from sesh.model.record import Answers
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value, replace

_MARKS = "❯›▶●>"
_EDGES = " \t│┃|"
_OPTION = lazy(rf"(?P<mark>[{_MARKS}])?\s*(?P<key>[1-9]\d?)[.)]\s+(?P<label>\S.*)")
_LETTERS = lazy(r"\(([A-Z])\)([a-z][a-z' ]*)")
_BAR = lazy(r"[─━═╌╍┄-]{8,}")
_FIELD = lazy(r"\w+: |[$│>•] ")
_HINT = lazy(r"↑/↓|\b(?:enter|esc) to (?:select|confirm|cancel)", re.IGNORECASE)
_BELOW = 3  # lines below the last option, with hints about keys
_APART = 4  # lines from one option to the next, with its explanation
_ABOVE = 40  # lines above the options that may belong to the dialog
_SAMPLE = 24  # characters of a tool's input that are searched for on the screen


class Dialog(Value):
    """The content of a dialog. `same` compares two of them without the mark."""

    text: str
    options: tuple[Option, ...]
    core: str  # from the question to the first option
    body: str  # the same, with the part above the question: the input of a tool
    marked: str = ""  # the option that Enter takes
    numbered: bool = True  # a key takes an option; else it has to be marked first


def read(screen: str) -> Dialog | None:
    """The dialog at the end of a screen; None when sesh recognises none."""
    return menu(screen) or _letters(_lines(screen))


def menu(screen: str) -> Dialog | None:
    """The same, only for lists of options: in any program, Enter takes the marked option."""
    return _menu(_lines(screen)) or _bare_menu(screen.splitlines())


def _lines(screen: str) -> list[str]:
    lines = (line.strip(_EDGES) for line in screen.splitlines())
    return [line for line in lines if line]


def same(one: Dialog, other: Dialog) -> bool:
    """Is it the same question with the same options?"""
    return (one.body, one.options) == (other.body, other.options)


def _menu(lines: list[str]) -> Dialog | None:
    """A list of numbered options with exactly one mark."""
    at = _numbered(lines)
    if not at:
        return None
    found = [match for where in at if (match := _OPTION.fullmatch(lines[where]))]
    marked = [match["key"] for match in found if match["mark"]]
    below = [line for line in lines[at[-1] + 1 :] if not _BAR.fullmatch(line)]
    # A list above an input line with the same mark is an earlier prompt of the user.
    earlier = any(line[0] in _MARKS for line in below)
    if len(found) < 2 or len(marked) != 1 or len(below) > _BELOW or earlier:
        return None
    options = tuple(Option(match["key"], _label(match["label"])) for match in found)
    above = lines[max(0, at[0] - _ABOVE) : at[0]]
    return _dialog(above, options, marked[0])


def _dialog(
    above: list[str], options: tuple[Option, ...], marked: str, *, numbered: bool = True
) -> Dialog:
    asked = _from_question(above)
    text, body = asked[0] if asked else "", "\n".join(_from_bar(above, asked))
    return Dialog(text, options, "\n".join(asked), body, marked, numbered)


def _bare_menu(lines: list[str]) -> Dialog | None:
    """Options without numbers in a column below a question. Below them is only a line with hints
    about keys, or nothing, with a bar above the dialog. Options count from the top."""
    marks = [where for where, line in enumerate(lines) if line.strip(_EDGES)[:1] in (*_MARKS,)]
    if not marks:
        return None
    at = marks[-1]
    column = len(lines[at]) - len(lines[at].lstrip(f"{_EDGES}{_MARKS}"))
    first = last = at
    while first > 0 and _starts_at(lines[first - 1], column):
        first -= 1
    while last + 1 < len(lines) and _starts_at(lines[last + 1], column):
        last += 1
    below = [line for line in lines[last + 1 :] if line.strip(_EDGES)]
    if first == last or len(below) > _BELOW or not lines[at][column:].strip(_EDGES):
        return None
    labels = [_label(line[column:].strip(_EDGES)) for line in lines[first : last + 1]]
    options = tuple(Option(str(number), label) for number, label in enumerate(labels, 1))
    above = _lines("\n".join(lines[max(0, first - _ABOVE) : first]))
    hinted = any(map(_HINT.search, below)) or (not below and any(map(_BAR.fullmatch, above)))
    found = _dialog(above, options, str(at - first + 1), numbered=False)
    return found if hinted and "?" in found.text else None


def _starts_at(line: str, column: int) -> bool:
    """Does the text of a line start in this column?"""
    return len(line) - len(line.lstrip(_EDGES)) == column < len(line)


def _label(text: str) -> str:
    """The label without its explanation in another column."""
    return text.strip().partition("  ")[0]


def _numbered(lines: list[str]) -> list[int]:
    """The lines with the options of the last list: 1, 2 … in order."""
    at: list[int] = []
    wanted = None
    for where in range(len(lines) - 1, -1, -1):
        match = _OPTION.fullmatch(lines[where])
        if at and at[0] - where > _APART:
            break
        if match is None or wanted not in (None, int(match["key"])):
            continue
        at.insert(0, where)
        wanted = int(match["key"]) - 1
        if wanted == 0:
            return at
    return []


def _from_question(above: list[str]) -> list[str]:
    """The lines from the last question on; `Reason: …` or `$ command` is not a question."""
    asked = [where for where, line in enumerate(above) if "?" in line and not _FIELD.match(line)]
    return [line for line in above[asked[-1] if asked else -1 :] if not _BAR.fullmatch(line)]


def _from_bar(above: list[str], asked: list[str]) -> list[str]:
    """The lines after the bar at the top of the dialog, if it has one."""
    bars = [where for where, line in enumerate(above) if _BAR.fullmatch(line) and line[0] in "─━═"]
    return [line for line in above[bars[-1] + 1 :] if not _BAR.fullmatch(line)] if bars else asked


def _letters(lines: list[str]) -> Dialog | None:
    """`Run it? (Y)es/(N)o [Yes]:` in the last line."""
    last = lines[-1] if lines else ""
    found = _LETTERS.findall(last)
    if len(found) < 2 or not last.endswith((":", "]")):
        return None
    options = tuple(Option(key.lower(), (key + rest).strip()) for key, rest in found)
    return Dialog(last[: last.index("(")].strip() or last, options, last, last)


def question(dialog: Dialog, known: Question | None) -> Question:
    """The question of a dialog: `known`, from the agent's hook, if it belongs to this dialog."""
    if known is not None and _is_of(known, dialog):
        return replace(known, options=dialog.options)
    return Question(dialog.text, SCREEN, options=dialog.options)


def _is_of(known: Question, dialog: Dialog) -> bool:
    """Does the dialog show the beginning or the end of the tool's input? A long input may be cut. A
    tool without such an input is taken as reported."""
    shown, found = _squeezed(dialog.body), matter(known.input or {})
    if found is None:
        asks = "questions" in (known.input or {})
        return not asks or _squeezed(known.text)[:_SAMPLE] in shown
    verb, value = found
    if verb == USES:
        value = value.rstrip("/").rpartition("/")[2]
    value = _squeezed(value)
    return value[:_SAMPLE] in shown or value[-_SAMPLE:] in shown


def _squeezed(text: str) -> str:
    return "".join(char for char in text if not char.isspace() and char not in "│┃|")


# --- answers -------------------------------------------------------------------------------------


class Choice(Value):
    """What to type: an option, then a text."""

    option: Option
    verb: str  # the result, for people
    text: str = ""


def choose(dialog: Dialog, answers: Answers, word: str) -> Choice | None:
    """The option that an answer means; None when the dialog has no such option."""
    always = [option for option in dialog.options if _begins(option, answers.always)]
    if word == "always":
        return Choice(always[0], "always allowed") if always else None
    if word in ("yes", "no"):
        wanted = answers.yes if word == "yes" else answers.no
        verb = "allowed" if word == "yes" else "denied"
        fits = [
            option for option in dialog.options if _begins(option, wanted) and option not in always
        ]
        return Choice(fits[0], verb) if fits else None
    for option in dialog.options:
        if option.key == word:
            return Choice(option, f"answered {option.key} ({option.label}):")
    if word.isdecimal():
        return None
    fields = [option for option in dialog.options if _begins(option, answers.text)]
    return Choice(fields[0], "answered", word) if fields else None


def words(dialog: Dialog, answers: Answers) -> list[str]:
    """The answers that `sesh answer` accepts for a dialog."""
    named = [word for word in ("yes", "no", "always") if choose(dialog, answers, word)]
    return named if "yes" in named or "no" in named else [option.key for option in dialog.options]


def _begins(option: Option, labels: tuple[str, ...]) -> bool:
    return any(option.label.casefold().startswith(label.casefold()) for label in labels)
