"""Back navigation, long names, small screens, and the admin."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits

LONG_NAME = "agent-of-the-night-shift-0123456789abcdef"


def test_going_back_shows_the_page_and_not_the_part_that_was_fetched_last(site: Any, visit: Visits) -> None:
    site.do("plan", run="back", tasks=1)
    page = visit("/machines/tasks/?q=back")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    site.do("plan", run="back-more", tasks=1)
    page.locator("#news").click()
    page.locator('tr[data-id="back-more-t1"] a.id').first.click()
    expect(page.locator("h1")).to_have_text("back-more-t1")

    page.go_back()

    expect(page.locator('tr[data-id="back-more-t1"]')).to_be_visible()
    expect(page.get_by_role("navigation", name="Main")).to_be_visible()


def test_a_fragment_after_the_session_has_expired_shows_it_and_keeps_typed_text(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t3/force/")
    page.fill("#reason", "half of a long sentence")
    page.context.clear_cookies()
    page.get_by_label("blocked").check()

    expect(page.locator("#preview")).to_contain_text("your session has expired")
    expect(page.locator("#reason")).to_have_value("half of a long sentence")
    assert not page.locator("#id_password").count()
    visit.expect_errors()  # the browser reports the refused fragment


def test_the_admin_shows_state_history_and_actions_of_an_entity(site: Any, visit: Visits) -> None:
    page = visit("/admin/statecore/task/show-t5/change/", who="admin")

    expect(page.locator(".field-state .readonly")).to_have_text("failed")
    expect(page.locator(".field-version .readonly")).to_be_visible()
    expect(page.locator(".field-state_entered_at .readonly")).to_be_visible()
    expect(page.get_by_role("heading", name="History")).to_be_visible()
    expect(page.get_by_role("cell", name="log shows that the job never started")).to_be_visible()
    expect(page.get_by_role("link", name="Open in the console")).to_be_visible()
    expect(page.get_by_role("link", name="Force a state")).to_have_count(0)  # a final state is kept
    page.goto(f"{site.url}/admin/statecore/task/show-t3/change/")
    expect(page.get_by_role("link", name="Force a state")).to_be_visible()


def test_a_long_name_makes_the_audit_no_wider_than_the_page(site: Any, visit: Visits) -> None:
    from tests.browser.site import PASSWORD

    site.do("plan", run="broad", tasks=1)
    site.do("person", name=LONG_NAME)
    page = visit("/login/?next=/machines/tasks/broad-t1/force/%3Fto=blocked", who="not acknowledged")
    page.fill("#id_username", LONG_NAME)
    page.fill("#id_password", PASSWORD)
    page.get_by_role("button", name="Log in").click()
    page.get_by_label("other").check()
    page.fill("#reason", "to be seen in the audit with the whole of a long name")
    page.locator("#force-button").click()
    expect(page.locator("h1")).to_be_visible()

    page.goto(f"{site.url}/audit/?entity=broad-t1")

    who = page.get_by_title(LONG_NAME)
    expect(who.first).to_be_visible()
    assert page.locator(".scroll").evaluate("(table) => table.scrollWidth <= table.clientWidth")
