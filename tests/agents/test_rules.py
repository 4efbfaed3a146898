"""Rules for titles and screens: what they match, where they come from, and what is refused."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sesh.agents import rule_files, rules
from sesh.agents.rules import MEANINGS, PLACES, WHATS, Rule, from_plain, match, to_plain
from sesh.model.errors import SeshError, StateError

NAMES = ["aider", "claude", "codex", "gemini", "opencode"]


@pytest.fixture(autouse=True)
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A config directory of the test's own; the directory of its rules."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    directory = tmp_path / "sesh" / "rules"
    directory.mkdir(parents=True)
    return directory


def said(name: str, place: str, text: str) -> tuple[str, str] | None:
    """What the rules make of it."""
    found = match(rule_files.load(name), place, text)
    return (found.means, found.what) if found else None


# --- what comes with sesh ------------------------------------------------------------------------


def test_all_builtin_templates_are_valid() -> None:
    assert rule_files.names() == NAMES
    for name in NAMES:
        found = rule_files.load(name)
        assert found
        assert len({rule.label for rule in found}) == len(found)
        assert all(rule.name == name and rule.version > 0 for rule in found)


@pytest.mark.parametrize(
    ("name", "title", "means"),
    [
        ("claude", "✳ Claude Code", ("idle", "")),
        ("claude", "⠂ Fix the login", ("busy", "")),
        ("claude", "⣿", ("busy", "")),
        ("claude", "Fix ⠂ ✳", None),
        ("claude", "", None),
        ("codex", "⠋ shop", ("busy", "")),
        ("codex", "[ ! ] Action Required - shop", ("waiting", "permission")),
        ("codex", "[ . ] Action Required", ("waiting", "permission")),
        ("codex", "⠋ [ ! ] Action Required", ("waiting", "permission")),
        ("codex", "shop", None),
        ("gemini", "◇  Ready (proj)                  ", ("idle", "")),
        ("gemini", "✦  Working… (proj)", ("busy", "")),
        ("gemini", "✋  Action Required (proj)", ("waiting", "permission")),
        ("opencode", "OpenCode", None),
        ("aider", "vm", None),
    ],
)
def test_titles(name: str, title: str, means: tuple[str, str] | None) -> None:
    assert said(name, "title", title) == means


CLAUDE_TRUST = """\
 Quick safety check: Is this a project you created or one you trust? (Like your own code, a
 well-known open source project, or work from your team).

 ❯ 1. Yes, I trust this folder
   2. No, exit

 Enter to confirm · Esc to cancel
"""
CLAUDE_BASH = """\
 Bash command
   rm -rf build
 Do you want to proceed?
 ❯ 1. Yes
   2. No, and tell Claude what to do differently (esc)
"""
CLAUDE_MODE = """\
────────────────────────────────────────────────────────
  Make auto mode your default permission mode?

  Auto mode lets Claude handle permission prompts automatically.

  ❯ Yes, set auto mode as my default permission mode
    No, keep manual mode
"""
CLAUDE_THEME = """\
 Choose the text style that looks best with your terminal
 To change this later, run /theme
 ❯ ✔ Auto (match terminal)
     Dark mode
"""
CLAUDE_OTHER = """\
────────────────────────────────────────────────────────
  Whatever a later version asks
  ❯ Left
    Right
  Enter to confirm · Esc to cancel
"""
CLAUDE_INPUT = """
────────────────────────────────────────────────────────
❯
────────────────────────────────────────────────────────
  ⏸ manual mode on · ? for shortcuts
"""
CODEX_NEW = """\
  Where should the new conversation run?


› 1. Use current Git worktree  Keep using the current working directory
  2. Create new Git worktree   Create a separate checkout of this repository in another directory

  enter select · esc back
"""
CODEX_TRUST = """\
  Trust this folder? Codex can read, edit, and run files here, subject to your permission settings.
  trust these files. Your trust decision will be saved.
› 1. Trust and continue
  2. Back to Agent Command Center
  enter continue · esc back
"""
CODEX_LOGIN = """\
  Choose how you want to use Codex.
> 1. Sign in with ChatGPT
     Usage included with Plus, Pro, Business, and Enterprise plans
  2. Sign in with Device Code
     Sign in from another device with a one-time code
  3. Sign in another way
     Use an API key or another provider
  Press enter to continue
"""
CODEX_INPUT = """
› Ask Codex to do anything

  stub default · /home/ada/work
  ← for agents · ? for shortcuts
