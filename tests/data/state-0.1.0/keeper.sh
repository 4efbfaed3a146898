# The keeper: what a pane runs. Starts one agent and writes down how it ended.
# usage: keeper.sh BASE ID NAME TMUX [CALLBACK]
#   BASE      stem of the launch's files: BASE.launch is run, BASE.exit is written
#   TMUX      the tmux binary
#   CALLBACK  a script that makes sesh look; without one this is a container, where sesh does not
#             exist: the environment is the container's, and whoever is attached is sent home
#
# Two levels of one shell. The outer one (session leader of the pane) leaves every signal but HUP to
# the agent; the inner one survives HUP too. So a hangup ends the outer shell, the kernel hangs up
# the agent, and the inner shell still records the end. After a hangup there is no terminal on 0, or
# none that controls us; after every other end there is. Traps are `:`, never '' (that would be inherited); never `set -m`.
# BASE.exit.tmp was made beforehand, at its full size: a full disk can't lose the word.
# A variable of ours must not be one of a container's environment, which the agent gets: sesh_*.
sesh_base=$1 sesh_id=$2 sesh_name=$3 sesh_tmux=$4 sesh_callback=$5
trap : INT QUIT TERM
(
  trap : HUP INT QUIT TERM
  # What this shell says of a killed child is not the agent's output: its stderr is kept as 3, for
  # the launch file to take back. (Not `2>&3` below: dash would redirect itself meanwhile.)
  exec 3>&2 2>/dev/null
  env ${sesh_callback:+-i} PATH="$PATH" TERM="$TERM" TMUX="$TMUX" TMUX_PANE="$TMUX_PANE" TERM_PROGRAM=tmux \
    SESH_ID="$sesh_id" SESH_NAME="$sesh_name" SESH_RUN="${sesh_base%/*}" /bin/sh "$sesh_base.launch"
  sesh_status=$?
  { [ -t 0 ] && true </dev/tty; } 2>/dev/null && sesh_terminal=here || sesh_terminal=gone
  printf '%-3s %-26s\n' "$sesh_status" "$sesh_terminal" 1<>"$sesh_base.exit.tmp" && mv "$sesh_base.exit.tmp" "$sesh_base.exit"
  # The pane keeps the word too, should the files be lost: tmux does not always know it by itself.
  [ -n "$sesh_callback" ] || {
    "$sesh_tmux" -S "${TMUX%%,*}" set-option -p -t "$TMUX_PANE" @sesh_exit "${sesh_base##*.} $sesh_status" 2>/dev/null
    "$sesh_tmux" -S "${TMUX%%,*}" detach-client -s "=$sesh_name" 2>/dev/null
    exit "$sesh_status"
  }
  # A child of the pane can't respawn it: the server makes the call, or we do when there is none. A
  # socket of another user's, in the place of one that is gone, is not spoken to.
  [ -O "${TMUX%%,*}" ] && "$sesh_tmux" -S "${TMUX%%,*}" run-shell -b '#{@sesh_callback} >/dev/null 2>&1 || :' >/dev/null 2>&1 ||
    /bin/sh "$sesh_callback" >/dev/null 2>&1
  exit "$sesh_status"
)
exit
