#!/bin/sh
# root.sh DIRECTORY PACKAGE...: a Debian root with these packages, made by mmdebstrap from the sources that this
# machine's apt is configured with, unless it is there already. Nothing is installed on the machine itself. Needs root.
set -eu
umask 022
target=$1
shift
made=$(echo "$*" | cat - "$0" | cksum)

# Debian's own sources; all of them where no list was ever fetched, or they have another name.
sources() { apt-get indextargets --format 'deb $(REPO_URI) $(RELEASE) $(COMPONENT)' 'Created-By: Packages' "$@" | sort -u; }
lines=$(sources 'Origin: Debian')
[ -n "$lines" ] || lines=$(sources --no-release-info)

mkdir -p "$(dirname "$target")"
exec 9>"$target.lock"
flock 9
[ "$(cat "$target.made" 2>/dev/null)" != "$made" ] || exit 0
rm -rf --one-file-system "$target" "$target.new" "$target.made"
# In a mount namespace: what a killed mmdebstrap has mounted goes with it.
echo "$lines" |
    unshare --mount --propagation private mmdebstrap --quiet --mode=root --variant=essential \
        --include="$(echo "$*" | tr ' ' ,)" \
        --dpkgopt='path-exclude=/usr/share/doc/*' \
        --dpkgopt='path-exclude=/usr/share/man/*' \
        --dpkgopt='path-exclude=/usr/share/locale/*' \
        --customize-hook='chroot "$1" python3 -m venv --without-pip /opt/sesh' \
        '' "$target.new" -
mv "$target.new" "$target"
echo "$made" >"$target.made"
