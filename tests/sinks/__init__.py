"""The sinks that consume numbered events."""
