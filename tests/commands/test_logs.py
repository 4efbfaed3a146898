"""sesh logs: what a session printed, as a person would read it, while it runs and after its end."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import pytest

from tests import pace
from tests.emulator import Terminal, reading
from tests.surroundings import complains
from tests.world import SESH, World, count, eventually

MEGABYTE = 1 << 20

# Draws as a full-screen program does: its own screen, the cursor everywhere, colours, a frame.
PAINTER = """
import sys, time
w = sys.stdout.write
w("\\033[?1049h\\033[H\\033[2J\\033[?25l")
w("\\033[3;10H\\033[1;31mred\\033[0m and \\033[4mlined\\033[0m")
w("\\033[1;1H" + "═" * 20)
w("\\033[5;1Hprogress 10%\\rprogress 99%")
w("\\033]0;a title\\007\\033[2;5Htop")
w("\\033[6;1Hgone\\033[2K")
sys.stdout.flush()
time.sleep(1000)
"""


def printed(world: World, name: str, text: str) -> None:
    """Wait until the session has printed this."""
    assert eventually(lambda: text in world.ok("logs", name).out, 10), world.ok("logs", name).out


def transcript(world: World) -> Path:
    (path,) = (world.state / "transcripts").glob("*.log")
    return path


def kill_server(world: World) -> None:
    """Kill the tmux server, and with it all panes."""
    os.kill(world.server_pid(), signal.SIGKILL)


def readable(text: str) -> bool:
    """Nothing but lines of printable characters."""
    return all(char.isprintable() or char == "\n" for char in text)


# --- a session that runs -----------------------------------------------------------------------


def test_shows_what_a_shell_and_its_person_wrote(world: World) -> None:
    world.start("a", "bash", "--norc", "-i", options=["-ePS1=$ "])
    world.ok("send", "a", "echo one; echo two")
    printed(world, "a", "\ntwo\n")
    assert world.ok("logs", "a").out.splitlines() == ["$ echo one; echo two", "one", "two", "$"]


def test_colours_and_titles_are_left_out(world: World) -> None:
    world.start("a", "sh", "-c", r"printf '\033[31mred\033[0m \033]0;title\007ü €\n'; exec cat")
    printed(world, "a", "red")
    assert world.ok("logs", "a").out == "red ü €\n"


def test_scrollback_is_shown_and_a_long_line_stays_one(world: World) -> None:
    world.start("a", "sh", "-c", "seq 1000; printf '%0500d\\n' 7; exec cat")
    printed(world, "a", "0007")
    lines = world.ok("logs", "a").out.splitlines()
    assert lines == [*map(str, range(1, 1001)), f"{7:0500d}"]


def test_only_the_last_lines(world: World) -> None:
    world.start("a", "sh", "-c", "seq 20; exec cat")
    printed(world, "a", "20")
    for wanted in (0, 1, 3, 99):
        lines = world.ok("logs", "-n", str(wanted), "a").out.splitlines()
        assert lines == [str(number) for number in range(max(1, 21 - wanted), 21)]


def test_nothing_printed_is_nothing_shown(world: World) -> None:
    world.start("a", "sleep", "1000")
    done = world.ok("logs", "a")
    assert (done.out, done.err) == ("", "")


def test_vim_is_readable(world: World) -> None:
    editor = shutil.which("vim") or shutil.which("vi")
    if editor is None:
        pytest.skip("no vim here")
    (world.cwd / "letter.txt").write_text("Dear reader,\n\tthis is ünïcode.\n")
    world.start("a", editor, "-u", "NONE", "letter.txt")
    printed(world, "a", "Dear reader,")
    text = world.ok("logs", "a").out
    assert readable(text), text
    lines = text.splitlines()
    assert lines[0] == "Dear reader,"
    assert lines[1].strip() == "this is ünïcode."
    assert set(lines[2:-1]) == {"~"}


def test_a_full_screen_program_is_readable(world: World) -> None:
    world.start("a", sys.executable, "-c", PAINTER, options=["-ePYTHONIOENCODING=utf-8"])
    printed(world, "a", "progress 99%")
    assert world.ok("logs", "a").out == (
        "════════════════════\n    top\n         red and lined\n\nprogress 99%\n"
    )


# --- after the end -----------------------------------------------------------------------------


def test_after_the_end_while_its_pane_stands(world: World) -> None:
    world.start("a", "sh", "-c", "echo last words; exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    assert world.ok("logs", "a").out == "last words\n"
    screen = ("capture-pane", "-p", "-t", "=a:")
    assert eventually(lambda: "Pane is dead" in world.tmux(*screen))  # tmux's own remark


def test_after_its_pane_was_closed(world: World) -> None:
    world.start("a", "sh", "-c", "seq 300; echo last words; exec cat")
    printed(world, "a", "last words")
    world.ok("stop", "a")
    assert world.tmux("list-panes", "-a") == ""
    assert world.ok("logs", "a").out.splitlines() == [*map(str, range(1, 301)), "last words"]


def test_after_the_tmux_server_was_killed(world: World) -> None:
    script = r"seq 300; printf '\033[31mred\033[0m\n'; echo last words; exec sleep 1000"
    world.start("a", "sh", "-c", script)
    printed(world, "a", "last words")
    kill_server(world)
    assert world.ok("logs", "a").out.splitlines() == [
        *map(str, range(1, 301)),
        "red",
        "last words",
    ]


def test_after_a_crash_a_full_screen_program_shows_its_last_screen(world: World) -> None:
    world.start("a", sys.executable, "-c", PAINTER, options=["-ePYTHONIOENCODING=utf-8"])
    printed(world, "a", "progress 99%")
    before = world.ok("logs", "a").out
    kill_server(world)
    assert world.ok("logs", "a").out == before


def test_after_a_crash_the_output_of_the_last_generation_is_there(world: World) -> None:
    """A capture that was saved at the restart is older than what was printed since."""
    world.start("a", "sh", "-c", "echo ran at generation $(cat gen 2>/dev/null); exit 1")
    assert eventually(lambda: world.state_of("a") == "failed")
    (world.cwd / "gen").write_text("two")
    world.ok("restart", "a")
    printed(world, "a", "generation two")
    kill_server(world)
    assert "ran at generation two" in world.ok("logs", "a").out


def test_a_replay_leaves_nothing_behind(world: World) -> None:
    world.start("a", "sh", "-c", "echo words; exec sleep 1000")
    printed(world, "a", "words")
    kill_server(world)
    assert eventually(lambda: world.state_of("a") == "lost")
    assert eventually(lambda: not world.processes())
    before = sorted(world.state.rglob("*"))
    assert world.ok("logs", "a").out == "words\n"
    assert eventually(lambda: not world.processes())
    assert sorted(world.state.rglob("*")) == before


def test_hostile_bytes_in_a_saved_capture_are_shown_as_escapes(world: World) -> None:
    world.start("a", "sh", "-c", "echo words; exec cat")
    printed(world, "a", "words")
    world.ok("stop", "a")
    (screen,) = (world.state / "transcripts").glob("*.screen")
    screen.write_bytes(b"\x1b[2Jcleared\xff\n\xc2\x9b31m\n")
    text = world.ok("logs", "a").out
    assert readable(text), text
    assert "cleared" in text


# --- raw ---------------------------------------------------------------------------------------


def test_raw_is_byte_for_byte(world: World) -> None:
    """Also what is no UTF-8, and in the order of the terminal."""
    payload = bytes(byte for byte in range(256) if byte not in b"\n\x05") * 20 + b"end"
    (world.cwd / "payload").write_bytes(payload)
    world.start("a", "sh", "-c", "stty raw -echo; cat payload; exec sleep 1000")
    path = transcript(world)
    assert eventually(lambda: path.read_bytes().endswith(b"end"), 10)
    done = subprocess.run([SESH, "logs", "--raw", "a"], env=world.env, capture_output=True)
    assert done.stdout == payload
    world.ok("stop", "a")
    done = subprocess.run([SESH, "logs", "--raw", "a"], env=world.env, capture_output=True)
    assert done.stdout == payload


def test_raw_has_no_lines(world: World) -> None:
    world.start("a")
    complains(world.sesh("logs", "--raw", "-n", "3", "a"), 2, "tail")


# --- following ---------------------------------------------------------------------------------


def numbers(text: bytes) -> list[int]:
    words = [line.split() for line in text.decode().splitlines()]
    return [int(word[1]) for word in words if len(word) == 2 and word[0] == "line"]


def test_following_loses_nothing_and_ends_with_the_session(world: World) -> None:
    """Begun in the middle of a stream of numbered lines."""
    total = count(30000, 200000)
    script = f"i=0; while [ $i -lt {total} ]; do i=$((i+1)); echo line $i; done; exit 3"
    world.start("a", "sh", "-c", script)
    with reading(world, "logs", "-f", "a") as logs:
        code, out, err = logs.rest(100)
    assert (code, err) == (0, "")
    seen = list(dict.fromkeys(numbers(out)))  # under a flood a line may come twice, never not
    assert seen == list(range(seen[0], total + 1))
    assert len(seen) >= min(total, 50000 - 100)  # what was there before is what scrollback holds


def test_following_shows_each_line_soon(world: World) -> None:
    world.start("a", "sh", "-c", "echo ready; exec cat")
    with reading(world, "logs", "-f", "a") as logs:
        assert logs.line() == "ready"
        for word in ("first", "second"):
            world.ok("send", "a", word)
            begin = time.monotonic()
            assert logs.line() == word  # what the terminal echoes
            assert logs.line() == word  # what cat prints
            assert time.monotonic() - begin < pace.seconds(5)
        assert logs.running()
        world.ok("stop", "a")
        assert logs.rest() == (0, b"", "")


def test_following_an_ended_session_shows_it_and_ends(world: World) -> None:
    world.start("a", "sh", "-c", "echo words; exit 3")
    assert eventually(lambda: world.state_of("a") == "failed")
    assert world.ok("logs", "-f", "a", timeout=10).out == "words\n"


def test_following_with_zero_lines_shows_only_what_comes(world: World) -> None:
    world.start("a", "sh", "-c", "i=0; while :; do i=$((i + 1)); echo $i; sleep 0.1; done")
    printed(world, "a", "9")
    before = transcript(world).read_text().split()[-1]
    with reading(world, "logs", "-f", "-n", "0", "a") as logs:
        assert int(logs.line()) > int(before)


def test_following_has_no_escape_bytes(world: World) -> None:
    world.start("a", "sh", "-c", r"read go; printf '\033[1;31mred\033[0m\033]0;t\007\302\2332J.\n'")
    with reading(world, "logs", "-f", "a") as logs:
        time.sleep(0.7)
        world.ok("send", "a", "go")
        _, out, _ = logs.rest()
    assert b"red" in out
    assert readable(out.decode()), out


def test_following_raw_gives_every_byte(world: World) -> None:
    script = r"printf '\033[31mbefore\033[0m\n'; read go; printf '\033[32mafter\n'"
    world.start("a", "sh", "-c", script)
    printed(world, "a", "before")
    with reading(world, "logs", "-f", "--raw", "a") as logs:
        time.sleep(0.7)
        world.ok("send", "a", "go")
        _, out, _ = logs.rest()
    assert out == transcript(world).read_bytes()


def test_following_ends_when_its_reader_has_gone(world: World) -> None:
    """Also when the session prints no more."""
    world.start("a", "sh", "-c", "echo words; exec cat")
    with reading(world, "logs", "-f", "a") as logs:
        assert logs.line() == "words"
        assert logs.go_away(5) == (0, "")


def test_following_ends_by_ctrl_c_without_a_traceback(world: World) -> None:
    world.start("a", "sh", "-c", "echo up; exec cat")
    with reading(world, "logs", "-f", "a") as logs:
        assert logs.line() == "up"
        logs.interrupt()
        code, _, err = logs.rest()
    assert (code, err) == (130, "")


def test_following_goes_on_in_an_unfinished_line(world: World) -> None:
    world.start("a", "sh", "-c", "printf 'name? '; read -r name; echo; echo hello $name")
    printed(world, "a", "name?")
    with reading(world, "logs", "-f", "a") as logs:
        time.sleep(0.7)
        world.ok("send", "a", "you")
        code, out, _ = logs.rest()
    assert (code, out.decode().splitlines()) == (0, ["name? you", "", "hello you"])


# --- since -------------------------------------------------------------------------------------


def past(world: World, seconds: float) -> str:
    """Let what was printed and noted so far have happened that long ago; returns when that was."""
    then = time.time() - seconds
    os.utime(transcript(world), (then, then))
    times = transcript(world).with_suffix(".times")
    lines = [line.split() for line in times.read_text().splitlines()]
    times.write_text("".join(f"{int(at) - int(seconds)} {offset}\n" for at, offset in lines))
    os.utime(times, (then, then))
    return datetime.fromtimestamp(int(lines[-1][0]) - int(seconds), UTC).isoformat()


def test_since_a_moment_at_which_somebody_looked(world: World) -> None:
    world.start("a", "sh", "-c", "echo old; read -r line; echo new $line; exec sleep 1000")
    printed(world, "a", "old")
    world.ok("pass")
    then = past(world, 3600)
    world.ok("send", "a", "things")
    printed(world, "a", "new things")
    shown = world.ok("logs", "a", "--since", then)
    assert "new things" in shown.out
    assert "old" not in shown.out
    assert shown.err == ""
    raw = world.ok("logs", "a", "--since", then, "--raw").out
    assert raw.splitlines()[-1] == "new things"
    assert "old" not in raw
    assert world.ok("logs", "a", "--since", "2h").out.splitlines()[0] == "old"


def test_since_a_moment_that_nobody_saw_shows_more_and_says_so(world: World) -> None:
    world.start("a", "sh", "-c", "echo old; read -r line; echo new $line; exec sleep 1000")
    printed(world, "a", "old")
    world.ok("pass")
    past(world, 3600)
    world.ok("send", "a", "things")
    printed(world, "a", "new things")
    shown = world.ok("logs", "a", "--since", "30m")
    assert shown.out.splitlines()[-1] == "new things"
    assert shown.err.startswith("sesh: shown from 20"), shown.err


def test_since_a_moment_after_the_last_output_is_nothing(world: World) -> None:
    world.start("a", "sh", "-c", "echo old; exec sleep 1000")
    printed(world, "a", "old")
    past(world, 3600)
    assert world.ok("logs", "a", "--since", "10m").out == ""


def test_since_before_it_began_is_everything(world: World) -> None:
    world.start("a", "sh", "-c", "echo old; exec sleep 1000")
    printed(world, "a", "old")
    shown = world.ok("logs", "a", "--since", "1h")
    assert (shown.out, shown.err) == ("old\n", "")


def test_since_after_the_end(world: World) -> None:
    world.start("a", "sh", "-c", "echo old; read -r line; echo new $line")
    printed(world, "a", "old")
    world.ok("pass")
    past(world, 3600)
    world.ok("send", "a", "things")
    world.ok("wait", "a")
    world.ok("stop", "a")
    assert "new things" in world.ok("logs", "a", "--since", "1h").out


# --- several sessions ---------------------------------------------------------------------------


def echoing(world: World, name: str, *options: str) -> None:
    """A session that prints its name, then each line that it reads."""
    script = f"stty -echo; echo {name} begins; while read -r line; do echo $line; done"
    world.start(name, "sh", "-c", script, options=options)
    printed(world, name, "begins")


def test_lines_of_several_sessions_begin_with_their_names(world: World) -> None:
    world.start(
        "api", "sh", "-c", "printf '\\033[1mone\\n'; echo two; exec cat", options=["-gshop"]
    )
    world.start("database", "sh", "-c", "echo three; exec cat", options=["-gshop"])
    world.ok("start", "note", "-g", "shop", "--record-only")
    printed(world, "database", "three")
    printed(world, "api", "two")
    expected = "api       | one\napi       | two\ndatabase  | three\n"
    assert world.ok("logs", "api", "database").out == expected
    assert world.ok("logs", "--group", "shop").out == expected
    last = world.ok("logs", "--tail", "1", "-g", "shop").out
    assert last == "api       | two\ndatabase  | three\n"
    coloured = world.ok("logs", "-g", "shop", env={**world.env, "FORCE_COLOR": "1"}).out
    assert coloured.splitlines()[0] == "\033[36mapi       |\033[0m one"
    assert coloured.splitlines()[2] == "\033[33mdatabase  |\033[0m three"
    both = {**world.env, "FORCE_COLOR": "1", "NO_COLOR": "1"}
    assert world.ok("logs", "-g", "shop", env=both).out == expected
    complains(world.sesh("logs", "-g", "nothing"), 4, "no session is in group nothing")
    complains(world.sesh("logs", "api", "-g", "shop"), 2, "not both")
    complains(world.sesh("logs", "api", "database", "--raw"), 2, "one session")
    (world.state / "transcripts" / f"{world.session('api')['id']}.log").unlink()
    done = world.sesh("logs", "--timestamps", "api", "database")
    assert (done.code, done.out.split()[-1]) == (9, "three")
    assert "api: its transcript is gone" in done.err


def test_following_a_group_ends_with_its_last_session(world: World) -> None:
    """Also a session that joins is followed; its first line is not lost."""
    echoing(world, "a", "-gshop")
    echoing(world, "b", "-gshop")
    with reading(world, "logs", "-f", "--group", "shop") as logs:
        assert [logs.line(), logs.line()] == ["a  | a begins", "b  | b begins"]
        world.ok("send", "b", "to b")
        assert logs.line() == "b  | to b"
        world.ok("send", "a", r"bell\007 \033[31mred")
        assert logs.line() == "a  | bell red"
        world.ok("stop", "a")
        echoing(world, "late", "-gshop")
        assert logs.line() == "late  | late begins"
        world.ok("send", "b", "again")
        assert logs.line() == "b     | again"
        world.ok("stop", "-y", "b", "late")
        assert logs.rest() == (0, b"", "")


def test_following_continues_an_unfinished_line_after_the_name(world: World) -> None:
    for name in ("a", "b"):
        world.start(name, "sh", "-c", "stty -echo; printf 'name? '; read -r name; echo $name")
        printed(world, name, "name?")
    with reading(world, "logs", "-f", "a", "b") as logs:
        for name in ("a", "b"):
            world.ok("send", name, f"i am {name}")
            assert logs.line() == f"{name}  | name? i am {name}"
        assert logs.rest() == (0, b"", "")


# --- lines that match ----------------------------------------------------------------------------


def test_only_lines_that_match(world: World) -> None:
    script = r"printf 'a \033[31mbad\033[0m word\n'; seq 5; echo bad end; exec cat"
    world.start("a", "sh", "-c", script)
    printed(world, "a", "end")
    assert world.ok("logs", "a", "--grep", "^a bad|[24]").out == "a bad word\n2\n4\n"
    assert world.ok("logs", "a", "--grep", "bad", "-n", "1").out == "bad end\n"
    none = world.sesh("logs", "a", "--grep", "nothing of that")
    assert (none.code, none.out, none.err) == (1, "", "")
    complains(world.sesh("logs", "a", "--grep", "(bad"), 2, "--grep (bad: invalid regular")
    with reading(world, "logs", "-f", "a", "--grep", "word|more") as logs:
        assert logs.line() == "a bad word"
        world.ok("send", "a", "and less")
        world.ok("send", "a", "and more")
        assert logs.line() == "and more"
        world.ok("stop", "a")
        code, _, err = logs.rest()
        assert (code, err) == (0, "")


# --- when --------------------------------------------------------------------------------------


def test_each_line_with_its_time_where_that_is_known(world: World) -> None:
    """A pass saw the first two lines an hour ago, and nothing was seen since until a moment ago."""
    before = time.time()
    world.start("a", "sh", "-c", "echo old; echo b; while read -r line; do echo $line; done")
    printed(world, "a", "old")
    world.ok("pass")
    past(world, 3600)
    record = world.record("a")
    created = datetime.fromtimestamp(time.time() - 3601, UTC).isoformat()
    text = record.read_text().partition("\n")[2]
    old = next(line for line in text.splitlines() if line.startswith("created = "))
    record.write_text(text.replace(old, f"created = {created}"))
    world.ok("send", "a", "new")
    printed(world, "a", "new\nnew")
    lines = world.ok("logs", "a", "--timestamps").out.splitlines()
    assert [line[20:] for line in lines] == ["old", "b", "new", "new"]
    times = [line[:19].strip() for line in lines]
    assert times[2] == ""
    known = [time.mktime(time.strptime(times[at], "%Y-%m-%d %H:%M:%S")) for at in (0, 1, 3)]
    assert before - 3602 < known[0] == known[1] < time.time() - 3599
    assert before - 1 < known[2] <= time.time()
    with reading(world, "logs", "-f", "--timestamps", "-n", "0", "a") as logs:
        world.ok("send", "a", "newest")
        shown = time.strptime(logs.line()[:19], "%Y-%m-%d %H:%M:%S")
        assert known[2] <= time.mktime(shown) <= time.time()


# --- bounds ------------------------------------------------------------------------------------


def on_disk(path: Path) -> int:
    return path.stat().st_blocks * 512


def larger(path: Path, size: int) -> bool:
    return path.stat().st_size > size


def test_a_transcript_is_trimmed_while_it_is_written_and_nothing_new_is_lost(world: World) -> None:
    """Numbered lines without a pause, trimmed again and again: the last ones are all there."""
    world.configure('[logs]\nmax_size = "256 KB"\n')
    count_lines = "i=0; while :; do i=$((i+1)); echo line $i; done"
    world.start("a", "sh", "-c", count_lines)
    path = transcript(world)
    for _ in range(3):
        more = path.stat().st_size + MEGABYTE
        assert eventually(partial(larger, path, more), 60)
        before = path.stat().st_size
        world.ok("pass")
        meanwhile = on_disk(path), path.stat().st_size - before
        assert meanwhile[0] < 3 * MEGABYTE + meanwhile[1]  # eight times as much while it grows
    world.ok("stop", "a", "--grace", "0.1s")
    time.sleep(3)
    world.ok("pass")
    assert on_disk(path) <= (256 << 10) + (64 << 10)
    kept = world.ok("logs", "--raw", "a").out.replace("\r", "").splitlines()[1:-1]
    numbers = [int(line.removeprefix("line ")) for line in kept]
    assert len(numbers) > 10000
    assert numbers == list(range(numbers[0], numbers[0] + len(numbers)))
    assert "\0" not in world.ok("logs", "a").out


def test_following_while_it_is_trimmed_loses_nothing(world: World) -> None:
    world.configure('[logs]\nmax_size = "64 KB"\n')
    lines = count(20000, 200000)
    loop = f"read -r go; i=0; while [ $i -lt {lines} ]; do i=$((i+1)); echo line $i; done"
    world.start("a", "sh", "-c", loop)
    out = world.root / "out"
    with out.open("wb") as file:
        follower = subprocess.Popen([SESH, "logs", "-f", "a"], env=world.env, stdout=file)
        time.sleep(0.5)
        world.ok("send", "a", "go")
        while follower.poll() is None:
            world.ok("pass")
    shown = [line for line in out.read_text().splitlines() if line.startswith("line ")]
    assert shown == [f"line {number}" for number in range(1, lines + 1)]


# --- much output -------------------------------------------------------------------------------

# Runs a command and says how much memory it took at most (kilobytes), on its last line.
MEASURE = """
import resource, subprocess, sys
with open(sys.argv[1], "wb") as out:
    code = subprocess.call(sys.argv[2:], stdout=out)
