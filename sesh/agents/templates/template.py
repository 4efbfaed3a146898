"""Templates: what a kind of session is started with, a file each. Strict like the settings.

command = ["claude"]          what `start` gets behind --
dir = "~/src/shop"            and by -C, --group, --tag, -e, --image, --user, --network …
group = "shop"
env = ["API_KEY", "MODE=fast"]
image = "agents"

[start]                       as in the settings: limits, retries, health
retries = 3

[breaker]                     as in the settings: when its sessions are left alone
failures = 5

[agent]                       how its agent is launched, resumed and heard: see model.Kit
kind = "claude"
conversation = "minted"
start = ["--session-id", "{conversation}"]
resume = ["--resume", "{conversation}"]
rules = "claude"

[agent.answers]               how its questions are answered: see model.Answers
yes = ["Yes"]
keys = ["{option}"]

Which file a name means is not known here: see shelf.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType
from typing import Any

from sesh.model.configuration import Breaker, Start
from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.record import OPTION, Answers, Kit, valid_name
from sesh.model.states import Retry
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Value
from sesh.places import environment
from sesh.state import lookup, settings
from sesh.system.tmux import KEY

MINTED, LEARNED, NONE = "minted", "learned", "none"
ANSWERS = "agent.answers"
CONVERSATIONS = (MINTED, LEARNED, NONE)
# What may stand in braces, and where.
PLACEHOLDERS = {
    "start": ("conversation", "hooks"),
    "resume": ("conversation", "hooks"),
    "prompt": ("conversation", "prompt"),
    "transcript": ("conversation",),
}
_LIMITS = {
    "memory": (lazy(r"[1-9]\d*[bkmgBKMG]?"), "a size such as 512m or 2g"),
    "cpus": (lazy(r"\d+(\.\d+)?|\.\d+"), "a number such as 1.5"),
}
_OF_A_NEW_ONE = ("mounts", "network", "memory", "cpus")
_BRACES = lazy(r"\{([^{}]*)\}|[{}]")


class Template(Value):
    """What a template says; what it does not say is empty."""

    command: tuple[str, ...] = ()
    dir: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    image: str = ""
    container: str = ""
    mounts: tuple[str, ...] = ()
    user: str = ""
    network: str = ""
    memory: str = ""
    cpus: str = ""
    start: Mapping[str, Any] = MappingProxyType({})
    breaker: Mapping[str, Any] = MappingProxyType({})
    agent: Kit | None = None


def decode(path: str, raw: bytes) -> Template:
    """The template in a file; raises with the first thing that is wrong with it."""
    found, wrong = examine(path, raw)
    if wrong:
        raise StateError(wrong[0])
    return found


def examine(path: str, raw: bytes) -> tuple[Template, list[str]]:
    """The template in a file, and everything that is wrong with it, a line each."""
    try:
        given = settings.parse(path, raw)
    except StateError as error:
        return Template(), [str(error)]
    wrong: list[str] = []
    tables = {name: given.pop(name) for name in _TABLES if name in given}
    if isinstance(agent := tables.get("agent"), dict) and "answers" in agent:
        tables[ANSWERS] = agent.pop("answers")
    values = _values(given, "", path, wrong)
    for name, table in tables.items():
        if isinstance(table, dict):
            values[name] = _values(table, f"{name}.", path, wrong)
        else:
            wrong.append(f"{path}: {name} should be a table")
    strange = () if wrong else _nonsense(values)  # of what is not all there, it would mislead
    wrong += [f"{path}: {told}" for told in (*_refused(values), *strange)]
    if wrong:
        return Template(), wrong
    if "agent" in values:
        answers = Answers(**values.pop(ANSWERS, {}))
        values["agent"] = Kit(**{"conversation": NONE, **values["agent"], "answers": answers})
    return Template(**values), []


# What there is, with a value of the same kind.
_TABLES = ("start", "breaker", "agent")
_KNOWN: dict[str, Any] = {
    **{name: getattr(Template, name) for name in Template.fields if name not in _TABLES},
    **{f"start.{name}": getattr(Start, name) for name in Start.fields},
    **{f"breaker.{name}": getattr(Breaker, name) for name in Breaker.fields},
    **{f"agent.{name}": getattr(Kit, name, "") for name in Kit.fields if name != "answers"},
    **{f"{ANSWERS}.{name}": getattr(Answers, name) for name in Answers.fields},
}


def _values(given: dict[str, Any], before: str, path: str, wrong: list[str]) -> dict[str, Any]:
    """The values of a table whose keys have `before` in front; what is wrong goes to the list."""
    values = {}
    for key, value in given.items():
        where = f"{before}{settings.brief(key)}"
        if before + key not in _KNOWN:
            ours = before in ("", "agent.", f"{ANSWERS}.")
            page = "sesh-template(1)" if ours else "sesh-config(5)"
            wrong.append(f"{path}: unknown key {where}; see {page}")
            continue
        try:
            values[key] = _checked(value, _KNOWN[before + key], f"{path}: {where}")
        except StateError as error:
            wrong.append(str(error))
    return values


def _checked(value: Any, default: Any, where: str) -> Any:
    found = settings.checked(value, default, where)
    words = found if isinstance(found, tuple) else (found,)
    if any(isinstance(word, str) and "\0" in word for word in words):
        raise StateError(f"{where} holds a NUL byte")
    return found


# --- what can be read and yet makes no sense -----------------------------------------------------


def _refused(values: Mapping[str, Any]) -> Iterator[str]:
    """Single values that `start` would not take, wherever it is said."""
    if values.get("command") and not values["command"][0]:
        yield "command: its first word, the program, is empty"
    if values.get("group"):
        yield from (f"group: {told}" for told in _bad_label(values["group"]))
    for word in values.get("tags", ()):
        yield from (f"tags: {told}" for told in _bad_label(word))
    for word in values.get("env", ()):
        if told := environment.why_not(word.partition("=")[0]):
            yield f"env: {told}"
    for word in values.get("mounts", ()):
        if told := bad_mount(word):
            yield f"mounts: {told}"
    for key in ("memory", "cpus"):
        if values.get(key) and (told := bad_limit(key, values[key])):
            yield f"{key}: {told}"


def _bad_label(word: str) -> Iterator[str]:
    try:
        lookup.check_labels(word, ())
    except UsageError as error:
        yield str(error)


def bad_mount(given: str) -> str | None:
    """What is wrong with DIR[:DIR_INSIDE[:ro]]; None: nothing that can be seen from here."""
    source, target, mode = (*given.split(":"), "", "")[:3]
    if given.count(":") > 2 or not source or mode not in ("", "ro", "rw"):
        return f"{given}: should be DIR[:DIR_INSIDE[:ro]]"
    if target and not target.startswith("/"):
        return f"{given}: {target} should be an absolute path inside"
    return None


def bad_limit(key: str, given: str) -> str | None:
    """What is wrong with the memory or the processors of a container."""
    pattern, told = _LIMITS[key]
    return None if pattern.fullmatch(given) else f"{given}: should be {told}"


def _nonsense(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("image") and values.get("container"):
        yield "image and container: give one of them"
    elif values.get("container") and any(map(values.get, _OF_A_NEW_ONE)):
        yield "mounts, network, memory and cpus are for a new container (image)"
    retry_on = values.get("start", {}).get("retry_on", (Retry.FAILURE,))
    for word in retry_on:
        if word not in tuple(Retry):
            yield f"start.retry_on: {settings.brief(word)}: should be of {', '.join(Retry)}"
    if not retry_on:
        yield f"start.retry_on is empty: it should be of {', '.join(Retry)}"
    if "agent" in values:
        yield from (f"agent.{told}" for told in _strange(values["agent"]))
    yield from (f"{ANSWERS}.{told}" for told in _unanswerable(values.get(ANSWERS, {})))


def _strange(agent: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with an [agent] table."""
    conversation = agent.get("conversation", NONE)
    if not valid_name(agent.get("kind", "")):
        yield "kind should be a name, such as claude"
    if conversation not in CONVERSATIONS:
        yield f"conversation should be one of {', '.join(CONVERSATIONS)}"
        return
    for key, known in PLACEHOLDERS.items():
        yield from (f"{key}: {told}" for told in _braces(_words(agent, key), known))
    yield from _unheard(agent, conversation)
    transcript = agent.get("transcript", "")
    if transcript and not transcript.startswith(("/", "~/")):
        yield "transcript should begin with / or ~/"
    yield from _rules(agent.get("rules", ""))


