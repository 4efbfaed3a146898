#!/bin/sh
# fresh.sh [CASE…]: runs `make test` where sesh was never seen: a Debian root with hardly more than make and Python, in
# namespaces of its own, with a copy of this checkout. Prints what came of it, and removes the roots again; the whole
# output of a case that failed stays in .roots/CASE.out. Without cases all of them are run, one after the other, which
# takes long. PYTEST_ADDOPTS is passed on. Needs root, and mmdebstrap or debootstrap; what Python needs is fetched here,
# and packages come from $MIRROR.
set -eu
cd "$(dirname "$0")/.."
MIRROR=${MIRROR:-http://deb.debian.org/debian}

# case: suite, Python, user, what is installed already, whether it has a machine id
cases='
12-root   bookworm 3.11 root   -                                  no
12-user   bookworm 3.11 tester tmux,python3-venv                  no
12-sudo   bookworm 3.11 tester sudo,docker.io                     yes
12-docker bookworm 3.11 root   docker.io                          yes
13-root   trixie   3.13 root   -                                  yes
13-user   trixie   3.13 tester tmux,python3-venv,git              no
13-sudo   trixie   3.13 tester sudo                               yes
'

die() { echo "test-fresh: $*" >&2; exit 1; }
[ "$(id -u)" = 0 ] || die "only root can make and enter a Debian root"
command -v mmdebstrap >/dev/null || command -v debootstrap >/dev/null || die "install mmdebstrap or debootstrap"
all=$(echo "$cases" | awk '{ print $1 }')
for name in "$@"; do
    echo "$all" | grep -qx -- "$name" || die "no case $name among: $(echo $all)"
done

scratch=$(mktemp -d /tmp/sesh-fresh.XXXXXX)
trap 'rm -rf --one-file-system "$scratch"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM
table=$scratch/table

# base SUITE: an archive of its smallest root, kept for the next time
base() {
    [ ! -e ".roots/$1.tar" ] || return 0
    mkdir -p .roots
    echo "test-fresh: making .roots/$1.tar" >&2
    if command -v mmdebstrap >/dev/null; then
        mmdebstrap --quiet --format=tar --variant=minbase --include=make,python3 "$1" ".roots/$1.new" "$MIRROR"
        mv ".roots/$1.new" ".roots/$1.tar"
    else
        debootstrap --variant=minbase --include=make,python3 "$1" "$scratch/$1" "$MIRROR" >"$scratch/log"
        tar -C "$scratch/$1" -cf ".roots/$1.new" .
        rm -rf "$scratch/$1"
        mv ".roots/$1.new" ".roots/$1.tar"
    fi
}

# wheels PYTHON: what pip shall find there
wheels() {
    [ ! -e "$scratch/wheels-$1" ] || return 0
    .venv/bin/python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
tests = project["project"]["optional-dependencies"]["test"]
print(*project["build-system"]["requires"], *project["project"]["dependencies"], *tests, sep="\n")
' >"$scratch/requirements"
    .venv/bin/python -m pip download --dest "$scratch/wheels-$1" --only-binary=:all: --python-version "$1" \
        -r "$scratch/requirements" >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; die "pip could not fetch wheels"; }
}

