#!/bin/sh
# A session's life, as it looks in a terminal: started, killed, found, restarted, stopped, forgotten.
# Has directories of its own, so that it neither sees nor touches anybody's sessions; fails when a step ends otherwise
# than it should.
set -eu
cd "$(dirname "$0")/.."
PATH=$PWD/.venv/bin:$PATH

# Short, because a tmux socket's path is limited to 107 characters.
private=$(mktemp -d /tmp/sesh.XXXXXX)
mkdir -m 700 "$private/state" "$private/config" "$private/run"
export XDG_STATE_HOME="$private/state" XDG_CONFIG_HOME="$private/config" XDG_RUNTIME_DIR="$private/run"

image=sesh-demo-$$

clean_up() {
    sesh stop --all -y >/dev/null 2>&1 || :
    [ -z "${imported:-}" ] || docker rmi "$image" >/dev/null 2>&1 || :
    rm -rf "$private"
}
trap clean_up EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

fail() {
    echo "demo: $*" >&2
    exit 1
}

# say SENTENCE: what comes next
say() { printf '\n# %s\n' "$*"; }

# run COMMAND…: print it as one would type it, and run it
run() {
    printf '$'
    for word in "$@"; do
        case $word in
            *[\ \;]*) printf " '%s'" "$word" ;;
            *) printf ' %s' "$word" ;;
        esac
    done
    printf '\n'
    "$@" || fail "exit status $? of: $*"
}

# field NAME: of the session demo, as `sesh ls --json` has it; nothing when there is no such session
field() {
    sesh ls --json | python -c '
import json, sys
print(*(session[sys.argv[1]] for session in json.load(sys.stdin) if session["name"] == "demo"))
' "$1"
}

# expect FIELD VALUE: wait for it, at most 5 seconds
expect() {
    tries=50
    until [ "$(field "$1")" = "$2" ]; do
        tries=$((tries - 1))
        [ "$tries" -gt 0 ] || fail "expected $1 to be '$2', it is '$(field "$1")'"
        sleep 0.1
    done
}

# find_it: doctor must find what was killed, and say what to do; 10 is its exit status for that
find_it() {
    printf '$ sesh doctor\n'
    status=0
    sesh doctor || status=$?
    [ "$status" -eq 10 ] || fail "sesh doctor: exit status $status, expected 10"
    sesh doctor --only failed | grep -q 'fix: sesh restart demo' || fail "doctor does not name the remedy"
}

say "start a long-running command"
run sesh start demo -- sh -c 'echo working; exec sleep 1000'
expect state running
expect generation 1
run sesh ls

say "kill it behind sesh's back"
run kill -9 "$(field pid)"
expect state failed
expect cause signal
expect signal 9
run sesh ls
find_it
run sesh show demo

say "restart it: same name, next generation"
run sesh restart demo
expect state running
expect generation 2
run sesh ls

say "stop and remove it"
run sesh stop demo
expect state stopped
run sesh rm demo
expect name ""

say "the same in a container"
if ! timeout 5 docker version >/dev/null 2>&1; then
    echo "# (skipped: no container engine answers here; everything else works without one)"
    exit
fi
if [ -n "$(docker ps --all --quiet --filter 'name=^/sesh-demo$')" ]; then
    echo "# (skipped: a container named sesh-demo already exists)"
    exit
fi
tests/image.sh | docker import - "$image" >/dev/null
imported=yes
run sesh start demo --image "$image" --network none -- sh -c 'echo working; read line'
expect state running
run sesh ls

say "the agent exits; its container keeps running"
run sesh send demo bye
expect state stale
run docker ps --filter name=sesh-demo --format '{{.Names}}  {{.Status}}'
run sesh ls

say "restart it: same container, next generation"
run sesh restart demo
expect state running
expect generation 2
run sesh stop demo
expect state stopped
run sesh rm demo
expect name ""
[ -z "$(docker ps --all --quiet --filter name=sesh-demo)" ] || fail "the container was not removed"
