# fish completion for sesh(1); written by `sesh completion fish`.

# Is the command that is being typed one of these? (Only the word behind `sesh` counts: a session may be called stop.
# An alias counts as its command.)
function __sesh_in
    set -l words (commandline -opc)
    switch "$words[2]"
        case list ps
            set words[2] ls
        case new run
            set words[2] start
        case kill
            set words[2] stop
        case a open
            set words[2] attach
        case log tail
            set words[2] logs
        case inspect info
            set words[2] show
        case remove delete
            set words[2] rm
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
    __sesh_find 's/^\[?\{"name":"([A-Za-z0-9_-]+)".*/\1/p'
end

function __sesh_living
    __sesh_find 's/^\[?\{"name":"([A-Za-z0-9_-]+)",("id":"[^"]*",)?"state":"(starting|running|paused|stopping|recovering|stale|orphan)".*/\1/p'
end

function __sesh_finishing
    __sesh_living
    printf '%s\n' completed failed abandoned
end

function __sesh_groups
    __sesh_find 's/.*,"image":[^,]*,"group":"([^"\]+)".*/\1/p'
end

function __sesh_tags
    __sesh_find '/,"tags":\["/{s/.*,"tags":\[("[^]]*")\].*/\1/;s/","/\n/g;s/"//g;p}'
end

function __sesh_conversations
    echo last
    command sesh conversations --json 2>/dev/null | sed -nE 's/^\[?\{"id":"([A-Za-z0-9_-]+)".*/\1/p'
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
    printf '%s\n' aider claude codex gemini opencode shell (string replace -rf '^.*/([A-Za-z0-9_-]+)\.toml$' '$1' -- $found) | sort -u
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
            printf '%s=\n' group tags launch-timeout timeout idle-timeout retries retry-delay retry-max-delay retry-reset retry-on max-memory max-cpu-time check-interval health-cmd health-interval health-timeout health-retries health-start-period max-silence scope notify breaker-failures breaker-within breaker-cooldown
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
            printf 'state=%s\n' damaged starting running paused stopping recovering stale failed timeout completed stopped lost unknown orphan
            printf '%s=\n' group tag name template
            printf '%s\n' damaged starting running paused stopping recovering stale failed timeout completed stopped lost unknown orphan busy waiting idle ok failing hung health={ok,failing,hung}
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
            contains -- $word -n --name -C --dir -e --env -g --group --tag -t --template -p --prompt --conversation --branch --worktree --timeout --idle-timeout --launch-timeout --max-memory --max-cpu-time --check-interval --retries --retry-delay --retry-max-delay --retry-reset --retry-on --health-cmd --health-interval --health-timeout --health-retries --health-start-period --max-silence --notify --breaker-failures --breaker-within --breaker-cooldown -i --image --container --mount --user --network --cpus --env-file --docker-opt; and set skip yes
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

