"""The manual and the other documents say what there is, and nothing else.

Pages and completions are generated: a test fails when that would change one. What is prose in them
is read as mdoc source: `Fl` marks an option of the page's own command, `Va` a field or a key; so
what a page only mentions (`Ql`) does not count. Examples are parsed by the commands.
"""

from __future__ import annotations

import json
import re
import shlex
import subprocess
from collections.abc import Iterator
from itertools import groupby
from pathlib import Path

import click
import pytest

from man import generate
from sesh import __version__, doctor
from sesh.agents.usage import prices
from sesh.commands import completion
from sesh.model import errors, session_json
from sesh.model.configuration import Config
from sesh.model.state_table import STATES
from sesh.model.states import ALIVE, ENDED, Cause, State
from sesh.state import events, settings
from sesh.terminal import command_table, filters, main
from tests.conftest import need
from tests.test_layers import PACKAGES
from tests.world import World

CHECKOUT = Path(__file__).parents[1]
MAN = CHECKOUT / "man"
COMPLETIONS = CHECKOUT / "completions"
GENERATED = generate.files()
PAGES = sorted(MAN.glob("*.[15]"))
README = (CHECKOUT / "README.md").read_text()
ARCHITECTURE = (CHECKOUT / "ARCHITECTURE.md").read_text()
CHANGELOG = (CHECKOUT / "CHANGELOG.md").read_text()
COMMAND_SECTIONS = [
    *("NAME", "SYNOPSIS", "DESCRIPTION", "EXIT STATUS", "EXAMPLES", "SEE ALSO"),
]


def source(page: str) -> str:
    return (MAN / page).read_text()


def page_of(command: str) -> str:
    return source(f"sesh-{command}.1")


def section(text: str, title: str) -> str:
    """A `.Sh` or `.Ss` section of a page, up to the next of either."""
    found = re.search(
        rf"^\.S[hs] (?:\\&)?{re.escape(title)}\n(.*?)(?=^\.S[hs] |\Z)", text, re.S | re.M
    )
    assert found, f"no section {title}"
    return found[1]


def items(text: str, macro: str) -> list[str]:
    """What the entries of lists name: `.It Va a , b Pq string` gives a and b."""
    found: list[str] = []
    for line in re.findall(rf"^\.It {macro} (.*)$", text, re.M):
        found += [word for word in line.partition(" Pq ")[0].split() if word != ","]
    return found


def plain(text: str) -> str:
    """Text without mdoc's escapes, in one line."""
    text = re.sub(r'^\.\\".*$', "", text, flags=re.M)
    return " ".join(text.replace(r"\e", "\\").replace(r"\&", "").split())


# --- what is generated -------------------------------------------------------------------------


@pytest.mark.parametrize("path", sorted(GENERATED))
def test_generating_anew_changes_nothing(path: str) -> None:
    """Fails when code or prose changed and `make docs` did not follow."""
    assert (CHECKOUT / path).read_text() == GENERATED[path], "run make docs"


def test_nothing_lies_beside_what_is_generated() -> None:
    found = [*PAGES, *(path for path in COMPLETIONS.rglob("*") if path.is_file())]
    assert {str(path.relative_to(CHECKOUT)) for path in found} == set(GENERATED)
    assert {path.name for path in generate.PROSE.iterdir()} == {
        *command_table.COMMANDS,
        *generate.OTHERS,
    }


def test_prose_on_what_does_not_exist_is_refused() -> None:
    with pytest.raises(AssertionError, match="no such option: --gone"):
        generate.option_lists(generate.TREE.options, ".It --gone\nOnce.\n")
    with pytest.raises(AssertionError):
        generate.exit_codes(".It 77\nNobody exits with this.\n")


def test_an_option_that_is_added_reaches_page_and_completions() -> None:
    @click.command("ls")
    @click.option("--quite-new", metavar="WHAT", help="Do it. Or not.")
    def changed() -> None: ...

    group = click.Group("sesh", commands=[changed])
    tree = completion.tree(group)
    (page,) = generate.option_lists(tree.verbs[0].options, "")
    assert ".It Fl -quite-new Ar what\nDo it.\nOr not.\n" in page
    for shell, write in completion.SCRIPTS.items():
        assert ("-l quite-new" if shell == "fish" else "--quite-new") in write(tree)


