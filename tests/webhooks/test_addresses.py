"""The addresses to which webhooks are sent: public ones over https, unless the settings allow more."""

from __future__ import annotations

import asyncio
import socket
from ipaddress import ip_address
from typing import Any

import pytest

from statecore.delivery.webhooks import sender
from statecore.delivery.webhooks.sender import Response
from statecore.records import webhook_address
from tests.support.receivers import Receiver

pytestmark = pytest.mark.once_on("sqlite")  # they use no database

PRIVATE = (
    "0.0.0.0", "10.0.0.1", "100.64.0.1", "100.100.100.200", "127.0.0.1", "127.255.255.254", "169.254.169.254",  # noqa: S104 - refused, not bound to
    "172.16.0.1", "172.31.255.255", "192.0.0.192", "192.0.2.1", "192.168.1.1", "198.18.0.1", "198.51.100.1",
    "203.0.113.1", "224.0.0.1", "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "fc00::1", "fd00:ec2::254", "fe80::1", "fec0::1", "ff02::1", "2001:db8::1", "100::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::127.0.0.1", "2002:7f00:1::", "64:ff9b::a00:1",
    "64:ff9b::169.254.169.254", "2001:0:7f00:1::",
)  # fmt: skip
PUBLIC = ("1.1.1.1", "8.8.8.8", "93.184.216.34", "2606:4700:4700::1111", "::ffff:8.8.8.8", "64:ff9b::8.8.8.8")


@pytest.fixture(autouse=True)
def strict(allowed: None, settings: Any) -> None:
    """Takes back what the folder's fixture allows."""
    settings.STATECORE_WEBHOOK_HTTP = False
    settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES = []


@pytest.mark.parametrize("address", PRIVATE)
def test_an_address_that_is_not_public_is_refused(address: str) -> None:
    assert not webhook_address.is_allowed(ip_address(address))
    host = f"[{address}]" if ":" in address else address
    assert "not public" in str(webhook_address.url_error(f"https://{host}/"))


@pytest.mark.parametrize("address", PUBLIC)
def test_a_public_address_is_allowed(address: str) -> None:
    assert webhook_address.is_allowed(ip_address(address))


@pytest.mark.parametrize(
    ("url", "reason"),
    [
        ("ftp://example.com/", "must be a URL like"),
        ("https:///path", "must be a URL like"),
        ("https://example.com:99999/", "must be a URL like"),
        ("https://[::1/", "must be a URL like"),
        ("http://example.com/", "must begin with https://"),
        ("https://user:secret@example.com/", "without user name"),
        ("https://@example.com/", "without user name"),
        ("https://example.com/#part", "without a fragment"),
        ("https://example.com:22/", "must have the port"),
        ("https://example.com/ x", "visible ASCII"),
        ("https://example.com\\@127.0.0.1/", "visible ASCII"),
        ("https://ex\tample.com/", "visible ASCII"),
        ("https://müller.example/", "visible ASCII"),
        ("https://2130706433/", "neither a name nor"),
        ("https://0x7f000001/", "neither a name nor"),
        ("https://0x7f.1/", "neither a name nor"),
        ("https://0177.0.0.1/", "neither a name nor"),
        ("https://127.1/", "neither a name nor"),
        ("https://127.0.0.1./", "neither a name nor"),
        ("https://exa_mple..com/", "neither a name nor"),
        ("https://" + "a" * 3_000, "at most 2000"),
        (5, "must be text"),
    ],
)
def test_a_url_that_could_mislead_is_refused(url: object, reason: str) -> None:
    assert reason in str(webhook_address.url_error(url))


@pytest.mark.parametrize("url", ["https://example.com", "https://a.b.example:8443/x?y=z", "https://1.1.1.1/"])
def test_a_plain_url_is_accepted(url: str) -> None:
    assert webhook_address.url_error(url) is None


def test_the_setting_allows_networks_also_for_mapped_addresses(settings: Any) -> None:
    settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ["10.1.0.0/16", "::1"]
    allowed = {
        each for each in (*PRIVATE, "10.1.2.3", "::ffff:10.1.2.3") if webhook_address.is_allowed(ip_address(each))
    }
    assert allowed == {"::1", "10.1.2.3", "::ffff:10.1.2.3"}


def send(url: str) -> Response:
    async def run() -> Response:
        async with sender.open_connections(sender.httpcore.default_ssl_context()) as connections:
            return await sender.send(connections, url, b"{}", {"webhook-id": "m1"})

    return asyncio.run(run())


@pytest.mark.parametrize("host", ["localhost", "2130706433", "0x7f.1", "127.1", "[::ffff:127.0.0.1]"])
def test_the_address_is_checked_when_connecting_whatever_was_stored(receiver: Receiver, host: str) -> None:
    response = send(f"http://{host}:{receiver.server_port}/")
    assert (response.status, receiver.received) == (None, [])
    assert "not public" in response.error


def resolve_to(monkeypatch: pytest.MonkeyPatch, *answers: str) -> None:
    """Resolves every name to the next of these addresses, as the name server of an attacker does."""
    remaining = list(answers)

    async def getaddrinfo(self: Any, host: str, port: int, **_: Any) -> list[Any]:
        address = remaining.pop(0)
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (address, port))]

    monkeypatch.setattr(asyncio.BaseEventLoop, "getaddrinfo", getaddrinfo)


def test_a_name_that_is_rebound_to_a_private_address_is_refused(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolve_to(monkeypatch, "127.0.0.1")
    response = send(f"http://rebound.example:{receiver.server_port}/")
    assert response.error.startswith("rebound.example has the address 127.0.0.1, which is not public")
    assert receiver.received == []


def test_the_connection_is_made_to_the_address_that_was_checked(
    receiver: Receiver, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    """The name is resolved once; a second answer, which would be another address, is never asked for."""
    settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ["127.0.0.1"]
    resolve_to(monkeypatch, "127.0.0.1")
    response = send(f"http://one.example:{receiver.server_port}/path?x=1")
    assert response.status == 204
    (message,) = receiver.received
    assert (message.headers["host"], message.headers["path"]) == (f"one.example:{receiver.server_port}", "/path?x=1")


def test_a_name_without_an_address_and_a_closed_port_are_failures(settings: Any) -> None:
    settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ["127.0.0.1"]
    assert send("http://127.0.0.1:1/").error.startswith("cannot connect")
    assert send("https://nowhere.invalid/").error == "cannot connect: its name cannot be resolved"
