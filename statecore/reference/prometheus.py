"""The alert rules in the format of Prometheus."""

from __future__ import annotations

import json
from collections.abc import Iterator

from .alerts import Told
from .alerts import rules as alert_rules


def rules() -> str:
    """A text in JSON is one in YAML too, so nothing has to be escaped in another way."""
    lines = [line for told in alert_rules() for line in _rule(told)]
    return "\n".join(
        ["# Written by `manage.py machines --docs`.", "groups:", "  - name: statecore", "    rules:", *lines, ""]
    )


def _rule(told: Told) -> Iterator[str]:
    yield f"      - alert: Statecore{told.name.title().replace('_', '')}"
    yield f"        expr: {json.dumps(told.expression)}"
    if told.lasting:
        yield f"        for: {told.lasting}"
    yield "        labels:"
    yield f"          severity: {told.severity}"
    yield "        annotations:"
    yield f"          summary: {json.dumps(f'{told.means[:1].upper()}{told.means[1:]}.')}"
    yield f"          runbook: {json.dumps(told.section)}"
