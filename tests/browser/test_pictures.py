"""Writes the screenshots in docs/images from a running simulation when `STATECORE_TEST_PICTURES=1` is set."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.visits import Visits

FOLDER = Path(__file__).parents[2] / "docs" / "images"
IS_KEPT = bool(os.environ.get("STATECORE_TEST_PICTURES"))
SIMULATED = ("--seed", "7", "--rate", "20", "--beside-real-work")
ENOUGH = 1_500  # events
PICTURES = {
    "console-overview": ("/", "light", (1280, 860)),
    "console-machine": ("/machines/tasks/", "dark", (1280, 860)),
    "console-entity": ("/machines/tasks/show-t5/", "light", (1280, 860)),
    "console-force": ("/machines/runs/show/force/?to=canceled", "light", (1280, 900)),
    "console-run": ("/runs/sim7-r3/" if IS_KEPT else "/runs/show/", "dark", (1280, 860)),
    "console-wall": ("/wall/", "dark", (1920, 1080)),
}


@pytest.fixture(scope="module", autouse=True)
def _work_under_way(site: Any) -> Iterator[None]:
    if not IS_KEPT:
        yield
        return
    from tests.support.sequencer import end
    from tests.support.waiting import until

    simulation = site.start("simulation", ["manage.py", "simulate", *SIMULATED])
    until(lambda: site.do("board")["position"] > ENOUGH, 240)
    yield
    end(simulation, signal.SIGTERM)


@pytest.mark.parametrize("name", PICTURES)
def test_a_picture_for_the_documentation(name: str, visit: Visits, tmp_path: Path) -> None:
    path, theme, (width, height) = PICTURES[name]
    page = visit(path, viewport={"width": width, "height": height}, color_scheme=theme, reduced_motion="reduce")
    page.wait_for_selector("body[data-ready], #freshness[data-state=live], main form")
    if name == "console-overview":
        page.wait_for_selector("[data-chart]")
    if name == "console-entity":
        page.wait_for_selector("#why h2")
        page.get_by_role("button", name="Verify history").click()
        page.wait_for_selector("#proof .proof")
    folder = FOLDER if IS_KEPT else tmp_path
    page.screenshot(path=folder / f"{name}.png")

    assert (folder / f"{name}.png").stat().st_size > 10_000
    assert (FOLDER / f"{name}.png").exists()
