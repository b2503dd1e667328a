"""Untrusted diffs are parsed or refused; nothing else happens."""

from __future__ import annotations

import subprocess

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from statecore.executors import diff
from statecore.executors.diff import Objection
from statecore.kernel.validation import text_error
from tests.executors.work_tree import GIT, WorkTree, diff_adding, diff_replacing

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

PIECES = st.sampled_from(
    [
        "diff --git a/x b/x",
        "diff --git a/x b/../y",
        "--- a/x",
        "+++ b/x",
        "--- /dev/null",
        "+++ /dev/null",
        "@@ -1 +1 @@",
        "@@ -1,3 +1,3 @@",
        "@@ -0,0 +1 @@",
        "@@ -1 +0,0 @@",
        "@@ -1,99999999999999999999 +1 @@",
        "+new",
        "-old",
        " same",
        "",
        "new file mode 100644",
        "new file mode 120000",
        "deleted file mode 100644",
        "old mode 100644",
        "new mode 160000",
        "rename from x",
        "rename to .git/hooks/x",
        "copy from x",
        "copy to /etc/passwd",
        "similarity index 100%",
        "index 123..456 100644",
        "index 123..456 160000",
        "GIT binary patch",
        "Binary files a/x and b/x differ",
        "\\ No newline at end of file",
        '--- "a/\\303"',
        "+++ b/x\t2026",
        "\x00",
        "\x1b[31m",
        "\u2028",
        "\r",
        "--- ",
        "+++ ",
    ]
)
DIFFS = st.lists(PIECES | st.text(max_size=20), max_size=25).map("\n".join)


def read_or_refuse(text: str) -> list[str] | None:
    try:
        return diff.read_paths(text)
    except Objection as objection:
        reason = str(objection)
    assert len(reason.splitlines()) == 1
    assert text_error(reason) is None, "the ledger stores it"
    return None


@given(DIFFS)
@example("@@ -" + "9" * 5000 + " +1 @@\n")
@example("--- a/x\n+++ b/x\n@@ -" + "9" * 5000 + " +1 @@\n-a\n+b\n")
@example("diff --git a/x b/x\nindex 1..2 100644\nnew file mode 100644\n")
@example("\\ No newline at end of file")
@example("--- a/\ud800\n+++ b/\ud800\n@@ -1 +1 @@\n-a\n+b\n")
@settings(max_examples=400, deadline=None)
def test_any_text_is_read_or_refused(text) -> None:
    for path in read_or_refuse(text) or []:
        assert not path.startswith("/")
        assert not {"", "..", ".git"} & set(path.split("/"))


@given(st.data())
@settings(max_examples=150, deadline=None)
def test_a_damaged_diff_is_read_or_refused(data) -> None:
    good = diff_replacing("two", "zwei") + diff_adding("docs/new.txt")
    at = data.draw(st.integers(0, len(good)))
    until = data.draw(st.integers(at, min(len(good), at + 10)))

    read_or_refuse(good[:at] + data.draw(st.text(max_size=8)) + good[until:])


@pytest.fixture(scope="module")
def tree(tmp_path_factory) -> WorkTree:
    return WorkTree(tmp_path_factory.mktemp("diffs") / "tree")


@given(DIFFS)
@example(diff_replacing("two", "zwei"))
@example(diff_adding("a b/c.txt") + diff_replacing("one", "eins"))
@example("diff --git a/hello.txt b/moved.txt\nrename from hello.txt\nrename to moved.txt\n")
@settings(max_examples=60, deadline=None)
def test_git_changes_only_paths_that_were_read(tree, text) -> None:
    """For every diff that we accept, git changes only paths that we have read from it."""
    if (paths := read_or_refuse(text)) is None:
        return
    seen = subprocess.run(
        [GIT, "apply", "--numstat", "-z", "-"], cwd=tree.path, input=text.encode(), capture_output=True, timeout=120
    )
    touched = {line.split("\t")[2] for line in seen.stdout.decode().split("\0") if line.count("\t") == 2}
    assert touched <= set(paths)
