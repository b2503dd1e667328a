"""The attacks: guessing the passwords of many accounts from one address, and of one account from many addresses."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from ipaddress import IPv6Address
from typing import Any

import pytest
import time_machine
from django.conf import settings
from django.contrib.auth.models import User
from django.test import Client, RequestFactory
from granian.utils.proxies import wrap_wsgi_with_proxy_headers

from statecore.journal import Event
from statecore.project import commands, connected_networks, environment, lockout
from statecore.project.refusal import Refused

pytestmark = pytest.mark.django_db

PASSWORD = "correct horse battery"
LIMIT = settings.AXES_FAILURE_LIMIT
MANY = lockout.WEIGHT * LIMIT
ATTACKER, HOME = "203.0.113.9", "198.51.100.7"


@pytest.fixture(autouse=True)
def ada() -> User:
    return User.objects.create_user("ada", password=PASSWORD)


def log_in(name: str, password: str = "guess", address: str = ATTACKER, **headers: str) -> int:  # noqa: S107
    client = Client(REMOTE_ADDR=address)
    return int(client.post("/login/", {"username": name, "password": password}, headers=headers).status_code)


def test_one_address_that_tries_many_accounts_is_locked_out() -> None:
    answers = [log_in(f"user-{number}") for number in range(MANY)]
    assert answers == [200] * (MANY - 1) + [429]
    assert log_in("ada", PASSWORD) == 429
    assert log_in("ada", PASSWORD, HOME) == 302


def test_one_account_that_is_tried_from_many_addresses_is_locked_out() -> None:
    answers = [log_in("ada", address=f"203.0.113.{number}") for number in range(MANY)]
    assert answers == [200] * (MANY - 1) + [429]
    assert log_in("ada", PASSWORD, HOME) == 429
    User.objects.create_user("bob", password=PASSWORD)
    assert log_in("bob", PASSWORD, HOME) == 302


def test_an_attacker_cannot_reset_the_count_by_logging_in() -> None:
    User.objects.create_user("mallory", password=PASSWORD)
    for number in range(MANY - 1):
        assert log_in(f"user-{number}") == 200
        assert log_in("mallory", PASSWORD) == 302
    assert log_in("ada") == 429
    assert log_in("mallory", PASSWORD) == 429


def test_a_login_of_the_owner_does_not_reset_the_failures_of_others() -> None:
    for number in range(MANY - 1):
        log_in("ada", address=f"203.0.113.{number}")
    assert log_in("ada", PASSWORD, HOME) == 302
    assert log_in("ada", address="203.0.113.200") == 429


def test_a_login_resets_the_failures_of_the_same_person() -> None:
    for _ in range(3 * LIMIT):
        assert log_in("ada", address=HOME) == 200
        assert log_in("ada", PASSWORD, HOME) == 302


def test_attempts_during_a_lockout_do_not_prolong_it() -> None:
    start = datetime(2026, 1, 1, 12, tzinfo=UTC)
    with time_machine.travel(start, tick=False) as clock:
        for _ in range(LIMIT):
            log_in("ada")
        clock.move_to(start + settings.AXES_COOLOFF_TIME - timedelta(minutes=1))
        assert log_in("ada", PASSWORD) == 429
        clock.move_to(start + settings.AXES_COOLOFF_TIME + timedelta(seconds=1))
        assert log_in("ada", PASSWORD) == 302


def test_a_forged_header_gives_an_attacker_no_new_address() -> None:
    for number in range(LIMIT):
        log_in("ada", **{"X-Forwarded-For": f"192.0.2.{number}", "X-Real-IP": f"192.0.2.{number}"})
    assert log_in("ada", PASSWORD, **{"X-Forwarded-For": "192.0.2.99"}) == 429
    assert log_in("ada", PASSWORD, HOME, **{"X-Forwarded-For": ATTACKER}) == 302
    addresses = {event.as_dict()["context"]["address"] for event in Event.objects.filter(trigger="login_failed")}
    assert addresses == {ATTACKER}


def test_the_addresses_of_an_ipv6_network_count_together() -> None:
    first = int(IPv6Address("2001:db8:1:2::"))
    answers = [log_in("ada", address=str(IPv6Address(first + number * 7919))) for number in range(LIMIT)]
    assert answers[-1] == 429
    assert log_in("ada", PASSWORD, "2001:db8:1:3::1") == 302


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("203.0.113.9", "203.0.113.9"),
        ("::ffff:203.0.113.9", "203.0.113.9"),
        ("2001:db8::7", "2001:db8::"),
        ("", None),
        ("unix", None),
    ],
)
def test_the_network_of_an_address(address: str, network: str | None) -> None:
    assert lockout.get_network(RequestFactory().get("/", REMOTE_ADDR=address)) == network


def test_the_page_says_how_long_to_wait_and_what_to_do() -> None:
    client = Client(REMOTE_ADDR=ATTACKER)
    answers = [client.post("/login/", {"username": "ada", "password": "guess"}) for _ in range(LIMIT)]
    page = " ".join(answers[-1].content.decode().split())
    assert "Wait 15 min" in page
    assert "tell an administrator" in page
    assert "axes_reset" in page


# Proxies


def read(**given: str) -> Any:
    return environment.read(given)


def test_no_proxy_is_trusted_by_default() -> None:
    env = read()
    assert env.trusted_proxies == []
    assert read(STATECORE_TRUSTED_PROXIES="127.0.0.1, 10.0.0.0/8").trusted_proxies == ["127.0.0.1", "10.0.0.0/8"]
    # The application reads the headers itself (project/asgi.py), with the address of the proxy at hand.
    assert "--no-proxy-headers" in commands.web(env)


# /proc/net/route and /proc/net/ipv6_route of a container of Podman, whose networks are not those of Docker.
PODMAN = """Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT
eth0\t00000000\t0100590A\t0003\t0\t0\t100\t00000000\t0\t0\t0
eth0\t0000590A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0
"""
PODMAN_6 = """fd000000000000000000000000000000 40 {0} 00 {0} 00000100 00000001 00000000 00000001     eth0
fe800000000000000000000000000000 40 {0} 00 {0} 00000100 00000002 00000000 00000001     eth0
{0} 00 {0} 00 fd000000000000000000000000000001 00000400 00000003 00000000 00000003     eth0
""".format("0" * 32)


@pytest.mark.parametrize(("proxies", "scheme"), [(["172.16.0.0/12"], "http"), (["connected"], "https")])
def test_the_proxy_of_any_container_network_can_be_trusted(
    monkeypatch: pytest.MonkeyPatch, proxies: list[str], scheme: str
) -> None:
    """A request that still looks like plain HTTP behind the proxy is redirected for ever."""
    monkeypatch.setattr(connected_networks, "read_networks", lambda: connected_networks.find_networks(PODMAN, PODMAN_6))
    trusted = read(STATECORE_TRUSTED_PROXIES=",".join(proxies)).trusted_proxies
    seen: list[str] = []
    application = wrap_wsgi_with_proxy_headers(lambda environ, _: seen.append(environ["wsgi.url_scheme"]), trusted)
    for proxy in ("10.89.0.5", "fd00::5"):
        application(
            {
                "REMOTE_ADDR": proxy,
                "HTTP_X_FORWARDED_FOR": HOME,
                "HTTP_X_FORWARDED_PROTO": "https",
                "wsgi.url_scheme": "http",
            },
            lambda *_: None,
        )

    assert seen == [scheme] * 2


def test_the_networks_of_this_machine_are_read_from_the_kernel() -> None:
    found = read(STATECORE_TRUSTED_PROXIES="connected, 192.0.2.0/24").trusted_proxies

    assert {"127.0.0.0/8", "::1/128", "192.0.2.0/24"} <= set(found)
    assert not {"0.0.0.0/0", "::/0"} & set(found)


def test_https_without_a_trusted_proxy_is_refused_at_start() -> None:
    with pytest.raises(Refused, match="STATECORE_TRUSTED_PROXIES does not name the proxy"):
        read(STATECORE_HTTPS="1")
    assert read(STATECORE_HTTPS="1", STATECORE_TRUSTED_PROXIES="127.0.0.1").https
