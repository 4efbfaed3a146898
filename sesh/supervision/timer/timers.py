"""gc, called regularly: by a timer of systemd's user manager, or by a block in the user's crontab.

The texts are made in `schedules`. Nothing is changed by guessing: a crontab that can't be read is
an error, and whatever in it is not ours stays as it is, byte for byte.

A user may have several state directories. The key of each is in the names of its units and in the
marks of its block, and nothing is done to those of another one. Older versions wrote no key: theirs
are ours if they run gc for our state directory.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from enum import StrEnum

from sesh.model.errors import CannotTellError, SeshError, StateError, UsageError
from sesh.model.text.units import time as written
from sesh.model.value_object import Value, replace
from sesh.supervision.timer import schedules
from sesh.supervision.timer.schedules import Job
from sesh.system import files, paths, processes, subprocesses

COMMAND = ("gc", "--auto")
WATCHING = ("watch", "--quiet")
_ASK, _DO = 5.0, 20.0  # seconds that a scheduler may take to answer, and to change something
_LIMIT = 64 << 10  # of a unit file that we read back
_USUAL_PATH = ("/usr/local/bin", "/usr/bin", "/bin")


class Scheduler(StrEnum):
    SYSTEMD = "systemd"
    CRON = "cron"


class Timer(Value):
    """The installed timer, and how it runs."""

    scheduler: Scheduler | None = None  # None: nothing is installed
    every: float | None = None  # seconds; None where `schedule` was edited by hand
    schedule: str | None = None  # in the scheduler's own words
    last_run: float | None = None
    next_run: float | None = None
    lingering: bool | None = None  # systemd only
    problem: str | None = None
    certain: bool = True  # False: something could not be asked
    watch: bool = False  # is a watch to be kept running?

    @property
    def installed(self) -> bool:
        """Is gc scheduled?"""
        return self.scheduler is not None

    @property
    def cares(self) -> bool:
        """Are sessions supervised, by gc or by a watch?"""
        return self.installed or self.watch

    def late(self, now: float) -> bool:
        """Should it have run since its last run? Is cron there at all?"""
        return bool(self.every and self.last_run and now - self.last_run > 3 * self.every)


# --- the job -------------------------------------------------------------------------------------


def job(command: Sequence[str] = COMMAND) -> Job:
    """The command of the timer. Schedulers start it with an almost empty environment, so it gets
    the variables by which it finds its files, tmux and docker."""
    env = {"PATH": _search_path()}
    for name in ("HOME", "XDG_STATE_HOME", "XDG_CONFIG_HOME"):
        value = os.environ.get(name, "")
        if os.path.isabs(value) and (name != "HOME" or value != _account_home()):
            env[name] = value
    return Job((*paths.own_command(), *command), env)


def _search_path() -> str:
    """The directories of the caller's PATH that have tmux, docker or standard programs, in the same
    order."""
    found = [paths.which(program) for program in ("tmux", "docker")]
    wanted = {*_USUAL_PATH, *(os.path.dirname(file) for file in found if file)}
    own = [one.rstrip("/") for one in os.environ.get("PATH", "").split(":") if os.path.isabs(one)]
    return ":".join(dict.fromkeys((*(one for one in own if one in wanted), *_USUAL_PATH)))


def _account_home() -> str | None:
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_dir
    except KeyError:
        return None


# --- installing and removing ---------------------------------------------------------------------


def install(every: float, wanted: Scheduler | None, what: Job) -> tuple[Scheduler, list[str]]:
    """Install the timer at one scheduler, remove it from the other. Returns which, and remarks."""
    if every < schedules.SHORTEST:
        given, shortest = written(every), written(schedules.SHORTEST)
        raise UsageError(f"--every {given}: should be {shortest} at least")
    chosen = _choose(wanted)
    if chosen is Scheduler.CRON:
        _install_block(schedules.cron_block(what, every, paths.key()))
        return chosen, _remove_all("gc")
    units = _named("gc")
    texts = {units.service: schedules.service_text(what), units.main: schedules.timer_text(every)}
    _install_units(texts, units)
    _remove_units(_older("gc"))
    try:
        _remove_block()
    except SeshError as error:
        return chosen, [f"if the crontab has a block of sesh, it stays there: {error}"]
    return chosen, []


def install_watch(what: Job) -> None:
    """Have systemd's user manager keep a watch running."""
    problem = _manager_problem()
    if problem is not None:
        raise CannotTellError(
            f"only systemd's user manager can keep a watch running, and it does not answer "
            f"({problem}); sesh timer install without --watch can do with cron"
        )
    units = _named("watch")
    _install_units({units.service: schedules.watch_text(what)}, units)
    _remove_units(_older("watch"))


