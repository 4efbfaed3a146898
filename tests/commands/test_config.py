"""sesh config: the settings and their origin, whether they make sense, and who is told."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from sesh.model.configuration import SECTIONS
from sesh.state import settings
from tests.receiver import closed_port, receiving
from tests.surroundings import complains, one_line, read_record
from tests.world import World


def with_variables(world: World, **variables: str) -> dict[str, str]:
    return {**world.env, **variables}


def path(world: World) -> str:
    return str(world.root / "config" / "sesh" / "config.toml")


# --- show --------------------------------------------------------------------------------------


def flat(tables: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    return {f"{name}.{key}": one for name, table in tables.items() for key, one in table.items()}


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


def defaults() -> dict[str, Any]:
    return {key: plain(one) for key, one in typed().items()}


def typed() -> dict[str, Any]:
    return {
        f"{section}.{name}": getattr(kind, name)
        for section, kind in SECTIONS.items()
        for name in kind.fields
    }


def test_every_setting_is_shown_as_toml(world: World) -> None:
    shown = world.ok("config", "show").out
    assert len(shown.splitlines()) == len(defaults())
    found = flat(tomllib.loads(shown))
    assert {key: settings.checked(found[key], one, key) for key, one in typed().items()} == typed()
    for line in ('stop.grace = "10s"', 'logs.max_size = "32M"', 'gc.keep_history = "30d"'):
        assert f"{line}\n" in shown
    for line in ("start.retries = 0", "gc.max_age = 0", "start.max_memory = 0"):
        assert f"{line}\n" in shown
    assert world.ok("config").out == shown
    assert not world.state.exists()


STRANGE = 'quote " backslash \\ tab \t escape \x1b line \n é ‮ 🦊 # no comment'


def test_what_is_shown_could_be_the_file(world: World) -> None:
    world.configure(
        f"[notify]\ncommand = {json.dumps(STRANGE, ensure_ascii=False)}\n"
        'webhooks = ["http://a/?b=c", "#"]\n[stop]\ngrace = "2m"\n[gc]\nmax_events = "64 KB"\n'
    )
    for options in ((), ("--origin",)):
        shown = world.ok("config", "show", *options).out
        assert "\x1b" not in shown
        assert "‮" not in shown
        found = flat(tomllib.loads(shown))
        assert found["notify.command"] == STRANGE
        assert found["notify.webhooks"] == ["http://a/?b=c", "#"]
        assert (found["stop.grace"], found["gc.max_events"]) == ("2m", "64K")
    before = world.ok("config", "show").out
    world.configure(shown)
    assert world.ok("config", "show").out == before


def test_where_each_comes_from(world: World) -> None:
    world.configure("[stop]\ngrace = 3\n[logs]\nmax_size = 100000\n")
    env = with_variables(world, SESH_STOP_GRACE="4s", SESH_NOTIFY_ON="lost, hung")
    lines = world.ok("config", "show", "--origin", env=env).out.splitlines()
    words = {line.split()[0]: line.split() for line in lines}
    assert words["stop.grace"] == ["stop.grace", "=", '"4s"', "#", "$SESH_STOP_GRACE"]
    assert words["logs.max_size"] == ["logs.max_size", "=", "100000", "#", path(world)]
    assert words["tmux.socket"] == ["tmux.socket", "=", '""', "#", "default"]
    assert words["notify.on"][2:] == ['["lost",', '"hung"]', "#", "$SESH_NOTIFY_ON"]


def test_the_same_as_json(world: World) -> None:
    world.configure("[stop]\ngrace = 3\n")
    shown = world.ok("config", "show", "--json", env=with_variables(world, SESH_GC_MAX_AGE="1h"))
    assert {key: one["value"] for key, one in shown.json.items()} == {
        **defaults(),
        "stop.grace": 3.0,
        "gc.max_age": 3600.0,
    }
    assert shown.json["stop.grace"] == {"value": 3.0, "origin": path(world)}
    assert shown.json["gc.max_age"]["origin"] == "$SESH_GC_MAX_AGE"
    assert shown.json["gc.max_idle"]["origin"] == "default"


def test_the_path(world: World) -> None:
    assert world.ok("config", "path").out == f"{path(world)}\n"
    world.configure("nonsense")  # one has to find it to mend it
    assert world.ok("config", "path").out == f"{path(world)}\n"
    env = {name: value for name, value in world.env.items() if name != "XDG_CONFIG_HOME"}
    home = Path(world.env["HOME"])
    assert world.ok("config", "path", env=env).out == f"{home}/.config/sesh/config.toml\n"


# --- edit --------------------------------------------------------------------------------------


def editor(world: World, script: str) -> dict[str, str]:
    """An environment whose editor is a shell script; "$1" is the file."""
    file = world.root / "an editor"
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return {**world.env, "EDITOR": f"'{file}'"}


def test_edit_begins_with_all_defaults_as_comments(world: World) -> None:
    assert world.ok("config", "edit", env=editor(world, ":")).err == ""
    raw = Path(path(world)).read_text()
    assert tomllib.loads(raw) == {section: {} for section in SECTIONS}
    assert world.ok("config", "show", "--json").json == {
        key: {"value": one, "origin": "default"} for key, one in defaults().items()
    }
    assert Path(path(world)).stat().st_mode & 0o777 == 0o600
    uncommented = "\n".join(
        line.removeprefix("# ") for line in raw.splitlines() if " = " in line or line[:1] == "["
    )
    found = flat(tomllib.loads(uncommented))
    assert {key: settings.checked(found[key], one, key) for key, one in typed().items()} == typed()


def test_a_setting_needs_no_more_than_its_own_line(world: World) -> None:
    """A person removes the # in front of one key, wherever it is in the file."""
    for key in ("grace", "max_events", "phases"):
        world.ok("config", "edit", env=editor(world, f'sed -i "s/^# {key} =/{key} =/" "$1"'))
    shown = world.ok("config", "show", "--json").json
    changed = {key for key, one in shown.items() if one["origin"] != "default"}
    assert changed == {"stop.grace", "gc.max_events", "resume.phases"}
    assert world.ok("config", "check").err == ""


