"""The agent as a real process, against the real server."""
