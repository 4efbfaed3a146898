"""Completions for bash, zsh and fish, written from a description of the commands.

Pure text: what differs from command to command goes into tables, the code around them is fixed.
Names and groups of sessions are asked for while somebody types, by `ls --json`: it is a fast lane,
any other command costs five times as much.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from sesh.values import Value

# What is offered for a value: these words, or what the script's own function of that name finds
# (sessions, living, groups, filters, directories, variables); None: nothing.
Offer = tuple[str, ...] | str | None


class Option(Value):
    names: tuple[str, ...]
    help: str
    metavar: str | None  # None: a flag
    offer: Offer
    many: bool


class Verb(Value):
    name: str
    help: str
    options: tuple[Option, ...]
    argument: str | None  # None: it takes none
    offer: Offer
    many: bool

    @property
    def valued(self) -> list[str]:
        """The options that take a value."""
        return [name for option in self.options if option.metavar for name in option.names]


class Tree(Value):
    """All there is to complete."""

    options: tuple[Option, ...]
    verbs: tuple[Verb, ...]
    states: tuple[str, ...]
    living: tuple[str, ...]  # the states of what can be stopped, typed into, waited for
    filters: tuple[str, ...]


# sed programs: the objects of `ls --json` stand on a line each, and these fields side by side.
_NAMES = r's/^\[?\{"name":"([^"]+)".*/\1/p'
_LIVING = r's/^\[?\{"name":"([^"]+)",("id":"[^"]*",)?"state":"(%s)".*/\1/p'
_GROUPS = r's/.*,"image":[^,]*,"group":"([^"\]+)".*/\1/p'


def brief(text: str) -> str:
    """The beginning of a help text: what fits beside a completion."""
    return re.split(r"[.;:] | \(", text.rstrip("."))[0]


def _fill(template: str, tree: Tree, **tables: Iterable[str]) -> str:
    """The template with `%NAME%` replaced, by lines where that is all a line has."""
    words = {
        "names": [_NAMES],
        "living_names": [_LIVING % "|".join(tree.living)],
        "groups": [_GROUPS],
        "verbs": [" ".join(verb.name for verb in tree.verbs)],
        "states": [" ".join(tree.states)],
        "filters": [" ".join(tree.filters)],
    }
    for name, lines in {**words, **tables}.items():
        template = template.replace(f"%{name.upper()}%", "\n".join(lines))
    return template


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, list[str]]:
    """value → all keys that have it, in the order of their first."""
    found: dict[str, list[str]] = {}
    for key, value in pairs:
        found.setdefault(value, []).append(key)
    return found


# --- bash --------------------------------------------------------------------------------------

_BASH = r"""# bash completion for sesh(1); written by `sesh completion bash`. Needs nothing but bash and sed.

# _sesh_words WORD…: those that begin with $cur become the reply. (Not compgen -W, which expands what it is given:
# a session's group could hold anything.)
_sesh_words() {
    local word
    for word; do
        [[ $word == "$cur"* ]] && COMPREPLY+=("$word")
    done
}

# _sesh_find PREFIX SED: what the program finds in the list of sessions, once each, without what would need quoting.
_sesh_find() {
    local -a found
    mapfile -t found < <(command sesh ls --json 2>/dev/null | sed -nE "$2" |
        LC_ALL=C grep -x '[A-Za-z0-9][A-Za-z0-9_.,:@/=-]*' | sort -u)
    _sesh_words "${found[@]/#/$1}"
}

_sesh_sessions() { _sesh_find "$1" '%NAMES%'; }
_sesh_living() {
    _sesh_find '' '%LIVING_NAMES%'
}
_sesh_groups() { _sesh_find "$1" '%GROUPS%'; }
_sesh_variables() { mapfile -t COMPREPLY < <(compgen -e -- "$cur"); }
_sesh_directories() {
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
}

_sesh_filters() {
    local -a states=(%STATES%) keys=(%FILTERS%)
    case $cur in
        state=*) _sesh_words "${states[@]/#/state=}" ;;
        group=*) _sesh_groups group= ;;
        name=*) _sesh_sessions name= ;;
        place=*) _sesh_words place=host ;;
        attention=*) _sesh_words attention={yes,no} ;;
        *)
            _sesh_words "${keys[@]/%/=}"
            compopt -o nospace
            ;;
    esac
}

_sesh_options() {
    case $command in
%OPTIONS%
    esac
}

# _sesh_valued OPTION: does it take a value?
_sesh_valued() {
    local valued=""
    case $command in
%VALUED%
    esac
    [[ " $valued " == *" $1 "* ]]
}

# _sesh_value OPTION: its value
_sesh_value() {
    case $command:$1 in
%VALUES%
    esac
}

_sesh_arguments() {
    case $command in
%ARGUMENTS%
    esac
}

