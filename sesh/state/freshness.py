"""Is a digest line still true? /proc and the files of launches show that, without tmux. And are the
settings without errors?

Used by fast lanes: imports next to nothing, on purpose.
"""

from __future__ import annotations

import posix

from sesh import __version__
from sesh.model import digest
from sesh.system import paths
from sesh.system.quick_read import exists, first, frozen, machine_id, read

_STATE_FIELD, _PARENT_FIELD, _LEADER_FIELD, _TTY_FIELD, _START_FIELD = 0, 1, 3, 4, 19


class Survey:
    """One look at the files of all launches."""

    def __init__(self) -> None:
        machine = machine_id()
        boot = read("/proc/sys/kernel/random/boot_id").strip().decode()
        pidns = posix.readlink("/proc/self/ns/pid")
        self.machine = f"{machine}/{boot}/{pidns}"
        self.run = paths.run_dir(machine, pidns)
        names = _listed(self.run)
        self.exits = {name[:-5] for name in names if name.endswith(".exit")}
        self.unclaimed = {name[:-4] for name in names if name.endswith(".pid")}
        self.untold = {name.rpartition(".")[0] for name in _listed(f"{self.run}/untold")}
        self.explained: list[tuple[str, str, str]] = []  # living agents with their keepers

    def holds(self, found: digest.Digest) -> bool:
        """Is the session as recorded? Removes its launch from `unclaimed`."""
        launch = f"{found.id}.{found.generation}"
        self.unclaimed.discard(launch)
        mode = found.mode
        if mode in ("ended", "word"):
            return launch not in self.untold  # else the event of its end is missing
        if found.machine != self.machine:
            return False
        if mode == "pid":
            if launch in self.exits:
                return False
        elif mode != "up" and not self._box_holds(found, launch):
            return False
        try:
            line = first(f"/proc/{found.pid}/stat")
        except OSError:
            return False
        field = line[line.rindex(b")") + 2 :].decode("ascii").split(" ", 20)
        if (
            field[_STATE_FIELD] in "ZXxTt"
            or field[_START_FIELD] != found.start
            or (field[_TTY_FIELD] != found.tty and mode != "up")
        ):
            return False
        self.explained.append((found.pid, field[_PARENT_FIELD], field[_LEADER_FIELD]))
        return True

    def _box_holds(self, found: digest.Digest, launch: str) -> bool:
        mode, _, freezer = found.mode.partition(":")
        ended = exists(f"{self.run}/{found.id}.box/{launch}.exit")
        return mode == "box" and not ended and not (freezer and frozen(freezer))


def _listed(directory: str) -> list[str]:
    try:
        return posix.listdir(directory)
    except FileNotFoundError:
        return []


def settings_valid() -> bool:
    """Was config.toml, as it is now, read without an error? True also where there is none."""
    try:
        path = paths.config_file()
    except Exception:  # without a home there is none; StateError is not imported here
        return True
    try:
        found = posix.stat(path)
    except (FileNotFoundError, NotADirectoryError):
        return True
    try:
        return read(paths.settings_file()) == settings_mark(found)
    except OSError:
        return False


def settings_mark(of: posix.stat_result) -> bytes:
    """Tells the content of a file from all others that this version of sesh may have read."""
    found = (of.st_dev, of.st_ino, of.st_size, of.st_mtime_ns, of.st_ctime_ns)
    return f"{__version__} {' '.join(map(str, found))}\n".encode()


def breaker_open(path: str, now: float) -> bool:
    """Is a breaker known that is still open at `now`?"""
    try:
        return int(read(path)) > now
    except (OSError, ValueError):
        return False


def digest_of(name: str, directory: int) -> digest.Digest | None:
    """The digest of a record file, if it is intact and has the name of the file."""
    found = digest.parse(read(f"{name}.toml", directory))
    if found is None or not digest.is_of(found.view, name):
        return None
    return found


def names(directory: str) -> list[str]:
    """The names of all records, also of damaged ones."""
    return sorted(n[:-5] for n in posix.listdir(directory) if n.endswith(".toml") and n[0] != ".")
