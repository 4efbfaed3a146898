"""Both vendors' APIs on loopback, for the real agents to talk to: no key, no network, no model.

What is answered follows from the prompt alone, so it does not matter how many requests an agent
makes besides, nor in which order:

    run COMMAND     the agent's shell tool is called with it; then "ran it"
    leave COMMAND   the same in the background, where it goes on after the turn (Claude only)
    delegate TASK   a subagent is started with it (Claude only)
    ask QUESTION    the person is asked to choose between Red and Blue (Claude only)
    slowly WORDS    half of the answer, the rest when the test sets `go_on`
    fail STATUS     an error with that HTTP status
    anything else   "you said: …"

Each answer has an id and figures of its own; `used` are those of all answers in conversations.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

Json = dict[str, Any]

_ERRORS = {401: "authentication_error", 429: "rate_limit_error"}


@dataclass(frozen=True)
class Used:
    """The tokens of one answer."""

    number: int = 0

    @property
    def input(self) -> int:
        return 10 + self.number

    @property
    def output(self) -> int:
        return 5 + 2 * self.number

    @property
    def cached(self) -> int:
        return 100 + 3 * self.number

    @property
    def written(self) -> int:
        """To the cache (Claude only)."""
        return 7 * self.number


@dataclass
class Stub:
    """`requests` are the bodies of all that was asked, with their path in `path`."""

    port: int
    requests: list[Json] = field(default_factory=list)
    go_on: threading.Event = field(default_factory=threading.Event)
    used: list[Used] = field(default_factory=list)

    def next(self) -> Used:
        self.used.append(Used(len(self.used) + 1))
        return self.used[-1]

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    @property
    def prompts(self) -> list[str]:
        """What was asked in conversations; an agent's requests for itself bring no tools."""
        return [last_prompt(one) for one in self.requests if one.get("tools")]


@contextmanager
def answering(port: int = 0) -> Iterator[Stub]:
    class Handler(_Handler):
        stub: Stub

    server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
    server.daemon_threads = True
    Handler.stub = Stub(server.server_address[1])
    thread = threading.Thread(target=server.serve_forever, args=(0.02,))
    thread.start()
    try:
        yield Handler.stub
    finally:
        Handler.stub.go_on.set()
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(BaseHTTPRequestHandler):
    stub: Stub

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.end_headers()

    def do_GET(self) -> None:
        self._send(404, {"error": {"type": "not_found_error", "message": self.path}})

    def do_POST(self) -> None:
        body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        path = self.path.partition("?")[0]
        self.stub.requests.append({**body, "path": path})
        prompt = last_prompt(body) if body.get("tools") else "nothing"
        if prompt.startswith("fail "):
            status = int(prompt.split()[1])
            kind = _ERRORS.get(status, "api_error")
            self._send(status, {"type": "error", "error": {"type": kind, "message": prompt}})
        elif path == "/v1/messages/count_tokens":
            self._send(200, {"input_tokens": 10})
        elif path == "/v1/messages":
            used = self.stub.next() if body.get("tools") else Used()
            self._stream(claude_answer(body, prompt, used))
        elif path == "/v1/responses":
            used = self.stub.next() if body.get("tools") else Used()
            self._stream(codex_answer(body, prompt, used))
        else:
            self.do_GET()

    def _send(self, status: int, answer: Json) -> None:
        data = json.dumps(answer).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("x-should-retry", "false")  # else Claude tries for minutes
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def _stream(self, events: list[Json | None]) -> None:
        """Send server-sent events; None among them waits for `go_on`."""
        self.send_response(200)
        self.send_header("Content-Type", "text/event-stream")
        self.send_header("Connection", "close")
        self.end_headers()
        self.close_connection = True
        try:
            for event in events:
                if event is None:
                    self.stub.go_on.wait(300)
                    continue
                self.wfile.write(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode())
                self.wfile.flush()
        except OSError:
            pass  # the agent was interrupted or killed

    def log_message(self, *_: object) -> None:
        pass


def last_prompt(body: Json) -> str:
    """What the person typed last; "ran it" when a tool's result came after that."""
    found = ""
    for item in body.get("messages") or body.get("input") or []:
        if item.get("type") == "function_call_output":
            found = "ran it"
        if item.get("role") != "user":
            continue
        content = item["content"]
        parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
        for part in parts:
            if part["type"] == "tool_result":
                found = "ran it"
            elif "text" in part and not part["text"].lstrip().startswith("<"):
                found = part["text"].strip()
    return found


def _words(prompt: str) -> list[str]:
    """The answer in two halves; an agent's own prompts may be long."""
    if prompt == "ran it":
        return ["ran ", "it"]
    return ["you said: ", prompt.partition("\n")[0][:80]]


# --- Anthropic: POST /v1/messages ----------------------------------------------------------------


