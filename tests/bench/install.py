"""What is measured, installed as users have it: sesh and its peers, all below .bench.

Kept from run to run, except sesh itself. A peer that can't be had is left out, with the reason.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

CHECKOUT = Path(__file__).parents[2]
BENCH = CHECKOUT / ".bench"
TIMEOUT = 600


class NotInstalledError(Exception):
    """Why something is not there, in one line."""


@dataclass(frozen=True, slots=True)
class Tools:
    """Absolute paths: nothing is found through a version manager's shim, which costs 10 × bare."""

    python: str
    sesh: str
    peers: dict[str, str]  # supervisorctl, supervisord, tmuxp, pm2: those that could be had
    missing: dict[str, str]  # the others, and why


def install() -> Tools:
    BENCH.mkdir(exist_ok=True)
    home = _install_sesh()
    peers: dict[str, str] = {}
    missing: dict[str, str] = {}
    for names, make in (
        (("supervisorctl", "supervisord"), _install_supervisor),
        (("tmuxp",), _install_tmuxp),
        (("pm2",), _install_pm2),
    ):
        try:
            directory = make()
        except NotInstalledError as error:
            missing[names[0]] = str(error)
        else:
            peers |= {name: str(directory / name) for name in names}
    return Tools(str(home / "bin/python"), str(home / "bin/sesh"), peers, missing)


def _install_sesh() -> Path:
    """As `make install` does it."""
    _run("make", "-C", CHECKOUT, f"PYTHON={sys.executable}", f"PREFIX={BENCH}/prefix", "install")
    return BENCH / "prefix" / "lib" / "sesh"


def _install_supervisor() -> Path:
    return _from_pip("supervisor", "supervisorctl")


def _install_tmuxp() -> Path:
    return _from_pip("tmuxp", "tmuxp")


def _from_pip(package: str, command: str) -> Path:
    venv = _venv(BENCH / "peers")
    if not (venv / "bin" / command).exists():
        _run(venv / "bin/python", "-m", "pip", "--quiet", "install", package)
    return venv / "bin"


def _install_pm2() -> Path:
    home = BENCH / "node"
    if not (home / "node_modules/.bin/pm2").exists():
        if shutil.which("npm") is None:
            raise NotInstalledError("npm is not installed")
        home.mkdir(exist_ok=True)
        (home / "package.json").write_text('{"private": true}\n')  # else npm looks further up
        _run("npm", "install", "--silent", "--no-audit", "--no-fund", "--prefix", home, "pm2")
    return home / "node_modules/.bin"


def _venv(where: Path) -> Path:
    if not (where / "bin/python").exists():
        _run(sys.executable, "-m", "venv", "--clear", where)
    with open(where / "bin/python", "rb") as file:
        if file.read(2) == b"#!":
            raise NotInstalledError(f"{where}/bin/python is a script, not an interpreter")
    return where


def _run(*command: str | Path) -> None:
    unwanted = ("MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    wheels = CHECKOUT / ".venv" / "wheels"  # put aside by tests/setup.sh: then no network is needed
    links = f"{environment.get('PIP_FIND_LINKS', '')} {wheels}" if wheels.is_dir() else ""
    if links:
        environment["PIP_FIND_LINKS"] = links.strip()
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
        )
    except subprocess.TimeoutExpired:
        raise NotInstalledError(f"{Path(command[0]).name} took over {TIMEOUT} s") from None
    if done.returncode != 0:
        said = [line for line in done.stdout.splitlines() if line.strip()] or ["no message"]
        raise NotInstalledError(f"{Path(command[0]).name} failed: {said[-1].strip()}")
