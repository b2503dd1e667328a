"""Exports, restores and restore drills."""
