"""How fresh a page is can be seen at any time, and what is new is told only where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_live import is_live
from tests.support.waiting import until


def test_away_from_the_server_it_says_as_of_when_and_stands_still(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="away", tasks=1)
    page = visit("/machines/tasks/?q=run:away")
    is_live(page)
    page.evaluate("document.querySelector('#freshness time').textContent = 'of when it was loaded'")
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")

    told = page.locator("#freshness time")
    expect(told).to_be_visible()
    heard = told.evaluate("(time) => new Date(time.dateTime).toTimeString().slice(0, 8)")
    expect(told).to_have_text(heard)
    site.open_web()
    is_live(page)
    visit.complaints.clear()  # type: ignore[attr-defined]  # the browser complains of a server that is away


def test_a_broken_place_in_the_address_breaks_nothing_else(visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/?q=run:show#%E0%A4%A")

    is_live(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")


def test_new_is_what_the_search_would_find(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="found", tasks=2)
    page = visit("/machines/tasks/?q=state:failed")
    is_live(page)
    site.do("plan", run="elsewhere", tasks=2)
    site.do("force", machine="task", entity_id="found-t1", to_state="failed")

    expect(page.locator("#news")).to_have_text("+1 new")
    page.locator("#news").click()
    expect(page.locator('tr[data-id="found-t1"]')).to_be_visible()


def test_what_the_search_cannot_compare_is_said_to_be_possible(site: Any, visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/?q=actor:nobody-yet")
    expect(page.locator("[data-empty=no-match]")).to_be_visible()
    is_live(page)
    site.do("plan", run="perhaps", tasks=1)

    expect(page.locator("#news")).to_have_text("1 more may match: look again")


HIDE = """(word) => {
  Object.defineProperty(document, "hidden", { value: word === "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_page_nobody_looks_at_is_not_told_and_catches_up(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="hidden", tasks=1)
    page = visit("/")
    closed: list[Any] = []
    page.on("websocket", lambda socket: socket.on("close", lambda each: closed.append(each)))
    page.goto(f"{site.url}/machines/tasks/?q=run:hidden")
    is_live(page)
    page.evaluate(HIDE, "hidden")
    until(lambda: page.wait_for_timeout(50) or len(closed) == 2)
    site.do("force", machine="task", entity_id="hidden-t1", to_state="failed")
    state = page.locator('tr[data-id="hidden-t1"] [data-chip]')
    assert state.inner_text() != "failed"

    page.evaluate(HIDE, "shown")
    expect(state).to_have_text("failed")


def test_a_run_tells_of_parts_that_came_later(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="grows", tasks=1)
    page = visit("/runs/grows/")
    page.wait_for_selector("body[data-ready]")
    is_live(page)
    site.do("grow", run="grows", task="grows-late")

    expect(page.locator("#news")).to_have_text("It has new parts: show them")
    page.locator("#news").click()
    expect(page.locator('[data-part="task grows-late"]')).to_be_visible()


PLACES = """async (rate) => {
  const { draw } = await import("/static/dashboard/diagram.js");
  const [box, drawing] = ["[data-drawing]", "#drawing"].map((place) => document.querySelector(place));
  const told = JSON.parse(drawing.textContent);
  draw(box, { ...told, edges: told.edges.map((edge) => ({ ...edge, rate })) });
  return [...box.querySelectorAll("[data-node] rect")].map((state) => state.outerHTML);
}"""


def test_the_states_keep_their_places_when_the_traffic_changes(visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/")
    quiet = page.evaluate(PLACES, 0)
    assert page.locator(".edge .rate").count() == 0

    assert page.evaluate(PLACES, 12.5) == quiet
    assert page.locator(".edge .rate").count() > 5
