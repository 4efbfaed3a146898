"""What a hook is given on standard input. Its caller waits: nothing here fails or takes long."""

from __future__ import annotations

import os
import time
from select import select

LIMIT = 1 << 20  # bytes of an event that are understood
PATIENCE = 10.0  # seconds that one may take to come


def read(fd: int = 0) -> bytes:
    """The input: all of it, or a little more than is understood. (What is beyond is read and thrown
    away: whoever writes it shall not fail.)"""
    data, dropped = b"", 0
    deadline = time.monotonic() + PATIENCE
    while (left := deadline - time.monotonic()) > 0 and dropped < 64 * LIMIT:
        try:
            if not select([fd], [], [], left)[0] or not (chunk := os.read(fd, 1 << 16)):
                break
        except OSError:
            break
        if len(data) > LIMIT:
            dropped += len(chunk)
        else:
            data += chunk
    return data
