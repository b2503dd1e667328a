"""Ids that sort by the time they were made: a prefix and a ULID."""

import os
import re
import time
from base64 import b32encode

CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
RFC4648 = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567"
_TO_CROCKFORD = bytes.maketrans(RFC4648, CROCKFORD.encode())

ID_LENGTH = 64
ID_PATTERN = re.compile(r"[A-Za-z0-9._:-]{1,64}")


def new_id(prefix: str) -> str:
    return f"{prefix}_{_milliseconds(time.time_ns() // 1_000_000)}{_randomness()}"


def is_valid_id(text: object) -> bool:
    return isinstance(text, str) and ID_PATTERN.fullmatch(text) is not None


def _milliseconds(value: int) -> str:
    return "".join(CROCKFORD[(value >> shift) & 31] for shift in range(45, -1, -5))


def _randomness() -> str:
    # Ten bytes are exactly sixteen base-32 digits, so the C encoder can do the work.
    return b32encode(os.urandom(10)).translate(_TO_CROCKFORD).decode()
