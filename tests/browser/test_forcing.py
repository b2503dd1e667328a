"""Forcing a state from the diagram to the receipt, with conflicts, approvals and errors."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits

REASON = "the worker is gone and will not come back"


def choose(page: Any, state: str) -> None:
    page.get_by_role("radio", name=state, exact=True).check()
    page.wait_for_selector(f'#preview [data-to="{state}"]')


def test_a_state_is_forced_from_the_diagram_to_the_receipt(site: Any, visit: Visits) -> None:
    site.do("plan", run="force-one", tasks=2)
    page = visit("/machines/tasks/force-one-t1/")
    page.locator('[data-node="cancelled"]').click()

    expect(page.locator("#preview")).to_contain_text("Preview")
    expect(page.locator("main dl.facts")).to_contain_text("supervisor")
    page.get_by_label("stuck").check()
    page.fill("#reason", REASON)
    page.get_by_role("button", name="Force task to cancelled").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")
    expect(page.locator("main dl.facts")).to_contain_text(REASON)
    assert re.fullmatch(rf"{site.url}/receipts/evt_\w+/", page.url)
    (event,) = [
        event for event in site.do("events", machine="task", entity_id="force-one-t1") if event["kind"] == "override"
    ]
    assert (event["operator"], event["category"], event["channel"]) == ("supervisor", "stuck", "console")
    page.reload()
    expect(page.locator("main dl.facts")).to_contain_text("still in effect")


def test_the_preview_changes_nothing_and_names_what_follows(site: Any, visit: Visits) -> None:
    site.do("plan", run="force-look", tasks=3)
    before = site.do("state", machine="run", entity_id="force-look")
    page = visit("/machines/runs/force-look/force/")
    choose(page, "canceled")

    expect(page.locator("#preview")).to_contain_text("downstream changes")
    expect(page.locator("#preview")).to_contain_text("force-look-t3")
    choose(page, "failed")
    assert site.do("state", machine="run", entity_id="force-look") == before


def test_a_conflict_keeps_the_typed_text_and_shows_the_current_state(site: Any, visit: Visits) -> None:
    site.do("plan", run="force-race", tasks=1)
    page = visit("/machines/tasks/force-race-t1/force/?to=failed")
    page.get_by_label("emergency").check()
    page.fill("#reason", REASON)
    site.do("force", machine="task", entity_id="force-race-t1", to_state="blocked")
    page.locator("#force-button").click()

    expect(page.locator("#refusal")).to_contain_text("The state changed while you were editing")
    expect(page.locator("#reason")).to_have_value(REASON)
    expect(page.get_by_label("emergency")).to_be_checked()
    assert visit.errors.pop().startswith("Failed to load resource")
    page.locator("#force-button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")


def test_a_form_submitted_twice_makes_one_change(site: Any, visit: Visits) -> None:
    site.do("plan", run="force-twice", tasks=1)
    page = visit("/machines/tasks/force-twice-t1/force/?to=cancelled")
    page.get_by_label("other").check()
    page.fill("#reason", REASON)
    page.evaluate(
        "document.getElementById('force-form').requestSubmit(); document.getElementById('force-form').requestSubmit()"
    )

    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")
    forced = [
        event for event in site.do("events", machine="task", entity_id="force-twice-t1") if event["kind"] == "override"
    ]
    assert len(forced) == 1


def test_a_protected_state_is_requested_by_one_person_and_approved_by_another(site: Any, visit: Visits) -> None:
    site.do("plan", run="force-two", tasks=2)
    page = visit("/machines/tasks/force-two-t1/force/")
    choose(page, "completed")
    expect(page.locator("#preview")).to_contain_text("Requires approval")
    page.get_by_label("other").check()
    page.fill("#reason", REASON)
    page.get_by_role("button", name="Request approval to force task to completed").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Force task to completed")
    expect(page.get_by_role("main")).to_contain_text("You requested this")
    assert site.do("state", machine="task", entity_id="force-two-t1")["state"] == "queued"

    colleague = visit("/approvals/", "admin")
    expect(colleague.locator('[data-tally="approvals"]')).to_have_text("1")
    card = colleague.locator("[data-approval]")
    expect(card.locator("[data-preview]")).to_contain_text("force-two-t2")
    card.get_by_label("Comment").fill("checked the logs")
    card.get_by_role("button", name="Approve: force task to completed").click()
    expect(colleague.locator("main dl.facts")).to_contain_text("approved by admin")
    colleague.goto(f"{site.url}/approvals/")
    expect(colleague.get_by_role("main")).to_contain_text("checked the logs")
    expect(colleague.locator('[data-tally="approvals"]')).to_have_text("")


def test_an_impossible_override_shows_the_reason(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/force/?to=nowhere")

    expect(page.locator("#preview")).to_contain_text("This state cannot be forced")
    expect(page.locator("#force-button")).to_be_disabled()


def test_a_final_entity_offers_a_retry_and_then_its_successor(site: Any, visit: Visits) -> None:
    site.do("plan", run="over", tasks=2)
    site.do("force", machine="task", entity_id="over-t2", to_state="failed")
    page = visit("/machines/tasks/over-t2/")
    expect(page.locator('[data-node="queued"]')).not_to_have_attribute("href", re.compile("."))
    expect(page.get_by_role("link", name="Force a state")).to_have_count(0)
    page.goto(f"{page.url}force/?to=queued")
    expect(page.get_by_role("main")).to_contain_text("Failed is a final state")
    expect(page.locator("#force-button")).to_have_count(0)

    page.get_by_role("link", name="Retry it").click()
    page.get_by_role("button", name="Retry task").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retried")
    page.goto(f"{site.url}/machines/tasks/over-t2/")
    expect(page.get_by_role("link", name="Retry")).to_have_count(0)
    page.locator(".title").get_by_role("link", name="over-t2:2").click()
    expect(page.locator("main dl.facts").first).to_contain_text("over-t2")


def test_a_failed_preview_shows_one_error(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/force/")
    page.route("**/force/?to=*", lambda route: route.abort())
    for state in ("failed", "blocked"):
        page.get_by_label(state, exact=True).check()
        expect(page.locator("#preview [data-empty=error]")).to_have_count(1)
    expect(page.locator("#preview")).to_contain_text("The server cannot be reached")
    expect(page.locator("#force-button")).to_be_disabled()
    visit.expect_errors()  # the browser reports the failed request


def test_forcing_is_offered_only_with_the_permission(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t1/", who="operator")

    expect(page.get_by_role("link", name="Force a state")).to_have_count(0)
    expect(page.locator('[data-node="cancelled"]')).not_to_have_attribute("href", re.compile("."))


def test_a_transition_ends_on_its_receipt(site: Any, visit: Visits) -> None:
    site.do("plan", run="plain", tasks=1)
    page = visit("/machines/runs/plain/", who="operator")
    page.get_by_role("link", name="Cancel run").click()
    page.fill("#reason", "nobody needs it any more")
    page.get_by_role("button", name="Cancel run").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Run canceled")
    expect(page.get_by_role("main")).to_contain_text("plain-t1")
    assert site.do("state", machine="run", entity_id="plain")["state"] == "canceled"
