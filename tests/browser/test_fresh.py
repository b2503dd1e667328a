"""The freshness indicator, and notices about new data."""

from __future__ import annotations

import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.test_live import is_live
from tests.browser.test_memory import TAP
from tests.browser.visits import Visits
from tests.support.waiting import until


def test_a_disconnected_page_shows_its_time_and_stops_its_clocks(site: Any, visit: Visits) -> None:
    site.do("plan", run="away", tasks=1)
    page = visit("/machines/tasks/?q=run:away")
    is_live(page)
    page.evaluate("document.querySelector('#freshness time').textContent = 'of when it was loaded'")
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")

    shown = page.locator("#freshness time")
    expect(shown).to_be_visible()
    contact = shown.evaluate("(time) => new Date(time.dateTime).toTimeString().slice(0, 8)")
    expect(shown).to_have_text(contact)
    site.open_web()
    is_live(page)
    visit.expect_errors()  # the browser reports the unreachable server


COLOURS = """() => {
  const of = (place) => getComputedStyle(document.querySelector(place));
  return { muted: of(".muted").color, loud: of(".figure.bad .value").color, chip: of("#feed .chip").color,
    feed: of("#feed li").filter, bar: of(".machine .bar").filter, tally: of(".tally.loud").color };
}"""


def test_a_logged_out_page_links_to_the_login(site: Any, visit: Visits) -> None:
    page = visit("/incidents/")
    expect(page.locator("#freshness time")).to_be_visible()
    page.context.clear_cookies()
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")
    site.open_web()

    page.get_by_role("link", name="Log in").click()
    expect(page).to_have_url(f"{site.url}/login/?next=/incidents/")
    visit.expect_errors()  # the browser reports the unreachable server


def test_a_disconnected_page_is_grey_and_shows_its_time_on_a_phone(site: Any, visit: Visits) -> None:
    page = visit("/", viewport={"width": 360, "height": 740})
    is_live(page)
    expect(page.locator(".tally.loud").first).to_have_count(1)
    seen = page.evaluate(COLOURS)
    assert seen["loud"] != seen["muted"]
    assert seen["feed"] == "none"
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")

    seen = page.evaluate(COLOURS)
    assert seen["loud"] == seen["chip"] == seen["tally"] == seen["muted"]
    assert seen["feed"] == seen["bar"] == "grayscale(1)"
    expect(page.locator("#freshness .word")).to_be_visible()
    expect(page.locator("#freshness time")).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    assert page.evaluate("document.querySelector('.top').scrollWidth <= innerWidth")
    site.open_web()
    is_live(page)
    visit.expect_errors()  # the browser reports the unreachable server


def test_an_idle_page_resumes_from_the_position_of_all_events(site: Any, visit: Visits) -> None:
    page = visit("/start/")
    page.add_init_script(TAP)
    page.goto(f"{site.url}/machines/runs/?q=show")
    is_live(page)
    site.do("create", machine="pipeline_job", profile="other", command="analyze")
    until(lambda: site.do("board")["position"] > start(page))
    reached = site.do("board")["position"]
    page.evaluate("(position) => window.tell('/ws/events/', { type: 'position', position })", reached)
    page.evaluate("window.open_one('/ws/events/').close()")

    page.wait_for_function("(n) => window.open_one('/ws/events/')?.url.endsWith(`after=1-${n}`)", arg=reached)


def start(page: Any) -> int:
    return int(page.evaluate("document.body.dataset.position"))


def test_a_run_whose_journal_fails_to_load_shows_an_error_and_retries(site: Any, visit: Visits) -> None:
    page = visit("/start/")
    page.route("**/journal/**", lambda route: route.fulfill(status=500, body="broken"), times=2)
    page.goto(f"{site.url}/runs/show/")
    expect(page.get_by_role("alert")).to_contain_text("The server returned status 500")
    expect(page.locator("#graph .node")).to_have_count(0)
    expect(page.locator("#play")).to_be_disabled()

    expect(page.locator('[data-part="task show-t5"]')).to_have_attribute("data-state", "failed")
    expect(page.get_by_role("alert")).to_have_count(0)
    expect(page.locator("#play")).to_be_enabled()
    assert {each[:23] for each in visit.errors} == {"Failed to load resource"}
    visit.expect_errors()


