"""Several repositories by name, and patches that are tested at the same time and committed in order."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError

from statecore.executors import compensation, gates, patches
from statecore.executors.command_slots import CommandSlots
from statecore.kernel.refusals import Invalid
from statecore.kernel.repositories import RepositorySettings
from statecore.records import Phase
from statecore.scheduling import plans
from tests.executors.support import executing_workstream, gate, patch, python, reload, states_of
from tests.executors.test_compensation import execute, write_and_approve
from tests.executors.work_tree import WorkTree, diff_adding, diff_replacing
from tests.support import world

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]


@pytest.fixture
def docs(settings: Any, work_tree: WorkTree, tmp_path: Path) -> WorkTree:
    """A second repository beside the default one, on another branch and with another test."""
    tree = WorkTree(tmp_path / "docs")
    tree.git("switch", "--quiet", "--create", "publish")
    test = python("raise SystemExit('two' in open('hello.txt').read())")
    settings.STATECORE_REPOSITORIES = {"docs": RepositorySettings(tree.path, "publish", test)}
    return tree


def workstream_in(*repositories: str, **fields: Any) -> Any:
    phase = world.phase()
    phase.repositories = list(repositories)
    phase.save()
    return executing_workstream(run=world.run(phase=phase), **fields)


def test_a_workstream_uses_the_first_repository_of_its_phase_unless_it_names_another(docs) -> None:
    assert world.workstream().repository == "default"
    assert workstream_in("docs", "default").repository == "docs"
    assert workstream_in("docs", "default", repository="default").repository == "default"


def test_a_workstream_and_a_plan_choose_only_among_the_repositories_of_their_phase(docs) -> None:
    with pytest.raises(Invalid, match=r"must be one of default, which phase .* allows"):
        world.workstream(repository="docs")
    plan = {"phase": world.phase().pk, "workstreams": [{"id": "w", "repository": "docs", "tasks": [{"id": "t"}]}]}

    with pytest.raises(Invalid) as refusal:
        plans.submit_plan(plan, actor=world.operator())

    assert list(refusal.value.facts["errors"]) == ["workstreams[0].repository"]


@pytest.mark.parametrize("name", ["other", "../docs", "Docs"])
def test_a_phase_names_only_configured_repositories(docs, name) -> None:
    with pytest.raises(ValidationError):
        Phase(pk="p", repositories=["docs", name]).clean_fields()
    Phase(pk="p", repositories=["docs", "default"]).clean_fields()


def test_patches_gates_and_rollbacks_use_the_repository_of_their_workstream(docs, work_tree, commands) -> None:
    workstream = workstream_in("docs")
    entry = patch(diff_replacing("two", "zwei"), workstream=workstream)
    reads = gate("print(open('hello.txt').read())", workstream=workstream)
    untouched = (work_tree.head(), work_tree.log())

    assert (patches.find_due_repositories(), patches.run_due(), patches.run_due("docs")) == (["docs"], 0, 1)
    assert gates.run_gate(reads.pk)

    assert reload(reads).stdout == "one\nzwei\nthree\n\n"
    assert docs.read() == "one\nzwei\nthree\n"
    rolled_back = execute(write_and_approve(reload(entry), _plan_on("publish", reload(entry))))
    assert (rolled_back.revert_commit, docs.is_clean()) == (docs.head(), True)
    assert (work_tree.head(), work_tree.log()) == untouched


def _plan_on(branch: str, entry: Any) -> dict[str, Any]:
    revert = {"action": "git_revert", "commit_sha": entry.commit_sha, "branch": branch}
    return {"compensation_type": "git_revert", "actions": [revert]}


def test_each_repository_has_its_own_test_command(docs, commands) -> None:
    failing = patch(diff_adding("new.txt"), workstream=workstream_in("docs"))
    untested = patch(diff_adding("new.txt"))

    assert (patches.run_due("docs"), patches.run_due()) == (0, 1)

    assert (reload(failing).state, reload(untested).state) == ("quarantined", "committed")


def test_a_requested_rollback_is_due_for_its_repository_only(docs, commands) -> None:
    entry = patch(diff_replacing("two", "zwei"), workstream=workstream_in("docs"))
    patches.run_due("docs")
    write_and_approve(reload(entry), _plan_on("publish", reload(entry)))
    compensation.request(entry.pk, world.operator_with("operate_patchledger", name="cleo"), "it broke the parser")

    assert (compensation.find_due_repositories(), compensation.run_due()) == (["docs"], 0)
    assert compensation.run_due("docs") == 1


def test_a_gate_of_an_unknown_repository_waits_for_an_executor_that_has_it(docs, commands, settings, caplog) -> None:
    waiting = gate(workstream=workstream_in("docs"))
    settings.STATECORE_REPOSITORIES = {}

    assert not gates.run_gate(waiting.pk)

    assert reload(waiting).state == "PENDING"
    assert "the repository docs is not configured on this host" in caplog.text


# Patches that are tested at the same time. Each sees the files of those before it.

FAILS_FIRST_AND_HANGS_BEHIND = """
import os, time
if os.path.exists("good.txt") and os.path.exists("evil.txt"):
    time.sleep(600)
