"""Callers that want the same thing at the same moment: exactly one gets it, and nothing is lost."""
