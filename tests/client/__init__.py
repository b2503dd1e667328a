"""The Python client: against a server that misbehaves, and against the real one."""
