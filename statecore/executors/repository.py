"""The git work tree that patches go to: one at a time, with a fixed identity, no hooks and nobody's configuration."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

from ..kernel import file_lock
from ..kernel.clock import now
from ..kernel.refusals import Refusal
from . import command
from .off import Off

GIT_SECONDS = 300
OUTPUT_LIMIT = 8_388_608  # lists of paths are read to their end
OPTIONS = (
    *("-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "core.quotePath=false"),
    *("-c", "commit.gpgSign=false", "-c", "gc.auto=0", "-c", "advice.detachedHead=false"),
)
NAME, EMAIL = "Statecore", "statecore@localhost"
IDENTITY = {f"GIT_{role}_{what}": said for role in ("AUTHOR", "COMMITTER") for what, said in
            (("NAME", NAME), ("EMAIL", EMAIL))}  # fmt: skip
ENVIRONMENT = {
    **IDENTITY,
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_TERMINAL_PROMPT": "0",
    "GIT_PAGER": "cat",
}


class Busy(Refusal):
    """Somebody else works in the repository now: ask again later."""

    code = "repository_busy"


class NotUsable(Refusal):
    """The work tree is not as it must be: not clean, or on another branch; the detail says which."""

    code = "repository_not_usable"


class GitFailed(Exception):
    """What git said when it would not."""


class Stopped(Exception):
    """The worker is asked to stop: leave everything as it is, whoever comes next puts it in order."""


@dataclass(frozen=True, slots=True)
class UnderWay:
    """What is being done to the work tree, kept in the lock file until it is done: a killed runner leaves it there."""

    repository: str
    work: str
    ledger: str
    base: str


def is_on() -> bool:
    return settings.STATECORE_REPOSITORY is not None


def place() -> Path:
    if settings.STATECORE_REPOSITORY is None:
        raise Off("patches are not applied here: STATECORE_REPOSITORY names no work tree")
    return settings.STATECORE_REPOSITORY


class Repository:
    """The work tree, while its lock is held."""

    def __init__(self, path: Path, lock: int) -> None:
        self.path, self.lock = path, lock

    def git(self, *arguments: str, feed: str = "") -> str:
        moment = f"{int(now().timestamp())} +0000"
        result = command.run(
            [_git(), *OPTIONS, "-c", f"safe.directory={self.path}", *arguments],
            folder=self.path,
            timeout=GIT_SECONDS,
            extra={**ENVIRONMENT, "GIT_AUTHOR_DATE": moment, "GIT_COMMITTER_DATE": moment},
            feed=feed,
            keep=[self.lock],
            limit=OUTPUT_LIMIT,
        )
        if result.stopped:
            raise Stopped
        if result.exit_code or result.timed_out:
            said = (result.stderr or result.stdout).strip()
            raise GitFailed(said or f"git {arguments[0]} {result.told()}")
        return result.stdout.strip("\n")

    def run(self, arguments: list[str], *, timeout: float, extra: dict[str, str] | None = None) -> command.Result:
        """A command in the work tree, which holds the lock for as long as anything of it runs."""
        result = command.run(arguments, folder=self.path, timeout=timeout, extra=extra, keep=[self.lock])
        if result.stopped:
            raise Stopped
        return result

    def check(self) -> None:
        """Whether it is what the settings say, and nobody has left anything in it."""
        wanted = settings.STATECORE_REPOSITORY_BRANCH
        try:
            self.head()
            if wanted and (branch := self.branch()) != wanted:
                raise NotUsable(f"the repository is on {branch or 'no branch'}, not on {wanted}")
            changes = self.changes()
        except GitFailed as error:
            raise NotUsable(f"the repository cannot be used: {error}") from error
        if changes:
            raise NotUsable(f"the work tree has changes that are not Statecore's: {', '.join(changes[:5])}")

    def head(self) -> str:
        return self.git("rev-parse", "--verify", "HEAD^{commit}")

    def branch(self) -> str:
        return self.git("branch", "--show-current")

    def changes(self) -> list[str]:
        """The lines of git's short status; ignored files do not count."""
        return [line for line in self.git("status", "--porcelain").split("\n") if line]

    def apply(self, diff: str) -> str:
        """Put a diff into work tree and index, and tell the tree that makes."""
        how = ("apply", "--index", "--whitespace=nowarn")
        self.git(*how, "--check", feed=diff)
        self.git(*how, feed=diff)
        return self.git("write-tree")

    def revert(self, commit: str) -> str:
        self.git("revert", "--no-commit", commit)
        return self.git("write-tree")

    def staged(self, base: str) -> dict[str, str]:
        """Every path that the index has otherwise than a commit, with the mode it would get."""
        lines = self.git("diff-index", "--cached", "--raw", "--no-renames", base).split("\n")
        changes = [line.partition("\t") for line in lines if line]
        return {path: facts.split()[1] for facts, _, path in changes}

    def commit(self, tree: str, base: str, message: str) -> str:
        """Make the tree a commit and the branch point to it, if it still points to the base: both or neither.

        The tree was written before any test ran, so that nothing a test did to the files gets in.
        """
        made = self.git("commit-tree", tree, "-p", base, "-F", "-", feed=message)
        self.git("update-ref", "-m", "statecore", "HEAD", made, base)
        return made

    def restore(self, to: str) -> None:
        """Files, index and branch as a commit has them; what was not ignored and is not in it goes."""
        self.git("reset", "--hard", "--quiet", to)
        self.git("clean", "-ffdq")

    def remove_stale_locks(self) -> None:
        """Left by a git that was killed: under our lock, and after work of ours that did not end, nobody else's."""
        branch = self.branch()
        for name in ("index.lock", "HEAD.lock", f"refs/heads/{branch}.lock"):
            Path(self.path, self.git("rev-parse", "--git-path", name)).unlink(missing_ok=True)

    def find(self, trailer: str, ledger: str, since: str = "") -> str | None:
        """The commit that carries this trailer, newest first."""
        told = f"%H %(trailers:key={trailer},valueonly,separator=%x2C)"
        where = f"{since}..HEAD" if since else "HEAD"
        lines = self.git("log", "--fixed-strings", f"--grep={trailer}: {ledger}", f"--format={told}", where)
        pairs = [line.split(" ", 1) for line in lines.split("\n") if line]
        return next((sha for sha, value in pairs if value == ledger), None)

    def under_way(self) -> UnderWay | None:
        kept = os.pread(self.lock, 65_536, 0)
        found = UnderWay(**json.loads(kept)) if kept else None
        return found if found and found.repository == str(self.path) else None

    def begin(self, work: str, ledger: str, base: str) -> None:
        note = json.dumps(asdict(UnderWay(str(self.path), work, ledger, base))).encode()
        os.ftruncate(self.lock, 0)
        os.pwrite(self.lock, note, 0)
        os.fsync(self.lock)

    def end(self) -> None:
        os.ftruncate(self.lock, 0)
        os.fsync(self.lock)


