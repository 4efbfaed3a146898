"""Phrases that must not appear in text for users: messages, help, the manual, the README."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[1]
FORBIDDEN = re.compile(
    r"\b(gone on with|all the same|anew|whoever|(some|every)body|never mind|no valid|needs? you"
    r"|mend(s|ed|ing)?(?=\s|[:;.])|(is|are) told|for so long|so many times|at work|of which"
    r"|one of them is|came to their end|stands|fare|in the median)\b"
    r"|\bbehind `?--",
    re.IGNORECASE,
)
TEXTS = [
    *sorted((CHECKOUT / "man" / "prose").iterdir()),
    *sorted((CHECKOUT / "sesh" / "terminal" / "shell").iterdir()),
    CHECKOUT / "README.md",
    *sorted((CHECKOUT / "docs").glob("*.md")),
]
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


@pytest.mark.parametrize("path", TEXTS, ids=lambda path: path.name)
def test_words_of_documents(path: Path) -> None:
    lines = path.read_text().splitlines()
    shown = [line for line in lines if not any(field in line for field in FIELDS)]
    assert [line for line in shown if FORBIDDEN.search(line)] == []


def test_words_of_messages_and_help() -> None:
    found = [
        f"{path.relative_to(CHECKOUT)}: {text}"
        for path in MODULES
        for text in messages(ast.parse(path.read_text()))
        if FORBIDDEN.search(text)
    ]
    assert found == []
