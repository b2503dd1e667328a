"""`rolled_back` means that the change of the patch is out of the repository, however the state is reached."""

from __future__ import annotations

import pytest

from statecore import transitions
from statecore.executors import compensation, patches, repository, reverts
from statecore.executors.errors import RevertNotVerified, RollbackFailed
from statecore.executors.rollback import steps_of
from statecore.kernel import registry
from statecore.kernel.refusals import GuardFailed, Invalid, PermissionDenied
from tests.executors.support import patch, reload
from tests.executors.work_tree import HELLO, diff_replacing
from tests.machines import worlds
from tests.support import world

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db]

REASON = "regression in counting"
MANUAL = {"compensation_type": "manual_fix", "actions": []}


@pytest.fixture
def committed(work_tree):
    entry = patch(diff_replacing("two", "zwei"))
    patches.run_due(wait=0)
    return reload(entry)


def approve(entry, plan=None):
    plan = plan or compensation.default_plan(reload(entry))
    compensation.write_plan(entry.pk, plan, world.operator("ada"))
    compensation.approve(entry.pk, world.operator("bob"))
    return entry


def execute(entry, revert_commit=""):
    return compensation.execute(entry.pk, world.operator("cleo"), REASON, revert_commit=revert_commit, wait=0)


def request(entry, revert_commit=""):
    return compensation.request(entry.pk, world.operator("cleo"), REASON, revert_commit=revert_commit)


def revert_by_hand(work_tree, content=HELLO):
    work_tree.write("hello.txt", content)
    return work_tree.commit("Take it back")


def test_an_approved_plan_that_was_not_executed_rolls_nothing_back(committed, work_tree) -> None:
    approve(committed)

    with pytest.raises(GuardFailed, match="the compensation plan was not executed"):
        world.fire(committed, "rollback_requested", actor=world.operator(), error=REASON)
    with pytest.raises(GuardFailed, match="rolled back by executing its compensation plan"):
        world.forced(committed, "rolled_back")

    assert (reload(committed).state, "zwei" in work_tree.read()) == ("committed", True)


@pytest.mark.usefixtures("machines_in_isolation")
def test_no_state_of_a_patch_can_be_forced_to_rolled_back() -> None:
    flow = registry.flow("patch_ledger")
    with worlds.fixed_clock() as clock:
        for state in sorted(set(flow.states) - {"rolled_back"}):
            entry = worlds.bring_to(flow, state, clock)
            with pytest.raises(GuardFailed, match="cannot be forced to rolled_back"):
                transitions.override(
                    type(entry), entry.pk, "rolled_back",
                    actor=world.operator(), reason=REASON, category="emergency",
                )  # fmt: skip


def test_an_executed_plan_records_the_verified_commit_with_critical_severity(committed, work_tree) -> None:
    rolled_back = execute(approve(committed))

    assert (rolled_back.state, rolled_back.revert_commit) == ("rolled_back", work_tree.head())
    assert steps_of(committed.pk).get(action="verify_revert").ok
    event = world.last_event(committed)
    assert (event["severity"], event["operator"]) == ("critical", "cleo")
    assert event["metadata"]["revert_commit"] == work_tree.head()


def test_a_plan_that_reverts_nothing_needs_the_commit_of_a_person(committed, work_tree) -> None:
    approve(committed, MANUAL)
    with pytest.raises(Invalid, match="the plan does not revert the commit"):
        request(committed)
    with pytest.raises(RollbackFailed, match="does not follow"):
        execute(committed, work_tree.git("rev-parse", "HEAD^"))

    revert = revert_by_hand(work_tree)

    assert execute(committed, revert).revert_commit == revert


def test_a_trailer_alone_is_no_revert(committed, work_tree) -> None:
    work_tree.write("other.txt", "anything")
    work_tree.commit(f"Unrelated\n\nStatecore-Rollback: {committed.pk}")

    with pytest.raises(RollbackFailed, match="is still there"):
        execute(approve(committed))

    assert (reload(committed).state, reload(committed).revert_commit) == ("committed", "")


def test_a_patch_that_was_reverted_already_needs_that_commit(committed, work_tree) -> None:
    revert = revert_by_hand(work_tree)
    approve(committed)

    with pytest.raises(RollbackFailed, match="it was reverted already: request the rollback with the commit"):
        execute(committed)

    assert execute(committed, revert).revert_commit == revert


# Without executors