# --- commands and options ----------------------------------------------------------------------


def command_of(name: str) -> click.Command:
    found = main.group.get_command(click.Context(main.group), name)
    assert found is not None
    return found


def options_of(command: click.Command) -> set[str]:
    context = click.Context(command, **command.context_settings)
    found = [param for param in command.get_params(context) if isinstance(param, click.Option)]
    return {name for option in found if not option.hidden for name in option.opts}


def flags(text: str) -> Iterator[str]:
    """Every option that `Fl` marks, wherever it stands in a line; `Fl hV` is -h and -V."""
    for word in re.findall(r"\bFl (\S+)", text):
        if word.startswith("-"):
            yield f"-{word}"
        else:
            yield from (f"-{letter}" for letter in word)


@pytest.mark.parametrize("command", command_table.COMMANDS)
def test_every_command_has_a_page_and_tests(command: str) -> None:
    assert f".Nm sesh {command}\n" in section(page_of(command), "SYNOPSIS")
    tests = CHECKOUT / "tests" / "commands" / f"test_{command}.py"
    assert "\ndef test_" in tests.read_text()


def test_every_page_is_of_something_that_exists() -> None:
    expected = {f"sesh-{command}.1" for command in command_table.COMMANDS}
    assert {page.name for page in PAGES} == expected | {"sesh.1", "sesh-config.5", "sesh-json.5"}


@pytest.mark.parametrize("command", command_table.COMMANDS)
def test_a_page_has_the_options_of_its_command_and_no_others(command: str) -> None:
    listed = re.findall(r"^\.It (Fl .*)$", page_of(command), re.M)
    assert set(flags("\n".join(listed))) == options_of(command_of(command))
    assert set(flags(page_of(command))) == options_of(command_of(command))


def test_the_main_page_has_the_options_of_sesh_itself_and_no_others() -> None:
    assert set(flags(source("sesh.1"))) == options_of(main.group)


def test_the_main_page_lists_all_commands_and_no_others() -> None:
    assert items(source("sesh.1"), "Ic") == list(command_table.COMMANDS)


@pytest.mark.parametrize("command", command_table.COMMANDS)
def test_every_option_has_help(command: str) -> None:
    for option in command_of(command).params:
        assert not isinstance(option, click.Option) or option.hidden or option.help, option.name


@pytest.mark.parametrize("command", command_table.COMMANDS)
def test_a_command_page_has_all_sections(command: str) -> None:
    assert re.findall(r"^\.Sh (.*)$", page_of(command), re.M) == COMMAND_SECTIONS


# --- states, exit codes, JSON, settings --------------------------------------------------------


def test_the_main_page_has_all_states_in_the_order_of_precedence() -> None:
    states = items(section(source("sesh.1"), "States"), "Cm")
    assert sorted(states) == sorted(State)
    first = ["damaged", "unknown", "stopping", "orphan", "paused", "running", "starting"]
    assert states[: len(first) + 1] == [*first, "recovering"]


def test_the_main_page_says_which_states_are_alive_and_which_ended() -> None:
    text = plain(section(source("sesh.1"), "States"))
    found = re.search(r"Cm (running , .*?) count as alive; \.Cm (.*?) as ended", text)
    assert found, text
    words = [set(re.findall(r"\b[a-z]+", part)) - {"and"} for part in found.groups()]
    assert words == [set(ALIVE), set(ENDED)]


def test_the_manual_has_every_alias() -> None:
    listed = items(section(source("sesh.1"), "Aliases"), "Ql")
    assert listed == [*command_table.ALIASES]
    assert ".Op Fl hvV\n" in section(source("sesh.1"), "SYNOPSIS")


def test_status_documents_the_exit_code_of_every_state() -> None:
    said: dict[str, int] = {}
    text = section(page_of("status"), "EXIT STATUS")
    for code, body in re.findall(r"^\.It (\d+)\n(.*?)(?=^\.It|^\.El)", text, re.S | re.M):
        for line in re.findall(r"^\.Cm (.*)$", body, re.M):
            said |= {word: int(code) for word in re.findall(r"[a-z]+", line)}
    assert said == {state.value: STATES[state].exit_code for state in State}


