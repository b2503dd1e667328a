"""Sign-in as the person that a trusted proxy names in a header, and headers that others send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from django.contrib.auth.models import User
from django.test import Client

from statecore.accounts import identity_header
from statecore.project import environment
from statecore.project.refusal import Refused

pytestmark = [pytest.mark.django_db, pytest.mark.once_on("sqlite")]

PROXY, STRANGER = "10.0.0.7", "203.0.113.9"
HEADERS = {"HTTP_X_FORWARDED_USER": "ann", "HTTP_X_FORWARDED_GROUPS": "engineers, others"}


@pytest.fixture(autouse=True)
def _configured(settings: Any) -> None:
    settings.STATECORE_TRUSTED_PROXIES = ["10.0.0.0/8"]
    settings.STATECORE_IDENTITY_HEADER = "X-Forwarded-User"
    settings.STATECORE_SIGN_IN_GROUPS = {"engineers": "operator"}


def wrap(address: str, headers: list[tuple[bytes, bytes]]) -> Any:
    """Returns what the application gets to know from a request with these headers."""
    seen: list[dict[str, Any]] = []

    async def app(scope: dict[str, Any], receive: Any, send: Any) -> None:
        seen.append(scope)

    scope = {"type": "http", "client": (address, 1), "headers": headers}
    asyncio.run(identity_header.wrap_asgi(app)(scope, None, None))
    return seen[0].get(identity_header.KEY)


class Browser(Client):
    """Sends its requests through the wrapper, as the ASGI server does."""

    def __init__(self, address: str, **headers: str) -> None:
        super().__init__(REMOTE_ADDR=address, **(headers or HEADERS))

    def request(self, **request: Any) -> Any:
        given = {name: str(value) for name, value in {**self.defaults, **request}.items()}
        names = {name: name[5:].lower().replace("_", "-").encode() for name in given if name.startswith("HTTP_X_")}
        known = wrap(given["REMOTE_ADDR"], [(sent, given[name].encode()) for name, sent in names.items()])
        return super().request(**request, **({} if known is None else {identity_header.KEY: known}))


def is_in(browser: Client) -> bool:
    return bool(browser.get("/tokens/").status_code == 200)


def test_the_proxy_names_the_person() -> None:
    browser = Browser(PROXY)
    assert browser.get("/login/", {"next": "/tokens/"}, follow=True).redirect_chain[-1][0] == "/tokens/"
    ann = User.objects.get(username="ann")
    assert set(ann.groups.values_list("name", flat=True)) == {"operator"}
    assert is_in(browser)


def test_a_header_from_another_address_is_ignored() -> None:
    """The attack: somebody reaches the server without the proxy and sends its header."""
    stranger = Browser(STRANGER)
    assert stranger.get("/login/sso/").status_code == 403
    assert stranger.get("/login/").status_code == 200
    forged = Client(REMOTE_ADDR=PROXY, HTTP_STATECORE_IDENTITY="ann", **HEADERS)
    assert forged.get("/login/sso/").status_code == 403
    assert not User.objects.exists()


@pytest.mark.parametrize("name", ["", "ann,eve", "a" * 256, "ann\x00"])
def test_a_header_that_names_nobody_is_refused(name: str) -> None:
    assert Browser(PROXY, HTTP_X_FORWARDED_USER=name).get("/login/sso/").status_code == 403


def test_a_session_belongs_to_the_person_whom_the_proxy_names_now() -> None:
    browser = Browser(PROXY)
    browser.get("/login/sso/")
    assert is_in(browser)
    browser.defaults["HTTP_X_FORWARDED_USER"] = "eve"
    assert browser.get("/api/v1/machines/").status_code == 401
    assert browser.get("/account/", follow=True).context["user"].username == "eve"
    del browser.defaults["HTTP_X_FORWARDED_USER"]
    assert not is_in(browser)


def test_a_lost_group_ends_the_access() -> None:
    browser = Browser(PROXY)
    browser.get("/login/sso/")
    Browser(PROXY, HTTP_X_FORWARDED_USER="ann", HTTP_X_FORWARDED_GROUPS="others").get("/login/sso/")
    assert not is_in(browser)


@pytest.mark.parametrize(
    ("address", "expected"),
    [(PROXY, ("ann", "a,b")), ("::ffff:10.0.0.7", ("ann", "a,b")), (STRANGER, None), ("", None)],
)
def test_only_the_headers_of_the_proxy_are_kept(address: str, expected: Any) -> None:
    """The attack: somebody sends another spelling, which the proxy passes on."""
    headers = [(b"x-forwarded-user", b"ann"), (b"x-forwarded-groups", b"a"), (b"x-forwarded-groups", b"b")]
    assert wrap(address, [*headers, (b"x_forwarded_user", b"eve")]) == expected


def test_it_is_off_by_default_and_needs_a_proxy() -> None:
    assert environment.read({}).identity_header == ""
    given = {"STATECORE_IDENTITY_HEADER": "X-Forwarded-User", "STATECORE_SIGN_IN_GROUPS": "engineers=operator"}
    with pytest.raises(Refused, match="STATECORE_IDENTITY_HEADER needs STATECORE_TRUSTED_PROXIES"):
        environment.read(given)
    assert environment.read({**given, "STATECORE_TRUSTED_PROXIES": PROXY}).sign_in_groups == {"engineers": "operator"}
