"""What happened: pages of the journal, what was forced, a run as it was. Read-only."""

from .filters import Filters
from .forced import forced
from .pages import Page, page
from .run_at import run_at

__all__ = ["Filters", "Page", "forced", "page", "run_at"]