def test_exit_codes_in_the_manual() -> None:
    codes = re.findall(r"^\.It (\d+)$", section(source("sesh.1"), "EXIT STATUS"), re.M)
    assert [int(code) for code in codes] == sorted(errors.EXIT_CODES)


@pytest.mark.parametrize("command", command_table.COMMANDS)
def test_a_page_names_only_exit_codes_that_exist(command: str) -> None:
    codes = re.findall(r"^\.It (\d+)\n", section(page_of(command), "EXIT STATUS"), re.M)
    assert {"0", "2"} <= set(codes)
    assert {int(code) for code in codes} <= set(errors.EXIT_CODES)


def test_json_fields_of_a_session() -> None:
    assert sorted(items(section(source("sesh-json.5"), "A session"), "Va")) == sorted(
        session_json.FIELDS
    )


def test_json_fields_of_a_damaged_record() -> None:
    fields = items(section(source("sesh-json.5"), "A damaged record"), "Va")
    assert fields == list(session_json.DAMAGED_FIELDS)


def test_causes_of_an_end() -> None:
    text = section(source("sesh-json.5"), "A session")
    found = re.search(r"^\.It Va cause .*?\n(.*?)(?=^\.It)", text, re.S | re.M)
    assert found
    assert sorted(re.findall(r"^\.Cm ([a-z-]+)", found[1], re.M)) == sorted(Cause)


def test_kinds_of_events() -> None:
    assert items(section(source("sesh-json.5"), "Events"), "Cm") == list(events.KINDS)


def test_checks_of_doctor() -> None:
    assert items(section(page_of("doctor"), "Checks"), "Cm") == list(doctor.IDS)


def test_json_fields_of_a_finding(world: World) -> None:
    fields = items(section(source("sesh-json.5"), "Findings"), "Va")
    assert all(list(one) == fields for one in world.sesh("doctor", "--json").json)


def test_json_fields_of_the_figures(world: World) -> None:
    fields = items(section(source("sesh-json.5"), "Statistics"), "Va")
    assert list(world.ok("stats", "--json").json) == fields


def test_filters_and_sort_keys() -> None:
    text = page_of("ls")
    assert items(text, "Cm") == list(filters.FILTER_KEYS)
    found = re.search(r"^\.It Fl -sort .*?\n(.*?)(?=^\.It )", text, re.S | re.M)
    assert found
    named = [re.findall(r"\w+", line) for line in re.findall(r"^\.Cm (.*)$", found[1], re.M)]
    assert [key for line in named for key in line] == list(filters.SORT_KEYS)


def test_settings_and_their_defaults() -> None:
    page = source("sesh-config.5")
    said = {
        (name, key): default.replace(r"\(dq", '"')
        for name in re.findall(r"^\.Ss \[(\w+)\]$", page, re.M)
        for key, default in re.findall(
            r"^\.It Va (\w+) Pq default: (\S+)$", section(page, f"[{name}]"), re.M
        )
    }
    config = Config()
    assert said == {
        (name, key): json.dumps(value, separators=(",", ":"))
        for name in config.fields
        for key in getattr(config, name).fields
        if (value := getattr(getattr(config, name), key)) is not None
    }


