"""Alert rules and dashboards use only existing metrics, and every alert has a runbook section."""

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

from statecore.delivery.sinks.alert_rules import RULES
from statecore.delivery.sinks.counters import Counters
from statecore.delivery.sinks.metrics import Metrics
from statecore.devtools.reference import alerts, metrics
from statecore.kernel import registry
from tests.documentation.test_links import anchors
from tests.support import world
from tests.support.sequencer import catch_up
from tests.support.site import ROOT

TOKEN = "a-token-of-some-length"
DASHBOARDS = sorted((ROOT / "deploy" / "grafana").glob("*.json"))
WORD = re.compile(r"[a-z_]+")
# Words of PromQL.
GRAMMAR = {
    "absent", "by", "histogram_quantile", "increase", "m", "h", "max", "rate", "sum", "topk",
}  # fmt: skip


def rules() -> list[dict[str, Any]]:
    (group,) = yaml.safe_load((ROOT / "deploy" / "prometheus" / "alerts.yml").read_text())["groups"]
    return list(group["rules"])


def panels() -> Iterator[dict[str, Any]]:
    for path in DASHBOARDS:
        yield from json.loads(path.read_text())["panels"]


def expressions() -> list[str]:
    queries = [target["expr"] for panel in panels() for target in panel.get("targets", ())]
    return [*(rule["expr"] for rule in rules()), *queries]


def words(expression: str) -> set[str]:
    """Returns the names of metrics and labels in an expression."""
    return set(WORD.findall(re.sub(r'"[^"]*"', "", expression))) - GRAMMAR


def test_expressions_use_only_existing_metrics_and_labels() -> None:
    known = {sample: {*each.labels, "le"} for each in metrics.list_metrics() for sample in each.samples}
    for expression in expressions():
        used_names = words(expression) & known.keys()
        assert used_names, expression
        assert words(expression) - used_names <= set().union(*(known[name] for name in used_names)), expression


@pytest.mark.django_db(transaction=True)
def test_every_metric_of_an_expression_is_served(settings: Any) -> None:
    """Reads /metrics after a transition."""
    settings.STATECORE_METRICS_TOKEN = TOKEN
    world.fire(world.run(), "run_started")
    catch_up(Counters(), Metrics())
    answer = Client().get("/metrics", headers={"Authorization": f"Bearer {TOKEN}"})
    served = {family.name for family in text_string_to_metric_families(answer.content.decode())}
    used_names = {word for expression in expressions() for word in words(expression)}
    used = {each for each in metrics.list_metrics() if each.samples & used_names}

    assert len(used) >= 8
    assert {each.name.removesuffix("_total") for each in used} <= served


def test_dashboards_name_only_states_of_their_machine() -> None:
    for expression in expressions():
        for entity_type, states in re.findall(r'entity_type="(\w+)",state=~"([^"]*)"', expression):
            assert set(states.split("|")) <= set(registry.flow(entity_type).states)


def test_every_machine_has_a_row_in_a_dashboard() -> None:
    rows = {panel["title"] for panel in panels() if panel["type"] == "row"}

    assert {flow.entity_type for flow in registry.flows()} <= rows


@pytest.mark.parametrize("path", DASHBOARDS, ids=lambda path: path.stem)
def test_no_panel_overlaps_another(path) -> None:
    positions = [panel["gridPos"] for panel in json.loads(path.read_text())["panels"]]
    for one, other in combinations(positions, 2):
        beside = one["x"] + one["w"] <= other["x"] or other["x"] + other["w"] <= one["x"]
        below = one["y"] + one["h"] <= other["y"] or other["y"] + other["h"] <= one["y"]
        assert beside or below, (one, other)
    assert all(position["x"] + position["w"] <= 24 for position in positions)


def test_every_rule_is_in_the_prometheus_rules_and_has_a_runbook_section() -> None:
    internal = [rule.name for rule in RULES]
    sections = {rule["annotations"]["runbook_url"].partition("#")[2] for rule in rules()}

    assert sections == {*internal, *(each.name for each in alerts.EXTERNAL_ALERTS)}
    missing = ", ".join(sorted(sections - set(anchors(ROOT / alerts.RUNBOOK))))
    assert not missing, f"{alerts.RUNBOOK} needs a section for {missing}"
    assert all(rule["annotations"]["runbook_url"].startswith(f"{alerts.EXAMPLE}/runbook/#") for rule in rules())


@pytest.mark.skipif(shutil.which("promtool") is None, reason="promtool is not installed")
def test_promtool_accepts_the_rules() -> None:
    rules_file = ROOT / "deploy" / "prometheus" / "alerts.yml"
    checked = subprocess.run(
        [shutil.which("promtool") or "", "check", "rules", rules_file],
        check=False, capture_output=True, text=True, timeout=120,
    )  # fmt: skip

    assert checked.returncode == 0, checked.stdout + checked.stderr


def test_alert_descriptions_use_only_existing_limits(settings: Any) -> None:
    for rule in RULES:
        assert "{" not in rule.condition.format(**settings.STATECORE_ALERTS)