def remove() -> tuple[bool, list[str]]:
    """Remove all timers. Returns whether there was one, and remarks."""
    had_units = bool(_installed("gc").found or _installed("watch").found)
    remarks = [*_remove_all("gc"), *_remove_all("watch")]
    return _remove_block() or had_units, remarks


def _choose(wanted: Scheduler | None) -> Scheduler:
    """The scheduler that was asked for, or the one that the machine has."""
    if wanted is not Scheduler.CRON:
        problem = _manager_problem()
        if problem is None:
            return Scheduler.SYSTEMD
        if wanted is Scheduler.SYSTEMD:
            raise CannotTellError(
                f"systemd's user manager does not answer ({problem}); try --scheduler cron"
            )
    if paths.which("crontab"):
        return Scheduler.CRON
    if wanted is Scheduler.CRON:
        raise CannotTellError(
            "there is no crontab command; install cron, or try without --scheduler"
        )
    raise CannotTellError(
        "neither systemd's user manager nor a crontab command is here: install cron, "
        f"or have `sesh {' '.join(COMMAND)}` called every few minutes by what you have"
    )


# --- systemd -------------------------------------------------------------------------------------


def _systemctl(*arguments: str, timeout: float = _ASK) -> subprocesses.Answer:
    """Call the user manager, also without the variables that a login sets (su, cron)."""
    env = {**os.environ, "LC_ALL": "C"}
    runtime = f"/run/user/{os.getuid()}"
    if not env.get("XDG_RUNTIME_DIR") and os.path.isdir(runtime):
        env["XDG_RUNTIME_DIR"] = runtime
    return subprocesses.call(("systemctl", "--user", *arguments), timeout=timeout, env=env)


def _manager_problem() -> str | None:
    """Why systemd's user manager can't be used; None when it answers."""
    answer = _systemctl("show", "--property=Version")
    return None if answer.ok and answer.out.startswith("Version=") else _why(answer)


def _why(answer: subprocesses.Answer) -> str:
    """The error message of a program, in one line."""
    message = answer.problem or " ".join((answer.err.strip() or answer.out.strip()).split())
    return message.encode(errors="replace").decode() or f"exit status {answer.code}"


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


def _named(kind: str) -> Units:
    """The units that `install` writes."""
    return _units(f"sesh-{kind}-{paths.key()}")


def _older(kind: str) -> Units | None:
    """The units that an older version wrote for this state directory."""
    units = _units(f"sesh-{kind}")
    if not units.found:
        return None
    try:
        text = _unit_text(units.service)
    except StateError:  # a link, maybe: it was masked
        text = None
    ours = schedules.unit_state(text or "", _account_home() or "") == paths.state_dir()
    return units if ours else None


def _installed(kind: str) -> Units:
    """The installed units, preferably those of this version."""
    named = _named(kind)
    return named if named.found else _older(kind) or named


def _unit_text(name: str) -> str | None:
    try:
        return files.read_regular(f"{paths.user_units()}/{name}", _LIMIT).decode(errors="replace")
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StateError(f"cannot read {paths.user_units()}/{name}: {error.strerror}") from None


def _install_units(texts: Mapping[str, str], units: Units) -> None:
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
            _remove_units(units)
            raise SeshError(
                f"systemctl --user {' '.join(step)}: {_why(answer)}; nothing is installed now"
            )


def _remove_all(kind: str) -> list[str]:
    return [*_remove_units(_named(kind)), *_remove_units(_older(kind))]


def _remove_units(units: Units | None) -> list[str]:
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
        f"({_why(answer)}): what it had loaded may still run until the next login"
    ]


# --- cron ----------------------------------------------------------------------------------------


def _crontab(*arguments: str, stdin: int = subprocesses.NOTHING) -> subprocesses.Answer:
    """CRONTAB_NOHEADER would make Debian's print lines that are not the user's."""
    env = {name: value for name, value in os.environ.items() if name != "CRONTAB_NOHEADER"}
    return subprocesses.call(
        ("crontab", *arguments),
        timeout=_ASK,
        env={**env, "LC_ALL": "C"},
        stdin=stdin,
        errors="surrogateescape",
    )


def _read_crontab() -> bytes:
    answer = _crontab("-l")
    if answer.ok:
        return answer.out.encode(errors="surrogateescape")
    if re.search(r"no crontab for |can't open '[^']+': No such file", answer.err):
        return b""
    raise CannotTellError(f"cannot read the crontab: {_why(answer)}")


