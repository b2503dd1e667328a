"""The overview's chart is drawn with and without sockets, late or after a retry, and never from old numbers."""

from __future__ import annotations

from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_live import is_live
from tests.browser.test_memory import TAP
from tests.browser.visits import Visits

SCRIPT = "**/uPlot.iife.min.js"


@pytest.fixture
def elsewhere(visit: Visits) -> Any:
    """A page other than the overview, so that routes can be set up first."""
    return visit("/start/")


def test_it_is_drawn(site: Any, elsewhere: Any) -> None:
    elsewhere.goto(f"{site.url}/")
    is_live(elsewhere)
    expect(elsewhere.locator("#rates canvas")).to_be_visible()


def test_it_is_drawn_without_a_socket(site: Any, elsewhere: Any) -> None:
    elsewhere.route_web_socket("**/ws/**", lambda socket: socket.close())
    elsewhere.goto(f"{site.url}/")

    expect(elsewhere.locator("#rates canvas")).to_be_visible()


@pytest.mark.parametrize("sockets", [True, False], ids=["live", "alone"])
def test_it_is_drawn_after_its_script_failed_once(sockets: bool, site: Any, elsewhere: Any, visit: Visits) -> None:
    if not sockets:
        elsewhere.route_web_socket("**/ws/**", lambda socket: socket.close())
    elsewhere.route(SCRIPT, lambda route: route.abort(), times=1)
    elsewhere.goto(f"{site.url}/")

    expect(elsewhere.locator("#rates canvas")).to_have_count(1)
    expect(elsewhere.locator("#rates canvas")).to_be_visible()
    assert elsewhere.locator("head link[href*=uPlot]").count() == 1
    assert visit.errors.pop().startswith("Failed to load resource")


# Replaces the chart library and records what it draws.
RECORDER = """window.drawn = [];
window.uPlot = class {
  constructor(_, data) { window.drawn.push(data); }
  setData(data) { window.drawn.push(data); }
  setSize() {}
};"""
NEWS = """() => window.tell("/ws/board/", { type: "delta", minutes: {
  [new Date(Math.floor(Date.now() / 60000) * 60000).toISOString()]: { transitions: 777, failures: 0, overrides: 0 },
} })"""


def test_a_slow_script_draws_the_newest_numbers(site: Any, elsewhere: Any) -> None:
    held: list[Any] = []
    elsewhere.add_init_script(TAP)
    elsewhere.clock.install()
    elsewhere.route(SCRIPT, lambda route: held.append(route))
    elsewhere.goto(f"{site.url}/", wait_until="commit")
    is_live(elsewhere)
    elsewhere.wait_for_function("() => window.is_open('/ws/board/')")
    elsewhere.evaluate(NEWS)
    elsewhere.clock.fast_forward(3_000)  # past the time at which a page without messages draws its own numbers
    held[0].fulfill(body=RECORDER, content_type="text/javascript")

    elsewhere.wait_for_function("() => window.drawn?.length")
    _times, transitions, failures, so_far = elsewhere.evaluate("window.drawn.at(-1)")
    assert so_far[-1] == 777
    # The current minute is incomplete: a line to it would look like a dip.
    assert (transitions[-1], failures[-1]) == (None, None)
    assert None not in transitions[:-1]
    assert so_far[:-1] == [None] * 59
