"""Real processes, real git: gate commands, patches and compensation plans."""
