"""kill -9 in the middle of a change: all of it happened, or nothing."""
