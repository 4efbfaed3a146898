"""Writes what is written from the commands: the pages of the manual, and the completions.

`python -m man.generate`. A page is made of the command (name, synopsis, options, exit codes) and of
its prose in man/prose/, which is mdoc(7) with two short forms: in OPTIONS, `.It --filter` begins
what a page says of an option behind its help; in EXIT STATUS, `.It 4` lists a code, with its
general meaning unless words follow. NAME and SEE ALSO are made by themselves.
"""

from __future__ import annotations

import re
import textwrap
from datetime import date
from pathlib import Path

import click

from sesh.commands import completion
from sesh.model import errors
from sesh.terminal import command_table
from sesh.terminal import main as cli
from sesh.terminal.completion import Option, Verb

CHECKOUT = Path(__file__).parents[1]
PROSE = CHECKOUT / "man" / "prose"
TREE = completion.tree(cli.group)
OTHERS = {
    "sesh": ("sesh", 1, "named, supervised terminal sessions for coding agents"),
    "settings": ("sesh-config", 5, "settings of sesh"),
    "json": ("sesh-json", 5, "sessions and events as JSON"),
}


def files() -> dict[str, str]:
    """Every file that is generated: its path in the checkout, and its text."""
    pages = {f"man/sesh-{verb.name}.1": command_page(verb) for verb in TREE.verbs}
    pages |= {
        f"man/{title}.{number}": other_page(name) for name, (title, number, _) in OTHERS.items()
    }
    scripts = {shell: write(TREE) for shell, write in completion.SCRIPTS.items()}
    return pages | {
        "completions/bash/sesh": scripts["bash"],
        "completions/zsh/_sesh": scripts["zsh"],
        "completions/fish/sesh.fish": scripts["fish"],
    }


# --- pages -------------------------------------------------------------------------------------


def command_page(verb: Verb) -> str:
    what = command_table.COMMANDS[verb.name]
    head = header(f"sesh-{verb.name}", 1, what[:1].lower() + what[1:].rstrip("."))
    sections = prose(verb.name)
    exits = exit_codes(sections.pop(".Sh EXIT STATUS"))
    body = [
        f".Sh SYNOPSIS\n{synopsis(verb)}",
        f".Sh DESCRIPTION\n{sections.pop('.Sh DESCRIPTION')}{aliases(verb.name)}",
        *option_lists(verb.options, sections.pop(".Sh OPTIONS", "")),
        *(f"{heading}\n{text}" for heading, text in sections.items() if heading[:3] == ".Ss"),
        f".Sh EXIT STATUS\n{exits}.Pp\nAll are in\n.Xr sesh 1 .\n",
        f".Sh EXAMPLES\n{sections['.Sh EXAMPLES']}.Sh SEE ALSO\n{sections['.Sh SEE ALSO']}",
    ]
    return with_references(head + "".join(body), f"sesh-{verb.name}", 1)


def other_page(name: str) -> str:
    title, number, what = OTHERS[name]
    sections = prose(name)
    if name == "sesh":
        (options,) = option_lists(TREE.options, sections.pop(".Sh OPTIONS"))
        sections[".Sh DESCRIPTION"] += options + commands() + all_aliases()
        sections[".Sh EXIT STATUS"] = exit_codes(sections[".Sh EXIT STATUS"], every=True)
    body = "".join(f"{heading}\n{text}" for heading, text in sections.items())
    return with_references(header(title, number, what) + body, title, number)


def header(title: str, number: int, what: str) -> str:
    day = released()
    return (
        f".Dd {day:%B} {day.day}, {day.year}\n.Dt {title.upper()} {number}\n.Os\n"
        f".Sh NAME\n.Nm {title}\n.Nd {what}\n"
    )


def released() -> date:
    """The manual is as old as the newest version in the changelog: the same on every day."""
    found = re.search(r"^## \[[\d.]+\] - (\S+)$", (CHECKOUT / "CHANGELOG.md").read_text(), re.M)
    assert found
    return date.fromisoformat(found[1])


def prose(name: str) -> dict[str, str]:
    """The sections of a page's prose, by their `.Sh` or `.Ss` line."""
    parts = re.split(r"^(\.S[hs] .*)\n", (PROSE / name).read_text(), flags=re.M)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def items(text: str, item: str) -> dict[str, str]:
    """What stands behind each `.It` of a short form."""
    parts = re.split(rf"^\.It ({item})\n", text, flags=re.M)
    assert not parts[0], parts[0]
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def with_references(page: str, title: str, number: int) -> str:
    """The page with SEE ALSO: what its text and that section of its prose refer to."""
    found = {*re.findall(r"^\.(?:.* )?Xr (\S+) (\d)", page, re.M), ("sesh", "1")}
    page = page.partition(".Sh SEE ALSO\n")[0]
    references = sorted(found - {(title, str(number))}, key=lambda one: one[::-1])
    lines = " ,\n".join(f".Xr {name} {number}" for name, number in references)
    return f"{page}.Sh SEE ALSO\n{lines}\n"


