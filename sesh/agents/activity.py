"""What an agent is doing, by the most trusted source: registry, title, hooks, screen.

Two things rule out "idle": a dialog on the screen, and a prompt that the launch passed to the agent
and that the agent has not taken yet. `ID.GEN.kit` records that there is such a prompt; hooks, the
transcript and titles show that it was taken.

The caller must have checked that the agent is alive. This module only reads files, so fast lanes
may use it. Titles come from the session's transcript, which contains every title that the agent
set. The screen comes from the last look at it (`agents/screen.py`) and counts until the session
prints more. Without an answer from any source the activity is unknown.
"""

from __future__ import annotations

import os
import time

from sesh.agents import questions
from sesh.agents.rules import Rule, from_plain, match
from sesh.model.agents import claude, codex
from sesh.model.agents.hook_event import BUSY, IDLE, WAITING, HookEvent
from sesh.model.text import quick_json
from sesh.model.value_object import Any, Value, replace
from sesh.places.agent_files import Launch, last_hook
from sesh.system import quick_read

REGISTRY, MARK, TITLE, HOOK, SCREEN = "registry", "mark", "title", "hook", "screen"
PROMPT = "prompt"  # the prompt of the launch, not taken yet
NOT_TAKEN = "input: its prompt was not taken"
_PATIENCE = 60.0  # seconds: an agent that is idle for longer will not take the prompt any more
_TAIL = 1 << 16  # bytes at the end of a transcript that are searched for titles and marks
_PRINTED = 1 << 22  # bytes: an agent that printed more was busy
_TITLES = (b"\x1b]0;", b"\x1b]2;")
_MARKS = (b"\x1b]7501;",)  # `state=working:app=codex`
_ENDS = (b"\x07", b"\x1b\\")
_LONGEST = 1 << 10  # bytes of a title or mark
TOLERANCE = 3.0  # seconds by which two sources may differ about the start of a wait


class Activity(Value):
    """What an agent does, since when, and by which source."""

    kind: str
    source: str
    what: str | None = None  # what it waits for
    since: float | None = None
    rule: str | None = None  # the rule that matched a title or a screen
    background: bool | None = None  # idle, while a process that it started still runs
    trouble: bool = False  # waits because of an error, not for an answer: it takes prompts
    question: dict[str, Any] | None = None  # what it asks, as in JSON


class KitFile(Value):
    """What a launch wrote about its agent (`ID.GEN.kit`), for readers that load no template."""

    kind: str
    home: str = ""  # the agent's own directory, with its registry
    rules: tuple[Rule, ...] = ()
    begun: int = 0  # size of the transcript at the launch: older launches wrote the part before
    prompted: bool = False  # the launch passed it a prompt
    conversation: str | None = None  # the conversation that the launch chose

    @property
    def by_screen(self) -> bool:
        return any(rule.place == SCREEN for rule in self.rules)


class Signals(Value):
    """What each source shows; None: nothing."""

    registry: claude.Registered | None = None
    title: tuple[Rule, float] | None = None  # or a mark; and when the transcript last grew
    hook: HookEvent | None = None
    screen: Activity | None = None
    taken: bool | None = True  # has it taken the prompt of its launch? None: unknown
    late: bool = False  # it had enough time to take the prompt


# --- the decision, PURE --------------------------------------------------------------------------


def decide(signals: Signals) -> Activity | None:
    """The most trusted source decides; others add what it cannot know. (An agent may report idle
    while a dialog is on its screen.)"""
    found = _trusted(signals)
    if found is None or found.kind != IDLE:
        return found
    if signals.screen is not None and signals.screen.kind == WAITING:
        return signals.screen
    if signals.taken or (signals.taken is None and signals.late):
        return found
    if signals.late:
        return Activity(WAITING, PROMPT, NOT_TAKEN, found.since, trouble=True)
    return Activity(BUSY, PROMPT)


def _trusted(signals: Signals) -> Activity | None:
    hook = signals.hook
    if signals.registry is not None and signals.registry.activity is not None:
        return _registered(signals.registry, hook)
    if signals.title is not None:
        return _titled(*signals.title, hook)
    if hook is not None and hook.activity is not None:
        return Activity(hook.activity, HOOK, hook.what, hook.at, trouble=hook.lasting)
    return signals.screen


def _registered(found: claude.Registered, hook: HookEvent | None) -> Activity | None:
    """After an error the registry shows idle; only hooks name the tool that it asks for."""
    assert found.activity is not None
    if found.activity == IDLE and hook and hook.lasting:
        return Activity(WAITING, HOOK, hook.what, hook.at, trouble=True)
    if found.activity != WAITING:
        background = found.background if found.activity == IDLE else None
        return Activity(found.activity, REGISTRY, None, found.since, background=background)
    what = found.what
    if what == "permission" and hook:
        what = claude.permission(hook.tool)
    return Activity(WAITING, REGISTRY, what, found.since)


