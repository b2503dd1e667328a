"""Ids: a prefix and a ULID, which sorts by creation time, and the column that stores them."""

from __future__ import annotations

import os
import re
import time

from django.db import models
from django.db.backends.base.base import BaseDatabaseWrapper

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two digits encode ten bits.
PAIRS = [first + second for first in CROCKFORD for second in CROCKFORD]
TIME_DIGITS, RANDOM_DIGITS = 10, 16
# The digit for each value of a random byte: its last five bits.
DIGIT_OF_BYTE = (CROCKFORD * 8).encode()

ID_LENGTH = 64
ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,64}")
# Clients and proxies remove these from the path of a URL, so an entity with such an id could not be addressed.
DOT_SEGMENTS = (".", "..")


class IdField(models.CharField):  # type: ignore[type-arg]
    """A text column that is only compared for equality.

    On PostgreSQL, Django adds a second index for LIKE to every `varchar` key and to every foreign key that refers to
    one: seven on the task table, written with each transition and never read. Django does not recognise the same type
    under its long name, `character varying`.
    """

    def db_type(self, connection: BaseDatabaseWrapper) -> str:
        if connection.vendor == "postgresql":
            return f"character varying({self.max_length})"
        return str(super().db_type(connection))


def new_id(prefix: str) -> str:
    random = os.urandom(RANDOM_DIGITS).translate(DIGIT_OF_BYTE).decode()
    return f"{prefix}_{_digits(time.time_ns() // 1_000_000, TIME_DIGITS // 2)}{random}"


def is_valid_id(text: object) -> bool:
    return isinstance(text, str) and ID_PATTERN.fullmatch(text) is not None and text not in DOT_SEGMENTS


def id_prefix_after(text: str, milliseconds: int) -> str:
    """Returns the common beginning of the ids created this many milliseconds after the given one."""
    prefix, _, ulid = text.rpartition("_")
    created = 0
    for digit in ulid[:TIME_DIGITS]:
        created = created * len(CROCKFORD) + CROCKFORD.index(digit)
    return f"{prefix}_{_digits(created + milliseconds, TIME_DIGITS // 2)}"


def _digits(value: int, pairs: int) -> str:
    return "".join([PAIRS[(value >> shift) & 1023] for shift in range(10 * (pairs - 1), -1, -10)])
