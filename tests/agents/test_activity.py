"""What an agent is doing: who is believed, from what was recorded of real ones."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.agents.activity import Activity, Signals, decide, last_sequence
from sesh.agents.hook_receiver import parse
from sesh.agents.rules import Rule
from sesh.model.agents import claude, codex, hook_event
from sesh.model.agents.hook_event import HookEvent, merge
from sesh.model.value_object import replace
from sesh.terminal import session_table

HOOKS = Path(__file__).parents[1] / "data" / "hooks"
REGISTRY = Path(__file__).parents[1] / "data" / "registry"
BUSY = Rule("demo", 1, "title", 1, "busy", starts="*")
IDLE = Rule("demo", 1, "title", 2, "idle", starts="-")
WAITS = Rule("demo", 1, "mark", 1, "waiting", what="permission", starts="!")


def event(kind: str, name: str) -> HookEvent | None:
    return parse(kind, (HOOKS / kind / f"{name}.json").read_bytes(), 100.0)


def registered(name: str) -> claude.Registered:
    found = claude.parse_registry((REGISTRY / f"claude-{name}.json").read_bytes())
    assert found is not None
    return found


# --- events --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "activity", "what"),
    [
        ("session-start-startup", "idle", None),
        ("session-start-resume", "idle", None),
        ("session-start-clear", "idle", None),
        ("user-prompt-submit", "busy", None),
        ("pre-tool-use", "busy", None),
        ("post-tool-use", "busy", None),
        ("post-tool-use-failure", "busy", None),
        ("permission-request", "waiting", "permission: Bash"),
        ("permission-request-of-subagent", "waiting", "permission: Bash"),
        ("notification-permission-prompt", "waiting", "permission"),
        ("notification-idle-prompt", "idle", None),
        ("stop", "idle", None),
        ("stop-failure-rate-limit", "waiting", "rate limit"),
        ("stop-failure-authentication-failed", "waiting", "login"),
        ("session-end-other", None, None),
    ],
)
def test_the_events_of_claude(name: str, activity: str | None, what: str | None) -> None:
    found = event("claude", name)
    assert found is not None
    assert (found.activity, found.what) == (activity, what)
    assert found.conversation


@pytest.mark.parametrize(
    "name",
    [
        *("session-start-compact", "pre-compact", "post-compact", "session-end-clear"),
        *("pre-tool-use-of-subagent", "post-tool-use-of-subagent", "subagent-start"),
        *("subagent-stop", "subagent-stop-compact"),
    ],
)
def test_events_that_change_nothing(name: str) -> None:
    assert event("claude", name) is None


def test_the_events_of_codex() -> None:
    found = event("codex", "notify")
    assert found is not None
    assert (found.activity, found.prompted) == ("idle", True)
    assert found.conversation
    asked = event("codex", "hook-permission-request")
    assert asked is not None
    assert (asked.activity, asked.what) == ("waiting", "permission: Bash")


def test_a_conversation_exists_after_the_first_prompt() -> None:
    """Claude refuses to resume one that has no transcript, and to begin one that has."""
    told = {name: event("claude", name) for name in ("session-start-startup", "stop")}
    assert [one.prompted for one in told.values() if one] == [False, True]
    resumed = event("claude", "session-start-resume")
    assert resumed is not None
    assert resumed.prompted


@given(st.binary(max_size=300) | st.text().map(str.encode))
def test_any_input_is_an_event_or_nothing(raw: bytes) -> None:
    for kind in ("claude", "codex"):
        assert parse(kind, raw, 1.0) is None or isinstance(parse(kind, raw, 1.0), HookEvent)


anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=9),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=5,
)
keys = st.sampled_from(
    ["hook_event_name", "session_id", "tool_name", "error", "reason", "source", "agent_id", "type"]
)


@given(st.dictionaries(keys, anything | st.sampled_from(claude.EVENTS)))
def test_events_with_any_fields_are_parsed(fields: dict[str, object]) -> None:
    for found in (claude.parse_event(fields, 1.0), codex.parse_event(fields, 1.0)):
        if found is not None:
            assert hook_event.decode(hook_event.encode(found)) == found


@pytest.mark.parametrize(
    ("said", "what"),
    [
        ("5-hour limit reached ∙ resets 3pm", "rate limit until 3pm"),
        ("Your limit will reset at 3pm (Europe/Berlin).", "rate limit until 3pm (Europe/Berlin)"),
        ("API Error: Request rejected (429)", "rate limit"),
        ("resets " + "x" * 5000, "rate limit until " + "x" * 40),
        (None, "rate limit"),
    ],
)
def test_until_when_a_rate_limit_lasts(said: str | None, what: str) -> None:
    failure = {
        "hook_event_name": "StopFailure",
        "error": "rate_limit",
        "last_assistant_message": said,
    }
    found = claude.parse_event(failure, 1.0)
    assert found is not None
    assert found.what == what


@pytest.mark.parametrize(
    "bad", ["--dangerously-skip-permissions", "../../x", "a b", "", "x" * 101, "ä", "*", "a\nb", 7]
)
def test_invalid_ids_of_conversations(bad: object) -> None:
    """It will be an argument of the next launch, and whoever is in a container may have said it."""
    asked = {"hook_event_name": "Stop", "session_id": bad}
    found = claude.parse_event(asked, 1.0)
    assert found is not None
    assert found.conversation is None


def test_long_texts_are_cut() -> None:
    asked = {"hook_event_name": "PermissionRequest", "tool_name": "x" * 10_000}
    found = claude.parse_event(asked, 1.0)
    assert found is not None
    assert found.what is not None
    assert len(found.what) < 300


@pytest.mark.parametrize("raw", [b"", b"{}", b"[]", b'{"at":"1"}', b"\xff", b"[" * 100_000])
def test_a_file_that_sesh_did_not_write_is_ignored(raw: bytes) -> None:
    assert hook_event.decode(raw) is None


def test_the_input_of_a_tool_is_kept() -> None:
    asked = event("claude", "permission-request")
    assert asked is not None
    given = {"command": "touch /home/ada/work/made", "description": "does what was asked"}
    assert asked.input == given
    assert hook_event.decode(hook_event.encode(asked)) == asked
    used = event("claude", "pre-tool-use")
    assert used is not None
    assert used.input is None  # nobody is asked


def test_files_of_an_older_version_are_read() -> None:
    values = {name: getattr(HookEvent(1.0, "Stop", "idle"), name) for name in HookEvent.fields}
    older = {name: one for name, one in values.items() if name not in ("input", "taken")}
    assert hook_event.decode(json.dumps(older).encode()) == HookEvent(1.0, "Stop", "idle")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ({"content": "x" * 100_000, "file_path": "a"}, {"file_path": "a"}),
        ({str(number): "x" * 3000 for number in range(100)}, None),
        ("text", None),
        ({}, {}),
    ],
)
def test_a_large_input_is_cut(given: object, kept: dict[str, str] | None) -> None:
    found = hook_event.tool_input(given)
    if found is None or kept is None:
        assert found is kept
        return
    assert kept.items() <= found.items()
    assert len(json.dumps(found)) < 1 << 16


# --- one after another ---------------------------------------------------------------------------


def test_the_late_reminder_does_not_forget_the_tool() -> None:
    asked = event("claude", "permission-request")
    reminder = event("claude", "notification-permission-prompt")
    assert asked is not None
    assert reminder is not None
    found = merge(asked, reminder)
    assert (found.what, found.input) == ("permission: Bash", asked.input)


def test_the_late_reminder_is_of_the_same_wait() -> None:
    asked = HookEvent(1.0, "PermissionRequest", "waiting", "permission: Bash", tool="Bash")
    reminder = HookEvent(7.0, "Notification", "waiting", "permission")
    assert merge(asked, reminder).at == 1.0
    other = HookEvent(7.0, "PermissionRequest", "waiting", "permission: Edit", tool="Edit")
    assert merge(asked, other).at == 7.0
    again = HookEvent(
        7.0, "PermissionRequest", "waiting", "permission: Bash", input={"command": "x"}
    )
    assert merge(asked, again).at == 7.0
    assert merge(asked, again).input == {"command": "x"}
    assert merge(HookEvent(1.0, "Stop", "idle"), HookEvent(7.0, "Stop", "idle")).at == 7.0


def test_another_conversation_begins_with_nothing() -> None:
    old = HookEvent(1.0, "Stop", "idle", conversation="one", prompted=True, tool="Bash")
    new = HookEvent(2.0, "SessionStart", "idle", conversation="two")
    assert merge(old, new) == new


# --- who is believed -----------------------------------------------------------------------------


def hook(activity: str, what: str | None = None, **more: object) -> HookEvent:
    return HookEvent(100.0, "x", activity, what, **more)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("signals", "kind", "what", "source"),
    [
        # nothing fires after Esc, or while a tool runs that was permitted: the registry knows
        (Signals(registered("idle"), None, hook("busy")), "idle", None, "registry"),
        (
            Signals(registered("busy"), None, hook("waiting", "permission: Bash")),
            "busy",
            None,
            "registry",
        ),
        # but it does not know which tool
        (
            Signals(registered("waiting"), None, hook("busy", tool="Bash")),
            "waiting",
            "permission: Bash",
            "registry",
        ),
        (Signals(registered("waiting")), "waiting", "permission", "registry"),
        (Signals(registered("dialog")), "waiting", "input", "registry"),
        # a shell that it left in the background does not keep it busy
        (Signals(registered("shell"), None, hook("idle")), "idle", None, "registry"),
        # a dialog on the screen, of which the registry or a hook does not know
        (
            Signals(registered("idle"), screen=Activity("waiting", "screen", "input")),
            "waiting",
            "input",
            "screen",
        ),
        (
            Signals(hook=hook("idle"), screen=Activity("waiting", "screen", "input")),
            "waiting",
            "input",
            "screen",
        ),
        (
            Signals(registered("busy"), screen=Activity("waiting", "screen", "input")),
            "busy",
            None,
            "registry",
        ),
        # nor that it is idle because of a trouble
        (
            Signals(registered("idle"), None, hook("waiting", "login", lasting=True)),
            "waiting",
            "login",
            "hook",
        ),
        # just begun, it has no status yet
        (Signals(registered("starting"), (IDLE, 5.0)), "idle", None, "title"),
        # a title that says idle may be that of one that waits; one that says busy is right
        (Signals(title=(IDLE, 5.0), hook=hook("waiting", "input")), "waiting", "input", "hook"),
        (Signals(title=(BUSY, 5.0), hook=hook("waiting", "input")), "busy", None, "title"),
        (Signals(title=(IDLE, 5.0), hook=hook("busy")), "idle", None, "title"),
        (Signals(title=(WAITS, 5.0), hook=hook("idle")), "waiting", "permission", "mark"),
        (
            Signals(title=(IDLE, 5.0), screen=Activity("waiting", "screen", "login")),
            "waiting",
            "login",
            "screen",
        ),
        (
            Signals(title=(BUSY, 5.0), screen=Activity("waiting", "screen", "login")),
            "busy",
            None,
            "title",
        ),
        # hooks before the screen
        (
            Signals(hook=hook("busy"), screen=Activity("idle", "screen")),
            "busy",
            None,
            "hook",
        ),
        (Signals(screen=Activity("idle", "screen")), "idle", None, "screen"),
    ],
)
def test_the_order_of_trust(signals: Signals, kind: str, what: str | None, source: str) -> None:
    found = decide(signals)
    assert found is not None
    assert (found.kind, found.what, found.source) == (kind, what, source)


DIALOG = Activity("waiting", "screen", "login")
LOST = ("waiting", "input: its prompt was not taken", "prompt")


@pytest.mark.parametrize(
    ("signals", "found"),
    [
        # the hook of the start has fired, the prompt was not taken
        (Signals(registered("idle"), None, hook("idle")), ("busy", None, "prompt")),
        (Signals(registered("shell")), ("busy", None, "prompt")),
        (Signals(title=(IDLE, 5.0)), ("busy", None, "prompt")),
        (Signals(hook=hook("idle")), ("busy", None, "prompt")),
        (Signals(screen=Activity("idle", "screen")), ("busy", None, "prompt")),
        # what is not idle needs no proof
        (Signals(registered("busy")), ("busy", None, "registry")),
        (Signals(registered("waiting")), ("waiting", "permission", "registry")),
        (Signals(registered("idle"), screen=DIALOG), ("waiting", "login", "screen")),
        # it never will be
        (Signals(registered("idle"), late=True), LOST),
        (Signals(title=(IDLE, 5.0), late=True), LOST),
    ],
)
def test_it_is_not_idle_before_it_has_taken_its_prompt(
    signals: Signals, found: tuple[str, str | None, str]
) -> None:
    doing = decide(replace(signals, taken=False))
    assert doing is not None
    assert (doing.kind, doing.what, doing.source) == found
    doing = decide(replace(signals, taken=True))
    assert doing is not None
    assert doing.source != "prompt"


def test_an_agent_is_idle_after_a_while_without_any_sign() -> None:
    signals = Signals(screen=Activity("idle", "screen"), taken=None)
    doing = decide(signals)
    assert doing is not None
    assert doing.kind == "busy"
    assert decide(replace(signals, late=True)) == signals.screen


def test_work_in_the_background_and_trouble() -> None:
    background = [decide(Signals(registered(one))) for one in ("shell", "idle", "busy")]
    assert [one and one.background for one in background] == [True, False, None]
    lasting = hook("waiting", "login", lasting=True)
    for signals in (Signals(registered("idle"), None, lasting), Signals(hook=lasting)):
        doing = decide(signals)
        assert doing is not None
        assert doing.trouble
    asked = decide(Signals(registered("waiting")))
    assert asked is not None
    assert not asked.trouble


def test_the_activity_is_unknown_without_any_source() -> None:
    assert decide(Signals()) is None
    assert decide(Signals(hook=HookEvent(1.0, "SessionEnd"))) is None


def test_the_rule_that_matched_is_named() -> None:
    found = decide(Signals(title=(BUSY, 5.0)))
    assert found is not None
    assert found.rule == "demo/1 title 1"


@pytest.mark.parametrize("raw", [b"", b"[]", b'{"pid":[]}', b'{"pid":{},"status":[]}', b"\x00"])
def test_a_registry_that_is_nonsense(raw: bytes) -> None:
    found = claude.parse_registry(raw)
    assert found is None or found.activity is None


# --- titles --------------------------------------------------------------------------------------

TITLES = (b"\x1b]0;", b"\x1b]2;")


@pytest.mark.parametrize(
    ("printed", "title"),
    [
        (b"nothing", None),
        (b"\x1b]0;one\x07 and \x1b]2;two\x1b\\ and more", "two"),
        (b"\x1b]2;one\x07\x1b]0;two\x07", "two"),
        (b"\x1b]0;whole\x07\x1b]0;cut o", "whole"),
        (b"\x1b]0;\x07", ""),
        (b"\x1b]0;" + b"x" * 5000, None),
        (b"\x1b]0;\xff\xfe\x07", "��"),
        ("\x1b]0;✳ Claude\x07".encode(), "✳ Claude"),
    ],
)
def test_the_last_title(printed: bytes, title: str | None) -> None:
    assert last_sequence(printed, TITLES) == title


@given(st.binary(max_size=500))
def test_whatever_is_printed(printed: bytes) -> None:
    found = last_sequence(printed, TITLES)
    assert found is None or isinstance(found, str)


def test_settings_name_every_event_once() -> None:
    made = json.loads(claude.settings(["/opt/it's/sesh", "hook", "claude"]))
    assert made["hooks"].keys() == set(claude.EVENTS)
    hooks = [hook for [one] in made["hooks"].values() for hook in one["hooks"]]
    assert {one["command"] for one in hooks} == {"'/opt/it'\"'\"'s/sesh' hook claude"}


# --- in the list ---------------------------------------------------------------------------------


def test_waiting_sessions_come_first() -> None:
    waits = {"name": "a", "state": "running", "attention": "waits", "activity": "waiting"}
    failed = {"name": "b", "state": "failed", "attention": "exit 1"}
    line = session_table.closing_line([failed, waits])
    assert line is not None
    assert line.startswith("2 need attention: a (waiting: sesh attach a)")
    assert line.endswith(" · b (sesh restart b, or sesh stop b to dismiss)")