# Is the word being typed the first argument of the command?
_sesh_first() {
    local word skip=""
    for word in "${words[@]:2}"; do
        if [[ $skip ]]; then
            skip=""
        elif _sesh_valued "$word"; then
            skip=yes
        elif [[ $word != -* ]]; then
            return 1
        fi
    done
}

# What a session shall run: a command, then anything.
_sesh_behind_dashes() {
    if [[ ${words[-1]} == -- ]]; then
        mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u)
    else
        compopt -o default
    fi
}

_sesh() {
    # bash also splits words at = and :, so the line is split anew.
    local line=${COMP_LINE:0:COMP_POINT} cur="" command word
    local -a words
    COMPREPLY=()
    read -ra words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        cur=${words[-1]}
        unset 'words[-1]'
    fi
    command=${words[1]:-}
    if [[ $command == start ]]; then
        for word in "${words[@]}"; do
            [[ $word != -- ]] || { _sesh_behind_dashes; return; }
        done
    fi
    local whole=$cur
    if [[ -z $command && $cur != -* ]]; then
        _sesh_words %VERBS%
    elif [[ $cur == --*=* ]]; then
        cur=${whole#*=}
        _sesh_value "${whole%%=*}"
    elif [[ ${#words[@]} -gt 2 ]] && _sesh_valued "${words[-1]}"; then
        _sesh_value "${words[-1]}"
    elif [[ $cur == -* ]]; then
        _sesh_options
    else
        _sesh_arguments
    fi
    # Only what is behind the last = is replaced.
    if [[ $cur == *=* && $COMP_WORDBREAKS == *=* ]]; then
        COMPREPLY=("${COMPREPLY[@]#"${cur%"${cur##*=}"}"}")
    fi
}

complete -F _sesh sesh
"""


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
    arguments = _grouped(
        (verb.name, ("" if verb.many else "_sesh_first && ") + _bash_offer(verb.offer))
        for verb in tree.verbs
        if verb.offer
    )
    return _fill(
        _BASH,
        tree,
        options=_cases(options),
        valued=_cases(valued),
        values=_cases(f"{' | '.join(names)}) {offer}" for offer, names in values.items()),
        arguments=_cases(f"{' | '.join(names)}) {offer}" for offer, names in arguments.items()),
    )


def _all_names(options: Iterable[Option]) -> str:
    return " ".join(name for option in options for name in option.names)


def _bash_offer(offer: Offer) -> str:
    return f"_sesh_{offer}" if isinstance(offer, str) else f"_sesh_words {' '.join(offer or ())}"


def _cases(lines: Iterable[str]) -> list[str]:
    return [f"        {line} ;;" for line in lines]


# --- zsh ---------------------------------------------------------------------------------------

_ZSH = r"""#compdef sesh
# zsh completion for sesh(1); written by `sesh completion zsh`.

# _sesh_find WHAT SED: what the program finds in the list of sessions, once each
_sesh_find() {
    local expl
    local -a found
    found=(${(fu)"$(_call_program $1 sesh ls --json 2>/dev/null | sed -nE $2)"})
    _wanted $1 expl $1 compadd -a found
}

_sesh_sessions() { _sesh_find session '%NAMES%' }
_sesh_living() {
    _sesh_find session '%LIVING_NAMES%'
}
_sesh_groups() { _sesh_find group '%GROUPS%' }

_sesh_filters() {
    local expl key=${PREFIX%%=*}
    if ! compset -P '*='; then
        _wanted keys expl key compadd -qS= -- %FILTERS%
        return
    fi
    case $key in
        state)
            _wanted states expl state compadd -- \
                %STATES%
            ;;
        group) _sesh_groups ;;
        name) _sesh_sessions ;;
        place) _wanted places expl place compadd -- host ;;
        attention) _wanted answers expl answer compadd -- yes no ;;
    esac
}

_sesh() {
    local curcontext=$curcontext state at
    local -a line verbs
    local -A opt_args
    verbs=(
%DESCRIBED%
    )
    _arguments -C \
%OPTIONS%
        '1:command:->command' '*::argument:->argument' && return

    if [[ $state == command ]]; then
        _describe -t commands command verbs
        return
    fi

    curcontext=${curcontext%:*:*}:sesh-$words[1]:
    at=${words[(ie)--]}
    if [[ $words[1] == start ]] && ((at < CURRENT)); then # what the session shall run
        words=("${(@)words[at + 1, -1]}")
        ((CURRENT -= at))
        _normal
        return
    fi
    case $words[1] in
%CASES%
    esac
}

if [[ $funcstack[1] == _sesh ]]; then
    _sesh "$@"
else # read by eval or source instead of found in $fpath
    compdef _sesh sesh
