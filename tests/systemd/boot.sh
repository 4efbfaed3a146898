#!/bin/sh
# boot.sh DIRECTORY ROOT CGROUP: a machine of its own in namespaces, with systemd as its PID 1. Run it as PID 1 of new
# mount, pid, uts, ipc and network namespaces. What the machine changes is kept in DIRECTORY/changes for its next boot.
set -eu
directory=$1 root=$2 cgroup=$3

echo 1 >"$cgroup/cgroup.procs" # before the namespace, whose root it becomes
mount -t overlay overlay -o "lowerdir=$root,upperdir=$directory/changes,workdir=$directory/work" "$directory/root"
cd "$directory/root"
mount -t proc proc proc
mount -t sysfs -o ro sysfs sys
unshare --cgroup mount -t cgroup2 cgroup2 sys/fs/cgroup
mount --bind proc/sys proc/sys
mount -o remount,bind,ro proc/sys # systemd-sysctl would change the whole machine's settings
cat /proc/sys/kernel/random/uuid >"$directory/boot_id"
mount --bind "$directory/boot_id" proc/sys/kernel/random/boot_id
mount -t tmpfs -o mode=755 tmpfs run
mount -t tmpfs tmpfs tmp
mount -t tmpfs -o mode=755 tmpfs dev
for device in null zero full random urandom tty; do
    : >"dev/$device"
    mount --bind "/dev/$device" "dev/$device"
done
mkdir dev/pts dev/shm .old
mount -t devpts -o newinstance,ptmxmode=0666,mode=620,gid=5 devpts dev/pts
ln -s pts/ptmx dev/ptmx
ln -s /proc/self/fd dev/fd
mount -t tmpfs tmpfs dev/shm
hostname machine
pivot_root . .old
umount -l .old
rmdir .old
exec unshare --cgroup setpriv --bounding-set=-sys_module,-sys_time \
    env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin \
    /lib/systemd/systemd --log-target=console --show-status=0 --unit=multi-user.target
