"""What an exit code says; docs/reference/command-line.md lists them."""

from __future__ import annotations

from enum import IntEnum

from api.client import (
    BreakerOpen,
    Conflict,
    Invalid,
    NotAuthenticated,
    NotFound,
    PermissionDenied,
    Retired,
    StatecoreError,
    Throttled,
    Unreachable,
    Unsendable,
)
from api.client.refusals import IdempotencyMismatch


class Exit(IntEnum):
    DONE = 0
    NOT_AS_HOPED = 1  # it worked, and what was waited for or checked turned out otherwise
    USAGE = 2
    CONFLICT = 3
    NOT_ALLOWED = 4
    NOT_FOUND = 5
    INVALID = 6
    UNREACHABLE = 7
    INTERRUPTED = 130
    PIPE_CLOSED = 141


CODES: tuple[tuple[type[StatecoreError], Exit], ...] = (
    (Conflict, Exit.CONFLICT),
    (NotAuthenticated, Exit.NOT_ALLOWED),
    (PermissionDenied, Exit.NOT_ALLOWED),
    (NotFound, Exit.NOT_FOUND),
    (Retired, Exit.NOT_FOUND),
    (Invalid, Exit.INVALID),
    (Unsendable, Exit.INVALID),
    (IdempotencyMismatch, Exit.INVALID),
    (Unreachable, Exit.UNREACHABLE),
    (Throttled, Exit.UNREACHABLE),
    (BreakerOpen, Exit.UNREACHABLE),
)


class Stop(Exception):
    """The end of a command, with a sentence for people and a code for programs."""

    def __init__(self, sentence: str, code: Exit = Exit.NOT_AS_HOPED) -> None:
        super().__init__(sentence)
        self.code = code


def code_of(error: StatecoreError) -> Exit:
    return next((code for family, code in CODES if isinstance(error, family)), Exit.NOT_AS_HOPED)
