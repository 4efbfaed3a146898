"""sesh template: what templates there are, new ones, what is wrong with them, and whom to trust."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import ANY

import pytest

from sesh.model.configuration import Breaker, Start
from tests import pace
from tests.conftest import need
from tests.surroundings import (
    Terminal,
    complains,
    files,
    mounted,
    one_line,
    read_only,
    read_record,
)
from tests.test_bad_input import HOSTILE, harmless
from tests.world import SESH, World, eventually

BUILTIN = ["aider", "claude", "codex", "gemini", "opencode", "shell"]
DEPLOY = 'command = ["sh", "-c", "touch deployed; sleep 99"]\n'


def own(world: World, name: str) -> Path:
    path = world.root / "config" / "sesh" / "templates" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def of_project(world: World, name: str, project: Path | None = None) -> Path:
    path = (project or world.cwd) / ".sesh" / "templates" / f"{name}.toml"
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


@pytest.fixture
def project(world: World) -> World:
    """A world whose directory brings a template that nobody has trusted yet."""
    of_project(world, "deploy").write_text(DEPLOY)
    return world


def listed(world: World, *options: str) -> dict[str, dict[str, Any]]:
    return {one["name"]: one for one in world.ok("template", "ls", "--json", *options).json}


# --- ls and show ---------------------------------------------------------------------------------


def test_what_comes_with_sesh(world: World) -> None:
    assert list(listed(world)) == BUILTIN
    assert listed(world)["claude"]["command"] == ["claude"]
    lines = world.ok("template", "ls").out.splitlines()
    assert world.ok("template").out.splitlines() == lines
    assert lines[0].split() == ["NAME", "FROM", "RUNS"]
    assert lines[2].split() == ["claude", "built", "in", "claude"]
    assert lines[6].split() == ["shell", "built", "in", "your", "shell"]
    assert world.ok("template", "check").err == ""
    assert not world.state.exists()


def test_where_each_comes_from(project: World) -> None:
    own(project, "claude").write_text('command = ["claude", "--model", "opus"]\n')
    own(project, "broken").write_text("comand = 3\n")
    of_project(project, "codex").write_text("")
    found = listed(project)
    origins = {"claude": "own", "broken": "own", "deploy": "project", "codex": "project"}
    origins = {**dict.fromkeys(BUILTIN, "builtin"), **origins}
    assert {name: one["origin"] for name, one in found.items()} == origins
    assert {name for name, one in found.items() if not one["trusted"]} == {"deploy", "codex"}
    assert found["claude"]["path"] == str(own(project, "claude"))
    assert found["claude"]["command"] == ["claude", "--model", "opus"]
    assert (found["broken"]["command"], found["claude"]["problem"]) == (None, None)
    assert "unknown key comand" in found["broken"]["problem"]
    shown = project.ok("template", "ls").out
    assert "not trusted: sesh template trust deploy\n" in shown
    assert "invalid: sesh template check broken\n" in shown
    assert "deployed" in shown


def test_a_template_is_shown_as_it_is(world: World) -> None:
    text = '# mine\ncommand = ["vi"] \t# é\n'
    own(world, "edit").write_text(text)
    assert world.ok("template", "show", "edit").out == f"# {own(world, 'edit')} (own)\n{text}"
    shown = world.ok("template", "show", "claude", "--json").json
    assert list(shown) == ["name", "origin", "path", "trusted", "template"]
    assert shown["template"]["agent"] == {
        "kind": "claude",
        "conversation": "minted",
        "start": ["--session-id", "{conversation}", "--settings", "{hooks}"],
        "resume": ["--resume", "{conversation}", "--settings", "{hooks}"],
        "fork": [
            *("--resume", "{parent}", "--fork-session"),
            *("--session-id", "{conversation}", "--settings", "{hooks}"),
        ],
        "prompt": ["{prompt}"],
        "transcript": "~/.claude/projects/*/{conversation}.jsonl",
        "rules": "claude",
        "answers": {
            "keys": ["{option}"],
            "marked": ["Enter"],
            "yes": ["Yes"],
            "no": ["No"],
            "always": ANY,
            "text": ["Type something"],
        },
    }


def test_a_wrong_one_is_shown_all_the_same(world: World) -> None:
    own(world, "bad").write_text("comand = 3\n")
    assert "comand = 3" in world.ok("template", "show", "bad").out
    complains(world.sesh("template", "show", "bad", "--json"), 6, "unknown key comand")


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("show",), 2, "sesh template show NAME"),
        (("show", "a", "b"), 2, "one template"),
        (("show", "nobodys"), 1, "no template named nobodys; available: aider, claude"),
        (("show", "../claude"), 2, "invalid template name"),
        (("show", HOSTILE), 2, "invalid template name"),
        (("ls", "claude"), 2, "takes no name"),
        (("ls", "-y"), 2, "-y are only for"),
        (("new", "a", "--json"), 2, "--json is only for"),
        (("show", "claude", "--from", "codex"), 2, "--from is only for"),
        (("trust", "claude"), 1, "no project"),
        (("trust", "claude", "--remove"), 1, "no project"),
        (("unheard",), 2, "unheard"),
    ],
)
def test_what_makes_no_sense(world: World, words: tuple[str, ...], code: int, told: str) -> None:
    done = world.sesh("template", *words)
    complains(done, code, told)
    assert harmless(done.err)


# --- new -----------------------------------------------------------------------------------------


def test_a_new_one_is_valid_and_says_nothing_yet(world: World) -> None:
    path = own(world, "night")
    path.parent.rmdir()
    assert world.ok("template", "new", "night").out == f"{path}\n"
    assert path.stat().st_mode & 0o777 == 0o600
    assert world.ok("template", "check", "night").err == ""
    empty = world.ok("template", "show", "shell", "--json").json["template"]
    assert world.ok("template", "show", "night", "--json").json["template"] == empty
    _, _, *lines = path.read_text().splitlines()
    path.write_text("\n".join(line.removeprefix("# ") for line in lines))
    assert world.ok("template", "check", "night").err == "", "all that it suggests is right"
    full = world.ok("template", "show", "night", "--json").json["template"]
    assert {key for key, value in full.items() if not value} == {"container"}
    assert full["start"].keys() == {*Start.fields, "notify"}
    assert full["breaker"].keys() == set(Breaker.fields)


def test_an_existing_one_is_never_overwritten(world: World) -> None:
    world.ok("template", "new", "night", "--from", "claude")
    before = own(world, "night").read_bytes()
    assert b"{conversation}" in before
    complains(world.sesh("template", "new", "night"), 8, "exists")
    own(world, "link").symlink_to("/nowhere")
    complains(world.sesh("template", "new", "link"), 8, "exists")
    assert own(world, "night").read_bytes() == before
    assert {path.name for path in own(world, "x").parent.iterdir()} == {"night.toml", "link.toml"}


def test_a_copy_of_another(project: World) -> None:
    project.ok("template", "new", "mine", "--from", "codex")
    codex, mine = (
        project.ok("template", "show", name, "--json").json["template"]
        for name in ("codex", "mine")
    )
    assert mine == codex
    complains(project.sesh("template", "new", "x", "--from", "deploy"), 1, "not trusted")
    complains(project.sesh("template", "new", "x", "--from", "nobodys"), 1, "no template named")
    complains(project.sesh("template", "new", "a/b"), 2, "invalid template name")
    assert not own(project, "x").exists()


# --- check ---------------------------------------------------------------------------------------

WRONG = """\
comand = ["a"]
command = 3
[start]
retries = -1
[agent]
knd = "x"
"""


def test_every_problem_has_a_line(world: World) -> None:
    own(world, "bad").write_text(WRONG)
    own(world, "good").write_text(DEPLOY)
    for names in ((), ("bad",), ("good", str(own(world, "bad")))):
        done = world.sesh("template", "check", *names)
        assert (done.code, done.out) == (6, "")
        path = f"sesh: {own(world, 'bad')}: "
        assert [line.removeprefix(path) for line in done.err.splitlines()] == [
            "unknown key comand; did you mean command?",
            "command should be a list of strings",
            "start.retries should be a whole number, 0 to 1000",
            "unknown key agent.knd; did you mean agent.kind?",
        ]
    assert world.ok("template", "check", "good").err == ""


REFUSED = """\
command = [""]
group = "\\u0007"
tags = ["fine", "a\\nb", ""]
env = ["SESH_ID=evil", "1bad=2", "FINE=x", "PWD"]
container = "one"
mounts = ["a:b:c:d", "data:relative"]
memory = "lots"
cpus = "many"
"""


def test_what_start_refuses_is_told(world: World) -> None:
    """All of it, also beside what can't even be read."""
    own(world, "bad").write_text(REFUSED)
    done = world.sesh("template", "check", "bad")
    path = f"sesh: {own(world, 'bad')}: "
    label = "a group or tag should be 1 to 200 printable characters"
    expected = [
        "command: its first word, the program, is empty",
        f"group: '\\x07': {label}",
        f"tags: 'a\\nb': {label}",
        f"tags: '': {label}",
        "env: SESH_ID: the shell or sesh sets it itself",
        "env: '1bad': not a name that a shell can export",
        "env: PWD: the shell or sesh sets it itself",
        "mounts: a:b:c:d: should be DIR[:DIR_INSIDE[:ro]]",
        "mounts: data:relative: relative should be an absolute path inside",
        "memory: lots: should be a size, for example 512m or 2g",
        "cpus: many: should be a number, for example 1.5",
    ]
    assert (done.code, done.out) == (6, "")
    only = "mounts, network, memory and cpus are for a new container (image)"
    assert [line.removeprefix(path) for line in done.err.splitlines()] == [*expected, only]
    assert world.sesh("start", "one", "-t", "bad").code == 6
    own(world, "bad").write_text(REFUSED + "colour = 3\n")
    done = world.sesh("template", "check", "bad")
    assert [line.removeprefix(path) for line in done.err.splitlines()] == [
        *("unknown key colour; see sesh-template(1)", *expected),
    ]


