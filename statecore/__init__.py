"""Protected state machines: states change only by legal, recorded transitions."""

__version__ = "0.1.0"
