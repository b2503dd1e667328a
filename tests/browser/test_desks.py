"""The sections of workers, patches and jobs, and the preview of a transition: accessible in every look."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.test_every_page import every_look_holds
from tests.browser.visits import Visits

DIFF = """diff --git a/one.py b/one.py
--- a/one.py
+++ b/one.py
@@ -1,2 +1,2 @@
 the same
-the old line
+the new line
"""


def test_cancelling_a_run_by_keys_shows_what_follows(site: Any, visit: Visits) -> None:
    site.do("plan", run="doomed", tasks=2)
    page = visit("/machines/runs/doomed/", who="operator")
    page.keyboard.press("/")
    page.keyboard.type("doomed cancel")
    expect(page.get_by_role("option", name="Cancel run doomed")).to_be_visible()
    page.keyboard.press("Enter")
    expect(page.locator("[data-caused]")).to_contain_text("2 tasks")
    every_look_holds(page)
    page.get_by_label("Reason").focus()
    page.keyboard.type("called off")
    page.keyboard.press("Tab")
    page.keyboard.press("Enter")
    expect(page.get_by_role("main")).to_contain_text("doomed")
    assert site.do("state", machine="run", entity_id="doomed")["state"] == "canceled"


def test_a_rollback_is_planned_and_approved_on_the_page_of_its_patch(site: Any, visit: Visits) -> None:
    site.do("committed_patch", entity_id="rolled", diff=DIFF)
    page = visit("/machines/patches/rolled/?tab=diff", who="operator")
    expect(page.get_by_role("region", name="Changes of one.py")).to_contain_text("the new line")
    every_look_holds(page)
    page.set_viewport_size({"width": 1280, "height": 800})
    page.get_by_role("link", name="Rollback").click()
    page.get_by_role("button", name="Store plan").click()
    expect(page.get_by_role("status").filter(has_text="Plan stored")).to_be_visible()
    every_look_holds(page)

    second = visit("/machines/patches/rolled/?tab=compensation", who="supervisor")
    second.get_by_role("button", name="Approve this plan").click()
    expect(second.get_by_role("main")).to_contain_text("approved by supervisor")
    every_look_holds(second)


def test_the_sections_of_workers_and_jobs_are_accessible(site: Any, visit: Visits) -> None:
    for machine, collection, tab in (
        ("worker", "workers", "worker_tasks"),
        ("pipeline_job", "pipeline-jobs", "checkpoints"),
        ("agent_job", "agent-jobs", "job_events"),
    ):
        site.do("create", machine=machine, id=f"desk-{tab}")
        page = visit(f"/machines/{collection}/desk-{tab}/?tab={tab}", who="operator")
        expect(page.locator("#tab")).to_contain_text("No ")
        every_look_holds(page)
    page = visit("/bulk/", who="operator")
    expect(page.get_by_role("heading", level=1)).to_have_text("Bulk actions")
    every_look_holds(page)
