"""What a person, an engine, a stranger's container or the agent itself can do wrong: one clear
line, the right exit code, nothing left behind, nothing outside touched."""

from __future__ import annotations

import os
import re
from pathlib import Path

import pytest

from tests.engine import BARE_IMAGE, IMAGE, Engine
from tests.places.docker.boxes import (
    IN_A_BOX,
    PATIENCE,
    Calls,
    becomes,
    id_of,
    inside,
    run_box,
    start,
    start_also,
    told,
)
from tests.surroundings import as_stranger, complains, give_to_stranger, run
from tests.world import SESH, Done, World, eventually


def refused(world: World, *options: str) -> Done:
    return world.sesh("start", "a", *options, "--", "cat")


def nothing_is_left(world: World) -> None:
    """Neither a record, nor a file of a launch, nor a transcript."""
    assert world.ls() == []
    left = [*world.state.glob("run/*/*"), *world.state.glob("transcripts/*")]
    assert [path.name for path in left if "a-2" in path.name] == []


# --- what start was asked for --------------------------------------------------------------------


REFUSED = [
    (("--image", "nosuch"), 1, ("no local image nosuch", "docker pull nosuch", "--pull")),
    (("--image", "No Such!"), 1, ("No Such!",)),
    (("--image", ""), 2, ("empty",)),
    (("--image", BARE_IMAGE, "--network", "none"), 1, ("has no tmux", "apt-get", "apk")),
    (("--image", IMAGE, "--container", "x"), 2, ("not both",)),
    (("--container", "nosuch"), 1, ("no container nosuch", "docker ps")),
    (("--container", "nosuch", "--cpus", "2"), 2, ("--image",)),
    (("--cpus", "2"), 2, ("--image",)),
    (("--env-file", "x"), 2, ("--image",)),
    ((*IN_A_BOX, "--memory", "lots"), 2, ("--max-memory", "500M")),
    ((*IN_A_BOX, "--memory", "1m"), 1, ("memory",)),
    ((*IN_A_BOX, "--cpus", "-1"), 2, ("--cpus -1",)),
    ((*IN_A_BOX, "--cpus", "99999"), 1, ("CPUs",)),
    ((*IN_A_BOX, "--mount", "nosuch/here"), 1, ("--mount nosuch/here", "does not exist")),
    ((*IN_A_BOX, "--mount", "/tmp:relative"), 2, ("--mount /tmp:relative", "absolute")),
    ((*IN_A_BOX, "--mount", "/tmp:/x:rw:z"), 2, ("--mount /tmp:/x:rw:z",)),
    ((*IN_A_BOX, "--mount", "/tmp:/"), 1, ("/",)),
    ((*IN_A_BOX, "--mount", ""), 2, ("--mount",)),
    ((*IN_A_BOX, "--user", "nosuch"), 1, ("nosuch",)),
    ((*IN_A_BOX, "--env-file", "nosuch"), 2, ("--env-file nosuch", "No such file")),
    (("--image", IMAGE, "--network", "nosuch"), 1, ("network nosuch",)),
    ((*IN_A_BOX, "--docker-opt", "--nosuch"), 1, ("unknown flag: --nosuch",)),
    ((*IN_A_BOX, "--docker-opt", "--help"), 1, ()),
    ((*IN_A_BOX, "--docker-opt", "--read-only"), 1, ("/tmp", "Read-only", "--tmpfs=/tmp")),
    (
        (*IN_A_BOX, "--no-mount", "-C", "/", "--docker-opt", "--tmpfs=/tmp:ro"),
        1,
        ("/tmp is not writable", "Read-only"),
    ),
    ((*IN_A_BOX, "--no-mount", "-C", "relative"), 2, ("-C relative", "absolute")),
    ((*IN_A_BOX, "-C", "/nosuch"), 1, ("/nosuch: no such directory",)),
]


def test_a_start_that_is_refused(boxed: World, engine: Engine) -> None:
    for options, code, words in REFUSED:
        complains(refused(boxed, *options), code, *words)
        assert engine.containers() == [], options
        nothing_is_left(boxed)


