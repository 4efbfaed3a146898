"""sesh grep: search conversations and output of sessions."""

from __future__ import annotations

from sesh.commands._declare import argument, declare, flag
from sesh.model import errors
from sesh.model.record import Record
from sesh.model.text import formatting, pattern
from sesh.operations.conversations import search
from sesh.operations.conversations.search import Found
from sesh.state import history, lookup, records
from sesh.state.records import Entry
from sesh.terminal import output


@declare(
    "grep",
    examples={
        "sesh grep 'connection refused'": "in all sessions of the list",
        "sesh grep --all migrate": "in the history too",
    },
)
def command(
    regex: str = argument(metavar="PATTERN"),
    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]..."),
    ignore_case: bool = flag("-i", "--ignore-case", help="Ignore the case of letters."),
    everything: bool = flag("-a", "--all", help="Search the history too."),
) -> int:
    """Search the conversations of agents, and what sessions printed.

    Prints session, time, source and line. Exits with 1 if nothing matches.
    """
    matches = pattern.given("PATTERN", f"(?i:{regex})" if ignore_case else regex)
    wanted = [entry for name in dict.fromkeys(names) for entry in _named(name, everything)]
    if not names:
        wanted = [*records.entries(), *(history.entries() if everything else ())]
    any_found = False
    with search.limited(matches) as test:
        for entry in wanted:
            record = entry.readable
            if record is None:
                output.note(f"{entry.record.name}: its record is damaged")
                continue
            for found in search.search(record, test, output.note):
                any_found = True
                output.write(_line(record, found))
    return errors.OK if any_found else errors.FAILED


def _named(name: str, everything: bool) -> list[Entry]:
    """The session of a name, and those of the history that had it."""
    past = [one for one in history.entries() if one.record.name == name] if everything else []
    if past and records.entry(name) is None:
        return past
    return [lookup.find(name), *past]


def _line(record: Record, found: Found) -> str:
    colour = output.use_colour("auto")
    name = output.coloured(record.name, output.BOLD) if colour else record.name
    when = formatting.NOTHING if found.at is None else formatting.clock(found.at)
    return f"{name}  {when}  {found.source}  {formatting.escape(found.line)}\n"