def test_a_file_anywhere_and_ones_own_rules(world: World) -> None:
    (world.cwd / "draft.toml").write_text("x = 1\n")
    complains(world.sesh("template", "check", "draft.toml"), 6, "unknown key x")
    complains(world.sesh("template", "check", "./gone.toml"), 6, "gone.toml: No such file")
    complains(world.sesh("template", "check", "gone"), 1, "no template named gone")
    rules = world.root / "config" / "sesh" / "rules"
    rules.mkdir(parents=True)
    (rules / "mine.toml").write_text("version = 1\n[[title]]\n")
    done = world.sesh("template", "check")
    assert (done.code, done.err.count("\n")) == (6, 2)
    assert "mine.toml: title 1: has no test" in done.err


# --- trust ---------------------------------------------------------------------------------------


def start(world: World, *words: str) -> Any:
    return world.sesh("start", "one", "-t", "deploy", *words)


def refused(world: World, *words: str) -> None:
    """Nothing at all has happened: no process, no record, no directory of records."""
    before = files(world.root)
    complains(start(world, *words), 1, "not trusted", "sesh template trust deploy")
    assert files(world.root) == before
    assert not (world.cwd / "deployed").exists()
    assert world.processes() == []


def test_nothing_happens_until_it_is_trusted(project: World) -> None:
    refused(project)
    assert not project.state.exists()
    done = project.ok("template", "trust", "deploy", "-y")
    assert done.out == ""
    assert DEPLOY in done.err
    assert start(project).code == 0
    assert eventually((project.cwd / "deployed").exists)
    assert project.ok("template", "trust", "deploy").err == "deploy is already trusted\n"
    assert listed(project)["deploy"]["trusted"] is True


