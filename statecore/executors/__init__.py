"""Execution of gate commands, patches and compensation plans, with real processes and a real git repository."""
