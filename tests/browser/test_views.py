"""For every live view, an open page shows the same as a newly loaded one."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.visits import Visits
from tests.support.waiting import until

COUNTS = """() => [...document.querySelectorAll("[data-machine] .counts [data-state]")].map((each) =>
  `${each.closest("[data-machine]").dataset.machine} ${each.dataset.state} ${each.querySelector("b").textContent}`)"""
VIEWS = {
    "overview": ("/", COUNTS),
    "feed": (
        "/",
        """() => [...document.querySelectorAll("#feed li")].slice(0, 25).map((line) => line.dataset.event)""",
    ),
    "wall": ("/wall/", COUNTS),
    "diagram": (
        "/machines/tasks/?q=run:VIEW",
        """() => [...document.querySelectorAll("[data-node]")].map((node) =>
          `${node.dataset.node} ${node.querySelector(".count").textContent}`)""",
    ),
    "filters": (
        "/machines/tasks/?q=run:VIEW",
        """() => [...document.querySelectorAll(".filters [data-state]")].map((filter) => filter.textContent.trim())""",
    ),
    "rows": (
        "/machines/tasks/?q=run:VIEW",
        """() => [...document.querySelectorAll("tbody tr")].map((row) =>
          `${row.dataset.id} ${row.dataset.version} ${row.querySelector("[data-chip]").textContent.trim()}`)""",
    ),
    "entity": (
        "/machines/tasks/VIEW-t1/",
        """() => [document.body.dataset.version, document.querySelector(".title [data-chip]").textContent.trim(),
          document.querySelectorAll(".title .mark-forced").length]""",
    ),
    "run": (
        "/runs/VIEW/",
        """() => [document.querySelector("#run-chip").textContent.trim(), document.querySelector("#ended").textContent,
          ...[...document.querySelectorAll("#graph [data-state]")].map(({ dataset }) => dataset.part + dataset.state),
          document.querySelectorAll("#gantt rect").length]""",
    ),
    "tallies": (
        "/tokens/",
        """() => [...document.querySelectorAll("[data-tally]")].map((tally) => tally.textContent)""",
    ),
}


@pytest.mark.parametrize("name", VIEWS)
def test_an_open_page_shows_the_same_as_a_new_one(name: str, site: Any, visit: Visits) -> None:
    path, shown = VIEWS[name]
    run = f"view-{name}"
    site.do("plan", run=run, tasks=3)
    path = path.replace("VIEW", run)
    old = visit(path, who="viewer")
    expect(old.locator("body")).to_have_attribute("data-connection", "live")
    before = old.evaluate(shown)

    site.do("force", machine="task", entity_id=f"{run}-t1", to_state="failed")
    site.do("force", machine="task", entity_id=f"{run}-t3", to_state="cancelled")
    if name != "tallies":
        old.wait_for_function(f"(before) => JSON.stringify(({shown})()) !== JSON.stringify(before)", arg=before)

    # Other tests may change data in between, so both pages are compared until they agree.
    fresh = visit(path, who="viewer")
    expect(fresh.locator("body")).to_have_attribute("data-connection", "live")
    until(lambda: old.evaluate(shown) == fresh.evaluate(shown))
