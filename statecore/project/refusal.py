"""A refusal to start, told to a person in one sentence."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager


class Refused(Exception):
    """Statecore cannot start as it is configured; the message says why."""


@contextmanager
def one_sentence() -> Iterator[None]:
    try:
        yield
    except Refused as refusal:
        sys.stderr.write(f"statecore: {refusal}\n")
        sys.exit(2)
