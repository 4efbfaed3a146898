"""Checks of files: private, readable, none left over, room for more."""

from __future__ import annotations

import os
import stat
import time
from contextlib import suppress

from sesh.doctor.context import FIX, Check, Context, Finding, Level, Step, few, number, shown
from sesh.model.record import Damaged
from sesh.model.text import formatting
from sesh.model.text.pattern import lazy
from sesh.model.text.shell_words import quote
from sesh.model.value_object import Value
from sesh.places.launch_files import mount_owner
from sesh.state import history, records
from sesh.system import paths, processes

TEMP_AGE = 3600.0  # seconds after which a temporary file counts as left over
LARGE = 2 << 30
SCARCE = 100 << 20
SCARCE_SHARE = 0.05
PLENTY = 10 << 30  # with this much free, a share of a large disk does not matter
_TEMP = lazy(r"\..+\.(\d+)\.tmp|.+\.\d+\.(?:launch|pid|exit\.tmp)\.(\d+)")


# --- permissions ---------------------------------------------------------------------------------


class Wrong(Value):
    """A file that has not the permissions it should have."""

    path: str
    mode: int
    right: int
    owner: int


def permissions(context: Context) -> list[Finding]:
    found = _wrong_permissions(context)
    foreign = [one for one in found if one.owner != os.getuid()]
    own = [one for one in found if one.owner == os.getuid()]
    findings = []
    if foreign:
        which = few([f"{shown(one.path)} (uid {one.owner})" for one in foreign])
        text = f"{number(foreign, 'file')} of sesh owned by another user: {which}"
        subjects = tuple(one.path for one in foreign)
        remedy = f"sudo chown -R {os.getuid()} {paths.state_dir()}"
        findings.append(Finding(Level.FAIL, text, remedy, subjects=subjects))
    if own:
        which = few([f"{shown(one.path)} ({one.mode:04o}, not {one.right:04o})" for one in own])
        verb = "has wrong permissions" if len(own) == 1 else "have wrong permissions"
        text = f"{number(own, 'file')} {verb}: {which}"
        subjects = tuple(one.path for one in own)
        findings.append(Finding(Level.FAIL, text, FIX, subjects=subjects))
    return findings


def make_private(context: Context) -> list[Step]:
    wrong = [one for one in _wrong_permissions(context) if one.owner == os.getuid()]

    def change() -> None:
        for one in wrong:
            with suppress(FileNotFoundError):
                os.chmod(one.path, one.right)

    return [Step(f"made {number(wrong, 'file')} private", change)] if wrong else []


def _wrong_permissions(context: Context) -> list[Wrong]:
    """Files that others may read or write, that we may not, or that belong to another user. Only
    directories and regular files: no other kind holds anything of ours."""
    found = []
    for path, status in context.files:
        directory = stat.S_ISDIR(status.st_mode)
        if not directory and not stat.S_ISREG(status.st_mode):
            continue
        if _for_a_container(path, status):
            continue
        mode, right = stat.S_IMODE(status.st_mode), 0o700 if directory else 0o600
        if mode & 0o077 or mode & right != right or status.st_uid != os.getuid():
            found.append(Wrong(path, mode, right, status.st_uid))
    return found


def _for_a_container(path: str, status: os.stat_result) -> bool:
    """Is it open on purpose, below a directory that no other user can enter: a file that containers
    of any user write, or a transcript?"""
    below, _, name = path.removeprefix(paths.state_dir() + "/").partition("/")
    if below == "run":
        return any(map(mount_owner, name.split("/")))
    session_id = name.removesuffix(".log")
    open_log = below == "transcripts" and stat.S_IMODE(status.st_mode) == 0o666
    return open_log and _shares_files(session_id)


def _shares_files(session_id: str) -> bool:
    """Is this a session that writes its transcript from a container, now or in the history? A
    damaged record may be."""
    found = (*map(records.entry, records.names_of(session_id)), history.entry(session_id))
    known = [entry.record for entry in found if entry is not None]
    return any(
        isinstance(one, Damaged)
        or (one.id == session_id and one.place.run != one.place.private_run)
        for one in known
    )


def settings(context: Context) -> list[Finding]:
    if context.trouble is None:
        return []
    path = paths.config_file()
    edit = f"${{EDITOR:-vi}} {path}"
    return [Finding(Level.FAIL, context.trouble, edit, "see sesh-config(5)", (path,))]


# --- left over -----------------------------------------------------------------------------------


def temp_files(context: Context) -> list[Finding]:
    found = _temp_files(context)
    if not found:
        return []
    which = few([shown(path) for path in found], 2)
    text = f"{number(found, 'temporary file')} left over: {which}"
    return [Finding(Level.WARN, text, FIX, subjects=tuple(found))]


def remove_temp_files(context: Context) -> list[Step]:
    found = _temp_files(context)

    def remove() -> None:
        for path in found:
            if os.path.lexists(path) and left_over(path, os.lstat(path)):
                os.unlink(path)

    return [Step(f"removed {number(found, 'temporary file')}", remove)] if found else []


def _temp_files(context: Context) -> list[str]:
    return [path for path, status in context.files if left_over(path, status)]


def left_over(path: str, status: os.stat_result) -> bool:
    """Is it a temporary file, older than any write takes, of a process that is gone?"""
    found = _TEMP.fullmatch(os.path.basename(path))
    if found is None or not stat.S_ISREG(status.st_mode):
        return False
    old = abs(time.time() - status.st_mtime) > TEMP_AGE
    return old and processes.look(int(found[1] or found[2])) is None


# --- room ----------------------------------------------------------------------------------------


def disk(context: Context) -> list[Finding]:
    place = paths.state_dir()
    while not os.path.exists(place):
        place = os.path.dirname(place)
    room = os.statvfs(place)
    if room.f_flag & os.ST_RDONLY:
        top = _mounted_at(place)
        text = f"cannot write: the file system of {shown(place)} is read-only"
        remedy = f"sudo mount -o remount,rw {quote(top)}"
        return [Finding(Level.FAIL, text, remedy, subjects=(place,))]
    free, total = room.f_bavail * room.f_frsize, room.f_blocks * room.f_frsize
    if free < 1 << 20 or (room.f_files and not room.f_favail):
        what = "space" if free < 1 << 20 else "inodes"
        text = f"no {what} left on the disk of {shown(place)}"
        return [Finding(Level.FAIL, text, "sesh gc", subjects=(place,))]
    if free < SCARCE or (free < SCARCE_SHARE * total and free < PLENTY):
        room_left = f"{formatting.size(free)} of {formatting.size(total)}"
        text = f"only {room_left} free on the disk of {shown(place)}"
        return [Finding(Level.WARN, text, "sesh gc", subjects=(place,))]
    return []


def _mounted_at(place: str) -> str:
    while not os.path.ismount(place):
        place = os.path.dirname(place)
    return place


def state_size(context: Context) -> list[Finding]:
    size = sum(status.st_blocks * 512 for _, status in context.files)
    size += sum(mount.size for mount in context.mounts.values())
    if size <= LARGE:
        return []
    place = paths.state_dir()
    text = f"the state directory {shown(place)} uses {formatting.size(size)}"
    return [Finding(Level.WARN, text, "sesh gc", subjects=(place,))]


CHECKS = (
    Check("config", "the settings can be read", settings),
    Check("permissions", "files of sesh are private and readable", permissions, make_private),
    Check("temp-files", "no temporary files are left over", temp_files, remove_temp_files),
    Check("disk", "the disk has free space", disk),
    Check("state-size", "the state directory is not too large", state_size),
)
