"""A Docker engine of the tests' own: a real dockerd in a directory of its own, and two images for
it, made of this machine's programs. It needs root and no network, and shares nothing with an
engine that may run here already.
"""

from __future__ import annotations

import atexit
import io
import os
import re
import secrets
import shutil
import signal
import socket
import subprocess
import tarfile
import tempfile
from contextlib import closing
from functools import cache
from pathlib import Path

from tests import TOOLS
from tests.world import eventually

IMAGE = "sesh-test:latest"
BARE_IMAGE = "sesh-notmux:latest"

_PATH = f"{os.environ['PATH']}:/usr/sbin:/sbin"  # dockerd is there, and a user's PATH often is not
_PROGRAMS = ("docker", "dockerd", "busybox", "tmux", "setpriv")
_PATIENCE = 60.0  # seconds


class EngineError(Exception):
    """The engine or its client failed; the message is theirs."""


def lacking() -> str:
    """Why no engine can be started here; empty when nothing is missing."""
    for program in _PROGRAMS:
        if shutil.which(program, path=_PATH) is None:
            return f"{program} is not installed"
    return "" if os.getuid() == 0 else "only root can start an engine"


class Engine:
    """A dockerd, from its start until `stop` has removed every trace of it.

    `images` is the directory where the images' archives are kept for the next engine. The engine
    ends with the thread that called `start`: not even a killed test run leaves one behind.
    """

    def __init__(self, images: Path, *, tcp: bool = False, live_restore: bool = False) -> None:
        # Short, as sockets' paths must be; and its name is one of containerd's, which allow less.
        self.directory = Path(f"/tmp/sesh-engine-{secrets.token_hex(4)}")
        self.directory.mkdir()
        self.host = f"unix://{self.directory}/docker.sock"
        self.tcp_host = f"tcp://127.0.0.1:{_free_port()}" if tcp else ""
        self.env = {"DOCKER_HOST": self.host}
        self._images = images
        self._live_restore = live_restore
        self._daemon: subprocess.Popen[bytes] | None = None
        self._has_images = False
        atexit.register(self.stop)

    # --- its life ---

    def start(self) -> None:
        """Start it, also again after `kill`, and wait until it answers. No harm if it runs."""
        if self.running:
            return
        self._launch()
        if not self._has_images:
            self._import(IMAGE, _archive(self._images, "tmux", "busybox"))
            self._import(BARE_IMAGE, _archive(self._images, "busybox"))
            self._has_images = True

    def freeze(self) -> None:
        """Let it hang: it accepts connections and never answers."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        self._signal(signal.SIGCONT)

    def kill(self) -> None:
        """End it as a crash would. The containers' processes live on until the next start."""
        self._signal(signal.SIGKILL)
        self._wait()

    def clear(self) -> None:
        """Remove all containers, whatever a test has done to the engine."""
        self.thaw()
        self.start()
        # One that removes itself at its end makes the removal of it fail: then look again.
        if not eventually(self._remove_containers, _PATIENCE):
            raise EngineError(f"containers can't be removed: {self.containers()}")

    def stop(self) -> None:
        """End it and remove all that was its own: containers, processes, mounts, files."""
        atexit.unregister(self.stop)
        if not self.directory.exists():
            return
        try:
            if self._has_images:
                self.clear()
        finally:
            self._signal(signal.SIGTERM)
            self._wait()
            self._end_processes()
            self._unmount()
            shutil.rmtree(self.directory)

    # --- talking to it ---

    def docker(self, *args: str, timeout: float = _PATIENCE) -> str:
        """What the docker client prints; its message as an error when it fails."""
        try:
            done = self._client(*args, timeout=timeout)
        except subprocess.TimeoutExpired as error:
            raise EngineError(f"docker {args[0]}: no answer in {timeout} seconds") from error
        if done.returncode != 0:
            raise EngineError(f"docker {' '.join(args)}: {done.stderr.strip()}")
        return done.stdout.strip()

    def containers(self, all: bool = True) -> list[str]:
        """The names of all containers, or of the running ones."""
        return self.docker("ps", "--format", "{{.Names}}", *(["--all"] if all else [])).split()

    # --- what is there ---

    @property
    def running(self) -> bool:
        return self._daemon is not None and self._daemon.poll() is None

    @property
    def pid(self) -> int:
        assert self._daemon is not None
        return self._daemon.pid

    def processes(self) -> list[int]:
        """The engine's processes, those that it started, and those in its containers."""
        # Its directory's name is in the command line of all its programs, also of those that
        # another parent may have, and a container's id in the cgroup of all that run in it.
        name = self.directory.name.encode()
        ids = [path.name.encode() for path in (self.directory / "data/containers").glob("*")]
        found = []
        for entry in Path("/proc").glob("[0-9]*"):
            try:
                cgroup = (entry / "cgroup").read_bytes()
                if name in (entry / "cmdline").read_bytes() or any(one in cgroup for one in ids):
                    found.append(int(entry.name))
            except OSError:
                continue
        return found

    def mounts(self) -> list[str]:
        """Where something is mounted in its directory, the innermost first."""
        points = [line.split()[1] for line in Path("/proc/self/mounts").read_text().splitlines()]
        return sorted((one for one in points if one.startswith(f"{self.directory}/")), reverse=True)

    # --- inside ---

    def _launch(self) -> None:
        # A killed one's files name processes that may be zombies, which dockerd takes for alive.
        (self.directory / "pid").unlink(missing_ok=True)
        (self.directory / "exec/containerd/containerd.pid").unlink(missing_ok=True)
        with (self.directory / "log").open("ab") as log:
            self._daemon = subprocess.Popen(
                self._command(),
                env={"PATH": _PATH, "HOME": str(self.directory)},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,  # Ctrl-C is for pytest, which then stops it in order
            )
        if not eventually(lambda: self._answers() or not self.running, _PATIENCE):
            raise EngineError(f"dockerd does not answer: {self._last_words()}")
        if not self.running:
            raise EngineError(f"dockerd does not start: {self._last_words()}")

    def _command(self) -> list[str]:
        # Nothing of this machine's own engine: neither its settings, nor its containerd's names,
        # nor the network.
        directory, name = self.directory, self.directory.name
        (directory / "daemon.json").write_text("{}")
        command = ["setpriv", "--pdeathsig", "TERM", "dockerd"]
        command += ["--storage-driver", _storage_driver()]
        command += ["--iptables=false", "--ip-forward=false", "--bridge=none"]
        command += ["--containerd-namespace", name, "--containerd-plugins-namespace", f"{name}-p"]
        command += ["--config-file", f"{directory}/daemon.json", "--pidfile", f"{directory}/pid"]
        command += ["--data-root", f"{directory}/data", "--exec-root", f"{directory}/exec"]
        command += ["--host", self.host]
        command += ["--host", self.tcp_host] if self.tcp_host else []
        command += ["--live-restore"] if self._live_restore else []
        command += ["--shutdown-timeout", "120"]  # on a busy machine it gives up after 15 seconds
        return command

    def _answers(self) -> bool:
        try:
            return self._client("version", timeout=5).returncode == 0
        except subprocess.TimeoutExpired:
            return False

    def _client(self, *args: str, timeout: float) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            ["docker", *args],
            env={"PATH": _PATH, "HOME": str(self.directory), **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout,
        )

    def _last_words(self) -> str:
        lines = (self.directory / "log").read_text(errors="replace").splitlines()
        return "\n".join(lines[-5:])

    def _import(self, image: str, archive: Path) -> None:
        self.docker("import", "--change", 'CMD ["sh"]', str(archive), image)

    def _remove_containers(self) -> bool:
        found = self.containers()
        if found:
            self._client("rm", "--force", "--volumes", *found, timeout=_PATIENCE)
        return not found

    def _signal(self, number: signal.Signals) -> None:
        if self.running:
            os.kill(self.pid, number)

    def _wait(self) -> None:
        """Wait for its end, and for that of the containerd that it started and takes along."""
        if self._daemon is None:
            return
        try:
            self._daemon.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._daemon.kill()
            self._daemon.wait()
        eventually(lambda: not self._containerd(), _PATIENCE)

    def _containerd(self) -> list[int]:
        config = f"{self.directory}/exec/containerd/containerd.toml"
        return [pid for pid in self.processes() if config in _command_line(pid)]

    def _end_processes(self) -> None:
        """Kill what is left; in order, nothing is."""
        for pid in self.processes():
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        eventually(lambda: not self.processes(), _PATIENCE)

    def _unmount(self) -> None:
        for point in self.mounts():
            subprocess.run(["umount", "--lazy", point], check=True)


