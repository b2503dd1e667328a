"""Recoveries that take several steps, as guided commands. Each has a dry run that shows them all."""
