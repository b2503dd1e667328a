"""Two-factor authentication, markup in every field, and operation by keyboard alone."""

from __future__ import annotations

import base64
import re
from typing import Any

from playwright.sync_api import expect

from tests.browser.site import PASSWORD, log_in
from tests.browser.test_every_page import violations
from tests.browser.visits import Visits
from tests.support import openid

EVIL = """<img src=x onerror="console.error('evil')"><script>console.error('evil')</script>"><svg onload=alert(1)>"""


def code_from(page: Any) -> str:
    from django_otp.oath import totp

    text = page.locator("#secret").inner_text().replace(" ", "")
    return f"{totp(base64.b32decode(text)):06}"


def test_two_factor_authentication_with_an_app_and_a_recovery_code(site: Any, visit: Visits) -> None:
    site.do("person", name="careful")
    page = visit("/login/?next=/second-factor/", who="stranger")
    log_in(page, "careful")
    expect(page.locator("svg.qr")).to_be_visible()
    assert violations(page) == []
    page.get_by_label("Current code from the app").fill(code_from(page))
    page.locator("#password").fill(PASSWORD)
    page.get_by_role("button", name="Turn on 2FA").click()
    codes = page.locator("#recovery-codes li").all_inner_texts()
    assert len(codes) == 8
    assert violations(page) == []

    other = visit("/login/?next=/incidents/", who="stranger")
    log_in(other, "careful")
    expect(other.get_by_role("heading", level=1)).to_have_text("Authentication code")
    for theme in ("light", "dark"):
        other.emulate_media(color_scheme=theme)
        assert violations(other) == [], theme
    other.get_by_label("Code").fill("000000")
    other.keyboard.press("Enter")
    expect(other.get_by_role("alert")).to_contain_text("Invalid code")
    other.get_by_label("Code").fill(codes[0].upper())
    other.keyboard.press("Enter")
    expect(other.get_by_role("heading", level=1)).to_have_text("Incidents")


def test_a_passkey_is_added_and_used_to_log_in(site: Any, visit: Visits) -> None:
    """With a virtual authenticator of the browser, under the content security policy."""
    site.do("person", name="key-holder")
    page = visit("/healthz", who="stranger")
    devtools = page.context.new_cdp_session(page)
    devtools.send("WebAuthn.enable")
    options = {"protocol": "ctap2", "transport": "usb", "automaticPresenceSimulation": True}
    devtools.send("WebAuthn.addVirtualAuthenticator", {"options": options})
    # An address is no name of a site, so no passkey belongs to it.
    home = site.url.replace("127.0.0.1", "localhost")
    page.goto(f"{home}/login/?next=/second-factor/")
    log_in(page, "key-holder")
    page.get_by_label("Name", exact=True).fill("my key")
    page.locator("#passkey-password").fill(PASSWORD)
    page.get_by_role("button", name="Add passkey").click()
    expect(page.locator("#recovery-codes li")).to_have_count(8)
    expect(page.get_by_role("cell", name="my key")).to_be_visible()
    assert violations(page) == []

    page.context.clear_cookies()
    page.goto(f"{home}/login/?next=/second-factor/")
    log_in(page, "key-holder")
    expect(page.get_by_role("button", name="Use a passkey")).to_be_visible()
    assert violations(page) == []
    page.get_by_role("button", name="Use a passkey").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Two-factor authentication")
    page.get_by_role("button", name="Turn off 2FA").click()
    expect(page.get_by_role("status").filter(has_text="is off")).to_be_visible()


def test_people_sign_in_with_a_provider(site: Any, visit: Visits) -> None:
    """Under the content security policy, which refuses forms that lead to other sites."""
    with openid.running() as provider:
        site.close_web()
        site.open_web(
            STATECORE_OIDC_ISSUER=provider.issuer,
            STATECORE_OIDC_CLIENT_ID=openid.CLIENT,
            STATECORE_OIDC_CLIENT_SECRET=openid.SECRET,
            STATECORE_OIDC_NAME="Example Corporation",
            STATECORE_SIGN_IN_GROUPS="engineers=supervisor",
            STATECORE_SIGN_IN_ONLY="1",
            STATECORE_BREAK_GLASS_ACCOUNTS="admin",
        )
        page = visit("/login/?next=/incidents/", who="stranger", viewport={"width": 360, "height": 740})
        for theme in ("light", "dark"):
            page.emulate_media(color_scheme=theme)
            assert violations(page) == [], theme
        page.get_by_role("link", name="Continue with Example Corporation").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Incidents")
        other = visit("/login/", who="stranger")
        other.get_by_text("Break-glass login").click()
        log_in(other, "admin")
        expect(other.locator(".banner.bad")).to_contain_text("Break-glass login")
        assert violations(other) == []
        site.close_web()
        site.open_web()
    visit.expect_errors()  # the browser reports the server that was away


