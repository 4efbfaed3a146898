"""A home for real agents: they know the stub, trust the directory, and ask nobody anything.

The user has settings and a hook of his own in it: both must survive us.
"""

from __future__ import annotations

import json
from pathlib import Path

from tests.agents.stub import Stub

KEY = "no-key-is-needed-for-the-stub"
MODE_ASKED = "hasSeenAutoDefaultNudge"  # whether Claude has asked for its default mode


def claude_settings(home: Path) -> Path:
    return home / ".claude" / "settings.json"


def codex_settings(home: Path) -> Path:
    return home / ".codex" / "config.toml"


def heard(home: Path) -> Path:
    """What the user's own hook writes after each turn."""
    return home / "heard"


def settle_claude(home: Path, work: Path, stub: Stub) -> dict[str, str]:
    """Write what a first start would ask for; the environment to add. Tools ask for permission, as
    they do not in Claude's own default mode."""
    known = {
        "hasCompletedOnboarding": True,
        "theme": "dark",
        MODE_ASKED: True,
        "customApiKeyResponses": {"approved": [KEY[-20:]], "rejected": []},
        "projects": {str(work): {"hasTrustDialogAccepted": True}},
    }
    (home / ".claude.json").write_text(json.dumps(known))
    hook = {"type": "command", "command": f"echo turn >>'{heard(home)}'"}
    settings = claude_settings(home)
    settings.parent.mkdir()
    own = {
        "hooks": {"Stop": [{"hooks": [hook]}]},
        "permissions": {"defaultMode": "default"},
    }
    settings.write_text(json.dumps(own, indent=3))
    return {
        "ANTHROPIC_BASE_URL": stub.address,
        "ANTHROPIC_API_KEY": KEY,
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_TELEMETRY": "1",
        "DISABLE_AUTOUPDATER": "1",
    }


def settle_codex(home: Path, work: Path, stub: Stub) -> dict[str, str]:
    settings = codex_settings(home)
    settings.parent.mkdir()
    settings.write_text(f'''\
notify = ["sh", "-c", "echo turn >>'{heard(home)}'"]   # the user's own
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
