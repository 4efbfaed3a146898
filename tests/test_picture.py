"""The picture of the README is what a run looks like."""

from __future__ import annotations

import re
from xml.etree import ElementTree

import pytest

from tests import picture
from tests.conftest import need
from tests.test_docs import CHECKOUT, README


def test_the_picture_is_what_a_run_looks_like() -> None:
    need("bash")
    for path, drawn in picture.pictures().items():
        assert path.read_text().splitlines() == drawn.splitlines(), "run make picture"


def test_the_readme_shows_both_variants() -> None:
    shown = {CHECKOUT / name for name in re.findall(r'"(docs/[^"]*\.svg)"', README)}
    assert shown == set(picture.DOCS.glob("*.svg"))
    assert len(shown) == len(picture.VARIANTS)
    for path in shown:
        ElementTree.parse(path)


@pytest.mark.parametrize("up", ["0s", "12s", "3m"])
def test_a_picture_has_the_same_times_in_every_run(up: str) -> None:
    wide = " " * (max(2, len(up)) - 2)
    shown = [
        "\x1b[33m⚑ 1 failed \x1b[34m~/shop\x1b[39m $ \x1b[1msesh ls\x1b[0m",
        f"NAME   STATE     UP{wide}   LAST OUTPUT   COMMAND",
        f"a      \x1b[31mfailed\x1b[39m    –{wide}    2s ago        x 5s   exit 1",
        f"b      \x1b[32mrunning\x1b[39m   {up}   now           y",
        "\x1b[34m~/shop\x1b[39m $",
    ]
    made = [picture.plain(line) for line in picture.normalised(shown)]
    assert made == [
        "⚑ 1 failed ~/shop $ sesh ls",
        "NAME   STATE     UP   LAST OUTPUT   COMMAND",
        "a      failed    –    now           x 5s      exit 1",
        "b      running   4s   now           y",
        "~/shop $",
    ]


def test_sessions_that_are_lost_together_are_in_one_order() -> None:
    shown = ["\x1b[0mb lost", "a lost", "c"]
    assert picture.normalised(shown) == ["a lost", "\x1b[0mb lost", "c"]


def test_a_line_has_the_style_that_the_one_before_has_left() -> None:
    lines = list(picture.with_own_styles(["\x1b[1mbold", "still\x1b[0m plain", "plain"]))
    assert [list(picture.runs(line)) for line in lines] == [
        [(0, "bold", ("1",))],
        [(0, "still", ("1",)), (6, "plain", ())],
        [(0, "plain", ())],
    ]
