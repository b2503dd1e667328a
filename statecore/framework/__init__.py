"""What other packages may import: `declarations` for machines, `extensions`, `rest` and `console` for the rest.

Only the names in `__all__` of these modules are public. A public name is deprecated for one minor version, in which
its use warns, before it changes or goes.
"""
