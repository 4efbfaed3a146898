"""Completions, tried in real shells: what a person gets who presses Tab.

Each shell runs in a tmux of the test's own and loads the file of this checkout, zsh and fish from
their search path by its name. Whatever the shells list is compared with the commands themselves.
"""

from __future__ import annotations

import re
import shlex
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from sesh.commands import completion, template
from sesh.model.agents.hook_event import ACTIVITIES
from sesh.model.progress import PHASES
from sesh.model.states import State
from sesh.state import events
from sesh.terminal import command_table, filters, main
from tests.conftest import need
from tests.surroundings import settle_fish
from tests.terminal.test_fast_answers import LANES
from tests.world import SESH, World, eventually

COMPLETIONS = Path(__file__).parents[1] / "completions"
PROMPT = "> "
NEW_COMMAND = "quite-a-rare-command"
CONVERSATION = "00000000-aaaa-4222-8333-444444444444"


class Terminal:
    """A shell on a screen of its own, ready to be typed into."""

    def __init__(self, world: World, shell: str) -> None:
        self.shell = shell
        self._tmux = ["tmux", "-f", "/dev/null", "-S", str(world.root / "terminal")]
        env = {**world.env, "ZDOTDIR": world.env["HOME"], "LANG": "C.UTF-8"}
        env["PATH"] = f"{world.root}/bin:{Path(SESH).parent}:{env['PATH']}"
        size = ("-x", "220", "-y", "60")
        shell_argv = _set_up(world, shell)
        self._ask("new-session", "-d", *size, "-c", str(world.cwd), *shell_argv, env=env)
        assert eventually(lambda: self.lines() == [PROMPT.strip()], 20), self.lines()

    def _ask(self, *command: str, env: dict[str, str] | None = None) -> str:
        done = subprocess.run(
            [*self._tmux, *command], env=env, capture_output=True, text=True, timeout=100
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    def lines(self) -> list[str]:
        return [line.rstrip() for line in self._ask("capture-pane", "-p").splitlines() if line]

    def tab(self, line: str) -> None:
        """Type a line on an empty screen, and Tab."""
        assert eventually(self._clear), self.lines()
        self._ask("send-keys", "-l", line)
        assert eventually(lambda: self.line() == line.rstrip()), self.lines()
        self._ask("send-keys", "Tab")

    def _clear(self) -> bool:
        """Not by Ctrl-C, which would discard what is typed next."""
        self._ask("send-keys", "C-e", "C-u", "C-l")
        return bool(eventually(lambda: self.lines() == [PROMPT.strip()], 0.5))

    def line(self) -> str:
        """What stands behind the prompt by now."""
        shown = [line for line in self.lines() if line.startswith(PROMPT)]
        return shown[-1].removeprefix(PROMPT) if shown else ""

    def listed(self) -> set[str]:
        """What the shell offers, without the descriptions."""
        offers = [line for line in self.lines() if not line.startswith(PROMPT)]
        if self.shell == "zsh":
            offers = [line.partition(" -- ")[0] for line in offers]
        if self.shell == "fish":
            offers = [re.sub(r"\([^()]*\)", "", line) for line in offers]
        return {word.rstrip("=") for line in offers for word in line.split()}


def _set_up(world: World, shell: str) -> list[str]:
    """Write the shell's start-up files; returns how to start it."""
    home, config = world.root / "home", world.root / "config" / "fish"
    if shell == "bash":
        (home / "rc").write_text(
            f"PS1='{PROMPT}'\n. {shlex.quote(str(COMPLETIONS / 'bash' / 'sesh'))}\n"
            "bind 'set show-all-if-ambiguous on' 'set completion-query-items 0'\n"
            "bind 'set page-completions off' 'set enable-bracketed-paste off'\n"
        )
        return ["bash", "--noprofile", "--rcfile", str(home / "rc"), "-i"]
    if shell == "zsh":
        (home / ".zshrc").write_text(
            f"PS1='{PROMPT}' LISTMAX=1000\nfpath=({COMPLETIONS / 'zsh'} $fpath)\n"
            "autoload -Uz compinit && compinit -u\nbindkey -e\n"
        )
        return ["zsh", "-o", "no_global_rcs", "-i"]
    (config / "completions").mkdir(parents=True)
    settle_fish(world)
    (config / "completions" / "sesh.fish").symlink_to(COMPLETIONS / "fish" / "sesh.fish")
    (config / "config.fish").write_text(
        f"function fish_prompt; echo -n '{PROMPT}'; end\n"
        "set -g fish_greeting\nset -g fish_autosuggestion_enabled 0\n"
    )
    return ["fish"]


@pytest.fixture(scope="module", params=["bash", "zsh", "fish"])
def terminal(request: pytest.FixtureRequest) -> Iterator[Terminal]:
    """A shell beside two sessions: alpha, of group ci and with tags, runs; beta has failed. No test
    changes it."""
    need("tmux")
    need(request.param)
    world = World()
    try:
        yield _furnished(world, request.param)
    finally:
        world.end()


def _furnished(world: World, shell: str) -> Terminal:
    world.start("alpha", options=("--group", "ci", "--tag", "night", "--tag", "nice"))
    world.start("beta", "sh", "-c", "exit 3")
    rare = world.root / "bin" / NEW_COMMAND
    rare.parent.mkdir()
    rare.write_text("#!/bin/sh\n")
    rare.chmod(0o755)
    (world.cwd / "only-directory").mkdir()
    project = world.root / "home" / ".claude" / "projects" / "p"
    project.mkdir(parents=True)
    for one in (CONVERSATION, CONVERSATION.replace("0", "1")):
        (project / f"{one}.jsonl").write_text(f'{{"cwd":"{world.cwd}"}}\n')
    for place in (world.root / "config" / "sesh", world.cwd / ".sesh"):
        (place / "templates").mkdir(parents=True)
    (world.root / "config" / "sesh" / "templates" / "night.toml").write_text("")
    (world.root / "config" / "sesh" / "templates" / "no name.toml").write_text("")
    (world.cwd / ".sesh" / "templates" / "quick.toml").write_text("")
    return Terminal(world, shell)


def options_of(command: click.Command) -> set[str]:
    context = click.Context(command, **command.context_settings)
    found = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    return {name for option in found if not option.hidden for name in option.opts}


def command_of(name: str) -> click.Command:
    found = main.group.get_command(click.Context(main.group), name)
    assert found is not None
    return found


def assert_listed(terminal: Terminal, line: str, expected: set[str]) -> None:
    terminal.tab(line)
    eventually(lambda: terminal.listed() == expected)
    assert terminal.listed() == expected, (line, terminal.lines())


def assert_completed(terminal: Terminal, line: str, expected: str) -> None:
    terminal.tab(line)
    eventually(lambda: terminal.line() == expected)
    assert terminal.line() == expected, (line, terminal.lines())


def test_all_commands_are_offered_and_no_others(terminal: Terminal) -> None:
    assert_listed(terminal, "sesh ", set(command_table.LISTED))
    assert_listed(terminal, "sesh st", {"start", "stats", "status", "stop"})
    assert_completed(terminal, "sesh rest", "sesh restart")


def test_all_options_of_each_command_are_offered_and_no_others(terminal: Terminal) -> None:
    assert_listed(terminal, "sesh -", options_of(main.group))
    for name in command_table.COMMANDS:
        assert_listed(terminal, f"sesh {name} -", options_of(command_of(name)))


def test_an_alias_is_completed_like_its_command(terminal: Terminal) -> None:
    for typed, done in (
        ("info be", "info beta"),
        ("delete be", "delete beta"),
        ("kill ", "kill alpha"),
        ("ps --sort mem", "ps --sort memory_bytes"),
        ("new -g c", "new -g ci"),
        ("run api -- quite-a-r", f"run api -- {NEW_COMMAND}"),
    ):
        assert_completed(terminal, f"sesh {typed}", f"sesh {done}")
    assert_listed(terminal, "sesh tail -", options_of(command_of("logs")))


def test_an_alias_is_offered_as_soon_as_a_letter_is_typed(terminal: Terminal) -> None:
    """The bare list has commands only: see the first test."""
    for typed, done in (("ki", "kill"), ("inf", "info"), ("op", "open"), ("vers", "version")):
        assert_completed(terminal, f"sesh {typed}", f"sesh {done}")
    assert_listed(terminal, "sesh l", {"list", "log", "logs", "ls"})


def test_topics_of_help_are_offered(terminal: Terminal) -> None:
    assert_listed(terminal, "sesh help ", {*command_table.LISTED, "scripting"})
    assert_listed(terminal, "sesh man st", {"start", "stats", "status", "stop"})


def test_session_names_are_offered(terminal: Terminal) -> None:
    for command in ("show", "status", "restart", "rm", "attach", "logs", "events", "ls"):
        assert_listed(terminal, f"sesh {command} ", {"alpha", "beta"})
    assert_completed(terminal, "sesh logs -n 5 be", "sesh logs -n 5 beta")
    assert_completed(terminal, "sesh rm -f be", "sesh rm -f beta")
    assert_completed(terminal, "sesh restart alpha be", "sesh restart alpha beta")


def test_only_living_sessions_are_offered_to_what_needs_one(terminal: Terminal) -> None:
    for command in ("stop", "detach", "send", "answer", "wait"):
        assert_completed(terminal, f"sesh {command} ", f"sesh {command} alpha")
    assert_completed(terminal, "sesh answer alpha al", "sesh answer alpha always")
    assert_completed(terminal, "sesh wait beta --any al", "sesh wait beta --any alpha")


def test_names_are_offered_only_where_a_name_goes(terminal: Terminal) -> None:
    for line in ("sesh send alpha al", "sesh attach alpha be", "sesh start al"):
        terminal.tab(line)
        time.sleep(0.5)  # a completion would be there by now
        assert terminal.line() == line, terminal.lines()


def test_names_are_asked_of_a_fast_lane() -> None:
    """Any other command costs four times as much, at every Tab. (Conversations are in files of the
    agents, which no lane reads.)"""
    for script in (path for path in COMPLETIONS.rglob("*") if path.is_file()):
        calls = re.findall(r"\bsesh (\S.*?) 2>/dev/null", script.read_text())
        lanes = [LANES[0], ["conversations", "--json"]]
        assert [call.split() for call in calls] == lanes, script


def test_a_session_called_like_a_command_confuses_nobody(terminal: Terminal) -> None:
    assert_completed(terminal, "sesh restart stop al", "sesh restart stop alpha")
    assert_completed(terminal, "sesh show --js", "sesh show --json")


def test_all_filters_are_offered_and_no_others(terminal: Terminal) -> None:
    terminal.tab("sesh ls -f ")
    keys = {*filters.FILTER_KEYS, *filters.WORDS}

    def offered() -> set[str]:
        return {word.partition("=")[0] for word in terminal.listed()}

    eventually(lambda: offered() == keys)
    assert offered() == keys, terminal.lines()


def test_all_states_are_offered_and_no_others(terminal: Terminal) -> None:
    terminal.tab("sesh ls --filter state=")
    states = {state.value for state in State}

    def offered() -> set[str]:
        return {word.removeprefix("state=") for word in terminal.listed()}

    eventually(lambda: offered() == states)
    assert offered() == states, terminal.lines()


@pytest.mark.parametrize("option", ["-f ", "--filter ", "--filter="])
def test_values_of_filters_are_completed(terminal: Terminal, option: str) -> None:
    for typed, done in (
        ("state=runn", "state=running"),
        ("runn", "running"),
        ("wai", "waiting"),
        ("health=h", "health=hung"),
        ("group=c", "group=ci"),
        ("tag=nig", "tag=night"),
        ("name=al", "name=alpha"),
        ("attention=y", "attention=yes"),
        ("activity=w", "activity=waiting"),
        ("place=h", "place=host"),
        ("phase=pl", "phase=planning"),
    ):
        assert_completed(terminal, f"sesh ls {option}{typed}", f"sesh ls {option}{done}")


def test_states_to_wait_for_and_kinds_of_events(terminal: Terminal) -> None:
    states = {state.value for state in State} - {"damaged"}
    assert_listed(terminal, "sesh wait --for ", {"ended", "alive", *ACTIVITIES, *states})
    assert_listed(terminal, "sesh events --kind ", set(events.KINDS))
    assert_listed(terminal, "sesh completion ", set(completion.SCRIPTS))


def test_values_of_options_are_completed(terminal: Terminal) -> None:
    for typed, done in (
        ("wait --for=comp", "wait --for=completed"),
        ("events alpha --kind remo", "events alpha --kind removed"),
        ("ls --color al", "ls --color always"),
        ("ls --colour=ne", "ls --colour=never"),
        ("ls --sort mem", "ls --sort memory_bytes"),
        ("ls -g c", "ls -g ci"),
        ("ls --tag nig", "ls --tag night"),
        ("ls al", "ls alpha"),
        ("stop -g c", "stop -g ci"),
        ("restart --group c", "restart --group ci"),
        ("rm --ended --tag nic", "rm --ended --tag nice"),
        ("send --filter state=runn", "send --filter state=running"),
        ("start -g c", "start -g ci"),
        ("start -e XDG_RUNT", "start -e XDG_RUNTIME_DIR"),
        ("start -C only-d", "start -C only-directory/"),
    ):
        assert_completed(terminal, f"sesh {typed}", f"sesh {done}")


def test_templates_are_offered(terminal: Terminal) -> None:
    ours = {"aider", "claude", "codex", "gemini", "opencode", "shell", "night", "quick"}
    assert_listed(terminal, "sesh start -t ", ours)
    assert_listed(terminal, "sesh template ", set(template.ACTIONS))
    assert_listed(terminal, "sesh template show ", ours)
    for typed, done in (
        ("start --template=nig", "start --template=night"),
        ("start one -t qu", "start one -t quick"),
        ("template trust qu", "template trust quick"),
        ("template -C only-directory/ check qu", "template -C only-directory/ check quick"),
        ("template new mine --from clau", "template new mine --from claude"),
    ):
        assert_completed(terminal, f"sesh {typed}", f"sesh {done}")


def test_conversations_are_offered(terminal: Terminal) -> None:
    ids = {"last", CONVERSATION, CONVERSATION.replace("0", "1")}
    assert_listed(terminal, "sesh start -t claude --conversation ", ids)
    line = "sesh start -t claude --conversation"
    assert_completed(terminal, f"{line} 0", f"{line} {CONVERSATION}")
    assert_completed(terminal, f"{line}=0", f"{line}={CONVERSATION}")


def test_all_sort_keys_are_offered(terminal: Terminal) -> None:
    terminal.tab("sesh ls --sort ")
    keys = {*filters.SORT_KEYS, *(f"-{key}" for key in filters.SORT_KEYS)}
    eventually(lambda: terminal.listed() == keys)
    assert terminal.listed() == keys, terminal.lines()


def test_behind_the_dashes_any_command_is_completed(terminal: Terminal) -> None:
    for start in ("sesh start --", "sesh start api --"):
        assert_completed(terminal, f"{start} quite-a-r", f"{start} {NEW_COMMAND}")
    assert_completed(
        terminal, "sesh start api -- ls only-d", "sesh start api -- ls only-directory/"
    )


def test_keys_of_set_are_offered(terminal: Terminal) -> None:
    assert_completed(terminal, "sesh set alpha time", "sesh set alpha timeout=")
    assert_completed(terminal, "sesh set alpha tags=x group=c", "sesh set alpha tags=x group=ci")


def test_after_the_name_any_command_is_completed(terminal: Terminal) -> None:
    for typed, done in (
        ("start api quite-a-r", f"start api {NEW_COMMAND}"),
        ("start api -C /tmp quite-a-r", f"start api -C /tmp {NEW_COMMAND}"),
        ("start -n api quite-a-r", f"start -n api {NEW_COMMAND}"),
        ("run api ls only-d", "run api ls only-directory/"),
        ("start api -C only-d", "start api -C only-directory/"),
        ("start api --detac", "start api --detach"),
    ):
        assert_completed(terminal, f"sesh {typed}", f"sesh {done}")


def test_every_phase_is_offered() -> None:
    for shell in ("bash", "fish", "zsh"):
        script = Path(completion.__file__).parents[1] / "terminal" / "shell" / f"complete.{shell}"
        assert set(PHASES) <= set(re.findall(r"\w+", script.read_text()))
