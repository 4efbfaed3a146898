"""Whatever a command's words are made of, they arrive byte for byte, or `start` refuses them."""

from __future__ import annotations

import os
import random
import subprocess
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.faults.table import Campaign
from tests.world import SESH, World, count, eventually

pytestmark = pytest.mark.timeout(count(600, 3600))

BIG = 100 * 1024
AT_ONCE = 2
# The kernel's own record of the words that arrived: no printf or echo in between.
HELPER = """\
#!/bin/sh
cat "/proc/$$/cmdline" >"$TOLD/$SESH_NAME.part" && mv "$TOLD/$SESH_NAME.part" "$TOLD/$SESH_NAME"
"""
PROGRAMS = (
    "take",
    "we ird",
    "quo'te\"",
    "semi;colon",
    "$(touch x)",
    "#hash",
    "n\nl",
    "ünï",
    "-dash",
)
PIECES = (
    *("'", '"', "\\", "`", "$", "$(touch x)", "${HOME}", "$'\\x41'", "!!", "~", "*", "?", "[a-z]"),
    *(";", ";;", "\\;", "&", "&&", "|", ">", "<", "(", ")", "{", "}", "#", "#{pid}", "#(touch x)"),
    *("\n", "\r", "\t", " ", "  ", "\x01", "\x1b[31m", "\x7f", "\x0b", "%", "%s", "%d%n", "=", ","),
    *("é", "日本", "🎉", "\u202e", "e\u0301", "\ufeff", "\u2028", "\x85", "\U0010ffff"),
    *("-", "--", "-n", "--json", "-e", "abc", "X", "0", "EOF", "'\"'\"'", '"""', "'''", "\\u0000"),
)
WHOLE = ("", "--", "-", ";", "\\", "'", "\n", "\\;", "a;", "-h", "--help", " ", "$", "#", "~", "=")


def piece(rng: random.Random) -> str:
    if rng.random() < 0.75:
        return rng.choice(PIECES)
    while True:
        letter = chr(rng.choice((rng.randrange(1, 0x100), rng.randrange(1, 0x110000))))
        if not 0xD800 <= ord(letter) < 0xE000:
            return letter


def word(rng: random.Random) -> bytes:
    kind = rng.random()
    if kind < 0.2:
        return rng.choice(WHOLE).encode()
    if kind < 0.215:  # what a record can't hold: to be refused
        return b"\xff\xfe" + rng.randbytes(6).replace(b"\0", b"x")
    text = "".join(piece(rng) for _ in range(rng.randrange(1, 12)))
    return (text + rng.choice(("", "", "", ";", "\n", "\\"))).encode()


def vector(rng: random.Random) -> list[bytes]:
    words = [word(rng) for _ in range(rng.randrange(0, 8))]
    if rng.random() < 0.04:
        big = "".join(piece(rng) for _ in range(200)).encode()
        words.insert(rng.randrange(len(words) + 1), (big * (BIG // len(big) + 1))[:BIG])
        words[:] = [w.decode(errors="ignore").encode() for w in words]
    return words


def install_helpers(world: World) -> tuple[Path, list[bytes]]:
    told = world.root / "told"
    told.mkdir()
    world.env["TOLD"] = str(told)
    paths = [world.root / name for name in PROGRAMS]
    for path in paths:
        path.write_text(HELPER)
        path.chmod(0o755)
    return told, [os.fsencode(path) for path in paths]


def start(world: World, name: str, argv: list[bytes]) -> tuple[int, str]:
    done = subprocess.run(
        [os.fsencode(SESH), b"start", name.encode(), b"--", *argv],
        env=world.env,
        cwd=world.cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
    )
    return done.returncode, done.stderr.decode(errors="replace")


def arrived(path: Path) -> list[bytes] | None:
    """The words of the helper (behind the shell that runs it), once they are there."""
    if not eventually(path.exists):
        return None
    return path.read_bytes().removesuffix(b"\0").split(b"\0")[1:]


def short(words: list[bytes] | None) -> str:
    return repr(words)[:300]


def check(world: World, told: Path, name: str, argv: list[bytes]) -> bool:
    """True: it arrived; False: it was refused, and nothing was started."""
    code, said = start(world, name, argv)
    if code == 0:
        got = arrived(told / name)
        assert got == argv, f"{short(argv)} arrived as {short(got)}"
        return True
    assert code in (1, 2, 6), f"exit {code}: {said[:300]}"
    assert said.startswith("sesh: ") or said.count("\n") == 1, f"not one clear line: {said[:300]}"
    assert not world.record(name).exists(), f"refused, and yet recorded: {short(argv)}"
    assert not (told / name).exists(), f"refused, and yet started: {short(argv)}"
    refusable = any(not_text(one) for one in argv)
    assert refusable, f"refused without need: {short(argv)}: {said[:300]}"
    return False


def not_text(one: bytes) -> bool:
    try:
        one.decode()
    except UnicodeDecodeError:
        return True
    return False


def noted(check_one: Callable[[], bool]) -> bool | AssertionError:
    """Run in a thread: what went wrong comes back instead of being raised."""
    try:
        return check_one()
    except AssertionError as error:
        return error


def test_argv(world: World, campaign: Campaign) -> None:
    """Random vectors: quotes, newlines, `;`, `#`, `$()`, control characters, Unicode, 100 KB."""
    told, programs = install_helpers(world)
    world.ok("start", "server", "--", "sleep", "1000")
    rng = campaign.random
    vectors = [[rng.choice(programs), *vector(rng)] for _ in range(count(25, 1000))]
    vectors[:2] = [[programs[0], b"y" * BIG], [programs[0], b"\xff"]]

    def one(number: int) -> bool | AssertionError:
        argv = vectors[number]
        return noted(lambda: check(world, told, f"v{number}", argv))

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(one, range(len(vectors))))
    for outcome in outcomes:
        with campaign.round("vector"):
            if isinstance(outcome, AssertionError):
                raise outcome
    campaign.remark(f"{outcomes.count(True)} arrived, {outcomes.count(False)} refused")
    campaign.remark(f"largest {max(sum(map(len, one)) for one in vectors)} bytes")
    assert not (world.cwd / "x").exists(), "a word was run as a command"
    assert {True, False} <= set(outcomes), "both must occur"
    campaign.conclude()


def test_argv_in_json(world: World, campaign: Campaign) -> None:
    """The list shows the words as they are, and a restart passes them on once more."""
    told, programs = install_helpers(world)
    for number in range(count(3, 30)):
        argv = [programs[0], *(w for w in vector(campaign.random) if not not_text(w))]
        name = f"j{number}"
        with campaign.round(short(argv)):
            assert check(world, told, name, argv)
            assert world.session(name)["command"] == [one.decode() for one in argv]
            (told / name).unlink()
            world.ok("restart", name)
            assert arrived(told / name) == argv
    campaign.conclude()
