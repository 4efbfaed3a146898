"""The data files of a sesh that runs from a zip file: sh and tmux need them as files."""

from __future__ import annotations

import os
import zipfile
from binascii import crc32


def unpacked(package: str, cache: str) -> str:
    """A copy of the data files of a zipped package, made at the first call for this zip file."""
    archive = os.path.dirname(package)
    status = os.stat(archive)
    key = crc32(f"{os.path.realpath(archive)} {status.st_mtime_ns} {status.st_size}".encode())
    target = f"{cache}/zipapp-{key:08x}"
    if not os.path.isdir(target):
        _unpack(archive, target)
    return f"{target}/{os.path.basename(package)}"


def _unpack(archive: str, target: str) -> None:
    scratch = f"{target}.{os.getpid()}"
    os.makedirs(scratch, 0o700)
    with zipfile.ZipFile(archive) as packed:
        names = [name for name in packed.namelist() if name.startswith("sesh/")]
        packed.extractall(scratch, [name for name in names if not name.endswith((".py", ".pyc"))])
    try:
        os.rename(scratch, target)
    except OSError:  # another process was faster
        import shutil

        shutil.rmtree(scratch)
