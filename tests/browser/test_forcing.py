"""Forcing a state from the click to the receipt, and everything that may come between."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import expect

REASON = "the worker is gone and will not come back"


def choose(page: Any, state: str) -> None:
    page.get_by_role("radio", name=state, exact=True).check()
    page.wait_for_selector(f'#preview [data-to="{state}"]')


def test_a_state_is_forced_from_the_diagram_to_the_receipt(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="force-one", tasks=2)
    page = visit("/machines/tasks/force-one-t1/")
    page.locator('[data-node="cancelled"]').click()

    expect(page.locator("#preview")).to_contain_text("What will happen")
    expect(page.locator("main dl.facts")).to_contain_text("supervisor")
    page.get_by_label("stuck").check()
    page.fill("#reason", REASON)
    page.get_by_role("button", name="Force 1 task to cancelled").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")
    expect(page.locator("main dl.facts")).to_contain_text(REASON)
    assert re.fullmatch(rf"{site.url}/receipts/evt_\w+/", page.url)
    (event,) = [
        event for event in site.do("events", machine="task", entity_id="force-one-t1") if event["kind"] == "override"
    ]
    assert (event["operator"], event["category"], event["channel"]) == ("supervisor", "stuck", "console")
    page.reload()
    expect(page.locator("main dl.facts")).to_contain_text("it held")


def test_the_preview_changes_nothing_and_names_what_follows(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="force-look", tasks=3)
    before = site.do("state", machine="run", entity_id="force-look")
    page = visit("/machines/runs/force-look/force/")
    choose(page, "canceled")

    expect(page.locator("#preview")).to_contain_text("further changes will follow")
    expect(page.locator("#preview")).to_contain_text("force-look-t3")
    choose(page, "failed")
    assert site.do("state", machine="run", entity_id="force-look") == before


def test_a_conflict_while_typing_keeps_the_words_and_shows_the_entity_as_it_is(
    site: Any, visit: Callable[..., Any]
) -> None:
    site.do("plan", run="force-race", tasks=1)
    page = visit("/machines/tasks/force-race-t1/force/?to=failed")
    page.get_by_label("emergency").check()
    page.fill("#reason", REASON)
    site.do("force", machine="task", entity_id="force-race-t1", to_state="blocked")
    page.locator("#force-button").click()

    expect(page.locator("#refusal")).to_contain_text("It moved while you were writing")
    expect(page.locator("#reason")).to_have_value(REASON)
    expect(page.get_by_label("emergency")).to_be_checked()
    assert visit.complaints.pop().startswith("Failed to load resource")  # type: ignore[attr-defined]
    page.locator("#force-button").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")


def test_sent_twice_it_is_one_change(site: Any, visit: Callable[..., Any]) -> None:
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


def test_where_the_policy_says_so_a_second_person_confirms_with_a_password(
    site: Any, visit: Callable[..., Any]
) -> None:
    from tests.browser.site import PASSWORD

    site.do("plan", run="force-two", tasks=1)
    page = visit("/machines/tasks/force-two-t1/force/")
    choose(page, "completed")
    page.get_by_label("other").check()
    page.fill("#reason", REASON)
    page.fill("#approver", "supervisor")
    page.fill("#approver_password", PASSWORD)
    page.locator("#force-button").click()
    expect(page.locator("#refusal")).to_contain_text("second operator")
    assert visit.complaints.pop().startswith("Failed to load resource")  # type: ignore[attr-defined]

    page.fill("#approver", "admin")
    page.fill("#approver_password", PASSWORD)
    page.locator("#force-button").click()
    expect(page.locator("main dl.facts")).to_contain_text("approved by admin")


def test_what_cannot_be_forced_says_why(site: Any, visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/show-t1/force/?to=nowhere")

    expect(page.locator("#preview")).to_contain_text("This cannot be forced")
    expect(page.locator("#force-button")).to_be_disabled()


def test_what_has_ended_offers_no_force_but_a_retry_and_then_its_successor(
    site: Any, visit: Callable[..., Any]
) -> None:
    site.do("plan", run="over", tasks=2)
    site.do("force", machine="task", entity_id="over-t2", to_state="failed")
    page = visit("/machines/tasks/over-t2/")
    expect(page.locator('[data-node="queued"]')).not_to_have_attribute("href", re.compile("."))
    expect(page.get_by_role("link", name="Force a state")).to_have_count(0)
    page.goto(f"{page.url}force/?to=queued")
    expect(page.get_by_role("main")).to_contain_text("Failed is final")
    expect(page.locator("#force-button")).to_have_count(0)

    page.get_by_role("link", name="Retry it").click()
    page.get_by_role("button", name="Retry 1 task").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Retried")
    page.goto(f"{site.url}/machines/tasks/over-t2/")
    expect(page.get_by_role("link", name="Retry")).to_have_count(0)
    page.locator(".title").get_by_role("link", name=re.compile("task_")).click()
    expect(page.locator("main dl.facts").first).to_contain_text("over-t2")


def test_a_preview_that_cannot_be_had_says_so_once(site: Any, visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/show-t1/force/")
    page.route("**/force/?to=*", lambda route: route.abort())
    for state in ("failed", "blocked"):
        page.get_by_label(state, exact=True).check()
        expect(page.locator("#preview [data-empty=error]")).to_have_count(1)
    expect(page.locator("#preview")).to_contain_text("The server cannot be reached")
    expect(page.locator("#force-button")).to_be_disabled()
    visit.complaints.clear()  # type: ignore[attr-defined]  # the browser complains of what it could not fetch


def test_who_may_not_force_is_not_offered_it(site: Any, visit: Callable[..., Any]) -> None:
    page = visit("/machines/tasks/show-t1/", who="operator")

    expect(page.get_by_role("link", name="Force a state")).to_have_count(0)
    expect(page.locator('[data-node="cancelled"]')).not_to_have_attribute("href", re.compile("."))


def test_a_plain_move_is_made_and_receipted(site: Any, visit: Callable[..., Any]) -> None:
    site.do("plan", run="plain", tasks=1)
    page = visit("/machines/runs/plain/", who="operator")
    page.get_by_role("link", name="Run canceled").click()
    page.fill("#reason", "nobody needs it any more")
    page.get_by_role("button", name="Run canceled").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Run canceled")
    expect(page.get_by_role("main")).to_contain_text("plain-t1")
    assert site.do("state", machine="run", entity_id="plain")["state"] == "canceled"
