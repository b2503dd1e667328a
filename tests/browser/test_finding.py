"""Search, keyboard shortcuts, saved views, bulk actions and appearance."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import expect

from tests.browser.site import log_in
from tests.browser.visits import Visits


def test_the_search_completes_and_is_kept_in_the_url(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/")
    page.keyboard.press("f")
    page.keyboard.type("stat")
    expect(page.get_by_role("option")).to_have_text("state:")
    page.keyboard.press("Tab")
    page.keyboard.type("fai")
    page.keyboard.press("Tab")
    page.keyboard.type("run:show")
    page.keyboard.press("Enter")

    expect(page).to_have_url(re.compile(r"q=state%3Afailed\+run%3Ashow"))
    expect(page.locator("tbody tr")).to_have_count(1)
    page.reload()
    expect(page.locator("#q")).to_have_value("state:failed run:show")


def test_everything_can_be_reached_by_keys(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/?q=run:show&order=id")
    page.keyboard.press("j")
    page.keyboard.press("j")
    expect(page.locator("tr[aria-selected]")).to_have_attribute("data-id", "show-t5")
    expect(page).to_have_url(re.compile("#show-t5$"))
    page.keyboard.press("k")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("show-t6")
    page.wait_for_load_state()  # the shortcuts work once the scripts have run
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("search")
    page.keyboard.press("Escape")
    page.keyboard.press("i")
    expect(page.get_by_role("heading", level=1)).to_have_text("Incidents")


def test_shortcuts_are_inactive_while_the_help_is_open(visit: Visits) -> None:
    page = visit("/alerts/")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("i")
    page.keyboard.press("Escape")

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_have_text("Alerts")


def test_shift_and_tab_leave_the_search(visit: Visits) -> None:
    page = visit("/machines/tasks/")
    page.keyboard.press("f")
    page.keyboard.type("stat")
    expect(page.get_by_role("option")).to_be_visible()
    page.keyboard.press("Shift+Tab")

    expect(page.locator("#q")).not_to_be_focused()
    expect(page.locator("#q")).to_have_value("stat")


def test_rows_that_arrive_in_an_empty_list_are_selected_by_keys(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/?q=run:later-walked")
    expect(page.locator("[data-empty=no-match]")).to_be_visible()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    site.do("plan", run="later-walked", tasks=2)
    page.locator("#news").click()
    expect(page.locator("tbody tr")).to_have_count(2)
    page.keyboard.press("j")

    expect(page.locator("tr[aria-selected]")).to_have_count(1)


@pytest.mark.parametrize("path", ["/audit/", "/overrides/", "/tokens/", "/incidents/"])
def test_the_selected_row_of_every_list_is_in_the_url(path: str, visit: Visits) -> None:
    page = visit(path)
    if path == "/tokens/":
        page.get_by_label("Name").fill("to be chosen")
        page.get_by_role("button", name="Create token").click()
        page.goto(page.url)
    page.keyboard.press("j")
    expect(page).to_have_url(re.compile("#.+"))
    page.reload()

    expect(page.locator("tr[aria-selected]")).to_have_count(1)


def test_without_a_clipboard_the_text_is_selected(visit: Visits, site: Any) -> None:
    """As over plain HTTP, where the browser offers no clipboard."""
    page = visit("/alerts/")
    page.add_init_script("Object.defineProperty(navigator, 'clipboard', { value: undefined })")
    page.goto(f"{site.url}/start/")
    button = page.get_by_role("button", name="Copy command").first
    command = button.get_attribute("data-copy")
    button.click()

    expect(page.get_by_role("status").filter(has_text="Selected")).to_be_visible()
    assert page.evaluate("String(getSelection())") == command
    page.keyboard.press("Tab")
    expect(page.get_by_role("button", name="Copy command").first).to_be_visible()


def test_without_access_no_socket_is_opened_repeatedly(site: Any, visit: Visits) -> None:
    """A refused socket would write an error to the console and fail this test."""
    site.do("person", name="nobody", group="")
    page = visit("/login/?next=/tokens/", who="stranger")
    sockets: list[Any] = []
    page.on("websocket", lambda socket: sockets.append(socket))
    log_in(page, "nobody")
    expect(page.get_by_role("heading", level=1)).to_have_text("Tokens")
    page.wait_for_load_state("networkidle")

    assert sockets == []


def test_without_access_to_events_the_page_shows_its_time_and_opens_no_socket(site: Any, visit: Visits) -> None:
    """The numbers stay live; a refused socket would write an error to the console and fail this test."""
    site.do("person", name="deaf", group="", may=["view_task"])
    page = visit("/login/", who="stranger")
    sockets: list[Any] = []
    page.on("websocket", lambda socket: sockets.append(socket))
    log_in(page, "deaf")
    page.wait_for_selector("#freshness")
    for path in ("/", "/machines/tasks/", "/machines/tasks/show-t1/"):
        page.goto(f"{site.url}{path}")
        expect(page.locator("body")).to_have_attribute("data-connection", "live")
        expect(page.locator("#freshness")).to_have_attribute("data-state", "static")
        expect(page.locator("#freshness time")).to_be_visible()

    assert {socket.url.rpartition("/ws/")[2] for socket in sockets} == {"board/"}


def test_a_view_is_saved_and_found_by_others(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/?q=state:failed", who="operator")
    page.locator("#views-menu summary").click()
    page.get_by_label("Save this search as").fill("What failed")
    page.get_by_label("Share with everyone").check()
    page.get_by_role("button", name="Save").click()
    expect(page).to_have_url(re.compile("state%3Afailed"))

    other = visit("/machines/tasks/", who="viewer")
    other.locator("#views-menu summary").click()
    other.get_by_role("link", name="What failed").click()
    expect(other.locator("#q")).to_have_value("state:failed")


def test_many_entities_are_changed_by_a_locked_selection(site: Any, visit: Visits) -> None:
    for number in range(3):
        site.do("plan", run=f"many-{number}", tasks=1)
    page = visit("/machines/runs/?q=many-", who="operator")
    page.locator('tr[data-id="many-0"] input').check()
    page.get_by_role("button", name="Select page").click()
    expect(page.get_by_role("button", name="Change all 3 matching")).to_be_visible()
    page.get_by_role("button", name="Change selected").click()
    site.do("plan", run="many-late", tasks=1)
    page.get_by_role("link", name="Cancel 3 runs").click()
    expect(page.locator(".note")).to_contain_text("3 will change")
    page.get_by_role("button", name="Cancel 3 runs").click()

    expect(page.get_by_role("status").filter(has_text="of 3")).to_contain_text("3 changed")
    assert site.do("state", machine="run", entity_id="many-2")["state"] == "canceled"
    assert site.do("state", machine="run", entity_id="many-late")["state"] == "running"


def test_the_chosen_theme_is_kept(site: Any, visit: Visits) -> None:
    page = visit("/start/", who="viewer", color_scheme="light")
    page.locator("details.menu summary").click()
    page.get_by_role("button", name="Dark").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

    page.goto(f"{site.url}/alerts/")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(12, 15, 20)"


def test_an_entity_page_verifies_its_history(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/show-t5/")
    page.get_by_role("button", name="Verify history").click()

    expect(page.locator("#proof")).to_contain_text("Verified")


def test_a_token_is_shown_once_and_revoked(site: Any, visit: Visits) -> None:
    page = visit("/tokens/", who="operator")
    page.get_by_label("Name").fill("from the browser")
    page.get_by_role("button", name="Create token").click()
    expect(page.locator("#token-text")).to_have_text(re.compile("^stc_"))
    page.goto(f"{site.url}/tokens/")
    expect(page.locator("#token-text")).to_have_count(0)
    page.get_by_role("button", name="Revoke").click()
    expect(page.get_by_role("row", name="from the browser")).to_contain_text("revoked")


def test_single_keys_can_be_switched_off(site: Any, visit: Visits) -> None:
    page = visit("/alerts/")
    page.locator("#help-open").click()
    page.get_by_label("Enable shortcuts").uncheck()
    page.get_by_role("button", name="Close").click()
    page.keyboard.press("i")
    page.keyboard.press("?")

    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.get_by_role("heading", level=1)).to_have_text("Alerts")


def test_the_audit_reads_times_in_the_zone_of_the_viewer(site: Any, visit: Visits) -> None:
    page = visit("/audit/", timezone_id="Asia/Tokyo")
    page.get_by_label("Since").fill("2026-01-01T09:30")
    page.get_by_role("button", name="Search", exact=True).click()

    expect(page).to_have_url(re.compile(r"since=2026-01-01T00%3A30%3A00\.000Z"))
    expect(page.get_by_label("Since")).to_have_value("2026-01-01T09:30")
    expect(page.locator("tbody tr").first).to_be_visible()


def test_the_journal_is_verified_and_exported(site: Any, visit: Visits) -> None:
    page = visit("/audit/?entity=show-t5")
    page.get_by_role("button", name="Verify").click()
    expect(page.locator("#verified")).to_contain_text("Recent events verified")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export").click()
    lines = Path(download.value.path()).read_text().splitlines()

    assert [json.loads(line)["entity_id"] for line in lines] == ["show-t5"] * len(lines)
    assert len(lines) == len(site.do("events", machine="task", entity_id="show-t5"))


def test_an_incident_is_handled_by_keys_alone(site: Any, visit: Visits) -> None:
    page, other = visit("/", who="operator"), visit("/incidents/", who="viewer")
    theirs = other.locator("tbody tr", has_text="Task show-t5 failed")
    expect(theirs).to_contain_text("not acknowledged")
    page.keyboard.press("i")
    mine = page.locator("tbody tr", has_text="Task show-t5 failed")
    expect(mine).to_be_visible()
    for _ in range(page.locator("tbody tr").count()):
        page.keyboard.press("j")
        if mine.get_attribute("aria-selected") == "true":
            break
    page.keyboard.press("a")
    expect(mine).to_contain_text("operator")
    mine.get_by_role("link", name="Task show-t5 failed").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_contain_text("Task show-t5 failed")
    expect(page.get_by_role("link", name="Retry task").first).to_be_visible()
    page.get_by_label("Note").focus()
    page.keyboard.type("the disk was full")
    page.get_by_role("button", name="Add note").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("listitem").filter(has_text="the disk was full")).to_be_visible()

    other.reload()
    expect(theirs).to_contain_text("operator")


def test_of_two_operators_on_one_incident_the_later_one_keeps_the_text(site: Any, visit: Visits) -> None:
    list_page = visit("/incidents/?view=open")
    path = list_page.get_by_role("link", name="No worker for gpu").get_attribute("href")
    first, second = visit(path, who="operator"), visit(path)
    second.get_by_label("Note").fill("I restart the host")
    first.get_by_role("button", name="Assign to me").click()
    expect(first.locator("dd", has_text="operator").first).to_be_visible()
    second.get_by_role("button", name="Assign to me").click()

    expect(second.get_by_role("alert")).to_contain_text("The state changed while you were editing")
    expect(second.get_by_label("Note")).to_have_value("I restart the host")
    second.get_by_role("button", name="Assign to me").click()
    expect(second.get_by_role("listitem").filter(has_text="I restart the host")).to_be_visible()
    visit.expect_errors()  # the browser reports the conflict
