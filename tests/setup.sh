#!/bin/sh
# Prepares the checkout for the Makefile: what is missing of the system's packages, and the virtual environment .venv.
# Takes a moment when nothing is missing, and then needs neither network nor root.
#
#   tests/setup.sh run       tmux, and .venv with sesh in it
#   tests/setup.sh test      that, and what the tests use; SESH_TEST_REQUIRE=tmux,docker,zsh… must be there, and
#                            so must podman and a Debian root to boot (systemd), if it names them
#   tests/setup.sh agents    that, and npm, from which the tests of real agents get them
#   tests/setup.sh vm        that, and qemu with a disk for it to boot from
#   tests/setup.sh python    print a Python that is new enough and can make virtual environments
#
# Everything that the package manager is asked for is in one line on stderr before it is asked. Programs whose packages
# would start a service or make a user (cron, prometheus) are unpacked into .venv/tools instead, which needs no root. What
# a package enables in systemd (man-db, which fish needs, does that) is disabled again.
#
# PYTHON=… in the environment chooses the Python.
set -eu
cd "$(dirname "$0")/.."
tools=.venv/tools
PATH=$PATH:/usr/sbin:/sbin # dockerd is there, and a user's PATH often is not
for one in "$tools"/*/usr/bin "$tools"/*/bin; do PATH=$PATH:$PWD/$one; done
if [ -t 0 ]; then terminal=yes; else terminal=no; fi

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
required() { case ",${SESH_TEST_REQUIRE:-}," in *",$1,"*) true ;; *) false ;; esac }

log=$(mktemp) || die "no temporary files can be made in ${TMPDIR:-/tmp}"
trap 'rm -f "$log"' EXIT
trap 'exit 130' INT
trap 'exit 143' TERM

# quietly COMMAND…: what it prints is of interest only when it fails: see `reason`
quietly() { "$@" >"$log" 2>&1 </dev/null; }

# reason: why the last quiet command failed, in one line
reason() {
    offline='Temporary failure|[Nn]ame or service not known|Network is unreachable|Could not (resolve|connect)'
    offline="$offline|Connection (refused|timed out)|No route to host|NewConnectionError|ConnectTimeout"
    if grep -Eq "$offline" "$log"; then
        printf 'no network: %s' "$(grep -Eo "($offline)[^<>']{0,60}" "$log" | tail -n 1)"
    else
        grep -E '^(E:|ERROR|error)' "$log" | tail -n 1 | grep . || grep -v '^$' "$log" | tail -n 1
    fi
}

check_writable() { [ -w . ] || die "$PWD is read-only: copy the checkout to a directory that you can write to"; }

check_run_bits() {
    for file in .ci/run tests/*.sh tests/*/*.sh; do
        [ -x "$file" ] || die "$file can't be run: restore the run bits with: chmod +x .ci/run tests/*.sh tests/*/*.sh"
    done
}


# --- the system's packages ---

package_manager() {
    for manager in apt-get dnf pacman apk; do
        have "$manager" && echo "$manager" && return
    done
    return 1
}

# package COMMAND: the package that brings the command
package() {
    case $(package_manager || :):$1 in
        apt-get:busybox | apk:busybox) echo busybox-static ;;
        apt-get:docker) echo docker.io ;;
        apt-get:crontab) echo cron ;;
        *:crontab) echo cronie ;;
        apt-get:promtool) echo "prometheus promtool" ;; # of Debian 12, since 13
        *:promtool) echo prometheus ;;
        apt-get:qemu-system-x86_64) echo qemu-system-x86 ;;
        *:mke2fs) echo e2fsprogs ;;
        dnf:docker) echo moby-engine ;;
        *) echo "$1" ;;
    esac
}

# What is fetched fails soon without a network.
install_command() {
    case $1 in
        apt-get) echo "apt-get install -y --no-install-recommends" ;;
        dnf) echo "dnf install -y" ;;
        pacman) echo "pacman -S --noconfirm --needed" ;;
        apk) echo "apk add" ;;
    esac
}

refresh_command() {
    case $1 in
        apt-get) echo "apt-get update $impatient" ;;
        dnf) echo "dnf makecache" ;;
        pacman) echo "pacman -Sy" ;;
        apk) echo "apk update" ;;
    esac
}
impatient="-o Acquire::Retries=0 -o Acquire::http::Timeout=15 -o Acquire::https::Timeout=15"

# A password is asked for only at a terminal, and only for what we cannot do without (asking=yes).
as_root() {
    if [ "$(id -u)" = 0 ]; then
        "$@"
    elif [ "$asking$terminal" = yesyes ]; then
        sudo "$@"
    else
        sudo -n "$@"
    fi
}

# announce PACKAGES TO-UNPACK: everything that is going to be asked for, in one line
announce() {
    [ "$(id -u)" = 0 ] || have sudo || set -- "" "$2"
    [ -z "$1" ] || set -- "installing with $(package_manager):$1" "$2"
    [ -z "$2" ] || set -- "$1" "${1:+; }unpacking into $tools:$2"
    [ -z "$1$2" ] || say "$1$2"
}

