"""The copies of the journal in the home directory, which a writer of the database cannot reach.

`checkpoint` is the newest signed checkpoint, `transitions.jsonl` has one line per event.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from django.conf import settings

from ..kernel.clock import now

CHECKPOINT_FILE = "checkpoint"
JOURNAL_FILE = "transitions.jsonl"
TAMPERED = "tampered"


def get_checkpoint_path() -> Path:
    return Path(settings.STATECORE_HOME) / CHECKPOINT_FILE


def get_journal_path() -> Path:
    return Path(settings.STATECORE_HOME) / JOURNAL_FILE


def build_aside_path(path: Path, why: str) -> Path:
    """Returns a unique name beside a file, such as `checkpoint-until-20260101T000000000000Z`."""
    return path.with_name(f"{path.stem}-{why}-{now():%Y%m%dT%H%M%S%fZ}{path.suffix}")


def build_tampered_path(path: Path) -> Path:
    """Returns the name under which a file is kept that another program has changed."""
    return build_aside_path(path, TAMPERED)


def list_tampered() -> list[Path]:
    """Returns the kept journal files that another program had changed, oldest first."""
    path = get_journal_path()
    return sorted(path.parent.glob(f"{path.stem}-{TAMPERED}-*{path.suffix}"))


def set_checkpoint_aside() -> None:
    """Renames the checkpoint, because it is signed with a key that was lost."""
    path = get_checkpoint_path()
    if path.exists():
        path.rename(build_aside_path(path, "until"))


@contextmanager
def set_aside() -> Iterator[None]:
    """Renames both files, because an operator restores another history; not if the block fails."""
    moved = [
        (path, path.rename(build_aside_path(path, "until")))
        for path in (get_checkpoint_path(), get_journal_path())
        if path.exists()
    ]
    try:
        yield
    except BaseException:
        for path, aside in moved:
            aside.rename(path)
        raise
