"""Which events somebody wants to see, as conditions on a position `p` that an index answers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from ..journal import EventKind
from ..kernel import registry
from ..kernel.actors import Channel
from ..kernel.many import among, listed
from ..kernel.moves import Severity
from ..kernel.refusals import Invalid
from ..records.commit_order import EVENTS


class Condition(NamedTuple):
    sql: str
    params: list[Any]


@dataclass(frozen=True, slots=True)
class Filters:
    """Each may name several values; what is not named is not asked for."""

    entity_type: Sequence[str] = ()
    entity: Sequence[str] = ()
    run: Sequence[str] = ()
    actor: Sequence[str] = ()
    channel: Sequence[str] = ()
    kind: Sequence[str] = ()
    severity: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None

    def check(self) -> None:
        known = {
            "entity_type": [flow.entity_type for flow in registry.flows()],
            "channel": [*map(str, Channel)],
            "kind": EventKind.values,
            "severity": [*map(str, Severity)],
        }
        wrong = {name: set(getattr(self, name)) - set(values) for name, values in known.items()}
        errors = {name: [f"must be one of {', '.join(known[name])}."] for name, strange in wrong.items() if strange}
        if errors:
            raise Invalid(errors)

    def conditions(self) -> Iterator[Condition]:
        """Words of ours stand in the statement as they are: SQLite finds a partial index by its text alone."""
        if self.kind:
            yield Condition(_either("p.kind", self.kind), [])
        if self.severity:
            yield Condition(_either("p.severity", self.severity), [])
        if self.run:
            yield Condition(f"p.run_id {_among(self.run)} AND NOT (p.run_id = '')", [_listed(self.run)])
        if self.actor:
            yield Condition(f"p.actor {_among(self.actor)}", [_listed(self.actor)])
        if self.channel:
            # Positions do not know it: an event is looked at for each. Nobody asks often enough to pay for an index.
            yield Condition(_either("e.channel", self.channel), [])
        if self.entity:
            yield self._of_entities()
        elif self.entity_type:
            yield Condition(f"p.entity_type {_among(self.entity_type)}", [_listed(self.entity_type)])
        for compared, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                yield Condition(f"e.timestamp {compared} %s", [connection.ops.adapt_datetimefield_value(moment)])

    def _of_entities(self) -> Condition:
        """By the chains of these entities, which are short. Without a machine, of every machine.

        PostgreSQL gets them as an array: joined, it may prefer to walk all positions in their order, for the few it
        expects to need until the page is full.
        """
        types = self.entity_type or [flow.entity_type for flow in registry.flows()]
        chains = (
            f"SELECT c.event_id FROM {EVENTS} AS c "
            f"WHERE c.entity_type IN ({', '.join(['%s'] * len(types))}) AND c.entity_id {_among(self.entity)}"
        )
        within = f"= ANY(ARRAY({chains}))" if connection.vendor == "postgresql" else f"IN ({chains})"
        return Condition(f"p.event_id {within}", [*types, _listed(self.entity)])


def _either(column: str, words: Sequence[str]) -> str:
    return f"{column} = '{words[0]}'" if len(words) == 1 else f"{column} IN ({', '.join(map(repr, words))})"


def _among(values: Sequence[str]) -> str:
    return among(connection.vendor, len(values))


def _listed(values: Sequence[str]) -> Any:
    return listed(values, connection.vendor)
