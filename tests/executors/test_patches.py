"""Patches: from created to committed in a real repository, and every way they may not get there."""

from __future__ import annotations

import fcntl
import os
from datetime import timedelta

import pytest
import time_machine

from statecore.executors import command, patches, repository
from statecore.executors.repository import Busy
from statecore.kernel.clock import now
from tests.executors.support import executing, fresh, gate, patch, path_of, python
from tests.executors.work_tree import adding, replacing
from tests.support import world

pytestmark = pytest.mark.django_db

ALL_THE_WAY = ["created", "validated", "queued", "applied", "verified", "committed"]
REFUSED = ["created", "quarantined"]


def run() -> int:
    return patches.run_due(wait=0)


def test_a_patch_goes_all_the_way_and_becomes_a_commit(work_tree) -> None:
    entry = patch(replacing("two", "zwei"), title="Count in\nGerman")

    assert run() == 1

    entry = fresh(entry)
    assert path_of(entry) == ALL_THE_WAY
    assert entry.commit_sha == work_tree.head()
    assert work_tree.read() == "one\nzwei\nthree\n"
    assert work_tree.is_clean()
    assert work_tree.log() == ["Count in German", "The beginning"]
    assert work_tree.git("log", "-1", "--format=%an <%ae> %cn") == "Statecore <statecore@localhost> Statecore"
    assert f"Statecore-Patch: {entry.pk}" in work_tree.git("log", "-1", "--format=%B")
    assert f"Statecore-Workstream: {entry.workstream_id}" in work_tree.git("log", "-1", "--format=%B")


def test_that_no_test_is_configured_stands_in_the_journal(work_tree) -> None:
    entry = patch(adding("new.txt"))

    run()

    verified = next(event for event in world.events_of(entry) if event["to_state"] == "verified")
    assert verified["reason"] == "no test is configured"


def test_files_come_move_and_go(work_tree) -> None:
    moved = "diff --git a/hello.txt b/deep/er/hello.txt\nsimilarity index 100%\n"
    moved += "rename from hello.txt\nrename to deep/er/hello.txt\n"
    for diff in (adding("docs/a b.txt"), moved):
        entry = patch(diff)
        run()
        assert fresh(entry).state == "committed"
    gone = patch("diff --git a/docs/a b.txt b/docs/a b.txt\ndeleted file mode 100644\n"
                 "--- a/docs/a b.txt\n+++ /dev/null\n@@ -1 +0,0 @@\n-new\n")  # fmt: skip

    run()

    assert fresh(gone).state == "committed", fresh(gone).last_error
    assert work_tree.git("ls-files") == "deep/er/hello.txt"


def test_without_a_repository_patches_are_left_alone(settings) -> None:
    settings.STATECORE_REPOSITORY = None
    entry = patch(replacing("two", "zwei"))

    assert run() == 0

    assert fresh(entry).state == "created"


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
        (adding("../outside.txt"), "constraints", "leads out"),
        (adding("a/../../outside.txt"), "constraints", "leads out"),
        (adding("/etc/cron.d/x"), "constraints", "absolute"),
        (adding(".git/config"), "constraints", "Attempted to modify .git/config"),
        (adding("sub/.GIT/hooks/post-commit"), "constraints", "git's own"),
        (adding(".git. /config"), "constraints", "git's own"),
        (adding(".gitmodules"), "constraints", "git's own"),
        (adding("a\\b"), "constraints", "backslash"),
        (HOOK_BY_RENAME, "constraints", "git's own"),
        (SYMLINK, "constraints", "120000"),
        (SUBMODULE, "constraints", "160000"),
        (MODE_TO_LINK, "constraints", "120000"),
        (adding("big.txt", "x" * 1_000_001), "constraints", "1000000 are allowed"),
        ("".join(adding(f"{n}.txt") for n in range(501)), "constraints", "500 are allowed"),
    ],
)
def test_what_is_no_proper_diff_is_quarantined_and_says_why(work_tree, diff, check, reason) -> None:
    entry = patch(diff)

    run()

    entry = fresh(entry)
    assert path_of(entry) == REFUSED
    assert reason in entry.quarantine_reason
    assert entry.quarantine_metadata == {"check": check}
    assert work_tree.is_clean()
    assert work_tree.log() == ["The beginning"]


