"""Telling one target: what counts as told, never beyond the timeout, and no secret in any word."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from sesh import __version__
from sesh.supervision.notify import targets
from sesh.supervision.notify.targets import Kind, Target
from tests.receiver import closed_port, dripping, receiving
from tests.world import eventually

DATA = b'{"text":"hello"}\n'


def to_command(command: str, timeout: float = 20.0) -> targets.Sent:
    return targets.send(Target(Kind.COMMAND, command), DATA, timeout)


def to_address(address: str, timeout: float = 20.0) -> targets.Sent:
    return targets.send(Target(Kind.WEBHOOK, address), DATA, timeout)


# --- commands ----------------------------------------------------------------------------------


def test_a_command_gets_the_event_on_its_standard_input(tmp_path: Path) -> None:
    assert to_command(f"cat >{tmp_path}/got").problem is None
    assert (tmp_path / "got").read_bytes() == DATA


def test_a_command_that_does_not_read_is_no_problem() -> None:
    large = Target(Kind.COMMAND, "exit 0")
    assert targets.send(large, b"x" * (1 << 20), 20).problem is None


def test_a_command_that_fails() -> None:
    sent = to_command("echo why not >&2; exit 3")
    assert (sent.problem, sent.said) == ("exit 3", "why not")
    assert to_command("kill -9 $$").problem == "killed by signal 9"
    assert to_command("no-such-program").problem == "exit 127"


def test_a_command_that_hangs_is_killed_with_all_that_it_started(tmp_path: Path) -> None:
    pids = tmp_path / "pids"
    sent = to_command(f"sleep 1000 & echo $! $$ >{pids}; wait", timeout=1)
    assert sent.problem == "no answer within 1 s"
    both = [Path("/proc", pid, "exe") for pid in pids.read_text().split()]
    assert len(both) == 2
    assert eventually(lambda: not [exe for exe in both if os.path.exists(exe)])


def test_background_processes_of_a_command_are_left_alone(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    assert to_command(f"sleep 1000 & echo $! >{pid}", timeout=1).problem is None
    os.kill(int(pid.read_text()), signal.SIGKILL)


def test_the_output_of_a_command_that_left_processes_or_hung() -> None:
    sent = to_command("echo why not >&2; sleep 2 & exit 3")
    assert (sent.problem, sent.said) == ("exit 3", "why not")
    sent = to_command("echo why not >&2; sleep 1000", timeout=0.5)
    assert (sent.problem, sent.said) == ("no answer within 0.5 s", "why not")


def test_a_bug_in_one_session_does_not_delay_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not even a traceback reaches whoever looks on."""
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    (tmp_path / "sesh").mkdir()
    for name in ("_run", "_post"):
        monkeypatch.setattr(targets, name, lambda *_: 1 // 0)
    sent = (to_command("true"), to_address("http://127.0.0.1/"))
    assert {one.problem for one in sent} == {"a bug in sesh (ZeroDivisionError)"}
    assert (tmp_path / "sesh" / "bugs.log").read_text().count("\nZeroDivisionError") == 2


def test_a_command_is_part_of_no_session(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else it would end with that one, as one of its processes."""
    for name in ("SESH_ID", "SESH_NAME", "SESH_RUN", "TMUX", "TMUX_PANE"):
        monkeypatch.setenv(name, "x")
    monkeypatch.setenv("MINE", "y")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert to_command("env >env; pwd >pwd").problem is None
    told = (tmp_path / "env").read_text().splitlines()
    assert "MINE=y" in told
    ours = [line for line in told if line.startswith(("SESH_", "TMUX"))]
    assert not [line for line in ours if not line.startswith("SESH_TEST_")]


@pytest.mark.parametrize(
    ("command", "shown"),
    [
        ("notify-send sesh done", "notify-send"),
        ("TOKEN=s3cret curl -d @- https://s3cret/", "curl"),
        ("TOKEN='s3 cret' OTHER=\"s3 cret\" curl", "curl"),
        ("TOKEN=s3cret", "sh"),
        ("echo 's3cret", "sh"),
        ("x" * 500, "x" * 60),
    ],
)
def test_how_a_command_is_shown(command: str, shown: str) -> None:
    assert Target(Kind.COMMAND, command).shown == shown


# --- addresses ---------------------------------------------------------------------------------


def test_a_webhook_gets_the_event_by_post() -> None:
    with receiving() as there:
        assert to_address(f"{there.address}/a%20b/c?d=e#f").problem is None
    (request,) = there.requests
    assert request.path == "/a%20b/c?d=e"
    assert request.body == {"text": "hello"}
    assert request.headers["Content-Type"] == "application/json"
    assert request.headers["User-Agent"] == f"sesh/{__version__}"
    assert "Authorization" not in request.headers


def test_user_and_password_of_an_address_are_sent_as_such() -> None:
    with receiving() as there:
        assert to_address(f"http://me:p%40ss@127.0.0.1:{there.port}/").problem is None
    (request,) = there.requests
    assert request.login == "me:p@ss"
    assert request.headers["Host"] == f"127.0.0.1:{there.port}"


@pytest.mark.parametrize("status", [200, 201, 204])
def test_which_answers_count_as_delivered(status: int) -> None:
    with receiving() as there:
        there.answers = [status]
        assert to_address(there.address).problem is None


@pytest.mark.parametrize(
    ("status", "told"),
    [
        (500, "answered 500 Internal Server Error"),
        (404, "answered 404 Not Found"),
        (304, "answered 304 Not Modified"),
        (599, "answered 599"),
    ],
)
def test_which_answers_do_not_count_as_delivered(status: int, told: str) -> None:
    with receiving() as there:
        there.answers = [status]
        assert to_address(there.address).problem == told


@pytest.mark.parametrize("where", ["{0}/elsewhere?s3cret", "file:///etc/passwd", "ftp://s3cret/"])
def test_a_redirect_is_not_followed(where: str) -> None:
    with receiving() as there:
        there.answers = [where.format(there.address)]
        assert to_address(there.address).problem == "answered 302 Found"
    assert len(there.requests) == 1


def test_an_endpoint_that_is_down() -> None:
    assert to_address(f"http://127.0.0.1:{closed_port()}/").problem == "Connection refused"


def test_no_answer() -> None:
    with receiving() as there:
        there.answers = [None]
        assert to_address(there.address, timeout=0.5).problem == "no answer within 0.5 s"
    assert len(there.requests) == 1


def test_an_answer_without_end() -> None:
    """Each byte comes in time: only the whole does not."""
    with dripping() as port:
        assert to_address(f"http://127.0.0.1:{port}/", timeout=0.5).problem == (
            "no answer within 0.5 s"
        )


def test_an_answer_in_another_language() -> None:
    import socket
    import threading

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.recv(1 << 16)
            connection.sendall(b"220 s3cret smtp ready\r\n")

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve)
        thread.start()
        problem = to_address(f"http://127.0.0.1:{listening.getsockname()[1]}/").problem
        thread.join()
    assert problem == "no answer that can be understood (BadStatusLine)"


NO_ADDRESSES = [
    "",
    "hooks.example.org/s3cret",
    "ftp://me:s3cret@example.org/",
    "file:///etc/passwd",
    "http:///s3cret",
    "http://[s3cret/",
    "http://host:s3cret/",
    "http://host:0/",
    "http://host/s3 cret",
    "http://host/s3cret\nX-Other: 1",
    "http://höst/s3cret",
]


@pytest.mark.parametrize("address", NO_ADDRESSES)
def test_invalid_addresses(address: str) -> None:
    assert not targets.usable(address)
    assert to_address(address).problem == "is not an http or https address"
    assert "s3cret" not in Target(Kind.WEBHOOK, address).shown


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        (
            "https://me:s3cret@hooks.example.org:8443/s3cret?s3cret#s3cret",
            "https://hooks.example.org:8443",
        ),
        ("http://[::1]:80/s3cret", "http://[::1]:80"),
        ("https://a@b@example.org", "https://example.org"),
    ],
)
def test_how_an_address_is_shown(address: str, shown: str) -> None:
    """Its host only: the path may be the secret, as in the webhooks of many a chat."""
    assert targets.usable(address)
    assert Target(Kind.WEBHOOK, address).shown == shown
