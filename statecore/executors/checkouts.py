"""Checkouts: each command runs in a new folder with the files it tests, which is removed when the command has ended.

A checkout of a commit is a git repository that borrows the objects of its source. It has its own index, configuration
and hooks, so a command changes nothing that a later command or a commit could see.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import structlog
from django.conf import settings

from ..kernel.ids import new_id
from ..storage import files
from . import git

log = structlog.get_logger(__name__)

MUTEX_SECONDS = 60.0
ALTERNATES = Path("info/alternates")


@dataclass(frozen=True, slots=True)
class Source:
    """The content of a checkout: a tree on top of a commit, or the files of a folder that has no commit."""

    folder: Path
    commit: str = ""
    tree: str = ""
    # The folder below the top of the checkout in which commands run.
    inside: str = ""


@dataclass(frozen=True, slots=True)
class Checkout:
    """`root` belongs to the command; `lock` is held until its last process has ended."""

    root: Path
    lock: int
    folder: Path
    borrowed: tuple[Path, ...] = ()

    @property
    def home(self) -> Path:
        return self.root / "home"

    @property
    def temporary(self) -> Path:
        return self.root / "tmp"

    @property
    def shared_memory(self) -> Path:
        return self.root / "shm"


def find_source(folder: Path) -> Source:
    """Return the newest commit if the folder is a work tree or belongs to the repository, otherwise its files."""
    folder = folder.resolve()
    top = next((path for path in (settings.STATECORE_REPOSITORY, folder) if path and _contains(path, folder)), None)
    if top is None:
        return Source(folder)
    commit = git.run(top, "rev-parse", "--verify", "HEAD^{commit}")
    return Source(top, commit, f"{commit}^{{tree}}", os.path.relpath(folder, top.resolve()))


def _contains(work_tree: Path, folder: Path) -> bool:
    return (work_tree / ".git").exists() and folder.is_relative_to(work_tree.resolve())


@contextmanager
def create(source: Source) -> Iterator[Checkout]:
    """Create a checkout and remove it at the end; raises GitFailed, OSError and WorkerStopping."""
    remove_stale()
    root, lock = _create_root()
    try:
        files_folder = root / "files"
        borrowed = _populate(source, files_folder)
        for name in ("home", "tmp", "shm"):
            (root / name).mkdir()
        yield Checkout(root, lock, files_folder / source.inside, borrowed)
    finally:
        _remove(root)
        os.close(lock)


def remove_stale() -> None:
    """Remove the checkouts of killed runners, which no process has locked any more."""
    with _mutex():
        stale = [
            (root, lock) for root in settings.STATECORE_CHECKOUT_DIR.iterdir() if (lock := _lock(root)) is not None
        ]
    for root, lock in stale:
        _remove(root)
        os.close(lock)


@contextmanager
def _mutex() -> Iterator[None]:
    """Without it a new checkout could be removed before it is locked."""
    settings.STATECORE_CHECKOUT_DIR.mkdir(mode=0o700, parents=True, exist_ok=True)
    with files.hold_lock(settings.STATECORE_HOME / "checkouts.lock", wait=MUTEX_SECONDS):
        yield


def _create_root() -> tuple[Path, int]:
    root = Path(settings.STATECORE_CHECKOUT_DIR, new_id("run"))
    with _mutex():
        root.mkdir(mode=0o700)
        lock = _lock(root)
    if lock is None:
        raise BlockingIOError(f"{root} is locked by another process")
    return root, lock


def _lock(root: Path) -> int | None:
    lock = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(lock)
        return None
    return lock


def _populate(source: Source, target: Path) -> tuple[Path, ...]:
    """Create the files, and return the folders of objects that the checkout borrows."""
    if not source.commit:
        shutil.copytree(source.folder, target, symlinks=True)
        return ()
    paths = git.run(source.folder, "rev-parse", "--show-object-format", "--git-path", "objects").split("\n")
    objects = Path(source.folder, paths[1]).resolve()
    target.mkdir()
    git.run(target, "init", "--quiet", "--template=", "--initial-branch=main", f"--object-format={paths[0]}")
    repository = target / ".git"
    (repository / "objects" / "info").mkdir(exist_ok=True)
    (repository / "objects" / ALTERNATES).write_text(f"{objects}\n")
    (repository / "HEAD").write_text(f"{source.commit}\n")
    git.run(target, "read-tree", "--reset", "-u", source.tree)
    return tuple(_find_objects(objects))


def _find_objects(objects: Path) -> Iterator[Path]:
    yield objects
    alternates = objects / ALTERNATES
    if alternates.exists():
        for line in alternates.read_text().splitlines():
            if line and not line.startswith("#"):
                yield from _find_objects((objects / line).resolve())


def _remove(root: Path) -> None:
    """Remove a folder with `rm`: names, permissions and depths are the choice of a command."""
    _run_quietly("rm", "-rf", "--", str(root))
    if root.exists():
        _run_quietly("chmod", "-R", "u+rwX", "--", str(root))
        _run_quietly("rm", "-rf", "--", str(root))
    if root.exists():
        log.warning("checkout_not_removed", path=str(root))


def _run_quietly(*arguments: str) -> None:
    subprocess.run(arguments, check=False, capture_output=True)
