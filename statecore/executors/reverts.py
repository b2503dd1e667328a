"""Verification that a commit took the change of a patch out of the repository.

Reverting the patch once more is merged in memory: if that changes nothing, the change is gone. Line numbers,
neighbouring changes and conflicts that a person has resolved do not matter. The repository is only read.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Iterable
from functools import partial
from pathlib import Path

from django.conf import settings

from . import git
from .errors import GitFailed, RevertNotVerified

FULL_SHA = re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")


def mirror() -> Path | None:
    """Return the copy of the repository in which integrators commit and revert patches; None if executors do."""
    return settings.STATECORE_PROOF_REPOSITORY if settings.STATECORE_REPOSITORY is None else None


def verify_revert(folder: Path, branch: str, commit: str, revert: str) -> None:
    """Raise RevertNotVerified unless `revert` is on the branch and took out the change of `commit`, for good.

    Without a branch it must be on the current one.
    """
    if FULL_SHA.fullmatch(commit) is None:
        raise RevertNotVerified(f"the commit of the patch is {commit or 'unknown'}: no commit can be its revert")
    if FULL_SHA.fullmatch(revert) is None:
        raise RevertNotVerified(f"{revert or 'nothing'} is not the full id of a commit")
    branch = branch or "HEAD"
    _require_ancestor(folder, commit, revert, f"{revert} does not follow {commit}, the commit of the patch")
    _require_ancestor(folder, revert, branch, f"{revert} is not on the branch {branch}")
    try:
        # Another file with the content of a deleted one looks like its new name, which is a conflict of that file.
        # It is none if the revert adds no file.
        touched = _list_paths(folder, commit) if _adds_no_files(folder, revert) else None
        at_revert, before_revert, at_branch = _find_change(folder, commit, (revert, f"{revert}^", branch), touched)
    except GitFailed as error:
        raise RevertNotVerified(f"git could not compare {revert} with {commit}: {error}") from error
    if at_revert is not False:
        raise RevertNotVerified(f"after {revert} the change of {commit} is still there")
    if before_revert is False:
        raise RevertNotVerified(f"the change of {commit} was gone before {revert}")
    if at_branch is True:
        raise RevertNotVerified(f"the change of {commit} was made again after {revert}")


def _require_ancestor(folder: Path, older: str, newer: str, otherwise: str) -> None:
    try:
        git.run(folder, "merge-base", "--is-ancestor", older, newer)
    except GitFailed as error:
        raise RevertNotVerified(otherwise) from error


def _adds_no_files(folder: Path, commit: str) -> bool:
    return not _list_paths(folder, commit, "--diff-filter=A")


def _list_paths(folder: Path, commit: str, *options: str) -> set[str]:
    changed = ("diff-tree", "-r", "--no-renames", "--name-only", *options, f"{commit}^", commit)
    return {path for path in git.run(folder, *changed).split("\n") if path}


def _find_change(folder: Path, commit: str, revisions: Iterable[str], touched: set[str] | None) -> list[bool | None]:
    """Return for each revision whether the change of the commit is in it; None if a revert would conflict there."""
    with tempfile.TemporaryDirectory(prefix="statecore-revert-") as objects:
        existing = folder / git.run(folder, "rev-parse", "--git-path", "objects")
        # Git reads the objects of the repository and writes to the temporary directory.
        scratch = {"GIT_OBJECT_DIRECTORY": objects, "GIT_ALTERNATE_OBJECT_DIRECTORIES": str(existing.resolve())}
        run = partial(git.run, folder, extra=scratch)
        trees = run("rev-parse", *(f"{revision}^{{tree}}" for revision in revisions)).split("\n")
        base = run("commit-tree", f"{commit}^{{tree}}", "-m", "with the patch")
        without = run("commit-tree", f"{commit}^1^{{tree}}", "-p", base, "-m", "without the patch")
        return [_differs_from_revert(run, tree, base, without, touched) for tree in trees]


def _differs_from_revert(
    run: Callable[..., str], tree: str, base: str, without: str, touched: set[str] | None
) -> bool | None:
    """Conflicts of files other than the `touched` ones do not count if they leave the tree as it is."""
    here = run("commit-tree", tree, "-p", base, "-m", "here")
    merge = ("merge-tree", "--write-tree", "--name-only", "--no-messages")
    merged, *conflicts = run(*merge, here, without, accepted=(0, 1)).split("\n")
    if conflicts and touched is not None and merged == tree and touched.isdisjoint(conflicts):
        return False
    return None if conflicts else merged != tree
