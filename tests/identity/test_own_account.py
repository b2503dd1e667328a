"""The user's own account: a new password, the list of sessions, and the idle time-out."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.models import User
from django.contrib.sessions.models import Session
from django.test import Client

from statecore.dashboard import sessions
from statecore.journal import Event

pytestmark = pytest.mark.django_db

PASSWORD, NEW = "correct horse battery", "another long password"
FORM = {"current": PASSWORD, "new": NEW, "repeated": NEW}
START = datetime(2026, 1, 1, 12, tzinfo=UTC)


@pytest.fixture(autouse=True)
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def browser(address: str = "198.51.100.7", agent: str = "Firefox", name: str = "ada") -> Client:
    """A browser that has logged in and opened a page."""
    client = Client(REMOTE_ADDR=address, headers={"User-Agent": agent})
    assert client.post("/login/", {"username": name, "password": PASSWORD}).status_code == 302
    client.get("/account/")
    return client


def is_logged_in(client: Client) -> bool:
    return bool(client.get("/account/").status_code == 200)


def key_of(client: Client) -> str:
    return str(client.cookies[settings.SESSION_COOKIE_NAME].value)


# The password


def test_a_new_password_ends_the_other_sessions_and_keeps_this_one(ada: User) -> None:
    here, there = browser(), browser(agent="stolen")
    assert here.post("/account/", FORM).status_code == 302
    assert is_logged_in(here)
    assert not is_logged_in(there)
    ada.refresh_from_db()
    assert ada.check_password(NEW)
    assert not Session.objects.filter(pk=key_of(there)).exists()
    entries = Event.objects.filter(entity_id=f"user:{ada.pk}").order_by("sequence")
    triggers = list(entries.values_list("trigger", flat=True))
    assert triggers[-2:] == ["password_changed", "session_ended"]


@pytest.mark.parametrize(
    ("changed", "error"),
    [
        ({"current": "guess"}, "current password is wrong"),
        ({"repeated": "something else"}, "passwords differ"),
        ({"new": "short", "repeated": "short"}, "too short"),
        ({"current": ""}, "current password is wrong"),
    ],
)
def test_a_refused_password_changes_nothing(ada: User, changed: dict[str, str], error: str) -> None:
    here, there = browser(), browser()
    answer = here.post("/account/", {**FORM, **changed})
    assert answer.status_code == 422
    assert error in answer.content.decode()
    ada.refresh_from_db()
    assert ada.check_password(PASSWORD)
    assert is_logged_in(there)


def test_guessing_the_current_password_is_locked_out() -> None:
    """The attack: somebody at an unlocked browser guesses the password."""
    here = browser()
    for _ in range(settings.AXES_FAILURE_LIMIT):
        answer = here.post("/account/", {**FORM, "current": "guess"})
    assert answer.status_code == 429
    assert here.post("/account/", FORM).status_code == 429
    assert User.objects.get().check_password(PASSWORD)


# Sessions


def test_the_list_has_the_sessions_of_this_user_only() -> None:
    User.objects.create_user("bob", password=PASSWORD)
    browser("203.0.113.1", "Browser of Bob", "bob")
    here = browser("198.51.100.7", "Firefox")
    browser("198.51.100.8", "<b>odd</b>")
    page = here.get("/account/").content.decode()
    assert "198.51.100.8" in page
    assert "&lt;b&gt;odd" in page
    assert page.count("data-session=") == 2
    assert "Browser of Bob" not in page
    assert key_of(here) not in page


def test_a_session_is_signed_out_on_its_own() -> None:
    here, there, elsewhere = browser(), browser(), browser()
    here.post("/account/sessions/end/", {"session": sessions.hash_key(key_of(there))})
    assert (is_logged_in(here), is_logged_in(there), is_logged_in(elsewhere)) == (True, False, True)
    entry = Event.objects.filter(trigger="session_ended").get().as_dict()
    assert (entry["actor"], entry["metadata"]["address"]) == ("ada", "198.51.100.7")


def test_all_other_sessions_are_signed_out() -> None:
    here, there, elsewhere = browser(), browser(), browser()
    here.post("/account/sessions/end/", {"session": "others"})
    assert (is_logged_in(here), is_logged_in(there), is_logged_in(elsewhere)) == (True, False, False)


def test_the_session_of_another_user_cannot_be_ended() -> None:
    """The attack: naming the session of someone else."""
    User.objects.create_user("bob", password=PASSWORD)
    bob, here = browser(name="bob"), browser()
    for wanted in (sessions.hash_key(key_of(bob)), key_of(bob), "", "nothing"):
        assert here.post("/account/sessions/end/", {"session": wanted}).status_code == 404
    assert is_logged_in(bob)


@pytest.mark.parametrize(
    ("agent", "browser"),
    [
        ("Mozilla/5.0 (X11; Linux x86_64; rv:140.0) Gecko/20100101 Firefox/140.0", "Firefox on Linux"),
        ("Mozilla/5.0 (Windows NT 10.0) AppleWebKit/537.36 Chrome/140.0 Safari/537.36 Edg/140.0", "Edge on Windows"),
        ("Mozilla/5.0 (Macintosh; Intel Mac OS X 10_15) AppleWebKit/605 Version/18 Safari/605", "Safari on macOS"),
        ("<b>odd</b>", "<b>odd</b>"),
        ("", "unknown"),
    ],
)
def test_a_browser_has_a_short_name(agent: str, browser: str) -> None:
    assert sessions.UserSession("", "", START, START, "", agent, is_current=False).browser == browser


# The idle time-out


def test_a_session_ends_when_no_page_was_opened_for_long() -> None:
    idle = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    with time_machine.travel(START, tick=False) as clock:
        here = browser()
        clock.move_to(START + idle - timedelta(minutes=1))
        assert is_logged_in(here)
        clock.move_to(START + 2 * idle - timedelta(minutes=2))
        assert is_logged_in(here)
        clock.move_to(START + 3 * idle)
        assert not is_logged_in(here)


def test_requests_of_scripts_do_not_extend_a_session() -> None:
    idle = timedelta(seconds=settings.SESSION_COOKIE_AGE)
    with time_machine.travel(START, tick=False) as clock:
        here = browser()
        for number in range(1, 4):
            clock.move_to(START + idle * number / 4)
            here.get("/stuck/", headers={"HX-Request": "true"})
            here.head("/account/")
            here.post("/wall/alive/")
            here.get("/api/v1/machines/")
        clock.move_to(START + idle + timedelta(seconds=1))
        assert not is_logged_in(here)


def test_opening_pages_writes_the_session_once_a_minute() -> None:
    with time_machine.travel(START, tick=False) as clock:
        here = browser()
        stored = Session.objects.get(pk=key_of(here)).session_data
        clock.move_to(START + timedelta(seconds=30))
        here.get("/account/")
        assert Session.objects.get(pk=key_of(here)).session_data == stored
        clock.move_to(START + timedelta(seconds=61))
        here.get("/account/")
        assert Session.objects.get(pk=key_of(here)).session_data != stored
