"""The results of work on several sessions: an error with one does not affect the others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sesh.model.errors import SeshError
from sesh.state.judge import Seen

Results = dict[str, Seen | SeshError]  # by name: the session afterwards, or the error


@contextmanager
def noted(results: dict[str, Any], name: str) -> Iterator[None]:
    """Note an error with one of several sessions; the work on the others continues."""
    try:
        yield
    except SeshError as error:
        results[name] = error


def only(results: Results) -> Seen:
    """The result of one session; an error is raised."""
    (result,) = results.values()
    if isinstance(result, SeshError):
        raise result
    return result
