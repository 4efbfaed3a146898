"""Recognise values that look like secrets, by key names and well-known formats of tokens. PURE."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

# Not compiled here: only reports with metadata need them.
_CAPITAL = r"(?<=[a-z0-9])(?=[A-Z])"
_SECRET_NAMES = (
    r"(^|_)(token|password|passwd|passphrase|pwd|secrets?|api_?key|access_?key|private_?key|ssh_?key"
    r"|credentials?|authorization|bearer|cookie|jwt)(_|$)"
)
_SECRET_VALUES = {
    "an API key": r"(?<![A-Za-z0-9])(sk[-_]|[pr]k_(live|test)_)[A-Za-z0-9_-]{16,}",
    "a token of GitHub": r"(?<![A-Za-z0-9])(gh[opusr]_|github_pat_)[A-Za-z0-9_]{16,}",
    "a token of GitLab": r"(?<![A-Za-z0-9])glpat-[A-Za-z0-9_-]{16,}",
    "a token of Slack": r"(?<![A-Za-z0-9])xox[abeoprs]-[A-Za-z0-9-]{10,}",
    "a token of npm": r"(?<![A-Za-z0-9])npm_[A-Za-z0-9]{30,}",
    "a key of AWS": r"(?<![A-Za-z0-9])(AKIA|ASIA)[0-9A-Z]{16}(?![A-Za-z0-9])",
    "a key of Google": r"(?<![A-Za-z0-9])AIza[A-Za-z0-9_-]{30,}",
    "a PEM block": r"-----BEGIN [A-Z0-9 ]+-----",
    "a JSON web token": r"eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.",
    "a bearer token": r"(?i)\bbearer [A-Za-z0-9._~+/-]{16,}",
    "a password in an address": r"[a-z][a-z0-9+.-]{1,20}://[^\s/:@]*:[^\s/:@]+@",
}


def secret(key: str, value: object) -> str | None:
    """Why a value looks like a secret; None when it does not. Numbers do not: an agent may count
    its tokens."""
    for name, text in _texts(key, value):
        if text and re.search(_SECRET_NAMES, _words(name)):
            return f"{shown(name)} is a name for secrets"
        for what, pattern in _SECRET_VALUES.items():
            if re.search(pattern, text):
                return f"it looks like {what}"
    return None


def _words(name: str) -> str:
    """`api_key` of apiKey and API-Key."""
    return re.sub(_CAPITAL, "_", name).lower().replace("-", "_").replace(".", "_")


def _texts(key: str, value: object) -> Iterator[tuple[str, str]]:
    """Every text in a value, with its path of keys."""
    if isinstance(value, Mapping):
        for inner, one in value.items():
            yield "", inner
            yield from _texts(f"{key}.{inner}", one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _texts(key, one)
    elif isinstance(value, str):
        yield key, value


def shown(text: str) -> str:
    """Untrusted text for a message."""
    return ascii(text if len(text) <= 40 else text[:40] + "…")