def test_no_image_is_fetched_without_being_asked(boxed: World) -> None:
    calls = Calls(boxed)
    complains(refused(boxed, "--image", "nosuch"), 1, "no local image")
    assert not [call for call in calls.made() if re.search(r"\b(pull|run|create)\b", call)]


def test_a_name_that_a_foreign_container_has(boxed: World, engine: Engine) -> None:
    theirs = run_box(engine, "sesh-a")
    complains(refused(boxed, *IN_A_BOX), 8, "sesh-a", "sesh did not create")
    assert engine.containers(all=False) == ["sesh-a"]
    assert id_of(engine, "sesh-a") == theirs
    nothing_is_left(boxed)


def test_an_existing_container_that_does_not_run(boxed: World, engine: Engine) -> None:
    run_box(engine, "theirs")
    engine.docker("pause", "theirs")
    complains(refused(boxed, "--container", "theirs"), 8, "docker unpause theirs")
    engine.docker("kill", "theirs")
    complains(refused(boxed, "--container", "theirs"), 1, "docker start theirs")
    nothing_is_left(boxed)


def test_an_existing_container_without_tmux(boxed: World, engine: Engine) -> None:
    run_box(engine, "theirs", image=BARE_IMAGE)
    complains(refused(boxed, "--container", "theirs"), 1, "theirs has no tmux")
    assert engine.containers(all=False) == ["theirs"]
    assert engine.docker("exec", "theirs", "ls", "-A", "/tmp") == ""
    nothing_is_left(boxed)


# --- the engine ----------------------------------------------------------------------------------


def test_no_engine_answers(boxed: World) -> None:
    boxed.env["DOCKER_HOST"] = f"unix://{boxed.root}/nobody.sock"
    complains(refused(boxed, *IN_A_BOX), 5, "does not answer", "dockerd")
    nothing_is_left(boxed)


@pytest.mark.parametrize(
    ("variable", "value"), [("DOCKER_HOST", "nonsense://x"), ("DOCKER_CONTEXT", "nosuch")]
)
def test_an_address_of_no_engine(boxed: World, variable: str, value: str) -> None:
    del boxed.env["DOCKER_HOST"]
    boxed.env[variable] = value
    complains(refused(boxed, *IN_A_BOX), 5, f"{variable}={value}", "next: unset")
    nothing_is_left(boxed)
    boxed.ok("ls", "--all")
    boxed.ok("gc")


def test_a_read_only_root_with_a_place_for_the_socket(boxed: World) -> None:
    shown = start_also(boxed, "a", "--docker-opt", "--read-only", "--docker-opt", "--tmpfs=/tmp")
    assert shown["state"] == "running"


def test_a_name_that_another_state_directory_has(boxed: World, engine: Engine) -> None:
    start(boxed, "a")
    other = {**boxed.env, "XDG_STATE_HOME": str(boxed.root / "other")}
    done = boxed.sesh("start", "a", *IN_A_BOX, "--", "cat", env=other)
    complains(done, 8, "sesh-a", "another state directory", str(boxed.state), "another name")
    assert boxed.sesh("ls", "--json", env=other).json == []
    assert boxed.state_of("a") == "running"


def test_directories_where_the_files_of_the_next_launch_go(boxed: World, engine: Engine) -> None:
    """In a container that existed before; see test_hostile for one that sesh made."""
    run_box(engine, "theirs")
    shown = boxed.start("a", options=("--container", "theirs"))
    home = f"/tmp/.sesh-{shown['id'][-8:]}"
    names = " ".join(f"{shown['id']}.2.{kind}/deep" for kind in ("pid", "launch", "env"))
    engine.docker("exec", "theirs", "sh", "-c", f"cd {home} && mkdir -p {names}")
    boxed.ok("restart", "a")
    assert told(boxed.session("a"), "state", "generation") == ("running", 2)


def test_no_permission_to_speak_to_the_engine(boxed: World) -> None:
    give_to_stranger(boxed)
    done = run(boxed, *as_stranger(SESH, "start", "a", *IN_A_BOX, "--", "cat"))
    complains(done, 5, "no permission", "group docker")