# --- parts of pages ----------------------------------------------------------------------------


def synopsis(verb: Verb) -> str:
    """`.Op` lines: the flags of one letter together, then the others, then the arguments."""
    flags = [option for option in verb.options if option.metavar is None]
    letters = sorted(option.names[0][1] for option in flags if option.names[0][1] != "-")
    lines = [f".Nm sesh {verb.name}", f".Op Fl {''.join(letters)}"]
    for option in verb.options:
        if option.metavar is not None or option.names[0].startswith("--"):
            lines.append(f".Op {flag(option.names[0], option)}")
    command = cli.group.get_command(click.Context(cli.group), verb.name)
    assert command is not None
    pieces = command.collect_usage_pieces(click.Context(command))
    lines += [argument(piece) for piece in pieces if piece != "[OPTIONS]"]
    return "".join(f"{line}\n" for line in lines)


def argument(piece: str) -> str:
    """A piece of click's usage as mdoc: NAME, [NAME], NAME..., [NAME]..., [[--] COMMAND...]"""
    found = re.fullmatch(r"(\[)?(\[--\] )?([A-Z=]+)\]?(\.\.\.)?\]?", piece)
    assert found, piece
    optional, dashes, name, many = found.groups()
    words = ("Oo Cm -- Oc " if dashes else "") + f"Ar {name.lower()}" + (" ..." if many else "")
    return f".Op {words}" if optional else f".{words}"


def flag(name: str, option: Option) -> str:
    """`Fl f Ar key=value` of -f KEY=VALUE"""
    if option.metavar is None:
        return f"Fl {name[1:]}"
    macro = "Cm" if "|" in option.metavar else "Ar"
    return f"Fl {name[1:]} {macro} {option.metavar.lower()}"


def aliases(name: str) -> str:
    found = command_table.aliases(name)
    words = " ,\n".join(f".Ql {alias}" for alias in found)
    return f".Pp\nAliases:\n{words} .\n" if found else ""


def option_lists(options: tuple[Option, ...], text: str) -> list[str]:
    """The options, in the sections of the help where it has some."""
    more = items(text, r"--\S+")
    sections = list(dict.fromkeys(option.section for option in options))
    parts = []
    for section in sections:
        head = ".Pp\nThe options are:\n" if sections == [section] else f".Ss {section}\n"
        own = tuple(option for option in options if option.section == section)
        parts.append(head + option_list(own, more))
    assert not more, f"no such option: {', '.join(more)}"
    return parts


def option_list(options: tuple[Option, ...], more: dict[str, str]) -> str:
    """`more` is what the prose says of options; what is used is taken out."""
    lines = [".Bl -tag -width Ds\n"]
    for option in options:
        names = " , ".join(flag(name, option) for name in option.names)
        words = next((more.pop(name) for name in option.names if name in more), "")
        lines.append(f".It {names}\n{sentences(option.help)}{words}")
    return "".join(lines) + ".El\n"


def commands() -> str:
    """The commands in the groups of `sesh --help`, then those that only programs call."""
    lists = []
    for heading, group in {**command_table.GROUPS, "Plumbing": command_table.PLUMBING}.items():
        lines = [
            f".It Ic {name}\n{sentences(what.rstrip('.') + ';')}.Xr sesh-{name} 1 .\n"
            for name, what in group.items()
        ]
        lists.append(f'{heading}:\n.Bl -tag -width "completion"\n{"".join(lines)}.El\n')
    return ".Ss Commands\n" + ".Pp\n".join(lists)


def all_aliases() -> str:
    rows = [
        f".It Ql {alias}\n.Ql sesh {' '.join(words)}\n"
        for alias, words in command_table.ALIASES.items()
    ]
    return f'.Ss Aliases\n.Bl -tag -width "inspect"\n{"".join(rows)}.El\n'


def exit_codes(text: str, *, every: bool = False) -> str:
    said = {int(code): words for code, words in items(text.partition(".Pp\n")[0], r"\d+").items()}
    lines = [
        f".It {code}\n{said.get(code) or sentences(what[:1].upper() + what[1:] + '.')}"
        for code, what in errors.EXIT_CODES.items()
        if every or code in said
    ]
    assert said.keys() <= errors.EXIT_CODES.keys(), said.keys()
    rest = "".join(text.partition(".Pp\n")[1:])
    return ".Bl -tag -width Ds\n" + "".join(lines) + ".El\n" + rest


def sentences(text: str) -> str:
    """Plain text as mdoc: a line for each sentence, and nothing taken for a macro."""
    lines = []
    for sentence in re.split(r"(?<=[.?!]) (?=[A-Z])", text.replace("\\", r"\e")):
        lines += textwrap.wrap(sentence, 80, break_long_words=False, break_on_hyphens=False)
    return "".join((rf"\&{line}" if line[0] in ".'" else line) + "\n" for line in lines)


def main() -> None:
    for path, text in files().items():
        file = CHECKOUT / path
        if not file.exists() or file.read_text() != text:
            file.write_text(text)
            print(path)


if __name__ == "__main__":
    main()
