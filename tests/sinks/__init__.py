"""What the sinks make of numbered events."""
