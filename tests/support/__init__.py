"""Real servers and small helpers for the tests."""
