"""sesh template: list, show, create, check and trust templates."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sesh.agents import rule_files
from sesh.agents.templates import catalog, template, trust
from sesh.agents.templates.catalog import Bad, Found, Origin
from sesh.agents.templates.template import Template
from sesh.commands._declare import argument, declare, flag, option
from sesh.commands._options import YES, confirm, json_option
from sesh.model import errors
from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.text import formatting
from sesh.model.value_object import Value
from sesh.state import settings
from sesh.system import paths
from sesh.system.files import read_regular
from sesh.terminal import output

ACTIONS = ("ls", "show", "new", "check", "trust")
_FROM = {Origin.OWN: "own", Origin.PROJECT: "project", Origin.BUILTIN: "built in"}
_WIDEST = 50  # columns of a name or command


@declare(
    "template",
    examples={
        "sesh template new mine --from claude": "your own copy of claude",
        "sesh template trust dev": "trust a project template",
    },
)
def command(
    action: str = argument(type=tuple(ACTIONS), metavar="[ACTION]", required=False, default="ls"),
    names: tuple[str, ...] = argument(nargs=-1, metavar="[NAME]..."),
    directory: str | None = option("-C", "--dir", metavar="DIR", help="Use the project in DIR."),
    model: str | None = option("--from", metavar="NAME", help="Copy another template (with new)."),
    remove: bool = flag("--remove", help="Revoke the trust (with trust)."),
    yes: bool = YES,
    as_json: bool = json_option("the output of ls or show"),
) -> int:
    """Manage templates for start -t. ACTION is ls (default), show, new, check or trust."""
    _check_words(action, names, model=model, remove=remove, yes=yes, as_json=as_json)
    if action == "ls":
        return _ls(directory, as_json=as_json)
    if action == "check":
        return _check(names, directory)
    if action == "new":
        return _new(names[0], model, directory)
    if action == "show":
        return _show(catalog.find(names[0], directory), as_json=as_json)
    return _forget(names[0], directory) if remove else _trust(names[0], directory, yes=yes)


def _check_words(
    action: str, names: Sequence[str], *, model: str | None, remove: bool, yes: bool, as_json: bool
) -> None:
    if as_json and action not in ("ls", "show"):
        raise UsageError("--json is only for sesh template ls and show")
    if model is not None and action != "new":
        raise UsageError("--from is only for sesh template new")
    if (remove or yes) and action != "trust":
        raise UsageError("--remove and -y are only for sesh template trust")
    if action == "ls" and names:
        raise UsageError("sesh template ls takes no name; next: sesh template show NAME")
    if action in ("show", "new", "trust") and len(names) != 1:
        raise UsageError(f"give one template name; next: sesh template {action} NAME")


# --- ls ------------------------------------------------------------------------------------------


def _ls(directory: str | None, *, as_json: bool) -> int:
    lines = [_Line.of(one) for one in catalog.every(directory)]
    if as_json:
        output.write(json.dumps([_plain(line) for line in lines]) + "\n")
        return errors.OK
    rows = [("NAME", "FROM", "RUNS", ""), *(_row(line, directory) for line in lines)]
    output.write("".join(f"{line}\n" for line in formatting.table(rows)))
    return errors.OK


class _Line(Value):
    """A line of the list."""

    name: str
    origin: Origin
    path: str
    trusted: bool
    command: tuple[str, ...] | None  # None: it is not valid
    problem: str | None

    @staticmethod
    def of(one: Found | Bad) -> _Line:
        if isinstance(one, Bad):
            return _Line(one.name, one.origin, one.path, False, None, one.problem)
        found, wrong = template.examine(one.path, one.raw)
        command, problem = (None, wrong[0]) if wrong else (found.command, None)
        return _Line(one.name, one.origin, one.path, one.trusted, command, problem)


def _row(line: _Line, directory: str | None) -> tuple[str, str, str, str]:
    runs = formatting.NOTHING
    if line.command is not None:
        runs = formatting.command_line(line.command) if line.command else "your shell"
    remark = ""
    if line.problem is not None:
        remark = f"invalid: {catalog.next_step('check', line.name, directory)}"
    elif not line.trusted:
        remark = f"not trusted: {catalog.next_step('trust', line.name, directory)}"
    name, runs = (formatting.cut(cell, _WIDEST) for cell in (line.name, runs))
    return name, _FROM[line.origin], runs, formatting.escape(remark)


def _plain(value: Any) -> Any:
    """A value for JSON."""
    if isinstance(value, Value):
        return {name: _plain(getattr(value, name)) for name in value.fields}
    if isinstance(value, Mapping):
        return {key: _plain(one) for key, one in value.items()}
    return list(value) if isinstance(value, tuple) else value


# --- show ----------------------------------------------------------------------------------------


def _show(found: Found, *, as_json: bool) -> int:
    if as_json:
        inside = template.decode(found.path, found.raw)
        head = _plain(_Line.of(found))
        kept = {key: head[key] for key in ("name", "origin", "path", "trusted")}
        output.write(json.dumps({**kept, "template": _plain(inside)}) + "\n")
        return errors.OK
    untrusted = "" if found.trusted else ", not trusted"
    output.write(f"# {formatting.escape(found.path)} ({_FROM[found.origin]}{untrusted})\n")
    for line in _lines(found.raw):
        output.write(f"{line}\n")
    return errors.OK


def _lines(raw: bytes) -> list[str]:
    """The lines of a file, safe for a terminal. Only a line feed ends a line."""
    text = raw.decode("utf-8", "backslashreplace").removesuffix("\n")
    return ["\t".join(map(formatting.escape, line.split("\t"))) for line in text.split("\n")]


# --- new -----------------------------------------------------------------------------------------


def _new(name: str, model: str | None, directory: str | None) -> int:
    catalog.check_name(name)
    if model is None:
        with open(paths.package_file("agents/templates/skeleton.toml"), encoding="utf-8") as file:
            text = file.read().replace("{name}", name)
    else:
        found = catalog.find(model, directory)
        catalog.check_trusted(found, directory)
        template.decode(found.path, found.raw)
        text = f"# Copied from {model}; use: sesh start -t {name}\n{found.raw.decode()}"
    output.write(f"{formatting.escape(catalog.write(name, text))}\n")
    return errors.OK


# --- check ---------------------------------------------------------------------------------------


def _check(names: Sequence[str], directory: str | None) -> int:
    """Print all problems, one per line."""
    found = [*_everything(directory)] if not names else []
    for name in names:
        found += _of_file(name) if "/" in name or name.endswith(".toml") else _of(name, directory)
    for told in found:
        output.note(told)
    if not found:
        output.succeeded("no problems found")
    return errors.STATE if found else errors.OK


def _everything(directory: str | None) -> Iterator[str]:
    """The problems of all templates and of the user's rules."""
    for one in catalog.every(directory):
        yield from (
            [one.problem] if isinstance(one, Bad) else template.examine(one.path, one.raw)[1]
        )
    for name in rule_files.stems(paths.rules_dir()):
        try:
            path, raw = rule_files.read(name)
        except StateError as error:
            yield str(error)
        else:
            yield from rule_files.decode(name, path, raw)[1]


