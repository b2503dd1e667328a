"""A transition of the turnstile from the announcement of its removal to the removal."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from prometheus_client import REGISTRY
from structlog.testing import capture_logs

from statecore import transitions
from statecore.devtools import machine_versions
from statecore.kernel.actors import THE_SYSTEM
from tests import toy

INSTEAD = "use scrap_ordered"


def objections(old: Any, new: Any) -> list[str]:
    return list(machine_versions.find_unversioned_changes({toy.NAME: old}, {toy.NAME: new}))


def read_counter(entity_type: str) -> float:
    labels = {"entity_type": entity_type, "trigger": "pushed"}
    return REGISTRY.get_sample_value("statecore_deprecated_transitions_total", labels) or 0


def with_version(description: Any, version: str) -> Any:
    return {**deepcopy(description), "version": version}


@pytest.mark.django_db(transaction=True)
def test_a_transition_is_deprecated_counted_and_removed() -> None:
    with toy.in_the_database() as flow:
        released = deepcopy(machine_versions.describe_machines()[toy.NAME])
        (push,) = [each for each in flow.transitions if each.trigger == "pushed"]
        # Announced: the transition names its replacement, which is a patch version.
        object.__setattr__(push, "deprecated", INSTEAD)
        announced = machine_versions.describe_machines()[toy.NAME]
        assert "needs a patch version bump" in objections(released, announced)[0]
        announced = with_version(announced, "1.0.1")
        assert objections(released, announced) == []
        # Each use still works, warns and is counted.
        counted = read_counter(flow.entity_type)
        with capture_logs() as logs:
            for number in range(2):
                turnstile = transitions.create(flow.model, id=f"t{number}", actor=THE_SYSTEM).entity
                for trigger, params in (("coin_inserted", {"coin": 2}), ("pushed", {})):
                    transitions.transition(flow.model, turnstile.pk, trigger, actor=THE_SYSTEM, params=params)
        warned = [each for each in logs if each["event"] == "deprecated_transition"]
        assert [(each["instead"], each["entity"]) for each in warned] == [
            (INSTEAD, "turnstile t0"), (INSTEAD, "turnstile t1"),
        ]  # fmt: skip
        assert read_counter(flow.entity_type) == counted + 2
        # Removed: only with a major version.
        removed = deepcopy(announced)
        removed["transitions"] = [each for each in removed["transitions"] if each["trigger"] != "pushed"]
        assert "needs a major version bump" in objections(announced, with_version(removed, "1.1.0"))[0]
        assert objections(announced, with_version(removed, "2.0.0")) == []
