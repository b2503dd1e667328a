"""Trends in the browser: values under the pointer and by keys, and ranges in the URL."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.visits import Visits


def test_a_chart_shows_its_values_and_the_range_is_in_the_url(site: Any, visit: Visits) -> None:
    page = visit("/")
    chart = page.locator('[data-chart="throughput"]')
    legend = chart.locator("[data-readout]").inner_text()
    chart.locator(".plot").press("ArrowLeft")
    expect(chart.locator("[data-readout]")).to_have_text(re.compile(r"\d\d:\d\d: transitions [\d.]+"))
    chart.locator(".plot").blur()
    expect(chart.locator("[data-readout]")).to_have_text(legend)

    page.get_by_role("link", name="24h").click()
    page.wait_for_url("**/?range=24h")
    expect(page.get_by_role("link", name="24h")).to_have_attribute("aria-current", "true")
    page.go_back()
    expect(page.get_by_role("link", name="1h")).to_have_attribute("aria-current", "true")
    page.goto(f"{site.url}/machines/tasks/")
    expect(page.locator("[data-chart]")).to_have_count(0)
    page.locator("#trends > summary").click()
    expect(page.locator('[data-chart="queue_wait"]')).to_be_visible()
