"""A fourteenth machine, one file, has all its calls with no line of code."""

from types import ModuleType
from typing import Any

import pytest
from django.urls import clear_url_caches, include, path

from api import collections
from tests import toy
from tests.api.callers import Caller, done, refused

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _turnstiles(settings: Any) -> Any:
    with toy.in_the_database() as flow:
        addresses = ModuleType("addresses")
        addresses.urlpatterns = [  # type: ignore[attr-defined]
            path("api/v1/", include(collections.addresses([flow]))),
            path("api/v1/", include("api.urls")),
        ]
        settings.ROOT_URLCONF = addresses
        clear_url_caches()
        yield
    clear_url_caches()


@pytest.mark.usefixtures("_turnstiles")
def test_a_new_machine_is_served_by_its_file_alone() -> None:
    agent, operator = Caller("agent"), Caller("override")
    one = done(agent.post("turnstiles/", {"id": "north", "price": 3}), 201)
    assert (one["state"], one["price"]) == ("locked", 3)
    assert [row["id"] for row in done(agent.get("turnstiles/?state=locked&price=3"))["results"]] == ["north"]
    told = refused(
        agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted", "coin": 1}), 409, "guard_failed"
    )
    assert told["unmet"][0]["code"] == "too_little"
    refused(agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted"}), 400, "invalid")
    assert done(agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted", "coin": 3}))["changed"]
    moves = {move["trigger"]: move["allowed"] for move in done(agent.get("turnstiles/north/explain/"))["moves"]}
    assert moves == {"pushed": True, "scrap_ordered": False}
    assert done(operator.patch("turnstiles/north/", {"price": 4}))["price"] == 4
    many = done(operator.post("turnstiles/bulk-transitions/", {"ids": ["north"], "trigger": "scrap_ordered"}))
    assert many["refused"] == 0
    successor = done(operator.post("turnstiles/north/retry/"), 201)
    assert successor["retry_of"] == "north"
    body = {"to_state": "unlocked", "reason": "somebody is stuck in it", "category": "stuck"}
    assert done(operator.post(f"turnstiles/{successor['id']}/override/", body))["entity"]["state"] == "unlocked"
    assert len(done(agent.get("turnstiles/north/transitions/"))["results"]) == 3
