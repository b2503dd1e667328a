"""What other packages may import: `declarations` for machines, `extensions` for what surrounds them.

Only the names in `__all__` of these two modules are public. A public name is deprecated for one minor version, in which
its use warns, before it changes or goes.
"""
