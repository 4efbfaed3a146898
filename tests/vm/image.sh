#!/bin/sh
# image.sh ROOT CHANGES DISK: a disk for a virtual machine: the root with the changes laid over it, and a user `dev` who
# lingers. Run it in a mount namespace of its own.
set -eu
root=$1 changes=$2 disk=$3
work=$(dirname "$changes")
mkdir -p "$work/work" "$work/merged"
mount -t overlay overlay -o "lowerdir=$root,upperdir=$changes,workdir=$work/work" "$work/merged"
cd "$work/merged"
chroot . useradd --create-home --shell /bin/sh dev
mkdir -p var/lib/systemd/linger home/dev/.config/sesh
: >var/lib/systemd/linger/dev
echo '/dev/vda / ext4 defaults 0 1' >etc/fstab
# An emulated machine is slow, and here that is not what is asked.
printf '[start]\nlaunch_timeout = "5m"\n[tmux]\ntimeout = "60s"\n' >home/dev/.config/sesh/config.toml
chroot . chown -R dev:dev /home/dev
# A root shell on the second serial port, by which the test speaks to it; on the third one writers acknowledge.
cat >etc/systemd/system/driver.service <<X
[Unit]
After=multi-user.target
[Service]
ExecStart=/bin/sh -c 'chmod 666 /dev/ttyS2; exec </dev/ttyS1 >/dev/ttyS1 2>&1; stty raw -echo; echo ready; cat | sh'
[Install]
WantedBy=multi-user.target
X
chroot . systemctl --quiet enable driver.service
chroot . systemctl --quiet mask getty@tty1.service serial-getty@ttyS0.service systemd-timesyncd.service
rm -f "$disk"
truncate -s 2G "$disk"
mke2fs -q -t ext4 -d . "$disk"
