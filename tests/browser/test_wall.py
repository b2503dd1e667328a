"""The wall: let in by a code, fits the screen, is thrown out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import expect


def pair(site: Any, visit: Callable[..., Any], name: str, **looks: Any) -> Any:
    wall, console = visit("/wall/pair/", who="stranger", **looks), visit("/screens/")
    console.get_by_label("Code on the screen").fill(wall.locator("#code").inner_text().lower())
    console.get_by_label("Where it hangs").fill(name)
    console.get_by_label("Seconds for a page").fill("3")
    console.get_by_role("button", name="Let it in").click()
    expect(console.get_by_role("row", name=name)).to_be_visible()
    wall.wait_for_url("**/wall/?**")
    return wall, console


def test_a_screen_is_let_in_by_its_code_and_thrown_out(site: Any, visit: Callable[..., Any]) -> None:
    wall, console = pair(site, visit, "Kitchen")
    expect(wall.locator("#freshness")).to_have_attribute("data-state", "live")
    console.reload()
    expect(console.get_by_role("row", name="Kitchen")).to_contain_text("there")
    # It may look and do nothing else.
    assert wall.request.get(f"{site.url}/machines/tasks/show-t1/force/").status == 403

    console.get_by_role("row", name="Kitchen").get_by_role("button", name="Throw out").click()
    expect(console.get_by_role("row", name="Kitchen")).to_contain_text("out")
    wall.reload()
    wall.wait_for_url("**/login/**")


@pytest.mark.parametrize("size", [(1920, 1080), (3840, 2160)], ids=["1080p", "4K"])
def test_nothing_scrolls(size: tuple[int, int], visit: Callable[..., Any]) -> None:
    page = visit("/wall/", viewport={"width": size[0], "height": size[1]})
    page.wait_for_selector(".tile")

    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    tiles = "[...document.querySelectorAll('.tiles:not([hidden]) .tile')]"
    assert page.evaluate(f"{tiles}.every((tile) => tile.scrollHeight <= tile.clientHeight + 1)")


@pytest.mark.parametrize("machines", ["task", "task,run", "task,run,worker", "task,run,worker,test_gate"])
def test_few_tiles_fill_the_screen(machines: str, visit: Callable[..., Any]) -> None:
    page = visit(f"/wall/?machines={machines}", viewport={"width": 1920, "height": 1080})
    right = page.evaluate(
        "Math.max(...[...document.querySelectorAll('.tile')].map((tile) => tile.getBoundingClientRect().right))"
    )

    assert 1920 - right < 40
    assert page.evaluate("document.documentElement.scrollHeight - innerHeight") <= 0


def test_pages_turn_and_a_wall_that_is_thrown_out_asks_to_be_let_in_again(site: Any, visit: Callable[..., Any]) -> None:
    wall, console = pair(site, visit, "Stairs", viewport={"width": 1920, "height": 1080})
    page = wall.locator("[data-page]")
    expect(page.nth(0)).to_be_visible()
    expect(page.nth(1)).to_be_visible()  # three seconds later
    expect(page.nth(0)).to_be_hidden()
    row = console.get_by_role("row", name="Stairs")
    row.get_by_role("button", name="Throw out").click()
    expect(row).to_contain_text("out")

    wall.wait_for_url("**/wall/pair/", timeout=60_000)  # by itself, at its next sign of life
    expect(wall.locator("#code")).to_be_visible()
    visit.complaints.clear()  # type: ignore[attr-defined]  # its sockets were refused