_CALLS = {"run": "command", "leave": "command", "delegate": "prompt"}  # verb → what it goes in as
_MORE: dict[str, Json] = {
    "leave": {"run_in_background": True},
    "delegate": {"subagent_type": "Explore"},
}


def claude_answer(body: Json, prompt: str, used: Used) -> list[Json | None]:
    verb, _, rest = prompt.partition(" ")
    if verb in _CALLS:
        what = {_CALLS[verb]: rest, **_MORE.get(verb, {}), "description": rest}
        return _tool_use(body, "Agent" if verb == "delegate" else "Bash", what, used)
    if verb == "ask":
        options = [{"label": word, "description": "or not"} for word in ("Red", "Blue")]
        asked = {"question": rest, "header": "Color", "options": options, "multiSelect": False}
        return _tool_use(body, "AskUserQuestion", {"questions": [asked]}, used)
    words = ['{"title": "Talk to a stub"}'] if _is_title_wanted(body) else _words(prompt)
    deltas: list[Json | None] = [{"type": "text_delta", "text": word} for word in words]
    if prompt.startswith("slowly "):
        deltas.insert(1, None)
    return _message(body, {"type": "text", "text": ""}, deltas, "end_turn", used)


def _tool_use(body: Json, name: str, given: Json, used: Used) -> list[Json | None]:
    call: Json = {"type": "tool_use", "id": f"toolu_{used.number:04}", "name": name, "input": {}}
    delta = {"type": "input_json_delta", "partial_json": json.dumps(given)}
    return _message(body, call, [delta], "tool_use", used)


def _is_title_wanted(body: Json) -> bool:
    """Claude asks for a title of the conversation, which it then shows in the terminal's."""
    return "title" in json.dumps(body.get("output_config", {}).get("format", {}))


def _message(
    body: Json, block: Json, deltas: list[Json | None], why: str, used: Used
) -> list[Json | None]:
    cache = {
        "cache_read_input_tokens": used.cached,
        "cache_creation_input_tokens": used.written,
    }
    begun = {
        "id": f"msg_{used.number:04}" if used.number else f"msg_title_{len(body['messages'])}",
        "type": "message",
        "role": "assistant",
        "model": body["model"],
        "content": [],
        "stop_reason": None,
        "stop_sequence": None,
        "usage": {"input_tokens": used.input, "output_tokens": 1, **cache},
    }
    return [
        {"type": "message_start", "message": begun},
        {"type": "content_block_start", "index": 0, "content_block": block},
        *(one and {"type": "content_block_delta", "index": 0, "delta": one} for one in deltas),
        {"type": "content_block_stop", "index": 0},
        {
            "type": "message_delta",
            "delta": {"stop_reason": why, "stop_sequence": None},
            "usage": {"output_tokens": used.output},
        },
        {"type": "message_stop"},
    ]


# --- OpenAI: POST /v1/responses ------------------------------------------------------------------


def codex_answer(body: Json, prompt: str, used: Used) -> list[Json | None]:
    number = used.number
    if prompt.startswith("run "):
        item = _call(body, prompt.removeprefix("run "), number)
        return _response(used, [], item)
    deltas: list[Json | None] = [
        {"type": "response.output_text.delta", "delta": word} for word in _words(prompt)
    ]
    if prompt.startswith("slowly "):
        deltas.insert(1, None)
    text = {"type": "output_text", "text": "".join(_words(prompt))}
    item = {"type": "message", "role": "assistant", "id": f"msg_{number}", "content": [text]}
    return _response(used, deltas, item)


def _call(body: Json, command: str, number: int) -> Json:
    """A call of the shell tool that this Codex offers."""
    name: str
    arguments: Json
    offered = {tool.get("name") for tool in body["tools"]}
    if "exec_command" in offered:
        name, arguments = "exec_command", {"cmd": command}
    elif "shell_command" in offered:
        name, arguments = "shell_command", {"command": command}
    else:
        name, arguments = "shell", {"command": ["sh", "-c", command]}
    asked = {"sandbox_permissions": "require_escalated", "justification": "May I?"}
    return {
        "type": "function_call",
        "id": f"fc_{number}",
        "call_id": f"call_{number}",
        "name": name,
        "arguments": json.dumps({**arguments, **asked}),
    }


def _response(used: Used, deltas: list[Json | None], item: Json) -> list[Json | None]:
    whole = used.input + used.cached
    usage = {
        "input_tokens": whole,
        "input_tokens_details": {"cached_tokens": used.cached},
        "output_tokens": used.output,
        "total_tokens": whole + used.output,
    }
    begun: Json = {"id": f"resp_{used.number}", "object": "response", "output": []}
    empty = item | {"content": []} if item["type"] == "message" else item
    return [
        {"type": "response.created", "response": begun | {"status": "in_progress"}},
        {"type": "response.output_item.added", "output_index": 0, "item": empty},
        *deltas,
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {
            "type": "response.completed",
            "response": begun | {"status": "completed", "output": [item], "usage": usage},
        },
    ]
