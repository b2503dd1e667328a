"""Nothing is reachable without authentication but what must be."""

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

# A screen without a user shows a code and asks whether somebody has typed it; nothing else is there to see.
# Who comes to the code without a password is sent back to the start.
OPEN = {"healthz", "readyz", "login/", "wall/pair/", "wall/pair/done/"}


def routes(resolver: URLResolver, prefix: str = "") -> list[tuple[str, URLPattern]]:
    found = []
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        found += routes(pattern, route) if isinstance(pattern, URLResolver) else [(route, pattern)]
    return found


def closed_addresses() -> list[str]:
    """Every route without parameters that is not open on purpose."""
    return [route for route, _ in routes(get_resolver()) if route not in OPEN and "<" not in route and "(" not in route]


@pytest.mark.django_db
@pytest.mark.parametrize("route", closed_addresses())
def test_a_stranger_is_sent_to_the_login_and_a_program_is_told(client: Client, route: str) -> None:
    response = client.get(f"/{route}")

    if route.startswith("api/"):
        assert response.status_code == 401
        return
    assert response.status_code == 302
    assert response["Location"].startswith(("/login/", "/admin/login/"))


@pytest.mark.django_db
def test_the_front_door_leads_to_the_first_steps_while_there_is_nothing_to_show(client: Client) -> None:
    client.force_login(User.objects.create_superuser("ann"))

    assert client.get("/")["Location"] == "/start/"


@pytest.mark.django_db
def test_static_files_are_served_without_debug(client: Client) -> None:
    assert not settings.DEBUG

    response = client.get("/static/admin/css/base.css")

    assert response.status_code == 200
    assert not response.streaming
    assert b"--primary" in response.content


@pytest.mark.django_db
def test_a_browser_may_load_our_own_files_only(client: Client) -> None:
    policy = client.get("/admin/login/")["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert client.get("/login/")["Content-Security-Policy"] == policy


@pytest.mark.django_db
def test_a_guesser_is_locked_out(client: Client) -> None:
    User.objects.create_superuser("ann", password="correct horse battery")
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post("/login/", {"username": "ann", "password": "guess"})

    response = client.post("/login/", {"username": "ann", "password": "correct horse battery"})

    assert response.status_code == 429
    assert b"15 min" in response.content


@pytest.mark.django_db
def test_a_name_that_is_too_long_is_a_wrong_one(client: Client) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        assert client.post("/login/", {"username": "a" * 3_000, "password": "guess"}).status_code == 200
    assert client.post("/login/", {"username": "a" * 3_000, "password": "guess"}).status_code == 429


@pytest.mark.django_db
def test_passwords_are_kept_with_argon2() -> None:
    user = User.objects.create_user("ann", password="correct horse battery")

    assert user.password.startswith("argon2$")
