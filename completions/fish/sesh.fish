# fish completion for sesh(1)

# Is the command that is being typed one of these? (Only the word behind `sesh` counts: a session may be called stop.)
function __sesh_in
    set -l words (commandline -opc)
    set -q words[2]; and contains -- $words[2] $argv
end

function __sesh_no_command
    test (count (commandline -opc)) -eq 1
end

function __sesh_sessions
    command sesh ls -q $argv 2>/dev/null
end

function __sesh_living
    __sesh_sessions --filter=state={running,paused,starting,stopping,recovering,stale,orphan}
end

function __sesh_groups
    command sesh ls --format '{group}' 2>/dev/null | string match -r '.+'
end

function __sesh_filters
    switch (commandline -ct | string replace -r '^(-f|--filter=)' '')
        case 'group=*'
            printf 'group=%s\n' (__sesh_groups)
        case 'name=*'
            printf 'name=%s\n' (__sesh_sessions)
        case '*'
            printf '%s\n' state={damaged,starting,running,paused,stopping,recovering,stale,failed}
            printf '%s\n' state={timeout,completed,stopped,lost,unknown,orphan}
            printf '%s\n' {group,tag,name,activity}= place=host attention={yes,no}
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
complete -c sesh -n __sesh_no_command -s V -l version -d 'Print the version'
complete -c sesh -s h -l help -d 'Print a short help'
complete -c sesh -n __sesh_no_command -a start -d 'Start a session'
complete -c sesh -n __sesh_no_command -a ls -d 'List sessions'
complete -c sesh -n __sesh_no_command -a show -d 'Show everything known of a session'
complete -c sesh -n __sesh_no_command -a status -d 'Say a session\'s state in one line and as the exit status'
complete -c sesh -n __sesh_no_command -a stop -d 'Stop sessions'
complete -c sesh -n __sesh_no_command -a restart -d 'Bring sessions back'
complete -c sesh -n __sesh_no_command -a rm -d 'Forget sessions'
complete -c sesh -n __sesh_no_command -a pass -d 'Look at every session once'

complete -c sesh -n '__sesh_in show status restart rm' -a '(__sesh_sessions)' -d Session
complete -c sesh -n '__sesh_in stop' -a '(__sesh_living)' -d Session
complete -c sesh -n __sesh_behind_dashes -a '(__sesh_command_line)'

complete -c sesh -n '__sesh_in start' -s C -l dir -x -a '(__fish_complete_directories)' -d 'Run in a directory'
complete -c sesh -n '__sesh_in start' -s e -l env -x -a '(set -nx)' -d 'Set a variable for the session'
complete -c sesh -n '__sesh_in start' -s g -l group -x -a '(__sesh_groups)' -d 'Put the session into a group'
complete -c sesh -n '__sesh_in start' -l tag -x -d 'Tag the session'
complete -c sesh -n '__sesh_in start ls show status' -l json -d 'Print JSON'

complete -c sesh -n '__sesh_in ls' -s f -l filter -x -a '(__sesh_filters)' -d 'Only sessions that match'
complete -c sesh -n '__sesh_in ls' -l sort -x -d 'Order by a field' \
    -a '{,-}{name,state,group,created,started,ended,last_output,memory_bytes,cpu_seconds}'
complete -c sesh -n '__sesh_in ls' -l format -x -d 'Print each session by a template'
complete -c sesh -n '__sesh_in ls' -s q -l quiet -d 'Print names only'
complete -c sesh -n '__sesh_in ls' -s w -l wide -d 'Show memory, CPU, pid, group, branch and directory'
complete -c sesh -n '__sesh_in ls' -s a -l all -d 'Show also what ended longer ago, and the history'
complete -c sesh -n '__sesh_in ls' -l exit-code -d 'Exit with 1 when nothing matches'
complete -c sesh -n '__sesh_in ls show' -l color -l colour -x -a 'auto always never' -d 'Colour the output'

complete -c sesh -n '__sesh_in stop' -s a -l all -d 'Stop every living session'
complete -c sesh -n '__sesh_in stop' -s g -l group -x -a '(__sesh_groups)' -d 'Stop the sessions of a group'
complete -c sesh -n '__sesh_in restart' -l stale -d 'Restart every stale session'
complete -c sesh -n '__sesh_in restart' -l failed -d 'Restart every failed session'
complete -c sesh -n '__sesh_in restart' -l lost -d 'Restart every lost session'
complete -c sesh -n '__sesh_in restart' -s a -l all -d 'Restart every session, living too'
complete -c sesh -n '__sesh_in restart' -s g -l group -x -a '(__sesh_groups)' -d 'Restart the sessions of a group'
complete -c sesh -n '__sesh_in stop restart rm' -l grace -x -d 'How long to wait between asking and killing'
complete -c sesh -n '__sesh_in stop restart' -s y -l yes -d 'Answer yes to the question'
complete -c sesh -n '__sesh_in rm' -s f -l force -d 'Stop a living one first; a missing one is fine'
