"""Changes by others appear at once, without gaps or duplicates, even after the server was down."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits


def is_live(page: Any) -> None:
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")


def test_two_browsers_see_each_others_changes(site: Any, visit: Visits) -> None:
    site.do("plan", run="both", tasks=1)
    watching, acting = (
        visit("/machines/tasks/both-t1/", who="viewer"),
        visit("/machines/tasks/both-t1/force/?to=blocked"),
    )
    is_live(watching)
    acting.get_by_label("other").check()
    acting.fill("#reason", "to be seen by the other one")
    acting.locator("#force-button").click()

    expect(watching.locator(".title .mark-forced")).to_be_visible()
    expect(watching.locator("#news")).to_be_visible()
    watching.locator("#news").click()
    expect(watching.locator("#timeline")).to_contain_text("to be seen by the other one")


def test_a_row_changes_in_place_and_new_ones_wait_behind_a_button(site: Any, visit: Visits) -> None:
    site.do("plan", run="rows", tasks=1)
    page = visit("/machines/tasks/?q=rows")
    is_live(page)
    site.do("force", machine="task", entity_id="rows-t1", to_state="failed")
    site.do("plan", run="rows-more", tasks=2)

    row = page.locator('tr[data-id="rows-t1"]')
    expect(row.locator("[data-chip]")).to_have_text("failed")
    expect(row.locator(".mark-forced")).to_be_visible()
    expect(page.locator("#news")).to_have_text("+2 new")
    page.locator("#news").click()
    expect(page.locator("#news")).to_be_hidden()
    expect(page.locator('tr[data-id="rows-more-t1"]')).to_be_visible()
    expect(page.locator('tr[data-id="rows-t1"] [data-chip]')).to_have_text("failed")


def test_the_overview_follows_the_counts(site: Any, visit: Visits) -> None:
    page = visit("/")
    is_live(page)
    shown = page.locator('[data-machine="pipeline_job"] [data-total]')
    before = int(shown.inner_text())
    site.do("create", machine="pipeline_job", profile="p", command="analyze")

    expect(shown).to_have_text(str(before + 1))
    expect(page.locator("#feed")).to_contain_text("pipeline job")


def test_the_number_beside_incidents_is_the_length_of_their_list(site: Any, visit: Visits) -> None:
    site.do("plan", run="undecided", tasks=2)
    site.do("force", machine="task", entity_id="undecided-t1", to_state="failed")
    site.do("sweep")
    page, overview = visit("/incidents/"), visit("/")
    expect(page.locator("main")).to_contain_text("Task undecided-t1 failed")
    listed = page.locator("tbody tr").count()

    expect(page.locator("[data-tally=incidents]")).to_have_text(str(listed))
    expect(overview.locator("[data-figure='incidents.open']")).to_have_text(str(listed))
    expect(overview.locator("[data-worst]")).to_contain_text("No worker for gpu")


def test_a_restarted_server_leaves_no_gap_and_no_repeat(site: Any, visit: Visits) -> None:
    page = visit("/")
    is_live(page)
    site.do("plan", run="gap-before", tasks=1)
    expect(page.locator("#feed")).to_contain_text("gap-before-t1")
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")
    site.do("plan", run="gap-during", tasks=1)
    site.open_web()
    is_live(page)
    site.do("plan", run="gap-after", tasks=1)
    expect(page.locator("#feed")).to_contain_text("gap-after-t1")

    seen = page.locator("#feed li").evaluate_all("lines => lines.map((line) => line.dataset.event)")
    made = [
        event["event_id"]
        for run in ("gap-before", "gap-during", "gap-after")
        for machine, pk in (("run", run), ("workstream", f"{run}-w"), ("task", f"{run}-t1"))
        for event in site.do("events", machine=machine, entity_id=pk)
    ]
    assert len(seen) == len(set(seen))
    assert set(made) <= set(seen)
    visit.expect_errors()  # the browser reports the unreachable server


def test_a_run_is_replayed_by_the_slider(site: Any, visit: Visits) -> None:
    site.do("plan", run="replay", tasks=3)
    site.do("force", machine="task", entity_id="replay-t1", to_state="failed")
    page = visit("/runs/replay/")
    page.wait_for_selector("body[data-ready]")
    now = page.locator('[data-part="task replay-t1"]')
    expect(now).to_have_attribute("data-state", "failed")

    page.locator("#time").fill("0")
    expect(now).not_to_have_attribute("data-state", "failed")
    expect(page.locator("#moment")).to_contain_text("At ")
    page.get_by_role("button", name="Now").click()
    expect(now).to_have_attribute("data-state", "failed")


# The estimated end of a run is fetched in the same way.
WORKED_ON = "[data-heartbeats]:not([data-heartbeats$='/estimate/'])"


def test_heartbeats_and_progress_appear_without_a_reload(site: Any, visit: Visits) -> None:
    site.do("plan", run="beats", tasks=1, needs=["beats"])
    task = site.do("work", run="beats", fraction=0.25, detail="step 1 of 4")
    entity, run = visit(f"/machines/tasks/{task}/", who="viewer"), visit("/runs/beats/", who="viewer")
    for page in (entity, run):
        expect(page.locator(WORKED_ON)).to_contain_text("25 %")
    site.do("work", run="beats", fraction=0.5, detail="step 2 of 4")

    for page in (entity, run):
        expect(page.locator(WORKED_ON)).to_contain_text("50 %")
        expect(page.locator(WORKED_ON)).to_contain_text("step 2 of 4")
    site.do("force", machine="task", entity_id=task, to_state="failed")
    expect(entity.locator(WORKED_ON)).to_be_hidden()
    expect(run.locator(WORKED_ON)).to_contain_text("No task or gate is being worked on.")