def test_a_patch_out_of_the_scope_of_its_phase_is_quarantined(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))
    entry.phase.allowed_paths = ["docs/*"]
    entry.phase.save()

    run()

    entry = fresh(entry)
    assert path_of(entry) == REFUSED
    assert entry.quarantine_metadata == {"check": "scope"}
    assert entry.quarantine_reason == f"hello.txt is not among what phase {entry.phase_id} allows"


def test_a_policy_that_changed_since_is_asked_again(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))
    world.fire(entry, "validation_passed", format_passed=True, scope_passed=True, constraints_passed=True)
    entry.phase.forbidden_paths = ["hello.*"]
    entry.phase.save()

    run()

    assert path_of(entry) == ["created", "validated", "quarantined"]
    assert world.last_event(entry)["trigger"] == "policy_violated"


@pytest.mark.parametrize("diff", [adding(".git/hooks/post-commit"), SYMLINK, HOOK_BY_RENAME, adding("../x")])
def test_what_an_agent_says_it_checked_is_checked_before_it_is_applied(work_tree, diff) -> None:
    entry = world.forced(patch(diff), "queued")

    run()

    assert fresh(entry).state == "apply_failed"
    assert work_tree.is_clean()


def test_a_conflict_is_tried_again_three_times_and_then_quarantined(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))
    work_tree.write("hello.txt", "quite\nanother\ntext\n")
    base = work_tree.commit("Another text")
    start = now()

    for minute in range(9):
        with time_machine.travel(start + timedelta(minutes=minute), tick=False):
            run()

    entry = fresh(entry)
    assert path_of(entry) == ["created", "validated", *["queued", "apply_failed"] * 4, "quarantined"]
    assert "hello.txt: patch does not apply" in entry.quarantine_reason
    assert entry.apply_retries == 3
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)


def test_a_conflict_is_not_tried_again_before_its_time(work_tree) -> None:
    entry = patch(replacing("nowhere", "x").replace(" one", " eins"))
    with time_machine.travel(now(), tick=False):
        for _ in range(3):
            run()

    assert fresh(entry).state == "apply_failed"
    assert fresh(entry).apply_retries == 0


def test_a_conflict_that_is_gone_by_the_next_time_is_no_more(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))
    work_tree.write("hello.txt", "quite another\n")
    work_tree.commit("Another text")
    run()
    work_tree.git("revert", "--no-edit", "HEAD")

    with time_machine.travel(now() + timedelta(minutes=1)):
        run()
        run()

    assert fresh(entry).state == "committed"


CHECK_SEES_IT = "import pathlib, sys; sys.exit('zwei' not in pathlib.Path('hello.txt').read_text())"


def test_the_test_command_of_the_settings_sees_the_patch(work_tree, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    entry = patch(replacing("two", "zwei"))

    run()

    assert fresh(entry).state == "committed"
    verified = next(event for event in world.events_of(entry) if event["to_state"] == "verified")
    assert len(verified["metadata"]["tests"]) == 1


def test_failing_tests_quarantine_the_patch_and_put_the_tree_back(work_tree, commands, settings) -> None:
    litter = "open('litter.txt', 'w').write('x'); open('hello.txt', 'w').write('spoilt')"
    settings.STATECORE_PATCH_TEST_COMMAND = python(f"import sys; {litter}; print('3 failed'); sys.exit(1)")
    base = work_tree.head()
    entry = patch(replacing("two", "zwei") + adding("new.txt"))

    run()

    entry = fresh(entry)
    assert path_of(entry) == [*ALL_THE_WAY[:4], "quarantined"]
    assert entry.quarantine_reason.startswith("Tests failed: ")
    assert entry.quarantine_reason.endswith("ended with exit code 1")
    assert (entry.quarantine_metadata["exit_code"], entry.quarantine_metadata["stdout"]) == (1, "3 failed\n")
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)
    assert sorted(file.name for file in work_tree.path.iterdir()) == [".git", "hello.txt"]