def _of(name: str, directory: str | None) -> list[str]:
    try:
        found = catalog.find(name, directory)
    except StateError as error:
        return [str(error)]
    return template.examine(found.path, found.raw)[1]


def _of_file(path: str) -> list[str]:
    try:
        return template.examine(path, read_regular(path, settings.LIMIT))[1]
    except OSError as error:
        return [f"cannot read {path}: {error.strerror}"]


# --- trust ---------------------------------------------------------------------------------------


def _trust(name: str, directory: str | None, *, yes: bool) -> int:
    """Show the content, ask, and trust exactly this content."""
    found = catalog.of_project(name, directory)
    if found.trusted:
        output.say(f"{name} is already trusted")
        return errors.OK
    meant = template.decode(found.path, found.raw)
    question = f"trust {formatting.escape(found.path)}?"
    if not yes and not output.interactive():
        confirm(question, yes=False)  # raises: there is no terminal
    for line in (f"{formatting.escape(found.path)}:", "", *_lines(found.raw), "", *_meaning(meant)):
        output.say(line)
    if not confirm(question, yes=yes):
        raise SeshError(f"{name} is not trusted")
    trust.add(found.path, found.raw)
    if catalog.find(name, directory).origin is Origin.OWN:
        output.note(f"your own template {name} takes precedence over it")
    output.succeeded(f"trusted {name}")
    return errors.OK


def _meaning(meant: Template) -> Iterator[str]:
    """What would run; printed last, so that a long file cannot scroll it off the screen."""
    command = formatting.command_line(meant.command) if meant.command else "your shell"
    yield f"command: {command}"
    for what, value in (
        ("directory", meant.dir),
        ("image", meant.image),
        ("container", meant.container),
        ("variables", ", ".join(meant.env)),
        ("mounts", ", ".join(meant.mounts)),
        ("health check", meant.start.get("health_cmd", "")),
    ):
        if value:
            yield f"{what}: {formatting.escape(value)}"
    if meant.agent:
        yield f"arguments: {formatting.command_line((*meant.agent.start, *meant.agent.prompt))}"


def _forget(name: str, directory: str | None) -> int:
    if trust.remove(catalog.project_path(name, directory)):
        output.succeeded(f"{name} is no longer trusted")
    else:
        output.say(f"{name} was not trusted")
    return errors.OK
