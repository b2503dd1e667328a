"""Processes killed in the middle of a transition: all of it is stored, or nothing."""
