"""The units of gc and of a watch, in systemd's user manager."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from contextlib import suppress

from sesh.model.errors import SeshError, StateError
from sesh.model.value_object import Value
from sesh.supervision.timer import schedules
from sesh.supervision.timer.schedules import Scheduler, Timer
from sesh.system import files, paths, processes, subprocesses

_ASK, _DO = 5.0, 20.0  # seconds that systemd may take to answer, and to change something
_LIMIT = 64 << 10  # of a unit file that we read back


def _systemctl(*arguments: str, timeout: float = _ASK) -> subprocesses.Answer:
    """Call the user manager, also without the variables that a login sets (su, cron)."""
    env = {**os.environ, "LC_ALL": "C"}
    runtime = f"/run/user/{os.getuid()}"
    if not env.get("XDG_RUNTIME_DIR") and os.path.isdir(runtime):
        env["XDG_RUNTIME_DIR"] = runtime
    return subprocesses.call(("systemctl", "--user", *arguments), timeout=timeout, env=env)


def problem() -> str | None:
    """Why systemd's user manager can't be used; None when it answers."""
    answer = _systemctl("show", "--property=Version")
    return None if answer.ok and answer.out.startswith("Version=") else answer.message


class Units(Value):
    """The units of gc or of a watch, by their names."""

    service: str
    main: str  # the unit that is enabled: the timer, or the service itself

    @property
    def files(self) -> list[str]:
        """The files of the units, with the link that `enable` makes."""
        target = "timers" if self.main.endswith(".timer") else "default"
        names = dict.fromkeys((self.service, self.main, f"{target}.target.wants/{self.main}"))
        return [f"{paths.user_units()}/{name}" for name in names]

    @property
    def found(self) -> list[str]:
        return [path for path in self.files if os.path.lexists(path)]


def _units(stem: str) -> Units:
    suffix = "timer" if stem.startswith("sesh-gc") else "service"
    return Units(f"{stem}.service", f"{stem}.{suffix}")


def named(kind: str) -> Units:
    """The units that `install` writes."""
    return _units(f"sesh-{kind}-{paths.key()}")


def older(kind: str) -> Units | None:
    """The units that an older version wrote for this state directory."""
    units = _units(f"sesh-{kind}")
    if not units.found:
        return None
    try:
        text = _unit_text(units.service)
    except StateError:  # a link, maybe: it was masked
        text = None
    ours = schedules.unit_state(text or "", paths.account_home() or "") == paths.state_dir()
    return units if ours else None


def installed(kind: str) -> Units:
    """The installed units, preferably those of this version."""
    own = named(kind)
    return own if own.found else older(kind) or own


def _unit_text(name: str) -> str | None:
    try:
        return files.read_regular(f"{paths.user_units()}/{name}", _LIMIT).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read {paths.user_units()}/{name}: {error.strerror}") from None


def install(texts: Mapping[str, str], units: Units) -> None:
    """Write, load and start the units; they are removed if they cannot be started."""
    directory = paths.user_units()
    with files.writing(directory):
        files.make_parents(directory)
    for name, text in texts.items():
        path = f"{directory}/{name}"
        with files.temp_file(path, os.fsencode(text)) as temp:
            os.chmod(temp, 0o644)
            os.replace(temp, path)
    for step in (("daemon-reload",), ("enable", units.main), ("restart", units.main)):
        answer = _systemctl(*step, timeout=_DO)
        if not answer.ok:
            remove(units)
            raise SeshError(
                f"systemctl --user {' '.join(step)}: {answer.message}; nothing is installed now"
            )


def remove_all(kind: str) -> list[str]:
    return [*remove(named(kind)), *remove(older(kind))]


def remove(units: Units | None) -> list[str]:
    """Stop and delete, whether or not systemd answers."""
    if units is None:
        return []
    present = [*units.found, f"{paths.timer_stamps()}/stamp-{units.main}"]
    if not any(os.path.lexists(path) for path in present):
        return []
    answer = _systemctl("disable", "--now", units.main, timeout=_DO)
    for path in present:
        with files.writing(path), suppress(FileNotFoundError):
            os.unlink(path)
    directory = paths.user_units()
    wants = [f"{directory}/{target}.target.wants" for target in ("timers", "default")]
    for empty in (*wants, directory, os.path.dirname(directory)):
        with suppress(OSError):  # not empty, or not there
            os.rmdir(empty)
    if answer.code is not None:  # it is not hung
        answer = _systemctl("daemon-reload", timeout=_DO)
    if answer.ok:
        _systemctl("reset-failed", units.service)  # fails where nothing failed
        return []
    return [
        "the units are deleted, but systemd did not hear of it "
        f"({answer.message}): what it had loaded may still run until the next login"
    ]


def state() -> Timer:
    units = installed("gc")
    if not units.found:
        return Timer()
    if units.found != units.files:
        return Timer(
            problem=f"a part of the units in {paths.user_units()} is missing or not enabled; "
            "next: sesh timer install"
        )
    schedule = _timer_schedule(units)
    trouble, certain = activity_problem(units.main, "the timer; next: sesh timer install")
    return Timer(
        scheduler=Scheduler.SYSTEMD,
        every=schedules.every_of(schedule) if schedule else None,
        schedule=schedule,
        last_run=files.changed(paths.gc_stamp(processes.run_dir())),
        next_run=_next_run(units) if certain else None,
        lingering=lingering(),
        problem=trouble,
        certain=certain,
    )


def _timer_schedule(units: Units) -> str | None:
    text = _unit_text(units.main) or ""
    found = re.search(r"^(?:OnCalendar|OnUnitActiveSec)=(.*)$", text, re.M)
    return found[1].strip() if found else None


def activity_problem(unit: str, what: str) -> tuple[str | None, bool]:
    """The problem of a unit that systemd has loaded, and whether systemd answered."""
    answer = _systemctl("show", "--property=ActiveState", unit)
    if not answer.ok:
        return f"systemd's user manager does not answer: {answer.message}", False
    if answer.out.strip() == "ActiveState=active":
        return None, True
    return f"systemd has not started {what}", True


def _next_run(units: Units) -> float | None:
    import json

    answer = _systemctl("list-timers", "--output=json", units.main)
    try:
        (entry,) = json.loads(answer.out)
        return float(entry["next"]) / 1e6 or None
    except (ValueError, TypeError, KeyError):
        return None  # an older systemd, which prints a table


def lingering(timeout: float = _ASK) -> bool | None:
    """Does the user manager live while the user is not logged in? None: cannot tell."""
    argv = ("loginctl", "show-user", str(os.getuid()), "--property=Linger")
    answer = subprocesses.call(argv, timeout=timeout)
    return {"Linger=yes": True, "Linger=no": False}.get(answer.out.strip()) if answer.ok else None
