"""The models for Django: machines, records and the journal."""

from importlib import import_module
from pkgutil import iter_modules

from . import machines
from .journal import (
    Anchor,
    ArchivedRange,
    Event,
    IdempotencyRecord,
    Numbering,
    Position,
    SignedCheckpoint,
    TreeHashes,
)
from .records import *  # noqa: F403

# Every module in the folder is a machine.
for _module in iter_modules(machines.__path__):
    import_module(f"{machines.__name__}.{_module.name}")

__all__ = [
    "Anchor",
    "ArchivedRange",
    "Event",
    "IdempotencyRecord",
    "Numbering",
    "Position",
    "SignedCheckpoint",
    "TreeHashes",
]  # fmt: skip
