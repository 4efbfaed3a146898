"""What an installation brings: the script, the manual, the completions; pip, `make install`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
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
SCRIPTS = CHECKOUT / "sesh" / "bin"


def run(*command: str | Path, path: str = os.environ["PATH"], **variables: object) -> str:
    """Run it as from a fresh shell; without network, if tests/setup.sh has put wheels aside."""
    unwanted = ("MAKE", "MFLAGS", "PYTHON", "VIRTUAL_ENV")
    environment = {key: value for key, value in os.environ.items() if not key.startswith(unwanted)}
    environment |= {"PYTHON": sys.executable, "PATH": path}
    if WHEELS.is_dir():
        environment |= {"PIP_NO_INDEX": "1", "PIP_FIND_LINKS": str(WHEELS)}
        environment |= {"UV_NO_INDEX": "1", "UV_FIND_LINKS": str(WHEELS)}
    environment |= {name: str(value) for name, value in variables.items()}
    done = subprocess.run(
        command,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
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
def prefix(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where `make install` has put everything."""
    where = tmp_path_factory.mktemp("prefix")
    run("make", "-C", source, f"PREFIX={where}", "install")
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


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    built = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--no-deps", "--wheel-dir", built, source)
    (found,) = built.glob("*.whl")
    return found


def test_the_script_is_ours_and_names_its_python(installed: Path) -> None:
    assert (installed / "bin" / "sesh").read_text() == (SCRIPTS / "sesh").read_text()
    shebang, *rest = (installed / "bin" / "_sesh-python").read_text().splitlines()
    assert shebang.startswith(f"#!{installed}/bin/python")
    assert rest == (SCRIPTS / "_sesh-python").read_text().splitlines()[1:]


# --- how the script starts Python, by whichever installer it came --------------------------------


def check(script: Path, tmp_path: Path) -> None:
    """It runs, also without a fast lane; it calls itself again by its own path; and it imports
    nothing that the environment offers."""
    (tmp_path / "re.py").write_text("raise SystemExit('imported from PYTHONPATH')")
    state: dict[str, Any] = {
        "XDG_STATE_HOME": tmp_path / "state",
        "HOME": tmp_path,
        "PYTHONPATH": tmp_path,
    }
    assert run(script, "ls", "--json", **state) == "[]\n"
    assert sesh.__version__ in run(script, "--version", **state)  # with click
    assert f"'{script}'" in run(script, "init", "bash", **state)


def test_the_installed_command_runs(installed: Path, prefix: Path, tmp_path: Path) -> None:
    check(installed / "bin" / "sesh", tmp_path)
    check(prefix / "bin" / "sesh", tmp_path)  # a link


def test_a_link_to_the_script_alone(installed: Path, tmp_path: Path) -> None:
    link = tmp_path / "sesh"
    link.symlink_to(installed / "bin" / "sesh")
    assert run(link, "ls", "--json", HOME=tmp_path) == "[]\n"


def test_libraries_may_be_elsewhere(wheel: Path, tmp_path: Path) -> None:
    """As with `pip install --user` on Debian, which has click in a directory of its own."""
    pip = (sys.executable, "-m", "pip", "install", "--no-deps", "--prefix", tmp_path)
    run(*pip, "--ignore-installed", wheel)
    check(tmp_path / "bin" / "sesh", tmp_path)


def test_a_virtual_environment_with_a_space_in_its_path(wheel: Path, tmp_path: Path) -> None:
    """No first line of a script could name its Python."""
    run(sys.executable, "-m", "venv", "--without-pip", tmp_path / "a venv")
    pip = (sys.executable, "-m", "pip", "--python", tmp_path / "a venv" / "bin" / "python")
    run(*pip, "install", wheel)
    check(tmp_path / "a venv" / "bin" / "sesh", tmp_path)


def test_an_editable_installation(tmp_path: Path) -> None:
    check(Path(sys.executable).with_name("sesh"), tmp_path)


