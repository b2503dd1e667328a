"""The git repositories that patches are committed to. No test touches them: tests run in checkouts.

One runner at a time processes the patches and rollbacks of a repository. Gates read its newest commit meanwhile; only
while a commit is made and recorded they wait.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

from django.conf import settings

from ..kernel import repositories
from ..kernel.repositories import DEFAULT, RepositorySettings
from ..storage import files
from . import git
from .errors import GitFailed, NotEnabled, RepositoryBusy, RepositoryNotUsable

# Seconds to wait for gates that read the newest commit, or for the commit that is being made.
COMMIT_TIMEOUT = 30.0


@dataclass(frozen=True, slots=True)
class UnfinishedWork:
    """The current work on the work tree, stored in the lock file until it ends; a killed runner leaves it there."""

    repository: str
    work: str
    ledger: str
    base: str


def is_enabled() -> bool:
    return bool(repositories.get_all())


def get_settings(name: str) -> RepositorySettings:
    known = repositories.get_all()
    if not known:
        raise NotEnabled("patches are disabled: STATECORE_REPOSITORY is not set")
    if name not in known:
        raise NotEnabled(f"the repository {name} is not configured on this host: see STATECORE_REPOSITORIES")
    return known[name]


class Repository:
    """A work tree. Every instance holds its lock."""

    def __init__(self, name: str, configured: RepositorySettings, lock: int) -> None:
        self.name, self.path, self.wanted_branch, self.lock = name, configured.path, configured.branch, lock
        # Descriptors that git inherits, so that no lock is released before git has ended.
        self.kept = [lock]

    def git(self, *arguments: str, feed: str = "", extra: dict[str, str] | None = None) -> str:
        """Run git and return its output; raises GitFailed and WorkerStopping."""
        return git.run(self.path, *arguments, feed=feed, keep=self.kept, extra=extra)

    def check(self) -> None:
        """Raise RepositoryNotUsable unless the work tree is clean and on the configured branch."""
        wanted = self.wanted_branch
        try:
            self.head()  # fails without a commit
            if wanted and (branch := self.branch()) != wanted:
                raise RepositoryNotUsable(f"the repository is on {branch or 'no branch'}, not on {wanted}")
            changes = self.changes()
        except GitFailed as error:
            raise RepositoryNotUsable(f"the repository cannot be used: {error}") from error
        if changes:
            raise RepositoryNotUsable(f"the work tree has changes that are not Statecore's: {', '.join(changes[:5])}")

    def head(self) -> str:
        return self.git("rev-parse", "--verify", "HEAD^{commit}")

    def branch(self) -> str:
        return self.git("branch", "--show-current")

    def changes(self) -> list[str]:
        """Return the lines of `git status --porcelain`, which excludes ignored files."""
        return [line for line in self.git("status", "--porcelain").split("\n") if line]

    def apply(self, diff: str, base: str) -> str:
        """Apply a diff to a commit or tree and return the resulting tree; the work tree and its index do not change."""
        index = settings.STATECORE_HOME / _file_name("patch", self.name, "index")
        index.unlink(missing_ok=True)
        scratch = {"GIT_INDEX_FILE": str(index)}
        try:
            self.git("read-tree", base, extra=scratch)
            self.git("apply", "--cached", "--whitespace=nowarn", feed=diff, extra=scratch)
            return self.git("write-tree", extra=scratch)
        finally:
            index.unlink(missing_ok=True)

    def revert(self, commit: str) -> str:
        self.git("revert", "--no-commit", commit)
        return self.git("write-tree")

    def changed_modes(self, base: str, tree: str) -> dict[str, str]:
        """Return the new mode of every path in which a tree differs from a commit or another tree."""
        lines = self.git("diff-tree", "-r", "--raw", "--no-renames", base, tree).split("\n")
        changes = [line.partition("\t") for line in lines if line]
        return {path: facts.split()[1] for facts, _, path in changes}

    @contextmanager
    def committing(self) -> Iterator[None]:
        """Make gates wait until a commit is recorded or undone."""
        with hold_lock(_file_name("commits", self.name), wait=COMMIT_TIMEOUT) as lock:
            self.kept.append(lock)
            try:
                yield
            finally:
                self.kept.remove(lock)

    def commit(self, tree: str, base: str, message: str) -> str:
        """Commit the tree, move the work tree to the commit and return it.

        Raises GitFailed, also if the branch is no longer at the base; the caller then restores the base.
        """
        commit = self.git("commit-tree", tree, "-p", base, "-F", "-", feed=message)
        self.git("update-ref", "-m", "statecore", "HEAD", commit, base)
        self.restore(commit)
        return commit

    def restore(self, to: str) -> None:
        """Reset files, index and branch to a commit, and delete other files unless they are ignored."""
        self.git("reset", "--hard", "--quiet", to)
        self.git("clean", "-ffdq")

    def remove_stale_locks(self) -> None:
        """Remove the lock files of a killed git. Our lock is held, so no other git runs here."""
        branch = self.branch()
        for name in ("index.lock", "HEAD.lock", f"refs/heads/{branch}.lock"):
            Path(self.path, self.git("rev-parse", "--git-path", name)).unlink(missing_ok=True)

    def find_commit(self, trailer: str, ledger: str, since: str = "") -> str | None:
        """Return the newest commit with this trailer."""
        line_format = f"%H %(trailers:key={trailer},valueonly,separator=%x2C)"
        revisions = f"{since}..HEAD" if since else "HEAD"
        lines = self.git("log", "--fixed-strings", f"--grep={trailer}: {ledger}", f"--format={line_format}", revisions)
        pairs = [line.split(" ", 1) for line in lines.split("\n") if line]
        return next((sha for sha, value in pairs if value == ledger), None)

    def read_unfinished(self) -> UnfinishedWork | None:
        stored = os.pread(self.lock, 65_536, 0)
        found = UnfinishedWork(**json.loads(stored)) if stored else None
        return found if found and found.repository == str(self.path) else None

    def begin(self, work: str, ledger: str, base: str) -> None:
        """Store the work in the lock file until `end`."""
        note = json.dumps(asdict(UnfinishedWork(str(self.path), work, ledger, base))).encode()
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, note, 0)
        os.fsync(self.lock)

    def end(self) -> None:
        os.ftruncate(self.lock, 0)
        os.fsync(self.lock)


def _file_name(noun: str, name: str, suffix: str = "lock") -> str:
    return f"{noun}.{suffix}" if name == DEFAULT else f"{noun}-{name}.{suffix}"


@contextmanager
def locked(name: str = DEFAULT, *, wait: float = 0.0) -> Iterator[Repository]:
    """Lock a repository exclusively; raises RepositoryBusy if others hold it for longer than `wait`, and NotEnabled."""
    configured = get_settings(name)
    with hold_lock(_file_name("repository", name), wait=wait) as lock:
        yield Repository(name, configured, lock)


@contextmanager
def without_commits(name: str = DEFAULT) -> Iterator[None]:
    """Keep the newest commit of a repository; raises RepositoryBusy if a commit is being made for too long."""
    with hold_lock(_file_name("commits", name), shared=True, wait=COMMIT_TIMEOUT):
        yield


@contextmanager
def hold_lock(name: str, *, shared: bool = False, wait: float = 0.0) -> Iterator[int]:
    """Hold a lock file of STATECORE_HOME; raises RepositoryBusy if others hold it for longer than `wait`."""
    try:
        lock = files.take_lock(settings.STATECORE_HOME / name, shared=shared, wait=wait)
    except BlockingIOError:
        raise RepositoryBusy("the repository is in use by another patch, rollback or gate") from None
    try:
        yield lock
    finally:
        os.close(lock)
