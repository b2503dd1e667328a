"""Whether what is stored can be believed: the chain, the rows against it, the constraints, the invariants."""

from .chain import columns_that_lie, verify_chain
from .checks import check_all, check_entity, check_recent, check_stretch
from .finding import ERROR, WARNING, Finding
from .invariants import sweep_invariants
from .order import verify_seals

__all__ = [
    "ERROR", "WARNING", "Finding", "check_all", "check_entity", "check_recent", "check_stretch", "columns_that_lie",
    "sweep_invariants", "verify_chain", "verify_seals",
]  # fmt: skip
