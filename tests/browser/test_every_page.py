"""Every page, light and dark, wide and narrow: accessible, without browser errors, without overflow."""

from __future__ import annotations

from typing import Any

import pytest
from django.conf import settings
from playwright.sync_api import expect

from tests.browser.site import log_in
from tests.browser.visits import Visits

PAGES = {
    "overview": "/",
    "get started": "/start/",
    "incidents": "/incidents/",
    "incident": "/incidents/1/",
    "alerts": "/alerts/",
    "approvals": "/approvals/",
    "webhooks": "/webhooks/",
    "overrides": "/overrides/",
    "audit": "/audit/",
    "account journal": "/audit/accounts/",
    "account": "/account/",
    "runbook": "/runbook/",
    "tokens": "/tokens/",
    "displays": "/displays/",
    "system": "/system/",
    "wall": "/wall/",
    "pairing": "/wall/pair/",
    "machine": "/machines/tasks/",
    "trends of a capability": "/capabilities/gpu/",
    "search": "/machines/tasks/?q=state:queued+run:show",
    "no match": "/machines/tasks/?q=run:nothing",
    "nothing yet": "/machines/pipeline-jobs/",
    "entity": "/machines/tasks/show-t1/",
    "forced entity": "/machines/tasks/show-t5/",
    "related": "/machines/tasks/show-t1/?tab=related",
    "data": "/machines/tasks/show-t1/?tab=data",
    "run": "/runs/show/",
    "tasks of a run": "/runs/show/tasks/",
    "compared runs": "/runs/show/compare/",
    "runs": "/machines/runs/",
    "transition": "/machines/runs/show/transition/run_canceled/",
    "retry": "/machines/tasks/show-t5/retry/",
    "force": "/machines/tasks/show-t1/force/?to=cancelled",
    "force with approval": "/machines/tasks/show-t3/force/?to=completed",
    "second factor": "/second-factor/",
    "accounts": "/accounts/",
    "account of a person": "/accounts/1/",
    "role": "/accounts/roles/1/",
    "service account": "/accounts/services/nightly/",
    "change of a service account": "/accounts/services/nightly/change/",
    "admin": "/admin/",
    "list in the admin": "/admin/statecore/task/",
    "entity in the admin": "/admin/statecore/task/show-t5/change/",
    "event in the admin": "/admin/statecore/event/",
}


COLOURS = ("color-contrast", "link-in-text-block")


def violations(page: Any, *rules: str) -> list[str]:
    """Checks these rules, or all."""
    from axe_playwright_python.sync_playwright import Axe

    # For other results, which nothing reads, axe would describe every element of the page.
    options = {"resultTypes": ["violations"], **({"runOnly": [*rules]} if rules else {})}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_page_is_accessible_and_keeps_its_place(path: str, visit: Visits) -> None:
    page = visit(path, who="admin" if path.startswith(("/admin/", "/accounts/")) else "supervisor")
    page.wait_for_load_state("networkidle") if path != "/" else page.wait_for_selector("[data-chart]")
    every_look_holds(page)


# The admin has transitions. Playwright waits for an evaluation without limit, so the script has a timeout.
STANDS_STILL = """() => Promise.race([
  Promise.all(document.getAnimations().map((each) => each.finished)),
  new Promise((_, fail) => setTimeout(fail, 30_000, new Error("after 30 seconds the page still moves"))),
])"""


def every_look_holds(page: Any) -> None:
    """All rules in the default look; only colour rules in the others."""
    assert violations(page) == []
    for theme, contrast in (("dark", "no-preference"), ("light", "more"), ("dark", "more")):
        page.emulate_media(color_scheme=theme, contrast=contrast, reduced_motion="reduce")
        page.evaluate(STANDS_STILL)
        assert violations(page, *COLOURS) == [], f"{theme}, contrast: {contrast}"
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, "something sticks out at 360 px"


def test_the_pages_after_a_form_are_accessible(site: Any, visit: Visits) -> None:
    """The selection, the confirmation, the results and a receipt."""
    site.do("plan", run="after-form", tasks=1)
    page = visit("/machines/runs/?q=after-form", who="operator")
    page.locator("tbody input").first.check()
    page.get_by_role("button", name="Change selected").click()
    page.get_by_role("link", name="Cancel 1 run").click()
    for step in ("1 will change", "1 changed"):
        expect(page.get_by_role("main")).to_contain_text(step)
        every_look_holds(page)
        page.set_viewport_size({"width": 1280, "height": 800})
        if step == "1 will change":
            page.get_by_role("button", name="Cancel 1 run").click()
    page.goto(f"{site.url}/audit/?entity=after-form&kind=normal")
    page.locator("tbody tr a").first.click()
    expect(page.get_by_role("heading", name="Downstream changes")).to_be_visible()
    every_look_holds(page)


def test_a_missing_page_shows_the_error_page(visit: Visits) -> None:
    page = visit("/machines/tasks/nobody/")
    expect(page.get_by_role("heading", level=1)).to_have_text("Page not found")
    every_look_holds(page)
    assert visit.errors.pop().startswith("Failed to load resource")


@pytest.mark.parametrize("path", ["/machines/tasks/", "/audit/", "/overrides/", "/incidents/"])
def test_a_list_is_no_wider_than_a_desk(path: str, visit: Visits) -> None:
    page = visit(path)
    assert page.locator(".scroll").first.evaluate("(list) => list.scrollWidth - list.clientWidth") <= 0


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_is_accessible(theme: str, visit: Visits) -> None:
    page = visit("/login/", who="stranger", color_scheme=theme)

    assert violations(page) == []


def test_the_required_enrolment_page_is_accessible(site: Any, visit: Visits) -> None:
    site.do("person", name="enrolling")
    site.close_web()
    site.open_web(STATECORE_SECOND_FACTOR="required")
    try:
        page = visit("/login/", who="stranger")
        log_in(page, "enrolling")
        expect(page.get_by_role("heading", level=1)).to_have_text("Set up two-factor authentication")
        every_look_holds(page)
    finally:
        site.close_web()
        site.open_web()


def test_the_lockout_page_is_accessible(visit: Visits) -> None:
    page = visit("/login/", who="stranger")
    for _ in range(settings.AXES_FAILURE_LIMIT):
        with page.expect_navigation():
            log_in(page, "guesser", "wrong")
    expect(page.get_by_role("heading", level=1)).to_have_text("Too many failed logins")
    every_look_holds(page)
    assert "429" in visit.errors.pop()
