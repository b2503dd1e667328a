"""The tutorial is typed as it stands, against a real installation, and shows what the page shows."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.documentation.blocks import blocks
from tests.documentation.desk import Desk
from tests.support.site import ROOT, free_port

PAGE = ROOT / "docs" / "tutorial" / "first-plan.md"


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    port = str(free_port())
    desk = Desk(tmp_path, {":8000": f":{port}"}, PORT=port)
    yield desk
    desk.leave()


def test_every_command_of_the_tutorial_does_what_the_page_shows(desk: Desk) -> None:
    for block in blocks(PAGE):
        for typed in block.typed:
            if block.terminal:
                desk.start(block.terminal, typed)
            else:
                desk.do(typed)