def test_edit_keeps_what_is_there_and_checks_what_was_written(world: World) -> None:
    world.configure("[stop]\ngrace = 3\n")
    world.ok("config", "edit", env=editor(world, 'echo "[gc]\nmax_age = \'1d\'" >>"$1"'))
    assert tomllib.loads(Path(path(world)).read_text()) == {
        "stop": {"grace": 3},
        "gc": {"max_age": "1d"},
    }
    useless = world.sesh("config", "edit", env=editor(world, 'echo "[notify]\non = []" >"$1"'))
    assert (useless.code, useless.err) == (0, "")
    wrong = editor(world, 'echo "[stop]\ngrase = 3" >"$1"')
    complains(world.sesh("config", "edit", env=wrong), 6, "stop.grase", "sesh config edit")
    assert world.ok("config", "edit", env=editor(world, 'echo "[stop]" >"$1"')).code == 0


@pytest.mark.parametrize(
    ("variables", "told"),
    [
        ({"EDITOR": "no-such"}, "cannot run the editor no-such: not found; set EDITOR"),
        ({"EDITOR": "/no/such -w"}, "cannot run the editor /no/such: not found; set EDITOR"),
        ({"EDITOR": "/"}, "cannot run the editor /: not found; set EDITOR"),
        ({"EDITOR": "vi", "VISUAL": "no-such"}, "the editor no-such: not found; set VISUAL"),
        ({"EDITOR": "it's"}, "cannot run the editor it's: no closing quotation; set EDITOR"),
        ({"EDITOR": "  "}, "cannot run the editor   : no command; set EDITOR"),
        (
            {"EDITOR": "false"},
            "the editor false failed (it did not exit with 0); nothing was checked",
        ),
    ],
)
def test_an_editor_that_fails(world: World, variables: dict[str, str], told: str) -> None:
    complains(world.sesh("config", "edit", env={**world.env, **variables}), 1, told)


def test_no_editor_at_all(world: World) -> None:
    env = {**world.env, "PATH": f"{world.root}"}
    complains(world.sesh("config", "edit", env=env), 1, "the editor vi: not found; set EDITOR")


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["check", "--json"], "are only for sesh config show"),
        (["path", "--origin"], "are only for sesh config show"),
        (["test-notify", "--json"], "are only for sesh config show"),
        (["shwo"], "shwo"),
        (["check", "--origin"], "are only for sesh config show"),
    ],
)
def test_usage(world: World, words: list[str], told: str) -> None:
    complains(world.sesh("config", *words), 2, told)


# --- check -------------------------------------------------------------------------------------


def test_all_right(world: World) -> None:
    include = world.root / "keys.conf"
    include.touch()
    for text in (
        "",
        "[start]\nretries = 3\nretry_on = ['failure', 'lost', 'timeout', 'always']\n",
        f"[tmux]\ninclude = '{include}'\n",
        "[notify]\ncommand = 'cat'\nwebhooks = ['https://me:pw@example.org:8443/x?y']\n"
        "on = ['completed', 'failed', 'started', 'stopped', 'recovering', 'breaker-opened']\n",
    ):
        world.configure(text)
        done = world.ok("config", "check")
        assert (done.out, done.err) == ("", ""), text