complete -c sesh -n __sesh_no_command -a start -d 'Start a session and print its name'
complete -c sesh -n __sesh_no_command -a fork -d 'Start a new session with a copy of the conversation of another one'
complete -c sesh -n __sesh_no_command -a restart -d 'Restart sessions in place'
complete -c sesh -n __sesh_no_command -a stop -d 'Stop sessions'
complete -c sesh -n __sesh_no_command -a pause -d 'Pause sessions'
complete -c sesh -n __sesh_no_command -a resume -d 'Resume paused sessions'
complete -c sesh -n __sesh_no_command -a rename -d 'Rename a session'
complete -c sesh -n __sesh_no_command -a set -d 'Change tags'
complete -c sesh -n __sesh_no_command -a ls -d 'List sessions with their current state'
complete -c sesh -n __sesh_no_command -a show -d 'Show all details of sessions'
complete -c sesh -n __sesh_no_command -a status -d 'Print the state of sessions'
complete -c sesh -n __sesh_no_command -a logs -d 'Show the output of sessions'
complete -c sesh -n __sesh_no_command -a transcript -d 'Show the conversation of an agent by its transcript'
complete -c sesh -n __sesh_no_command -a grep -d 'Search the conversations of agents'
complete -c sesh -n __sesh_no_command -a events -d 'Show the events of all sessions'
complete -c sesh -n __sesh_no_command -a stats -d 'Show session statistics'
complete -c sesh -n __sesh_no_command -a attach -d 'Attach to a session'
complete -c sesh -n __sesh_no_command -a detach -d 'Detach all clients from sessions'
complete -c sesh -n __sesh_no_command -a send -d 'Type TEXT into a session and press Enter'
complete -c sesh -n __sesh_no_command -a answer -d 'Answer an agent\'s question'
complete -c sesh -n __sesh_no_command -a ask -d 'Send PROMPT to an agent'
complete -c sesh -n __sesh_no_command -a wait -d 'Wait until sessions end'
complete -c sesh -n __sesh_no_command -a conversations -d 'List the conversations with agents that were begun in this directory'
complete -c sesh -n __sesh_no_command -a rm -d 'Remove sessions'
complete -c sesh -n __sesh_no_command -a gc -d 'Clean up'
complete -c sesh -n __sesh_no_command -a doctor -d 'Diagnose problems and suggest or apply fixes'
complete -c sesh -n __sesh_no_command -a adopt -d 'Reconnect an orphan'
complete -c sesh -n __sesh_no_command -a template -d 'Manage templates for start -t'
complete -c sesh -n __sesh_no_command -a config -d 'Show'
complete -c sesh -n __sesh_no_command -a timer -d 'Schedule gc with systemd or cron'
complete -c sesh -n __sesh_no_command -a watch -d 'Supervise all sessions in the foreground until interrupted'
complete -c sesh -n __sesh_no_command -a init -d 'Print shell prompt integration for bash'
complete -c sesh -n __sesh_no_command -a completion -d 'Print the completion script for bash'
complete -c sesh -n __sesh_no_command -a man -d 'Show the manual page of sesh or of a command'
complete -c sesh -n __sesh_no_command -a help -d 'Show help for sesh'
complete -c sesh -n __sesh_no_command -a update -d 'Report progress of a session'
complete -c sesh -n __sesh_no_command -a resumable -d 'Check whether a session can be resumed'
complete -c sesh -n __sesh_no_command -a finish -d 'Report that a session\'s work is finished'
complete -c sesh -n __sesh_an_alias -a list -d 'ls'
complete -c sesh -n __sesh_an_alias -a ps -d 'ls'
complete -c sesh -n __sesh_an_alias -a new -d 'start'
complete -c sesh -n __sesh_an_alias -a run -d 'start'
complete -c sesh -n __sesh_an_alias -a kill -d 'stop --force'
complete -c sesh -n __sesh_an_alias -a open -d 'attach'
complete -c sesh -n __sesh_an_alias -a log -d 'logs'
complete -c sesh -n __sesh_an_alias -a tail -d 'logs'
complete -c sesh -n __sesh_an_alias -a inspect -d 'show'
complete -c sesh -n __sesh_an_alias -a info -d 'show'
complete -c sesh -n __sesh_an_alias -a remove -d 'rm'
complete -c sesh -n __sesh_an_alias -a delete -d 'rm'
complete -c sesh -n __sesh_an_alias -a version -d '--version'
complete -c sesh -n __sesh_no_command -s v -s V -l version -d 'Show the version'
complete -c sesh -n __sesh_no_command -s h -l help -d 'Show help and exit'

