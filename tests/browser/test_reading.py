"""Readability: nothing is cut off, colours are consistent, times include the date where needed."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.visits import Visits

COLOURS = """() => [...document.querySelectorAll("[data-machine] .counts [data-state]")].map((share) => {
  const bar = share.closest("[data-machine]").querySelector(`[data-bar="${share.dataset.state}"]`);
  const mark = share.querySelector(".tone-active:not(.shade-0) > .icon");
  return bar && mark ? [getComputedStyle(bar).fill, getComputedStyle(mark).color] : null;
}).filter(Boolean)"""


@pytest.mark.parametrize("path", ["/", "/wall/"])
@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_mark_before_a_number_has_the_colour_of_its_part_of_the_bar(path: str, theme: str, visit: Visits) -> None:
    page = visit(path, color_scheme=theme)
    pairs = page.evaluate(COLOURS)

    assert pairs
    assert [mark for _, mark in pairs] == [bar for bar, _ in pairs]


STICKING_OUT = """() => [...document.querySelectorAll("#graph .node")].map((node) => {
  const [text, box] = ["text", "rect"].map((part) => node.querySelector(part).getBoundingClientRect());
  return text.right - box.right;
}).filter((by) => by > 0)"""


def test_a_long_id_stays_within_its_box_in_the_graph_of_a_run(site: Any, visit: Visits) -> None:
    site.do("plan", run="boxes", tasks=1)
    site.do("grow", run="boxes", task="task_01M7MNQGN6RPRXX5SNA9QWYFSY")
    site.do("grow", run="boxes", task="WWWWWWWWWW")
    page = visit("/runs/boxes/")
    page.wait_for_selector("body[data-ready]")

    assert page.evaluate(STICKING_OUT) == []


TICKS = "#gantt text[text-anchor]"


def test_the_bar_of_a_waiting_part_grows_until_now(site: Any, visit: Visits) -> None:
    site.do("plan", run="waits", tasks=1)
    page = visit("/start/")
    page.clock.install()
    page.goto(f"{site.url}/runs/waits/")
    page.wait_for_selector("body[data-ready]")
    before = page.locator(TICKS).last.text_content()
    page.clock.fast_forward(20 * 60_000)
    page.clock.run_for(6_000)

    expect(page.locator(TICKS).last).not_to_have_text(before)
    page.clock.fast_forward(40 * 3_600_000)
    page.clock.run_for(6_000)
    days = {text[:6] for text in page.locator(TICKS).all_text_contents()}
    assert len(days) > 1, "a run of more than a day says of which day a time is"


def test_the_bars_of_a_finished_run_do_not_grow(site: Any, visit: Visits) -> None:
    site.do("plan", run="ended", tasks=1)
    site.do("force", machine="run", entity_id="ended", to_state="canceled")
    page = visit("/start/")
    page.clock.install()
    page.goto(f"{site.url}/runs/ended/")
    page.wait_for_selector("body[data-ready]")
    before = page.locator(TICKS).last.text_content()
    page.clock.fast_forward(20 * 60_000)
    page.clock.run_for(6_000)

    assert page.locator(TICKS).last.text_content() == before


FORCED_BACK = """async () => {
  const { drawAll } = await import(document.querySelector("link[rel=modulepreload][href*='/diagram']").href);
  const drawing = JSON.parse(document.getElementById("drawing").textContent);
  const edge = { from: "validating", to: "pending", label: "forced", rate: 0 };
  drawing.edges.push({ ...edge, taken: true, forced: true, declared: false });
  drawAll(drawing);
}"""


def test_times_below_a_short_run_are_all_different(site: Any, visit: Visits) -> None:
    site.do("plan", run="short", tasks=1)
    site.do("force", machine="run", entity_id="short", to_state="canceled")
    page = visit("/runs/short/")
    page.wait_for_selector("body[data-ready]")
    ticks = page.locator(TICKS).all_text_contents()

    assert len(ticks) > 2
    assert len(set(ticks)) == len(ticks)


STATES = """(svg) => [svg.getAttribute("viewBox"), svg.getAttribute("width"),
  ...[...svg.querySelectorAll("[data-node] rect, .edge:not(.forced) path")].map((each) => each.outerHTML)]"""


@pytest.mark.parametrize("width", [360, 1280])
def test_a_forced_edge_is_drawn_over_a_diagram_that_fits_and_does_not_move(width: int, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/", viewport={"width": width, "height": 800})
    diagram = page.locator(".diagram svg")
    before = diagram.evaluate(STATES)
    page.evaluate(FORCED_BACK)

    assert diagram.evaluate(STATES) == before
    expect(diagram.locator("[data-edge='validating>pending'].forced")).to_have_count(1)
    assert page.locator(".diagram").evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    page.goto(page.url.replace("show-t1/", ""))  # with rates
    assert page.locator(".diagram").evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0


def test_the_board_of_the_admin_wraps_what_does_not_fit(visit: Visits) -> None:
    page = visit("/admin/", who="admin", viewport={"width": 420, "height": 800})

    boards = page.locator(".console-board .module").first
    assert boards.evaluate("(board) => board.scrollWidth - board.clientWidth") <= 0


def test_suggested_actions_are_separate_from_the_cause(visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/")
    why, moves = page.locator("#why > section").nth(0), page.locator("#why > section").nth(1)
    expect(moves).to_be_visible()

    assert moves.bounding_box()["y"] - why.bounding_box()["y"] - why.bounding_box()["height"] > 8


PHONE = {"width": 360, "height": 740}
STICKS_OUT = "(box) => box.scrollWidth - box.clientWidth"


def test_a_run_is_drawn_within_the_width_of_a_phone(site: Any, visit: Visits) -> None:
    site.do("plan", run="phone", tasks=9)
    page = visit("/runs/phone/", viewport=PHONE)
    page.wait_for_selector("body[data-ready=yes]")

    expect(page.locator("#graph a[data-part^='task ']")).to_have_count(9)
    expect(page.locator("#graph .cluster[data-state=executing], #graph .cluster[data-state=ready]")).to_have_count(1)
    for drawing in ("#graph", "#gantt"):
        assert page.locator(drawing).evaluate(STICKS_OUT) <= 0, drawing
    boxes = [each.bounding_box() for each in page.locator("#graph a rect").all()]
    assert all(box["x"] >= 0 and box["x"] + box["width"] <= PHONE["width"] for box in boxes)
    rows = {(round(box["x"]), round(box["y"])) for box in boxes}
    assert len(rows) == 9, "parts cover each other"


@pytest.mark.parametrize("size", [PHONE, {"width": 1280, "height": 800}], ids=["phone", "desk"])
def test_a_retry_has_the_name_of_what_it_retries(size: dict[str, int], site: Any, visit: Visits) -> None:
    run = f"tries-{size['width']}"
    site.do("plan", run=run, tasks=2)
    site.do("force", machine="task", entity_id=f"{run}-t2", to_state="failed")
    again = site.do("retry", machine="task", entity_id=f"{run}-t2")
    page = visit(f"/runs/{run}/", viewport=size)
    page.wait_for_selector("body[data-ready=yes]")

    expect(page.locator(f"#graph [data-part='task {again}'] .name")).to_have_text(f"{run}-t2:2")
    expect(page.locator("#gantt .label", has_text=f"{run}-t2:2")).to_have_count(1)


def test_the_cause_comes_before_the_diagram_on_a_phone(visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/", viewport=PHONE)
    cause, diagram = page.locator("#why"), page.locator("[data-drawing]")
    expect(cause).to_contain_text("Actions")

    assert cause.bounding_box()["y"] < diagram.bounding_box()["y"]
    page.set_viewport_size({"width": 1280, "height": 800})
    assert cause.bounding_box()["x"] > diagram.bounding_box()["x"]
