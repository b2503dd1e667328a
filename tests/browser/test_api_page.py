"""The page of the API in a browser: search, the fields of a call, and sending it with the session or a token."""

from __future__ import annotations

import json

from playwright.sync_api import expect

from tests.browser.test_every_page import violations
from tests.browser.visits import Visits

NEW_PHASE = "#post_phases"


def test_a_call_is_found_and_sent_with_the_session(visit: Visits) -> None:
    page = visit("/api/v1/docs/", who="supervisor")
    page.keyboard.press("/")
    page.keyboard.type("post phases")
    expect(page.locator("#found")).to_contain_text("of")
    expect(page.locator("#tasks")).to_be_hidden()
    page.locator(f"{NEW_PHASE} > summary").click()
    expect(page.locator(f"{NEW_PHASE} .fields td code", has_text="allowed_paths")).to_be_visible()
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        assert violations(page) == [], theme

    page.get_by_label("Body as JSON").fill(json.dumps({"id": "of-the-page", "title": "Made on the page"}))
    page.get_by_role("button", name="Send POST").click()

    expect(page.locator("[data-outcome]")).to_have_text("201 Created")
    expect(page.locator(f"{NEW_PHASE} pre")).to_contain_text("Made on the page")


def test_the_link_to_a_call_opens_it_and_a_refusal_is_shown(visit: Visits) -> None:
    visit.expect_errors()  # the browser reports every 404
    page = visit("/api/v1/docs/#get_tasks_entity_id", who="viewer")
    call = page.locator("#get_tasks_entity_id")
    call.locator("[name=p-entity_id]").fill("nothing")

    call.get_by_role("button", name="Send GET").click()

    expect(call.locator("[data-outcome]")).to_have_text("404 Not Found")
    expect(call.locator("pre")).to_contain_text('"code": "not_found"')


def test_a_token_replaces_the_session(visit: Visits) -> None:
    visit.expect_errors()
    page = visit("/api/v1/docs/#get_stats")
    page.get_by_label("Token").fill("stc_wrong")

    page.get_by_role("button", name="Send GET").click()

    expect(page.locator("[data-outcome]")).to_have_text("401 Unauthorized")
