"""What an installation brings: the script, the manual, the completions; pip, `make install`."""

import fcntl
import os
import shutil
import subprocess
import sys
from pathlib import Path
from zipfile import ZipFile

import pytest

import sesh
from tests.world import World

CHECKOUT = Path(__file__).parents[1]
SOURCES = [
    *("pyproject.toml", "setup.py", "README.md", "LICENSE", "Makefile", "tests/setup.sh"),
    *("sesh", "man", "completions"),
]
WHEELS = CHECKOUT / ".venv" / "wheels"  # put there by tests/setup.sh
SCRIPT = ["from sesh.__main__ import script", "", "script()"]
LANES = (("ls", "--json"), ("ls",), ("status", "one"), ("doctor", "--prompt"))


def run(*command: str | Path, path: str = os.environ["PATH"]) -> str:
    """Run it as from a fresh shell; without network, if tests/setup.sh has put wheels aside."""
    unwanted = ("MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    environment |= {"PYTHON": sys.executable, "PATH": path}
    if WHEELS.is_dir():
        environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS), "PIP_NO_COMPILE": "1"}
    done = subprocess.run(
        command, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )
    assert done.returncode == 0, done.stdout
    return done.stdout


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy to build from: building leaves files behind, and packs those of the build before."""
    copy = tmp_path_factory.mktemp("source")
    for name in SOURCES:
        (copy / name).parent.mkdir(exist_ok=True)
        if (CHECKOUT / name).is_dir():
            shutil.copytree(CHECKOUT / name, copy / name)
        else:
            shutil.copy2(CHECKOUT / name, copy / name)
    return copy


@pytest.fixture(scope="module")
def prefix(source: Path, shared: Path) -> Path:
    """Where `make install` has put everything: once for all workers, as it takes long."""
    where, done = shared / "prefix", shared / "prefix.done"
    with (shared / "prefix.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not done.exists():
            run("make", "-C", source, f"PREFIX={where}", "install")
            done.touch()
    return where


@pytest.fixture(scope="module")
def installed(prefix: Path) -> Path:
    """A virtual environment with nothing but the wheel and what it depends on."""
    return prefix / "lib" / "sesh"


def shared_files() -> set[str]:
    """Where the checkout's manual pages and completions belong, below share/."""
    pages = {f"man/man{page.suffix[1:]}/{page.name}" for page in (CHECKOUT / "man").glob("*.[15]")}
    assert pages, "no manual pages"
    return pages | {
        "bash-completion/completions/sesh",
        "zsh/site-functions/_sesh",
        "fish/vendor_completions.d/sesh.fish",
    }


def files_below(directory: Path) -> set[str]:
    return {str(path.relative_to(directory)) for path in directory.rglob("*") if path.is_file()}


@pytest.mark.long
def test_the_script_imports_nothing_that_it_need_not(installed: Path) -> None:
    assert (CHECKOUT / "sesh" / "bin" / "sesh").read_text().splitlines() == ["#!python", *SCRIPT]
    shebang, *rest = (installed / "bin" / "sesh").read_text().splitlines()
    assert shebang == f"#!{installed}/bin/python -IS"
    (packages,) = installed.glob("lib/python*/site-packages")
    assert rest == ["import sys", "", f"sys.path.append('{packages}')", *SCRIPT]