"""
OPENCODE = "  ┃  Build · Big Pickle\n  ╹▀▀▀\n   {} tab agents  ctrl+p commands\n"


@pytest.mark.parametrize(
    ("name", "screen", "means"),
    [
        ("claude", CLAUDE_TRUST, ("waiting", "input")),
        ("claude", CLAUDE_BASH, ("waiting", "permission")),
        ("claude", "  Select login method:\n  ❯ 1. Claude account\n", ("waiting", "login")),
        ("claude", "❯\n────\n   Not logged in · Run /login\n", ("waiting", "login")),
        ("claude", "❯\n────\n  ? for shortcuts\n", None),
        ("claude", CLAUDE_MODE, ("waiting", "input")),
        ("claude", CLAUDE_THEME, ("waiting", "input")),
        ("claude", CLAUDE_OTHER, ("waiting", "input")),
        (
            "claude",
            CLAUDE_BASH.replace("❯ 1", "  1").replace("  2", "❯ 2"),
            ("waiting", "permission"),
        ),
        ("codex", CODEX_NEW, ("waiting", "input")),
        ("codex", CODEX_TRUST, ("waiting", "input")),
        ("codex", CODEX_LOGIN, ("waiting", "login")),
        ("codex", CODEX_INPUT, None),
        # what somebody has said, above a line for input
        *((("claude", text + CLAUDE_INPUT, None)) for text in (CLAUDE_TRUST, CLAUDE_BASH)),
        *((("claude", text + CLAUDE_INPUT, None)) for text in (CLAUDE_MODE, CLAUDE_OTHER)),
        ("codex", CODEX_NEW + CODEX_INPUT, None),
        ("claude", "Do you want to go on?\n> of course", None),
        ("opencode", OPENCODE.format("■■■  esc interrupt "), ("busy", "")),
        ("opencode", OPENCODE.format(""), ("idle", "")),
        ("aider", "Add file? (Y)es/(N)o/(D)on't ask again [Yes]:\n\n\n", ("waiting", "input")),
        ("aider", "Repo-map: disabled\n──────\n> \n\n", ("idle", "")),
        ("aider", "──────\n> hello\n\n", None),
        ("aider", "the end of <b>\n", None),
        ("codex", "[ ! ] Action Required", None),
        *((name, "\n \n\t\n", None) for name in NAMES),
    ],
)
def test_screens(name: str, screen: str, means: tuple[str, str] | None) -> None:
    assert said(name, "screen", screen) == means


def test_answered_questions_do_not_count() -> None:
    asked = "Drop it? (Y)es/(N)o [Yes]: y\n"
    assert said("aider", "screen", asked + "\n> \n") == ("idle", "")
    assert said("aider", "screen", asked + "one\n\ntwo\n") is None


# --- matching ------------------------------------------------------------------------------------


def rule(place: str = "title", number: int = 1, **tests: object) -> Rule:
    return from_plain(
        {"name": "mine", "version": 3, "place": place, "number": number, "means": "busy", **tests}
    )


def test_the_first_rule_that_matches_wins_and_is_named() -> None:
    mine = [rule(number=1, starts="x"), rule(number=2, starts="a"), rule(number=3, contains=["b"])]
    found = match(mine, "title", "ab")
    assert found is not None
    assert found.label == "mine/3 title 2"
    assert match(mine, "screen", "ab") is None


def test_all_tests_of_a_rule_must_hold() -> None:
    one = [rule(starts="a", ends="z", contains=["m", "n"], between=["a", "c"])]
    assert match(one, "title", "  a mn z ")
    for text in ("b mn z", "a mn y", "a m z", "a n z"):
        assert match(one, "title", text) is None
    assert match([rule()], "title", "anything") is None, "a rule without a test fits nothing"


texts = st.text(max_size=12)
pairs = st.lists(st.characters(), min_size=2, max_size=2).map(sorted)
any_rule = st.builds(
    rule,
    place=st.sampled_from(PLACES),
    number=st.integers(1, 9),
    means=st.sampled_from(MEANINGS),
    what=st.sampled_from(["", *WHATS]),
    starts=texts,
    ends=texts,
    contains=st.lists(texts, max_size=3),
    between=st.just([]) | pairs,
    lines=st.integers(0, 100),
)


@given(st.lists(any_rule, max_size=5), st.sampled_from(PLACES), st.text())
def test_any_text_is_answered_and_a_rule_survives_json(
    some: list[Rule], place: str, text: str
) -> None:
    again = [from_plain(json.loads(json.dumps(to_plain(one)))) for one in some]
    assert again == some
    found = match(some, place, text)
    assert found is None or (found in some and found.place == place)


@pytest.mark.parametrize(
    "change",
    [
        {"means": None},
        {"number": "1"},
        {"number": True},
        {"between": ["a"]},
        {"contains": "abc"},
        {"contains": [1]},
        {"more": 1},
    ],
)
def test_invalid_plain_values_of_a_rule(change: dict[str, object]) -> None:
    with pytest.raises((ValueError, TypeError)):
        from_plain({**to_plain(rule(starts="a")), **change})


def test_matching_imports_next_to_nothing() -> None:
    probe = (
        "import sys; before = {*sys.modules}; import sesh.agents.rules; "
        "print(*{*sys.modules} - before)"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", probe],
        capture_output=True,
        text=True,
        cwd=Path(rules.__file__).parents[2],
    )
    assert set(done.stdout.split()) <= {
        "sesh",
        "sesh.agents.rules",
        "sesh.agents",
        "sesh.model",
        "sesh.model.value_object",
        "__future__",
    }, done


# --- files ---------------------------------------------------------------------------------------

GOOD = 'version = 7\n[[title]]\nstarts = "mine"\nmeans = "idle"\n'


def test_the_users_rules_override_the_builtin_rules(own: Path) -> None:
    (own / "claude.toml").write_text(GOOD)
    (own / "other.toml").write_text(GOOD)
    (found,) = rule_files.load("claude")
    assert found.label == "claude/7 title 1"
    assert rule_files.names() == sorted([*NAMES, "other"])


def test_a_string_or_a_list_that_is_contained(own: Path) -> None:
    text = 'version = 1\n[[screen]]\ncontains = {}\nmeans = "busy"\n'
    for words, parts in (('"a"', ("a",)), ('["a", "b"]', ("a", "b"))):
        (own / "mine.toml").write_text(text.format(words))
        assert rule_files.load("mine")[0].contains == parts


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "version should be"),
        ("version = 0\n", "version should be"),
        ("version = true\n", "version should be"),
        ("version = 1\nrule = 1\n", "unknown key rule"),
        ("version = 1\ntitle = 3\n", "title should be tables"),
        ("version = 1\n[title]\n", "title should be tables"),
        ('version = 1\n[[title]]\nmeans = "busy"\n', "title 1: has no test"),
        ('version = 1\n[[title]]\nstarts = ""\nmeans = "busy"\n', "starts should be a string"),
        ('version = 1\n[[title]]\nstarts = "a"\n', "means should be one of busy, waiting, idle"),
        ('version = 1\n[[title]]\nstarts = "a"\nmeans = "bored"\n', "means should be one of"),
        ('version = 1\n[[title]]\nstarts = "a"\nmeans = ["busy"]\n', "means should be one of"),
        ('version = 1\n[[title]]\nstarts = "a"\nmeans = "waiting"\n', "what should be one of"),
        (
            'version = 1\n[[title]]\nstarts = "a"\nmeans = "busy"\nwhat = "input"\n',
            "what needs",
        ),
        ('version = 1\n[[title]]\nstart = "a"\nmeans = "busy"\n', "unknown key start"),
        (
            'version = 1\n[[title]]\nstarts = "a"\nlines = 3\nmeans = "busy"\n',
            "only for screens",
        ),
        ('version = 1\n[[screen]]\nends = "a"\nlines = 0\nmeans = "busy"\n', "from 1 to 100"),
        ('version = 1\n[[screen]]\nbetween = ["b", "a"]\nmeans = "busy"\n', "lower one first"),
        ('version = 1\n[[screen]]\nbetween = ["ab", "c"]\nmeans = "busy"\n', "two characters"),
        ('version = 1\n[[screen]]\ncontains = []\nmeans = "busy"\n', "contains should be"),
        ("version = ", "not valid TOML"),
        ("version = " + "9" * 5000, "not valid TOML"),
    ],
)
def test_wrong_rules_are_refused(own: Path, text: str, told: str) -> None:
    (own / "claude.toml").write_text(text)
    with pytest.raises(StateError, match=told):
        rule_files.load("claude")


def test_rules_that_do_not_exist() -> None:
    with pytest.raises(SeshError, match="no rules named nobodys; available: aider"):
        rule_files.load("nobodys")
    for name in ("../claude", "", "a/b"):
        with pytest.raises(SeshError, match="invalid name for rules"):
            rule_files.load(name)


def test_rules_must_be_a_regular_file(own: Path, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").write_text(GOOD)
    (own / "claude.toml").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(StateError, match="not a regular file"):
        rule_files.load("claude")
