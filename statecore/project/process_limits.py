"""Limits of a long-running process: how often garbage is collected, and how many files may be open."""

import gc
import resource

# Almost everything that a request creates is freed by reference counting. With Python's default of 700 the collector
# would run several times per request, which took a thirtieth of the time of a claim.
COLLECTION_THRESHOLD = 20_000
# The streams and long polls that one process holds, and as many connections again for other requests.
OPEN_FILES = 20_000


def pause_collection() -> None:
    """Stops garbage collection while modules load, which took a fifth of the start and finds next to nothing."""
    gc.disable()


def resume_collection() -> None:
    """Starts garbage collection again, without the modules that have been loaded since it stopped."""
    gc.freeze()
    gc.enable()


def freeze_loaded_objects() -> None:
    """Exempts everything loaded so far from garbage collection; a full collection would take longer than a batch."""
    gc.collect()
    resume_collection()
    gc.set_threshold(COLLECTION_THRESHOLD, *gc.get_threshold()[1:])


def raise_open_file_limit() -> None:
    """Raises the soft limit, 1,024 on most systems, as far as the hard limit allows.

    At the limit a process cannot accept connections.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = OPEN_FILES if hard == resource.RLIM_INFINITY else min(OPEN_FILES, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
