"""Finding templates by name: the user's own, then the project's, then the built-in ones.

A project's templates are in `.sesh/templates/` and may come from another person, so a template is
used only after the user has trusted its current content. The name of an untrusted template is
refused even if a built-in template has the same name, because the user may mean the project's.
"""

from __future__ import annotations

import os
from enum import StrEnum

from sesh.agents import rule_files
from sesh.agents.templates import template, trust
from sesh.agents.templates.template import Template
from sesh.model.errors import SeshError, StateError, UsageError
from sesh.model.record import valid_name
from sesh.model.value_object import Value
from sesh.state import settings
from sesh.system import files, paths


class Origin(StrEnum):
    OWN = "own"
    PROJECT = "project"
    BUILTIN = "builtin"


class Found(Value):
    """A template's file, read once: the checked content is the content that is used."""

    name: str
    origin: Origin
    path: str
    raw: bytes
    trusted: bool


class Bad(Value):
    """A file that cannot be read."""

    name: str
    origin: Origin
    path: str
    problem: str


# --- directories ---------------------------------------------------------------------------------


def project(directory: str | None = None) -> str | None:
    """The directory of a project's templates: the nearest `.sesh` upwards, up to the top of a git
    repository or of the file system. The home directory is not a project."""
    try:
        here = os.path.realpath(os.getcwd() if directory is None else directory)
        device = os.stat(here).st_dev
    except OSError:
        return None
    home = _home()
    while here != home:
        if os.path.isdir(f"{here}/.sesh"):
            return os.path.realpath(f"{here}/.sesh/templates")
        parent = os.path.dirname(here)
        if parent == here or os.path.lexists(f"{here}/.git") or _device(parent) != device:
            return None
        here = parent
    return None


def _home() -> str | None:
    try:
        return os.path.realpath(paths.home())
    except StateError:
        return None


def _device(directory: str) -> int | None:
    try:
        return os.stat(directory).st_dev
    except OSError:
        return None


def _places(directory: str | None) -> list[tuple[Origin, str]]:
    """The directories with templates, in order of precedence."""
    near = project(directory)
    return [
        (Origin.OWN, paths.templates_dir()),
        *([(Origin.PROJECT, near)] if near else ()),
        (Origin.BUILTIN, paths.builtin_dir()),
    ]


def names(directory: str | None = None) -> list[str]:
    """The names of all templates."""
    return sorted({stem for _, place in _places(directory) for stem in rule_files.stems(place)})


# --- lookup --------------------------------------------------------------------------------------


def find(name: str, directory: str | None = None) -> Found:
    """The template with this name, trusted or not; raises when there is none."""
    check_name(name)
    for origin, place in _places(directory):
        found = _read(name, origin, place)
        if found is not None:
            return found
    raise SeshError(f"no template named {name}; available: {', '.join(names(directory))}")


def of_project(name: str, directory: str | None = None) -> Found:
    """The project's template with this name; raises when there is none."""
    path = project_path(name, directory)
    found = _read(name, Origin.PROJECT, os.path.dirname(path))
    if found is None:
        raise SeshError(f"no template named {name} in this project: {path} does not exist")
    return found


def project_path(name: str, directory: str | None = None) -> str:
    check_name(name)
    near = project(directory)
    if near is None:
        where = directory or "here"
        raise SeshError(f"{where}: no project templates found (.sesh/templates)")
    return f"{near}/{name}.toml"


def every(directory: str | None = None) -> list[Found | Bad]:
    """All templates, one per name."""
    found: list[Found | Bad] = []
    for name in names(directory):
        for origin, place in _places(directory):
            try:
                one: Found | Bad | None = _read(name, origin, place)
            except SeshError as error:
                one = Bad(name, origin, f"{place}/{name}.toml", str(error))
            if one is not None:
                found.append(one)
                break
    return found


def check_name(name: str) -> None:
    if not valid_name(name):
        raise UsageError(f"invalid template name {name!a}")


def _read(name: str, origin: Origin, place: str) -> Found | None:
    path = f"{place}/{name}.toml"
    try:
        raw = files.read_regular(path, settings.LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    return Found(name, origin, path, raw, origin is not Origin.PROJECT or trust.trusted(path, raw))


# --- use -----------------------------------------------------------------------------------------


def load(name: str, directory: str | None = None) -> Template:
    """The template with this name; raises when it is not trusted or not valid."""
    found = find(name, directory)
    check_trusted(found, directory)
    return template.decode(found.path, found.raw)


def check_trusted(found: Found, directory: str | None = None) -> None:
    if not found.trusted:
        command = next_step("trust", found.name, directory)
        raise SeshError(f"project template {found.path} is not trusted; review it with: {command}")


def next_step(action: str, name: str, directory: str | None = None) -> str:
    """The command line for the next step with a template."""
    from sesh.model.text.shell_words import join

    there = ["-C", directory] if directory is not None else []
    return join(["sesh", "template", action, name, *there])


def write(name: str, text: str) -> str:
    """Write a new template of the user; returns its path. Never overwrites a file."""
    check_name(name)
    path = f"{paths.templates_dir()}/{name}.toml"
    files.create(path, text.encode())
    return path
