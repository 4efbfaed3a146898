"""`make test-vm`: a virtual machine with a real kernel is reset, without any warning, while sesh
writes. What sesh had acknowledged before must be there after it, and whole.

qemu emulates the processor, so this takes minutes: it is no part of `make test`.
"""

from __future__ import annotations

import json
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from shlex import quote
from typing import Any

from tests.systemd.machine import CHECKOUT, install

ROOT = CHECKOUT / ".roots" / "vm"
RESETS = int(os.environ.get("SESH_TEST_RESETS", "3"))
PATIENCE = 1800.0  # seconds for a boot or a command, on a busy machine
SESSIONS = ("a", "b", "c")

# Two of these run at a time. What is printed after a command has succeeded is acknowledged.
WRITER = """
i=0
while :; do
    i=$((i + 1)); name=$1$i
    sesh start $name --record-only --group w >/dev/null && echo "started $name" >/dev/ttyS2
    sesh update $name --summary t$i >/dev/null && echo "updated $name" >/dev/ttyS2
    sesh finish $name completed >/dev/null && echo "finished $name" >/dev/ttyS2
done
"""

# How many lines of the log of events are not whole. It is not synced, and never the truth: a reset
# may cost its last lines, and readers pass over what is left of them.
CUT = "python3 -c " + quote("""
import json, os
torn = 0
for line in open(os.path.expanduser("~/.local/state/sesh/events.jsonl"), "rb"):
    try:
        torn += not isinstance(json.loads(line), dict)
    except ValueError:
        torn += 1
print(torn)
""")


@dataclass
class Reset:
    """What one reset did."""

    boot: float = 0.0  # seconds until it answered again
    acknowledged: int = 0
    missing: list[str] = field(default_factory=list)
    torn: int = 0  # records, and commands that can't cope
    cut: int = 0  # lines of events
    lost: int = 0  # sessions found lost (reboot)
    timer: bool = False
    back: int = 0  # sessions that run again
    scope: bool = False  # and their server is in a scope of its own

    @property
    def right(self) -> bool:
        found = (self.missing, self.torn, self.lost, self.timer, self.back, self.scope)
        return found == ([], 0, len(SESSIONS), True, len(SESSIONS), True)