def test_what_tests_do_to_the_files_does_not_get_into_the_commit(work_tree, commands, settings) -> None:
    litter = "open('litter.txt', 'w').write('x'); open('hello.txt', 'a').write('spoilt')"
    stage = "import subprocess; subprocess.run(['git', 'add', '--all'], check=True)"
    settings.STATECORE_PATCH_TEST_COMMAND = python(f"{litter}\n{stage}")
    entry = patch(replacing("two", "zwei"))

    run()

    assert fresh(entry).state == "committed"
    assert work_tree.git("ls-files") == "hello.txt"
    assert work_tree.read() == "one\nzwei\nthree\n"
    assert work_tree.is_clean()


def test_the_exit_gates_of_the_task_are_the_tests_of_its_patch(work_tree, commands, settings) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python("import sys; sys.exit(9)")
    entry = patch(replacing("two", "zwei"))
    both = [gate(CHECK_SEES_IT).pk, gate("import sys; sys.exit(5)", expected_exit_code=5).pk]
    world.task(workstream=entry.workstream, patch=entry.pk, gates=both)

    run()

    assert fresh(entry).state == "committed"
    assert len(next(e for e in world.events_of(entry) if e["to_state"] == "verified")["metadata"]["tests"]) == 2


def test_a_gate_with_a_command_that_is_not_allowed_fails_the_patch(work_tree, commands) -> None:
    entry = patch(replacing("two", "zwei"))
    world.task(workstream=entry.workstream, patch=entry.pk, gates=[world.gate(command="rm -rf /").pk])

    run()

    assert fresh(entry).quarantine_reason == "Tests failed: rm -rf / ended with exit code 126"
    assert work_tree.is_clean()


def test_a_patch_with_tests_waits_while_commands_are_off(work_tree, settings) -> None:
    settings.STATECORE_GATE_COMMANDS = ()
    entry = patch(replacing("two", "zwei"))
    world.task(workstream=entry.workstream, patch=entry.pk, gates=[gate().pk])

    assert run() == 0

    assert fresh(entry).state == "queued"
    assert work_tree.is_clean()


def test_a_patch_of_a_workstream_that_has_ended_is_left_alone(work_tree) -> None:
    workstream = executing()
    entry = patch(replacing("two", "zwei"), workstream=workstream)
    world.forced(workstream, "cancelled")

    run()

    assert fresh(entry).state == "created"


def test_patches_are_taken_in_turn_and_each_sees_the_one_before(work_tree) -> None:
    first, second, third = (
        patch(replacing("one", "eins")),
        patch(replacing("two", "zwei").replace(" one", " eins")),
        patch(replacing("two", "deux")),
    )

    assert run() == 2

    assert [fresh(entry).state for entry in (first, second, third)] == ["committed", "committed", "apply_failed"]
    assert work_tree.read() == "eins\nzwei\nthree\n"


def test_what_is_due_is_bounded(work_tree) -> None:
    entries = [patch(adding(f"{n}.txt")) for n in range(4)]

    assert patches.run_due(limit=3, wait=0) == 3

    assert [fresh(entry).state for entry in entries] == ["committed"] * 3 + ["created"]


def test_hooks_and_foreign_settings_play_no_part(work_tree, monkeypatch, tmp_path) -> None:
    hook = work_tree.path / ".git" / "hooks" / "reference-transaction"
    hook.write_text(f"#!/bin/sh\ntouch {tmp_path}/hooked\n")
    hook.chmod(0o755)
    (tmp_path / "gitconfig").write_text("[user]\n  name = Somebody\n[commit]\n  gpgSign = true\n")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    monkeypatch.setenv("GIT_DIR", "/nowhere")
    entry = patch(replacing("two", "zwei"))

    run()
    monkeypatch.delenv("GIT_DIR")

    assert fresh(entry).state == "committed"
    assert not (tmp_path / "hooked").exists()


