"""The alert rules and the dashboards ask only for what /metrics tells, and every alert has its page."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from itertools import combinations
from typing import Any

import pytest
import yaml
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from statecore.kernel import registry
from statecore.reference import alerts, measures
from statecore.sinks.alert_rules import COUNT_RULES, ENTRY_RULES
from statecore.sinks.counters import Counters
from statecore.sinks.metrics import Metrics
from tests.documentation.test_links import anchors
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.site import ROOT

TOKEN = "a-token-of-some-length"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
WORD = re.compile(r"[a-z_]+")
# What PromQL itself brings.
GRAMMAR = {
    "absent", "by", "histogram_quantile", "increase", "m", "h", "max", "rate", "sum",
}  # fmt: skip


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def panels() -> Iterator[dict[str, Any]]:
    for path in DASHBOARDS:
        yield from json.loads(path.read_text())["panels"]


def expressions() -> list[str]:
    asked = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [*(rule["expr"] for rule in rules()), *asked]


def words(expression: str) -> set[str]:
    """The names of metrics and labels in an expression: what is neither quoted nor of the language."""
    return set(WORD.findall(re.sub(r'"[^"]*"', "", expression))) - GRAMMAR


def test_every_word_of_an_expression_is_a_metric_or_one_of_its_labels() -> None:
    known = {sample: {*each.labels, "le"} for each in measures.measures() for sample in each.samples}
    for expression in expressions():
        asked = words(expression) & known.keys()
        assert asked, expression
        assert words(expression) - asked <= set().union(*(known[name] for name in asked)), expression


@pytest.mark.django_db(transaction=True)
def test_every_metric_of_an_expression_is_told(settings: Any) -> None:
    """As Prometheus hears it: once something happened, was forced, was refused and was asked with a key."""
    settings.STATECORE_METRICS_TOKEN = TOKEN
    world.fire(world.run(), "run_started")
    catch_up(Counters(), Metrics())
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    told = {family.name for family in text_string_to_metric_families(answer.content.decode())}
    asked = {word for expression in expressions() for word in words(expression)}
    used = {each for each in measures.measures() if each.samples & asked}

    assert len(used) >= 8
    assert {each.name.removesuffix("_total") for each in used} <= told


def test_every_state_that_a_dashboard_names_is_one_of_its_machine() -> None:
    for expression in expressions():
        for entity_type, states in re.findall(r'entity_type="(\w+)",state=~"([^"]*)"', expression):
            assert set(states.split("|")) <= set(registry.flow(entity_type).states)


def test_every_machine_has_a_row() -> None:
    rows = {panel["title"] for panel in panels() if panel["type"] == "row"}

    assert {flow.entity_type for flow in registry.flows()} <= rows


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_no_panel_covers_another(path) -> None:
    places = [panel["gridPos"] for panel in json.loads(path.read_text())["panels"]]
    for one, other in combinations(places, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    assert all(place["x"] + place["w"] <= 24 for place in places)


def test_every_rule_is_told_to_prometheus_and_has_a_section_that_says_what_to_do() -> None:
    ours = [rule.name for rule in (*COUNT_RULES, *ENTRY_RULES)]
    told = {rule["annotations"]["runbook"].partition("#")[2] for rule in rules()}

    assert told == {*ours, *(each.name for each in alerts.FROM_OUTSIDE)}
    assert told <= anchors(ROOT / alerts.HOW_TO)
    assert all(rule["annotations"]["runbook"].startswith(alerts.HOW_TO) for rule in rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not there")
def test_prometheus_takes_the_rules() -> None:
    rules_file = ROOT / "deploy" / "prometheus" / "alerts.yml"
    subprocess.run(
        [shutil.which("promtool") or "", "check", "rules", rules_file], check=True, capture_output=True, timeout=120
    )


def test_what_an_alert_means_names_only_limits_that_can_be_set(settings: Any) -> None:
    for rule in (*COUNT_RULES, *ENTRY_RULES):
        rule.means.format(**settings.STATECORE_ALERTS)
