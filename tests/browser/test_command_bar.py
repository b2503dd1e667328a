"""The command bar: everything by keyboard, what the account may see, and accessible at any width."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_every_page import every_look_holds
from tests.browser.visits import Visits

LABEL = """async () => {
  const token = JSON.parse(document.body.getAttribute("hx-headers"))["X-CSRFToken"];
  const headers = { "Content-Type": "application/json", "X-CSRFToken": token };
  const body = JSON.stringify({ metadata: { team: "core" } });
  const answer = await fetch("/api/v1/tasks/labelled-t1/", { method: "PATCH", headers, body });
  if (!answer.ok) throw answer.status;
}"""


def bar(page: Any) -> Any:
    return page.get_by_role("combobox", name="Search everything")


def options(page: Any, **filters: Any) -> Any:
    return page.get_by_role("dialog").get_by_role("option", **filters)


def test_an_id_typed_on_any_page_leads_to_the_entity_and_its_actions_by_keys_only(site: Any, visit: Visits) -> None:
    site.do("plan", run="commanded", tasks=1)
    page = visit("/alerts/", who="operator")
    page.keyboard.press("/")
    expect(bar(page)).to_be_focused()
    page.keyboard.type("commanded")
    expect(options(page).first).to_contain_text("commanded")
    expect(options(page, name="Cancel run commanded")).to_be_visible()
    page.keyboard.type(" cancel")
    expect(options(page, name=re.compile("^Pause"))).to_have_count(0)
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    expect(options(page, selected=True)).to_have_text("Cancel run commanded")
    expect(bar(page)).to_have_attribute(
        "aria-activedescendant",
        str(options(page, selected=True).get_attribute("id")),
    )
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Cancel run")
    page.go_back()

    page.keyboard.press("Control+k")
    page.keyboard.type("commanded-t1")
    page.keyboard.press("Enter")  # at once: it waits for the options of these words
    expect(page.get_by_role("heading", level=1)).to_have_text("commanded-t1")
    page.wait_for_load_state()
    page.keyboard.press("/")
    expect(options(page).first).to_contain_text("commanded-t1")  # recent
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_searches_metadata_pages_and_saved_views_are_found(site: Any, visit: Visits) -> None:
    site.do("plan", run="labelled", tasks=2)
    page = visit("/machines/tasks/", who="operator")
    page.evaluate(LABEL)
    page.keyboard.press("Control+k")
    page.keyboard.type("meta.team:core")
    expect(options(page, name=re.compile("^labelled-t1"))).to_be_visible()
    expect(options(page, name=re.compile("^labelled-t2"))).to_have_count(0)
    options(page, name="Search tasks: meta.team:core").click()
    expect(page.locator("tbody tr")).to_have_count(1)
    page.keyboard.press("Control+k")
    page.keyboard.type("holds")
    page.keyboard.press("Enter")
    expect(page).to_have_url(re.compile("/holds/$"))


def test_the_id_of_a_run_among_the_tasks_leads_to_the_run(site: Any, visit: Visits) -> None:
    site.do("plan", run="misplaced-plan", tasks=1)
    page = visit("/machines/patches/?q=misplaced-plan")
    expect(page.locator("[data-empty=no-match]")).to_contain_text("Found elsewhere: run misplaced-plan")


def test_it_lists_only_what_the_account_may_see(site: Any, visit: Visits) -> None:
    site.do("person", name="taskless", group="", may=["view_patchledger"])
    page = visit("/search/?q=show-t1", who="viewer")
    expect(page.get_by_role("main")).to_contain_text("show-t1")
    expect(page.get_by_role("main")).not_to_contain_text("Force a state")


def test_the_open_bar_is_accessible_in_every_look(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/")
    page.get_by_role("button", name=re.compile("Search")).click()
    bar(page).fill("show-t1")
    expect(options(page).first).to_be_visible()
    every_look_holds(page)
