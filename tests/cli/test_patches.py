"""A real repository through a failed patch, its repair, commits, a regression, its search and the rollback."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from statecore import transitions
from statecore.api.claims import ClaimFields, claim_once
from statecore.executors import compensation, compensation_plan, gates, patches
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.task import Task
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.scheduling import register, submit_plan
from statecore_client.cli.main import main
from tests.executors.support import executing_workstream, gate, python, reload
from tests.executors.work_tree import WorkTree, diff_adding
from tests.support import site as sites
from tests.support import world
from tests.support.world import AGENT

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.django_db(transaction=True)]

# The test that every patch must pass, and a gate that notices what this test overlooks.
TEST = "import os; raise SystemExit(os.path.exists('typo.txt'))"
GATE = "import os; raise SystemExit(os.path.exists('leak.txt'))"
# Before the patch that adds the till it fails too.
GATE_OF_TILL = "import os; raise SystemExit(os.path.exists('leak.txt') or not os.path.exists('till.txt'))"
NEVER = "raise SystemExit(1)"


@pytest.fixture
def shop(settings: Any, tmp_path: Path) -> WorkTree:
    tree = WorkTree(tmp_path / "shop")
    settings.STATECORE_REPOSITORY = settings.STATECORE_GATE_FOLDER = tree.path
    settings.STATECORE_HOME = tmp_path / "home"
    settings.STATECORE_HOME.mkdir()
    settings.STATECORE_CHECKOUT_DIR = settings.STATECORE_HOME / "checkouts"
    settings.STATECORE_GATE_COMMANDS = (sys.executable,)
    settings.STATECORE_PATCH_TEST_COMMAND = python(TEST)
    return tree


class Commands:
    """Runs `statecore` in this process, which is cheaper than a process for each command."""

    def __init__(self, capsys: pytest.CaptureFixture[str], folder: Path) -> None:
        self.capsys, self.folder = capsys, folder

    def __call__(self, *words: str, code: int = 0) -> str:
        ended = main(words)
        printed = self.capsys.readouterr()
        assert ended == code, printed.err
        return printed.out + printed.err

    def hand_in(self, name: str, *words: str) -> PatchLedger:
        (self.folder / "diff").write_text(diff_adding(f"{name}.txt"))
        entry = json.loads(self("patch", str(self.folder / "diff"), "--title", f"Add {name}", "--json", *words))
        patches.run_due()
        return PatchLedger.objects.get(pk=entry["id"])


@pytest.fixture
def statecore(live_server: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys) -> Commands:
    """The server runs in a thread, so that it shares the settings of the test."""
    monkeypatch.setenv("STATECORE_URL", live_server.url)
    monkeypatch.setenv("STATECORE_TOKEN", sites.token("override"))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return Commands(capsys, tmp_path)


def attempt(statecore: Commands, name: str) -> dict[str, Any]:
    """Claim the task, hand in a patch, which the executors test, and report; return the claimed task."""
    (claimed,) = claim_once("w1", ClaimFields(), AGENT)["tasks"]
    statecore.hand_in(name, "--task", "t")
    world.fire(Task.objects.get(pk="t"), "execution_completed", actor=AGENT, attempt=claimed["attempt"], exit_code=0)
    return dict(claimed)


def test_a_patch_fails_is_repaired_and_committed_and_a_regression_is_found_and_rolled_back(
    statecore: Commands, shop: WorkTree, tmp_path: Path
) -> None:
    tasks = [{"id": "t", "max_repairs": 1}, {"id": "open", "required_capabilities": ["people"]}]
    plan = {"phase": world.phase().pk, "start": True, "workstreams": [{"id": "w", "tasks": tasks}]}
    submit_plan(plan, actor=world.operator())
    register(Worker, actor=AGENT, id="w1")

    # A patch fails its tests. The task is given out again with their result, and its next patch is committed.
    assert attempt(statecore, "typo")["previous"] is None
    failed = PatchLedger.objects.get()
    assert (failed.state, Task.objects.get(pk="t").state) == ("quarantined", "queued")
    assert attempt(statecore, "tyre")["previous"]["patch"] == failed.pk
    assert (reload(failed).state, Task.objects.get(pk="t").state) == ("dropped", "completed")

    # Later patches pass their tests, and one of them breaks a gate.
    later = {name: statecore.hand_in(name, "--workstream", "w") for name in ("till", "leak", "door", "wall")}
    assert {entry.state for entry in later.values()} == {"committed"}
    broken = gate(GATE, workstream=failed.workstream)
    gates.run_gate(broken.pk)
    search = ("find-regression", "w", "--repository", str(shop.path))
    assert f"patch {later['leak'].pk} broke it" in statecore(*search)
    assert f"patch {later['leak'].pk} broke it" in statecore(*search, "--gate", gate(GATE_OF_TILL).pk)
    assert "none broke it" in statecore(*search, "--gate", gate(NEVER).pk, code=1)

    # It is rolled back by its plan, and the search finds nothing any more.
    document = tmp_path / "plan.json"
    statecore("compensation", later["leak"].pk, "--output", str(document))
    Draft202012Validator(compensation_plan.json_schema()).validate(json.loads(document.read_text()))
    assert "is a valid plan" in statecore("compensation", later["leak"].pk, "--validate", str(document))
    assert reload(later["leak"]).compensation_plan == {}
    document.write_text(
        json.dumps({**json.loads(document.read_text()), "validation": {"required_gates": [broken.gate_type]}})
    )
    statecore("compensation", later["leak"].pk, "--store", str(document))
    compensation.approve(later["leak"].pk, world.operator("bob"))
    compensation.request(later["leak"].pk, world.operator_with("operate_patchledger", name="cleo"), "it leaks")
    assert compensation.run_due() == 1
    assert reload(later["leak"]).state == "rolled_back"
    assert shop.git("ls-files").split() == ["door.txt", "hello.txt", "till.txt", "tyre.txt", "wall.txt"]
    assert "there is no regression" in statecore(*search, "--gate", broken.pk, code=1)


def test_a_quarantined_patch_is_analysed_and_replaced_in_the_next_workstream(
    statecore: Commands, shop: WorkTree, tmp_path: Path
) -> None:
    # A patch fails its tests. Its workstream fails with it and is retried.
    failed = statecore.hand_in("typo", "--workstream", executing_workstream().pk)
    assert (failed.state, reload(failed.workstream).state) == ("quarantined", "failed")
    assert failed.pk in statecore("quarantine")
    analysis = statecore("quarantine", failed.pk)
    for part in ("Tests failed", "failed exit_code", "typo.txt", "tests_failed", "Add typo"):
        assert part in analysis
    transitions.retry(Workstream, failed.workstream_id, actor=world.operator())

    # Its replacement is linked to it and committed in the successor of the workstream.
    replacement = statecore.hand_in("tyre", "--based-on", failed.pk)
    assert (reload(failed).state, replacement.state, replacement.retry_of_id) == ("dropped", "committed", failed.pk)
    assert replacement.workstream.retry_of_id == failed.workstream_id
    again = ("patch", str(tmp_path / "diff"), "--based-on", failed.pk)
    assert "must be a quarantined patch" in statecore(*again, code=6)


def test_commands_about_patches_explain_what_is_missing(statecore: Commands, shop: WorkTree, tmp_path: Path) -> None:
    entry, nothing = world.patch(), str(tmp_path / "nothing")
    (tmp_path / "words").write_text("no plan")

    assert "--task, --workstream or --based-on" in statecore("patch", nothing, code=2)
    assert "cannot be read: No such file" in statecore("patch", nothing, "--task", "t", code=6)
    assert "was never quarantined" in statecore("quarantine", entry.pk, code=3)
    assert "is not JSON" in statecore("compensation", entry.pk, "--store", str(tmp_path / "words"), code=6)
    search = ("find-regression", entry.workstream_id, "--repository", str(shop.path))
    assert "failed gates of" in statecore(*search, code=2)
    assert "no commit of a patch" in statecore(*search, "--gate", gate(GATE).pk, code=5)
