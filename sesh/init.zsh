# sesh in the prompt of zsh; printed by `sesh init zsh`, explained in sesh-init(1).
#
# A prompt reads one small file, with builtins only: when it was written, and what needs you. Once that is 5 seconds old,
# sesh is started in the background to write it anew, for the prompts that follow. Every other sesh command does so too.

__sesh_file=%FILE%
__sesh_command=(%COMMAND%)
__sesh_old=''  # the file that was too old, by when it was written
__sesh_asked=0 # when a new one was asked for
SESH_PROMPT=''

# The prompt names an element of psvar: that works with and without prompt_subst, and expands nothing in it.
__sesh_flag='⚑' __sesh_front='%(77V.%F{yellow}%77v%f .)'
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in *[Uu][Tt][Ff]*) ;; *) __sesh_flag='!' ;; esac
[[ -z ${NO_COLOR-} && ${TERM-} != dumb ]] || __sesh_front='%(77V.%77v .)'

# Asks for a new file unless this shell is waiting for one already; after a minute it asks again.
__sesh_refresh() {
    if [[ $1 != "$__sesh_old" ]] || (( $2 < __sesh_asked || $2 >= __sesh_asked + 60 )); then
        __sesh_old=$1 __sesh_asked=$2
        ("${__sesh_command[@]}" doctor --prompt --refresh </dev/null &) >/dev/null 2>&1
    fi
}

__sesh_prompt() {
    local percent=no
    [[ ! -o prompt_percent ]] || percent=yes
    emulate -L zsh
    local written='' line='' now=${(%):-%D{%s}}
    if [[ -r $__sesh_file ]]; then
        { IFS=' ' builtin read -r written line <$__sesh_file } 2>/dev/null || :
    fi
    # The file is data: zsh would run what stands in $(…) inside a number.
    [[ $written == <-> && ${#written} -le 12 ]] || written=0
    [[ $line != *[^a-z0-9\ ·]* ]] || line=''
    if (( now < written || now >= written + 5 )); then
        __sesh_refresh $written $now
    fi
    [[ $__sesh_flag != '!' ]] || line=${line// · /, }
    SESH_PROMPT=${line:+$__sesh_flag $line}
    psvar[77]=$SESH_PROMPT
    # In front of the prompt, unless that or the right one has it somewhere.
    if [[ $percent == yes && ${PROMPT-}${RPROMPT-} != *(SESH_PROMPT|77v)* ]]; then
        PROMPT=$__sesh_front${PROMPT-}
    fi
}

typeset -ga precmd_functions
precmd_functions=(${precmd_functions[@]:#__sesh_prompt} __sesh_prompt)