complete -c sesh -n '__sesh_in fork; and __sesh_first --worktree -p --prompt -g --group --tag' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in restart' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in stop' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in pause' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in resume' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in rename; and __sesh_first' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in set; and __sesh_first' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in set; and not __sesh_first' -a '(__sesh_settable)'
complete -c sesh -n '__sesh_in ls' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in show' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in status' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in logs' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in transcript; and __sesh_first --role -n' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in events; and __sesh_first --since --kind -n --lines' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in attach; and __sesh_first' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in detach' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in send; and __sesh_first -g --group --tag --filter -k --key' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in answer; and __sesh_first --about' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in answer; and not __sesh_first --about' -a 'yes no always'
complete -c sesh -n '__sesh_in ask; and __sesh_first --timeout' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in wait' -a '(__sesh_living)'
complete -c sesh -n '__sesh_in rm' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in adopt; and __sesh_first --tmux' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in template; and __sesh_first -C --dir --from' -a 'ls show new check trust'
complete -c sesh -n '__sesh_in template; and not __sesh_first -C --dir --from' -a '(__sesh_templates)'
complete -c sesh -n '__sesh_in config; and __sesh_first' -a 'show edit check path test-notify'
complete -c sesh -n '__sesh_in timer; and __sesh_first --every --scheduler' -a 'install remove status'
complete -c sesh -n '__sesh_in init; and __sesh_first' -a 'bash zsh fish'
complete -c sesh -n '__sesh_in completion; and __sesh_first' -a 'bash zsh fish'
complete -c sesh -n '__sesh_in man; and __sesh_first' -a 'start fork restart stop pause resume rename set ls show status logs transcript grep events stats attach detach send answer ask wait conversations rm gc doctor adopt template config timer watch init completion man help update resumable finish hook pass'
complete -c sesh -n '__sesh_in help; and __sesh_first' -a 'start fork restart stop pause resume rename set ls show status logs transcript grep events stats attach detach send answer ask wait conversations rm gc doctor adopt template config timer watch init completion man help update resumable finish scripting'
complete -c sesh -n '__sesh_in update; and __sesh_first --phase --meta --error --summary --resume-ready --conversation' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in resumable; and __sesh_first' -a '(__sesh_sessions)'
complete -c sesh -n '__sesh_in finish' -a '(__sesh_finishing)'
complete -c sesh -n '__sesh_in hook; and __sesh_first' -a 'claude codex pre-delegate subagent-stop'

