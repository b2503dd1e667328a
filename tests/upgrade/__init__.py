"""Upgrades: migrations are safe beside the previous version and keep its data."""
