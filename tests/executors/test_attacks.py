"""Attacks by the code under test: on later tests, on the repository, on secrets, and on the required test."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from statecore.executors import gates, patches, sandbox
from tests.executors.support import gate, needs_bubblewrap, patch, python, reload
from tests.executors.work_tree import WorkTree, diff_adding, diff_replacing
from tests.support import world

pytestmark = [pytest.mark.once_on("postgres"), pytest.mark.django_db]

SECRET = "the-secret-of-the-installation"
RUN_ALL_CHECKS = """
import pathlib, runpy, sys
sys.path.insert(0, "")
for each in sorted(pathlib.Path(".").glob("check_*.py")):
    runpy.run_path(str(each))
"""
COUNTS = "def count(): return 3\n"
COUNT_IS_CHECKED = "import counting\nassert counting.count() == 3\n"
# Compiles a module that passes every check, in the form that Python never compares with the source.
PLANTS_BYTECODE = """
import importlib.util, pathlib, py_compile
good = pathlib.Path("good.py")
good.write_text("def count(): return 3")
target = importlib.util.cache_from_source("counting.py")
py_compile.compile("good.py", target, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH)
raise SystemExit("rejected")
"""
CHANGES_GIT = """
import pathlib, subprocess
git = pathlib.Path(subprocess.getoutput("git rev-parse --absolute-git-dir"))
places = [git, pathlib.Path({repository!r}, ".git")]
script = "#!/bin/sh\\ntouch {trace}\\ncat"
for place in places:
    try:
        with open(place / "config", "a") as config:
            config.write("[filter \\"evil\\"]\\n\\tclean = touch {trace}\\n\\tsmudge = touch {trace}\\n")
        (place / "info").mkdir(exist_ok=True)
        (place / "info" / "attributes").write_text("* filter=evil\\n")
        (place / "hooks").mkdir(exist_ok=True)
        (place / "hooks" / "reference-transaction").write_text(script)
        (place / "hooks" / "reference-transaction").chmod(0o755)
    except OSError as error:
        print(error)
raise SystemExit("rejected")
"""
READS_SECRETS = """
import os, pathlib, subprocess
home = pathlib.Path({home!r})
wanted = [home / "secrets.json", home / "statecore.sqlite3", *pathlib.Path("/proc").glob("[0-9]*/environ")]
pathlib.Path("link").symlink_to(home / "secrets.json")
pathlib.Path("linked-home").symlink_to(home)
wanted += [pathlib.Path("link"), pathlib.Path("linked-home/secrets.json"), pathlib.Path("../../../secrets.json")]
wanted += [pathlib.Path(f"/proc/{{pid}}/root{{home}}/secrets.json") for pid in (1, {executor})]
wanted += [pathlib.Path(f"/proc/{{pid}}/cwd/secrets.json") for pid in (1, {executor})]
for path in wanted:
    try:
        print(path, path.read_bytes())
    except OSError as error:
        print(path, error.strerror)
