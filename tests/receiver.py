"""A web server on loopback that does what a test tells it to, and remembers what it was sent."""

from __future__ import annotations

import json
import socket
import threading
from base64 import b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Request:
    path: str
    headers: dict[str, str]
    body: Any

    @property
    def login(self) -> str:
        return b64decode(self.headers["Authorization"].removeprefix("Basic ")).decode()


@dataclass
class Receiver:
    """`answers` are taken one by one, the last one stays: a status, an address to go to, or None
    for no answer until `free` is set."""

    port: int
    answers: list[int | str | None] = field(default_factory=lambda: [200])
    requests: list[Request] = field(default_factory=list)
    free: threading.Event = field(default_factory=threading.Event)

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def texts(self) -> list[str]:
        return [request.body["text"] for request in self.requests]

    def take(self) -> int | str | None:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@contextmanager
def receiving() -> Iterator[Receiver]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
            made.requests.append(Request(self.path, dict(self.headers), body))
            answer = made.take()
            if answer is None:
                made.free.wait(60)
                self.close_connection = True
                return
            self.send_response(answer if isinstance(answer, int) else 302)
            if isinstance(answer, str):
                self.send_header("Location", answer)
            self.end_headers()

        def do_GET(self) -> None:  # a redirect that is followed comes as one
            made.requests.append(Request(self.path, dict(self.headers), None))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    made = Receiver(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield made
    finally:
        made.free.set()
        server.shutdown()
        thread.join()
        server.server_close()


@contextmanager
def dripping() -> Iterator[int]:
    """A server that answers a byte now and then, for ever; its port."""
    done = threading.Event()

    def serve() -> None:
        connection, _ = listening.accept()
        with connection:
            connection.sendall(b"HTTP/1.1 200 OK\r\nX-Slow: ")
            while not done.wait(0.05):
                try:
                    connection.sendall(b".")
                except OSError:
                    return

    with socket.create_server(("127.0.0.1", 0)) as listening:
        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        try:
            yield listening.getsockname()[1]
        finally:
            done.set()
            thread.join()


def closed_port() -> int:
    """A port that nobody listens at."""
    with socket.create_server(("127.0.0.1", 0)) as found:
        return int(found.getsockname()[1])
