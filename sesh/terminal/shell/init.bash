# sesh in the prompt of bash; printed by `sesh init bash`, explained in sesh-init(1).
#
# A prompt reads one small file, with builtins only: when it was written, and what needs attention. Once it is 5 seconds old,
# sesh is started in the background to update it for the next prompts. Every other sesh command updates it too.

__sesh_file=%FILE%
__sesh_command=(%COMMAND%)
__sesh_known='' # the file that was read last, by when it was written
__sesh_due=0    # when to ask for an update
SESH_PROMPT=''

__sesh_flag='⚑' __sesh_front='\[\e[33m\]${SESH_PROMPT:+$SESH_PROMPT }\[\e[0m\]'
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in *[Uu][Tt][Ff]*) ;; *) __sesh_flag='!' ;; esac
[[ -z ${NO_COLOR-} && ${TERM-} != dumb ]] || __sesh_front='${SESH_PROMPT:+$SESH_PROMPT }'

# __sesh_look WRITTEN NOW: asks for a new file if this one is too old; again in a minute if none comes.
__sesh_look() {
    __sesh_known=$1 __sesh_due=$((10#$1 + 5))
    if (($2 >= __sesh_due || $2 < 10#$1)); then
        __sesh_due=$(($2 + 60))
        ("${__sesh_command[@]}" doctor --prompt --refresh </dev/null &) >/dev/null 2>&1
    fi
}

__sesh_prompt() {
    local code=$? written='' line='' now=${EPOCHSECONDS-}
    [[ ! -r $__sesh_file ]] || IFS=' ' builtin read -r written line <"$__sesh_file" || :
    # The file is data: bash would run $(…) inside a number.
    [[ $written && ${#written} -le 12 && $written != *[!0-9]* ]] || written=0 line=''
    [[ $line != *[!a-z0-9\ ·]* ]] || line=''
    [[ $now ]] || builtin printf -v now '%(%s)T' -1 # before bash 5
    if [[ $written != "$__sesh_known" ]] || ((now >= __sesh_due || now < __sesh_due - 60)); then
        __sesh_look "$written" "$now"
    fi
    [[ $__sesh_flag != '!' ]] || line=${line// · /, }
    SESH_PROMPT=${line:+$__sesh_flag $line}
    # In front of the prompt, unless that has it somewhere, or was told to expand nothing.
    if [[ ${PS1-} != *SESH_PROMPT* ]] && shopt -q promptvars; then
        PS1=$__sesh_front${PS1-}
    fi
    [[ $- != *e* ]] || code=0 # under set -e a function that fails would end the shell
    return "$code"
}

if ((BASH_VERSINFO[0] * 100 + BASH_VERSINFO[1] < 402)); then
    echo 'sesh: the prompt needs bash 4.2 or newer' >&2
elif [[ ${PROMPT_COMMAND[*]-} != *__sesh_prompt* ]]; then
    if [[ $(declare -p PROMPT_COMMAND 2>/dev/null) == 'declare -a'* ]]; then
        PROMPT_COMMAND+=(__sesh_prompt)
    else
        PROMPT_COMMAND=${PROMPT_COMMAND:+$PROMPT_COMMAND$'\n'}__sesh_prompt
    fi
fi