def test_an_engine_that_answers_nonsense(boxed: World) -> None:
    fake = boxed.root / "docker"
    fake.write_text("#!/bin/sh\nprintf 'all is \\033[2Jfine\\n'\n")
    fake.chmod(0o755)
    boxed.configure(f'[docker]\ncommand = "{fake}"\n')
    done = refused(boxed, *IN_A_BOX)
    complains(done, done.code)
    assert done.code in (1, 5)
    assert "\033" not in done.err
    nothing_is_left(boxed)


def test_an_engine_that_warns_beside_its_answer(boxed: World, engine: Engine) -> None:
    settings = boxed.root / "docker-settings"
    settings.mkdir()
    (settings / "config.json").write_text("{")
    boxed.env["DOCKER_CONFIG"] = str(settings)
    run_box(engine, "theirs")
    assert start(boxed, "a", options=("--container", "theirs"))["state"] == "running"
    engine.docker("rm", "--force", "theirs")
    assert becomes(boxed, "a", "lost")["cause"] == "container-gone"


# --- strangers' containers -----------------------------------------------------------------------


def test_a_foreign_container_with_our_label_is_left_alone(boxed: World, engine: Engine) -> None:
    identity = start(boxed, "a")["id"]
    run_box(engine, "theirs", "--label", f"sesh.id={identity}", "--label", "sesh.name=a")
    boxed.ok("stop", "a")
    assert boxed.state_of("a") == "stopped"
    boxed.ok("rm", "a")
    assert engine.containers(all=False) == ["theirs"]


def test_control_characters_in_labels_reach_no_terminal(boxed: World, engine: Engine) -> None:
    evil = "\033[2J\n\033]0;evil\007"
    run_box(engine, "theirs", "--label", f"sesh.id={evil}", "--label", f"sesh.name={evil}")
    start(boxed, "a", options=("--container", "theirs"))
    for command in (("ls",), ("show", "a"), ("ls", "--json"), ("stop", "a"), ("events",)):
        done = boxed.ok(*command)
        assert "\033" not in done.out + done.err
    assert engine.containers(all=False) == ["theirs"]


# --- an agent that forges what leaves its container ----------------------------------------------

FORGED = {
    "a link to a file": "ln -s {secret} {exit}",
    "a link to a word": "ln -s {word} {exit}",
    "a dangling link": "ln -s /nosuch {exit}",
    "a pipe": "mkfifo {exit}",
    "a device": "mknod {exit} c 1 5",
    "a directory": "mkdir {exit}",
    "a huge file": "truncate -s 20G {exit}",
    "another text": "printf '\\033[2J evil' >{exit}",
    "no number": "echo three here >{exit}",
    "no status": "echo 99999999999999999999 here >{exit}",
    "nothing": ": >{exit}",
    "a word of the next generation": "echo 7 here >{next}",
    "a word of the last generation": "echo 7 here >{last}",
}


def test_forged_reports_are_not_trusted(boxed: World, engine: Engine) -> None:
    identity = start(boxed, "a", "sleep", "1000")["id"]
    secret, word = boxed.root / "secret", boxed.root / "word"
    secret.write_text("secret")
    word.write_text("7 here\n")
    stem = f"/run/sesh/{identity}"
    names = {"exit": f"{stem}.1.exit", "next": f"{stem}.2.exit", "last": f"{stem}.0.exit"}
    for forgery, script in FORGED.items():
        forge = script.format(secret=secret, word=word, **names)
        inside(engine, "a", f"rm -rf /run/sesh/*.exit; {forge}")
        assert told(boxed.session("a"), "state", "exit_code") == ("running", None), forgery
    assert (secret.read_text(), word.read_text()) == ("secret", "7 here\n")


def test_forged_files_do_not_block_a_launch(boxed: World, engine: Engine) -> None:
    identity = start(boxed, "a", "sleep", "1000")["id"]
    word = boxed.root / "word"
    word.write_text("7 here\n")
    for generation, forgery in enumerate(("a link to a word", "a pipe", "a directory"), 1):
        place = f"/run/sesh/{identity}.{generation}.exit"
        inside(engine, "a", FORGED[forgery].format(word=word, exit=place))
        boxed.ok("stop", "a", "--keep")
        assert told(boxed.session("a"), "state", "generation") == ("stopped", generation), forgery
        boxed.ok("restart", "a")
    boxed.ok("stop", "a")
    boxed.ok("rm", "a")
    nothing_is_left(boxed)
    assert word.read_text() == "7 here\n"


