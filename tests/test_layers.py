"""The rules of ARCHITECTURE.md: a package imports only from packages below it, and some libraries
have one home."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

import sesh

ROOT = Path(sesh.__file__).parent
# From the top. A package imports from itself and from those below it.
PACKAGES = (
    *("__main__", "api", "commands", "terminal", "doctor", "gc", "stats", "supervision"),
    *("operations", "agents", "state", "places", "system", "model", "__init__"),
)
HOMES = {
    "click": {"terminal/main", "commands"},
    "psutil": {"system/process_usage"},
    "sh": {"system/subprocesses"},
    "subprocess": {"system/subprocesses"},
    "tomllib": {"model/codec", "state/settings"},
    "tomli_w": {"model/codec"},
    "fcntl": {"system/files"},
    "urllib": {"supervision/notify/targets"},
}
IMPURE = {"os", "subprocess", "socket", "random", "secrets", "sys", "io", "pathlib"}
MODULES = {str(path.relative_to(ROOT).with_suffix("")): path for path in ROOT.rglob("*.py")}


@cache
def imports(module: str) -> set[str]:
    """Full names of everything that a module imports, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse(MODULES[module].read_text())):
        if isinstance(node, ast.Import):
            found |= {alias.name for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative import"
            found |= {f"{node.module}.{alias.name}" for alias in node.names}
    return found


def packages(module: str) -> set[str]:
    """The packages of ours that a module imports."""
    ours = (name.split(".") for name in imports(module) if name.split(".")[0] == "sesh")
    return {name[1] if name[1:] and name[1] in PACKAGES else "__init__" for name in ours}


@pytest.mark.parametrize("module", sorted(MODULES))
def test_a_package_imports_only_from_packages_below_it(module: str) -> None:
    above = PACKAGES[: PACKAGES.index(module.split("/")[0])]
    assert packages(module) & {*above} == set()


@pytest.mark.parametrize("library", sorted(HOMES))
def test_libraries_stay_in_their_homes(library: str) -> None:
    users = {
        "commands" if module.startswith("commands/") else module
        for module in MODULES
        if any(name.split(".")[0] == library for name in imports(module))
    }
    assert users <= HOMES[library]


@pytest.mark.parametrize("module", sorted(name for name in MODULES if name.startswith("model/")))
def test_the_model_touches_nothing(module: str) -> None:
    assert not {name.split(".")[0] for name in imports(module)} & IMPURE


def test_packages_are_small_enough_to_be_seen_at_once() -> None:
    for directory in {path.parent for path in MODULES.values()} - {ROOT / "commands"}:
        assert len([*directory.glob("*.py")]) <= 16, directory
