"""Verifies stored data: the hash chains, the Merkle tree, the archives, copies, rows, constraints and invariants."""

from .chain import find_mismatched_columns, verify_chain
from .copies import check_journal_file, compare_checkpoint, compare_events
from .findings import COPY_CHECKS, ERROR, JOURNAL_FILE_CHECK, WARNING, WITNESS_CHECK, Finding, select_database_errors
from .invariants import recheck_invariants, sweep_invariants
from .tree import check_checkpoints, check_witnesses, verify_tree
from .verification import check_all, check_entity, check_range, check_recent, sweep_entities

__all__ = [
    "COPY_CHECKS", "ERROR", "JOURNAL_FILE_CHECK", "WARNING", "WITNESS_CHECK", "Finding", "check_all",
    "check_checkpoints", "check_entity", "check_journal_file", "check_range", "check_recent", "check_witnesses",
    "compare_checkpoint", "compare_events", "find_mismatched_columns", "recheck_invariants", "select_database_errors",
    "sweep_entities", "sweep_invariants", "verify_chain", "verify_tree",
]  # fmt: skip
