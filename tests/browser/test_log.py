"""The log of a task is live, searchable and large; nothing moves under the pointer."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits


def start(site: Any, run: str, *texts: str) -> str:
    site.do("plan", run=run, tasks=1, needs=[run])
    task = str(site.do("work", run=run, fraction=0.1, detail="begins"))
    if texts:
        site.do("log", task=task, texts=texts)
    return task


def numbered(count: int, first: int = 1) -> list[str]:
    return [f"line {number}" for number in range(first, first + count)]


def test_new_lines_appear_until_the_attempt_has_ended(site: Any, visit: Visits) -> None:
    task = start(site, "log-live", *numbered(3))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer")
    lines, state = page.locator(".log > li"), page.locator("[data-log-state]")
    expect(state).to_have_text("Live")
    expect(lines).to_have_count(3)
    site.do("log", task=task, texts=["it <b>broke</b>"], stream="stderr")
    expect(lines).to_have_count(4)
    expect(lines.last).to_have_class("stderr")
    expect(lines.last.locator(".mark")).to_have_text("stderr")
    expect(lines.last.locator(".text")).to_have_text("it <b>broke</b>")
    site.do("finish", task=task)
    expect(state).to_have_text("Attempt ended")
    with page.expect_download() as download:
        page.get_by_role("link", name="Download").click()
    text = Path(download.value.path()).read_text()
    assert re.fullmatch(r"(\S+Z stdout line \d\n){3}\S+Z stderr it <b>broke</b>\n", text)


def test_lines_under_the_pointer_stay_and_the_button_follows_the_end(site: Any, visit: Visits) -> None:
    task = start(site, "log-still", *numbered(200))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer")
    log, follow = page.locator(".log"), page.locator("[data-log-follow]")
    expect(page.locator("[data-log-state]")).to_have_text("Live")
    log.hover()
    top = log.evaluate("log => log.scrollTop")
    site.do("log", task=task, texts=numbered(50, 201))
    expect(follow).to_have_text("50 new lines")
    assert log.evaluate("log => log.scrollTop") == top
    page.mouse.move(5, 5)
    follow.click()
    expect(follow).to_have_text("Pause")
    site.do("log", task=task, texts=numbered(50, 251))
    expect(page.locator(".log > li").last).to_be_in_viewport()
    expect(page.locator(".log > li").last.locator(".text")).to_have_text("line 300")
    follow.click()
    site.do("log", task=task, texts=numbered(5, 301))
    expect(follow).to_have_text("Follow (5 new)")


def test_ten_thousand_lines_are_shown_searched_and_loaded_backwards(site: Any, visit: Visits) -> None:
    task = start(site, "log-large", *numbered(10_000))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer")
    lines, earlier = page.locator(".log > li"), page.locator("[data-log-earlier]")
    expect(lines).to_have_count(1_000)
    expect(lines.first.locator(".text")).to_have_text("line 9001")
    for loaded in range(2_000, 11_000, 1_000):
        earlier.click()
        expect(lines).to_have_count(loaded)
    expect(earlier).to_have_count(0)
    expect(lines.first.locator(".text")).to_have_text("line 1")
    page.get_by_label("Search the log").fill("LINE 123")
    expect(page.locator(".log > li:visible")).to_have_count(11)
    page.get_by_role("button", name="Search", exact=True).click()
    expect(lines).to_have_count(11)
    expect(page.locator("[data-log-state]")).to_contain_text("11 matching lines")


def test_the_page_works_without_scripts(site: Any, visit: Visits) -> None:
    task = start(site, "log-plain", *numbered(1_500))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer", java_script_enabled=False)
    expect(page.locator(".log > li")).to_have_count(1_000)
    page.get_by_role("link", name="Load earlier lines").click()
    expect(page.locator(".log > li")).to_have_count(500)
    page.get_by_label("Search the log").fill("line 77")
    page.get_by_role("button", name="Search", exact=True).click()
    expect(page.locator(".log > li")).to_have_count(11)


def test_a_restarted_server_leaves_no_gap_in_the_log(site: Any, visit: Visits) -> None:
    task = start(site, "log-gap", *numbered(2))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer")
    visit.expect_errors()
    expect(page.locator("[data-log-state]")).to_have_text("Live")
    site.do("log", task=task, texts=numbered(1, 3))
    expect(page.locator(".log > li")).to_have_count(3)
    site.close_web()
    site.do("log", task=task, texts=numbered(10, 4))
    site.open_web()
    expect(page.locator(".log > li")).to_have_count(13)
    assert page.locator(".log .text").all_text_contents() == numbered(13)


def test_the_view_follows_the_end_after_the_window_became_narrower(site: Any, visit: Visits) -> None:
    task = start(site, "log-narrow", *(f"{text} {'with many words ' * 12}" for text in numbered(100)))
    page = visit(f"/machines/tasks/{task}/?tab=log", who="viewer")
    expect(page.locator("[data-log-state]")).to_have_text("Live")
    page.set_viewport_size({"width": 400, "height": 700})
    site.do("log", task=task, texts=["the newest"])
    last = page.locator(".log > li").last
    expect(last.locator(".text")).to_have_text("the newest")
    expect(page.locator("[data-log-follow]")).to_have_text("Pause")
