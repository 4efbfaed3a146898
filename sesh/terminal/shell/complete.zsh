#compdef sesh
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
_sesh_finishing() {
    local expl
    _sesh_living
    _wanted outcomes expl outcome compadd -- %OUTCOMES%
}
_sesh_groups() { _sesh_find group '%GROUPS%' }
_sesh_tags() { _sesh_find tag '%TAGS%' }
_sesh_conversations() {
    local expl
    local -a found
    found=(last ${(f)"$(_call_program conversations sesh conversations --json 2>/dev/null | sed -nE '%IDS%')"})
    _wanted conversations expl conversation compadd -a found
}

# One's own, those of the project around, and those that come with sesh
_sesh_templates() {
    local expl dir=$PWD
    local -aU found
    while [[ -n $dir && ! -e $dir/.sesh && ! -e $dir/.git ]]; do
        dir=${dir%/*}
    done
    found=(
        %TEMPLATES%
        ${XDG_CONFIG_HOME:-$HOME/.config}/sesh/templates/*.toml(N:t:r)
        $dir/.sesh/templates/*.toml(N:t:r)
    )
    found=(${found:#*[^A-Za-z0-9_-]*})
    _wanted templates expl template compadd -a found
}

_sesh_filters() {
    local expl key=${PREFIX%%=*}
    if ! compset -P '*='; then
        _wanted keys expl key compadd -qS= -- %FILTERS%
        _wanted words expl word compadd -- \
            %FILTER_WORDS%
        return
    fi
    case $key in
        state)
            _wanted states expl state compadd -- \
                %STATES%
            ;;
        group) _sesh_groups ;;
        tag) _sesh_tags ;;
        name) _sesh_sessions ;;
        place) _wanted places expl place compadd -- host docker none ;;
        health) _wanted health expl health compadd -- ok failing hung ;;
        activity) _wanted activities expl activity compadd -- busy waiting idle ;;
        template) _sesh_templates ;;
        phase)
            _wanted phases expl phase compadd -- \
                initializing investigating planning approval executing validating completed failed abandoned
            ;;
        attention) _wanted answers expl answer compadd -- yes no ;;
    esac
}

_sesh_settable() {
    local expl key=${PREFIX%%=*}
    if ! compset -P '*='; then
        _wanted keys expl key compadd -qS= -- \
            %SETTABLE%
    elif [[ $key == group ]]; then
        _sesh_groups
    fi
}

_sesh() {
    local curcontext=$curcontext state at word skip named begun
    local -a line verbs valued
    local -A opt_args
    verbs=(
%DESCRIBED%
    )
    _arguments -C \
%OPTIONS%
        '1:command:->command' '*::argument:->argument' && return

    if [[ $state == command ]]; then
        [[ -z $PREFIX ]] || verbs+=(
%DESCRIBED_ALIASES%
        )
        _describe -t commands command verbs
        return
    fi

    case $words[1] in
%ALIASES%
    esac
    curcontext=${curcontext%:*:*}:sesh-$words[1]:
    # What `start` shall run follows `--`, or is the first word after the name.
    if [[ $words[1] == start ]]; then
        valued=(%RUNNING%)
        for ((at = 2; at < CURRENT; at++)); do
            word=$words[at]
            if [[ -n $skip ]]; then
                skip=
            elif [[ $word == -- ]]; then
                ((at++))
                begun=1
                break
            elif [[ $word == -* ]]; then
                [[ $word != (-n|--name) ]] || named=1
                ((!valued[(Ie)$word])) || skip=1
            elif [[ -n $named ]]; then
                begun=1
                break
            else
                named=1
            fi
        done
        if [[ -n $begun || (-n $named && -z $skip && $PREFIX != -*) ]]; then
            words=("${(@)words[at, -1]}")
            ((CURRENT -= at - 1))
            _normal
            return
        fi
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
