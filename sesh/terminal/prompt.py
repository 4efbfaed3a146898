"""The line for prompts: short, and only when a session needs attention.

A record whose digest line still holds is counted from that line's bytes, like in a fast lane;
`attention` judges the others. No error of ours ever reaches a shell. Imports next to nothing, on
purpose.

The file that shells read (see init.bash) is one line: when it was written, in seconds, and the
line to show. It exists where a shell uses it; then every command rewrites it at its end.
"""

from __future__ import annotations

import posix
import time

from sesh.model import digest
from sesh.state import freshness
from sesh.system import paths, quick_read

# What may be wrong with an agent that runs, ranked among the states.
_RANKS = {"waiting": 10, "hung": 11, "failing": 12, "frozen": 13, "off-branch": 14}
SHELLS = ("bash", "zsh", "fish")
_PATIENCE = 0.2  # seconds that a command waits while another one writes the line


def line() -> str:
    """The sessions that need attention, worst first (`1 failed · 2 lost`); empty when none does."""
    try:
        found = _found()
    except (Exception, KeyboardInterrupt):  # no bug of ours may disturb a shell; `sesh ls` shows it
        return ""
    if not found:
        return ""
    return " · ".join(f"{found.count(word)} {word}" for word in words() if word in found)


def words() -> list[str]:
    """All states and troubles, the worst first."""
    from sesh.model.state_table import STATES

    ranks = {**_RANKS, **{state: row.rank for state, row in STATES.items()}}
    return sorted(ranks, key=lambda word: ranks[word])


# --- as recorded ---------------------------------------------------------------------------------


def _found() -> list[str]:
    """The word of every session that needs attention."""
    if _foreign():
        return []
    directory = paths.sessions_dir()
    try:
        survey = (
            freshness.Survey()
        )  # before the records: a launch's files are younger than its claim
    except OSError:  # no machine id or no /proc: no digest line can be trusted
        return _judged(set(), None)
    names = _names(directory)
    records = quick_read.directory(directory) if names else -1  # not closed: ends with the process
    words = {name: _word(name, records, survey) for name in names}
    settled = {name for name, word in words.items() if word is not None}
    found = [word for word in words.values() if word]
    if len(settled) < len(names) or survey.unclaimed:
        found += _judged(settled, survey.unclaimed)
    return found


def _word(name: str, directory: int, survey: freshness.Survey) -> str | None:
    """The word for a session that is as recorded, or nothing; None when it must be judged."""
    one = _held(name, directory, survey)
    if one is None:
        return None
    if digest.needs_attention(one.view):  # if it lives, the problem may be over by now
        return digest.state(one.view) if one.mode == "ended" else None
    waits = digest.agent(one.view) is not None and _waits(one, survey.run)
    return "waiting" if waits else ""


def _waits(one: digest.Digest, run: str) -> bool:
    """Does its agent wait for a person?"""
    from sesh.agents import activity
    from sesh.places import agent_files

    launch = agent_files.launch_in(one, run)
    return launch is not None and activity.attention(activity.of(launch)) is not None


def _foreign() -> bool:
    """Does the state directory belong to another user?"""
    try:
        return posix.stat(paths.state_dir()).st_uid != posix.getuid()
    except FileNotFoundError:
        return False


def _names(directory: str) -> list[str]:
    try:
        return freshness.names(directory)
    except FileNotFoundError:  # agents may still live
        return []


def _held(name: str, directory: int, survey: freshness.Survey) -> digest.Digest | None:
    """The digest of a record, if it is intact and still true."""
    try:
        one = freshness.digest_of(name, directory)
        return one if one is not None and survey.holds(one) else None
    except (OSError, ValueError, IndexError):
        return None


def _judged(settled: set[str], launches: set[str] | None) -> list[str]:
    """The words of all others; the slow path, so imported only here."""
    from sesh.terminal import attention

    return attention.words(settled, launches)


# --- the file that shells read -------------------------------------------------------------------


def refresh(*, make: bool = False) -> None:
    """Rewrite the file; without `make` only if it exists, which means that a shell reads it."""
    try:
        _refresh(make)
    except (Exception, KeyboardInterrupt):  # a command that has done its work does not fail here
        return


def _refresh(make: bool) -> None:
    if _foreign():
        return
    path = file()
    if not make and not quick_read.exists(path):
        return
    from sesh.system import files

    files.make_parents(path.rpartition("/")[0])
    with files.locked(f"{path}.lock", _PATIENCE):  # the later result is written later
        text = f"{time.time():.0f} {line()}\n".encode()
        files.write_private(path, text, durable=False)


def file() -> str:
    """Where the line is kept for the shells of this machine."""
    directory = paths.runtime_dir()
    if directory is None:
        from sesh.system import processes

        directory = processes.run_dir()
    return f"{directory}/prompt"


# --- the code that a shell loads -----------------------------------------------------------------


def script(shell: str) -> str:
    """The code that puts the line in front of a shell's prompt."""
    quote = quoted_for_fish if shell == "fish" else quoted
    with open(paths.package_file(f"terminal/shell/init.{shell}"), encoding="utf-8") as template:
        text = template.read()
    command = " ".join(quote(word) for word in paths.own_command())
    return text.replace("%FILE%", quote(file())).replace("%COMMAND%", command)


def quoted(text: str) -> str:
    return "'" + text.replace("'", "'\\''") + "'"


def quoted_for_fish(text: str) -> str:
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
