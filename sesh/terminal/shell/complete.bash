# bash completion for sesh(1); written by `sesh completion bash`. Needs nothing but bash and sed.

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
_sesh_finishing() {
    _sesh_living
    _sesh_words %OUTCOMES%
}
_sesh_groups() { _sesh_find "$1" '%GROUPS%'; }
_sesh_tags() { _sesh_find "$1" '%TAGS%'; }
_sesh_conversations() {
    local -a found
    mapfile -t found < <(command sesh conversations --json 2>/dev/null | sed -nE '%IDS%')
    _sesh_words last "${found[@]}"
}
_sesh_variables() { mapfile -t COMPREPLY < <(compgen -e -- "$cur"); }
_sesh_directories() {
    compopt -o filenames
    mapfile -t COMPREPLY < <(compgen -d -- "$cur")
}

# One's own, those of the project around, and those that come with sesh
_sesh_templates() {
    local dir=$PWD file
    local -a found=(%TEMPLATES%)
    while [[ $dir && ! -e $dir/.sesh && ! -e $dir/.git ]]; do
        dir=${dir%/*}
    done
    for file in "${XDG_CONFIG_HOME:-$HOME/.config}"/sesh/templates/*.toml "$dir"/.sesh/templates/*.toml; do
        file=${file##*/}
        file=${file%.toml}
        [[ $file == *[!A-Za-z0-9_-]* ]] || found+=("$file")
    done
    _sesh_words "${found[@]/#/${1-}}"
}

_sesh_filters() {
    local -a states=(%STATES%) keys=(%FILTERS%)
    case $cur in
        state=*) _sesh_words "${states[@]/#/state=}" ;;
        group=*) _sesh_groups group= ;;
        tag=*) _sesh_tags tag= ;;
        name=*) _sesh_sessions name= ;;
        place=*) _sesh_words place={host,docker,none} ;;
        activity=*) _sesh_words activity={busy,waiting,idle} ;;
        health=*) _sesh_words health={ok,failing,hung} ;;
        template=*) _sesh_templates template= ;;
        phase=*) _sesh_words phase={initializing,investigating,planning,approval,executing,validating,completed,failed,abandoned} ;;
        attention=*) _sesh_words attention={yes,no} ;;
        *)
            _sesh_words "${keys[@]/%/=}" %FILTER_WORDS%
            [[ ${COMPREPLY[0]-} != *= ]] || compopt -o nospace
            ;;
    esac
}

_sesh_settable() {
    local -a keys=(%SETTABLE%)
    case $cur in
        group=*) _sesh_groups group= ;;
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

_sesh_commands() { mapfile -t COMPREPLY < <(compgen -c -- "$cur" | sort -u); }

# Complete what `start` shall run: it follows `--`, or is the first word after the name. Fails where it has not begun.
_sesh_command_line() {
    local word skip="" named="" begun=""
    for word in "${words[@]:2}"; do
        if [[ $skip ]]; then
            skip=""
        elif [[ $begun || ($named && $word != -*) ]]; then
            compopt -o default
            return
        elif [[ $word == -- ]]; then
            begun=yes
        else
            [[ $word == -* && $word != -n && $word != --name ]] || named=yes
            ! _sesh_valued "$word" || skip=yes
        fi
    done
    [[ $begun || ($named && ! $skip && $cur != -*) ]] && _sesh_commands
}

_sesh() {
    # bash also splits words at = and :, so the line is split again.
    local line=${COMP_LINE:0:COMP_POINT} cur="" command word
    local -a words
    COMPREPLY=()
    read -ra words <<<"$line"
    if [[ $line != *[[:space:]] ]]; then
        cur=${words[-1]}
        unset 'words[-1]'
    fi
    command=${words[1]:-}
    case $command in
%ALIASES%
    esac
    if [[ $command == start ]] && _sesh_command_line; then
        return
    fi
    local whole=$cur
    if [[ -z $command && $cur != -* ]]; then
        _sesh_words %VERBS%
        [[ -z $cur ]] || _sesh_words %ALIAS_WORDS%
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
