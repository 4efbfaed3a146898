"""sesh config: show, edit and check the settings, or send a test notification."""

from __future__ import annotations

import json
import os
import shlex
from collections.abc import Iterator
from typing import Any

from sesh.commands._declare import argument, declare, flag
from sesh.commands._options import json_option
from sesh.model import errors
from sesh.model.configuration import SECTIONS, Config, Count
from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.states import Retry
from sesh.model.text import formatting, units
from sesh.state import settings
from sesh.state.settings import Setting
from sesh.supervision.notify import notices, targets
from sesh.system import files, paths
from sesh.terminal import output

ACTIONS = ("show", "edit", "check", "path", "test-notify")


@declare(
    "config",
    examples={
        "sesh config edit": "open the file in your editor",
        "sesh config --origin": "where each value comes from",
    },
)
def command(
    action: str = argument(type=tuple(ACTIONS), metavar="[ACTION]", required=False, default="show"),
    origin: bool = flag("--origin", help="Show where each value comes from (with show)."),
    as_json: bool = json_option("the settings"),
) -> int:
    """Show, edit or check settings, or send a test notification.

    ACTION is show (default), edit, check, path or test-notify.
    """
    if action != "show" and (origin or as_json):
        raise UsageError("--origin and --json are only for sesh config show")
    if action == "show":
        return _show(origin=origin, as_json=as_json)
    if action == "path":
        output.write(f"{formatting.escape(paths.config_file())}\n")
        return errors.OK
    if action == "edit":
        return _edit(paths.config_file())
    config = settings.load()
    return _check(config) if action == "check" else _test(config)


# --- show ----------------------------------------------------------------------------------------


def _show(*, origin: bool, as_json: bool) -> int:
    """Print all settings. What cannot be read has its default, and the exit code says so."""
    settings.forgive(output.note)
    found = settings.resolve()
    code = errors.STATE if settings.trouble() else errors.OK
    if as_json:
        objects = {key: {"value": one.value, "origin": _origin(one)} for key, one in found.items()}
        output.write(json.dumps(objects) + "\n")
        return code
    lines = {f"{key} = {_toml(one.value)}": _origin(one) for key, one in found.items()}
    width = min(40, max(map(len, lines)))
    for line, source in lines.items():
        comment = f"  # {formatting.escape(source)}"
        output.write(f"{line:<{width}}{comment}\n" if origin else f"{line}\n")
    return code


def _origin(setting: Setting) -> str:
    return paths.config_file() if setting.origin == settings.FILE else setting.origin


def _toml(value: Any) -> str:
    """A value as TOML, with times and sizes as people write them; control characters are
    escaped."""
    if isinstance(value, float):
        value = units.time(value) if value else 0
    elif isinstance(value, int) and not isinstance(value, (bool, Count)):
        short = units.amount(value)
        value = value if short.isdigit() else short
    if isinstance(value, tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, str):
        return '"' + "".join(map(_escaped, value)) + '"'
    return json.dumps(value)


def _escaped(char: str) -> str:
    if char in '"\\':
        return f"\\{char}"
    if char.isprintable():
        return char
    return f"\\u{ord(char):04x}" if ord(char) < 1 << 16 else f"\\U{ord(char):08x}"


# --- edit ----------------------------------------------------------------------------------------


def _edit(path: str) -> int:
    """Open the file in the user's editor, then check it. A new file explains all settings."""
    if not os.path.lexists(path):
        skeleton = paths.package_file("state/skeleton.toml")
        files.create(path, files.read_regular(skeleton, settings.LIMIT))
    _open(path)
    try:
        return _check(settings.load())
    except StateError as error:
        raise StateError(f"{error}; next: sesh config edit") from None


_EDITORS = ("sensible-editor", "vim", "nano")  # as click looks for them


def _open(path: str) -> None:
    import click

    variable = next((name for name in ("VISUAL", "EDITOR") if os.environ.get(name)), "EDITOR")
    editor = os.environ.get(variable) or next(filter(paths.which, _EDITORS), "vi")
    problem = _why_not(editor)
    if problem:
        raise SeshError(f"cannot run the editor {problem}; set {variable}")
    try:
        click.edit(filename=path, editor=editor)
    except click.ClickException:
        failed = f"the editor {editor} failed (it did not exit with 0)"
        raise SeshError(f"{failed}; nothing was checked; next: sesh config check") from None


def _why_not(editor: str) -> str | None:
    """Why this command line cannot be run; None: it can."""
    try:
        program = next(iter(shlex.split(editor)), "")
    except ValueError as error:
        return f"{editor}: {str(error).lower()}"
    if not program:
        return f"{editor}: no command"
    here = os.path.isfile(program) and os.access(program, os.X_OK)
    found = here if "/" in program else paths.which(program)
    return None if found else f"{program}: not found"


# --- check ---------------------------------------------------------------------------------------


def _check(config: Config) -> int:
    """Report settings that can be read but make no sense."""
    found = [*_start(config), *_notify(config), *_tmux(config), *_variables()]
    for remark in found:
        output.note(remark)
    if not found:
        output.succeeded(f"{paths.config_file()}: no problems found")
    return errors.FAILED if found else errors.OK


def _start(config: Config) -> Iterator[str]:
    start = config.start
    if not start.retry_on:
        retries = f"start.retries is {start.retries}, but " if start.retries else ""
        yield f"{retries}start.retry_on is empty: use {formatting.either(Retry)}"
    for word in start.retry_on:
        if word not in tuple(Retry):
            yield f"start.retry_on: {word}: use {formatting.either(Retry)}"
    if start.retry_delay > start.retry_max_delay:
        yield "start.retry_delay is longer than start.retry_max_delay"


def _notify(config: Config) -> Iterator[str]:
    notify = config.notify
    for word in notify.on:
        if problem := settings.not_notifiable(word):
            yield f"notify.on: {problem}"
    if notices.targets_of(notify) and not notify.on:
        yield "notify.on is empty: no notifications are sent"
    for number, address in enumerate(notify.webhooks, 1):
        if not targets.usable(address):
            yield f"notify.webhooks: number {number} is not an http or https address"


def _tmux(config: Config) -> Iterator[str]:
    include = config.tmux.include
    if include and not os.path.exists(include):
        yield f"tmux.include: {include} does not exist"


def _variables() -> Iterator[str]:
    """Environment variables with the prefix of a section that name no setting."""
    known = {settings.variable(key) for key in settings.resolve()}
    sections = tuple(f"SESH_{section.upper()}_" for section in SECTIONS)
    for name in sorted(os.environ):
        if name.startswith(sections) and name not in known:
            near = settings.similar(name, known)
            meant = f"did you mean ${near}?" if near else "see sesh-config(5)"
            yield f"${name} is not a setting; {meant}"


# --- test-notify ---------------------------------------------------------------------------------


def _test(config: Config) -> int:
    results = notices.try_out(config.notify)
    if not results:
        where = paths.config_file()
        raise SeshError(
            f"no notifications configured: set notify.command or notify.webhooks in {where}"
        )
    for target, sent in results:
        shown = formatting.escape(target.shown)
        line = f"ok      {shown}" if sent.problem is None else f"failed  {shown}: {sent.problem}"
        output.write(f"{formatting.escape(line)}\n")
        for line in sent.said.splitlines():
            output.write(f"        {formatting.escape(line)}\n")
    return errors.of_many([errors.FAILED if sent.problem else errors.OK for _, sent in results])
