"""Patches from created to committed in a real repository, and every way they can fail."""

from __future__ import annotations

from datetime import timedelta

import pytest
import time_machine

from statecore.executors import command, patches, repository, sandbox
from statecore.executors.errors import RepositoryBusy
from statecore.kernel.clock import now
from tests.executors.support import (
    executing_workstream,
    gate,
    patch,
    python,
    reload,
    states_of,
)
from tests.executors.work_tree import diff_adding, diff_replacing
from tests.support import world

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]

ALL_THE_WAY = ["created", "validated", "queued", "applied", "verified", "committed"]
REFUSED = ["created", "quarantined"]


def run() -> int:
    return patches.run_due(wait=0)


def test_a_patch_becomes_a_commit(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"), title="Count in\nGerman")

    assert run() == 1

    entry = reload(entry)
    assert states_of(entry) == ALL_THE_WAY
    assert entry.commit_sha == work_tree.head()
    assert work_tree.read() == "one\nzwei\nthree\n"
    assert work_tree.is_clean()
    assert work_tree.log() == ["Count in German", "The beginning"]
    assert work_tree.git("log", "-1", "--format=%an <%ae> %cn") == "Statecore <statecore@localhost> Statecore"
    assert f"Statecore-Patch: {entry.pk}" in work_tree.git("log", "-1", "--format=%B")
    assert f"Statecore-Workstream: {entry.workstream_id}" in work_tree.git("log", "-1", "--format=%B")


def test_the_journal_records_that_no_test_is_configured(work_tree) -> None:
    entry = patch(diff_adding("new.txt"))

    run()

    verified = next(event for event in world.events_of(entry) if event["to_state"] == "verified")
    assert verified["reason"] == "no test is configured"


def test_files_are_added_renamed_and_deleted(work_tree) -> None:
    moved = "diff --git a/hello.txt b/deep/er/hello.txt\nsimilarity index 100%\n"
    moved += "rename from hello.txt\nrename to deep/er/hello.txt\n"
    for diff in (diff_adding("docs/a b.txt"), moved):
        entry = patch(diff)
        run()
        assert reload(entry).state == "committed"
    gone = patch("diff --git a/docs/a b.txt b/docs/a b.txt\ndeleted file mode 100644\n"
                 "--- a/docs/a b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n")  # fmt: skip

    run()

    assert reload(gone).state == "committed", reload(gone).last_error
    assert work_tree.git("ls-files") == "deep/er/hello.txt"


def test_patches_are_not_processed_without_a_repository(settings) -> None:
    settings.STATECORE_REPOSITORY = None
    entry = patch(diff_replacing("two", "zwei"))

    assert run() == 0

    assert reload(entry).state == "created"


SYMLINK = "diff --git a/link b/link\nnew file mode 120000\n--- /dev/null\n+++ b/link\n@@ -0,0 +1 @@\n+/etc/passwd\n"
SUBMODULE = (
    "diff --git a/sub b/sub\nnew file mode 160000\n--- /dev/null\n+++ b/sub\n"
    "@@ -0,0 +1 @@\n+Subproject commit 1111111111111111111111111111111111111111\n"
)
MODE_TO_LINK = "diff --git a/hello.txt b/hello.txt\nold mode 100644\nnew mode 120000\n"
HOOK_BY_RENAME = (
    "diff --git a/hello.txt b/.git/hooks/x\nsimilarity index 100%\nrename from hello.txt\nrename to .git/hooks/x\n"
)


@pytest.mark.parametrize(
    ("diff", "check", "reason"),
    [
        ("", "format", "empty"),
        ("just words\n", "format", "empty"),
        ("\x01\x02\x7fELF" * 50, "format", "empty"),
        ("--- a/x\n+++ b/x\n@@ -1,3 +1,3 @@\n one\n", "format", "shorter than expected"),
        ("--- a/x\n+++ b/x\n", "format", "not changed"),
        ("diff --git a/x b/x\n", "format", "not changed"),
        ("--- x\n+++ x\n@@ -1 +1 @@\n-a\n+b\n", "format", "begins with a/"),
        ('--- "a/\\303.txt"\n+++ "b/\\303.txt"\n@@ -1 +1 @@\n-a\n+b\n', "format", "begins with a/"),
        ("diff --git a/x b/x\nnew file mode 100644\nGIT binary patch\nliteral 1\nIcmZ\n", "format", "binary"),
        ("diff --git a/x b/x\nBinary files a/x and b/x differ\n", "format", "binary"),
        (diff_adding("../outside.txt"), "constraints", ".. component"),
        (diff_adding("a/../../outside.txt"), "constraints", ".. component"),
        (diff_adding("/etc/cron.d/x"), "constraints", "absolute"),
        (diff_adding(".git/config"), "constraints", "Attempted to modify .git/config"),
        (diff_adding("sub/.GIT/hooks/post-commit"), "constraints", "a file of git"),
        (diff_adding(".git. /config"), "constraints", "a file of git"),
        (diff_adding(".gitmodules"), "constraints", "a file of git"),
        (diff_adding("a\\b"), "constraints", "backslash"),
        (HOOK_BY_RENAME, "constraints", "a file of git"),
        (SYMLINK, "constraints", "120000"),
        (SUBMODULE, "constraints", "160000"),
        (MODE_TO_LINK, "constraints", "120000"),
        (diff_adding("big.txt", "x" * 1_000_001), "constraints", "1000000 are allowed"),
        ("".join(diff_adding(f"{n}.txt") for n in range(501)), "constraints", "500 are allowed"),
    ],
)
def test_an_invalid_diff_is_quarantined_with_a_reason(work_tree, diff, check, reason) -> None:
    entry = patch(diff)

    run()

    entry = reload(entry)
    assert states_of(entry) == REFUSED
    assert reason in entry.quarantine_reason
    assert entry.quarantine_metadata == {"check": check}
    assert work_tree.is_clean()
    assert work_tree.log() == ["The beginning"]


def test_a_patch_outside_the_scope_of_its_phase_is_quarantined(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    entry.phase.allowed_paths = ["docs/*"]
    entry.phase.save()

    run()

    entry = reload(entry)
    assert states_of(entry) == REFUSED
    assert entry.quarantine_metadata == {"check": "scope"}
    results = world.events_of(entry)[-1]["metadata"]["validation_results"]
    assert results == {"format": True, "scope": False, "constraints": True, "tests": False}
    assert entry.quarantine_reason == f"hello.txt is not allowed in phase {entry.phase_id}"


def test_a_changed_policy_is_checked_again(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    world.fire(entry, "validation_passed", format_passed=True, scope_passed=True, constraints_passed=True)
    entry.phase.forbidden_paths = ["hello.*"]
    entry.phase.save()

    run()

    assert states_of(entry) == ["created", "validated", "quarantined"]
    assert world.last_event(entry)["trigger"] == "policy_violated"


@pytest.mark.parametrize("diff", [diff_adding(".git/hooks/post-commit"), SYMLINK, HOOK_BY_RENAME, diff_adding("../x")])
def test_a_patch_queued_by_an_agent_is_checked_before_it_is_applied(work_tree, diff) -> None:
    entry = world.forced(patch(diff), "queued")

    run()

    assert reload(entry).state == "apply_failed"
    assert work_tree.is_clean()


def test_a_conflict_is_retried_three_times_and_then_quarantined(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    work_tree.write("hello.txt", "quite\nanother\ntext\n")
    base = work_tree.commit("Another text")
    start = now()

    for minute in range(9):
        with time_machine.travel(start + timedelta(minutes=minute), tick=False):
            run()

    entry = reload(entry)
    assert states_of(entry) == ["created", "validated", *["queued", "apply_failed"] * 4, "quarantined"]
    assert "hello.txt: patch does not apply" in entry.quarantine_reason
    assert entry.apply_retries == 3
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)


def test_a_conflict_is_not_retried_early(work_tree) -> None:
    entry = patch(diff_replacing("nowhere", "x").replace(" one", " eins"))
    with time_machine.travel(now(), tick=False):
        for _ in range(3):
            run()

    assert reload(entry).state == "apply_failed"
    assert reload(entry).apply_retries == 0


def test_a_patch_is_committed_once_its_conflict_is_resolved(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    work_tree.write("hello.txt", "quite another\n")
    work_tree.commit("Another text")
    run()
    work_tree.git("revert", "--no-edit", "HEAD")

    with time_machine.travel(now() + timedelta(minutes=1)):
        run()
        run()

    assert reload(entry).state == "committed"


CHECK_SEES_IT = "import pathlib, sys; sys.exit('zwei' not in pathlib.Path('hello.txt').read_text())"


def test_the_configured_test_command_runs_on_the_patched_tree(work_tree, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    entry = patch(diff_replacing("two", "zwei"))

    run()

    assert reload(entry).state == "committed"
    verified = next(event for event in world.events_of(entry) if event["to_state"] == "verified")
    assert len(verified["metadata"]["tests"]) == 1


def test_failing_tests_quarantine_the_patch_and_restore_the_tree(work_tree, commands, settings) -> None:
    litter = "open('litter.txt', 'w').write('x'); open('hello.txt', 'w').write('spoilt')"
    settings.STATECORE_PATCH_TEST_COMMAND = python(f"import sys; {litter}; print('3 failed'); sys.exit(1)")
    base = work_tree.head()
    entry = patch(diff_replacing("two", "zwei") + diff_adding("new.txt"))

    run()

    entry = reload(entry)
    assert states_of(entry) == [*ALL_THE_WAY[:4], "quarantined"]
    assert entry.quarantine_reason.startswith("Tests failed: ")
    assert entry.quarantine_reason.endswith("ended with exit code 1")
    assert (entry.quarantine_metadata["exit_code"], entry.quarantine_metadata["stdout"]) == (1, "3 failed\n")
    assert entry.quarantine_metadata["passed"] == []
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)
    assert sorted(file.name for file in work_tree.path.iterdir()) == [".git", "hello.txt"]


def test_files_changed_by_tests_are_not_committed(work_tree, commands, settings) -> None:
    litter = "open('litter.txt', 'w').write('x'); open('hello.txt', 'a').write('spoilt')"
    stage = "import subprocess; subprocess.run(['git', 'add', '--all'], check=True)"
    settings.STATECORE_PATCH_TEST_COMMAND = python(f"{litter}\n{stage}")
    entry = patch(diff_replacing("two", "zwei"))

    run()

    assert reload(entry).state == "committed"
    assert work_tree.git("ls-files") == "hello.txt"
    assert work_tree.read() == "one\nzwei\nthree\n"
    assert work_tree.is_clean()


def test_the_exit_gates_of_the_task_test_its_patch_in_addition(work_tree, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    entry = patch(diff_replacing("two", "zwei"))
    both = [gate(CHECK_SEES_IT).pk, gate("import sys; sys.exit(5)", expected_exit_code=5).pk]
    world.task(workstream=entry.workstream, patch=entry.pk, gates=both)

    run()

    assert reload(entry).state == "committed"
    assert len(next(e for e in world.events_of(entry) if e["to_state"] == "verified")["metadata"]["tests"]) == 3


def test_a_gate_with_a_command_that_is_not_allowed_fails_the_patch(work_tree, commands) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    world.task(workstream=entry.workstream, patch=entry.pk, gates=[world.gate(command="rm -rf /").pk])

    run()

    assert reload(entry).quarantine_reason == "Tests failed: rm -rf / ended with exit code 126"
    assert work_tree.is_clean()


def test_a_patch_with_tests_waits_while_commands_are_off(work_tree, settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    entry = patch(diff_replacing("two", "zwei"))
    world.task(workstream=entry.workstream, patch=entry.pk, gates=[gate().pk])

    assert run() == 0

    assert reload(entry).state == "queued"
    assert work_tree.is_clean()


def test_a_patch_of_a_finished_workstream_is_not_processed(work_tree) -> None:
    workstream = executing_workstream()
    entry = patch(diff_replacing("two", "zwei"), workstream=workstream)
    world.forced(workstream, "cancelled")

    run()

    assert reload(entry).state == "created"


def test_patches_are_applied_in_order_on_top_of_each_other(work_tree) -> None:
    first, second, third = (
        patch(diff_replacing("one", "eins")),
        patch(diff_replacing("two", "zwei").replace(" one", " eins")),
        patch(diff_replacing("two", "deux")),
    )

    assert run() == 2

    assert [reload(entry).state for entry in (first, second, third)] == ["committed", "committed", "apply_failed"]
    assert work_tree.read() == "eins\nzwei\nthree\n"


def test_a_run_processes_at_most_its_limit(work_tree) -> None:
    entries = [patch(diff_adding(f"{n}.txt")) for n in range(4)]

    assert patches.run_due(limit=3, wait=0) == 3

    assert [reload(entry).state for entry in entries] == ["committed"] * 3 + ["created"]


def test_git_hooks_and_user_settings_are_ignored(work_tree, monkeypatch, tmp_path) -> None:
    hook = work_tree.path / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (tmp_path / "gitconfig").write_text("[user]\n  name = Another\n[commit]\n  gpgSign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    entry = patch(diff_replacing("two", "zwei"))

    run()
    monkeypatch.delenv("GIT_DIR")

    assert reload(entry).state == "committed"
    assert not (tmp_path / "hooked").exists()


def test_foreign_changes_in_the_work_tree_are_not_touched(work_tree, caplog) -> None:
    work_tree.write("notes.txt", "mine")
    entry = patch(diff_replacing("two", "zwei"))

    assert run() == 0

    assert reload(entry).state == "queued"
    assert work_tree.read("notes.txt") == "mine"
    assert "changes that are not Statecore's: ?? notes.txt" in caplog.text


def test_a_branch_other_than_the_configured_one_is_not_changed(work_tree, settings, caplog) -> None:
    settings.STATECORE_REPOSITORY_BRANCH = "release"
    entry = patch(diff_replacing("two", "zwei"))

    assert run() == 0
    assert "the repository is on main, not on release" in caplog.text
    work_tree.git("switch", "--quiet", "--create", "release")
    assert run() == 1

    assert reload(entry).state == "committed"
    assert work_tree.git("log", "--format=%s", "main") == "The beginning"


def test_a_busy_repository_is_left_to_its_current_user(work_tree) -> None:
    entry = patch(diff_replacing("two", "zwei"))

    with repository.locked():
        assert run() == 0
        with pytest.raises(RepositoryBusy), repository.locked(wait=0.1):
            pass

    assert reload(entry).state == "queued"
    assert run() == 1


def test_gates_share_the_newest_commit_and_a_patch_waits_for_them_before_its_commit(work_tree, monkeypatch) -> None:
    monkeypatch.setattr(repository, "COMMIT_TIMEOUT", 0.0)
    entry = patch(diff_adding("new.txt"))
    with repository.without_commits(), repository.without_commits():
        assert run() == 0
    assert reload(entry).state == "verified"
    assert run() == 1
    with (
        repository.locked() as opened, opened.committing(), pytest.raises(RepositoryBusy), repository.without_commits()
    ):  # fmt: skip
        pass


def test_a_patch_forced_before_its_commit_leaves_the_tree_unchanged(work_tree, commands, settings, monkeypatch) -> None:
    base = work_tree.head()
    entry = patch(diff_replacing("two", "zwei"))
    commit = repository.Repository.commit

    def force_and_commit(opened, *given):
        world.forced(entry, "quarantined")
        return commit(opened, *given)

    monkeypatch.setattr(repository.Repository, "commit", force_and_commit)

    assert run() == 0

    assert reload(entry).state == "quarantined"
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)


def test_a_patch_that_cannot_be_committed_records_the_error_and_is_retried(work_tree, monkeypatch) -> None:
    base = work_tree.head()
    entry = patch(diff_replacing("two", "zwei"))
    locked = work_tree.path / ".git/refs/heads/main.lock"

    def lock_and_commit(opened, *given):
        locked.touch()
        return commit(opened, *given)

    commit = repository.Repository.commit
    with monkeypatch.context() as patched:
        patched.setattr(repository.Repository, "commit", lock_and_commit)
        assert run() == 0
    locked.unlink()

    assert reload(entry).state == "verified"
    assert "could not be committed" in reload(entry).last_error
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)
    assert run() == 1


def test_the_next_worker_completes_the_patch_of_a_stopped_worker(work_tree, commands, settings, monkeypatch) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    entry = patch(diff_replacing("two", "zwei"))
    monkeypatch.setattr(command, "runners", command.Runners())
    run_tests = sandbox.run

    def stopped(*given, **more):
        command.runners.stop()
        return run_tests(*given, **more)

    monkeypatch.setattr(sandbox, "run", stopped)
    assert run() == 0
    assert reload(entry).state == "applied"
    monkeypatch.undo()

    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    settings.STATECORE_REPOSITORY = work_tree.path
    assert run() == 1
    assert states_of(entry) == ALL_THE_WAY
