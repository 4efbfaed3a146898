"""tests/setup.sh: what it asks for, and its one line where it can't do its work."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests import pace

CHECKOUT = Path(__file__).parents[1]
USED = (
    *("sh", "env", "cat", "cksum", "chmod", "dirname", "find", "grep", "id", "mkdir", "mktemp"),
    *("rm", "tail", "tmux"),
)
# What would let pip do without a network.
LOCAL = ("PIP_", "SESH_TEST_REQUIRE", "PYTHON", "MAKE", "MFLAGS")


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A copy of what setup.sh needs, without a .venv."""
    copy = tmp_path / "checkout"
    shutil.copytree(CHECKOUT / "sesh", copy / "sesh", ignore=shutil.ignore_patterns("__pycache__"))
    for name in ("pyproject.toml", "setup.py", "README.md", "LICENSE", "man", "completions", ".ci"):
        copy_of = shutil.copytree if (CHECKOUT / name).is_dir() else shutil.copy2
        copy_of(CHECKOUT / name, copy / name)
    for script in CHECKOUT.glob("tests/**/*.sh"):
        (copy / script.relative_to(CHECKOUT)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(script, copy / script.relative_to(CHECKOUT))
    return copy


def set_up(checkout: Path, *before: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(LOCAL)}
    env = {**kept, "PYTHON": sys.executable, "PIP_CONFIG_FILE": os.devnull, **variables}
    argv = [*before, "sh", f"{checkout}/tests/setup.sh", "test"]
    return subprocess.run(argv, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL)


def one_line(done: subprocess.CompletedProcess[str]) -> str:
    """What it says last, when it can't go on."""
    assert done.returncode == 1, done
    assert done.stdout == ""
    plans = ("setup: making", "setup: installing", "setup: unpacking")
    lines = [line for line in done.stderr.splitlines() if not line.startswith(plans)]
    assert len(lines) == 1, lines
    return lines[0]


def in_namespace(kind: str) -> tuple[str, ...]:
    words = ("unshare", f"-{kind}" if os.getuid() == 0 else f"-r{kind}")
    if subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("no namespaces here")
    return words


def test_without_run_bits(checkout: Path) -> None:
    (checkout / "tests" / "setup.sh").chmod(0o644)
    said = one_line(set_up(checkout))
    assert "tests/setup.sh can't be run" in said
    assert said.endswith("chmod +x .ci/run tests/*.sh tests/*/*.sh")


def test_a_checkout_that_cannot_be_written_to(checkout: Path) -> None:
    mount = f"mount --bind {checkout} {checkout} && mount -o remount,bind,ro {checkout}"
    said = one_line(set_up(checkout, *in_namespace("m"), "sh", "-c", f'{mount} && exec "$@"', "sh"))
    assert f"{checkout} is read-only: copy the checkout" in said


@pytest.mark.long
def test_without_a_network(checkout: Path) -> None:
    """At once: a name that can't be resolved is no reason to try for minutes."""
    before = time.monotonic()
    said = one_line(set_up(checkout, *in_namespace("n")))
    assert "pip install failed: no network: Temporary failure in name resolution" in said
    assert time.monotonic() - before < pace.seconds(100)


@pytest.fixture
def bare(checkout: Path, tmp_path: Path) -> Path:
    """A PATH with nothing but what the script itself uses, and an apt-get that notes what it is
    asked; .venv is there, so that nothing else is to be done."""
    tools = tmp_path / "bin"
    tools.mkdir()
    for name in USED:
        (tools / name).symlink_to(shutil.which(name) or pytest.skip(f"no {name}"))
    (tools / "python3").symlink_to(sys.executable)
    (tools / "id").unlink()
    (tools / "id").write_text("#!/bin/sh\necho 0\n")
    for name in ("apt-get", "dpkg"):
        (tools / name).write_text(f'#!/bin/sh\necho "{name} $*" >>{tmp_path}/asked\nexit 1\n')
        (tools / name).chmod(0o755)
    (tools / "id").chmod(0o755)
    (checkout / ".venv" / "bin").mkdir(parents=True)
    (checkout / ".venv" / "bin" / "python").symlink_to(sys.executable)
    read = "{ pwd -P; cat pyproject.toml sesh/bin/sesh tests/setup.sh; } | cksum >.venv/ready-test"
    subprocess.run(["sh", "-c", read], cwd=checkout, check=True)
    return tools


def test_it_asks_for_no_more_than_it_says_first(checkout: Path, tmp_path: Path, bare: Path) -> None:
    done = set_up(checkout, PATH=str(bare))
    assert done.returncode == 0, done.stderr
    first, *rest = done.stderr.splitlines()
    assert first == (
        "setup: installing with apt-get: zsh fish git; "
        "unpacking into .venv/tools: mandoc busybox-static cron prometheus promtool"
    )
    assert all(line.startswith("setup: without ") for line in rest), rest
    asked = (tmp_path / "asked").read_text().splitlines()
    unpacked = {line.split()[-1] for line in asked if " download " in line}
    assert unpacked == {"mandoc", "busybox-static", "cron", "prometheus", "promtool"}
    installed = {line.split()[-1] for line in asked if " install " in line}
    assert installed == {"zsh", "fish", "git"}, "no service, no user"


def test_what_was_not_to_be_had_is_not_asked_for_again(
    checkout: Path, tmp_path: Path, bare: Path
) -> None:
    set_up(checkout, PATH=str(bare))
    (tmp_path / "asked").unlink()
    done = set_up(checkout, PATH=str(bare))
    assert done.returncode == 0
    assert not (tmp_path / "asked").exists()


def test_what_a_package_enables_is_disabled_again(
    checkout: Path, tmp_path: Path, bare: Path
) -> None:
    if not Path("/etc/systemd").is_dir():
        pytest.skip("no /etc/systemd here")
    units = tmp_path / "systemd"
    wanted = {"system/timers.target.wants/new.timer", "user/sockets.target.wants/new.socket"}
    ours = "system/timers.target.wants/ours.timer"
    for link in {*wanted, ours}:
        (units / link).parent.mkdir(parents=True, exist_ok=True)
    (units / ours).symlink_to("/dev/zero")
    enable = "".join(f"ln -sf /dev/zero /etc/systemd/{link}\n" for link in sorted(wanted))
    (bare / "apt-get").write_text(
        f"#!/bin/sh\nPATH=/bin:/usr/bin\n[ $1 = install ] || exit\n{enable}"
    )
    (bare / "systemctl").write_text(f'#!/bin/sh\necho "$*" >>{tmp_path}/told\nexit 1\n')
    (bare / "systemctl").chmod(0o755)
    mounted = f'mount --bind {units} /etc/systemd && PATH={bare} && exec "$@"'
    done = set_up(checkout, *in_namespace("m"), "sh", "-c", mounted, "sh")
    assert done.returncode == 0, done.stderr
    assert [path for path in units.rglob("*") if path.is_symlink()] == [units / ours]
    told = {*(tmp_path / "told").read_text().splitlines()}
    assert told == {"disable --now new.timer", "--global disable new.socket"}


def test_the_readme_lists_what_is_installed() -> None:
    script = (CHECKOUT / "tests" / "setup.sh").read_text()
    readme = (CHECKOUT / "README.md").read_text()
    for line in script.splitlines():
        if line.startswith(("installed=", "unpacked=", "podman=")):
            for command in line.split('"')[1].split():
                assert f"`{command}`" in readme, command
