#!/bin/sh
# Prepares the checkout for the Makefile: what is missing of the system's packages, and the virtual environment .venv.
# Takes a moment when nothing is missing, and then needs neither network nor root.
#
#   tests/setup.sh run       tmux, and .venv with sesh in it
#   tests/setup.sh test      that, and what the tests use; SESH_TEST_REQUIRE=tmux,docker,zsh… must be there, and
#                            so must podman and a Debian root to boot (systemd), if it names them
#   tests/setup.sh agents    that, and npm, from which the tests of real agents get them
#   tests/setup.sh python    print a Python that is new enough and can make virtual environments
#
# PYTHON=… in the environment chooses the Python.
set -eu
cd "$(dirname "$0")/.."
PATH=$PATH:/usr/sbin:/sbin # dockerd is there, and a user's PATH often is not
if [ -t 0 ]; then terminal=yes; else terminal=no; fi

say() { printf 'setup: %s\n' "$*" >&2; }
die() { say "$*"; exit 1; }
have() { command -v "$1" >/dev/null 2>&1; }
required() { case ",${SESH_TEST_REQUIRE:-}," in *",$1,"*) true ;; *) false ;; esac }


# --- the system's packages ---

package_manager() {
    for manager in apt-get dnf pacman apk; do
        have "$manager" && echo "$manager" && return
    done
    return 1
}

# package MANAGER COMMAND: the package that brings the command
package() {
    case $1:$2 in
        apt-get:busybox | apk:busybox) echo busybox-static ;;
        apt-get:docker) echo docker.io ;;
        apt-get:crontab) echo cron ;;
        *:crontab) echo cronie ;;
        *:promtool) echo prometheus ;;
        dnf:docker) echo moby-engine ;;
        *) echo "$2" ;;
    esac
}

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
        apt-get) echo "apt-get update" ;;
        dnf) echo "dnf makecache" ;;
        pacman) echo "pacman -Sy" ;;
        apk) echo "apk update" ;;
    esac
}

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

# install PACKAGE: true when it worked; else $hint says why not and what a person can do
install() {
    manager=$(package_manager) || { hint="no package manager that we know (apt-get, dnf, pacman, apk)"; return 1; }
    how=$(install_command "$manager")
    hint="install it with: $how $1"
    [ "$(id -u)" = 0 ] || have sudo || { hint="neither root nor sudo; $hint"; return 1; }
    say "installing $1"
    log=$(mktemp)
    # The lists may be missing or old: then refresh them and try again.
    # shellcheck disable=SC2046,SC2086 # commands of several words
    if as_root env DEBIAN_FRONTEND=noninteractive $how "$1" >"$log" 2>&1 </dev/null ||
        { as_root $(refresh_command "$manager") >"$log" 2>&1 </dev/null &&
            as_root env DEBIAN_FRONTEND=noninteractive $how "$1" >"$log" 2>&1 </dev/null; }
    then
        rm -f "$log"
        return 0
    fi
    hint="$(grep -v '^$' "$log" | tail -n 1); $hint"
    rm -f "$log"
    return 1
}

# need COMMAND: install it or fail
need() {
    have "$1" && return
    asking=yes
    install "$(package "$(package_manager || :)" "$1")" || die "$1 is missing: $hint"
    have "$1" || die "$1 is missing, though its package was installed"
}

# want COMMAND: install it or go on; what failed once is not tried again with the same .venv
want() {
    have "$1" && return
    asking=no
    if [ ! -e ".venv/without-$1" ]; then
        install "$(package "$(package_manager || :)" "$1")" && have "$1" && return
        echo "$hint" >".venv/without-$1"
    fi
    say "without $1, tests that need it are skipped ($(cat ".venv/without-$1"))"
}

# The tests start an engine of their own, with images made of busybox; one that runs here is left alone.
need_docker() {
    need busybox
    have docker && have dockerd && return
    asking=yes
    install "$(package "$(package_manager || :)" docker)" || die "docker is missing: $hint"
    have docker && have dockerd || die "docker is missing, though its package was installed"
}

need_podman() {
    for command in podman catatonit runc; do need "$command"; done
}

# The root that tests/systemd boots in namespaces: made of Debian's packages, of which none is installed here.
make_machine() {
    tests/systemd/root.sh .roots/systemd systemd-sysv libpam-systemd dbus-user-session tmux python3 procps cron
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
find_python() {
    candidates=${PYTHON:-python3.13 python3.12 python3.11 python3}
    for python in $candidates; do
        new_enough "$python" && makes_venvs "$python" && path_of "$python" && return
    done
    # Debian keeps a part of the venv module in a package of its own.
    for python in $candidates; do
        new_enough "$python" || continue
        asking=yes
        version=$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')
        hint="it lacks the modules venv and ensurepip"
        if have apt-get; then
            install "python$version-venv" && makes_venvs "$python" && path_of "$python" && return
        fi
        die "$python cannot make virtual environments: $hint"
    done
    die "no Python 3.11 or newer among: $candidates"
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

# make_venv EXTRAS: .venv with sesh itself as an editable install (compat: one plain path in it, not setuptools' import
# hook, which would slow every start)
make_venv() {
    python=$(find_python)
    say "making .venv with $python"
    "$python" -m venv --clear .venv
    .venv/bin/python -m pip install --quiet --disable-pip-version-check \
        --config-settings editable_mode=compat --editable ".$1"
    case $PWD in *' '*) mend_script .venv/bin/sesh ;; esac
}

# What building and installing sesh takes, so that the tests of that need no network.
keep_wheels() {
    .venv/bin/python -c '
import tomllib
project = tomllib.load(open("pyproject.toml", "rb"))
print(*project["build-system"]["requires"], *project["project"]["dependencies"], sep="\n")
' >.venv/requirements
    .venv/bin/python -m pip wheel --quiet --disable-pip-version-check --wheel-dir .venv/wheels -r .venv/requirements
}


case ${1:-} in
    python)
        find_python
        ;;
    run)
        need tmux
        if ! is_ready run; then
            make_venv ""
            fingerprint >.venv/ready-run
        fi
        ;;
    test)
        need tmux
        if ! is_ready test; then
            make_venv "[test]"
            keep_wheels
            fingerprint >.venv/ready-run
            fingerprint >.venv/ready-test
        fi
        for command in bash zsh fish mandoc busybox crontab promtool; do
            if required "$command"; then need "$command"; else want "$command"; fi
        done
        if required docker; then need_docker; fi
        if required podman; then need_podman; fi
        if required systemd; then
            need_systemd
        elif [ "$(id -u)" = 0 ] && have mmdebstrap && ! make_machine; then
            say "without .roots/systemd, tests that need it are skipped"
        fi
        ;;
    agents)
        tests/setup.sh test
        want npm
        ;;
    *)
        die "usage: tests/setup.sh run|test|agents|python"
        ;;
esac
