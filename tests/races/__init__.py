"""Concurrent calls on the same entity: exactly one succeeds, and none is lost."""
