"""A home for real agents: they know the stub, trust the directory, and ask nobody anything."""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents.stub import Stub

KEY = "no-key-is-needed-for-the-stub"


def settle_claude(home: Path, work: Path, stub: Stub) -> dict[str, str]:
    """Write what a first start would have asked; the environment to add."""
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(known))
    return {
        "ANTHROPIC_BASE_URL": stub.address,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def settle_codex(home: Path, work: Path, stub: Stub) -> dict[str, str]:
    config = home / ".codex" / "config.toml"
    config.parent.mkdir()
    config.write_text(f'''\
model = "stub"
model_provider = "stub"
check_for_update_on_startup = false
approval_policy = "on-request"
sandbox_mode = "read-only"

[model_providers.stub]
name = "stub"
base_url = "{stub.address}/v1"
wire_api = "responses"
env_key = "STUB_API_KEY"

[projects."{work}"]
trust_level = "trusted"

[analytics]
enabled = false
''')
    return {"STUB_API_KEY": KEY}
