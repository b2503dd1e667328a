"""A release can be made again from its commit, and is all that an installation needs: the tutorial runs with it."""

from __future__ import annotations

import hashlib
import json
import tarfile
from collections.abc import Iterator
from pathlib import Path
from zipfile import ZipFile

import pytest

from statecore import __version__
from tests.documentation.blocks import blocks
from tests.documentation.workspace import Workspace
from tests.release.making import install, make_release, shared_release
from tests.support.site import ROOT, free_port

pytestmark = [pytest.mark.once_on("sqlite"), pytest.mark.slow, pytest.mark.starts_processes]

TUTORIAL = ROOT / "docs" / "tutorial" / "first-plan.md"
# A checkout and an installation name the same programs differently.
INSTALLED = {
    ".venv/bin/python manage.py": "statecore manage",
    ".venv/bin/python": "python",
    "scripts/statecore": "statecore",
    "scripts/up": "statecore up",
}
WHEEL = f"statecore-{__version__}-py3-none-any.whl"


def list_tree(folder: str) -> set[str]:
    paths = (path for path in (ROOT / folder).rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"statecore/{path.relative_to(ROOT)}" for path in paths}


def hash_files(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir()}


def test_a_release_is_complete_and_the_same_wherever_it_is_made(tmp_path: Path) -> None:
    dist, again = shared_release(), make_release(tmp_path / "somewhere" / "else", umask="077")

    assert hash_files(dist) == hash_files(again)
    with ZipFile(dist / WHEEL) as wheel:
        names = set(wheel.namelist())
    wanted = {"statecore/migrations/0001_initial.py", "statecore/requirements.lock"}
    wanted |= {"statecore/framework/machine_template/app_name/models.py-tpl"}
    wanted |= list_tree("api") | list_tree("dashboard") | list_tree("static") | list_tree("templates")
    assert wanted - names == set()
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert {name.partition("/")[0] for name in names} == {"statecore", f"statecore-{__version__}.dist-info"}
    with tarfile.open(dist / f"statecore-{__version__}.tar.gz") as sources:
        unpacked = {name.partition("/")[2] for name in sources.getnames()}
    assert {"PKG-INFO", "pyproject.toml", "scripts/up", "statecore/api", "tests/release/test_release.py"} <= unpacked
    check_bill_of_materials(dist)
    assert (dist / "NOTES.md").read_text().startswith(f"## {__version__}")


def check_bill_of_materials(dist: Path) -> None:
    """It names every locked package."""
    bill = json.loads((dist / f"statecore-{__version__}.cdx.json").read_text())
    locked = {line.partition("==")[0] for line in (ROOT / "requirements.lock").read_text().splitlines() if "==" in line}
    assert bill["bomFormat"] == "CycloneDX"
    assert (bill["metadata"]["component"]["name"], bill["metadata"]["component"]["version"]) == (
        "statecore",
        __version__,
    )
    assert {each["name"].lower().replace("_", "-") for each in bill["components"]} == {
        name.partition("[")[0] for name in locked
    }


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    port = str(free_port())
    installed = install(tmp_path, shared_release())
    workspace = Workspace(tmp_path, installed, {":8000": f":{port}", **INSTALLED}, PORT=port)
    yield workspace
    workspace.close()


def test_every_command_of_the_tutorial_works_with_an_installed_release(workspace: Workspace) -> None:
    assert blocks(TUTORIAL), "the page shows commands"
    for block in blocks(TUTORIAL):
        for typed in block.typed:
            if block.terminal:
                workspace.start(block.terminal, typed)
            else:
                workspace.check(typed)
