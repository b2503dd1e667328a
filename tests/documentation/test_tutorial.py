"""Types the commands of the tutorial into shells on a real installation and compares the output."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.blocks import blocks
from tests.documentation.workspace import Workspace
from tests.support.site import ROOT, free_port

pytestmark = pytest.mark.slow

PAGE = ROOT / "docs" / "tutorial" / "first-plan.md"


@pytest.fixture
def workspace(tmp_path: Path) -> Iterator[Workspace]:
    port = str(free_port())
    workspace = Workspace(tmp_path, {":8000": f":{port}"}, PORT=port)
    yield workspace
    workspace.close()


def test_every_command_of_the_tutorial_prints_the_shown_output(workspace: Workspace) -> None:
    assert blocks(PAGE), "the page shows commands"
    for block in blocks(PAGE):
        for typed in block.typed:
            if block.terminal:
                workspace.start(block.terminal, typed)
            else:
                workspace.check(typed)