def test_a_forged_pid_hits_no_other_process_and_a_forged_end_hides_no_agent(
    boxed: World, engine: Engine
) -> None:
    shown = start(boxed, "a")
    innocent = boxed.start("innocent")["pid"]
    word = f"{innocent} 1 {os.getpid()} {os.getpid()} 0 %0 {os.getpid()} 1"
    inside(engine, "a", f"echo {word} >/run/sesh/{shown['id']}.1.pid")
    assert boxed.session("a")["pid"] == shown["pid"]
    inside(engine, "a", f"echo 0 here >/run/sesh/{shown['id']}.1.exit")
    assert boxed.state_of("a") == "orphan"
    boxed.ok("stop", "a")
    assert engine.containers() == []
    assert boxed.state_of("innocent") == "running"


def exit_word(world: World, generation: int) -> Path:
    """The keeper's word in the box, as soon as it is there."""
    pattern = f"run/*/*.box/*.{generation}.exit"
    found: list[Path] = eventually(lambda: list(world.state.glob(pattern)), PATIENCE)
    return found[0]


def test_reports_with_absurd_times(boxed: World) -> None:
    start(boxed, "a", "sh", "-c", "read word; exit 3")
    for number, when in enumerate((-(1 << 40), -1, 1 << 33, 1 << 40), 1):
        if number > 1:
            boxed.ok("restart", "a")
        boxed.ok("send", "a", "go")
        os.utime(exit_word(boxed, number), (when, when))
        shown = boxed.session("a")
        assert told(shown, "state", "exit_code", "generation") == ("failed", 3, number), when
        for command in (("ls",), ("show", "a"), ("gc", "--dry-run")):
            boxed.ok(*command)


def test_an_agent_that_deletes_its_mount(boxed: World, engine: Engine) -> None:
    """The dead pane still knows how it ended."""
    start(boxed, "a", "sh", "-c", "read word; rm -rf /run/sesh/*; read word; exit 3")
    boxed.ok("send", "a", "sweep")
    assert eventually(lambda: inside(engine, "a", "ls /run/sesh") == "", PATIENCE)
    assert boxed.state_of("a") == "running"
    boxed.ok("send", "a", "go")
    assert told(becomes(boxed, "a", "failed"), "exit_code") == (3,)
    boxed.ok("restart", "a")
    assert boxed.state_of("a") == "running"
    boxed.ok("stop", "a")
    assert engine.containers() == []


def test_links_in_a_mount_are_not_followed(boxed: World, engine: Engine) -> None:
    outside = boxed.root / "outside"
    outside.mkdir()
    for name in ("keeper.sh", "tmux.conf", "words.sh", "file"):
        (outside / name).write_text("untouched")
    identity = start(boxed, "a", "sleep", "1000")["id"]
    links = [f"ln -sf {outside}/{name} /run/sesh/{name}" for name in os.listdir(outside)]
    links += [
        f"ln -sf {outside}/file /run/sesh/{identity}.2.launch",
        f"ln -s {outside} /run/sesh/d",
    ]
    inside(engine, "a", "; ".join(links))
    boxed.ok("restart", "a")
    assert boxed.state_of("a") == "running"
    boxed.ok("stop", "a")
    boxed.ok("rm", "a")
    nothing_is_left(boxed)
    assert {path.read_text() for path in outside.iterdir()} == {"untouched"}


def test_a_mount_is_closed_to_other_users(boxed: World) -> None:
    give_to_stranger(boxed)
    os.chown(boxed.root, 0, 0)
    boxed.root.chmod(0o755)
    for path in boxed.root.rglob("*"):
        os.chown(path, 0, 0, follow_symlinks=False)
    shown = start(boxed, "a")
    (box,) = boxed.state.glob(f"run/*/{shown['id']}.box")
    done = run(boxed, *as_stranger("ls", str(box)), cwd=Path("/"))
    assert "Permission denied" in done.err