raise SystemExit(os.path.exists("evil.txt"))
"""


def test_patches_behind_a_failed_one_are_tested_again_without_it(work_tree, commands, settings) -> None:
    """The test of the second patch would hang on top of the first; it is ended when the first one has failed."""
    settings.STATECORE_PATCH_TEST_COMMAND = python(FAILS_FIRST_AND_HANGS_BEHIND)
    evil, good, last = (patch(diff_adding(f"{name}.txt")) for name in ("evil", "good", "last"))

    assert patches.run_due() == 2

    assert [reload(each).state for each in (evil, good, last)] == ["quarantined", "committed", "committed"]
    assert states_of(good) == ["created", "validated", "queued", "applied", "verified", "committed"]
    assert work_tree.git("ls-files").split() == ["good.txt", "hello.txt", "last.txt"]
    assert work_tree.log()[:2] == [f"Patch {last.patch_id}", f"Patch {good.patch_id}"]


@pytest.mark.parametrize(
    ("first_passes", "states"), [(True, ("committed", "apply_failed")), (False, ("quarantined", "committed"))]
)
def test_a_conflict_counts_only_with_a_patch_that_was_committed(
    work_tree, commands, settings, first_passes, states
) -> None:
    settings.STATECORE_PATCH_TEST_COMMAND = python(
        f"raise SystemExit('zwei' in open('hello.txt').read() and not {first_passes})"
    )
    first, second = patch(diff_replacing("two", "zwei")), patch(diff_replacing("two", "deux"))

    patches.run_due()

    assert (reload(first).state, reload(second).state) == states


def test_a_requested_rollback_comes_before_the_next_patches(work_tree, commands, settings) -> None:
    entry = patch(diff_replacing("two", "zwei"))
    patches.run_due()
    write_and_approve(reload(entry))
    settings.STATECORE_COMMANDS_AT_ONCE = 1
    compensation.request(entry.pk, world.operator_with("operate_patchledger", name="cleo"), "it broke the parser")
    waiting = [patch(diff_adding(f"{number}.txt")) for number in range(3)]

    assert patches.run_due() == 1
    assert compensation.run_due() == 1
    assert patches.run_due() == 2

    assert {reload(each).state for each in waiting} == {"committed"}


def in_thread(function: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=function)
    thread.start()
    return thread


def test_no_more_commands_than_allowed_run_at_the_same_time(settings) -> None:
    settings.STATECORE_COMMANDS_AT_ONCE = 1
    slots, order = CommandSlots(), []

    def second() -> None:
        with slots.hold():
            order.append("second")

    with slots.hold():
        waiting = in_thread(second)
        waiting.join(0.3)  # it is not finished, however long it waits
        order.append("first")
    waiting.join(10)

    assert order == ["first", "second"]
