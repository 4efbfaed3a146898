"""Templates: what a kind of session is started with, a file each. Strict like the settings.

command = ["claude"]          what `start` gets behind --
dir = "~/src/shop"            and by -C, --group, --tag, -e, --image, --user, --network …
group = "shop"
env = ["API_KEY", "MODE=fast"]
image = "agents"

[start]                       as in the settings: limits, retries, health
retries = 3
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from sesh import config, paths
from sesh.errors import SeshError, StateError, UsageError
from sesh.files import read_regular
from sesh.model import valid_name
from sesh.values import Value


class Template(Value):
    """What a template says; what it does not say is empty."""

    command: tuple[str, ...] = ()
    dir: str = ""
    group: str = ""
    tags: tuple[str, ...] = ()
    env: tuple[str, ...] = ()
    image: str = ""
    container: str = ""
    mounts: tuple[str, ...] = ()
    user: str = ""
    network: str = ""
    memory: str = ""
    cpus: str = ""
    start: Mapping[str, Any] = MappingProxyType({})


def path_of(name: str) -> str:
    return f"{paths.templates_dir()}/{name}.toml"


def names() -> list[str]:
    """All that exist."""
    try:
        found = os.listdir(paths.templates_dir())
    except OSError:
        return []
    stems = (name.removesuffix(".toml") for name in found if name.endswith(".toml"))
    return sorted(stem for stem in stems if valid_name(stem))


def load(name: str) -> Template:
    """The template of a name; raises when there is none, or when it can't be understood."""
    if not valid_name(name):
        raise UsageError(f"--template {name!a}: no valid name")
    path = path_of(name)
    try:
        raw = read_regular(path, config.LIMIT)
    except (FileNotFoundError, NotADirectoryError):
        known = names()
        hint = f"there are {', '.join(known)}" if known else f"{path} does not exist"
        raise SeshError(f"no template named {name}; {hint}") from None
    except OSError as error:
        raise StateError(f"cannot read {path}: {error.strerror}") from None
    return _decode(path, raw)


def _decode(path: str, raw: bytes) -> Template:
    values: dict[str, Any] = {}
    for key, value in config.parse(path, raw).items():
        if key not in Template.fields:
            raise StateError(f"{path}: unknown key {key}; see sesh-start(1)")
        if key == "start":
            values[key] = _start(path, value)
        else:
            values[key] = config.checked(value, getattr(Template, key), f"{path}: {key}")
    return Template(**values)


def _start(path: str, table: Any) -> dict[str, Any]:
    """The same keys as in the settings."""
    if not isinstance(table, dict):
        raise StateError(f"{path}: start should be a table")
    for key in table.keys() - set(config.Start.fields):
        raise StateError(f"{path}: unknown key start.{key}; see sesh-config(5)")
    return {
        key: config.checked(value, getattr(config.Start, key), f"{path}: start.{key}")
        for key, value in table.items()
    }