def test_a_run_shows_every_state_as_a_word_and_a_shape(site: Any, visit: Visits) -> None:
    site.do("plan", run="worded", tasks=2)
    page = visit("/runs/worded/")
    page.wait_for_selector("body[data-ready]")
    box = page.locator('[data-part="workstream worded-w"]')
    state = site.do("state", machine="workstream", entity_id="worded-w")["state"]
    expect(box.locator("text")).to_contain_text(state)
    expect(box.locator("use")).to_have_attribute("href", re.compile("#active$"))
    names = page.locator("#gantt rect").evaluate_all("bars => bars.map((bar) => bar.getAttribute('aria-label'))")
    assert any(name.startswith(f"workstream worded-w: {state} from ") for name in names)
    expect(page.locator("#gantt .word").first).to_be_visible()


def test_an_invalid_row_in_the_url_breaks_nothing_else(visit: Visits) -> None:
    page = visit("/machines/tasks/?q=run:show#%E0%A4%A")

    is_live(page)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("next row")


def test_only_entities_that_the_search_finds_count_as_new(site: Any, visit: Visits) -> None:
    site.do("plan", run="found", tasks=2)
    page = visit("/machines/tasks/?q=state:failed")
    is_live(page)
    site.do("plan", run="elsewhere", tasks=2)
    site.do("force", machine="task", entity_id="found-t1", to_state="failed")

    expect(page.locator("#news")).to_have_text("+1 new")
    page.locator("#news").click()
    expect(page.locator('tr[data-id="found-t1"]')).to_be_visible()


def test_events_that_a_search_cannot_check_are_announced_as_possible_matches(site: Any, visit: Visits) -> None:
    page = visit("/machines/tasks/?q=actor:nobody-yet")
    expect(page.locator("[data-empty=no-match]")).to_be_visible()
    is_live(page)
    site.do("plan", run="perhaps", tasks=1)

    expect(page.locator("#news")).to_have_text("1 may match. Refresh")


MANY = """(count) => window.tell("/ws/events/", { type: "events", events: Array.from({ length: count }, (_, place) => ({
  position: 1e9 + place, event: { entity_type: "task", entity_id: `many-${place}`, kind: "created", to_state: "pending",
    sequence: 1, timestamp: new Date().toISOString() } })) })"""


def test_new_rows_are_counted_up_to_a_thousand(site: Any, visit: Visits) -> None:
    page = visit("/start/")
    page.add_init_script(TAP)
    page.goto(f"{site.url}/machines/tasks/?q=many-")
    is_live(page)
    page.wait_for_function("window.is_open('/ws/events/')")
    page.evaluate(MANY, 1_000)
    expect(page.locator("#news")).to_have_text("+1000 new")
    page.evaluate(MANY, 1_001)
    expect(page.locator("#news")).to_have_text("+1000 or more new")
    page.locator("#news").click()
    expect(page.locator("#news")).to_be_hidden()


HIDE = """(word) => {
  Object.defineProperty(document, "hidden", { value: word === "hidden", configurable: true });
  document.dispatchEvent(new Event("visibilitychange"));
}"""


def test_a_hidden_page_disconnects_and_catches_up(site: Any, visit: Visits) -> None:
    site.do("plan", run="hidden", tasks=1)
    page = visit("/")
    closed: list[Any] = []
    page.on("websocket", lambda socket: socket.on("close", lambda each: closed.append(each)))
    page.goto(f"{site.url}/machines/tasks/?q=run:hidden")
    is_live(page)
    page.evaluate(HIDE, "hidden")
    until(lambda: page.wait_for_timeout(50) or len(closed) == 2)
    site.do("force", machine="task", entity_id="hidden-t1", to_state="failed")
    state = page.locator('tr[data-id="hidden-t1"] [data-chip]')
    assert state.inner_text() != "failed"

    page.evaluate(HIDE, "shown")
    expect(state).to_have_text("failed")


def test_a_run_announces_parts_created_later(site: Any, visit: Visits) -> None:
    site.do("plan", run="grows", tasks=1)
    page = visit("/runs/grows/")
    page.wait_for_selector("body[data-ready]")
    is_live(page)
    site.do("grow", run="grows", task="grows-late")

    expect(page.locator("#news")).to_have_text("New parts. Refresh")
    page.locator("#news").click()
    expect(page.locator('[data-part="task grows-late"]')).to_be_visible()


