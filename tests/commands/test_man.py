"""sesh man: the page, shown by what is here."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.conftest import need
from tests.schedulers import put_first
from tests.surroundings import complains
from tests.world import World

PAGES = Path(__file__).parents[2] / "man"


@pytest.mark.parametrize(
    ("given", "page"),
    [
        ((), "sesh.1"),
        (("sesh",), "sesh.1"),
        (("start",), "sesh-start.1"),
        (("sesh-start",), "sesh-start.1"),
        (("json",), "sesh-json.5"),
        (("config",), "sesh-config.1"),
        (("config.5",), "sesh-config.5"),
    ],
)
def test_the_page_of_a_command(world: World, given: tuple[str, ...], page: str) -> None:
    put_first(world, "man", 'echo "$*"')
    assert world.ok("man", *given).out == f"-l {PAGES / page}\n"


@pytest.mark.parametrize("wrong", ["nothing", "../start", "start.7", "sesh-", "start.1/x"])
def test_what_has_no_page(world: World, wrong: str) -> None:
    put_first(world, "man", 'echo "$*"')
    complains(world.sesh("man", wrong), 2, f"no manual page for {wrong}", "sesh --help")


def test_without_man(world: World) -> None:
    """mandoc shows it; without any such program, the file is named."""
    need("mandoc")
    tools = world.root / "tools"
    tools.mkdir()
    env = {**world.env, "PATH": str(tools)}
    complains(world.sesh("man", "rm", env=env), 1, "install man-db", str(PAGES / "sesh-rm.1"))
    mandoc = next(p for p in world.env["PATH"].split(":") if (Path(p) / "mandoc").exists())
    (tools / "mandoc").symlink_to(Path(mandoc) / "mandoc")
    assert "SESH-RM(1)" in world.ok("man", "rm", env=env).out
