"""Completions for bash, zsh and fish, generated from a description of the commands.

The code is in complete.bash, complete.zsh and complete.fish; the tables in it, `%NAME%`, come from
here. The shells get names and groups of sessions from `ls --json`, which is a fast lane: any other
command costs four times as much. They look for templates, which are files, themselves.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

from sesh.model.progress import FINAL
from sesh.model.value_object import Value
from sesh.terminal.prompt import quoted, quoted_for_fish

# The completions of a value: these words, or those that the script's function of that name finds
# (sessions, living, finishing, groups, tags, filters, templates, settable, conversations,
# directories, variables); None: nothing.
Offer = tuple[str, ...] | str | None


class Option(Value):
    names: tuple[str, ...]
    help: str
    metavar: str | None  # None: a flag
    offer: Offer
    many: bool
    section: str = ""  # of the help


class Verb(Value):
    name: str
    help: str
    options: tuple[Option, ...]
    argument: str | None  # None: it takes none
    offer: Offer
    many: bool
    rest: Offer = None  # for the arguments after the first, where these differ
    runs: bool = False  # what follows its argument is a command with its arguments

    @property
    def brief(self) -> str:
        return brief(self.help).partition(", ")[0]

    @property
    def valued(self) -> list[str]:
        """The options that take a value."""
        return [name for option in self.options if option.metavar for name in option.names]


class Tree(Value):
    """All there is to complete."""

    options: tuple[Option, ...]
    verbs: tuple[Verb, ...]
    hidden: tuple[str, ...]  # verbs that are not offered
    aliases: tuple[tuple[str, str], ...]  # each with the name of its verb
    meanings: tuple[tuple[str, str], ...]  # of the aliases that are offered once a letter is typed
    states: tuple[str, ...]
    living: tuple[str, ...]  # the states of sessions that can be stopped, typed into, waited for
    filters: tuple[str, ...]
    filter_words: tuple[str, ...]
    templates: tuple[str, ...]  # that come with sesh
    settable: tuple[str, ...]  # keys of `set`

    @property
    def offered(self) -> list[Verb]:
        return [verb for verb in self.verbs if verb.name not in self.hidden]


# sed programs: each object of `ls --json` is on its own line, and these fields are adjacent.
_NAMES = r's/^\[?\{"name":"([A-Za-z0-9_-]+)".*/\1/p'
_LIVING = r's/^\[?\{"name":"([A-Za-z0-9_-]+)",("id":"[^"]*",)?"state":"(%s)".*/\1/p'
_GROUPS = r's/.*,"image":[^,]*,"group":"([^"\]+)".*/\1/p'
_IDS = r's/^\[?\{"id":"([A-Za-z0-9_-]+)".*/\1/p'  # of `conversations --json`
_TAGS = r'/,"tags":\["/{s/.*,"tags":\[("[^]]*")\].*/\1/;s/","/\n/g;s/"//g;p}'


def brief(text: str) -> str:
    """The beginning of a help text, short enough to stand beside a completion."""
    return re.split(r"[.;:] | \(", text.rstrip("."))[0]


def _fill(shell: str, tree: Tree, **tables: Iterable[str]) -> str:
    """The shell's template with each `%NAME%` replaced by its lines."""
    with open(f"{os.path.dirname(__file__)}/shell/complete.{shell}", encoding="utf-8") as file:
        script = file.read()
    words = {
        "names": [_NAMES],
        "living_names": [_LIVING % "|".join(tree.living)],
        "groups": [_GROUPS],
        "tags": [_TAGS],
        "ids": [_IDS],
        "verbs": [" ".join(verb.name for verb in tree.offered)],
        "states": [" ".join(tree.states)],
        "filters": [" ".join(tree.filters)],
        "filter_words": [" ".join(tree.filter_words)],
        "alias_words": [" ".join(alias for alias, _ in tree.meanings)],
        "templates": [" ".join(tree.templates)],
        "outcomes": [" ".join(FINAL)],
        "settable": [" ".join(tree.settable)],
        "running": [" ".join(name for verb in tree.verbs if verb.runs for name in verb.valued)],
    }
    for name, lines in {**words, **tables}.items():
        script = script.replace(f"%{name.upper()}%", "\n".join(lines))
    return script


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """value → all keys that have it, in the order of their first."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(value, []).append(key)
    return found


def _aliases(tree: Tree) -> Iterable[tuple[str, list[str]]]:
    """verb → its aliases"""
    return _grouped(tree.aliases).items()


# --- bash --------------------------------------------------------------------------------------


def bash(tree: Tree) -> str:
    options = [f"{verb.name}) _sesh_words {_all_names(verb.options)}" for verb in tree.verbs]
    options.append(f"*) _sesh_words {_all_names(tree.options)}")
    valued = [f"{v.name}) valued='{' '.join(v.valued)}'" for v in tree.verbs if v.valued]
    values = _grouped(
        (f"{verb.name}:{name}", _bash_offer(option.offer))
        for verb in tree.verbs
        for option in verb.options
        if option.offer
        for name in option.names
    )
    arguments = _grouped((verb.name, _bash_argument(verb)) for verb in tree.verbs if verb.offer)
    return _fill(
        "bash",
        tree,
        aliases=_cases(f"{' | '.join(words)}) command={verb}" for verb, words in _aliases(tree)),
        options=_cases(options),
        valued=_cases(valued),
        values=_cases(f"{' | '.join(names)}) {offer}" for offer, names in values.items()),
        arguments=_cases(f"{' | '.join(names)}) {offer}" for offer, names in arguments.items()),
    )


def _bash_argument(verb: Verb) -> str:
    first = _bash_offer(verb.offer)
    if verb.rest:
        return f"if _sesh_first; then {first}; else {_bash_offer(verb.rest)}; fi"
    return first if verb.many else f"_sesh_first && {first}"


def _all_names(options: Iterable[Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def _bash_offer(offer: Offer) -> str:
    return f"_sesh_{offer}" if isinstance(offer, str) else f"_sesh_words {' '.join(offer or ())}"


def _cases(lines: Iterable[str]) -> list[str]:
    return [f"        {line} ;;" for line in lines]


# --- zsh ---------------------------------------------------------------------------------------

_ZSH_ACTIONS = {"directories": "_directories", "variables": '_parameters -g "*export*"'}


def zsh(tree: Tree) -> str:
    cases = []
    for verb in tree.verbs:
        specs = [_zsh_option(option) for option in verb.options]
        if verb.argument is not None:
            which = "*" if verb.many else "1"
            specs.append(quoted(f"{which}:{verb.argument.lower()}:{_zsh_offer(verb.offer)}"))
        if verb.rest:
            specs.append(quoted(f"*:name:{_zsh_offer(verb.rest)}"))
        lines = [f" \\\n                {spec}" for spec in specs]
        cases += [f"        {verb.name})", f"            _arguments -s{''.join(lines)}"]
        cases += ["            ;;"]
    return _fill(
        "zsh",
        tree,
        described=[f"        {quoted(f'{v.name}:{v.brief}')}" for v in tree.offered],
        described_aliases=[f"        {quoted(f'{one}:{what}')}" for one, what in tree.meanings],
        aliases=_cases(f"{' | '.join(words)}) words[1]={verb}" for verb, words in _aliases(tree)),
        options=[f"        {_zsh_option(option)} \\" for option in tree.options],
        cases=cases,
    )


def _zsh_option(option: Option) -> str:
    """A specification for _arguments: '(-g --group)'{-g+,--group=}'[what it does]:group:action'"""
    names = list(option.names)
    text = f"[{brief(option.help)}]"
    if option.metavar is not None:
        names = [name + ("=" if name.startswith("--") else "+") for name in names]
        text += f":{option.metavar.lower()}:{_zsh_offer(option.offer)}"
    before = "*" if option.many else f"({' '.join(option.names)})"
    if "--help" in names or "--version" in names:
        before = "(- *)"  # nothing else makes sense beside them
    if len(names) == 1:
        return quoted(("*" if option.many else "") + names[0] + text)
    return f"'{before}'{{{','.join(names)}}}{quoted(text)}"


def _zsh_offer(offer: Offer) -> str:
    if offer is None:
        return " "
    if isinstance(offer, str):
        return _ZSH_ACTIONS.get(offer, f"_sesh_{offer}")
    return f"({' '.join(offer)})"


# --- fish --------------------------------------------------------------------------------------

# Offered with values.
_FISH_FILTERS = ("state", "place", "activity", "health", "phase", "attention")


def fish(tree: Tree) -> str:
    grouped = _grouped(
        (verb.name, _fish_option(option)) for verb in tree.verbs for option in verb.options
    )
    return _fill(
        "fish",
        tree,
        aliases=[
            f"        case {' '.join(words)}\n            set words[2] {verb}"
            for verb, words in _aliases(tree)
        ],
        other_filters=[" ".join(key for key in tree.filters if key not in _FISH_FILTERS)],
        described=[
            f"complete -c sesh -n __sesh_no_command -a {verb.name} -d {quoted_for_fish(verb.brief)}"
            for verb in tree.offered
        ],
        described_aliases=[
            f"complete -c sesh -n __sesh_an_alias -a {alias} -d {quoted_for_fish(what)}"
            for alias, what in tree.meanings
        ],
        options=[
            f"complete -c sesh -n __sesh_no_command {_fish_option(option)}"
            for option in tree.options
        ],
        arguments=[line for verb in tree.verbs if verb.offer for line in _fish_arguments(verb)],
        verb_options=[
            f"complete -c sesh -n '__sesh_on {' '.join(verbs)}' {option}"
            for option, verbs in grouped.items()
        ],
    )


def _fish_arguments(verb: Verb) -> list[str]:
    where = f"__sesh_in {verb.name}"
    first = " ".join(("__sesh_first", *verb.valued))
    conditions = {where if verb.many else f"{where}; and {first}": verb.offer}
    if verb.rest:
        conditions[f"{where}; and not {first}"] = verb.rest
    return [
        f"complete -c sesh -n '{condition}' -a '{_fish_offer(offer)}'"
        for condition, offer in conditions.items()
    ]


def _fish_option(option: Option) -> str:
    words = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    if option.metavar is not None:
        words.append("-x")
    if option.offer is not None:
        words.append(f"-a '{_fish_offer(option.offer)}'")
    return " ".join((*words, "-d", quoted_for_fish(brief(option.help))))


def _fish_offer(offer: Offer) -> str:
    return f"(__sesh_{offer})" if isinstance(offer, str) else " ".join(offer or ())
