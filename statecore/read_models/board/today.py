"""How many entities ended today, by machine and final state, and which gates are blocked: for displays.

Counted at most every half minute for all viewers of a process.
"""

from __future__ import annotations

from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Q, Sum

from ...kernel import registry
from ...kernel.clock import rfc3339
from ...machines.test_gate import State, TestGate
from ...records import TransitionRollUp
from ...records.roll_up import Resolution
from .cached import Cached

FACTOR = 6  # of the usual time between two counts
MAX_GATES = 5


class Today(NamedTuple):
    ended: dict[str, dict[str, int]]
    blocked_gates: list[dict[str, Any]]


def _read(at: datetime) -> Today:
    return Today(_count_ended(at), _list_blocked_gates())


def _count_ended(at: datetime) -> dict[str, dict[str, int]]:
    """Counts transitions to final states since midnight UTC."""
    today = TransitionRollUp.objects.filter(resolution=Resolution.DAY, start=Resolution.DAY.truncate(at))
    final = Q()
    for flow in registry.flows():
        final |= Q(entity_type=flow.entity_type, to_state__in=sorted(flow.final))
    rows = today.filter(final).order_by().values_list("entity_type", "to_state")
    found: dict[str, dict[str, int]] = {}
    for entity_type, state, count in rows.annotate(Sum("count")):
        found.setdefault(entity_type, {})[state] = count
    return found


def _list_blocked_gates() -> list[dict[str, Any]]:
    blocked = TestGate.objects.filter(state=State.BLOCKED).order_by("state_entered_at", "pk")
    rows = blocked.values_list("pk", "gate_type", "state_entered_at")[:MAX_GATES]
    return [{"id": pk, "gate_type": kind, "since": rfc3339(since)} for pk, kind, since in rows]


cache = Cached(_read, FACTOR)
