"""Tests, on SQLite and on PostgreSQL alike."""
