# sesh in the prompt of zsh; printed by `sesh init zsh`, explained in sesh-init(1).
#
# A prompt reads one small file, with builtins only: when it was written, and what needs attention. Once it is 5 seconds old,
# sesh is started in the background to update it for the next prompts. Every other sesh command updates it too.

__sesh_file=%FILE%
__sesh_command=(%COMMAND%)
__sesh_known='' # the file that was read last, by when it was written
__sesh_due=0    # when to ask for an update
SESH_PROMPT=''

# Without these modules it works too, only slower: `read` takes a file byte by byte.
__sesh_read=(sysread)
zmodload -F zsh/system b:sysread 2>/dev/null || __sesh_read=(read -r)
zmodload -F zsh/datetime p:EPOCHSECONDS 2>/dev/null || :

# The prompt names an element of psvar: that works with and without prompt_subst, and expands nothing in it.
__sesh_flag='⚑' __sesh_front='%(77V.%F{yellow}%77v%f .)'
case ${LC_ALL:-${LC_CTYPE:-${LANG:-}}} in *[Uu][Tt][Ff]*) ;; *) __sesh_flag='!' ;; esac
[[ -z ${NO_COLOR-} && ${TERM-} != dumb ]] || __sesh_front='%(77V.%77v .)'

# __sesh_look WRITTEN NOW: asks for a new file if this one is too old; again in a minute if none comes.
__sesh_look() {
    __sesh_known=$1 __sesh_due=$(( $1 + 5 ))
    if (( $2 >= __sesh_due || $2 < $1 )); then
        __sesh_due=$(( $2 + 60 ))
        ($__sesh_command doctor --prompt --refresh </dev/null &) >/dev/null 2>&1
    fi
}

__sesh_prompt() {
    local percent=no
    [[ ! -o prompt_percent ]] || percent=yes
    emulate -L zsh
    local text='' written line now=${EPOCHSECONDS:-${(%):-%D{%s}}}
    [[ ! -r $__sesh_file ]] || $__sesh_read text <$__sesh_file || :
    # The file is data: zsh would run $(…) inside a number.
    written=${text%% *} line=${${text#* }%$'\n'}
    [[ $written == <-> && ${#written} -le 12 ]] || written=0 line=''
    [[ $line != *[^a-z0-9\ ·]* ]] || line=''
    if [[ $written != $__sesh_known ]] || (( now >= __sesh_due || now < __sesh_due - 60 )); then
        __sesh_look $written $now
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
