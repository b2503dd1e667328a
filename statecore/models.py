"""Where Django looks for models: the machines, the records they need, and the journal."""

from importlib import import_module
from pkgutil import iter_modules

from . import machines
from .journal import Event, IdempotencyRecord
from .records import *  # noqa: F403

# A new machine is one new file: whatever lies in the folder is loaded.
for _module in iter_modules(machines.__path__):
    import_module(f"{machines.__name__}.{_module.name}")

__all__ = ["Event", "IdempotencyRecord"]