def _words(agent: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = agent.get(key, ())
    return (found,) if isinstance(found, str) else tuple(found)


def _braces(words: tuple[str, ...], known: tuple[str, ...]) -> Iterator[str]:
    """Every brace must be one of a placeholder that is known there."""
    for word in words:
        for found in _BRACES.finditer(word):
            if found[1] not in known:
                choices = ", ".join(f"{{{name}}}" for name in known)
                yield f"unknown placeholder {settings.brief(found[0])}; there is {choices}"


def _unheard(agent: Mapping[str, Any], conversation: str) -> Iterator[str]:
    """A conversation must reach the agent where it can, and only there."""
    needed = {MINTED: ("start", "resume"), LEARNED: ("resume",), NONE: ()}[conversation]
    allowed = (*needed, "prompt", "transcript") if needed else ()
    for key in PLACEHOLDERS:
        said = any("{conversation}" in word for word in _words(agent, key))
        if key in needed and not said:
            yield f"{key} lacks {{conversation}}, which is {conversation}"
        if said and key not in allowed:
            why = "there is none" if conversation == NONE else "it is not known yet"
            yield f"{key} has {{conversation}}, but {why}"
    prompt = _words(agent, "prompt")
    if prompt and not any("{prompt}" in word for word in prompt):
        yield "prompt lacks {prompt}"


def _unanswerable(answers: Mapping[str, Any]) -> Iterator[str]:
    """What is wrong with how questions are answered."""
    keys = answers.get("keys", Answers.keys)
    if OPTION not in keys:
        yield f"keys lacks {OPTION}, which stands for the number or letter of the answer"
    for key in (*keys, *answers.get("marked", ())):
        if key != OPTION and not KEY.fullmatch(key):
            yield f"keys: {settings.brief(key)}: no such key; Enter, Escape, C-c, M-x, F5, Up …"
    for name in ("yes", "no", "always", "text"):
        if "" in answers.get(name, ()):
            yield f"{name}: an empty text would mean every option"


def _rules(name: str) -> Iterator[str]:
    if not name:
        return
    from sesh.agents import rule_files

    try:
        rule_files.load(name)
    except SeshError as error:
        yield f"rules: {error}"
