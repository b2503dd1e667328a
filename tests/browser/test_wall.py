"""The wall: pairing, layout on every size, unpairing."""

from __future__ import annotations

import re
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.test_memory import TAP
from tests.browser.visits import Visits

SCALES = ("0.8", "0.9", "1", "1.1", "1.25", "1.5")


OPENS = """(path) => new Promise((resolve) => {
  const socket = new WebSocket(`ws://${location.host}${path}`);
  socket.onmessage = () => resolve(true);
  socket.onclose = () => resolve(false);
})"""


def pair(site: Any, visit: Visits, name: str, **looks: Any) -> Any:
    wall, console = visit("/wall/pair/", who="stranger", **looks), visit("/displays/")
    console.get_by_label("Code on the display").fill(wall.locator("#code").inner_text().lower())
    console.get_by_label("Location").fill(name)
    console.get_by_label("Rotation interval").fill("3")
    console.get_by_role("button", name="Pair display").click()
    expect(console.get_by_role("row", name=name)).to_be_visible()
    wall.wait_for_url("**/wall/?**")
    return wall, console


def test_a_display_is_paired_with_its_code_and_unpaired(site: Any, visit: Visits) -> None:
    wall, console = pair(site, visit, "Kitchen")
    expect(wall.locator("#freshness")).to_have_attribute("data-state", "live")
    console.reload()
    expect(console.get_by_role("row", name="Kitchen")).to_contain_text("online")
    for path in ("/", "/machines/tasks/", "/api/v1/tasks/", "/api/v1/board/"):
        assert wall.request.get(f"{site.url}{path}").status == 403, path
    assert wall.evaluate(OPENS, "/ws/board/")
    assert not wall.evaluate(OPENS, "/ws/events/")
    visit.expect_errors()  # the refused WebSocket

    console.get_by_role("row", name="Kitchen").get_by_role("button", name="Unpair").click()
    expect(console.get_by_role("row", name="Kitchen")).to_contain_text("unpaired")
    wall.reload()
    wall.wait_for_url("**/login/**")


# Five digits in every state and key figure.
FULL = """() => {
  const counts = {};
  for (const tile of document.querySelectorAll("[data-machine]")) {
    const states = [...tile.querySelectorAll(".counts [data-state]")].map((each) => each.dataset.state);
    counts[tile.dataset.machine] = Object.fromEntries(states.map((state) => [state, 98765]));
  }
  const incidents = { open: 1234, worst: [] }, alerts = { critical: 1234 };
  const rates = { transitions_per_minute: 12345.6 };
  const after = (days) => new Date(Date.now() + 864e5 * days).toISOString();
  const run_ends = [1, 2, 3].map((days) => ({
    run: `nightly-of-everything-${days}`, earliest: after(days), latest: after(2 * days) }));
  window.tell("/ws/board/", { type: "delta", counts, today: counts, incidents, alerts, rates, run_ends });
}"""
# Boxes whose content overflows or is cut off.
CUT = """() => [...document.querySelectorAll(".key-figure, [data-page]:not([hidden]) .tile")].flatMap((box) => {
  const edge = box.getBoundingClientRect();
  const inside = [...box.querySelectorAll("*:not(svg *)")].filter((each) => each.getClientRects().length);
  const reachesOut = ({ right, bottom }) => right > edge.right || bottom > edge.bottom;
  const isCut = (each) => each.clientWidth && each.scrollWidth > each.clientWidth;
  return [box.scrollHeight > box.clientHeight ? [box] : [],
    [box, ...inside].filter((each) => isCut(each) || reachesOut(each.getBoundingClientRect()))].flat();
}).map((each) => each.outerHTML.slice(0, 120))"""
SMALLEST = """() => Math.min(...[...document.querySelectorAll(".tiles:not([hidden]) b, .key-figure .label")]
  .map((each) => parseFloat(getComputedStyle(each).fontSize) / innerHeight))"""


@pytest.mark.parametrize("size", [(1920, 1080), (3840, 2160)], ids=["1080p", "4K"])
@pytest.mark.parametrize("scale", SCALES)
def test_nothing_scrolls_and_no_number_is_cut_off(scale: str, size: tuple[int, int], site: Any, visit: Visits) -> None:
    page = visit("/login/", viewport={"width": size[0], "height": size[1]})
    page.add_init_script(TAP)
    page.clock.install()
    page.goto(f"{site.url}/wall/?scale={scale}&seconds=20")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    page.evaluate(FULL)
    expect(page.locator("[data-live]").first).to_have_text(re.compile(r"^\d+k$"))
    for _ in range(page.locator("[data-page]").count()):
        assert page.evaluate(CUT) == []
        assert page.evaluate(SMALLEST) > 0.012, "nobody reads this from five metres"
        assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        page.clock.run_for(20_000)


