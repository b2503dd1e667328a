"""How fresh a page is can be seen at any time, and what is new is told only where it belongs."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_live import is_live


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
