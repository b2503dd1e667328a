"""Servers, processes and helpers that the tests share."""
