#!/bin/sh
# Writes a small image to standard output, for `docker import`: this machine's tmux, a shell, the few programs that go
# with them, and the libraries they need. No network and no other image is needed.
set -eu
programs="sh sleep mkdir rm mv cat env grep stat tty tail ls ps kill"
root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT

# add FILE: at the same path, with the directories above it
add() {
    [ ! -e "$root$1" ] || return 0
    mkdir -p "$root$(dirname "$1")"
    cp -L "$1" "$root$1"
}

mkdir -p "$root/bin" "$root/usr/bin" "$root/proc"
mkdir -m 1777 "$root/tmp"
for name in tmux $programs; do
    file=$(env which "$name" 2>/dev/null || :) # not `command -v`: it names the shell's own kill
    [ -n "$file" ] || continue
    cp -L "$file" "$root/bin/$name"
    for library in $(ldd "$file" 2>/dev/null | grep -o '/[^ ]*'); do add "$library"; done
done
for kind in t/tmux-256color s/screen-256color s/screen x/xterm-256color x/xterm; do
    for place in /usr/share/terminfo /lib/terminfo /etc/terminfo; do
        if [ -e "$place/$kind" ]; then
            mkdir -p "$root/usr/share/terminfo/${kind%/*}"
            cp -L "$place/$kind" "$root/usr/share/terminfo/$kind"
            break
        fi
    done
done
for locale in /usr/lib/locale/C.utf8 /usr/lib/locale/C.UTF-8; do
    if [ -d "$locale" ]; then mkdir -p "$root/usr/lib/locale" && cp -r "$locale" "$root/usr/lib/locale/"; fi
done
tar -C "$root" -cf - .