class Vm:
    """A virtual machine, and the shell on its serial port."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._process = subprocess.Popen(
            [
                *("setpriv", "--pdeathsig", "KILL", "qemu-system-x86_64"),
                # One processor: two of them wait for each other where this machine is busy.
                *("-machine", "q35", "-accel", "tcg", "-cpu", "max", "-smp", "1", "-m", "1024"),
                *("-display", "none", "-nodefaults", "-no-user-config"),
                *("-kernel", str(_only(ROOT / "boot", "vmlinuz-*"))),
                *("-initrd", str(_only(ROOT / "boot", "initrd.img-*"))),
                *("-append", "root=/dev/vda rw console=ttyS0 quiet mitigations=off"),
                # A reset loses what the guest has not written; what it has flushed stays.
                *("-drive", f"file={directory}/disk,if=virtio,format=raw,cache=writeback"),
                *("-device", "virtio-rng-pci"),
                *("-serial", f"file:{directory}/console"),
                *("-serial", f"unix:{directory}/shell,server=on,wait=off"),
                *("-serial", f"file:{directory}/acknowledged"),
                *("-monitor", f"unix:{directory}/monitor,server=on,wait=off"),
            ],
            stdin=subprocess.DEVNULL,
        )
        self._shell = self._connect("shell")
        self._monitor = self._connect("monitor")
        self._heard = b""
        self._count = 0

    def _connect(self, name: str) -> socket.socket:
        deadline = time.monotonic() + 60
        while True:
            made = socket.socket(socket.AF_UNIX)
            try:
                made.connect(str(self._directory / name))
                return made
            except OSError:
                made.close()
                if time.monotonic() > deadline or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def _hear(self, pattern: bytes) -> re.Match[bytes]:
        """Wait until the shell has said this; what it said before is forgotten."""
        deadline = time.monotonic() + PATIENCE
        while (found := re.search(pattern, self._heard)) is None:
            self._shell.settimeout(max(0.1, deadline - time.monotonic()))
            more = self._shell.recv(65536)
            if not more:
                raise ConnectionError("the machine has ended")
            self._heard += more
        self._heard = self._heard[found.end() :]
        return found

    def booted(self) -> float:
        """Wait for its shell; how long that took."""
        begin = time.monotonic()
        self._hear(rb"ready\r?\n")
        self.root("until systemctl is-active --quiet user@1000; do sleep 1; done")
        return time.monotonic() - begin

    def root(self, command: str) -> tuple[int, str]:
        """Exit status and output of a command."""
        self._count += 1
        mark = f"end-{self._count}"
        self._shell.sendall(
            f"{{ {command}\n}} </dev/null; echo {mark[:3]}''{mark[3:]} $?\n".encode()
        )
        found = self._hear(rb"(?s)(.*?)" + mark.encode() + rb" (\d+)\r?\n")
        return int(found[2]), found[1].decode(errors="replace").replace("\r\n", "\n")

    def dev(self, command: str) -> tuple[int, str]:
        return self.root(f"runuser --login dev --command {quote(command)} 2>&1")

    def json(self, command: str) -> Any:
        code, out = self.dev(f"{command} 2>/dev/null")
        assert code in (0, 10), (command, code, out)
        return json.loads(out)

    def acknowledged(self) -> list[list[str]]:
        text = (self._directory / "acknowledged").read_text(errors="replace")
        return [line.split() for line in text.split("\n")[:-1]]

    def reset(self) -> None:
        """As by its button: nothing is synced, nothing is told."""
        self._heard = b""
        self._monitor.sendall(b"system_reset\n")

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


def _only(directory: Path, pattern: str) -> Path:
    (found,) = directory.glob(pattern)
    return found


def make_disk(directory: Path) -> None:
    changes = directory / "changes"
    changes.mkdir()
    install(ROOT, changes)
    (changes / "opt" / "writer").write_text(WRITER)
    script = Path(__file__).with_name("image.sh")
    words = (script, ROOT, changes, directory / "disk")
    argv = ["unshare", "--mount", "--propagation", "private", *map(str, words)]
    subprocess.run(argv, check=True)


def begin(vm: Vm) -> None:
    """Sessions, a timer, and nothing that is not on the disk yet."""
    for name, option in zip(SESSIONS, ("", "--scope", "--group g"), strict=True):
        assert vm.dev(f"sesh start {name} {option} -- sleep 100000")[0] == 0
    assert vm.dev("sesh timer install --every 1h")[0] == 0


def write_and_reset(vm: Vm, number: int) -> Reset:
    for letter in ("p", "q"):
        vm.root(
            f"runuser --login dev --command 'sh /opt/writer {letter}{number}x' >/dev/null 2>&1 &"
        )
    before = len(vm.acknowledged())
    enough = before + random.randint(4, 12)
    while len(vm.acknowledged()) < enough:
        time.sleep(0.2)
    time.sleep(random.uniform(0, 3))
    vm.reset()
    done = Reset(boot=vm.booted())
    look(vm, done)
    bring_back(vm, done)
    return done


def look(vm: Vm, done: Reset) -> None:
    """What is there of all that was ever acknowledged, and is it whole?"""
    acknowledged = vm.acknowledged()
    done.acknowledged = len(acknowledged)
    shown = {one["name"]: one for one in vm.json("sesh ls --all --json")}
    for verb, name in acknowledged:
        one = shown.get(name)
        fine = {
            "started": one is not None,
            "updated": one is not None and bool(one["summary"]),
            "finished": one is not None and one["state"] == "completed",
        }
        if not fine[verb]:
            done.missing.append(f"{verb} {name}")
    checks = vm.json("sesh doctor --json --only record-damaged --only digest")
    done.torn = sum(one["level"] != "ok" for one in checks)
    done.torn += vm.dev("sesh events >/dev/null")[0] != 0
    done.cut = int(vm.dev(CUT)[1])
    lost = [shown[name] for name in SESSIONS if shown[name]["cause"] == "reboot"]
    done.lost = sum(one["state"] == "lost" for one in lost)


def bring_back(vm: Vm, done: Reset) -> None:
    done.timer = vm.dev("systemctl --user is-active 'sesh-gc-*.timer'")[1].strip() == "active"
    code, said = vm.dev("sesh restart --lost")
    if code:
        print(said)
    shown = {one["name"]: one for one in vm.json("sesh ls --json")}
    done.back = sum(shown[name]["state"] == "running" for name in SESSIONS)
    server = "$(pgrep -o -u dev -x 'tmux: server')"
    done.scope = "/app.slice/run-" in vm.root(f"cat /proc/{server}/cgroup")[1]


def table(resets: list[Reset]) -> str:
    titles = "reset boot acknowledged missing torn cut lost timer back scope"
    rows = [titles.split()]
    for number, one in enumerate(resets, 1):
        numbers = (one.acknowledged, len(one.missing), one.torn, one.cut, one.lost)
        rest = ("yes" if one.timer else "NO", str(one.back), "yes" if one.scope else "NO")
        rows.append([str(number), f"{one.boot:.0f} s", *map(str, numbers), *rest])
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    cells = [[cell.ljust(width) for cell, width in zip(row, widths, strict=True)] for row in rows]
    return "\n".join("  ".join(row).rstrip() for row in cells)


def main() -> int:
    if os.getuid() != 0:
        sys.exit("test-vm: only root can make the machine's disk")
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(prefix="sesh-vm-"))
        stack.callback(shutil.rmtree, directory)
        make_disk(directory)
        vm = Vm(directory)
        stack.callback(vm.end)
        print(f"first boot: {vm.booted():.0f} s", flush=True)
        begin(vm)
        resets = []
        for number in range(RESETS):
            resets.append(write_and_reset(vm, number))
            print(table(resets[-1:]), *resets[-1].missing, sep="\n", flush=True)
    print(table(resets))
    return 0 if all(one.right for one in resets) else 1


if __name__ == "__main__":
    sys.exit(main())
