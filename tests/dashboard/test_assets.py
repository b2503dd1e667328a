"""A page preloads every module that its scripts import."""

import re
from pathlib import Path

import pytest

import statecore
from statecore.dashboard.assets import find_imports
from statecore.dashboard.templatetags.console import module

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

SCRIPTS = Path(statecore.__file__).with_name("static") / "dashboard"


def test_indirect_imports_are_listed_once():
    needed = find_imports("dashboard/machine.js")

    assert {"vendor/dagre.esm.js", "dashboard/board.js", "dashboard/socket.js", "dashboard/freshness.js"} <= set(needed)
    assert len(set(needed)) == len(needed)
    assert "dashboard/machine.js" not in needed


@pytest.mark.parametrize("script", sorted(SCRIPTS.glob("*.js")), ids=lambda path: path.stem)
def test_every_import_is_found(script):
    imported = re.findall(r'\bfrom\s+"([^"]+)"|\bimport\s+"([^"]+)"', script.read_text())

    names = {Path(first or second).name for first, second in imported}
    assert names <= {Path(name).name for name in find_imports(f"dashboard/{script.name}")}


def test_a_script_follows_its_preloads():
    tags = module("dashboard/wall.js")

    assert tags.index('rel="modulepreload" href="/static/dashboard/socket.js"') < tags.index("<script")
    assert tags.endswith('<script type="module" src="/static/dashboard/wall.js"></script>')
