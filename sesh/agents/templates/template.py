"""Templates: a file with the settings of a kind of session. Parsing is strict, as for the settings.

command = ["claude"]          like the command after -- of `start`
dir = "~/src/shop"            like -C, --group, --tag, -e, --image, --user, --network …
group = "shop"
env = ["API_KEY", "MODE=fast"]
image = "agents"

[start]                       as in the settings: limits, retries, health
retries = 3

[breaker]                     as in the settings: when its sessions are not retried
failures = 5

[agent]                       how its agent is launched, resumed and observed: see `Kit`
kind = "claude"
conversation = "minted"
start = ["--session-id", "{conversation}"]
resume = ["--resume", "{conversation}"]
fork = ["--resume", "{parent}", "--fork-session", "--session-id", "{conversation}"]
rules = "claude"

[agent.answers]               how its questions are answered: see `Answers`
yes = ["Yes"]
keys = ["{option}"]

`templates/catalog` finds the file.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import MappingProxyType

from sesh.model.configuration import Breaker, Start
from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.record import OPTION, Answers, Kit, valid_name
from sesh.model.states import Retry
from sesh.model.text import formatting
from sesh.model.text.pattern import lazy
from sesh.model.value_object import Any, Value
from sesh.places import environment
from sesh.state import lookup, settings
from sesh.system.tmux import KEY

MINTED, LEARNED, NONE = "minted", "learned", "none"
ANSWERS = "agent.answers"
CONVERSATIONS = (MINTED, LEARNED, NONE)
# The placeholders that each key may contain, in braces.
PLACEHOLDERS = {
    "start": ("conversation", "hooks"),
    "resume": ("conversation", "hooks"),
    "fork": ("parent", "conversation", "hooks"),
    "prompt": ("conversation", "prompt"),
    "transcript": ("conversation",),
}
_LIMITS = {
    "memory": (lazy(r"[1-9]\d*[bkmgBKMG]?"), "a size, for example 512m or 2g"),
    "cpus": (lazy(r"\d+(\.\d+)?|\.\d+"), "a number, for example 1.5"),
}
_NEW_CONTAINER_ONLY = ("mounts", "network", "memory", "cpus")
_BRACES = lazy(r"\{([^{}]*)\}|[{}]")


class Template(Value):
    """The content of a template; missing values are empty."""

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
    """The template in a file; raises the first error in it."""
    found, wrong = examine(path, raw)
    if wrong:
        raise StateError(wrong[0])
    return found


def examine(path: str, raw: bytes) -> tuple[Template, list[str]]:
    """The template in a file, and a message for each error in it."""
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
    conflicts = () if wrong else _conflicts(values)  # misleading when values are missing
    wrong += [f"{path}: {problem}" for problem in (*_refused(values), *conflicts)]
    if wrong:
        return Template(), wrong
    if "agent" in values:
        answers = Answers(**values.pop(ANSWERS, {}))
        values["agent"] = Kit(**{"conversation": NONE, **values["agent"], "answers": answers})
    return Template(**values), []


# All keys, each with a value of the right type.
_TABLES = ("start", "breaker", "agent")
_KNOWN: dict[str, Any] = {
    **{name: getattr(Template, name) for name in Template.fields if name not in _TABLES},
    **{f"start.{name}": getattr(Start, name) for name in Start.fields},
    "start.notify": (),
    **{f"breaker.{name}": getattr(Breaker, name) for name in Breaker.fields},
    **{f"agent.{name}": getattr(Kit, name, "") for name in Kit.fields if name != "answers"},
    **{f"{ANSWERS}.{name}": getattr(Answers, name) for name in Answers.fields},
}


def _values(given: dict[str, Any], before: str, path: str, wrong: list[str]) -> dict[str, Any]:
    """The values of a table whose keys start with `before`; appends errors to `wrong`."""
    values = {}
    for key, value in given.items():
        where = f"{before}{settings.brief(key)}"
        if before + key not in _KNOWN:
            ours = before in ("", "agent.", f"{ANSWERS}.")
            page = "sesh-template(1)" if ours else "sesh-config(5)"
            meant = settings.meant_by(before + key, _KNOWN, page)
            wrong.append(f"{path}: unknown key {where}; {meant}")
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
        raise StateError(f"{where} contains a NUL byte")
    return found


# --- values that are valid TOML but not usable ---------------------------------------------------


def _refused(values: Mapping[str, Any]) -> Iterator[str]:
    """Values that `start` would refuse."""
    if values.get("command") and not values["command"][0]:
        yield "command: its first word, the program, is empty"
    if values.get("group"):
        yield from (f"group: {problem}" for problem in _bad_label(values["group"]))
    for word in values.get("tags", ()):
        yield from (f"tags: {problem}" for problem in _bad_label(word))
    for word in values.get("env", ()):
        if problem := environment.why_not(word.partition("=")[0]):
            yield f"env: {problem}"
    for word in values.get("mounts", ()):
        if problem := bad_mount(word):
            yield f"mounts: {problem}"
    for key in ("memory", "cpus"):
        if values.get(key) and (problem := bad_limit(key, values[key])):
            yield f"{key}: {problem}"


def _bad_label(word: str) -> Iterator[str]:
    try:
        lookup.check_labels(word, ())
    except UsageError as error:
        yield str(error)


def bad_mount(given: str) -> str | None:
    """The error in DIR[:DIR_INSIDE[:ro]]; None: none."""
    source, target, mode = (*given.split(":"), "", "")[:3]
    if given.count(":") > 2 or not source or mode not in ("", "ro", "rw"):
        return f"{given}: should be DIR[:DIR_INSIDE[:ro]]"
    if target and not target.startswith("/"):
        return f"{given}: {target} should be an absolute path inside"
    return None


def bad_limit(key: str, given: str) -> str | None:
    """The error in a limit of memory or processors; None: none."""
    pattern, expected = _LIMITS[key]
    return None if pattern.fullmatch(given) else f"{given}: should be {expected}"


def _conflicts(values: Mapping[str, Any]) -> Iterator[str]:
    if values.get("image") and values.get("container"):
        yield "image and container: use only one of them"
    elif values.get("container") and any(map(values.get, _NEW_CONTAINER_ONLY)):
        yield "mounts, network, memory and cpus are for a new container (image)"
    retry_on = values.get("start", {}).get("retry_on", (Retry.FAILURE,))
    for word in retry_on:
        if word not in tuple(Retry):
            yield f"start.retry_on: {settings.brief(word)}: use {formatting.either(Retry)}"
    if not retry_on:
        yield f"start.retry_on is empty: use {formatting.either(Retry)}"
    for word in values.get("start", {}).get("notify", ()):
        if problem := settings.not_notifiable(word):
            yield f"start.notify: {problem}"
    if "agent" in values:
        yield from (f"agent.{problem}" for problem in _agent_problems(values["agent"]))
    yield from (f"{ANSWERS}.{problem}" for problem in _answer_problems(values.get(ANSWERS, {})))


def _agent_problems(agent: Mapping[str, Any]) -> Iterator[str]:
    conversation = agent.get("conversation", NONE)
    if not valid_name(agent.get("kind", "")):
        yield "kind should be a name, for example claude"
    if conversation not in CONVERSATIONS:
        yield f"conversation should be one of {', '.join(CONVERSATIONS)}"
        return
    for key, known in PLACEHOLDERS.items():
        yield from (f"{key}: {problem}" for problem in _braces(_words(agent, key), known))
    yield from _conversation_problems(agent, conversation)
    transcript = agent.get("transcript", "")
    if transcript and not transcript.startswith(("/", "~/")):
        yield "transcript should begin with / or ~/"
    yield from _rules(agent.get("rules", ""))


def _words(agent: Mapping[str, Any], key: str) -> tuple[str, ...]:
    found = agent.get(key, ())
    return (found,) if isinstance(found, str) else tuple(found)


def _braces(words: tuple[str, ...], known: tuple[str, ...]) -> Iterator[str]:
    """Every brace must belong to a known placeholder."""
    for word in words:
        for found in _BRACES.finditer(word):
            if found[1] not in known:
                choices = ", ".join(f"{{{name}}}" for name in known)
                yield f"unknown placeholder {settings.brief(found[0])}; available: {choices}"


def _conversation_problems(agent: Mapping[str, Any], conversation: str) -> Iterator[str]:
    """The agent must get the conversation's id where sesh knows it, and only there."""
    needed = {MINTED: ("start", "resume"), LEARNED: ("resume",), NONE: ()}[conversation]
    fork = _words(agent, "fork")
    if fork and conversation == MINTED:
        needed = (*needed, "fork")
    if fork and conversation == NONE:
        yield "fork is for agents with a conversation"
    elif fork and not any("{parent}" in word for word in fork):
        yield "fork lacks {parent}, the conversation to copy"
    allowed = (*needed, "prompt", "transcript") if needed else ()
    for key in PLACEHOLDERS:
        given = any("{conversation}" in word for word in _words(agent, key))
        if key in needed and not given:
            yield f"{key} lacks {{conversation}}, which is {conversation}"
        if given and key not in allowed:
            why = "there is none" if conversation == NONE else "it is not known yet"
            yield f"{key} has {{conversation}}, but {why}"
    prompt = _words(agent, "prompt")
    if prompt and not any("{prompt}" in word for word in prompt):
        yield "prompt lacks {prompt}"


def _answer_problems(answers: Mapping[str, Any]) -> Iterator[str]:
    keys = answers.get("keys", Answers.keys)
    if OPTION not in keys:
        yield f"keys lacks {OPTION}, the number or letter of the answer"
    for key in (*keys, *answers.get("marked", ())):
        if key != OPTION and not KEY.fullmatch(key):
            yield f"keys: {settings.brief(key)}: unknown key; use Enter, Escape, C-c, M-x, F5, Up …"
    for name in ("yes", "no", "always", "text"):
        if "" in answers.get(name, ()):
            yield f"{name}: an empty text matches every option"


def _rules(name: str) -> Iterator[str]:
    if not name:
        return
    from sesh.agents import rule_files

    try:
        rule_files.load(name)
    except SeshError as error:
        yield f"rules: {error}"