fi
"""
_ZSH_ACTIONS = {"directories": "_directories", "variables": '_parameters -g "*export*"'}


def zsh(tree: Tree) -> str:
    cases = []
    for verb in tree.verbs:
        specs = [_zsh_option(option) for option in verb.options]
        if verb.argument is not None:
            which = "*" if verb.many else "1"
            specs.append(_quoted(f"{which}:{verb.argument.lower()}:{_zsh_offer(verb.offer)}"))
        lines = [f" \\\n                {spec}" for spec in specs]
        cases += [f"        {verb.name})", f"            _arguments -s{''.join(lines)}"]
        cases += ["            ;;"]
    return _fill(
        _ZSH,
        tree,
        described=[f"        {_quoted(f'{v.name}:{brief(v.help)}')}" for v in tree.verbs],
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
        return _quoted(("*" if option.many else "") + names[0] + text)
    return f"'{before}'{{{','.join(names)}}}{_quoted(text)}"


def _zsh_offer(offer: Offer) -> str:
    if offer is None:
        return " "
    if isinstance(offer, str):
        return _ZSH_ACTIONS.get(offer, f"_sesh_{offer}")
    return f"({' '.join(offer)})"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", r"'\''") + "'"


# --- fish --------------------------------------------------------------------------------------

_FISH = r"""# fish completion for sesh(1); written by `sesh completion fish`.

# Is the command that is being typed one of these? (Only the word behind `sesh` counts: a session may be called stop.)
function __sesh_in
    set -l words (commandline -opc)
    set -q words[2]; and contains -- $words[2] $argv
end

function __sesh_no_command
    test (count (commandline -opc)) -eq 1
end

# Is the word being typed the first argument of its command? Given: the options that take a value.
function __sesh_first
    set -l words (commandline -opc)
    set -l skip no
    for word in $words[3..-1]
        if test $skip = yes
            set skip no
        else if contains -- $word $argv
            set skip yes
        else if not string match -q -- '-*' $word
            return 1
        end
    end
    return 0
end

# What a sed program finds in the list of sessions
function __sesh_find
    command sesh ls --json 2>/dev/null | sed -nE $argv[1] | sort -u
end

function __sesh_sessions
    __sesh_find '%NAMES%'
end

function __sesh_living
    __sesh_find '%LIVING_NAMES%'
end

function __sesh_groups
    __sesh_find '%GROUPS%'
end

function __sesh_variables
    set -nx
end

function __sesh_directories
    __fish_complete_directories
end

function __sesh_filters
    switch (commandline -ct | string replace -r '^(-f|--filter=)' '')
        case 'group=*'
            printf 'group=%s\n' (__sesh_groups)
        case 'name=*'
            printf 'name=%s\n' (__sesh_sessions)
        case '*'
            printf 'state=%s\n' %STATES%
            printf '%s=\n' %OTHER_FILTERS%
            printf '%s\n' place=host attention={yes,no}
    end
end

# What a session shall run: everything behind the first `--`.
function __sesh_behind_dashes
    set -l words (commandline -opc)
    contains -- -- $words; and __sesh_in start
end

function __sesh_command_line
    set -l words (commandline -opc)
    set -l at (contains -i -- -- $words)
    complete -C (string join ' ' -- (string escape -- $words[(math $at + 1)..]) (commandline -ct))
end

complete -c sesh -f
complete -c sesh -n __sesh_behind_dashes -a '(__sesh_command_line)'

%DESCRIBED%
%OPTIONS%

%ARGUMENTS%

%VERB_OPTIONS%
"""


def fish(tree: Tree) -> str:
    grouped = _grouped(
        (verb.name, _fish_option(option)) for verb in tree.verbs for option in verb.options
    )
    return _fill(
        _FISH,
        tree,
        other_filters=[
            " ".join(k for k in tree.filters if k not in ("state", "place", "attention"))
        ],
        described=[
            f"complete -c sesh -n __sesh_no_command -a {verb.name} -d {_fish_quoted(brief(verb.help))}"
            for verb in tree.verbs
        ],
        options=[
            f"complete -c sesh -n __sesh_no_command {_fish_option(option)}"
            for option in tree.options
        ],
        arguments=[_fish_argument(verb) for verb in tree.verbs if verb.offer],
        verb_options=[
            f"complete -c sesh -n '__sesh_in {' '.join(verbs)}' {option}"
            for option, verbs in grouped.items()
        ],
    )


def _fish_argument(verb: Verb) -> str:
    where = f"__sesh_in {verb.name}"
    if not verb.many:
        where += " ".join(("; and __sesh_first", *verb.valued))
    return f"complete -c sesh -n '{where}' -a '{_fish_offer(verb.offer)}'"


def _fish_option(option: Option) -> str:
    words = [
        f"-l {name[2:]}" if name.startswith("--") else f"-s {name[1:]}" for name in option.names
    ]
    if option.metavar is not None:
        words.append("-x")
    if option.offer is not None:
        words.append(f"-a '{_fish_offer(option.offer)}'")
    return " ".join((*words, "-d", _fish_quoted(brief(option.help))))


def _fish_offer(offer: Offer) -> str:
    return f"(__sesh_{offer})" if isinstance(offer, str) else " ".join(offer or ())


def _fish_quoted(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
