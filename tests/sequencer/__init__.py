"""Positions, leadership and the sequencer's process."""
