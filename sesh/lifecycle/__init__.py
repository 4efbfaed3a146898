"""The effects: launch, stop, restart, forget. Each does what was decided, and confirms it."""
