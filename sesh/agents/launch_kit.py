"""What the launch of an agent needs beside its command: conversation, hooks, and arguments for
both.

ID.GEN.kit    what `agents/activity` needs to know about the agent
ID.GEN.hooks  Claude's settings for this launch
"""

from __future__ import annotations

import os
from collections.abc import Mapping

from sesh.agents import rule_files
from sesh.agents.rules import to_plain
from sesh.model.agents import claude, codex
from sesh.model.record import LaunchMode, Record
from sesh.model.text import quick_json
from sesh.model.value_object import replace
from sesh.places import agent_files
from sesh.places.agent_files import Variables
from sesh.system import files, paths

# --- the command of a launch ---------------------------------------------------------------------


def minted(record: Record) -> Record:
    """The record with a new conversation, if sesh chooses the id and it has none."""
    kit = record.spec.kit
    if kit is None or kit.conversation != "minted" or record.agent.conversation:
        return record
    return replace(record, agent=replace(record.agent, conversation=new_conversation()))


def new_conversation() -> str:
    """A random UUID. (Importing `uuid` takes longer than this.)"""
    raw = bytearray(os.urandom(16))
    raw[6] = raw[6] & 0x0F | 0x40
    raw[8] = raw[8] & 0x3F | 0x80
    text = raw.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))


def first_mode(record: Record) -> LaunchMode:
    """How a new session is launched."""
    if record.agent.forked_from:
        return LaunchMode.FORK
    return LaunchMode.RESUME if record.agent.prompted else LaunchMode.START


def command(record: Record, stem: str, hook: list[str], mode: LaunchMode) -> tuple[str, ...]:
    """The command line of a launch. `stem` is the path of its files; `hook` calls sesh."""
    spec, kit = record.spec, record.spec.kit
    if kit is None:
        return spec.command
    words: tuple[str, ...] = getattr(kit, mode)
    if _prompted(record, mode):
        words += kit.prompt
    origin = record.agent.forked_from
    known = {
        "{conversation}": record.agent.conversation or "",
        "{parent}": origin.conversation if origin else "",
        "{hooks}": codex.notify(hook) if kit.kind == "codex" else f"{stem}.hooks",
        "{prompt}": spec.prompt or "",
    }
    return (*spec.command, *(_filled(word, known) for word in words))


def _prompted(record: Record, mode: LaunchMode) -> bool:
    """Does the launch pass a prompt? Only at the beginning of a conversation."""
    kit, given = record.spec.kit, record.spec.prompt is not None
    return bool(kit and kit.prompt) and given and mode is not LaunchMode.RESUME


def _filled(word: str, known: Mapping[str, str]) -> str:
    for name, value in known.items():
        if name in word:
            return word.replace(name, value)
    return word


# --- its files -----------------------------------------------------------------------------------


def contents(
    record: Record, variables: Variables, hook: list[str], mode: LaunchMode
) -> dict[str, bytes]:
    """The files of a launch, by suffix."""
    kit = record.spec.kit
    if kit is None:
        return {}
    equipment = {
        "kind": kit.kind,
        "home": agent_files.home(kit.kind, variables),
        "rules": [to_plain(rule) for rule in rule_files.load(kit.rules)] if kit.rules else [],
        "begun": _size(paths.transcript(record.id)),
        "prompted": _prompted(record, mode),
        "conversation": record.agent.conversation if kit.conversation == "minted" else None,
    }
    made = {".kit": quick_json.dumps(equipment).encode() + b"\n"}
    if kit.kind == "claude":
        made[".hooks"] = claude.settings(hook).encode() + b"\n"
    return made


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:
        return 0


def stage(record: Record, variables: Variables, stem: str, mode: LaunchMode) -> None:
    """Write the files of a launch on this machine."""
    files.make_private(os.path.dirname(stem))
    made = contents(record, variables, own_hook(record), mode)
    for ending, data in made.items():
        files.write_private(stem + ending, data, durable=False)


def stage_elsewhere(
    record: Record, variables: Variables, stem: str, hook: list[str], mode: LaunchMode
) -> tuple[tuple[str, ...], dict[str, bytes]]:
    """The command of a launch in another place, and the files to put there, by suffix. Files that
    only sesh reads are written on this machine."""
    made = contents(record, variables, hook, mode)
    if ".kit" in made:
        path = f"{record.place.private_run}/{record.launch}.kit"
        files.write_private(path, made.pop(".kit"), durable=False)
    return command(record, stem, hook, mode), made


def own_hook(record: Record) -> list[str]:
    """The command that the agent's hooks run."""
    assert record.spec.kit is not None
    return [*paths.own_command(), "hook", record.spec.kit.kind]