def _titled(rule: Rule, printed: float, hook: HookEvent | None) -> Activity:
    """The title of a waiting agent may show idle."""
    if rule.means == IDLE and hook and hook.activity == WAITING:
        return Activity(WAITING, HOOK, hook.what, hook.at, trouble=hook.lasting)
    agrees = hook is not None and hook.activity == rule.means
    since = hook.at if hook and agrees else printed if rule.means == IDLE else None
    return Activity(rule.means, rule.place, rule.what or None, since, rule.label)


# --- the sources ---------------------------------------------------------------------------------


def of(launch: Launch) -> Activity | None:
    """What the agent of a living session is doing; None: unknown."""
    return examine(launch)[0]


def examine(launch: Launch, seen: Activity | None = None) -> tuple[Activity | None, bool]:
    """The same, and whether a look at the screen could add something. `seen` is the result of a
    look that the caller has just taken."""
    kit = read_kit(launch)
    if kit is None:
        return None, False
    registry = None if launch.in_container else _registry(launch, kit)
    title = None if registry and registry.activity else _title(launch, kit)
    fresh, screen = _seen_screen(launch) if kit.by_screen else (True, None)
    hook = last_hook(launch)
    signals = Signals(registry, title, hook, seen or screen)
    found = decide(signals)
    if kit.prompted and found and found.kind == IDLE:
        taken, late = _taken(launch, kit, signals), _late(launch, found)
        found = decide(replace(signals, taken=taken, late=late))
    if found and found.kind == WAITING and found.question is None:
        found = _asking(launch, kit, found, hook)
    doubtful = found is None or found.source == PROMPT or found.kind == IDLE
    return found, doubtful and not fresh and not launch.in_container


def _asking(launch: Launch, kit: KitFile, found: Activity, hook: HookEvent | None) -> Activity:
    """Add the question: from the hook that reported the wait or, for Codex, from its transcript."""
    asked = None
    older = hook is not None and hook.at < (found.since or 0.0) - TOLERANCE
    if hook and hook.activity == WAITING and hook.what == found.what and not older:
        asked = questions.of_tool(hook.tool, hook.input, HOOK) if hook.input is not None else None
    elif found.what == "permission" and kit.kind == "codex" and not launch.in_container:
        path = _rollout(launch.pid)
        tool, given = codex.last_call(_end_of(path)) if path else (None, None)
        asked = questions.of_tool(tool, given, questions.TRANSCRIPT)
        found = replace(found, what=claude.permission(tool))
    return replace(found, question=questions.plain(asked)) if asked else found


def read_kit(launch: Launch) -> KitFile | None:
    try:
        found = quick_json.loads(quick_read.read(f"{launch.stem}.kit"))
        rules = tuple(from_plain(rule) for rule in found.pop("rules"))
        return KitFile(**found, rules=rules)
    except (OSError, ValueError, TypeError, AttributeError, KeyError):
        return None


def _registry(launch: Launch, kit: KitFile) -> claude.Registered | None:
    """The entry of exactly this process in Claude's registry."""
    if kit.kind != "claude" or not kit.home:
        return None
    try:
        found = claude.parse_registry(quick_read.read(f"{kit.home}/sessions/{launch.pid}.json"))
    except OSError:
        return None
    itself = found and str(found.pid) == launch.pid and found.start == launch.start
    return found if itself else None


def _title(launch: Launch, kit: KitFile) -> tuple[Rule, float] | None:
    """What its escape sequences show: a mark for terminals, or its title."""
    try:
        printed, moment = _tail(launch.transcript, kit.begun)
    except OSError:
        return None
    for place, begins in ((MARK, _MARKS), (TITLE, _TITLES)):
        text = last_sequence(printed, begins)
        rule = match(kit.rules, place, text) if text is not None else None
        if rule:
            return rule, moment
    return None


def _taken(launch: Launch, kit: KitFile, signals: Signals) -> bool | None:
    """Has it taken the prompt of its launch, so that idle means the end of that turn? Proofs: a
    hook, or a newer entry of the registry; an answer in the agent's transcript; that it was ever
    busy. None: unknown."""
    hook, registry = signals.hook, signals.registry
    if hook and hook.prompted:
        ended = registry.since if registry and registry.activity == IDLE else None
        if hook.activity != BUSY or (ended or 0.0) > hook.at:
            return True
    conversation = (registry and registry.conversation) or (hook and hook.conversation)
    if conversation and kit.conversation not in (None, conversation):
        return True  # the user has typed /clear or /resume since
    if kit.kind == "claude" and conversation and not launch.in_container:
        from glob import escape, glob

        kept = glob(f"{escape(kit.home)}/projects/*/{conversation}.jsonl")
        return any(claude.turn_over(_end_of(path)) for path in kept)
    if kit.kind == "codex" and not launch.in_container:
        kept = [path for path in [_rollout(launch.pid)] if path]
        return any(codex.turn_over(_end_of(path)) for path in kept)
    return was_busy(launch) or was_busy_on_screen(launch)


