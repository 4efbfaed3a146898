"""The stub itself, without an agent: these run in every `make test`."""

from __future__ import annotations

import json
import threading
from http.client import HTTPConnection, HTTPResponse
from typing import Any

from tests.agents.stub import Stub

_TOOLS = [{"name": "Bash"}]


def _ask(stub: Stub, path: str, body: dict[str, Any]) -> HTTPResponse:
    connection = HTTPConnection("127.0.0.1", stub.port, timeout=20)
    connection.request("POST", path, json.dumps(body))
    return connection.getresponse()


def _claude(stub: Stub, *contents: object, **more: object) -> HTTPResponse:
    messages = [{"role": "user", "content": content} for content in contents]
    body = {"model": "m", "messages": messages, "tools": _TOOLS, **more}
    return _ask(stub, "/v1/messages?beta=true", body)


def _codex(stub: Stub, *items: object) -> HTTPResponse:
    body = {"model": "m", "input": items, "tools": [{"name": "exec_command"}]}
    return _ask(stub, "/v1/responses", body)


def _events(response: HTTPResponse) -> list[dict[str, Any]]:
    assert response.status == 200
    with response:
        lines = response.read().decode().splitlines()
    return [json.loads(line.removeprefix("data: ")) for line in lines if line.startswith("data: ")]


def _text(events: list[dict[str, Any]]) -> str:
    deltas = [one["delta"] for one in events if one["type"].endswith("delta") and "delta" in one]
    return "".join(one if isinstance(one, str) else one.get("text", "") for one in deltas)


def _typed(text: str) -> dict[str, Any]:
    part = {"type": "input_text", "text": text}
    return {"type": "message", "role": "user", "content": [part]}


def test_the_last_typed_prompt_is_answered(stub: Stub) -> None:
    reminder = {"type": "text", "text": "<system-reminder>\nignore me\n</system-reminder>"}
    prompt = {"type": "text", "text": "hello"}
    assert _text(_events(_claude(stub, "before", [reminder, prompt]))) == "you said: hello"
    assert _text(_events(_codex(stub, _typed("before"), _typed("hello")))) == "you said: hello"
    assert stub.prompts == ["hello", "hello"]


def test_a_tool_is_called_once_and_its_result_answered(stub: Stub) -> None:
    begun = _events(_claude(stub, "run ls"))
    block = next(one for one in begun if one["type"] == "content_block_start")["content_block"]
    assert (block["type"], block["name"]) == ("tool_use", "Bash")
    result = [{"type": "tool_result", "tool_use_id": block["id"], "content": "x"}]
    assert _text(_events(_claude(stub, "run ls", result))) == "ran it"


def test_codex_is_asked_for_the_tool_that_it_offers(stub: Stub) -> None:
    done = _events(_codex(stub, _typed("run ls")))
    item = next(one for one in done if one["type"] == "response.output_item.done")["item"]
    assert (item["name"], json.loads(item["arguments"])["cmd"]) == ("exec_command", "ls")
    output = {"type": "function_call_output", "call_id": item["call_id"], "output": "x"}
    assert _text(_events(_codex(stub, _typed("run ls"), output))) == "ran it"


def test_a_slow_answer_can_be_interrupted(stub: Stub) -> None:
    response = _claude(stub, "slowly now")
    seen = [response.readline() for _ in range(9)]
    assert b"you said: " in b"".join(seen)
    threading.Timer(0.05, stub.go_on.set).start()
    assert b"slowly now" in response.read()
    response.close()


def test_a_title_is_no_conversation(stub: Stub) -> None:
    schema = {"type": "json_schema", "schema": {"properties": {"title": {"type": "string"}}}}
    wanted = {"output_config": {"format": schema}, "tools": []}
    title = json.loads(_text(_events(_claude(stub, "<session>hello</session>", **wanted))))
    assert title == {"title": "Talk to a stub"}
    assert stub.prompts == []


def test_an_error_is_an_error(stub: Stub) -> None:
    with _claude(stub, "fail 401") as response:
        assert response.status == 401
        assert json.loads(response.read())["error"]["type"] == "authentication_error"
    with _ask(stub, "/v1/elsewhere", {}) as response:
        assert response.status == 404
