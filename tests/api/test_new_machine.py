"""A new machine, declared in one file, has all its API calls without further code."""

from types import ModuleType
from typing import Any

import pytest
from django.urls import clear_url_caches, include, path

from statecore.api import collections
from tests import toy
from tests.api.callers import Caller, expect_ok, expect_refusal

pytestmark = pytest.mark.django_db(transaction=True)


@pytest.fixture
def _turnstiles(settings: Any) -> Any:
    with toy.in_the_database() as flow:
        addresses = ModuleType("addresses")
        addresses.urlpatterns = [  # type: ignore[attr-defined]
            path("api/v1/", include(collections.routes([flow]))),
            path("api/v1/", include("statecore.api.urls")),
        ]
        settings.ROOT_URLCONF = addresses
        clear_url_caches()
        yield
    clear_url_caches()


@pytest.mark.usefixtures("_turnstiles")
def test_a_new_machine_is_served_by_its_file_alone() -> None:
    agent, operator = Caller("agent"), Caller("override")
    one = expect_ok(agent.post("turnstiles/", {"id": "north", "price": 3}), 201)
    assert (one["state"], one["price"]) == ("locked", 3)
    assert [row["id"] for row in expect_ok(agent.get("turnstiles/?state=locked&price=3"))["results"]] == ["north"]
    answer = expect_refusal(
        agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted", "coin": 1}), 409, "guard_failed"
    )
    assert answer["unmet"][0]["code"] == "too_little"
    expect_refusal(agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted"}), 400, "invalid")
    assert expect_ok(agent.post("turnstiles/north/transitions/", {"trigger": "coin_inserted", "coin": 3}))["changed"]
    explained = expect_ok(agent.get("turnstiles/north/explain/"))
    allowed = {each["trigger"]: each["allowed"] for each in explained["transitions"]}
    assert allowed == {
        "pushed": True,
        "scrap_ordered": False,
    }
    assert expect_ok(operator.patch("turnstiles/north/", {"price": 4}))["price"] == 4
    many = expect_ok(operator.post("turnstiles/bulk-transitions/", {"ids": ["north"], "trigger": "scrap_ordered"}))
    assert many["refused"] == 0
    successor = expect_ok(operator.post("turnstiles/north/retry/"), 201)
    assert successor["retry_of"] == "north"
    body = {"to_state": "unlocked", "reason": "somebody is stuck in it", "category": "stuck"}
    assert expect_ok(operator.post(f"turnstiles/{successor['id']}/override/", body))["entity"]["state"] == "unlocked"
    assert len(expect_ok(agent.get("turnstiles/north/transitions/"))["results"]) == 4
