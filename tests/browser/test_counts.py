"""Numbers that a page keeps up to date count what exists, not what the page draws."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import expect

from tests.browser.test_live import is_live
from tests.browser.visits import Visits


def test_the_progress_of_a_run_counts_tasks_that_are_not_drawn(site: Any, visit: Visits) -> None:
    site.do("plan", run="large", tasks=5)
    site.do("force", machine="task", entity_id="large-t4", to_state="cancelled")
    page = visit("/runs/large/?open=")
    page.wait_for_selector("body[data-ready=yes]")

    expect(page.locator("#graph [data-part^=task]")).to_have_count(0)
    expect(page.locator("#graph [data-part='workstream large-w'] .counts")).to_contain_text("0/5 done")
    expect(page.locator("#total")).to_have_text("5")
    expect(page.locator("#ended")).to_have_text("1")
    assert page.evaluate("document.getElementById('progress').max") == 5


def test_chips_of_a_search_are_not_overwritten_by_the_totals_of_the_machine(site: Any, visit: Visits) -> None:
    site.do("plan", run="chips", tasks=3)
    page = visit("/machines/tasks/?q=run:chips")
    is_live(page)
    shown = page.locator(".filters [data-state] b")
    total = page.evaluate(
        "[...document.querySelectorAll('.filters [data-state] b')].reduce((sum, b) => sum + Number(b.textContent), 0)"
    )
    assert total == 3

    site.do("plan", run="others", tasks=2)
    expect(page.locator("[data-total]")).not_to_have_text(str(total))
    assert sum(int(text) for text in shown.all_text_contents()) == 3
