"""sesh ls: the table, and its JSON."""

from __future__ import annotations

from sesh.commands._declare import declare, flag, option
from sesh.commands._options import COLOUR, GROUP, NAMES, TAGS, json_option, known, report
from sesh.model.session_json import View
from sesh.model.text import formatting, quick_json
from sesh.terminal import filters, output, session_list, session_table


@declare(
    "ls",
    examples={
        "sesh ls -f activity=waiting": "agents waiting for an answer",
        "sesh ls --json | jq -r '.[].name'": "for scripts",
    },
)
def command(
    names: tuple[str, ...] = NAMES,
    as_json: bool = json_option("an array of sessions"),
    conditions: tuple[str, ...] = option(
        "-f",
        "--filter",
        multiple=True,
        metavar="KEY=VALUE",
        help="Only sessions that match (repeatable): state, name (a glob), place, activity, "
        "health, attention (yes or no), …; or just a word: running, failed, waiting, hung, …",
    ),
    group: str | None = GROUP,
    tags: tuple[str, ...] = TAGS,
    sort_key: str = option(
        "--sort",
        default="name",
        metavar="KEY",
        help="Sort by a field; -KEY reverses.",
    ),
    template: str | None = option(
        "--format",
        metavar="TEMPLATE",
        help="Print each session in a format, for example '{name} {state}'.",
    ),
    quiet: bool = flag("-q", "--quiet", help="Print names only."),
    wide: bool = flag(
        "-w", "--wide", help="Show memory, CPU, tokens, cost, pid, group, git work and directory."
    ),
    everything: bool = flag(
        "-a",
        "--all",
        help="Also show older sessions, history and leftovers.",
    ),
    exit_code: bool = flag("--exit-code", help="Exit with 1 if no session matches."),
    colour: str = COLOUR,
) -> int:
    """List sessions with their current state. With NAME: only these."""
    labels = ({"group": [group]} if group is not None else {}, {"tag": [*tags]} if tags else {})
    wanted = [filters.parse(conditions), *labels]
    formatted = filters.formatter(template) if template is not None else None
    filters.sort([], sort_key)
    needs_usage = wide or sort_key.lstrip("-") in ("memory_bytes", "cpu_seconds")
    tokens = wide or filters.needs_tokens(template, sort_key)
    results: dict[str, object] = dict.fromkeys(names)
    if names:
        sessions = known(results)
        found = session_list.views_of(sessions, usage=needs_usage, work=wide, tokens=tokens)
        troubles = [one.trouble for one in sessions if one.trouble]
    else:
        found, troubles = session_list.gather(
            everything=everything, usage=needs_usage, work=wide, tokens=tokens
        )
    matching = [v for v in found if all(filters.matches(v, some) for some in wanted)]
    views = filters.sort(matching, sort_key)
    filtered = any(wanted) or bool(names)
    if as_json:
        output.write(
            "[" + ",\n".join(quick_json.dumps(v, separators=(",", ":")) for v in views) + "]\n"
        )
    elif formatted:
        output.write("".join(formatted(v) + "\n" for v in views))
    elif quiet:
        output.write("".join(formatting.escape(v["name"]) + "\n" for v in views))
    elif found or not names:
        _print_table(views, wide=wide, colour=output.use_colour(colour), filtered=filtered)
    used = tokens and any(view.get("usage") for view in views)
    if used and (trouble := session_list.price_trouble()):
        output.note(f"no cost is shown: {trouble}")
    for trouble in troubles[:1]:
        output.note(f"cannot save observed state: {trouble}")
    code = report(results)
    return code or (1 if exit_code and not views else 0)


def _print_table(views: list[View], *, wide: bool, colour: bool, filtered: bool) -> None:
    if not views:
        output.note(
            "no session matches; next: sesh ls --all"
            if filtered
            else "no sessions; next: sesh start NAME COMMAND"
        )
        return
    table, closing = session_table.ls_text(views, wide=wide, colour=colour)
    output.write(table.decode())
    width = output.terminal_width()
    if width is None:
        return
    lines = [
        part
        for line in session_list.open_breakers(views)
        for part in formatting.wrapped(formatting.escape(line), width)
    ]
    lines += [closing] if closing else []
    if lines:
        output.say("\n" + "\n".join(lines))