def _command_line(pid: int) -> str:
    try:
        return Path(f"/proc/{pid}/cmdline").read_text(errors="replace")
    except OSError:
        return ""


@cache
def _storage_driver() -> str:
    """The quickest that works here: vfs works anywhere, and copies the image for each container."""
    with tempfile.TemporaryDirectory(prefix="sesh-overlay-", dir="/tmp") as directory:
        for name in ("lower", "upper", "work", "merged"):
            Path(directory, name).mkdir()
        options = f"lowerdir={directory}/lower,upperdir={directory}/upper,workdir={directory}/work"
        mount = ["mount", "-t", "overlay", "-o", options, "overlay", f"{directory}/merged"]
        if subprocess.run(mount, capture_output=True).returncode:
            return "vfs"
        subprocess.run(["umount", f"{directory}/merged"], check=True)
        return "overlay2"


def _free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


# --- the images --------------------------------------------------------------------------------

_TERMINALS = ("xterm-256color", "tmux-256color", "screen-256color", "screen", "xterm", "dumb")
_TERMINFO = (Path("/usr/share/terminfo"), Path("/lib/terminfo"), Path("/etc/terminfo"))
_LOCALE = Path("/usr/lib/locale/C.utf8")  # tmux refuses to run without one of UTF-8
_USERS = "root:x:0:0:root:/root:/bin/sh\ndev:x:1000:1000:dev:/home/dev:/bin/sh\n"
_GROUPS = "root:x:0:\ndev:x:1000:\n"