def test_markup_in_any_field_stays_text(site: Any, visit: Visits) -> None:
    """A script that ran, or that the policy blocked, would be reported as an error."""
    site.do("plan", run="evil", tasks=2)
    page = visit("/machines/tasks/evil-t1/force/?to=failed")
    page.get_by_label("other").check()
    page.fill("#reason", EVIL)
    page.locator("#force-button").click()
    expect(page.locator("main dl.facts")).to_contain_text("<script>")
    page.goto(f"{site.url}/machines/tasks/?q=run:evil")
    page.locator("#views-menu summary").click()
    page.get_by_label("Save this search as").fill(EVIL[:80])
    page.get_by_role("button", name="Save").click()
    page.locator("#views-menu summary").click()
    expect(page.locator("#views-menu")).to_contain_text("<img")
    page.goto(f"{site.url}/machines/runs/evil/transition/run_canceled/")
    page.fill("#reason", EVIL)
    page.get_by_role("button", name="Cancel run").click()
    expect(page.locator("main")).to_contain_text("<img")
    search = visit("/machines/tasks/")
    search.fill("#q", EVIL)
    search.keyboard.press("Enter")
    expect(search.locator("main")).to_contain_text("No matches")
    for path in (
        "/",
        "/overrides/",
        "/audit/?entity=evil-t1",
        "/machines/tasks/evil-t1/",
        "/runs/evil/",
        "/incidents/",
        "/admin/",
    ):
        each = visit(path, who="admin")
        each.wait_for_load_state("networkidle")
    evil = visit("/displays/")
    evil.get_by_label("Location").fill(EVIL[:80])
    evil.get_by_label("Code on the display").fill('"><b>')
    evil.get_by_role("button", name="Pair display").click()
    expect(evil.locator("main")).to_contain_text("No display shows this code")


def test_a_state_is_forced_by_keys_alone(site: Any, visit: Visits) -> None:
    site.do("plan", run="keys", tasks=1)
    page = visit("/machines/tasks/?q=run:keys")
    page.keyboard.press("j")
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("keys-t1")
    # The browser reports a request that is cut off by leaving the page.
    expect(page.locator("#why")).not_to_contain_text("Finding the cause")

    def tab_to(what: Any) -> None:
        for _ in range(80):
            if what.evaluate("(element) => element === document.activeElement"):
                return
            page.keyboard.press("Tab")
        raise AssertionError(f"{what} cannot be reached by Tab")

    tab_to(page.get_by_role("link", name="Force a state"))
    page.keyboard.press("Enter")
    page.wait_for_url(re.compile("/force/"))
    tab_to(page.get_by_role("radio", name="pending", exact=True))
    failed = page.get_by_role("radio", name="failed", exact=True)
    for _ in range(page.get_by_role("radio").count()):
        if failed.is_checked():
            break
        page.keyboard.press("ArrowDown")
    expect(failed).to_be_checked()
    page.wait_for_selector('#preview [data-to="failed"]')
    tab_to(page.get_by_label("Stuck", exact=True))
    page.keyboard.press("Space")
    tab_to(page.locator("#reason"))
    page.keyboard.type("by keys alone, as some must")
    tab_to(page.locator("#force-button"))
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Manual override")


def test_a_restart_leaves_no_row_out_and_none_twice(site: Any, visit: Visits) -> None:
    """In the list of a machine, rows change in place and new ones are counted once."""
    site.do("plan", run="restart", tasks=2)
    page = visit("/machines/tasks/?q=restart")
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")
    site.close_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "disconnected")
    site.do("force", machine="task", entity_id="restart-t1", to_state="failed")
    site.do("plan", run="restart-2", tasks=3)
    site.open_web()
    expect(page.locator("#freshness")).to_have_attribute("data-state", "live")

    expect(page.locator('tr[data-id="restart-t1"] [data-chip]')).to_have_text("failed")
    expect(page.locator("#news")).to_have_text("+3 new")
    page.locator("#news").click()
    expect(page.locator("tbody tr")).to_have_count(5)
    ids = page.locator("tbody tr").evaluate_all("rows => rows.map((row) => row.dataset.id)")
    assert sorted(ids) == ["restart-2-t1", "restart-2-t2", "restart-2-t3", "restart-t1", "restart-t2"]
    visit.expect_errors()  # the browser reports the unreachable server


def test_a_violation_of_the_content_security_policy_is_reported(visit: Visits) -> None:
    """An inline style violates the policy, which would fail every test here."""
    page = visit("/login/", who="stranger")

    def with_a_style(route: Any) -> None:
        answer = route.fetch()
        route.fulfill(response=answer, body=answer.text().replace("<main", '<p style="color: red">x</p><main', 1))

    page.route("**/login/", with_a_style)
    page.reload()
    assert page.locator("p:text-is('x')").count() == 1
    assert any("style" in each for each in visit.errors)
    visit.expect_errors()
