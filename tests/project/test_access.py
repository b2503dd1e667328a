"""Every URL requires authentication, except those listed here."""

import pytest
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

# A display that is not paired shows its pairing code. The page for the second factor redirects without a password.
SIGN_IN = {"login/", "login/sso/", "login/sso/callback/"}
OPEN = {"healthz", "readyz", "wall/pair/", "wall/pair/status/", *SIGN_IN}


def routes(resolver: URLResolver, prefix: str = "") -> list[tuple[str, URLPattern]]:
    found = []
    for pattern in resolver.url_patterns:
        route = prefix + str(pattern.pattern)
        found += routes(pattern, route) if isinstance(pattern, URLResolver) else [(route, pattern)]
    return found


def closed_addresses() -> list[str]:
    """Returns every route without parameters that is not in OPEN."""
    return [route for route, _ in routes(get_resolver()) if route not in OPEN and "<" not in route and "(" not in route]


@pytest.mark.django_db
@pytest.mark.parametrize("route", closed_addresses())
def test_an_anonymous_request_is_redirected_to_the_login_or_gets_401(client: Client, route: str) -> None:
    response = client.get(f"/{route}")

    if route.startswith("api/"):
        assert response.status_code == 401
        return
    assert response.status_code == 302
    assert response["Location"].startswith(("/login/", "/admin/login/"))


@pytest.mark.django_db
def test_the_start_page_is_shown_while_there_is_no_data(client: Client) -> None:
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
def test_the_content_security_policy_allows_only_our_files(client: Client) -> None:
    policy = client.get("/admin/login/")["Content-Security-Policy"]

    assert "default-src 'self'" in policy
    assert "unsafe" not in policy
    assert client.get("/login/")["Content-Security-Policy"] == policy


@pytest.mark.django_db
def test_repeated_failed_logins_lock_the_account(client: Client) -> None:
    User.objects.create_superuser("ann", password="correct horse battery")
    for _ in range(settings.AXES_FAILURE_LIMIT):
        client.post("/login/", {"username": "ann", "password": "guess"})

    response = client.post("/login/", {"username": "ann", "password": "correct horse battery"})

    assert response.status_code == 429
    assert b"15 min" in response.content


@pytest.mark.django_db
def test_a_username_that_is_too_long_is_rejected_and_counted(client: Client) -> None:
    for _ in range(settings.AXES_FAILURE_LIMIT - 1):
        assert client.post("/login/", {"username": "a" * 3_000, "password": "guess"}).status_code == 200
    assert client.post("/login/", {"username": "a" * 3_000, "password": "guess"}).status_code == 429


@pytest.mark.django_db
def test_passwords_are_hashed_with_argon2() -> None:
    user = User.objects.create_user("ann", password="correct horse battery")

    assert user.password.startswith("argon2$")