def test_one_byte_ends_the_trust(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    path = of_project(project, "deploy")
    path.write_text(DEPLOY + "\n")
    refused(project)
    assert listed(project)["deploy"]["trusted"] is False
    path.write_text(DEPLOY)
    assert start(project).code == 0, "this was shown, and trusted"


def test_the_trust_is_in_that_path_only(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    other = project.root / "other"
    copy = of_project(project, "deploy", other)
    copy.write_text(DEPLOY)
    done = start(project, "-C", str(other))
    complains(done, 1, str(copy), f"sesh template trust deploy -C {other}")
    of_project(project, "again").write_text(DEPLOY)
    complains(project.sesh("start", "-t", "again"), 1, "sesh template trust again")
    project.ok("template", "trust", "deploy", "-C", str(other), "-y")
    assert start(project, "-C", str(other)).code == 0


def test_the_trust_can_be_taken_back(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    of_project(project, "deploy").write_text(DEPLOY + "# more\n")
    project.ok("template", "trust", "deploy", "-y")
    project.ok("template", "trust", "deploy", "--remove")
    refused(project)
    of_project(project, "deploy").write_text(DEPLOY)
    refused(project)
    done = project.ok("template", "trust", "deploy", "--remove")
    assert done.err == "deploy was not trusted\n"


def test_without_a_terminal_there_is_nobody_to_ask(project: World) -> None:
    complains(project.sesh("template", "trust", "deploy"), 2, "without a terminal", "-y")
    refused(project)


@pytest.mark.parametrize(("answer", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_a_person_sees_it_and_is_asked(project: World, answer: str, code: int) -> None:
    terminal = Terminal(project, SESH, "template", "trust", "deploy")
    assert terminal.shows("deploy.toml? [y/N]")
    assert DEPLOY.strip() in terminal.screen()
    assert "command: sh -c 'touch deployed; sleep 99'" in terminal.screen()
    terminal.type(*([answer] if answer else []), "Enter")
    assert terminal.finish()[0] == code
    assert listed(project)["deploy"]["trusted"] is (code == 0)


def test_what_is_trusted_is_what_was_shown(project: World) -> None:
    """Whoever changes the file while the question stands gets nothing."""
    terminal = Terminal(project, SESH, "template", "trust", "deploy")
    assert terminal.shows("[y/N]")
    of_project(project, "deploy").write_text('command = ["evil"]\n')
    terminal.type("y", "Enter")
    assert terminal.finish()[0] == 0
    refused(project)
    assert listed(project)["deploy"]["trusted"] is False


def test_what_it_runs_stands_below_however_long_it_is(project: World) -> None:
    of_project(project, "deploy").write_text(f"{DEPLOY}env = ['A=b']\n" + "# so harmless\n" * 500)
    terminal = Terminal(project, SESH, "template", "trust", "deploy")
    assert terminal.shows("[y/N]")
    assert "command: sh -c 'touch deployed; sleep 99'" in terminal.screen()
    assert "variables: A=b" in terminal.screen()


HARMFUL = "\x1b]0;owned\x07\x1b[2J\x1b[31m\x9b1A\u202e\u2028\x08"


def test_escapes_are_shown_and_not_obeyed(project: World) -> None:
    text = f"command = ['rm', '-rf', '/']\n# {HARMFUL}\r# nothing to see\n"
    of_project(project, "deploy").write_bytes(text.encode())
    for words in (("show", "deploy"), ("trust", "deploy", "-y"), ("ls",), ("check",)):
        done = project.sesh("template", *words)
        assert harmless(done.out + done.err), words
    shown = project.ok("template", "show", "deploy").out
    assert r"\x1b]0;owned\x07\x1b[2J" in shown
    assert r"\u202e\u2028\x08\r# nothing to see" in shown
    of_project(project, "deploy").write_text(f"command = [{json.dumps(HARMFUL)}]\n")
    for words in (("ls",), ("trust", "deploy", "-y")):
        done = project.ok("template", *words)
        assert harmless(done.out + done.err)
        assert r"\x1b]0;owned\x07" in done.out + done.err


def test_a_key_with_escapes_in_it(project: World) -> None:
    of_project(project, "deploy").write_text(f"{json.dumps(HARMFUL * 100)} = 3\n")
    done = project.sesh("template", "trust", "deploy", "-y")
    complains(done, 6, "unknown key")
    assert harmless(done.err)
    assert len(done.err) < 500


def link(path: Path) -> None:
    path.with_suffix(".txt").write_text(DEPLOY)
    path.symlink_to(path.with_suffix(".txt"))


def text(content: str) -> Callable[[Path], object]:
    return lambda path: path.write_text(content)


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (text(DEPLOY + "#" * (1 << 20)), "larger than"),
        (os.mkfifo, "not a regular file"),
        (link, "not a regular file"),
        (Path.mkdir, "not a regular file"),
        (text("a = " + "[" * 60000), "not valid TOML"),
        (text("a = " + "9" * 60000), "not valid TOML"),
        (lambda path: path.write_bytes(b"dir = '\xff\xfe'"), "not valid TOML"),
        (text('command = ["a\\u0000b"]\n'), "contains a NUL byte"),
    ],
)
def test_what_is_no_template_hangs_and_harms_nobody(
    world: World, make: Callable[[Path], object], told: str
) -> None:
    make(of_project(world, "deploy"))
    complains(world.sesh("template", "trust", "deploy", "-y"), 6, told)
    assert start(world).code in (1, 6)
    assert listed(world)["deploy"]["trusted"] is False
    assert told in listed(world)["deploy"]["problem"]
    assert world.sesh("template", "check").code == 6
    assert world.ok("start", "other", "-t", "shell").out == "other\n"


def test_a_project_cannot_take_the_place_of_ones_own(project: World) -> None:
    own(project, "deploy").write_text('command = ["sleep", "98"]\n')
    done = project.ok("template", "trust", "deploy", "-y")
    assert "takes precedence over it" in done.err
    assert listed(project)["deploy"]["origin"] == "own"
    assert start(project).code == 0
    assert project.session("one")["command"] == ["sleep", "98"]


def test_a_project_cannot_take_the_place_of_what_comes_with_sesh(world: World) -> None:
    of_project(world, "shell").write_text('command = ["sleep", "97"]\n')
    complains(world.sesh("start", "one", "-t", "shell"), 1, "sesh template trust shell")
    world.ok("template", "trust", "shell", "-y")
    world.ok("start", "one", "-t", "shell")
    assert world.session("one")["command"] == ["sleep", "97"]


# --- which project -------------------------------------------------------------------------------


def test_the_nearest_above_counts(project: World) -> None:
    deep = project.cwd / "a" / "b"
    deep.mkdir(parents=True)
    assert "deploy" in listed(project, "-C", str(deep))
    of_project(project, "other", project.cwd / "a").write_text("")
    found = listed(project, "-C", str(deep))
    assert "other" in found
    assert "deploy" not in found


def test_not_beyond_the_top_of_a_repository(project: World) -> None:
    need("git")
    top = project.cwd / "repository"
    subprocess.run(["git", "init", "-q", str(top)], check=True)
    (top / "src").mkdir()
    assert "deploy" not in listed(project, "-C", str(top / "src"))
    of_project(project, "inner", top).write_text("")
    assert "inner" in listed(project, "-C", str(top / "src"))


def test_not_from_another_file_system(project: World) -> None:
    with mounted(project.cwd / "disk", "size=1m"):
        assert "deploy" not in listed(project, "-C", str(project.cwd / "disk"))


def test_the_home_directory_is_no_project(world: World) -> None:
    home = Path(world.env["HOME"])
    of_project(world, "deploy", home).write_text(DEPLOY)
    (home / "src").mkdir()
    assert "deploy" not in listed(world, "-C", str(home))
    assert "deploy" not in listed(world, "-C", str(home / "src"))


def test_a_link_to_a_project_is_the_same_project(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    (project.root / "link").symlink_to(project.cwd)
    assert listed(project, "-C", str(project.root / "link"))["deploy"]["trusted"] is True


def test_a_directory_that_does_not_exist(project: World) -> None:
    assert list(listed(project, "-C", "/no/such/directory")) == BUILTIN
    complains(start(project, "-C", "/no/such"), 1, "no template named deploy")


# --- what is remembered --------------------------------------------------------------------------


def test_it_is_remembered_in_private(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    path = project.state / "trusted.jsonl"
    assert path.stat().st_mode & 0o777 == 0o600
    (line,) = path.read_text().splitlines()
    assert json.loads(line)["path"] == str(of_project(project, "deploy"))
    assert project.ok("doctor").code == 0


def test_two_at_once_lose_none(world: World) -> None:
    names = [f"t{number}" for number in range(12)]
    for name in names:
        of_project(world, name).write_text(f"# {name}\n")
    for one in [world.popen("template", "trust", name, "-y") for name in names]:
        assert one.wait(pace.seconds(60)) == 0
    assert all(listed(world)[name]["trusted"] for name in names)


@pytest.mark.parametrize("damage", ["nonsense\n", "[]\n", '{"path": 1}\n', "\0" * 10, "[" * 99999])
def test_damaged_memory_trusts_nobody(project: World, damage: str) -> None:
    project.ok("template", "trust", "deploy", "-y")
    path = project.state / "trusted.jsonl"
    path.write_text(damage + path.read_text())
    for words in (("trust", "deploy", "-y"), ("trust", "deploy", "--remove"), ("show", "deploy")):
        complains(project.sesh("template", *words), 6, "is damaged; next: rm")
    complains(start(project), 6, "is damaged")
    assert project.ok("start", "two", "-t", "shell").out == "two\n"
    path.unlink()
    complains(start(project), 1, "not trusted")


def test_a_disk_that_takes_nothing(project: World) -> None:
    project.ok("template", "trust", "deploy", "-y")
    of_project(project, "other").write_text("")
    with read_only(project.state):
        done = project.sesh("template", "trust", "other", "-y")
        assert done.code == 6
        assert one_line(done.err.splitlines(keepends=True)[-1])
    assert listed(project)["deploy"]["trusted"] is True
    assert listed(project)["other"]["trusted"] is False


def test_a_record_keeps_what_a_trusted_template_said(project: World) -> None:
    of_project(project, "deploy").write_text(DEPLOY + '[agent]\nkind = "ours"\n')
    project.ok("template", "trust", "deploy", "-y")
    assert start(project).code == 0
    of_project(project, "deploy").unlink()
    project.ok("restart", "one")
    kit = read_record(project, "one").spec.kit
    assert kit is not None
    assert (kit.kind, kit.conversation) == ("ours", "none")
