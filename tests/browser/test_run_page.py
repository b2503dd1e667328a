"""The page of a run: its graph, its timeline, what finds and filters their parts, and its replay."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits

PATHS = "#graph [data-edges]"


def opened(visit: Visits, path: str, **looks: Any) -> Any:
    page = visit(path, **looks)
    page.wait_for_selector("body[data-ready=yes]")
    return page


def test_workstreams_are_collapsed_and_expanded_by_keys(site: Any, visit: Visits) -> None:
    site.do("streams", run="wide", workstreams=3, tasks=4)
    site.do("force", machine="task", entity_id="wide-w1-t2", to_state="failed")
    page = opened(visit, "/runs/wide/?open=")
    boxes = page.locator("#graph .cluster.closed")
    expect(boxes).to_have_count(3)
    expect(page.locator(PATHS)).to_have_attribute("data-edges", "2")  # each workstream depends on the one before
    expect(page.locator("[data-part='workstream wide-w1'] .counts")).to_contain_text("0/4 done · 1 failed")

    toggle = page.get_by_role("button", name="Expand workstream wide-w1")
    toggle.focus()
    page.keyboard.press("Enter")

    expect(page.locator("#graph a[data-part^='task wide-w1-']")).to_have_count(4)
    expect(boxes).to_have_count(2)
    expect(page.get_by_role("button", name="Collapse workstream wide-w1")).to_be_focused()
    expect(page).to_have_url(re.compile(r"open=wide-w1$"))
    page.reload()
    expect(page.locator("#graph a[data-part^='task ']")).to_have_count(4)


def test_a_part_is_found_in_a_collapsed_workstream(site: Any, visit: Visits) -> None:
    site.do("streams", run="seek", workstreams=2, tasks=3)
    page = opened(visit, "/runs/seek/?open=")
    page.get_by_label("Find a part of this run").fill("w2-t3")
    page.keyboard.press("Enter")

    expect(page.locator("#found")).to_have_text("1 of 8 parts")
    expect(page.locator("#graph .found")).to_have_attribute("data-part", "task seek-w2-t3")
    expect(page.locator("#gantt .label")).to_have_text(["seek-w2", "seek-w2-t3"])
    expect(page).to_have_url(re.compile(r"find=w2-t3"))


def test_only_failed_parts_and_the_critical_path_are_shown(site: Any, visit: Visits) -> None:
    site.do("streams", run="bad", workstreams=2, tasks=3)
    site.do("force", machine="task", entity_id="bad-w1-t2", to_state="failed")
    page = opened(visit, "/runs/bad/")
    page.get_by_role("radio", name="Failed").check()

    expect(page.locator("#gantt .label")).to_have_text(["bad-w1", "bad-w1-t2"])
    expect(page.locator("#graph .node:not(.dim)")).to_have_count(1)
    page.get_by_role("radio", name="Critical path").check()
    expect(page.locator("#gantt .label").last).to_have_text(re.compile("^bad-w2-t"))
    expect(page.locator("#graph .critical")).to_have_count(1)
    expect(page).to_have_url(re.compile("only=critical"))


def test_the_timeline_of_many_parts_draws_those_in_view(site: Any, visit: Visits) -> None:
    site.do("streams", run="many", workstreams=3, tasks=150)
    site.do("force", machine="task", entity_id="many-w3-t150", to_state="failed")
    page = opened(visit, "/runs/many/")
    gantt = page.locator("#gantt")
    expect(gantt).to_have_attribute("data-rows", "454")
    assert page.locator("#gantt .label").count() < 60
    expect(page.locator("#gantt .where")).to_have_count(1)  # the failure is marked although its row is out of view
    expect(page.locator("#gantt .when")).to_have_count(1)
    gantt.evaluate("(box) => box.scrollTo(0, box.scrollHeight)")
    expect(page.locator("#gantt .label").last).to_have_text("many-w3-t150")
    expect(page.locator("#gantt .failure")).to_have_count(1)

    gantt.evaluate("(box) => box.scrollTo(0, 0)")
    page.locator("#gantt-out").click()
    page.get_by_role("button", name="Next failure").click()
    expect(page.locator("#gantt .failure")).to_have_count(1)
    expect(page.locator("#graph .found")).to_have_attribute("data-part", "task many-w3-t150")


def test_waiting_and_work_are_told_apart(site: Any, visit: Visits) -> None:
    site.do("plan", run="idle", tasks=1)
    page = opened(visit, "/runs/idle/")

    waits, works = page.locator("#gantt rect[data-waits]").last, page.locator("#gantt rect[role=img]:not([data-waits])")
    assert float(waits.get_attribute("height")) < float(works.first.get_attribute("height"))
    expect(waits).to_have_attribute("aria-label", re.compile("task idle-t1: queued from .*, waited "))


def test_all_tries_of_a_task_are_in_one_row(site: Any, visit: Visits) -> None:
    site.do("plan", run="again", tasks=2)
    site.do("force", machine="task", entity_id="again-t2", to_state="failed")
    site.do("retry", machine="task", entity_id="again-t2")
    page = opened(visit, "/runs/again/")

    expect(page.locator("#gantt .label", has_text="again-t2")).to_have_text(["again-t2:2"])
    expect(page.locator("#gantt .failure")).to_have_count(1)
    expect(page.locator("#total")).to_have_text("2")
    expect(page.locator("#ended")).to_have_text("0")


def test_the_moment_of_a_replay_is_in_the_url(site: Any, visit: Visits) -> None:
    site.do("plan", run="moment", tasks=2)
    site.do("force", machine="task", entity_id="moment-t1", to_state="failed")
    page = opened(visit, "/runs/moment/")
    task = page.locator('[data-part="task moment-t1"]')
    expect(task).to_have_attribute("data-state", "failed")
    page.locator("#time").fill("0")
    expect(page).to_have_url(re.compile(r"at=\d{4}-"))

    page.reload()
    expect(page.locator("#moment")).to_contain_text("At ")
    expect(task).not_to_have_attribute("data-state", "failed")
    page.get_by_role("button", name="Now").click()
    expect(task).to_have_attribute("data-state", "failed")
    expect(page).not_to_have_url(re.compile("at="))


def test_the_graph_is_zoomed_and_fitted(site: Any, visit: Visits) -> None:
    site.do("streams", run="zoomed", workstreams=4, tasks=9)
    page = opened(visit, "/runs/zoomed/")
    picture, frame = page.locator("#graph > svg"), page.locator("#graph")
    before = picture.bounding_box()["width"]
    page.locator("#graph-in").click()
    assert picture.bounding_box()["width"] > before
    page.locator("#graph-fit").click()

    assert frame.evaluate("(box) => box.scrollWidth - box.clientWidth") <= 0
    assert frame.evaluate("(box) => box.scrollHeight - box.clientHeight") <= 0
