# What an agent in a container calls while it works, where sesh does not exist: keeps its last event
# for the host to read. Says nothing and never fails: the agent waits for it.
# usage: hook.sh BASE <EVENT    as Claude Code calls it
#        hook.sh BASE EVENT     as Codex does
#   BASE  stem of the launch's files: BASE.hook is written
umask 022
event=${2-$(cat 2>/dev/null)}
[ ${#event} -le 1048576 ] || exit 0
case $#$event in
*'"hook_event_name":"PermissionRequest"'*) ;; # a person has to answer, whoever asks
*'"agent_id":'* | *'"hook_event_name":"Notification"'*) exit 0 ;; # a subagent's; a late reminder
2*'"thread-id":"'*) # one that Codex does not keep is no conversation: it makes up a title in it
  id=${event#*'"thread-id":"'} id=${id%%'"'*}
  set -- "$1" "${CODEX_HOME:-$HOME/.codex}"/sessions/*/*/*/rollout-*-"$id".jsonl
  [ -e "$2" ] || exit 0
  ;;
esac
{ printf '%s\n' "$event" >"$1.hook.$$" && mv "$1.hook.$$" "$1.hook"; } 2>/dev/null
exit 0
