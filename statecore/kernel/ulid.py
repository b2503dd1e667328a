"""Ids that sort by the time they were made: a prefix and a ULID."""

import os
import re
import time
from functools import lru_cache

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
# Two digits, ten bits, at a time.
PAIRS = [first + second for first in CROCKFORD for second in CROCKFORD]
TIME_DIGITS = 10

ID_LENGTH = 64
ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,64}")
UNREACHABLE = (".", "..")


def new_id(prefix: str) -> str:
    return f"{prefix}_{_digits_of_time(time.time_ns() // 1_000_000)}{_digits(int.from_bytes(os.urandom(10)), 8)}"


def is_valid_id(text: object) -> bool:
    """Not the two that an address cannot hold: whoever sends them has them taken out of the path on the way."""
    return isinstance(text, str) and ID_PATTERN.fullmatch(text) is not None and text not in UNREACHABLE


def made_after(text: str, milliseconds: int) -> str:
    """The beginning of the first id with this prefix that is made so much later than this one."""
    prefix, _, ulid = text.rpartition("_")
    made = 0
    for digit in ulid[:TIME_DIGITS]:
        made = made * len(CROCKFORD) + CROCKFORD.index(digit)
    return f"{prefix}_{_digits_of_time(made + milliseconds)}"


@lru_cache(maxsize=4)  # a batch makes dozens in a millisecond
def _digits_of_time(milliseconds: int) -> str:
    return _digits(milliseconds, TIME_DIGITS // 2)


def _digits(value: int, pairs: int) -> str:
    return "".join([PAIRS[(value >> shift) & 1023] for shift in range(10 * (pairs - 1), -1, -10)])