PLACES = """async (rate) => {
  const { draw } = await import("/static/dashboard/diagram.js");
  const [box, drawing] = ["[data-drawing]", "#drawing"].map((place) => document.querySelector(place));
  const drawing_data = JSON.parse(drawing.textContent);
  draw(box, { ...drawing_data, edges: drawing_data.edges.map((edge) => ({ ...edge, rate })) });
  return [...box.querySelectorAll("[data-node] rect")].map((state) => state.outerHTML);
}"""


def test_the_states_keep_their_places_when_the_traffic_changes(visit: Visits) -> None:
    page = visit("/machines/tasks/")
    quiet = page.evaluate(PLACES, 0)
    assert page.locator(".edge .rate").count() == 0

    assert page.evaluate(PLACES, 12.5) == quiet
    assert page.locator(".edge .rate").count() > 5


def test_hovering_a_time_shows_it_exactly_in_the_viewers_zone(site: Any, visit: Visits) -> None:
    site.do("plan", run="timed", tasks=1)
    page = visit("/machines/tasks/?q=run:timed", timezone_id="Asia/Tokyo", locale="en-GB")

    time = page.locator("tbody time").first
    expect(time).to_have_attribute("title", re.compile(r"^\d{4}-\d\d-\d\dT.*Z$"))
    time.hover()
    expect(time).to_have_attribute("title", re.compile(r"\d\d:\d\d:\d\d GMT\+9$"))


def test_a_list_follows_without_moving_and_offers_new_rows(site: Any, visit: Visits) -> None:
    for run in ("swap-old", "swap-new"):
        site.do("plan", run=run, tasks=1)
    site.do("force", machine="task", entity_id="swap-old-t1", to_state="failed")
    site.do("sweep")
    page = visit("/incidents/")
    old, new = (page.locator("tbody tr", has_text=f"Task swap-{name}-t1 failed") for name in ("old", "new"))
    expect(old).to_be_visible()
    notice = page.locator("[data-news]")
    expect(notice).to_be_hidden()
    expect(page.locator("body")).to_have_attribute("data-connection", "live")

    site.do("force", machine="task", entity_id="swap-new-t1", to_state="failed")
    site.do("force", machine="run", entity_id="swap-old", to_state="canceled")
    site.do("sweep")
    expect(notice).to_have_text(re.compile(r"\+\d+ new"))
    expect(old).to_have_class(re.compile("gone"))
    expect(new).to_have_count(0)
    notice.click()

    expect(new).to_be_visible()
    expect(old).to_have_count(0)


def test_the_page_of_an_incident_follows_and_keeps_what_is_typed(site: Any, visit: Visits) -> None:
    site.do("plan", run="told", tasks=2)
    site.do("force", machine="task", entity_id="told-t1", to_state="failed")
    site.do("sweep")
    reading, typing, acting = (visit("/incidents/") for _ in range(3))
    for page in (reading, typing, acting):
        page.get_by_role("link", name="Task told-t1 failed").click()
        expect(page.locator("body")).to_have_attribute("data-connection", "live")
    typing.get_by_label("Note").fill("half a sentence")
    acting.get_by_label("Note").fill("the disk was full")
    acting.get_by_role("button", name="Acknowledge").click()
    site.do("sweep")

    for page in (reading, typing):
        expect(page.locator("[data-section=title]")).to_contain_text("acknowledged")
        expect(page.locator("[data-section=history]")).to_contain_text("the disk was full")
    expect(reading.locator("[data-section=details]")).to_contain_text("by supervisor")
    expect(reading.get_by_role("button", name="Acknowledge")).to_have_count(0)
    expect(typing.get_by_label("Note")).to_have_value("half a sentence")
    expect(typing.get_by_label("Note")).to_be_focused()

    owner = reading.get_by_label("Owner")
    owner.hover()
    before = owner.bounding_box()
    site.do("force", machine="run", entity_id="told", to_state="canceled")
    site.do("sweep")
    expect(reading.locator("[data-section=title]")).to_contain_text("resolved")
    expect(reading.locator("tr.gone")).not_to_have_count(0)
    assert owner.bounding_box() == before
