"""What is loaded at start is there for ever: the garbage collector need not walk through it again and again."""

import gc


def keep_what_is_loaded() -> None:
    """Without this, a full collection in the middle of a batch takes longer than the batch."""
    gc.collect()
    gc.freeze()