complete -c sesh -n '__sesh_on start' -s n -l name -x -d 'Session name, instead of the first word'
complete -c sesh -n '__sesh_on start' -s C -l dir -x -a '(__sesh_directories)' -d 'Run in DIR'
complete -c sesh -n '__sesh_on start' -s e -l env -x -a '(__sesh_variables)' -d 'Set a variable'
complete -c sesh -n '__sesh_on start' -s g -l group -x -a '(__sesh_groups)' -d 'Put the session in a group'
complete -c sesh -n '__sesh_on start' -l tag -x -a '(__sesh_tags)' -d 'Tag the session'
complete -c sesh -n '__sesh_on start' -s a -l attach -d 'Attach to the session'
complete -c sesh -n '__sesh_on start' -s d -l detach -d 'Do not attach'
complete -c sesh -n '__sesh_on start' -l record-only -d 'Create only a record'
complete -c sesh -n '__sesh_on start show update' -l json -d 'Print the session as JSON'
complete -c sesh -n '__sesh_on start fork restart stop pause resume rename set ls show status logs transcript grep events stats attach detach send answer ask wait conversations rm gc doctor adopt template config timer watch init completion man help update resumable finish hook pass' -s h -l help -d 'Show help and exit'
complete -c sesh -n '__sesh_on start' -s t -l template -x -a '(__sesh_templates)' -d 'Use a template'
complete -c sesh -n '__sesh_on start' -s p -l prompt -x -d 'First prompt for the agent'
complete -c sesh -n '__sesh_on start' -l conversation -x -a '(__sesh_conversations)' -d 'Continue a conversation that was begun elsewhere'
complete -c sesh -n '__sesh_on start' -l branch -x -d 'Require BRANCH in the directory'
complete -c sesh -n '__sesh_on start fork' -l worktree -x -d 'Run in a new git worktree, on BRANCH'
complete -c sesh -n '__sesh_on start' -l timeout -x -d 'End the session TIME after its start, retries included'
complete -c sesh -n '__sesh_on start' -l idle-timeout -x -d 'End the session after TIME without output'
complete -c sesh -n '__sesh_on start' -l launch-timeout -x -d 'Time to wait for the command to start'
complete -c sesh -n '__sesh_on start' -l max-memory -x -d 'End the session if it uses more memory'
complete -c sesh -n '__sesh_on start' -l max-cpu-time -x -d 'End the session if it uses more CPU time'
complete -c sesh -n '__sesh_on start' -l check-interval -x -d 'Time between measurements of memory and CPU time'
complete -c sesh -n '__sesh_on start' -l scope -d 'Run in a systemd scope of its own'
complete -c sesh -n '__sesh_on start' -l no-scope -d 'Do not use a systemd scope'
complete -c sesh -n '__sesh_on start' -l retries -x -d 'Retry a failed session up to N times'
complete -c sesh -n '__sesh_on start' -l retry-delay -x -d 'Delay before the first retry, doubled each time'
complete -c sesh -n '__sesh_on start' -l retry-max-delay -x -d 'Longest delay between retries'
complete -c sesh -n '__sesh_on start' -l retry-reset -x -d 'Reset the retry count after TIME without failure'
complete -c sesh -n '__sesh_on start' -l retry-on -x -a 'failure lost timeout always' -d 'Ends to retry'
complete -c sesh -n '__sesh_on start' -l health-cmd -x -d 'Shell command that fails if the session is unhealthy'
complete -c sesh -n '__sesh_on start' -l health-interval -x -d 'Time between health checks'
complete -c sesh -n '__sesh_on start' -l health-timeout -x -d 'Time limit of a health check'
complete -c sesh -n '__sesh_on start' -l health-retries -x -d 'Failed checks in a row that make it unhealthy'
complete -c sesh -n '__sesh_on start' -l health-start-period -x -d 'Ignore failures in the first TIME'
complete -c sesh -n '__sesh_on start' -l max-silence -x -d 'Report the session as hung after TIME without output or sesh update'
complete -c sesh -n '__sesh_on start' -l notify -x -a 'off started start-failed restarted restart-failed ended stopping stopped archived removed adopted changed renamed paused resumed phase finished recovering failing hung healthy waiting breaker-opened completed failed lost timeout' -d 'Notify about these events and ends instead of those in the settings, for example failed,hung'
complete -c sesh -n '__sesh_on start' -l breaker-failures -x -d 'Stop retrying after N failures in the group or template'
complete -c sesh -n '__sesh_on start' -l breaker-within -x -d 'Time window of these failures'
complete -c sesh -n '__sesh_on start' -l breaker-cooldown -x -d 'Time without retries after that'
complete -c sesh -n '__sesh_on start' -l pull -d 'Pull the image first'
complete -c sesh -n '__sesh_on start' -s i -l image -x -d 'Run in a new container of IMAGE'
complete -c sesh -n '__sesh_on start' -l container -x -d 'Run in an existing container, which is never removed'
complete -c sesh -n '__sesh_on start' -l no-mount -d 'Do not mount the directory into the container'
complete -c sesh -n '__sesh_on start' -l mount -x -d 'Mount another directory or volume'
complete -c sesh -n '__sesh_on start' -l user -x -d 'User in the container'
complete -c sesh -n '__sesh_on start' -l network -x -d 'Network of the container'
complete -c sesh -n '__sesh_on start' -l cpus -x -d 'CPUs of the container, for example 1.5'
complete -c sesh -n '__sesh_on start' -l env-file -x -d 'File of NAME=VALUE lines for the container'
complete -c sesh -n '__sesh_on start' -l docker-opt -x -d 'Extra option for docker run, as one word'
complete -c sesh -n '__sesh_on fork' -s p -l prompt -x -d 'The first prompt of the new session'
complete -c sesh -n '__sesh_on fork' -s g -l group -x -a '(__sesh_groups)' -d 'Put it into GROUP'
complete -c sesh -n '__sesh_on fork' -l tag -x -a '(__sesh_tags)' -d 'Give it another tag'
complete -c sesh -n '__sesh_on fork' -s a -l attach -d 'Attach to it'
complete -c sesh -n '__sesh_on fork' -l json -d 'Print the new session as JSON'
complete -c sesh -n '__sesh_on restart' -l stale -d 'Restart all stale sessions'
complete -c sesh -n '__sesh_on restart' -l failed -d 'Restart all failed sessions, including those ended by a limit'
complete -c sesh -n '__sesh_on restart' -l lost -d 'Restart all lost sessions, for example after a reboot'
complete -c sesh -n '__sesh_on restart' -s a -l all -d 'Restart all sessions, including living ones'
complete -c sesh -n '__sesh_on restart stop pause resume ls send wait rm' -s g -l group -x -a '(__sesh_groups)' -d 'Select the sessions of a group'
complete -c sesh -n '__sesh_on restart stop pause resume ls send wait rm' -l tag -x -a '(__sesh_tags)' -d 'Select by tag'
complete -c sesh -n '__sesh_on restart stop pause resume send wait rm' -l filter -x -a '(__sesh_filters)' -d 'Select as in sesh ls'
complete -c sesh -n '__sesh_on restart' -l fresh -d 'Start a new conversation with the agent'
complete -c sesh -n '__sesh_on restart stop rm' -l grace -x -d 'Time between asking'
complete -c sesh -n '__sesh_on restart stop rm' -l dry-run -d 'Show what would be done, but change nothing'
complete -c sesh -n '__sesh_on restart stop rm doctor template' -s y -l yes -d 'Do not ask for confirmation'
complete -c sesh -n '__sesh_on stop' -s a -l all -d 'Stop all living sessions'
complete -c sesh -n '__sesh_on stop' -l orphans -d 'End orphans, after listing them'
complete -c sesh -n '__sesh_on stop' -l idle -x -d 'Stop sessions without output for TIME'
complete -c sesh -n '__sesh_on stop' -l keep -d 'Keep containers that sesh created'
complete -c sesh -n '__sesh_on stop' -s f -l force -d 'Kill immediately'
complete -c sesh -n '__sesh_on pause' -l hold -d 'Keep the agent running'
complete -c sesh -n '__sesh_on pause' -l freeze -d 'Fail if a session can only be held'
complete -c sesh -n '__sesh_on ls' -l json -d 'Print an array of sessions as JSON'
complete -c sesh -n '__sesh_on ls' -s f -l filter -x -a '(__sesh_filters)' -d 'Only sessions that match'
complete -c sesh -n '__sesh_on ls' -l sort -x -a 'name -name state -state group -group created -created started -started ended -ended last_output -last_output memory_bytes -memory_bytes cpu_seconds -cpu_seconds tokens_in -tokens_in tokens_out -tokens_out cost_usd -cost_usd' -d 'Sort by a field'
complete -c sesh -n '__sesh_on ls' -l format -x -d 'Print each session in a format, for example \'{name} {state}\''
complete -c sesh -n '__sesh_on ls' -s q -l quiet -d 'Print names only'
complete -c sesh -n '__sesh_on ls' -s w -l wide -d 'Show memory, CPU, tokens, cost, pid, group, git work and directory'
complete -c sesh -n '__sesh_on ls' -s a -l all -d 'Also show older sessions, history and leftovers'
complete -c sesh -n '__sesh_on ls' -l exit-code -d 'Exit with 1 if no session matches'
complete -c sesh -n '__sesh_on ls show doctor' -l color -l colour -x -a 'auto always never' -d 'Colour the output'
complete -c sesh -n '__sesh_on status' -l json -d 'Print the session, or an array of several as JSON'
complete -c sesh -n '__sesh_on logs' -s g -l group -x -a '(__sesh_groups)' -d 'Show the sessions of a group'
complete -c sesh -n '__sesh_on logs' -s n -l lines -l tail -x -d 'Only the last N lines'
complete -c sesh -n '__sesh_on logs' -s f -l follow -d 'Follow the output until the session ends'
complete -c sesh -n '__sesh_on logs' -l since -x -d 'Only output since TIME'
complete -c sesh -n '__sesh_on logs' -l grep -x -d 'Only matching lines'
complete -c sesh -n '__sesh_on logs' -l timestamps -d 'Print the time of each line, if known'
complete -c sesh -n '__sesh_on logs' -l raw -d 'Print the raw bytes, including escape sequences'
complete -c sesh -n '__sesh_on transcript' -l role -x -a 'user assistant tool' -d 'Only prompts'
complete -c sesh -n '__sesh_on transcript' -l last -d 'Only the text of the last one'
complete -c sesh -n '__sesh_on transcript' -s n -x -d 'Only the last N turns'
complete -c sesh -n '__sesh_on transcript' -l json -d 'Print an array of turns as JSON'
complete -c sesh -n '__sesh_on grep' -s i -l ignore-case -d 'Ignore the case of letters'
complete -c sesh -n '__sesh_on grep' -s a -l all -d 'Search the history too'
complete -c sesh -n '__sesh_on events' -s f -l follow -d 'Follow new events'
complete -c sesh -n '__sesh_on events' -l since -x -d 'Only events since TIME'
complete -c sesh -n '__sesh_on events' -l kind -x -a 'started start-failed restarted restart-failed ended stopping stopped archived removed adopted changed renamed paused resumed phase finished recovering failing hung healthy waiting breaker-opened notified notify-failed' -d 'Only events of this kind'
complete -c sesh -n '__sesh_on events' -s n -l lines -x -d 'Only the last N of these events'
complete -c sesh -n '__sesh_on events' -l json -d 'Print events, one object per line, as JSON'
complete -c sesh -n '__sesh_on stats' -l json -d 'Print the statistics as JSON'
complete -c sesh -n '__sesh_on stats' -l prometheus -d 'Print Prometheus metrics'
complete -c sesh -n '__sesh_on stats' -l since -x -d 'Count only what started, ended or happened since TIME'
complete -c sesh -n '__sesh_on stats' -l output -x -d 'Write to FILE atomically'
complete -c sesh -n '__sesh_on attach' -s r -l read-only -d 'Watch only'
complete -c sesh -n '__sesh_on attach' -s d -l detach-others -d 'Detach all other clients'
complete -c sesh -n '__sesh_on send' -s k -l key -x -d 'Press a key after the text'
complete -c sesh -n '__sesh_on send' -l no-enter -d 'Do not press Enter after the text'
complete -c sesh -n '__sesh_on send' -l force -d 'Type even if the agent is waiting for an answer'
complete -c sesh -n '__sesh_on answer' -l about -x -d 'Only if the question contains WORDS'
complete -c sesh -n '__sesh_on ask' -l timeout -x -d 'Give up waiting after that long'
complete -c sesh -n '__sesh_on wait' -l for -x -a 'ended alive busy waiting idle starting running paused stopping recovering stale failed timeout completed stopped lost unknown orphan' -d 'A state, ended'
complete -c sesh -n '__sesh_on wait' -l output -x -d 'Wait for an output line that matches'
complete -c sesh -n '__sesh_on wait' -l any -d 'Return when one session reaches it'
complete -c sesh -n '__sesh_on wait' -l all -d 'Return when all sessions reach it'
complete -c sesh -n '__sesh_on wait' -l timeout -x -d 'Give up after TIME'
complete -c sesh -n '__sesh_on wait' -l exit-code -d 'Exit with the agent\'s exit status'
complete -c sesh -n '__sesh_on conversations' -s C -l dir -x -a '(__sesh_directories)' -d 'Conversations started in DIR'
complete -c sesh -n '__sesh_on conversations' -s t -l template -x -a '(__sesh_templates)' -d 'Only those of this template\'s agent'
complete -c sesh -n '__sesh_on conversations' -s a -l all -d 'Those of all directories'
complete -c sesh -n '__sesh_on conversations' -l json -d 'Print an array of conversations as JSON'
complete -c sesh -n '__sesh_on rm' -l ended -d 'Remove all ended sessions'
complete -c sesh -n '__sesh_on rm' -s f -l force -d 'Stop living sessions first, remove damaged records, ignore missing sessions'
complete -c sesh -n '__sesh_on rm' -l discard -d 'Remove the worktree even with unsaved work'
complete -c sesh -n '__sesh_on gc' -s n -l dry-run -d 'Show what would be done, but change nothing'
complete -c sesh -n '__sesh_on gc' -l older-than -x -d 'Archive sessions that completed more than TIME ago'
complete -c sesh -n '__sesh_on gc' -l kill-orphans -d 'End processes that outlived their session, if two passes agree'
complete -c sesh -n '__sesh_on gc' -l auto -d 'For timers'
complete -c sesh -n '__sesh_on gc' -l json -d 'Print the steps as JSON'
complete -c sesh -n '__sesh_on doctor' -l fix -d 'Apply safe fixes, then check again'
complete -c sesh -n '__sesh_on doctor' -l only -x -a 'tmux tmux-server tmux-socket stale failed lost unwell overdue branch breaker stuck-starting stuck-stopping orphan-agent orphan-tmux orphan-process record-disagrees record-damaged digest log-pipe engine orphan-container container-left container-gone zombies mount-size image config permissions temp-files disk state-size other-sesh timer linger notices' -d 'Run only this check'
complete -c sesh -n '__sesh_on doctor' -l list-checks -d 'List the checks and exit'
complete -c sesh -n '__sesh_on doctor' -l fail-on -x -a 'warn fail' -d 'The lowest level that exits with 10'
complete -c sesh -n '__sesh_on doctor' -l prompt -d 'Print one short line if something needs attention, otherwise nothing'
complete -c sesh -n '__sesh_on doctor' -l exit-code -d 'With --prompt'
complete -c sesh -n '__sesh_on doctor' -l json -d 'Print an array of findings as JSON'
complete -c sesh -n '__sesh_on adopt' -s a -l all -d 'Adopt all orphans'
complete -c sesh -n '__sesh_on adopt' -l tmux -x -d 'Take over a session of your own tmux that sesh did not start'
complete -c sesh -n '__sesh_on adopt' -l json -d 'Print the adopted sessions as JSON'
complete -c sesh -n '__sesh_on template' -s C -l dir -x -a '(__sesh_directories)' -d 'Use the project in DIR'
complete -c sesh -n '__sesh_on template' -l from -x -a '(__sesh_templates)' -d 'Copy another template'
complete -c sesh -n '__sesh_on template' -l remove -d 'Revoke the trust'
complete -c sesh -n '__sesh_on template' -l json -d 'Print the output of ls or show as JSON'
complete -c sesh -n '__sesh_on config' -l origin -d 'Show where each value comes from'
complete -c sesh -n '__sesh_on config' -l json -d 'Print the settings as JSON'
complete -c sesh -n '__sesh_on timer' -l every -x -d 'Time between runs'
complete -c sesh -n '__sesh_on timer' -l scheduler -x -a 'systemd cron' -d 'Scheduler to use'
complete -c sesh -n '__sesh_on timer' -l watch -d 'Run sesh watch as a service instead'
complete -c sesh -n '__sesh_on timer' -l json -d 'Print the status as JSON'
complete -c sesh -n '__sesh_on watch' -l interval -x -d 'Time between passes'
complete -c sesh -n '__sesh_on watch' -s q -l quiet -d 'Do not print events'
complete -c sesh -n '__sesh_on update' -l phase -x -a 'initializing investigating planning approval executing validating completed failed abandoned' -d 'Current phase of the work'
complete -c sesh -n '__sesh_on update' -l meta -x -d 'Store metadata'
complete -c sesh -n '__sesh_on update' -l error -x -d 'Report an error'
complete -c sesh -n '__sesh_on update' -l summary -x -d 'Short summary of the work'
complete -c sesh -n '__sesh_on update' -l resume-ready -x -a 'yes no' -d 'Whether the work can be resumed'
complete -c sesh -n '__sesh_on update' -l conversation -x -a '(__sesh_conversations)' -d 'ID of the agent\'s conversation'
complete -c sesh -n '__sesh_on update' -l force -d 'Store values that look like secrets'
complete -c sesh -n '__sesh_on resumable' -l json -d 'Print the answer as JSON'
complete -c sesh -n '__sesh_on finish' -l summary -x -d 'Short summary of the result'
complete -c sesh -n '__sesh_on finish' -l json -d 'Print the session and its duration as JSON'
complete -c sesh -n '__sesh_on hook' -l test -d 'Try it on a sample and print the result'
