"""Sessions in containers, on real engines."""