@contextmanager
def opened(*, wait: float = 0.0) -> Iterator[Repository]:
    """The repository, for us alone; Busy when others do not leave it in time.

    A second file is the turnstile: gates that run in the work tree share the lock, and while somebody waits to have
    it alone, no further gate gets in.
    """
    path = place()
    with turn("repository.turn"), turn("repository.lock", wait=wait) as lock:
        yield Repository(path, lock)


@contextmanager
def shared(folder: Path) -> Iterator[list[int]]:
    """Keep patches out while a command runs in the folder, if that is in the work tree; what keeps the lock."""
    if not is_on() or not folder.resolve().is_relative_to(place().resolve()):
        yield []
        return
    # The turnstile only to get in; the lock for as long as the command runs.
    with turn("repository.turn", shared=True):
        lock = _take("repository.lock", shared=True)
    try:
        yield [lock]
    finally:
        os.close(lock)


def _take(name: str, *, shared: bool = False, wait: float = 0.0) -> int:
    try:
        return file_lock.take(settings.STATECORE_HOME / name, shared=shared, wait=wait)
    except BlockingIOError:
        raise Busy("the repository is in use by another patch, rollback or gate") from None


@contextmanager
def turn(name: str, *, shared: bool = False, wait: float = 0.0) -> Iterator[int]:
    """One of the locks in the home; Busy when others do not let go in time."""
    lock = _take(name, shared=shared, wait=wait)
    try:
        yield lock
    finally:
        os.close(lock)


@cache
def _git() -> str:
    found = shutil.which("git")
    if found is None:
        raise NotUsable("there is no git program here")
    return found
