"""Directories that others may fill: bounded, iterative, links not followed."""

from __future__ import annotations

import os
import resource
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from sesh.system import directory_tree

DEEP = 1500


@pytest.fixture
def place() -> Iterator[Path]:
    """A directory that pytest need not clean up: its own removal would recurse."""
    top = Path(tempfile.mkdtemp(prefix="sesh-trees-", dir="/tmp"))
    yield top
    directory_tree.remove(str(top))


def deep(top: Path, levels: int, name: str = "deeper-and-deeper") -> None:
    """Directories in each other, with a file in the last."""
    fd = os.open(top, os.O_RDONLY)
    for _ in range(levels):
        os.mkdir(name, dir_fd=fd)
        inner = os.open(name, os.O_RDONLY, dir_fd=fd)
        os.close(fd)
        fd = inner
    os.close(os.open("file", os.O_WRONLY | os.O_CREAT, dir_fd=fd))
    os.close(fd)


def test_directories_too_deep_for_a_path_are_removed(place: Path) -> None:
    box = place / "box"
    box.mkdir()
    deep(box, DEEP)
    deep(box, 3, "b")
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (64, hard))
    try:
        measured = directory_tree.measure(str(box))
        assert directory_tree.remove(str(box))
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    assert not measured.whole
    assert not box.exists()


def test_links_are_removed_and_not_followed(place: Path) -> None:
    box, precious = place / "box", place / "precious"
    (box / "inner").mkdir(parents=True)
    precious.mkdir()
    (precious / "file").write_bytes(b"x" * 100_000)
    for where in (box, box / "inner"):
        (where / "link").symlink_to(precious)
        (where / "file").symlink_to(precious / "file")
    measured = directory_tree.measure(str(box))
    assert (measured.entries, measured.whole) == (5, True)
    assert measured.size < 50_000
    (place / "other").symlink_to(box)
    assert directory_tree.remove(str(place / "other"))
    assert box.exists()
    assert directory_tree.remove(str(box))
    assert not box.exists()
    assert (precious / "file").exists()
    assert directory_tree.remove(str(box))


def test_a_measure_has_bounds(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place / "a").write_bytes(b"x" * 100_000)
    small = directory_tree.measure(str(place))
    assert (small.entries, small.whole) == (1, True)
    assert small.size >= 100_000
    monkeypatch.setattr(directory_tree, "MOST", 3)
    for number in range(10):
        (place / str(number)).touch()
    many = directory_tree.measure(str(place))
    assert (many.entries, many.whole) == (3, False)
    assert directory_tree.measure(str(place / "nothing")) == directory_tree.Measure(0, 0, True)
