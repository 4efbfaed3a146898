# sesh in the prompt of fish; printed by `sesh init fish`, explained in sesh-init(1).
#
# A prompt reads one small file, with builtins only: when it was written, and what needs you. Once that is 5 seconds old,
# sesh is started in the background to write it anew, for the prompts that follow. Every other sesh command does so too.

set -g __sesh_file %FILE%
set -g __sesh_command %COMMAND%
set -g __sesh_old '' # the file that was too old, by when it was written
set -g __sesh_asked 0 # when a new one was asked for
set -g SESH_PROMPT ''

set -g __sesh_flag '⚑'
string match -qir utf "$LC_ALL" "$LC_CTYPE" "$LANG"; or set -g __sesh_flag '!'
set -g __sesh_front (set_color yellow) (set_color normal)
test -z "$NO_COLOR" -a "$TERM" != dumb; or set -g __sesh_front '' ''

# fish has no clock of its own, but knows a file's time and its age (since 3.6).
if path mtime -R / >/dev/null 2>&1
    function __sesh_now
        math (path mtime /) + (path mtime -R /)
    end
else
    function __sesh_now
        command date +%s
    end
end

# Asks for a new file unless this shell is waiting for one already; after a minute it asks again.
function __sesh_refresh -a written now
    if test "$written" != "$__sesh_old" -o $now -lt $__sesh_asked -o $now -ge (math $__sesh_asked + 60)
        set -g __sesh_old $written
        set -g __sesh_asked $now
        # By sh, whose child is no job of this shell: no word of its end, and $last_pid stays.
        command sh -c '"$@" doctor --prompt --refresh &' sh $__sesh_command </dev/null >/dev/null 2>&1
    end
end

function __sesh_prompt --on-event fish_prompt
    set -l written ''
    set -l line ''
    test -r $__sesh_file; and read -d ' ' written line <$__sesh_file
    # The file is data.
    string match -qr '^[0-9]{1,12}$' -- "$written"; or set written 0
    string match -qr '^[a-z0-9 ·]*$' -- "$line"; or set line ''
    set -l now (__sesh_now)
    if test $now -lt $written -o $now -ge (math $written + 5)
        __sesh_refresh $written $now
    end
    test $__sesh_flag = '!'; and set line (string replace -a ' · ' ', ' -- $line)
    set -g SESH_PROMPT ''
    test -n "$line"; and set -g SESH_PROMPT "$__sesh_flag $line"
end

# In front of the prompt, unless that has it somewhere. The prompt itself comes first, for it looks at $status.
if not functions fish_prompt | string match -q '*SESH_PROMPT*'
    functions -q __sesh_own_prompt; and functions -e __sesh_own_prompt
    functions -c fish_prompt __sesh_own_prompt
    function fish_prompt
        set -l own (__sesh_own_prompt)
        test -n "$SESH_PROMPT"; and echo -n $__sesh_front[1]$SESH_PROMPT$__sesh_front[2]' '
        string join \n -- $own
    end
end
