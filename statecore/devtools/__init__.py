"""Tools for developers: generated documentation, machine versions and the simulation."""
