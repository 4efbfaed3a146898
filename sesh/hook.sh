# What an agent in a container calls while it works, where sesh does not exist: keeps its last event
# for the host to read. Says nothing and never fails: the agent waits for it.
# usage: hook.sh BASE <EVENT
#   BASE  stem of the launch's files: BASE.hook is written
umask 022
event=$(cat 2>/dev/null)
[ ${#event} -le 1048576 ] || exit 0
case $event in
*'"hook_event_name":"PermissionRequest"'*) ;; # a person has to answer, whoever asks
*'"agent_id":'* | *'"hook_event_name":"Notification"'*) exit 0 ;; # a subagent's; a late reminder
esac
{ printf '%s\n' "$event" >"$1.hook.$$" && mv "$1.hook.$$" "$1.hook"; } 2>/dev/null
exit 0
