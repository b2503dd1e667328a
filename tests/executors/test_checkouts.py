"""Checkouts: their content, their independence of the source, and their removal."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from statecore.executors import checkouts
from statecore.executors.checkouts import Source
from statecore.executors.repository import Repository, locked
from tests.executors.work_tree import GIT, WorkTree, diff_replacing

pytestmark = pytest.mark.once_on("postgres")


def git(folder: Path, *arguments: str) -> str:
    return subprocess.run([GIT, *arguments], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


def test_a_checkout_has_the_patched_files_on_top_of_the_base(work_tree: WorkTree) -> None:
    base = work_tree.head()
    with locked() as repository:
        tree = repository.apply(diff_replacing("two", "zwei"), base)
        with checkouts.create(Source(repository.path, base, tree)) as checkout:
            assert (checkout.folder / "hello.txt").read_text() == "one\nzwei\nthree\n"
            assert git(checkout.folder, "rev-parse", "HEAD") == base
            assert git(checkout.folder, "diff", "--cached", "--name-only") == "hello.txt"

    assert work_tree.is_clean()
    assert work_tree.read() == "one\ntwo\nthree\n"


def test_a_checkout_has_neither_hooks_nor_configuration_nor_ignored_files_of_its_source(work_tree: WorkTree) -> None:
    work_tree.write(".gitignore", "ignored\n")
    work_tree.commit("Ignore a file")
    work_tree.write("ignored", "poison")
    work_tree.git("config", "remote.origin.url", "https://user:password@example.org/shop")
    (work_tree.path / ".git/hooks/post-checkout").write_text("#!/bin/sh\ntouch hooked\n")

    with checkouts.create(checkouts.find_source(work_tree.path)) as checkout:
        assert sorted(path.name for path in checkout.folder.iterdir()) == [".git", ".gitignore", "hello.txt"]
        assert "password" not in (checkout.folder / ".git/config").read_text()
        assert not (checkout.folder / ".git/hooks").exists()


def test_a_commit_in_a_checkout_does_not_reach_its_source(work_tree: WorkTree) -> None:
    before = work_tree.git("count-objects"), work_tree.git("show-ref")

    with checkouts.create(checkouts.find_source(work_tree.path)) as checkout:
        (checkout.folder / "new.txt").write_text("new")
        git(checkout.folder, "add", "--all")
        git(checkout.folder, "-c", "user.name=Eve", "-c", "user.email=eve@example.org", "commit", "-m", "Mine")

    assert (work_tree.git("count-objects"), work_tree.git("show-ref")) == before


def test_a_checkout_of_a_repository_that_borrows_objects_lists_all_of_them(work_tree: WorkTree, tmp_path) -> None:
    borrower = tmp_path / "borrower"
    subprocess.run([GIT, "clone", "--quiet", "--shared", str(work_tree.path), str(borrower)], check=True)

    with checkouts.create(checkouts.find_source(borrower)) as checkout:
        assert checkout.borrowed == (borrower / ".git/objects", work_tree.path / ".git/objects")
        assert git(checkout.folder, "log", "--format=%s") == "The beginning"


def test_a_repository_with_longer_hashes_is_checked_out(work_tree: WorkTree, tmp_path) -> None:
    other = tmp_path / "sha256"
    subprocess.run([GIT, "init", "--quiet", "--object-format=sha256", str(other)], check=True)
    (other / "file").write_text("text")
    git(other, "add", "--all")
    git(other, "-c", "user.name=Ada", "-c", "user.email=ada@example.org", "commit", "--quiet", "-m", "Long")

    with checkouts.create(checkouts.find_source(other)) as checkout:
        assert (checkout.folder / "file").read_text() == "text"
        assert len(git(checkout.folder, "rev-parse", "HEAD")) == 64


def test_a_folder_inside_a_foreign_work_tree_is_copied(work_tree: WorkTree, settings) -> None:
    """For example `.state/gates` inside a checkout of Statecore."""
    settings.STATECORE_REPOSITORY = None
    inner = work_tree.path / "gates"
    inner.mkdir()
    (inner / "file").write_text("text")

    assert checkouts.find_source(inner) == Source(inner)
    with checkouts.create(Source(inner)) as checkout:
        assert (checkout.folder / "file").read_text() == "text"


def test_the_next_checkout_removes_those_of_killed_runners_only(work_tree: WorkTree, settings) -> None:
    left = settings.STATECORE_CHECKOUT_DIR / "run_left"
    (left / "files").mkdir(parents=True)

    with checkouts.create(Source(work_tree.path)) as one, checkouts.create(Source(work_tree.path)) as two:
        assert {path.name for path in settings.STATECORE_CHECKOUT_DIR.iterdir()} == {one.root.name, two.root.name}


def test_a_checkout_that_cannot_be_created_is_removed(work_tree: WorkTree, settings) -> None:
    with pytest.raises(FileNotFoundError), checkouts.create(Source(work_tree.path / "missing")):
        pass

    assert list(settings.STATECORE_CHECKOUT_DIR.iterdir()) == []


def test_a_diff_is_applied_without_the_work_tree(work_tree: WorkTree, settings) -> None:
    with locked() as repository:
        assert isinstance(repository, Repository)
        repository.apply(diff_replacing("two", "zwei"), work_tree.head())

    assert work_tree.is_clean()
    assert not (settings.STATECORE_HOME / "patch.index").exists()
