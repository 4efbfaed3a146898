"""The built-in agents, for sessions and templates that lack a key they have. Read-only."""

from __future__ import annotations

from sesh.agents import rule_files
from sesh.agents.templates.template import decode
from sesh.model.record import Kit
from sesh.model.value_object import replace
from sesh.state import settings
from sesh.system import files, paths


def kits() -> list[Kit]:
    """The [agent] tables of the built-in templates."""
    where = paths.builtin_dir()
    stems = sorted(rule_files.stems(where))
    found = [files.read_regular(f"{where}/{stem}.toml", settings.LIMIT) for stem in stems]
    agents = [decode(stem, raw).agent for stem, raw in zip(stems, found, strict=True)]
    return [agent for agent in agents if agent is not None]


def with_fork(kit: Kit) -> Kit:
    """The kit with arguments to fork with: its own, or those of the built-in template for this kind
    of agent."""
    if kit.fork:
        return kit
    same = (one for one in kits() if one.kind == kit.kind and one.conversation == kit.conversation)
    return replace(kit, fork=next((one.fork for one in same), ()))
