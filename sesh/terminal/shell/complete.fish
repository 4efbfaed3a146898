# fish completion for sesh(1); written by `sesh completion fish`.

# Is the command that is being typed one of these? (Only the word behind `sesh` counts: a session may be called stop.
# An alias counts as its command.)
function __sesh_in
    set -l words (commandline -opc)
    switch "$words[2]"
%ALIASES%
    end
    set -q words[2]; and contains -- $words[2] $argv
end

function __sesh_no_command
    test (count (commandline -opc)) -eq 1
end

# Is the command being typed, and a letter of it there? Aliases would crowd the bare list.
function __sesh_an_alias
    __sesh_no_command; and string length -q -- (commandline -ct)
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

function __sesh_finishing
    __sesh_living
    printf '%s\n' %OUTCOMES%
end

function __sesh_groups
    __sesh_find '%GROUPS%'
end

function __sesh_tags
    __sesh_find '%TAGS%'
end

function __sesh_conversations
    echo last
    command sesh conversations --json 2>/dev/null | sed -nE '%IDS%'
end

# One's own, those of the project around, and those that come with sesh
function __sesh_templates
    set -l dir $PWD
    while test -n "$dir" -a ! -e "$dir/.sesh" -a ! -e "$dir/.git"
        set dir (string replace -r '/[^/]*$' '' -- $dir)
    end
    set -l config $HOME/.config
    test -n "$XDG_CONFIG_HOME"; and set config $XDG_CONFIG_HOME
    set -l found $config/sesh/templates/*.toml $dir/.sesh/templates/*.toml
    printf '%s\n' %TEMPLATES% (string replace -rf '^.*/([A-Za-z0-9_-]+)\.toml$' '$1' -- $found) | sort -u
end

function __sesh_variables
    set -nx
end

function __sesh_directories
    __fish_complete_directories
end

function __sesh_settable
    switch (commandline -ct)
        case 'group=*'
            printf 'group=%s\n' (__sesh_groups)
        case '*'
            printf '%s=\n' %SETTABLE%
    end
end

function __sesh_filters
    switch (commandline -ct | string replace -r '^(-f|--filter=)' '')
        case 'group=*'
            printf 'group=%s\n' (__sesh_groups)
        case 'tag=*'
            printf 'tag=%s\n' (__sesh_tags)
        case 'template=*'
            printf 'template=%s\n' (__sesh_templates)
        case 'name=*'
            printf 'name=%s\n' (__sesh_sessions)
        case '*'
            printf 'state=%s\n' %STATES%
            printf '%s=\n' %OTHER_FILTERS%
            printf '%s\n' %FILTER_WORDS% health={ok,failing,hung}
            printf '%s\n' place={host,docker,none} activity={busy,waiting,idle} attention={yes,no}
            printf 'phase=%s\n' initializing investigating planning approval executing validating completed failed abandoned
    end
end

# Where begins what `start` shall run? It follows `--`, or is the first word after the name.
function __sesh_command_at
    __sesh_in start; or return 1
    set -l words (commandline -opc)
    set -l skip no
    set -l named no
    set -l at 2
    for word in $words[3..-1]
        set at (math $at + 1)
        if test $skip = yes
            set skip no
        else if test "$word" = --
            math $at + 1
            return 0
        else if string match -q -- '-*' $word
            contains -- $word -n --name; and set named yes
            contains -- $word %RUNNING%; and set skip yes
        else if test $named = yes
            echo $at
            return 0
        else
            set named yes
        end
    end
    test $skip = no -a $named = yes; and not string match -q -- '-*' (commandline -ct); and math $at + 1
end

# Is an option of one of these commands being typed, and none of what `start` shall run?
function __sesh_on
    __sesh_in $argv; and not __sesh_command_at >/dev/null
end

function __sesh_command_line
    set -l words (commandline -opc)
    set -l at (__sesh_command_at)
    complete -C (string join ' ' -- (string escape -- $words[$at..]) (commandline -ct))
end

complete -c sesh -f
complete -c sesh -n '__sesh_command_at >/dev/null' -a '(__sesh_command_line)'

%DESCRIBED%
%DESCRIBED_ALIASES%
%OPTIONS%

%ARGUMENTS%

%VERB_OPTIONS%
