"""Phrases that must not appear in text for users: messages, help, the manual, the README."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
FORBIDDEN = re.compile(
    r"\b(gone on with|all the same|anew|whoever|(some|every|no)body|someone|never mind|no valid"
    r"|needs? you|mend(s|ed|ing)?(?=\s|[:;.])|(is|are) told|for so long|so many times|at work"
    r"|of which|one of them is|came to their end|stands|fare|in the median|such as|a further"
    r"|look(s|ed|ing)? after|launched again by itself|brings? it back|which one\?|tells"
    r"|(is|are|be|not|it) well|ill|swept away|written down|(was|were|what) asked for|goes? with:"
    r"|last word|of ours|claims it|takes? it away)\b"
    r"|(?<!there )\b(is|are) no (?!longer\b)"
    r"|(?<!record )(?<!message )\bsays\b|^(say|tell) |\bbehind `?--",
    re.IGNORECASE | re.MULTILINE,
)
# The next command follows "next: ", in every message alike.
OTHER_NEXT = re.compile(
    r"; (see:? )?sesh [a-z-]+($| \S+($| (brings|shows|ends|removes|starts)))|see: sesh | first, or "
)
TEXTS = [
    *sorted((CHECKOUT / "man" / "prose").iterdir()),
    *sorted((CHECKOUT / "sesh" / "terminal" / "shell").iterdir()),
    *sorted((CHECKOUT / "sesh" / "agents" / "builtin").glob("*.toml")),
    CHECKOUT / "sesh" / "agents" / "templates" / "skeleton.toml",
    CHECKOUT / "sesh" / "state" / "skeleton.toml",
    CHECKOUT / "README.md",
    CHECKOUT / "CHANGELOG.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
]
SCRIPTS = [CHECKOUT / "tests" / "demo.sh", CHECKOUT / "tests" / "setup.sh"]
MODULES = sorted((CHECKOUT / "sesh").rglob("*.py"))
FIELDS = (".It Va mend ", '"ok") | .mend')  # a field of JSON keeps its name


def messages(tree: ast.Module) -> Iterator[str]:
    """The string literals of a module without its docstrings, except those that are help texts."""
    docstrings = {
        id(node.body[0].value)
        for node in ast.walk(tree)
        if isinstance(node, ast.Module | ast.ClassDef | ast.FunctionDef)
        and node.body
        and isinstance(node.body[0], ast.Expr)
        and getattr(node, "name", "") != "command"
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield from [] if id(node) in docstrings else [node.value]


def in_modules(pattern: re.Pattern[str]) -> list[str]:
    """The messages that match."""
    return [
        f"{path.relative_to(CHECKOUT)}: {text}"
        for path in MODULES
        for text in messages(ast.parse(path.read_text()))
        if pattern.search(text)
    ]


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_words_of_documents(path: Path) -> None:
    lines = path.read_text().splitlines()
    shown = [line for line in lines if not any(field in line for field in FIELDS)]
    assert [line for line in shown if FORBIDDEN.search(line)] == []


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: path.name)
def test_words_of_scripts(path: Path) -> None:
    """What they print: the texts in quotes on lines that are no comment."""
    lines = [line for line in path.read_text().splitlines() if not line.lstrip().startswith("#")]
    shown = [text for line in lines for text in re.findall(r"\"([^\"]* [^\"]*)\"", line)]
    assert [text for text in shown if FORBIDDEN.search(text)] == []


def test_words_of_messages_and_help() -> None:
    assert in_modules(FORBIDDEN) == []


def test_how_messages_name_the_next_command() -> None:
    assert in_modules(OTHER_NEXT) == []
