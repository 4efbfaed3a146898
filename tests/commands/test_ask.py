"""sesh ask: a prompt and its answer. (With the real agents: tests/agents/test_ask.py.)"""

from __future__ import annotations

import pytest

from sesh.operations.conversations.ask import Answer
from tests.agent import begin, install
from tests.model.agents.test_transcripts import recording
from tests.world import World, eventually

# Takes a prompt as Claude does, and answers it: prompt and answer go to the transcript.
_ANSWERS = r"""
  *)
    user='{"type":"user","isSidechain":false,"message":{"content":"%s"}}'
    printf "$user\\n" "$word $rest" >>"$transcript"
    model='"model":"claude-opus-5-5","usage":{"input_tokens":3,"output_tokens":2}'
    text='"content":[{"type":"text","text":"said: %s\\n\\u001b[31m"}]'
    message='{"id":"%s",'"$model"',"stop_reason":"end_turn",'"$text"'}'
    failed='"isApiErrorMessage":true,"error":"rate_limit","message":{}'
    case $word in
    fail) echo '{"type":"assistant",'"$failed"'}' >>"$transcript" ;;
    never) ;;
    die) exit 3 ;;
    *)
      said='{"type":"assistant","message":'"$message"'}'
      printf "$said\\n" "$$-$rest" "$word $rest" >>"$transcript" ;;
    esac
    ;;
"""


def speaking(world: World) -> None:
    """Install an agent that answers prompts."""
    install(world)
    path = world.root / "bin" / "claude"
    whole = path.read_text()
    assert "  end) exit" in whole
    path.write_text(
        whole.replace('  end) exit "$rest" ;;\n', f'  end) exit "$rest" ;;\n{_ANSWERS}')
    )


@pytest.fixture
def agent(world: World) -> World:
    speaking(world)
    begin(world)
    return world


def test_the_answer_is_printed(agent: World) -> None:
    for number in range(3):
        done = agent.ok("ask", "one", "what", "is", str(number))
        assert done.out == f"said: what is {number}\n\\x1b[31m\n"
        assert done.err == ""
    assert agent.ok("show", "one", "--json").json["usage"]["tokens_in"] == 9


def test_standard_input(agent: World) -> None:
    assert agent.ok("ask", "one", "-", stdin="from there\n").out.startswith("said: from there\n")


def test_an_error(agent: World) -> None:
    done = agent.sesh("ask", "one", "fail now")
    assert (done.code, done.out) == (1, "")
    assert "one: its turn failed: rate limit" in done.err


def test_no_answer_in_time(agent: World) -> None:
    done = agent.sesh("ask", "one", "never mind", "--timeout", "1s")
    assert (done.code, done.out) == (124, "")
    assert "no answer in time" in done.err


def test_the_end_of_the_session(agent: World) -> None:
    done = agent.sesh("ask", "one", "die now")
    assert done.code == 3
    assert "ended before it answered" in done.err
    assert eventually(lambda: agent.state_of("one") == "failed")
    assert agent.sesh("ask", "one", "hello").code == 3


def test_wrong_calls(agent: World) -> None:
    assert agent.sesh("ask", "one").code == 2
    assert agent.sesh("ask", "one", " ").code == 2
    assert agent.sesh("ask", "missing", "hello").code == 4
    agent.start("plain", "cat")
    done = agent.sesh("ask", "plain", "hello")
    assert done.code == 1
    assert "only those of claude, codex and gemini" in done.err
    assert agent.ok("logs", "plain").out == ""


def test_the_answer_belongs_to_the_prompt() -> None:
    answer = Answer("claude", "run touch x", alone=False)
    for line in recording("claude"):
        answer.add(line)
        if answer.over:
            break
    assert (answer.sure, answer.text, answer.error) == (True, "ran it", None)
    answer = Answer("codex", "fail 429", alone=True)
    for line in recording("codex"):
        answer.add(line)
    assert answer.over
    assert answer.error == "exceeded retry limit, last status: 429 Too Many Requests"