print(dict(os.environ), subprocess.run(["env"], capture_output=True, text=True).stdout)
raise SystemExit("rejected")
"""


@pytest.fixture(params=["auto", "off"])
def mode(request, settings) -> str:
    settings.STATECORE_SANDBOX = request.param
    return request.param


@pytest.fixture
def shop(work_tree: WorkTree, commands: Path, settings) -> WorkTree:
    """A repository with a module, a check of it, and a test command that runs every check."""
    work_tree.write("counting.py", COUNTS)
    work_tree.write("check_counting.py", COUNT_IS_CHECKED)
    work_tree.write(".gitignore", "__pycache__\n")
    work_tree.commit("A shop that counts")
    settings.STATECORE_PATCH_TEST_COMMAND = python(RUN_ALL_CHECKS)
    return work_tree


def diff_with_check(script: str) -> str:
    """A patch that adds a check, and with it code that the test command runs."""
    lines = script.splitlines()
    body = "".join(f"+{line}\n" for line in lines)
    name = "check_evil.py"
    header = f"diff --git a/{name} b/{name}\nnew file mode 100644\n--- /dev/null\n+++ b/{name}\n"
    return f"{header}@@ -0,0 +1,{len(lines)} @@\n{body}"


WRONG_COUNT = (
    "diff --git a/counting.py b/counting.py\n--- a/counting.py\n+++ b/counting.py\n"
    "@@ -1 +1 @@\n-def count(): return 3\n+def count(): return 4\n"
)


def test_a_rejected_patch_cannot_poison_later_tests_with_planted_bytecode(shop, mode) -> None:
    planted = patch(diff_with_check(PLANTS_BYTECODE))
    patches.run_due(wait=0)
    assert reload(planted).state == "quarantined"

    wrong = patch(WRONG_COUNT)
    patches.run_due(wait=0)

    assert reload(wrong).state == "quarantined", "its tests imported what an earlier patch had planted"
    assert shop.read("counting.py") == COUNTS
    assert not (shop.path / "__pycache__").exists()


def test_a_gate_cannot_poison_later_gates(shop, mode, settings) -> None:
    settings.STATECORE_GATE_FOLDER = shop.path
    plants = gate("import os; os.mkdir('__pycache__'); open('__pycache__/left', 'w'); open('counting.py', 'w')")
    finds = gate("import os, counting; assert counting.count() == 3; assert not os.path.exists('__pycache__/left')")

    for each in (plants, finds):
        gates.run_gate(each.pk)

    assert [reload(each).state for each in (plants, finds)] == ["PASSED", "PASSED"], reload(finds).stderr
    assert shop.is_clean()


@needs_bubblewrap
def test_a_rejected_patch_cannot_leave_hooks_filters_or_configuration_in_git(shop, tmp_path) -> None:
    trace = tmp_path / "executed"
    before = (shop.path / ".git/config").read_bytes()
    evil = patch(diff_with_check(CHANGES_GIT.format(repository=str(shop.path), trace=trace)))
    patches.run_due(wait=0)
    assert reload(evil).state == "quarantined"

    good = patch(diff_replacing("two", "zwei"))
    patches.run_due(wait=0)

    assert reload(good).state == "committed"
    assert (shop.path / ".git/config").read_bytes() == before
    assert not (shop.path / ".git/info/attributes").exists()
    assert not (shop.path / ".git/hooks/reference-transaction").exists()
    assert not trace.exists()


def test_without_a_sandbox_the_git_folder_of_a_test_is_removed_with_its_checkout(shop, settings, tmp_path) -> None:
    settings.STATECORE_SANDBOX = "off"
    evil = patch(diff_with_check(CHANGES_GIT.format(repository="/nonexistent", trace=tmp_path / "executed")))
    good = patch(diff_replacing("two", "zwei"))

    patches.run_due(wait=0)

    assert [reload(each).state for each in (evil, good)] == ["quarantined", "committed"]
    assert not (shop.path / ".git/info/attributes").exists()
    assert not (tmp_path / "executed").exists()


@needs_bubblewrap
def test_a_test_cannot_read_the_secrets_of_the_installation(shop, settings, monkeypatch) -> None:
    home = settings.STATECORE_HOME
    (home / "secrets.json").write_text(json.dumps({"secret_key": SECRET}))
    (home / "statecore.sqlite3").write_text(SECRET)
    monkeypatch.setenv("STATECORE_SECRET_KEY", SECRET)
    monkeypatch.setenv("DATABASE_URL", f"postgres://statecore:{SECRET}@127.0.0.1/statecore")
    thief = patch(diff_with_check(READS_SECRETS.format(home=str(home), executor=os.getpid())))

    patches.run_due(wait=0)

    thief = reload(thief)
    assert thief.state == "quarantined"
    assert "secrets.json" in thief.quarantine_metadata["stdout"], "it has tried"
    assert SECRET not in json.dumps(thief.quarantine_metadata)


def test_the_exit_gates_of_a_plan_cannot_replace_the_configured_patch_test(shop) -> None:
    wrong = patch(WRONG_COUNT)
    world.task(workstream=wrong.workstream, patch=wrong.pk, gates=[gate("print('fine')").pk])

    patches.run_due(wait=0)

    assert reload(wrong).state == "quarantined"
    assert shop.read("counting.py") == COUNTS


def test_a_patch_that_was_declared_verified_is_tested_before_its_commit(shop) -> None:
    wrong = world.forced(patch(WRONG_COUNT), "verified")

    assert patches.run_due(wait=0) == 0

    assert reload(wrong).state == "verified"
    assert reload(wrong).last_error.startswith("Tests failed: ")
    assert shop.read("counting.py") == COUNTS


def test_no_checkout_remains_after_patches_and_gates(shop, mode, settings) -> None:
    patch(diff_adding("new.txt"))
    patch(diff_with_check("raise SystemExit('rejected')"))
    patches.run_due(wait=0)
    gates.run_gate(gate("import time; time.sleep(600)", timeout_sec=1).pk)

    assert list(settings.STATECORE_CHECKOUT_DIR.iterdir()) == []


@needs_bubblewrap
def test_the_sandbox_is_active_on_the_host_of_the_tests() -> None:
    assert sandbox.find_problem() == ""