def test_changes_of_somebody_else_are_not_touched(work_tree, caplog) -> None:
    work_tree.write("notes.txt", "mine")
    entry = patch(replacing("two", "zwei"))

    assert run() == 0

    assert fresh(entry).state == "queued"
    assert work_tree.read("notes.txt") == "mine"
    assert "changes that are not Statecore's: ?? notes.txt" in caplog.text


def test_another_branch_than_the_configured_one_is_not_touched(work_tree, settings, caplog) -> None:
    settings.STATECORE_REPOSITORY_BRANCH = "release"
    entry = patch(replacing("two", "zwei"))

    assert run() == 0
    assert "the repository is on main, not on release" in caplog.text
    work_tree.git("switch", "--quiet", "--create", "release")
    assert run() == 1

    assert fresh(entry).state == "committed"
    assert work_tree.git("log", "--format=%s", "main") == "The beginning"


def test_a_repository_in_use_is_left_to_whoever_has_it(work_tree) -> None:
    entry = patch(replacing("two", "zwei"))

    with repository.opened():
        assert run() == 0
        with pytest.raises(Busy), repository.opened(wait=0.1):
            pass

    assert fresh(entry).state == "queued"
    assert run() == 1


def test_gates_share_the_work_tree_and_patches_have_it_alone(work_tree) -> None:
    with repository.shared(work_tree.path) as one, repository.shared(work_tree.path / ".git") as two:
        assert len(one) == len(two) == 1
        with pytest.raises(Busy), repository.opened():
            pass
    with repository.opened(), pytest.raises(Busy), repository.shared(work_tree.path):
        pass
    with repository.opened(), repository.shared(work_tree.path.parent) as elsewhere:
        assert elsewhere == []


def test_nobody_gets_in_before_a_patch_that_waits(work_tree, settings) -> None:
    turn = os.open(settings.STATECORE_HOME / "repository.turn", os.O_RDWR | os.O_CREAT)
    fcntl.flock(turn, fcntl.LOCK_EX)

    with pytest.raises(Busy), repository.shared(work_tree.path):
        pass
    os.close(turn)


def test_a_patch_that_was_moved_meanwhile_leaves_nothing_in_the_tree(
    work_tree, commands, settings, monkeypatch
) -> None:
    base = work_tree.head()
    entry = patch(replacing("two", "zwei"))
    commit = repository.Repository.commit

    def forced_meanwhile(opened, *given):
        world.forced(entry, "quarantined")
        return commit(opened, *given)

    monkeypatch.setattr(repository.Repository, "commit", forced_meanwhile)

    assert run() == 0

    assert fresh(entry).state == "quarantined"
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)


def test_a_verified_patch_that_cannot_be_committed_says_why_and_is_tried_again(work_tree, monkeypatch) -> None:
    base = work_tree.head()
    entry = patch(replacing("two", "zwei"))
    locked = work_tree.path / ".git/refs/heads/main.lock"

    def locked_by_somebody(opened, *given):
        locked.touch()
        return commit(opened, *given)

    commit = repository.Repository.commit
    with monkeypatch.context() as patched:
        patched.setattr(repository.Repository, "commit", locked_by_somebody)
        assert run() == 0
    locked.unlink()

    assert fresh(entry).state == "verified"
    assert "could not be committed" in fresh(entry).last_error
    assert (work_tree.head(), work_tree.is_clean()) == (base, True)
    assert run() == 1


def test_a_stopped_worker_leaves_the_patch_to_the_next(work_tree, commands, settings, monkeypatch) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    entry = patch(replacing("two", "zwei"))
    monkeypatch.setattr(command, "runners", command.Runners())
    run_tests = repository.Repository.run

    def stopped(opened, *given, **more):
        command.runners.stop()
        return run_tests(opened, *given, **more)

    monkeypatch.setattr(repository.Repository, "run", stopped)
    assert run() == 0
    assert fresh(entry).state == "applied"
    monkeypatch.undo()

    settings.STATECORE_PATCH_TEST_COMMAND = python(CHECK_SEES_IT)
    settings.STATECORE_REPOSITORY = work_tree.path
    assert run() == 1
    assert path_of(entry) == ALL_THE_WAY