# enter ROOT COMMAND…: run it there as root, in namespaces that end with it
enter() {
    unshare --mount --pid --ipc --uts --fork --kill-child sh -euc '
        root=$1
        shift
        mount --make-rprivate /
        mount --bind "$root" "$root"
        mount -t proc proc "$root/proc"
        mount --rbind /sys "$root/sys"
        mount -t tmpfs -o mode=755 dev "$root/dev"
        for name in null zero full random urandom tty; do
            : >"$root/dev/$name"
            mount --bind "/dev/$name" "$root/dev/$name"
        done
        mkdir "$root/dev/pts" "$root/dev/shm" "$root/.old"
        mount -t devpts -o newinstance,ptmxmode=666,mode=620,gid=5 devpts "$root/dev/pts"
        mount -t tmpfs -o mode=1777 shm "$root/dev/shm"
        ln -s pts/ptmx "$root/dev/ptmx"
        ln -s /proc/self/fd "$root/dev/fd"
        for number in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${number%:*}" "$root/dev/${number#*:}"; done
        cd "$root"
        pivot_root . .old
        umount -l /.old
        rmdir /.old
        exec env -i PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin TERM=xterm \
            DEBIAN_FRONTEND=noninteractive PYTEST_ADDOPTS="$PYTEST_ADDOPTS" "$@"
    ' sh "$@"
}

# made ROOT: the users, groups and enabled services of a root
made() {
    cut -d: -f1 "$1/etc/passwd" "$1/etc/group"
    find "$1/etc/systemd/system" -path '*.wants/*' 2>/dev/null | sed "s|$1||"
}

# try NAME SUITE PYTHON USER PACKAGES MACHINE-ID
try() {
    root=$scratch/$1
    base "$2"
    wheels "$3"
    mkdir "$root"
    tar -C "$root" -xf ".roots/$2.tar"
    cp /etc/resolv.conf /etc/hosts "$root/etc/"
    cp -R "$scratch/wheels-$3" "$root/wheels"
    chmod -R a+rX "$root/wheels"
    rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
    [ "$6" = no ] || tr -d - </proc/sys/kernel/random/uuid >"$root/etc/machine-id"
    chroot "$root" useradd --create-home --shell /bin/bash tester
    [ "$5" = - ] || enter "$root" sh -euc 'apt-get update; exec apt-get install -y --no-install-recommends "$@"' \
        sh $(echo "$5" | tr , ' ') >"$scratch/log" 2>&1 || { cat "$scratch/log" >&2; die "$1: apt-get failed"; }
    [ ! -d "$root/etc/sudoers.d" ] || echo 'tester ALL=(ALL) NOPASSWD: ALL' >"$root/etc/sudoers.d/tester"
    home=/home/tester
    [ "$4" = tester ] || home=/root
    mkdir "$root$home/sesh"
    { git ls-files -z --cached --others --exclude-standard 2>/dev/null || find . -path './.[vr]*' -prune -o -type f -print0; } |
        tar --null -T - -cf - | tar -C "$root$home/sesh" -xf -
    chroot "$root" chown -R "$4:" "$home/sesh"
    made "$root" | sort >"$scratch/before"
    rm -rf "$root/tmp"
    mkdir -m 1777 "$root/tmp"
    path=/usr/local/bin:/usr/bin:/bin
    [ "$4" = tester ] || path=/usr/local/sbin:/usr/sbin:/sbin:$path
    echo "test-fresh: $1" >&2
    enter "$root" setpriv --reuid "$4" --regid "$4" --init-groups env HOME="$home" USER="$4" LOGNAME="$4" PATH="$path" \
        SHELL=/bin/bash PIP_NO_INDEX=1 PIP_FIND_LINKS=/wheels make -C "$home/sesh" test >"$scratch/out" 2>&1 && code=0 || code=$?
    grep -aE '^(FAILED|ERROR|setup:|make)' "$scratch/out" || tail -n 20 "$scratch/out"
    result=$(grep -aE '[0-9]+ (passed|failed).* in [0-9]' "$scratch/out" | tail -n 1 | tr -d = | sed 's/^ *//; s/ *$//')
    left=$(find "$root/tmp" -mindepth 1 -maxdepth 1 -printf '%f ')
    more=$(made "$root" | sort | comm -13 "$scratch/before" - | tr '\n' ' ' || :)
    printf '%-10s | %-4s | %s | left in /tmp: %s| made: %s\n' "$1" "$code" "${result:-no result}" "${left:-nothing }" "${more:-nothing}" >>"$table"
    rm -rf --one-file-system "$root"
    rm -f ".roots/$1.out"
    [ "$code" != 0 ] || [ -n "$left$more" ] || return 0
    mv "$scratch/out" ".roots/$1.out"
    echo "test-fresh: the whole output is in .roots/$1.out" >&2
    return 1
}

export PYTEST_ADDOPTS="${PYTEST_ADDOPTS:-}"
sh tests/setup.sh test
wrong=0
for name in ${*:-$all}; do
    # shellcheck disable=SC2046 # the fields of a line
    try $(echo "$cases" | grep "^$name ") || wrong=1
done
echo "case       | exit | result"
cat "$table"
exit "$wrong"
