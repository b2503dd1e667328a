"""Exports the journal and the tables, and restores them into an empty database. Every restore is verified.

An export contains the events since the previous export and a snapshot of Statecore's other tables. A chain of exports
restores the complete database, with positions and tree. Exports do not contain users and what belongs to them
(permissions, tokens, webhooks), idempotency records, unsent alert notices, logs, or files: `transitions.jsonl`, which
is continued or rewritten automatically, and `archive/`.
"""

from .comparison import UnusableCopy, compare
from .drill import DrillFailed, DrillReport, drill
from .export import export
from .restore import RestoreFailed, restore

__all__ = ["DrillFailed", "DrillReport", "RestoreFailed", "UnusableCopy", "compare", "drill", "export", "restore"]