print(code, resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)
"""


def measured(world: World, out: Path, *args: str) -> int:
    """Run sesh with its output into a file; the megabytes that it took at most."""
    done = subprocess.run(
        [sys.executable, "-c", MEASURE, str(out), SESH, *args],
        env=world.env,
        check=True,
        capture_output=True,
        text=True,
        timeout=100,
    )
    code, kilobytes = map(int, done.stdout.split())
    assert code == 0, done.stderr
    return kilobytes // 1024


def tail(path: Path) -> bytes:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - 100))
        return file.read()


def test_much_output_takes_bounded_memory(world: World) -> None:
    """Whatever was printed: the scrollback is what is shown, and raw bytes pass through."""
    size = count(20, 200) * MEGABYTE
    line = "the quick brown fox jumps over the lazy dog, and again"
    world.start("a", "sh", "-c", f"yes '{line}' | head -c {size}; echo; echo the end; exec cat")
    path = transcript(world)
    assert eventually(lambda: b"the end" in tail(path), 90), tail(path)
    out = world.root / "out"
    idle = measured(world, out, "status", "a")
    assert measured(world, out, "logs", "--raw", "a") <= idle + 4
    assert out.stat().st_size == path.stat().st_size
    assert measured(world, out, "logs", "a") <= idle + 64
    assert out.read_text().splitlines()[-1] == "the end"
    kill_server(world)
    assert eventually(lambda: world.state_of("a") == "lost")
    assert measured(world, out, "logs", "a") <= idle + 64
    lines = out.read_text().splitlines()
    assert (lines[-1], lines[-4]) == ("the end", line)
    assert len(lines) > 10000


# --- what can go wrong -------------------------------------------------------------------------


def test_an_unknown_name(world: World) -> None:
    complains(world.sesh("logs", "nobody"), 4, "nobody")


def test_a_transcript_that_was_deleted(world: World) -> None:
    world.start("a", "cat")
    transcript(world).unlink()
    complains(world.sesh("logs", "--raw", "a"), 1, "transcript is gone")
    kill_server(world)
    assert world.sesh("logs", "a").code in (0, 1)
    assert not (world.state / "bugs.log").exists()


def test_a_damaged_record(world: World) -> None:
    world.start("a", "cat")
    world.record("a").write_text("nonsense")
    complains(world.sesh("logs", "a"), 6, "damaged")


# --- without a name ----------------------------------------------------------------------------


def test_without_a_name_a_person_picks_one_or_it_is_the_only_one(world: World) -> None:
    world.start("one", "sh", "-c", "echo first; exec cat")
    world.ok("start", "record", "--record-only")
    assert eventually(lambda: "first" in world.ok("logs", "one").out)
    terminal = Terminal(world, env={"SESH_PICKER": "builtin"})
    terminal.type("sesh logs; echo code $?")
    terminal.see("first\ncode 0")
    world.start("two", "sh", "-c", "echo second; exec cat")
    assert eventually(lambda: "second" in world.ok("logs", "two").out)
    terminal.type("clear; sesh logs -n 1; echo code $?")
    terminal.see("logs of ▸")
    terminal.press("w", "o", "Enter")
    terminal.see("second\ncode 0")
    terminal.type("clear; sesh logs -f; echo code $?")
    terminal.see("2 of 2")
    terminal.press("Escape")
    terminal.see("code 130")


def test_what_ends_while_it_is_picked_is_shown_all_the_more(world: World) -> None:
    for name in ("one", "two"):
        world.start(name, "sh", "-c", f"echo {name} speaks; exec cat")
    assert eventually(lambda: "speaks" in world.ok("logs", "one").out)
    terminal = Terminal(world, env={"SESH_PICKER": "builtin"})
    terminal.type("sesh logs; echo code $?")
    terminal.see("2 of 2")
    world.ok("stop", "one")
    terminal.press("Enter")
    terminal.see("one speaks\ncode 0")
