"""A patch is accepted only if its phase allows every path that it touches."""

import pytest

from statecore import transitions
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.refusals import GuardFailed
from statecore.machines.patch_ledger import PatchLedger
from statecore.records import Patch, Phase
from tests.support import world

DIFF = """\
--- a/core/engine.py
+++ b/core/engine.py
@@ -1 +1 @@
-old
+new
--- /dev/null
+++ b/docs/new page.md\t2026-01-01
@@ -0,0 +1 @@
+text
"""


def test_a_patch_names_every_path_it_touches() -> None:
    assert Patch(diff=DIFF).touched_paths() == ["core/engine.py", "docs/new page.md"]


@pytest.mark.parametrize(
    ("diff", "touched"),
    [
        ("diff --git a/old b/new\nsimilarity index 100%\nrename from old\nrename to new\n", ["new", "old"]),
        ("diff --git a/it b/a copy\nsimilarity index 100%\ncopy from it\ncopy to a copy\n", ["a copy", "it"]),
        ("diff --git a/bin/run b/bin/run\nold mode 100644\nnew mode 100755\n", ["bin/run"]),
        ("diff --git a/empty b/empty\nnew file mode 100644\nindex 0000000..e69de29\n", ["empty"]),
    ],
)
def test_a_patch_without_a_line_of_text_names_its_paths_too(diff: str, touched: list[str]) -> None:
    assert Patch(diff=diff).touched_paths() == touched


@pytest.mark.parametrize(
    ("policy", "objected"),
    [
        ({}, None),
        ({"allowed_paths": ["core/*", "docs/*"]}, None),
        ({"allowed_paths": ["core/*"]}, "docs/new page.md"),
        ({"forbidden_paths": [".git/*"]}, None),
        ({"forbidden_paths": ["core/*"]}, "core/engine.py"),
        ({"allowed_paths": ["*"], "forbidden_paths": ["docs/*"]}, "docs/new page.md"),
    ],
)
def test_a_policy_objects_to_the_path_it_does_not_allow(policy: dict, objected: str | None) -> None:
    objection = Phase(id="P", **policy).objection(Patch(diff=DIFF).touched_paths())
    assert objection is None if objected is None else objected in objection


@pytest.mark.django_db
def test_a_patch_against_the_policy_is_refused_with_the_reason() -> None:
    entry = world.patch(patch=Patch.objects.create(id="P-1", diff=DIFF))
    Phase.objects.filter(pk=entry.phase_id).update(forbidden_paths=["core/*"])
    passed = {"format_passed": True, "scope_passed": True, "constraints_passed": True}
    transitions.transition(PatchLedger, entry.pk, "validation_passed", actor=THE_SYSTEM, params=passed)
    with pytest.raises(GuardFailed, match=r"core/engine\.py is forbidden"):
        transitions.transition(PatchLedger, entry.pk, "accepted_for_merge", actor=THE_SYSTEM)