@pytest.fixture
def mirror(committed, work_tree, settings):
    settings.STATECORE_REPOSITORY, settings.STATECORE_PROOF_REPOSITORY = None, work_tree.path
    return work_tree


def test_without_executors_the_reverting_commit_is_proof(committed, mirror) -> None:
    approve(committed)
    with pytest.raises(Invalid, match="no executor carries out the plan"):
        request(committed)
    revert = revert_by_hand(mirror)

    request(committed, revert)

    assert (reload(committed).state, reload(committed).revert_commit) == ("rolled_back", revert)
    assert [step.action for step in steps_of(committed.pk)][2:] == ["requested", "verify_revert", "rolled_back"]
    assert world.last_event(committed)["severity"] == "critical"


def test_a_commit_that_proves_nothing_leaves_the_patch_committed(committed, mirror) -> None:
    approve(committed)
    mirror.write("hello.txt", "one\nzwei\nthree\none\nthree\n")  # the context of the change occurs a second time
    unrelated = mirror.commit("Unrelated")
    mirror.git("switch", "--quiet", "--create", "side")
    elsewhere = revert_by_hand(mirror)
    mirror.git("switch", "--quiet", "main")
    attempts = {
        "HEAD": "is not the full id of a commit",
        "--all": "is not the full id of a commit",
        "0" * 40: "does not follow",
        committed.commit_sha: "is still there",
        unrelated: "is still there",
        elsewhere: "is not on the branch",
    }

    for revert, why in attempts.items():
        with pytest.raises(RevertNotVerified, match=why):
            request(committed, revert)

    assert reload(committed).state == "committed"
    assert [step.action for step in steps_of(committed.pk)] == ["plan_written", "plan_approved"]


def test_a_revert_that_was_undone_is_no_proof(committed, mirror) -> None:
    approve(committed)
    revert = revert_by_hand(mirror)
    later = revert_by_hand(mirror, "one\ntwo\nthree\nfour\n")
    with pytest.raises(RevertNotVerified, match=f"was gone before {later}"):
        request(committed, later)
    revert_by_hand(mirror, "one\nzwei\nthree\nfour\n")

    with pytest.raises(RevertNotVerified, match="was made again after"):
        request(committed, revert)


def test_a_revert_with_resolved_conflicts_and_later_changes_is_proof(committed, mirror) -> None:
    approve(committed)
    revert_by_hand(mirror, "one\nZWEI\nthree\n")  # changes the same line
    revert = revert_by_hand(mirror, "one\ntwo\nthree\n")
    revert_by_hand(mirror, "one\ntoo\nthree\n")

    request(committed, revert)

    assert reload(committed).revert_commit == revert


def test_without_a_repository_a_request_waits_for_an_executor(committed, mirror, settings) -> None:
    settings.STATECORE_PROOF_REPOSITORY = None
    approve(committed)

    request(committed, revert_by_hand(mirror))

    assert (reload(committed).state, len(compensation.find_due())) == ("committed", 1)


def test_verification_only_reads_the_repository(committed, mirror) -> None:
    revert = revert_by_hand(mirror)
    objects = sorted(each.name for each in (mirror.path / ".git/objects").rglob("*"))

    reverts.verify_revert(mirror.path, "main", committed.commit_sha, revert)

    assert sorted(each.name for each in (mirror.path / ".git/objects").rglob("*")) == objects
    assert not repository.is_enabled()


def test_an_agent_proves_nothing(committed, mirror) -> None:
    approve(committed)
    revert = revert_by_hand(mirror)

    with pytest.raises(PermissionDenied):
        compensation.request(committed.pk, world.AGENT, REASON, revert_commit=revert)


def test_a_deleted_file_beside_its_copy_does_not_raise(mirror) -> None:
    """Git takes a file that was added later for the deleted one under a new name."""
    mirror.write("leak.txt", "new\n")
    added = mirror.commit("Add a file")
    mirror.write("wall.txt", "new\n")
    mirror.commit("Add another file with the same content")
    (mirror.path / "leak.txt").unlink()
    deleted = mirror.commit("Delete the file")

    reverts.verify_revert(mirror.path, "main", added, deleted)


def test_a_renamed_file_is_not_reverted(mirror) -> None:
    mirror.write("leak.txt", "new\n")
    added = mirror.commit("Add a file")
    mirror.git("mv", "leak.txt", "leek.txt")
    renamed = mirror.commit("Rename the file")

    with pytest.raises(RevertNotVerified, match="is still there"):
        reverts.verify_revert(mirror.path, "main", added, renamed)
