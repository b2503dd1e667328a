"""Queries that serve the console, the API and the metrics; nothing here writes state."""
