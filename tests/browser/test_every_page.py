"""Every page, light and dark, wide and narrow: no violation of accessibility, no complaint, nothing sticks out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

PAGES = {
    "overview": "/",
    "first steps": "/start/",
    "stuck": "/stuck/",
    "alerts": "/alerts/",
    "overrides": "/overrides/",
    "audit": "/audit/",
    "tokens": "/tokens/",
    "screens": "/screens/",
    "wall": "/wall/",
    "pairing": "/wall/pair/",
    "machine": "/machines/tasks/",
    "search": "/machines/tasks/?q=state:queued+run:show",
    "no match": "/machines/tasks/?q=run:nothing",
    "nothing yet": "/machines/pipeline-jobs/",
    "entity": "/machines/tasks/show-t1/",
    "forced entity": "/machines/tasks/show-t5/",
    "related": "/machines/tasks/show-t1/?tab=related",
    "data": "/machines/tasks/show-t1/?tab=data",
    "run": "/runs/show/",
    "move": "/machines/runs/show/move/run_canceled/",
    "retry": "/machines/tasks/show-t5/retry/",
    "force": "/machines/tasks/show-t1/force/?to=cancelled",
    "second factor": "/second-factor/",
    "admin": "/admin/",
    "list in the admin": "/admin/statecore/task/",
    "entity in the admin": "/admin/statecore/task/show-t5/change/",
    "event in the admin": "/admin/statecore/event/",
}


def violations(page: Any) -> list[str]:
    from axe_playwright_python.sync_playwright import Axe

    found = Axe().run(page).response["violations"]
    return [f"{each['id']}: {node['html'][:160]}" for each in found for node in each["nodes"]]


@pytest.mark.parametrize("path", PAGES.values(), ids=PAGES.keys())
def test_a_page_is_accessible_and_keeps_its_place(path: str, visit: Callable[..., Any]) -> None:
    page = visit(path, who="admin" if path.startswith("/admin/") else "supervisor")
    page.wait_for_load_state("networkidle") if path != "/" else page.wait_for_selector("#feed li")
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme, reduced_motion="reduce")
        page.evaluate("Promise.all(document.getAnimations().map((each) => each.finished))")  # the admin fades over
        assert violations(page) == [], theme
    page.set_viewport_size({"width": 360, "height": 740})
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0, "something sticks out at 360 px"


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_login_is_accessible(theme: str, visit: Callable[..., Any]) -> None:
    page = visit("/login/", who="stranger", color_scheme=theme)

    assert violations(page) == []
