"""Real commands, real git."""