def _late(launch: Launch, found: Activity) -> bool:
    """Was it idle for long enough to take a prompt?"""
    try:
        launched = os.stat(f"{launch.stem}.kit").st_mtime
    except OSError:
        return True
    return time.time() - max(launched, found.since or 0.0) >= _PATIENCE


def _end_of(path: str) -> bytes:
    try:
        return _tail(path, 0)[0]
    except OSError:
        return b""


def was_busy(launch: Launch) -> bool | None:
    """Has a mark or a title of this launch ever shown busy? None: no rule could tell, or the output
    is gone."""
    kit = read_kit(launch)
    places = {rule.place for rule in kit.rules if rule.means == BUSY} if kit else set()
    if kit is None or not places & {MARK, TITLE}:
        return None
    from sesh.system import files

    try:
        with files.open_binary(launch.transcript) as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(kit.begun if kit.begun <= size else 0)
            printed = file.read(_PRINTED + 1)
    except OSError:
        return None
    return len(printed) > _PRINTED or _says_busy(printed, kit.rules)


def _says_busy(printed: bytes, rules: tuple[Rule, ...]) -> bool:
    for place, begins in ((MARK, _MARKS), (TITLE, _TITLES)):
        for begin in begins:
            for part in printed.split(begin)[1:]:
                text = last_sequence(begin + part, (begin,))
                rule = match(rules, place, text) if text is not None else None
                if rule and rule.means == BUSY:
                    return True
    return False


def _tail(path: str, begun: int) -> tuple[bytes, float]:
    """The end of the output of this launch, and when it was written."""
    fd = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        status = os.fstat(fd)
        first = max(begun if begun <= status.st_size else 0, status.st_size - _TAIL)
        return os.pread(fd, _TAIL, first), status.st_mtime
    finally:
        os.close(fd)


def last_sequence(printed: bytes, begins: tuple[bytes, ...]) -> str | None:
    """The text of the last complete escape sequence of a kind."""
    end = len(printed)
    while (at := max(printed.rfind(begin, 0, end) for begin in begins)) >= 0:
        text = printed[printed.index(b";", at) + 1 : at + _LONGEST]
        ends = [found for mark in _ENDS if (found := text.find(mark)) >= 0]
        if ends:
            return text[: min(ends)].decode(errors="replace")
        end = at  # cut off, or being written now
    return None


def _rollout(pid: str) -> str | None:
    """The transcript that Codex, or a child of it, holds open; of several, the newest."""
    from sesh.system import processes

    opened = processes.open_in_family(int(pid))
    try:
        return max((path for path in opened if "/rollout-" in path), key=os.path.getmtime)
    except (OSError, ValueError):  # none, or gone just now
        return None


def _last_look(launch: Launch) -> dict[str, Any]:
    """What `agents/screen` has written about its last look; empty when there was none."""
    try:
        found = quick_json.loads(quick_read.read(f"{launch.stem}.seen"))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _seen_screen(launch: Launch) -> tuple[bool, Activity | None]:
    """Is the last look at the screen still valid (nothing was printed since), and what did it
    show?"""
    look = _last_look(launch)
    look.pop("worked", None)
    try:
        fresh = os.stat(launch.transcript).st_mtime < look.pop("at")
        return fresh, Activity(**look) if fresh and look else None
    except (OSError, TypeError, KeyError):
        return False, None


def was_busy_on_screen(launch: Launch) -> bool | None:
    """True when a look at its screen ever found it busy; else None."""
    return _last_look(launch).get("worked") is True or None


# --- as JSON -------------------------------------------------------------------------------------


def fields(found: Activity | None) -> dict[str, Any]:
    """The fields of an activity in JSON."""
    since = found.since if found else None
    moment = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(since)) if since else None
    return {
        "activity": found.kind if found else None,
        "waiting_for": found.what if found and found.kind == WAITING else None,
        "activity_since": moment,
        "activity_source": found.source if found else None,
        "background": found.background if found else None,
        "question": found.question if found and found.kind == WAITING else None,
    }


def add_to(shown: dict[str, Any], found: Activity | None) -> dict[str, Any]:
    """A session's JSON object, with the activity of its agent."""
    return {**shown, "attention": shown["attention"] or attention(found), **fields(found)}


def attention(found: Activity | None) -> str | None:
    """Why the session needs attention."""
    if found is None or found.kind != WAITING:
        return None
    return f"waits for {found.what}" if found.what else "waits for an answer"