ENDS = """(ends) => window.tell("/ws/board/", { type: "delta", run_ends: ends })"""


def test_the_tile_of_runs_shows_when_they_end(site: Any, visit: Visits) -> None:
    page = visit("/login/", viewport={"width": 1920, "height": 1080}, timezone_id="Asia/Tokyo")
    page.add_init_script(TAP)
    page.clock.set_fixed_time("2030-01-01T05:00:00Z")
    page.goto(f"{site.url}/wall/")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    ends = page.locator("[data-machine=run] [data-run-ends] li")
    expect(ends.first).to_have_text(re.compile(" ends |: end unknown, "))
    unknown = {"run": "new", "earliest": None, "latest": None, "reason": "no worker is active"}
    known = {"run": "nightly", "earliest": "2030-01-01T07:40:00Z", "latest": "2030-01-01T15:05:00Z", "reason": ""}
    page.evaluate(ENDS, [known, {**known, "run": "small", "latest": "2030-01-01T07:40:09Z"}, unknown])

    expect(ends).to_have_text(
        ["nightly ends 16:40 to Jan 02 00:05", "small ends 16:40", "new: end unknown, no worker is active"]
    )
    page.evaluate(ENDS, [])
    expect(page.locator("[data-run-ends]")).to_be_hidden()


def test_a_large_number_is_abbreviated_and_exact_on_hover(visit: Visits) -> None:
    page = visit("/wall/")
    shown = page.evaluate("""async () => {
      const { writeShort } = await import(document.querySelector("link[href*=tiles]").href);
      return [0.04, 7.25, 9999, 10049, 98765, 999_960, 1_234_567].map((number) => {
        const place = document.createElement("b");
        writeShort(place, number);
        return [place.textContent, place.title];
      });
    }""")

    assert [text for text, _ in shown] == ["0", "7.3", "9999", "10k", "98.8k", "1M", "1.2M"]
    assert shown[4] == ["98.8k", "98765"]


@pytest.mark.parametrize("layout", ["1x1", "2x1", "3x3"])
@pytest.mark.parametrize("size", [(1920, 1080), (1080, 1920)], ids=["landscape", "portrait"])
def test_every_layout_fits_with_incidents(layout: str, size: tuple[int, int], site: Any, visit: Visits) -> None:
    site.do("sweep")
    page = visit(f"/wall/?layout={layout}", viewport={"width": size[0], "height": size[1]})
    expect(page.locator("[data-worst]")).to_contain_text("No worker for gpu")
    expect(page.locator(".tile h2").first).to_have_text("Tasks")
    page.wait_for_function("document.fonts.status === 'loaded'")
    assert page.evaluate(CUT) == []
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0


@pytest.mark.parametrize("machines", ["task", "task,run", "task,run,worker", "task,run,worker,test_gate"])
def test_few_tiles_fill_the_display(machines: str, visit: Visits) -> None:
    page = visit(f"/wall/?machines={machines}", viewport={"width": 1920, "height": 1080})
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.tile')].map((tile) => tile.getBoundingClientRect().right))"
    )

    assert 1920 - right < 40
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0


def test_pages_rotate_and_an_unpaired_display_shows_a_new_code(site: Any, visit: Visits) -> None:
    wall, console = pair(site, visit, "Stairs", viewport={"width": 1920, "height": 1080})
    page = wall.locator("[data-page]")
    expect(page.nth(0)).to_be_visible()
    expect(page.nth(1)).to_be_visible()  # three seconds later
    expect(page.nth(0)).to_be_hidden()
    wall.clock.install()
    wall.reload()
    row = console.get_by_role("row", name="Stairs")
    row.get_by_role("button", name="Unpair").click()
    expect(row).to_contain_text("unpaired")

    wall.clock.fast_forward(31_000)
    wall.wait_for_url("**/wall/pair/")  # automatically, at its next heartbeat
    expect(wall.locator("#code")).to_be_visible()
    visit.expect_errors()  # its sockets were refused
