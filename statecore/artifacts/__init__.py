"""Artifacts of tasks: their contents in the storage, changes by holders and operators, limits and retention."""