_UNREADABLE = ("[stat]\n", "[stop]\ngrace = -1\n", "x", "[notify]\non = 'x'\n")


@pytest.mark.parametrize("text", [*_UNREADABLE, "[resume]\nphases = ['planning', 'bogus']\n"])
def test_what_can_not_be_read(world: World, text: str) -> None:
    world.configure(text)
    complains(world.sesh("config", "check"), 6, "config.toml")
    complains(world.sesh("config", "test-notify"), 6, "config.toml")


def test_show_prints_what_can_be_read_of_a_broken_file(world: World) -> None:
    world.configure("[stop]\ngrace = 3\n\n[logs]\nmax_sise = '1M'\n")
    warning = "config.toml:5: unknown key logs.max_sise; did you mean logs.max_size?"
    for argv in (["config", "show"], ["config"], ["config", "show", "--json"]):
        done = world.sesh(*argv)
        assert (done.code, one_line(done.err), warning in done.err) == (6, True, True)
        assert "stop.grace" in done.out
    assert done.json["stop.grace"] == {"value": 3.0, "origin": path(world)}
    assert done.json["logs.max_size"]["origin"] == "default"


def test_no_work_is_gone_on_with_in_a_phase_that_there_is_not(world: World) -> None:
    world.ok("start", "one", "--record-only")
    env = with_variables(world, SESH_RESUME_PHASES="planning, bogus")
    complains(
        *(world.sesh("resumable", "one", env=env), 6),
        "SESH_RESUME_PHASES: bogus: should be one of initializing",
    )
    world.configure("[resume]\nphases = ['completed']\n")
    complains(world.sesh("resumable", "one"), 6, "resume.phases: completed: should be one of init")


def test_a_variable_that_can_not_be_read(world: World) -> None:
    env = with_variables(world, SESH_STOP_GRACE="soon")
    complains(world.sesh("config", "check", env=env), 6, "SESH_STOP_GRACE should be a number")


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[start]\nretries = 3\nretry_on = []\n",
            "start.retries is 3, but start.retry_on is empty",
        ),
        ("[start]\nretry_on = ['failed']\n", "start.retry_on: failed: use failure"),
        ("[start]\nretry_delay = 60\nretry_max_delay = 30\n", "is longer than"),
        (
            "[notify]\non = ['faild']\n",
            "notify.on: faild: unknown event or end; did you mean failed?",
        ),
        ("[notify]\non = ['qqqq']\n", "see sesh-json(5)"),
        ("[notify]\non = ['notified']\n", "notify.on: notified"),
        ("[notify]\non = ['running']\n", "notify.on: running"),
        ("[notify]\ncommand = 'cat'\non = []\n", "no notifications are sent"),
        (
            "[notify]\nwebhooks = ['http://a/', 'ftp://s3cret/']\n",
            "number 2 is not an http or https",
        ),
        ("[tmux]\ninclude = '/no/such/file'\n", "tmux.include: /no/such/file does not exist"),
    ],
)
def test_what_makes_no_sense(world: World, text: str, told: str) -> None:
    world.configure(text)
    done = world.sesh("config", "check")
    complains(done, 1, told)
    assert "s3cret" not in done.err


def test_all_that_makes_no_sense_is_told_at_once(world: World) -> None:
    world.configure("[start]\nretry_on = ['x', 'y']\n[tmux]\ninclude = '/no/such'\n")
    done = world.sesh("config", "check")
    assert (done.code, len(done.err.splitlines())) == (1, 3)


def test_a_variable_that_is_no_setting(world: World) -> None:
    env = with_variables(
        world, SESH_STOP_GRASE="3", SESH_ID="x", SESH_OTHER="1", SESH_GC_MAX_AGE="1h"
    )
    told = "$SESH_STOP_GRASE is not a setting; did you mean $SESH_STOP_GRACE?"
    complains(world.sesh("config", "check", env=env), 1, told)


# --- test-notify -------------------------------------------------------------------------------


def test_nobody_to_tell(world: World) -> None:
    complains(
        world.sesh("config", "test-notify"),
        1,
        "no notifications configured",
        "notify.command",
        path(world),
    )


def test_all_are_told(world: World) -> None:
    with receiving() as there:
        command = f"cat >{world.root}/told"
        world.configure(f"[notify]\ncommand = '{command}'\nwebhooks = ['{there.address}/x']\n")
        done = world.ok("config", "test-notify")
        assert done.out == f"ok      cat\nok      {there.address}\n"
        heard = json.loads((world.root / "told").read_text())
        assert heard == there.requests[0].body
        assert (heard["kind"], heard["session"], heard["text"]) == (
            "test",
            None,
            "sesh test notification",
        )
        assert not world.state.exists()  # it is not recorded


