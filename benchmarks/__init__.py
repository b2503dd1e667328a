"""Benchmarks of Statecore against raw SQL and comparable libraries."""