# missing COMMAND…: the packages of those that are not there, and were not looked for in vain before
missing() {
    for command in "$@"; do
        have "$command" || [ -e ".venv/without-$command" ] || printf ' %s' "$(package "$command")"
    done
}

# install PACKAGE: true when it worked; else $hint says why not and what a person can do
install() {
    manager=$(package_manager) || { hint="no package manager that we know (apt-get, dnf, pacman, apk)"; return 1; }
    how=$(install_command "$manager")
    hint="install it with: $how $1"
    [ "$(id -u)" = 0 ] || have sudo || { hint="neither root nor sudo; $hint"; return 1; }
    before=$(enabled)
    failed=
    # The lists may be missing or old: then refresh them and try again.
    # shellcheck disable=SC2046,SC2086 # commands of several words
    quietly as_root env DEBIAN_FRONTEND=noninteractive $how "$1" ||
        { quietly as_root $(refresh_command "$manager") &&
            quietly as_root env DEBIAN_FRONTEND=noninteractive $how "$1"; } ||
        hint="$(reason); $hint" failed=yes
    disable_since "$before"
    [ -z "$failed" ]
}

# enabled: the links by which systemd starts units
enabled() { find /etc/systemd/system /etc/systemd/user -type l 2>/dev/null || :; }

# disable_since LINKS: every unit that was not enabled then
disable_since() {
    for link in $(enabled | grep -vxF -e "$1"); do
        case $link in
            */systemd/user/*) quietly as_root systemctl --global disable "${link##*/}" || : ;;
            *) quietly as_root systemctl disable --now "${link##*/}" || : ;; # fails where no systemd runs
        esac
        quietly as_root rm -f "$link" || say "$link can't be removed: $(reason)"
    done
}

# need COMMAND: install it or fail
need() {
    have "$1" && return
    asking=yes
    install "$(package "$1")" || die "$1 is missing: $hint"
    have "$1" || die "$1 is missing, though its package was installed"
}

# want COMMAND [HOW]: install it, or whatever HOW is, or go on; what failed once is not tried again with the same .venv
want() {
    have "$1" && return
    asking=no
    if [ ! -e ".venv/without-$1" ]; then
        mkdir -p "$tools"
        "${2:-install}" "$(package "$1")" "$1" && have "$1" && return
        echo "$hint" >".venv/without-$1"
    fi
    say "without $1, tests that need it are skipped ($(cat ".venv/without-$1"))"
}

# unpack PACKAGES COMMAND: the files of the first that brings the command into .venv/tools; nothing of it is run
unpack() {
    hint="only Debian's packages are unpacked here: install it as you like"
    have apt-get && have dpkg || return 1
    for package in $1; do
        into=$tools/$package
        quietly download "$package" && quietly dpkg -x "$into"_*.deb "$into" || { hint=$(reason); continue; }
        rm -f "$into"_*.deb
        PATH=$PATH:$PWD/$into/usr/bin:$PWD/$into/bin
        hint="no $2 in $package"
        if have "$2"; then return; fi
    done
    return 1
}

# download PACKAGE: with lists of our own where the system has none
download() (
    cd "$tools"
    ours="-o Dir::State::Lists=$PWD/lists -o Dir::Cache=$PWD/cache $impatient"
    # shellcheck disable=SC2086 # options of several words
    apt-get $impatient download "$1" || { [ -d lists ] && apt-get $ours download "$1"; } || {
        mkdir -p lists/partial cache/archives/partial
        apt-get $ours update && apt-get $ours download "$1"
    }
)

# The tests start an engine of their own, with images made of busybox; one that runs here is left alone.
need_docker() {
    have busybox || die "busybox is missing: the tests' images are made of it"
    have docker && have dockerd && return
    asking=yes
    install "$(package docker)" || die "docker is missing: $hint"
    have docker && have dockerd || die "docker is missing, though its package was installed"
}

podman="podman catatonit runc"
need_podman() {
    for command in $podman; do need "$command"; done
}

# The root that tests/systemd boots in namespaces: made of Debian's packages, of which none is installed here.
make_machine() { make_root systemd; }

# make_root NAME [PACKAGE...]: in .roots, with these packages beside those that every machine here has
make_root() {
    root=.roots/$1
    shift
    [ -e $root.made ] || say "making $root, a root of Debian's packages (mmdebstrap)"
    sh tests/systemd/root.sh $root systemd-sysv libpam-systemd dbus-user-session tmux python3 procps cron "$@"
}

need_systemd() {
    [ "$(id -u)" = 0 ] || die "systemd: only root can boot a machine in namespaces"
    need mmdebstrap
    make_machine || die "systemd: .roots/systemd can't be made"
}


# --- Python and .venv ---

new_enough() { "$1" -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; }
makes_venvs() { "$1" -c 'import ensurepip, venv' >/dev/null 2>&1; }
path_of() { "$1" -c 'import sys; print(sys.executable)'; }

