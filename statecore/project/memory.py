"""What is loaded at start is there for ever: the garbage collector need not walk through it again and again."""

import gc

# Of what a call makes almost all is gone without the collector when the call ends. So it looks once in many calls, and
# not several times in each, which cost the claim of a task a thirtieth of its time.
SELDOM = 20_000


def keep_what_is_loaded() -> None:
    """Without this, a full collection in the middle of a batch takes longer than the batch."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(SELDOM, *gc.get_threshold()[1:])
