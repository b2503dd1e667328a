"""Slots: registered workers of a program that claim tasks, keep them by heartbeats, and report, one at a time each."""
