# sesh in the prompt of fish; printed by `sesh init fish`, explained in sesh-init(1).
#
# A prompt reads one small file, with builtins only: when it was written, and what needs attention. Once it is 5 seconds old,
# sesh is started in the background to update it for the next prompts. Every other sesh command updates it too.

set -g __sesh_file %FILE%
set -g __sesh_command %COMMAND%
set -g __sesh_known '' # what was read last
set -g __sesh_due 0 # when to ask for an update
set -g SESH_PROMPT ''

set -g __sesh_flag '⚑'
string match -qir utf -- "$LC_ALL" "$LC_CTYPE" "$LANG"; or set -g __sesh_flag '!'
set -g __sesh_front (set_color yellow) (set_color normal)
test -z "$NO_COLOR" -a "$TERM" != dumb; or set -g __sesh_front '' ''

# __sesh_look TEXT NOW: takes over the text of the file, and requests a new one if it is too old; again in a minute if none
# comes.
function __sesh_look -a text now
    set -g __sesh_known "$text"
    # The file is data: what is not such a line is not shown.
    set -g SESH_PROMPT (string replace -rf '^[0-9]{1,12} ([a-z0-9 ·]+)$' "$__sesh_flag \$1" -- "$text"; or echo '')
    test $__sesh_flag = '!'; and set SESH_PROMPT (string replace -a ' · ' ', ' -- "$SESH_PROMPT")
    set -l age (path mtime -R -- $__sesh_file)
    if test -n "$age"; and test $age -ge 0 -a $age -lt 5
        set -g __sesh_due (math $now + 5 - $age)
        return
    end
    set -g __sesh_due (math $now + 60)
    # By sh, whose child is not a job of this shell: its end is not reported, and $last_pid stays.
    command sh -c '"$@" doctor --prompt --refresh &' sh $__sesh_command </dev/null >/dev/null 2>&1
end

function __sesh_prompt --on-event fish_prompt
    test -r $__sesh_file; and read -l text <$__sesh_file
    # fish has no clock; this one costs a third of a command substitution.
    test -r /proc/uptime; and read -l -d ' ' now rest </proc/uptime; or set -l now (path mtime -R /)
    if test "$text" != "$__sesh_known" -o "$now" -ge "$__sesh_due"
        __sesh_look "$text" $now
    end
end

if not path mtime -R / >/dev/null 2>&1
    functions -e __sesh_prompt
    echo 'sesh: the prompt needs fish 3.6 or newer' >&2
else if not functions fish_prompt | string match -q '*SESH_PROMPT*'
    # In front of the prompt, unless that has it somewhere. What it sees in $status and $pipestatus is kept: `switch`
    # leaves them alone, and a command substitution begins with them.
    functions -q __sesh_own_prompt; and functions -e __sesh_own_prompt
    functions -c fish_prompt __sesh_own_prompt
    function fish_prompt
        switch "$SESH_PROMPT"
            case ''
                __sesh_own_prompt
            case '*'
                set -l own (__sesh_own_prompt)
                echo -n $__sesh_front[1]$SESH_PROMPT$__sesh_front[2]' '
                string join \n -- $own
        end
    end
end
