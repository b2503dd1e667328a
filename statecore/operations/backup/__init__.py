"""Exports the journal and the tables, and restores them into an empty database. Every restore is verified.

An export contains the events since the previous export and a snapshot of the other tables. A chain of exports restores
the complete database, with positions and tree. With a passphrase it is encrypted and contains the accounts: users,
groups, permissions, hashes of tokens, second factors, webhooks, and what users have set up in the console. `tables`
names what exports do not contain. Files stay outside: `transitions.jsonl`, which is continued or rewritten
automatically, and `archive/`.
"""

from .chain import RestoreFailed
from .comparison import UnusableCopy, compare
from .drill import DrillFailed, DrillReport, drill, run_due_drill
from .export import export
from .restore import restore

__all__ = [
    "DrillFailed", "DrillReport", "RestoreFailed", "UnusableCopy", "compare", "drill", "export", "restore",
    "run_due_drill",
]  # fmt: skip
