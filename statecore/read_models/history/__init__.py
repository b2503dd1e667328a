"""The past: pages of the journal, overrides, and a run at an earlier time."""

from .filters import Filters
from .overrides import list_overrides
from .pages import Page, read_page
from .run_at import get_run_at

__all__ = ["Filters", "Page", "get_run_at", "list_overrides", "read_page"]
