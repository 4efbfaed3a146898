"""Which version of an agent is installed: the newest, by its number. npm is played by a script."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.agents import install

_NPM = """\
#!/bin/sh
echo "$*" >>"$0.log"
case $1 in
view) [ ! -e "$0.offline" ] || { echo "npm error network" >&2; exit 1; }; echo 2.1.327 ;;
esac
"""


@pytest.fixture
def npm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Its calls are in `npm.log`; with `npm.offline` it has no network."""
    made = tmp_path / "npm"
    made.write_text(_NPM)
    made.chmod(0o755)
    monkeypatch.setattr(install, "DIRECTORY", tmp_path)
    monkeypatch.setattr(install, "BIN", tmp_path / "bin")
    monkeypatch.setenv("PATH", str(tmp_path), prepend=":")
    return made


def has(directory: Path, version: str) -> None:
    """Claude of a version, installed."""
    agent = directory / "bin" / "claude"
    agent.parent.mkdir()
    agent.write_text(f"#!/bin/sh\necho {version}\n")
    agent.chmod(0o755)
    package = directory / "node_modules" / "@anthropic-ai" / "claude-code"
    package.mkdir(parents=True)
    (package / "package.json").write_text(json.dumps({"version": version}))


def installs(npm: Path) -> list[str]:
    calls = npm.with_suffix(".log").read_text().splitlines()
    return [one for one in calls if one.startswith("install ")]


def test_an_old_version_is_replaced_by_the_newest_for_any_node(npm: Path) -> None:
    has(npm.parent, "2.1.197")
    assert "2.1.327" in install.updated("claude")
    [call] = installs(npm)
    assert call.endswith("--engine-strict=false @anthropic-ai/claude-code@2.1.327")


def test_the_newest_is_not_installed_again(npm: Path) -> None:
    has(npm.parent, "2.1.327")
    assert install.updated("claude") == "2.1.327, the newest on npm (2.1.327)"
    assert installs(npm) == []


def test_without_a_network_the_installed_version_is_named(npm: Path) -> None:
    npm.with_suffix(".offline").touch()
    with pytest.raises(install.NotInstalled, match="network"):
        install.updated("claude")
    has(npm.parent, "2.1.197")
    told = install.updated("claude")
    assert told.startswith("2.1.197, installed before (")
    assert "network" in told
