"""Memory stays flat after ten thousand updates, and after a day on the wall."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import expect

MEGABYTE = 1024 * 1024
A_DAY = 24 * 3600 * 1000

# Wraps the page's sockets, so that a test can inject messages beside those of the server.
TAP = """
window.sockets = [];
window.WebSocket = class extends WebSocket {
  constructor(...given) { super(...given); window.sockets.push(this); }
};
window.open_one = (path) => window.sockets.findLast((each) => each.url.includes(path) && each.readyState === 1);
window.is_open = (path) => Boolean(window.open_one(path));
window.tell = (path, message) => {
  window.open_one(path).onmessage({ data: JSON.stringify(message) });
};
"""
UPDATES = """async ([start, frames, size, entity]) => {
  for (let frame = 0; frame < frames; frame += 1) {
    // Of six events five tell of a new entity, and one moves a row that is there or one that is not.
    const events = Array.from({ length: size * 6 }, (_, place) => {
      const number = start * 6 + frame * size * 6 + place;
      const fields = place % 6 ? { entity_id: `new-${number}`, kind: "created", context: { run_id: "show" } }
        : { entity_id: place % 12 ? entity : `old-${place}`, kind: "normal" };
      return { position: 1e9 + number, event: { event_id: `evt_${number}`, entity_type: "task", sequence: number + 100,
        ...fields, to_state: number % 3 ? "running" : "queued", from_state: "queued", trigger: "worker_started",
        actor: "agent", timestamp: new Date().toISOString() } };
    });
    window.tell("/ws/events/", { type: "events", events });
    window.tell("/ws/board/", { type: "delta", counts: { task: { running: start + frame } }, position: frame });
    if (frame % 20 === 0) await new Promise(requestAnimationFrame);
  }
}"""


class Heap:
    """The memory of a page after garbage collection."""

    def __init__(self, page: Any) -> None:
        self.client = page.context.new_cdp_session(page)

    def bytes(self) -> int:
        for _ in range(3):  # finalizers free objects for the next round
            self.client.send("HeapProfiler.collectGarbage")
        return int(self.client.send("Runtime.getHeapUsage")["usedSize"])

    def nodes(self) -> int:
        return int(self.client.send("Memory.getDOMCounters")["nodes"])


@pytest.fixture
def tapped(site: Any, browser: Any, sessions: dict[str, Any]) -> Iterator[Callable[[str], Any]]:
    contexts = []

    def open_page(path: str) -> Any:
        context = browser.new_context(storage_state=sessions["viewer"])
        contexts.append(context)
        context.add_init_script(TAP)
        page = context.new_page()
        page.goto(f"{site.url}{path}")
        expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
        page.wait_for_function("() => ['/ws/events/', '/ws/board/'].every(window.is_open)")
        return page

    yield open_page
    for context in contexts:
        context.close()


@pytest.mark.parametrize("path", ["/", "/machines/tasks/?q=run:show"], ids=["overview", "machine"])
def test_ten_thousand_updates_and_fifty_thousand_new_ones_leave_the_memory_flat(
    path: str, tapped: Callable[[str], Any]
) -> None:
    page = tapped(path)
    heap = Heap(page)
    page.evaluate(UPDATES, [0, 100, 20, "show-t1"])  # warms the page up
    before, nodes = heap.bytes(), heap.nodes()

    page.evaluate(UPDATES, [2_000, 500, 20, "show-t1"])

    assert page.locator("[data-figure], .count").first.is_visible()
    assert heap.bytes() < before + MEGABYTE
    assert heap.nodes() <= nodes * 1.1 + 200


def test_a_day_on_the_wall(site: Any, browser: Any, sessions: dict[str, Any]) -> None:
    """24 hours in a few seconds: pages rotate, silent sockets reconnect, memory stays flat, the page reloads daily."""
    context = browser.new_context(storage_state=sessions["viewer"], viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.clock.install()
    page.goto(f"{site.url}/wall/?seconds=20")
    page.wait_for_selector("#freshness[data-state=live]")
    heap = Heap(page)
    page.evaluate("window.stayed = true")

    def hours(count: int) -> None:
        for _ in range(count):
            page.clock.fast_forward(3600 * 1000)
            page.clock.run_for(40_000)  # fires every timer as often as in that time
            page.wait_for_selector("#freshness[data-state=live]")

    hours(3)
    early, nodes = heap.bytes(), heap.nodes()
    hours(10)
    site.do("create", machine="pipeline_job", profile="night", command="analyze")
    hours(10)
    assert page.evaluate("window.stayed")
    assert heap.bytes() < early + MEGABYTE
    assert heap.nodes() <= nodes * 1.1 + 50
    page.clock.fast_forward(A_DAY - 23 * 3600 * 1000)
    page.clock.run_for(31_000)
    page.wait_for_function("() => window.stayed === undefined")
    page.wait_for_selector("#freshness[data-state=live]")
    context.close()


def test_a_tile_shows_when_it_changed_and_dims_without_updates(
    site: Any, browser: Any, sessions: dict[str, Any]
) -> None:
    context = browser.new_context(storage_state=sessions["viewer"], viewport={"width": 1920, "height": 1080})
    page = context.new_page()
    page.clock.install()
    page.goto(f"{site.url}/wall/?machines=pipeline_job,run")
    page.wait_for_selector("#freshness[data-state=live]")
    tile, other = (page.locator(f'.tile[data-machine="{machine}"]') for machine in ("pipeline_job", "run"))
    expect(other.locator("[data-updated]")).to_contain_text("no change since")
    site.do("create", machine="pipeline_job", profile="wall", command="analyze")
    expect(tile.locator("[data-updated]")).to_contain_text("changed")
    number = tile.locator("[data-live]").inner_text()
    expect(other.locator("[data-updated]")).to_contain_text("no change since")

    context.set_offline(True)
    site.close_web()
    page.clock.fast_forward(70_000)
    expect(tile).to_have_class("tile stale")
    expect(tile.locator("[data-updated]")).to_contain_text("as of")
    assert tile.locator("[data-live]").inner_text() == number
    site.open_web()
    context.set_offline(False)
    page.clock.fast_forward(20_000)
    expect(tile).to_have_class("tile")
    context.close()
