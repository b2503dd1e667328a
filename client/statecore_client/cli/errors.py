"""Exit codes, as listed in docs/reference/command-line.md, and the error that ends a command."""

from __future__ import annotations

from enum import IntEnum

from .. import (
    Archived,
    BreakerOpen,
    Conflict,
    Invalid,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    StatecoreError,
    Throttled,
    Unreachable,
    Unsendable,
)
from ..refusals import IdempotencyMismatch


class Exit(IntEnum):
    DONE = 0
    UNSUCCESSFUL = 1  # the command ran, but what it checked or waited for did not succeed
    USAGE = 2
    CONFLICT = 3
    NOT_ALLOWED = 4
    NOT_FOUND = 5
    INVALID = 6
    UNREACHABLE = 7
    WAITING = 8  # nothing has changed yet: the override waits for the approval of another person
    UNDECIDED = 9  # the run waits for the decision of an operator, and nothing else of it can progress
    INTERRUPTED = 130
    PIPE_CLOSED = 141


CODES: tuple[tuple[type[StatecoreError], Exit], ...] = (
    (Conflict, Exit.CONFLICT),
    (NotAuthenticated, Exit.NOT_ALLOWED),
    (PermissionDenied, Exit.NOT_ALLOWED),
    (NotFound, Exit.NOT_FOUND),
    (Archived, Exit.NOT_FOUND),
    (Invalid, Exit.INVALID),
    (Unsendable, Exit.INVALID),
    (IdempotencyMismatch, Exit.INVALID),
    (Unreachable, Exit.UNREACHABLE),
    (Throttled, Exit.UNREACHABLE),
    (BreakerOpen, Exit.UNREACHABLE),
)


class CommandError(Exception):
    """Ends a command with a message for people and an exit code for programs."""

    def __init__(self, sentence: str, code: Exit = Exit.UNSUCCESSFUL) -> None:
        super().__init__(sentence)
        self.code = code


def get_exit_code(error: StatecoreError) -> Exit:
    return next((code for error_class, code in CODES if isinstance(error, error_class)), Exit.UNSUCCESSFUL)
