"""Whether what is stored can be believed: the chain, the rows against it, the constraints, the invariants."""

from .chain import verify_chain
from .checks import check_all, check_recent
from .finding import Finding

__all__ = ["Finding", "check_all", "check_recent", "verify_chain"]
