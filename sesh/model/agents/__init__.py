"""What Claude Code and Codex write and report: events of hooks, registry, transcripts. PURE."""
