"""The files of a launch: the kernel's limits in its script; and the call back: however many agents
end at one moment, few passes are started."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path
from shlex import quote

import pytest

from sesh.model.record import Supervision
from sesh.model.value_object import replace
from sesh.places import environment, launch_files
from sesh.system import paths
from tests import pace
from tests.conftest import need
from tests.places.test_keeper import SHELLS
from tests.samples import record
from tests.surroundings import STRANGER, need_root


@pytest.mark.parametrize(
    ("limit", "interval", "kernel"),
    [(1.0, 0.5, 3), (0.5, 0.1, 1), (100.0, 10.0, 121), (1.0, 30.0, 61), (3600.0, 86400.0, 3660)],
)
def test_the_kernels_limit_lies_beyond_ours_by_a_minute_at_most(
    limit: float, interval: float, kernel: int
) -> None:
    supervision = Supervision(max_cpu_time=limit, check_interval=interval)
    limited = replace(record(), spec=replace(record().spec, supervision=supervision))
    script = launch_files.script_elsewhere(limited, ("true",), "/run/sesh/x")
    assert re.findall(r"ulimit -S -t (\d+)", script) == [str(kernel)]


# Names that a shell uses itself, or that our scripts did, with values that it would stumble over.
SHELLS_OWN = {
    **dict.fromkeys(("OPTIND", "OPTARG", "OPTERR", "PPID", "UID", "EUID", "LINENO"), "x"),
    **dict.fromkeys(("SECONDS", "RANDOM", "HISTSIZE", "MAILCHECK", "TMOUT", "FUNCNEST"), "x"),
    **dict.fromkeys(("ENV", "BASH_ENV", "CDPATH", "OLDPWD", "MAIL", "MAILPATH"), "/nowhere"),
    **dict.fromkeys(("PS1", "PS2", "PS4", "PROMPT_COMMAND"), "$(touch pwned)"),
    "IFS": "/0s ",
    "SHELLOPTS": "noexec:xtrace",
    "BASHOPTS": "extdebug",
    "BASH_VERSINFO": "x",
    "BASH_XTRACEFD": "9",
    "BASH_COMPAT": "x",
    "POSIXLY_CORRECT": "1",
    "GLOBIGNORE": "*",
    "LC_ALL": "x",
    "_": "x",
}
OURS = dict.fromkeys(("line", "agent", "server", "base", "id", "name", "status", "tmux"), "x")
# What a shell drops or sets itself, some of them.
CHANGED = ("LINENO", "SECONDS", "RANDOM", "FUNCNEST")


@pytest.mark.parametrize("shell", SHELLS)
def test_a_launch_keeps_variables_with_names_that_shells_use(tmp_path: Path, shell: str) -> None:
    need(SHELLS[shell][0])
    given = {**SHELLS_OWN, **OURS, "PATH": os.environ["PATH"]}
    wanted = environment.clean({os.fsencode(k): os.fsencode(v) for k, v in given.items()})
    snapshot = tmp_path / "x.env"
    environment.save(str(snapshot), wanted)
    one = record()
    place = replace(one.place, run=str(tmp_path), snapshot=str(snapshot))
    one = replace(one, place=place, spec=replace(one.spec, cwd=str(tmp_path)))
    script = tmp_path / f"{one.launch}.launch"
    script.write_text(launch_files._script(one, ("env", "-0")))
    inherited = {"TMUX": f"x,{os.getpid()},0", "TMUX_PANE": "%0", "PATH": os.environ["PATH"]}
    done = subprocess.run(
        ["sh", "-c", 'exec 3>&2; exec "$@"', "sh", *SHELLS[shell], str(script)],
        env=inherited | OURS,
        cwd=tmp_path,
        capture_output=True,
    )
    assert done.returncode == 0, done
    assert not (tmp_path / "pwned").exists()
    assert not (tmp_path / f"{one.launch}.error").exists()
    got = dict(entry.split(b"=", 1) for entry in done.stdout.split(b"\0") if entry)
    for name in wanted.keys() - {os.fsencode(name) for name in CHANGED}:
        assert got[name] == wanted[name], name


@pytest.mark.parametrize("shell", SHELLS)
def test_a_launch_changes_no_variable_of_its_place(tmp_path: Path, shell: str) -> None:
    """In a container the environment is its image's."""
    need(SHELLS[shell][0])
    (tmp_path / "x.env").write_text("")
    (tmp_path / "x.exit.tmp").write_text(" " * 127 + "\n")
    script = launch_files.script_elsewhere(record(), ("env",), f"{tmp_path}/x")
    (tmp_path / "x.launch").write_text(script.replace(quote(record().spec.cwd), str(tmp_path)))
    tmux = f"x,{os.getpid()},0"
    done = subprocess.run(
        [
            *SHELLS[shell],
            paths.package_file("places/keeper.sh"),
            f"{tmp_path}/x",
            "id",
            "name",
            "true",
        ],
        env={"TMUX": tmux, "TMUX_PANE": "%0", "TERM": "", "PATH": os.environ["PATH"], **OURS},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done
    assert {f"{name}={value}" for name, value in OURS.items()} <= set(done.stdout.splitlines())


@pytest.fixture
def passes(tmp_path: Path) -> Path:
    """Where a stand-in for sesh notes each pass; like the real one it takes the word away once it
    begins to look, after a while."""
    script = tmp_path / "stand-in"
    again = launch_files.pass_announced(str(tmp_path))
    script.write_text(f"#!/bin/sh\nsleep 0.3\nrm -f {again}\necho $1 >>{tmp_path}/passes\n")
    script.chmod(0o700)
    return tmp_path / "passes"


def test_many_call_backs_at_once_are_few_passes(passes: Path) -> None:
    run = passes.parent
    callback = launch_files.write_callback(str(run), [str(run / "stand-in")])
    first = subprocess.Popen(["/bin/sh", callback])
    again = Path(launch_files.pass_announced(str(run)))
    while not again.exists():
        assert first.poll() is None
    rest = [subprocess.Popen(["/bin/sh", callback]) for _ in range(20)]
    assert [one.wait(pace.seconds(20)) for one in (first, *rest)] == [0] * 21
    # On a busy machine some may come so late that the first pass is over.
    assert passes.read_text() in ["pass\n" * number for number in range(1, 5)]


def test_many_callbacks_at_once_start_few_passes(passes: Path) -> None:
    """As on a busy machine: the first pass has not begun to look when the others stop waiting."""
    run, many = passes.parent, 30
    stand_in = run / "stand-in"
    stand_in.write_text(stand_in.read_text().replace("sleep 0.3", f"sleep {pace.seconds(2)}"))
    callback = launch_files.write_callback(str(run), [str(stand_in)])
    calls = [subprocess.Popen(["/bin/sh", callback]) for _ in range(many)]
    assert {one.wait(pace.seconds(60)) for one in calls} == {0}
    assert 1 <= len(passes.read_text().splitlines()) <= many / 3


def test_a_pass_that_was_announced_and_never_came_is_made_up_for(passes: Path) -> None:
    run = passes.parent
    callback = launch_files.write_callback(str(run), [str(run / "stand-in")])
    Path(launch_files.pass_announced(str(run))).touch()
    assert subprocess.run(["/bin/sh", callback], check=False).returncode == 0
    assert passes.read_text() == "pass\n"


def test_a_call_back_after_the_look_has_begun_makes_another(passes: Path) -> None:
    run = passes.parent
    callback = launch_files.write_callback(str(run), [str(run / "stand-in")])
    for _ in range(2):
        subprocess.run(["/bin/sh", callback], check=True)
    assert passes.read_text() == "pass\npass\n"


@pytest.mark.parametrize("shell", SHELLS)
def test_a_call_back_speaks_to_no_socket_of_another_user(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, shell: str
) -> None:
    need(SHELLS[shell][0])
    need_root()
    asked, socket = tmp_path / "asked", tmp_path / "socket"
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "tmux").write_text(f"#!/bin/sh\necho asked >>{asked}\n")
    (tmp_path / "bin" / "tmux").chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}/bin:{os.environ['PATH']}")
    script = launch_files.write_callback(str(tmp_path), ["true"])
    socket.touch()
    for owner, calls in ((os.getuid(), 1), (STRANGER, 1)):
        os.chown(socket, owner, owner)
        (tmp_path / "pass.again").unlink(missing_ok=True)
        subprocess.run(
            [*SHELLS[shell], script],
            executable=shutil.which(SHELLS[shell][0]),  # PATH is not in the environment
            env={"TMUX": f"{socket},1,0"},
            check=True,
            timeout=60,
        )
        assert asked.read_text().count("asked") == calls