# Each candidate is tried by running it: a version manager's shim may exist for a Python that does not.
candidates=${PYTHON:-python3.13 python3.12 python3.11 python3}
find_python() {
    for python in $candidates; do
        new_enough "$python" && makes_venvs "$python" && path_of "$python" && return
    done
    for python in $candidates; do
        new_enough "$python" || continue
        asking=yes
        hint="it lacks the modules venv and ensurepip"
        lacking=$(venv_package "$python")
        [ -z "$lacking" ] || { install "${lacking# }" && makes_venvs "$python" && path_of "$python" && return; }
        die "$python cannot make virtual environments: $hint"
    done
    die "no Python 3.11 or newer among: $candidates"
}

# venv_package [PYTHON…]: Debian keeps a part of the venv module in a package of its own; empty if nothing is missing
venv_package() {
    have apt-get || return 0
    for python in "$@"; do if new_enough "$python" && makes_venvs "$python"; then return; fi; done
    for python in "$@"; do
        new_enough "$python" || continue
        "$python" -c 'import sys; print(" python%d.%d-venv" % sys.version_info[:2])'
        return
    done
}

# What .venv was made from, and where: a copied or moved checkout needs one of its own.
fingerprint() { { pwd -P; cat pyproject.toml sesh/bin/sesh tests/setup.sh; } | cksum; }

is_ready() { [ "$(cat ".venv/ready-$1" 2>/dev/null)" = "$(fingerprint)" ] && .venv/bin/python -c '' 2>/dev/null; }

# mend_script FILE: no #! line can hold a path with a space, though pip writes one; let sh start the Python, by a line
# that is a string to Python.
mend_script() {
    {
        printf '%s\n' '#!/bin/sh' "'''exec' \"$PWD/.venv/bin/python\" \"\$0\" \"\$@\"" "' '''"
        tail -n +2 "$1"
    } >"$1.new"
    chmod +x "$1.new"
    mv "$1.new" "$1"
}

# pip COMMAND…: soon at its end without a network, and silent about everything else
pip() {
    pip_command=$1
    shift
    quietly .venv/bin/python -m pip --disable-pip-version-check --retries 1 --timeout 15 "$pip_command" "$@" ||
        die "pip $pip_command failed: $(reason)"
}

# make_venv EXTRAS: .venv with sesh itself as an editable install (compat: one plain path in it, not setuptools' import
# hook, which would slow every start)
make_venv() {
    check_writable
    python=$(find_python)
    say "making .venv with $python"
    "$python" -m venv --clear .venv
    pip install --config-settings editable_mode=compat --editable ".$1"
    case $PWD in *' '*) mend_script .venv/bin/sesh ;; esac
}

# What building and installing sesh takes, so that the tests of that need no network.
keep_wheels() {
    .venv/bin/python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["dependencies"], sep="\n")
' >.venv/requirements
    pip wheel --wheel-dir .venv/wheels -r .venv/requirements
}


installed="zsh fish git" # by the package manager
unpacked="mandoc busybox crontab promtool"

# on_demand: what is installed only where SESH_TEST_REQUIRE names it
on_demand() {
    if required docker; then echo docker; fi
    if required podman; then echo $podman; fi
    if required systemd; then echo mmdebstrap; fi
}

# shellcheck disable=SC2086 # lists of words
case ${1:-} in
    python)
        find_python
        ;;
    run)
        announce "$(missing tmux)$(is_ready run || venv_package $candidates)" ""
        need tmux
        if ! is_ready run; then
            make_venv ""
            fingerprint >.venv/ready-run
        fi
        ;;
    test)
        check_writable
        check_run_bits
        announce "$(missing tmux $installed $(on_demand))$(is_ready test || venv_package $candidates)" "$(missing $unpacked)"
        need tmux
        if ! is_ready test; then
            make_venv "[test]"
            keep_wheels
            fingerprint >.venv/ready-run
            fingerprint >.venv/ready-test
        fi
        for command in $installed; do
            if required "$command"; then need "$command"; else want "$command"; fi
        done
        for command in $unpacked; do
            want "$command" unpack
            have "$command" || ! required "$command" || die "$command is missing"
        done
        rm -rf "$tools/lists" "$tools/cache"
        if required docker; then need_docker; fi
        if required podman; then need_podman; fi
        if required systemd; then
            need_systemd
        elif [ "$(id -u)" = 0 ] && have mmdebstrap && ! make_machine; then
            say "without .roots/systemd, tests that need it are skipped"
        fi
        ;;
    agents)
        sh tests/setup.sh test
        announce "$(missing npm)" ""
        want npm
        ;;
    vm)
        [ "$(id -u)$(uname -m)" = 0x86_64 ] || die "vm: only root can make the machine's disk, and only on x86_64"
        sh tests/setup.sh test
        announce "$(missing mmdebstrap qemu-system-x86_64 mke2fs)" ""
        for command in mmdebstrap qemu-system-x86_64 mke2fs; do need "$command"; done
        make_root vm udev kmod initramfs-tools linux-image-cloud-amd64 || die "vm: .roots/vm can't be made"
        ;;
    *)
        die "usage: tests/setup.sh run|test|agents|vm|python"
        ;;
esac
