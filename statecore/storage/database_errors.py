"""Why the database refused a statement: read-only, full, busy or starting, as a refusal with the reason.

PostgreSQL reports an SQLSTATE, but only a text while it refuses connections; SQLite has its own codes.
"""

from __future__ import annotations

import sqlite3
from typing import NamedTuple

from ..kernel.refusals import DatabaseBusy, DatabaseFull, DatabaseReadOnly, Refusal, Unavailable


class Reason(NamedTuple):
    refusal: type[Refusal]
    sentence: str
    retry_after: int
    is_fault: bool = True  # of the database, and not only a change that another one delays


READ_ONLY = Reason(DatabaseReadOnly, "the database is read-only or a replica: changes are refused", 5)
FULL = Reason(DatabaseFull, "the disk of the database is full: changes are refused", 10)
LOCKED = Reason(DatabaseBusy, "another program has locked the database for too long: try again", 1)
CONTENDED = Reason(DatabaseBusy, "other changes hold the same rows for too long: try again", 1, is_fault=False)
NO_CONNECTION = Reason(DatabaseBusy, "all connections to the database are in use: try again later", 5)
STARTING = Reason(Unavailable, "the database is starting, stopping or recovering: try again later", 5)
TOO_SLOW = Reason(DatabaseBusy, "the database took longer than its statement_timeout: try again later", 5)
NO_RIGHT = Reason(
    Unavailable, "the database role of this process lacks a right: run `migrate` as the owner, which grants them", 30
)
BROKEN_FILES = Reason(Unavailable, "the database cannot read or write its files: check its disk and its log", 10)

BY_SQLSTATE = {
    "25006": READ_ONLY,
    "40001": CONTENDED,
    "40P01": CONTENDED,
    "42501": NO_RIGHT,
    "53100": FULL,
    "53300": NO_CONNECTION,
    "55P03": CONTENDED,
    "57014": TOO_SLOW,
    "57P01": STARTING,
    "57P03": STARTING,
    "58030": BROKEN_FILES,
}
BY_SQLITE_CODE = {
    sqlite3.SQLITE_BUSY: LOCKED,
    sqlite3.SQLITE_LOCKED: LOCKED,
    sqlite3.SQLITE_READONLY: READ_ONLY,
    sqlite3.SQLITE_IOERR: BROKEN_FILES,
    sqlite3.SQLITE_FULL: FULL,
    sqlite3.SQLITE_CANTOPEN: BROKEN_FILES,
}
# libpq passes on only the text of an error that ends the attempt to connect; the texts of a server in English.
BY_TEXT = {
    "too many connections": NO_CONNECTION,
    "too many clients": NO_CONNECTION,
    "connection slots are reserved": NO_CONNECTION,
    "couldn't get a connection": NO_CONNECTION,
    "starting up": STARTING,
    "shutting down": STARTING,
    "recovery mode": STARTING,
    "not accepting connections": STARTING,
}


def find_reason(error: BaseException) -> Reason | None:
    """Returns the reason for an error of Django's, None for one that says nothing about the database's condition."""
    driver_error = error.__cause__
    sqlstate = getattr(driver_error, "sqlstate", None) or getattr(error, "sqlstate", None)
    if sqlstate:
        return BY_SQLSTATE.get(sqlstate)
    if isinstance(driver_error, sqlite3.Error):
        # The last byte; the others are details.
        return BY_SQLITE_CODE.get(getattr(driver_error, "sqlite_errorcode", 0) & 0xFF)
    return next((reason for text, reason in BY_TEXT.items() if text in str(error)), None)


def to_refusal(error: BaseException) -> Refusal | None:
    """Returns the refusal for an error of Django's, None for one that says nothing about the database's condition."""
    reason = find_reason(error)
    return None if reason is None else reason.refusal(reason.sentence, retry_after=reason.retry_after)
