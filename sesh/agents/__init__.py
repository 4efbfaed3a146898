"""How coding agents are launched and resumed, and what they are doing."""
