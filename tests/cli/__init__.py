"""The command line as real processes, against the real server."""