def test_some_are_told(world: World) -> None:
    with receiving() as there:
        there.answers = [500]
        world.configure(
            f"[notify]\ncommand = 'true'\nwebhooks = ['http://me:s3cret@127.0.0.1:{there.port}/s3cret']\n"
        )
        done = world.sesh("config", "test-notify")
        failed = f"failed  {there.address}: answered 500 Internal Server Error"
        assert (done.code, done.out) == (9, f"ok      true\n{failed}\n")
        assert len(there.requests) == 1  # it is tried once


def test_none_is_told(world: World) -> None:
    port = closed_port()
    command = 'echo "no desktop \\033[31m" >&2; exit 4'
    world.configure(f"[notify]\ncommand = '{command}'\nwebhooks = ['http://127.0.0.1:{port}']\n")
    done = world.sesh("config", "test-notify")
    assert done.code == 1
    assert done.out == (
        "failed  echo: exit 4\n        no desktop \\x1b[31m\n"
        f"failed  http://127.0.0.1:{port}: Connection refused\n"
    )


def test_who_hangs_is_not_waited_for(world: World) -> None:
    with receiving() as there:
        there.answers = [None]
        world.configure(
            f"[notify]\ncommand = 'sleep 1000'\nwebhooks = ['{there.address}']\ntimeout = 0.5\n"
        )
        done = world.sesh("config", "test-notify", timeout=30)
        late = "no answer within 0.5 s"
        assert done.code == 1
        assert done.out == f"failed  sleep: {late}\nfailed  {there.address}: {late}\n"


def test_a_timeout_of_a_month_and_a_command_that_can_not_be(world: World) -> None:
    """Whatever the settings take, no traceback comes of it."""
    with receiving() as there:
        text = f"[notify]\ncommand = 'sleep 0.2'\nwebhooks = ['{there.address}']\n"
        world.configure(f"{text}timeout = '30d'\n[tmux]\ntimeout = '30d'\n")
        done = world.ok("config", "test-notify", timeout=30)
        assert (done.out, done.err) == (f"ok      sleep\nok      {there.address}\n", "")
    world.start("a")
    assert world.state_of("a") == "running"
    world.configure('[notify]\ncommand = "echo \\u0000"\n')
    done = world.sesh("config", "test-notify")
    assert (done.code, done.err) == (1, "")
    assert done.out.endswith(": /bin/sh: embedded null byte\n")


# --- what goes before what ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "variables", "options", "meant"),
    [
        ("", {}, [], 10.0),
        ("[stop]\ngrace = 2\n", {}, [], 2.0),
        ("[stop]\ngrace = 2\n", {"SESH_STOP_GRACE": "3s"}, [], 3.0),
        ("", {"SESH_STOP_GRACE": "3s"}, [], 3.0),
        ("[stop]\ngrace = 2\n", {"SESH_STOP_GRACE": "3s"}, ["--grace", "4"], 4.0),
        ("[stop]\ngrace = 2\n", {}, ["--grace", "4"], 4.0),
    ],
)
def test_the_grace_of_a_stop(
    world: World, text: str, variables: dict[str, str], options: list[str], meant: float
) -> None:
    world.configure(text)
    world.start("a")
    world.ok("stop", "a", *options, env=with_variables(world, **variables))
    assert read_record(world, "a").status.stop_grace == meant


@pytest.mark.parametrize(
    ("text", "variables", "options", "meant"),
    [
        ("", {}, [], 0),
        ("[start]\nretries = 2\n", {}, [], 2),
        ("[start]\nretries = 2\n", {"SESH_START_RETRIES": "3"}, [], 3),
        ("[start]\nretries = 2\n", {"SESH_START_RETRIES": "3"}, ["--retries", "4"], 4),
        ("[start]\nretries = 2\n", {"SESH_START_RETRIES": "3"}, ["--retries", "0"], 0),
    ],
)
def test_the_retries_of_a_start(
    world: World, text: str, variables: dict[str, str], options: list[str], meant: int
) -> None:
    world.configure(text)
    env = with_variables(world, **variables)
    world.ok("start", "a", *options, "--", "sleep", "1000", env=env)
    assert read_record(world, "a").spec.supervision.retries == meant


def test_a_variable_is_for_one_call(world: World) -> None:
    world.start("a")
    world.ok("stop", "a", env=with_variables(world, SESH_STOP_GRACE="3"))
    world.ok("restart", "a")
    world.ok("stop", "a")
    assert read_record(world, "a").status.stop_grace == 10.0
