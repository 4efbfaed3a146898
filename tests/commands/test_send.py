"""sesh send: type into a session as a person would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import agent, dialog
from tests.surroundings import complains, run
from tests.world import SESH, Done, World, eventually

# Reads its terminal as a full-screen agent does: raw, with bracketed paste. Writes all it got.
RAW_READER = """
import os, sys, tty
tty.setraw(0)
os.write(1, b"\\033[?2004hready")
with open("got", "wb", buffering=0) as file:
    while data := os.read(0, 65536):
        file.write(data)
        os.write(1, b".")
"""


def reader(world: World) -> None:
    """A session whose agent prints the lines that it reads, and writes them into the file `got`."""
    world.start("a", "sh", "-c", "stty -echo; echo ready; exec tee got")
    assert eventually(lambda: "ready" in world.ok("logs", "a").out)


def raw_reader(world: World) -> None:
    world.start("a", sys.executable, "-c", RAW_READER)
    assert eventually(lambda: "ready" in world.ok("logs", "a").out)


def got(world: World) -> bytes:
    path = world.cwd / "got"
    return path.read_bytes() if path.exists() else b""


def gets(world: World, wanted: bytes, within: float = 10) -> None:
    assert eventually(lambda: got(world) == wanted, within), got(world)[:500]


# --- text --------------------------------------------------------------------------------------


def test_types_the_words_and_presses_enter(world: World) -> None:
    world.start("a", "cat")
    done = world.ok("send", "a", "one", "two  three")
    assert (done.out, done.err) == ("", "")
    assert eventually(lambda: world.ok("logs", "a").out == "one two  three\n" * 2)


TEXTS = [
    "semi; colon;",
    ";",
    "#{pane_id} #(touch hurt) #S",
    "$(touch hurt) `touch hurt` $HOME ${HOME}",
    "Enter",
    "C-c",
    "-l",
    "quotes ' \" and \\ back \\n \\;",
    "%0 ~ ! {a,b} *",
    "ünï € 漢字 🙂",
]


def test_every_text_arrives_as_it_is(world: World) -> None:
    reader(world)
    sent = b""
    for text in TEXTS:
        world.ok("send", "a", "--", text)
        sent += f"{text}\n".encode()
        gets(world, sent)
    assert not (world.cwd / "hurt").exists()


def test_many_lines_reach_cat_as_lines(world: World) -> None:
    reader(world)
    world.ok("send", "a", "first\nsecond\n\nlast")
    gets(world, b"first\nsecond\n\nlast\n")


def test_many_lines_are_one_paste_where_the_program_asks_for_brackets(world: World) -> None:
    """So that a newline in it is no Enter; the Enter comes by itself, after the paste."""
    raw_reader(world)
    world.ok("send", "a", "first\nsecond")
    gets(world, b"\x1b[200~first\nsecond\x1b[201~\r")


def test_no_enter(world: World) -> None:
    raw_reader(world)
    world.ok("send", "--no-enter", "a", "half a line")
    gets(world, b"\x1b[200~half a line\x1b[201~")


def test_standard_input(world: World) -> None:
    reader(world)
    world.ok("send", "a", "-", stdin="from\nstandard input\n")
    gets(world, b"from\nstandard input\n")


def test_a_dash_among_words_is_a_word(world: World) -> None:
    reader(world)
    world.ok("send", "a", "a", "-", "b")
    gets(world, b"a - b\n")


def test_a_hundred_kilobytes(world: World) -> None:
    """In lines: a terminal that edits lines takes no more than 4095 bytes in one."""
    reader(world)
    text = "".join(f"{number:09}\n" for number in range(10240))
    world.ok("send", "a", "-", stdin=text)
    gets(world, text.encode(), 20)


def test_a_hundred_kilobytes_in_one_line_of_a_raw_terminal(world: World) -> None:
    raw_reader(world)
    text = "".join(f"{number:09}." for number in range(10240))
    world.ok("send", "--no-enter", "a", "-", stdin=text)
    gets(world, b"\x1b[200~" + text.encode() + b"\x1b[201~", 20)


def test_leaves_no_buffer_and_no_text_on_a_command_line(world: World) -> None:
    reader(world)
    world.ok("send", "a", "-", stdin="a secret")
    gets(world, b"a secret\n")
    assert world.tmux("list-buffers") == ""


def test_bytes_that_are_no_utf8(world: World) -> None:
    reader(world)
    subprocess.run([SESH, "send", "a", "-"], env=world.env, input=b"\xff\xfe", check=True)
    gets(world, b"\xff\xfe\n")


def test_a_closing_bracket_in_the_text_can_not_end_the_paste(world: World) -> None:
    """Else the rest would be typed as keys: a newline in it would run it."""
    raw_reader(world)
    world.sesh("send", "a", "x\x1b[201~\nrm")
    time.sleep(0.5)
    assert got(world).count(b"\x1b[201~") <= 1


# --- keys --------------------------------------------------------------------------------------


def test_ctrl_c_ends_a_sleep(world: World) -> None:
    world.start("a", "sleep", "1000")
    world.sesh("send", "a", "--key", "C-c")
    assert eventually(lambda: world.session("a")["signal"] == 2), world.session("a")


def test_an_end_is_proof_enough(world: World) -> None:
    world.start("a", "sh", "-c", "stty -echo; echo ready; exec cat")
    assert eventually(lambda: "ready" in world.ok("logs", "a").out)
    world.ok("send", "a", "--key", "C-d")
    assert eventually(lambda: world.state_of("a") == "completed")


def test_keys_come_after_the_text(world: World) -> None:
    raw_reader(world)
    world.ok("send", "--no-enter", "a", "x", "-k", "Escape", "-k", "Up", "-k", "Enter", "-k", ";")
    gets(world, b"\x1b[200~x\x1b[201~\x1b\x1b[A\r;")


def test_keys_alone_press_no_enter(world: World) -> None:
    raw_reader(world)
    world.ok("send", "a", "-k", "y")
    gets(world, b"y")


def test_what_is_no_key_is_refused_and_nothing_is_sent(world: World) -> None:
    raw_reader(world)
    for key in ("Entr", "C-", "-X", "abc", "", "Any", "kill-server"):
        complains(world.sesh("send", "a", "text", "--key", key), 2, "unknown key")
    time.sleep(0.2)
    assert got(world) == b""


# --- a sign of arrival -------------------------------------------------------------------------


def test_not_confirmed_when_nothing_showed_that_it_arrived(world: World) -> None:
    world.start("a", "sh", "-c", "stty -echo; echo ready; exec tee got >/dev/null")
    assert eventually(lambda: "ready" in world.ok("logs", "a").out)
    complains(world.sesh("send", "a", "hello"), 1, "not confirmed", "sesh logs a")
    gets(world, b"hello\n")  # yet it did


def test_a_program_that_echoes_is_sign_enough(world: World) -> None:
    world.start("a", "cat")
    assert world.ok("send", "a", "hello").err == ""


def test_the_echo_of_a_paste_is_no_proof_of_an_agent(world: World) -> None:
    """It stands in the input, and Enter does nothing."""
    dialog.begin(world)
    world.ok("send", "a", "deaf now")
    complains(world.sesh("send", "a", "hello"), 1, "not confirmed")
    assert "❯ hello" in dialog.screen(world)


def test_an_agents_prompt_hook_is_the_proof(world: World) -> None:
    agent.install(world)
    session = agent.begin(world)
    event = {"hook_event_name": "UserPromptSubmit", "session_id": session["conversation"]}
    assert world.ok("send", "one", f"hook {json.dumps(event)}").err == ""


def test_the_conversation_has_it_or_it_is_not_confirmed(world: World) -> None:
    agent.install(world)
    agent.begin(world)
    world.ok("send", "one", "prompt hello there")
    complains(world.sesh("send", "one", "hello there"), 1, "one: not confirmed")


# --- while it asks -----------------------------------------------------------------------------


def asked(done: Done, *words: str) -> None:
    """Refused: the question in a line, and what to do about it in another."""
    assert (done.code, done.out) == (8, ""), done
    first, second, rest = done.err.split("\n")
    assert first.startswith("sesh: "), done
    assert "is waiting for an answer, nothing was sent" in first
    assert "type anyway: sesh send --force" in second
    assert rest == ""
    for word in words:
        assert word in done.err, (word, done)


@pytest.mark.parametrize("what", ["run rm -rf build", "trust it", "where now"])
def test_nothing_is_typed_into_a_dialog(world: World, what: str) -> None:
    """Its rules name the first one only; the others look like it."""
    dialog.begin(world, "a", "--group", "g")
    dialog.asks(world, what)
    before = dialog.screen(world)
    for text in ("no", "4", "yes", "please also fix the docs", "1"):
        asked(world.sesh("send", "a", text), "answer it: sesh answer a ")
    asked(world.sesh("send", "a", "-", stdin="no\n"))
    asked(world.sesh("send", "--no-enter", "a", "no"))
    asked(world.sesh("send", "--group", "g", "no"), "a is waiting")
    assert dialog.screen(world) == before
    assert dialog.lines(world, "decided") == []


def test_force_types_anyway_and_keys_are_always_possible(world: World) -> None:
    dialog.begin(world)
    dialog.asks(world, "run rm -rf build")
    world.ok("send", "a", "--key", "Escape")
    assert dialog.lines(world, "decided") == ["run 3"]
    dialog.asks(world, "run rm -rf build")
    world.ok("send", "--force", "a", "no")
    assert dialog.lines(world, "decided") == ["run 3", "run 1"]


def test_a_dialog_that_opens_while_the_text_is_typed(world: World) -> None:
    dialog.begin(world)
    done = world.sesh("send", "a", "surprise")
    assert done.code == 8
    assert "the text was pasted without Enter" in done.err
    assert dialog.lines(world, "decided") == []


def test_a_question_that_only_its_hook_tells_of(world: World) -> None:
    agent.install(world)
    agent.begin(world)
    wants = {"tool_name": "Bash", "tool_input": {"command": "rm -rf build"}}
    agent.tells(world, {"hook_event_name": "PermissionRequest", **wants})
    asked(world.sesh("send", "one", "no"), "Bash wants to run: rm -rf build", "sesh attach one")
    question = world.session("one")["question"]
    assert question["tool"] == "Bash"
    assert question["input"] == {"command": "rm -rf build"}
    assert question["source"] == "hook"
    agent.tells(world, {"hook_event_name": "Stop"})
    assert world.session("one")["question"] is None


def test_a_trouble_is_no_question(world: World) -> None:
    """What it waits for is not decided by what is typed."""
    agent.install(world)
    agent.begin(world)
    agent.tells(world, {"hook_event_name": "StopFailure", "error": "rate_limit"})
    assert world.session("one")["activity"] == "waiting"
    world.ok("send", "one", "prompt go on")


# --- what can't be sent to ---------------------------------------------------------------------


def test_an_ended_session(world: World) -> None:
    world.start("a", "false")
    assert eventually(lambda: world.state_of("a") == "failed")
    complains(world.sesh("send", "a", "hello"), 3, "ended", "sesh restart a")


def test_one_that_is_being_stopped(world: World) -> None:
    world.start("a", "sh", "-c", "trap '' TERM HUP; echo up; while :; do sleep 0.1; done")
    assert eventually(lambda: "up" in world.ok("logs", "a").out)
    stopping = world.popen("stop", "--grace", "60", "a")
    assert eventually(lambda: world.state_of("a") == "stopping")
    complains(world.sesh("send", "a", "hello"), 8, "a is stopping")
    stopping.kill()
    stopping.wait()


def test_an_orphan_has_no_terminal_to_type_into(world: World) -> None:
    world.start("a", "sh", "-c", "trap '' HUP; echo up; while :; do sleep 0.1; done")
    assert eventually(lambda: "up" in world.ok("logs", "a").out)
    world.tmux("kill-pane", "-t", "=a:")
    assert eventually(lambda: world.state_of("a") == "orphan")
    complains(world.sesh("send", "a", "hello"), 8, "a is orphan")


def test_an_unknown_name(world: World) -> None:
    complains(world.sesh("send", "nobody", "hello"), 4, "nobody")


def test_nothing_to_send(world: World) -> None:
    world.start("a", "cat")
    complains(world.sesh("send", "a"), 2, "nothing to send")
    complains(world.sesh("send", "a", "-", stdin=""), 2, "nothing to send")


def test_more_than_a_megabyte_is_refused(world: World) -> None:
    reader(world)
    complains(world.sesh("send", "a", "-", stdin="x" * ((1 << 20) + 1)), 2, "1 MiB")
    assert got(world) == b""


def test_a_damaged_record(world: World) -> None:
    world.start("a", "cat")
    world.record("a").write_text("nonsense")
    complains(world.sesh("send", "a", "hello"), 6, "damaged")


def test_a_pane_that_somebody_has_left_scrolled_back(world: World) -> None:
    world.start("a", "sh", "-c", "seq 200; exec tee got")
    assert eventually(lambda: "200" in world.ok("logs", "a").out)
    world.tmux("copy-mode", "-t", "=a:")
    world.tmux("send-keys", "-t", "=a:", "-X", "page-up")
    world.ok("send", "a", "hello")
    gets(world, b"hello\n")


def test_another_server_at_the_socket_gets_nothing(world: World) -> None:
    """Panes are numbered by each server: the same number there is another session's."""
    world.start("a", "cat")
    hidden = Path(world.socket)
    hidden.rename(hidden.with_name("hidden"))
    keep = ("new-session", "-d", "-s", "a", "exec tee wrong")
    run(world, "tmux", "-S", str(hidden), "-f", os.devnull, *keep)
    assert eventually((world.cwd / "wrong").exists)
    complains(world.sesh("send", "a", "hello"), 5, "cannot be reached", "sesh doctor")
    assert (world.cwd / "wrong").read_bytes() == b""
    run(world, "tmux", "-S", str(hidden), "kill-server")


def test_a_deleted_socket_is_restored(world: World) -> None:
    world.start("a", "tee", "got")
    Path(world.socket).unlink()
    world.ok("send", "a", "hello")
    gets(world, b"hello\n")