def image_archive(directory: Path) -> Path:
    """The file system of the image with tmux, for `import`."""
    return _archive(directory, "tmux", "busybox")


def _archive(directory: Path, *programs: str) -> Path:
    """The file system of an image with these programs; made once for all that share `directory`."""
    path = directory / f"{'-'.join(programs)}.tar"
    if path.exists():
        return path
    with tempfile.NamedTemporaryFile(dir=directory, delete=False) as made:
        with tarfile.open(fileobj=made, mode="w") as tar:
            files = {_inside(file): file for file in sorted(_needed(programs))}
            _add_directories(tar, [*files])
            _add(tar, "etc/passwd", _USERS.encode())
            _add(tar, "etc/group", _GROUPS.encode())
            _add_applets(tar)
            for path_inside, file in files.items():
                _add(tar, str(path_inside), file.read_bytes(), file.stat().st_mode)
        Path(made.name).rename(path)  # another worker may be making the same
    return path


def _inside(file: Path) -> Path:
    """Where it is in the image: at the same path, but for what is unpacked in this checkout."""
    return Path("/bin", file.name) if TOOLS in file.parents else file


def _needed(programs: tuple[str, ...]) -> set[Path]:
    """The programs and all files that they need."""
    needed = set(_locale_and_terminals())
    for program in programs:
        path = _find(program)
        needed |= {path, *_libraries(path)}
    return needed


def _find(program: str) -> Path:
    found = shutil.which(program, path=_PATH)
    if found is None:
        raise EngineError(f"{program} is not installed")
    return Path(found)


def _libraries(program: Path) -> list[Path]:
    """What the dynamic linker would load; nothing for a static program."""
    done = subprocess.run(["ldd", str(program)], capture_output=True, text=True)
    return [Path(found) for found in re.findall(r"(/\S+) \(0x", done.stdout)]


def _locale_and_terminals() -> list[Path]:
    entries = [top / name[0] / name for top in _TERMINFO for name in _TERMINALS]
    return [path for path in (*entries, *_LOCALE.rglob("*")) if path.is_file()]


def _add_applets(tar: tarfile.TarFile) -> None:
    """A link for each command that busybox can be."""
    busybox = _find("busybox")
    listed = subprocess.run([busybox, "--list"], check=True, capture_output=True, text=True)
    for applet in listed.stdout.split():
        if applet != "busybox":
            link = tarfile.TarInfo(f"bin/{applet}")
            link.type, link.linkname = tarfile.SYMTYPE, str(_inside(busybox))
            tar.addfile(link)


def _add_directories(tar: tarfile.TarFile, files: list[Path]) -> None:
    # Those that are only implied by their files would be closed to all but root.
    of_files = {str(parent).lstrip("/") for file in files for parent in file.parents}
    for name in sorted(of_files | {"bin", "dev", "etc", "home", "proc", "run", "sys", "var"}):
        if name:
            _add_directory(tar, name, 0o755)
    _add_directory(tar, "root", 0o700)
    _add_directory(tar, "tmp", 0o1777)
    _add_directory(tar, "home/dev", 0o755, owner=1000)


def _add_directory(tar: tarfile.TarFile, name: str, mode: int, owner: int = 0) -> None:
    entry = tarfile.TarInfo(name)
    entry.type, entry.mode, entry.uid, entry.gid = tarfile.DIRTYPE, mode, owner, owner
    tar.addfile(entry)


def _add(tar: tarfile.TarFile, name: str, content: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(name.lstrip("/"))
    entry.mode, entry.size = mode & 0o777, len(content)
    tar.addfile(entry, io.BytesIO(content))