def test_the_examples_of_settings_make_sense(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", world.env["XDG_CONFIG_HOME"])
    pages = re.findall(r"^\.Bd .*?\n(.*?)^\.Ed", source("sesh-config.5"), re.S | re.M)
    blocks = re.findall(r"^```toml\n(\[notify\].*?)^```", README, re.S | re.M)
    assert pages
    assert blocks
    (own,) = (text for text in pages if text.startswith("[[model]]"))
    assert prices.decode("prices.toml", own.encode()).models
    for text in ({*pages} - {own}) | {*blocks}:
        world.configure(text.replace(r"\&", ""))
        assert settings.load() != Config()
        assert world.ok("config", "check").err == ""


def test_what_a_session_really_prints_is_documented(world: World) -> None:
    """The objects of `start`, `ls`, `status`, `show` and the events of a whole life."""
    page = source("sesh-json.5")
    fields = set(items(section(page, "A session"), "Va"))
    evidence = set(items(section(page, "Evidence"), "Va"))
    assert set(world.start("one", "sh", "-c", "exit 3")) == fields
    world.ok("restart", "one")
    world.start("two")
    assert all(set(shown) == fields for shown in world.ls())
    assert set(world.ok("status", "two", "--json").json) == fields
    assert set(world.ok("show", "two", "--json").json) == fields | evidence
    world.ok("stop", "two")
    world.start("two")
    world.ok("rm", "--force", "two")
    (world.cwd / "broken").write_text("#!/no/such/interpreter\n")
    (world.cwd / "broken").chmod(0o755)
    for command in (("start", "three", "--", "./broken"), ("restart", "three")):
        assert world.sesh(*command).code == errors.FAILED
    world.start("four")
    world.record("four").unlink()
    world.ok("adopt", "four")
    world.record("one").write_text("")
    assert set(world.session("one")) == set(session_json.DAMAGED_FIELDS)

    documented = set(items(section(page, "Events"), "Va"))
    assert {event["kind"] for event in world.events()} <= set(events.KINDS)
    assert {field for event in world.events() for field in event} <= documented


# --- examples ----------------------------------------------------------------------------------


def examples(text: str) -> list[tuple[str, ...]]:
    """The command lines of sesh behind the prompts of a text, also inside pipes and $(…)."""
    found: list[tuple[str, ...]] = []
    for line in re.findall(r"^\$ (.*)$", text.replace(r"\e", "\\"), re.M):
        words = shlex.shlex(line, posix=True, punctuation_chars=True)
        words.whitespace_split, words.commenters = True, ""
        for operator, part in groupby(words, key=lambda word: not word.strip("();<>|&")):
            command = tuple(part)
            if command[:2] == ("xargs", "-r"):
                command = (*command[2:], "NAME")
            if not operator and command[0] == "sesh":
                found.append(command)
    return found


EXAMPLES = {example for page in PAGES for example in examples(page.read_text())}


@pytest.mark.parametrize("words", sorted(EXAMPLES | {*examples(README)}), ids=shlex.join)
def test_an_example_is_a_command_line_that_sesh_takes(words: tuple[str, ...]) -> None:
    name, *arguments = words[1:]
    command_of(name).make_context(f"sesh {name}", arguments)


def test_links_in_the_documents_lead_somewhere() -> None:
    for name in (
        "README.md",
        "ARCHITECTURE.md",
        "CONTRIBUTING.md",
        "CHANGELOG.md",
        "docs/comparison.md",
    ):
        for link in re.findall(r"\]\(([^)#:]+)\)", (CHECKOUT / name).read_text()):
            assert (CHECKOUT / link).exists(), f"{name}: {link}"


def test_the_architecture_draws_the_packages_that_are_checked() -> None:
    block = re.search(r"^```text\n(__main__.*?)^```", ARCHITECTURE, re.S | re.M)
    assert block
    drawn = [line.split()[0].rstrip("/") for line in block[1].splitlines()]
    assert drawn == [name for name in PACKAGES if name != "__init__"]


def test_the_architecture_names_only_files_that_exist() -> None:
    for name in re.findall(r"`((?:[\w.-]+/)*[a-z_]+\.(?:py|sh|toml))`", ARCHITECTURE):
        assert list(CHECKOUT.glob(name)) or list(CHECKOUT.glob(f"sesh/**/{name}")), name


def test_the_changelog_has_this_version() -> None:
    assert re.search(rf"^## \[{re.escape(__version__)}\]", CHANGELOG, re.M)


# --- form --------------------------------------------------------------------------------------


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_is_without_warnings(page: Path) -> None:
    need("mandoc")
    done = subprocess.run(
        ["mandoc", "-Tlint", "-Wwarning", page], capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_refers_only_to_pages_that_exist(page: Path) -> None:
    for name, number in re.findall(r"^\.(?:Pq see )?Xr (sesh\S*) (\d)", page.read_text(), re.M):
        assert (MAN / f"{name}.{number}").exists()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_see_also_names_every_page_that_the_text_refers_to(page: Path) -> None:
    text = page.read_text()
    ours = set(re.findall(r"\bXr (sesh\S*) \d", text.partition(".Sh SEE ALSO")[0]))
    assert ours <= set(re.findall(r"^\.Xr (sesh\S*) \d", section(text, "SEE ALSO"), re.M))