def test_the_installed_command_takes_no_code_from_its_surroundings(
    installed: Path, world: World
) -> None:
    """Neither `site` nor PYTHONPATH nor the current directory; yet it finds its libraries."""
    for name in ("psutil", "click", "enum", "sitecustomize"):
        (world.cwd / f"{name}.py").write_text(f"raise SystemExit('{name} of a stranger')")
    world.env |= {"PYTHONPATH": str(world.cwd), "PYTHONVERBOSE": "1"}
    script = str(installed / "bin" / "sesh")

    def said(*words: str) -> str:
        done = subprocess.run(
            [script, *words], env=world.env, cwd=world.cwd, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "stranger" not in done.stderr
        assert "import " not in done.stderr  # of PYTHONVERBOSE
        return done.stdout

    assert said("start", "one", "--", "sleep", "1000") == "one\n"
    (callback,) = world.state.glob("run/*/callback")
    assert script in callback.read_text()
    for words in LANES:
        assert not imported(script, words, world) & {"site", "click", "psutil"}
    assert "Run:" in said("--help")
    assert "one" in said("ls", "--wide")  # by psutil
    said("stop", "one")


def imported(script: str, words: tuple[str, ...], world: World) -> set[str]:
    """The modules that a call imports. Its interpreter is given the same options, and one more."""
    python, options = Path(script).read_text().splitlines()[0].removeprefix("#!").split()
    done = subprocess.run(
        [python, options, "-X", "importtime", script, *words],
        env=world.env,
        capture_output=True,
        text=True,
    )
    return {line.rpartition("|")[2].strip() for line in done.stderr.splitlines() if "|" in line}


def test_the_installed_command_runs(installed: Path) -> None:
    assert sesh.__version__ in run(installed / "bin" / "sesh", "--version")


def test_the_installed_manual_is_shown(installed: Path, tmp_path: Path) -> None:
    (tmp_path / "man").write_text('#!/bin/sh\necho "$2"\n')
    (tmp_path / "man").chmod(0o755)
    shown = run(installed / "bin" / "sesh", "man", "start", path=f"{tmp_path}:{os.environ['PATH']}")
    assert shown == f"{installed}/share/man/man1/sesh-start.1\n"


def test_the_wheel_brings_manual_and_completions(installed: Path) -> None:
    assert files_below(installed / "share") == shared_files()


def test_the_wheel_has_all_code_and_nothing_else(installed: Path) -> None:
    (package,) = installed.glob("lib/python*/site-packages/sesh")
    made = {file for file in files_below(package) if "__pycache__" not in file}
    ours = {file for file in files_below(CHECKOUT / "sesh") if "__pycache__" not in file}
    assert made == ours - {"bin/sesh"}


@pytest.mark.parametrize("wrong", ["relative", "~/.local", "/with space"])
def test_make_install_refuses_a_prefix_that_cannot_work(source: Path, wrong: str) -> None:
    with pytest.raises(AssertionError, match="PREFIX must be an absolute path without spaces"):
        run("make", "-C", source, f"PREFIX={wrong}", "install")


def test_make_install_spares_what_is_not_ours(source: Path, tmp_path: Path) -> None:
    other = tmp_path / "bin" / "sesh"
    other.parent.mkdir()
    other.write_text("another program of that name")
    with pytest.raises(AssertionError, match="is not ours"):
        run("make", "-C", source, f"PREFIX={tmp_path}", "install")
    assert other.read_text() == "another program of that name"


def test_ci_runs_the_documented_command_and_nothing_else() -> None:
    script = CHECKOUT / ".ci" / "run"
    assert os.access(script, os.X_OK)
    assert script.read_text().splitlines() == [
        "#!/usr/bin/env bash",
        "SESH_TEST_REQUIRE=tmux,docker,podman,systemd make test",
    ]


def test_a_wheel_has_nothing_of_an_earlier_build(source: Path, tmp_path: Path) -> None:
    stale = source / "build" / "lib" / "sesh" / "stale.py"
    stale.parent.mkdir(parents=True)
    stale.touch()
    pip = (sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", tmp_path)
    run(*map(str, pip), source)
    (wheel,) = tmp_path.glob("*.whl")
    with ZipFile(wheel) as packed:
        names = packed.namelist()
    assert "sesh/terminal/main.py" in names
    assert "sesh/stale.py" not in names


def everything_but(program: str, directory: Path) -> str:
    """A PATH on which this one program is missing."""
    for found in os.environ["PATH"].split(":"):
        for path in Path(found).iterdir() if os.path.isdir(found) else ():
            if path.name != program and not (directory / path.name).is_symlink():
                (directory / path.name).symlink_to(path)
    return str(directory)


@pytest.mark.long
def test_make_install_again_at_a_long_prefix_and_uninstall(
    source: Path, prefix: Path, tmp_path: Path
) -> None:
    """Over a copy of what is installed. The long prefix keeps the script of pip."""
    long = tmp_path / ("x" * 100)
    shutil.copytree(prefix, long, symlinks=True)
    (long / "share" / "man" / "man1" / "sesh-stale.1").touch()
    (long / "lib" / "sesh" / "share" / "man" / "man1" / "sesh-stale.1").touch()
    make = ("make", "-C", source, f"PREFIX={long}")
    (tmp_path / "path").mkdir()
    said = run(*make, "install", path=everything_but("tmux", tmp_path / "path"))
    assert f"install: {long}/bin is not in your PATH" in said
    assert "install: tmux is missing" in said
    for where in (prefix, long):
        assert sesh.__version__ in run(where / "bin" / "sesh", "--version")
        assert files_below(where / "share") == shared_files()
        assert (where / "bin" / "sesh").resolve() == (where / "lib/sesh/bin/sesh").resolve()
    assert "-IS" not in (long / "lib" / "sesh" / "bin" / "sesh").read_text()

    run(*make, "uninstall")
    assert files_below(long) == set()