def _write_crontab(old: bytes, new: bytes) -> None:
    """Install a crontab with crontab(1), which checks it first; an empty one is removed. Debian's
    prints a carriage return as the two characters \\r, which would be installed as such."""
    from tempfile import TemporaryFile

    if re.search(rb"\\r$", old, re.M):
        raise StateError(
            "lines of the crontab seem to end in carriage returns, which crontab -l does not show "
            "as they are; nothing was changed, remove them with: crontab -e"
        )
    if not new:
        answer = _crontab("-r")
    else:
        with TemporaryFile() as file:
            file.write(new)
            file.seek(0)
            answer = _crontab("-", stdin=file.fileno())
    if not answer.ok:
        raise SeshError(f"cannot write the crontab: {_why(answer)}")


def _own_block(crontab: bytes) -> schedules.Crontab:
    """The crontab, split at our block, or at that of an older version."""
    older = schedules.parse(crontab).block
    if older is not None:
        ours = schedules.block_state(older, _account_home() or "") == paths.state_dir()
        crontab = schedules.with_key(crontab, paths.key()) if ours else crontab
    return schedules.parse(crontab, *schedules.marks(paths.key()))


def _install_block(block: bytes) -> None:
    old = _read_crontab()
    new = _own_block(old).with_block(block)
    if new != old:
        _write_crontab(old, new)


def _remove_block() -> bool:
    """Remove our block. True when there was one."""
    if paths.which("crontab") is None:
        return False
    old = _read_crontab()
    found = _own_block(old)
    if found.block is None:
        return False
    _write_crontab(old, found.others)
    return True


# --- status --------------------------------------------------------------------------------------


def state() -> Timer:
    """Which timer is installed, how often it runs, and when it ran."""
    return _with_watch(_gc_state())


def _gc_state() -> Timer:
    found = [_units_state(), _block_state()]
    installed = [one for one in found if one.installed]
    if len(installed) == 2:
        return _with_problem(installed[0], "also in the crontab; sesh timer install fixes it")
    uncertain = [one for one in found if not one.certain]
    wrong = [one for one in found if one.problem]
    return (installed or uncertain or wrong or found)[0]


def _with_watch(timer: Timer) -> Timer:
    units = _installed("watch")
    if not units.found:
        return timer
    if units.found != units.files:
        missing = "the watch is not enabled, or its unit is missing"
        return _with_problem(timer, f"{missing}; sesh timer install --watch fixes it")
    lingers = lingering() if timer.lingering is None else timer.lingering
    problem, _ = _activity_problem(units.main, "the watch; sesh timer install --watch does")
    return _with_problem(replace(timer, watch=True, lingering=lingers), problem)


def _with_problem(timer: Timer, problem: str | None) -> Timer:
    problems = dict.fromkeys(one for one in (timer.problem, problem) if one)
    return replace(timer, problem="; ".join(problems) or None)


def _units_state() -> Timer:
    units = _installed("gc")
    if not units.found:
        return Timer()
    if units.found != units.files:
        return Timer(
            problem=f"a part of the units in {paths.user_units()} is missing or not enabled; "
            "sesh timer install fixes it"
        )
    schedule = _timer_schedule(units)
    problem, certain = _activity_problem(units.main, "the timer; sesh timer install does")
    return Timer(
        scheduler=Scheduler.SYSTEMD,
        every=schedules.every_of(schedule) if schedule else None,
        schedule=schedule,
        last_run=files.changed(paths.gc_stamp(processes.run_dir())),
        next_run=_next_run(units) if certain else None,
        lingering=lingering(),
        problem=problem,
        certain=certain,
    )


def _timer_schedule(units: Units) -> str | None:
    text = _unit_text(units.main) or ""
    found = re.search(r"^(?:OnCalendar|OnUnitActiveSec)=(.*)$", text, re.M)
    return found[1].strip() if found else None


def _activity_problem(unit: str, what: str) -> tuple[str | None, bool]:
    """The problem of a unit that systemd has loaded, and whether systemd answered."""
    answer = _systemctl("show", "--property=ActiveState", unit)
    if not answer.ok:
        return f"systemd's user manager does not answer: {_why(answer)}", False
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


def _block_state() -> Timer:
    if paths.which("crontab") is None:
        return Timer()
    try:
        found = _own_block(_read_crontab())
    except SeshError as error:
        return Timer(problem=str(error), certain=False)
    if found.block is None:
        return Timer()
    schedule = schedules.block_schedule(found.block)
    if schedule is None:
        return Timer(problem="the crontab's block is empty; sesh timer install fills it")
    return Timer(
        scheduler=Scheduler.CRON,
        every=schedules.every_of(schedule),
        schedule=schedule,
        last_run=files.changed(paths.gc_stamp(processes.run_dir())),
    )