def test_debians_python(wheel: Path, tmp_path: Path) -> None:
    python = Path("/usr/bin/python3")
    if not python.exists() or subprocess.run([python, "-c", "import tomllib"]).returncode:
        pytest.skip("no Python 3.11 or newer in /usr/bin")
    pip = (sys.executable, "-m", "pip", "--python", python)
    run(*pip, "install", "--prefix", tmp_path, "--ignore-installed", wheel)
    (script,) = tmp_path.glob("**/bin/sesh")
    check(script, tmp_path)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where uv and pipx are, as modules and programs."""
    where = tmp_path_factory.mktemp("tools")
    try:
        run(sys.executable, "-m", "pip", "install", "--target", where, "uv", "pipx")
    except AssertionError as error:
        pytest.skip(f"no uv and pipx: {str(error).splitlines()[-1]}")
    return where


def test_uv_tool_install(wheel: Path, tools: Path, tmp_path: Path) -> None:
    places: dict[str, Any] = {
        "UV_TOOL_DIR": tmp_path / "tools",
        "UV_TOOL_BIN_DIR": tmp_path / "bin",
    }
    uv = (tools / "bin" / "uv", "tool", "install", "--python", sys.executable)
    run(*uv, wheel, UV_CACHE_DIR=tmp_path / "cache", **places)
    check(tmp_path / "bin" / "sesh", tmp_path)


def test_uv_in_a_relocatable_environment(wheel: Path, tools: Path, tmp_path: Path) -> None:
    """There the first line of _sesh-python is one for sh."""
    uv, venv, cache = tools / "bin" / "uv", tmp_path / "venv", tmp_path / "cache"
    run(uv, "venv", "--relocatable", "--python", sys.executable, venv, UV_CACHE_DIR=cache)
    run(uv, "pip", "install", wheel, UV_CACHE_DIR=cache, VIRTUAL_ENV=venv)
    venv.rename(tmp_path / "moved")
    assert sesh.__version__ in run(tmp_path / "moved" / "bin" / "sesh", "--version")
    shown = run(tmp_path / "moved" / "bin" / "sesh", "init", "bash", HOME=tmp_path)
    assert f"'{tmp_path}/moved/bin/sesh'" in shown


def test_pipx_install(wheel: Path, tools: Path, tmp_path: Path) -> None:
    places: dict[str, Any] = {
        "PIPX_HOME": tmp_path / "pipx",
        "PIPX_BIN_DIR": tmp_path / "bin",
        "PIPX_MAN_DIR": tmp_path / "man",
        "UV_CACHE_DIR": tmp_path / "cache",
    }
    pipx = (sys.executable, "-m", "pipx", "install", "--backend", "uv")
    run(
        *(*pipx, "--python", sys.executable, wheel),
        path=f"{tools}/bin:{os.environ['PATH']}",
        **places,
        PYTHONPATH=tools,
    )
    check(tmp_path / "bin" / "sesh", tmp_path)


def test_a_zipapp(wheel: Path, tmp_path: Path) -> None:
    """Its data files are unpacked where sh and tmux find them; psutil cannot be in a zip file."""
    packed = tmp_path / "sesh.pyz"
    run(*(sys.executable, "-m", "pip", "install", "--no-deps"), "--target", tmp_path / "app", wheel)
    make = (sys.executable, "-m", "zipapp", "--main", "sesh.__main__:script", "--output", packed)
    run(*make, tmp_path / "app")
    world = World()
    try:
        for argv in (["start", "one", "--", "sh", "-c", "exit 3"], ["wait", "one", "--for=ended"]):
            run(sys.executable, packed, *argv, **world.env)
        assert "failed" in run(sys.executable, packed, "ls", **world.env)
        callback = next(world.state.glob("run/*/call*")).read_text()
        assert f"{sys.executable} {packed}" in callback.replace("'", "")
        assert run(sys.executable, packed, "completion", "bash", **world.env)
        assert "claude" in run(sys.executable, packed, "template", "ls", **world.env)
    finally:
        world.end()


# --- what comes with it ---------------------------------------------------------------------------


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
    assert made == ours - {"bin/sesh", "bin/_sesh-python"}


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
    stale.parent.mkdir(parents=True, exist_ok=True)
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


def test_make_install_again_and_uninstall(source: Path, prefix: Path, tmp_path: Path) -> None:
    """The last: it takes away what the others look at."""
    make = ("make", "-C", source, f"PREFIX={prefix}")
    for again in (False, True):
        if again:
            said = run(*make, "install", path=everything_but("tmux", tmp_path))
            assert f"install: {prefix}/bin is not in your PATH" in said
            assert "install: tmux is missing" in said
        assert sesh.__version__ in run(prefix / "bin" / "sesh", "--version")
        assert files_below(prefix / "share") == shared_files()
    assert (prefix / "bin" / "sesh").resolve() == (prefix / "lib/sesh/bin/sesh").resolve()

    run(*make, "uninstall")
    assert files_below(prefix) == set()
