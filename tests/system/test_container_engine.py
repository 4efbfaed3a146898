"""What an engine's command says: one line of it for a person, and never a warning instead."""

from __future__ import annotations

import pytest

from sesh.system import container_engine

WARNING = "WARNING: IPv4 forwarding is disabled. Networking will not work."


@pytest.mark.parametrize(
    ("said", "line"),
    [
        ("docker: Error response from daemon: network x not found.\n", "network x not found"),
        (f"{WARNING}\ndocker: Error: network x not found.\n", "network x not found"),
        (f"{WARNING}\nSee 'docker run --help'.\nError: what?\n", "what?"),
        ('time="2026" level=warning msg="old"\nError: what?\n', "what?"),
        (WARNING, WARNING.rstrip(".")),
        ("", ""),
    ],
)
def test_the_line_for_a_person(said: str, line: str) -> None:
    assert container_engine.tidy(said) == line
