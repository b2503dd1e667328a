"""Filters of the journal, as SQL conditions on a position `p` and its event `e` that indexes support."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from django.db import connection

from ...journal import ENTITY_KINDS, event_names
from ...journal.commit_order import EVENTS
from ...kernel import registry
from ...kernel.actors import Channel
from ...kernel.refusals import Invalid
from ...kernel.transition import ERRORS, Severity
from ...storage.journal_rules import ACCOUNT, ENTRY_TYPES
from ...storage.sql_params import in_clause, in_param, quote_states


class Condition(NamedTuple):
    sql: str
    params: list[Any]


@dataclass(frozen=True, slots=True)
class Filters:
    """Each field may have several values; an empty field does not filter."""

    entity_type: Sequence[str] = ()
    entity: Sequence[str] = ()
    run: Sequence[str] = ()
    actor: Sequence[str] = ()
    channel: Sequence[str] = ()
    kind: Sequence[str] = ()
    severity: Sequence[str] = ()
    from_state: Sequence[str] = ()
    to_state: Sequence[str] = ()
    since: datetime | None = None
    until: datetime | None = None
    trigger: Sequence[str] = ()
    event_name: Sequence[str] = ()
    # Only failures, as the failure rate counts them.
    failures: bool = False
    # Reads the account journal instead of the events of machines; requires another permission.
    accounts: bool = False

    def check(self) -> None:
        """Raises Invalid for a value that does not exist."""
        known = {
            "entity_type": [flow.entity_type for flow in registry.flows()],
            "channel": [*map(str, Channel)],
            "kind": ENTITY_KINDS,
            "severity": [*map(str, Severity)],
            "event_name": event_names.list_names(),
        }
        unknown = {name: set(getattr(self, name)) - set(values) for name, values in known.items()}
        errors = {name: [f"must be one of {', '.join(known[name])}."] for name, values in unknown.items() if values}
        if errors:
            raise Invalid(errors)

    def build_conditions(self) -> Iterator[Condition]:
        """Yields an SQL condition for each filter that is set.

        Kinds and severities are literals, because SQLite uses a partial index only if the text is the same.
        """
        if self.kind:
            yield Condition(_build_equality("p.kind", self.kind), [])
        if self.severity:
            yield Condition(_build_equality("p.severity", self.severity), [])
        if self.run:
            yield Condition(
                f"p.run_id {_build_in_clause(self.run)} AND NOT (p.run_id = '')", [_build_in_param(self.run)]
            )
        if self.actor:
            yield Condition(f"p.actor {_build_in_clause(self.actor)}", [_build_in_param(self.actor)])
        if self.channel:
            # Read from each event: this filter is too rare to justify an index. So are those by state.
            yield Condition(_build_equality("e.channel", self.channel), [])
        yield from self._match_states()
        yield self._match_entities() if self.entity else self._match_entity_types()
        if self.trigger:
            yield Condition(f"e.trigger {_build_in_clause(self.trigger)}", [_build_in_param(self.trigger)])
        yield from self._match_declared()
        for operator, moment in ((">=", self.since), ("<", self.until)):
            if moment is not None:
                yield Condition(f"e.timestamp {operator} %s", [connection.ops.adapt_datetimefield_value(moment)])

    def _match_states(self) -> Iterator[Condition]:
        for column, states in (("e.from_state", self.from_state), ("e.to_state", self.to_state)):
            if states:
                yield Condition(f"{column} {_build_in_clause(states)}", [_build_in_param(states)])

    def _match_declared(self) -> Iterator[Condition]:
        """Yields the conditions that follow from the declarations of machines."""
        if self.event_name:
            yield Condition(_match_any(map(_match_name, self.event_name)), [])
        if self.failures:
            yield Condition(_match_failures(), [])

    def _match_entity_types(self) -> Condition:
        """Returns the condition on the entity type, which always separates machines from the account journal."""
        if self.accounts or not self.entity_type:
            machines = f"p.entity_type NOT IN ({quote_states(ENTRY_TYPES)})"
            return Condition(f"p.entity_type = '{ACCOUNT}'" if self.accounts else machines, [])
        return Condition(f"p.entity_type {_build_in_clause(self.entity_type)}", [_build_in_param(self.entity_type)])

    def _match_entities(self) -> Condition:
        """Returns the condition that an event belongs to one of these entities, of any machine without an entity type.

        The events are few. PostgreSQL gets their ids as an array, because for a join it may scan all positions in
        order and expect to fill the page soon.
        """
        machines = self.entity_type or [flow.entity_type for flow in registry.flows()]
        types = [ACCOUNT] if self.accounts else machines
        chains = (
            f"SELECT c.event_id FROM {EVENTS} AS c "
            f"WHERE c.entity_type IN ({', '.join(['%s'] * len(types))}) AND c.entity_id {_build_in_clause(self.entity)}"
        )
        within = f"= ANY(ARRAY({chains}))" if connection.vendor == "postgresql" else f"IN ({chains})"
        return Condition(f"p.event_id {within}", [*types, _build_in_param(self.entity)])


def _match_name(name: str) -> str:
    return _match_any(map(_match_named, event_names.find_named(name)))


def _match_named(events: event_names.NamedEvents) -> str:
    """Returns literal SQL: names of machines, triggers and states are identifiers."""
    conditions = [_build_equality("p.kind", [kind.value for kind in events.kinds])]
    columns = (("p.entity_type", events.entity_type), ("e.trigger", events.trigger), ("e.to_state", events.to_state))
    return " AND ".join(conditions + [f"{column} = '{value}'" for column, value in columns if value])


def _match_failures() -> str:
    """Returns the condition of the counters' failures: an error, or a state that counts as a failure."""
    entered = (
        f"p.entity_type = '{flow.entity_type}' AND {_build_equality('e.to_state', sorted(flow.failures))}"
        for flow in registry.flows()
        if flow.failures
    )
    return _match_any([_build_equality("p.severity", sorted(map(str, ERRORS))), *entered])


def _match_any(conditions: Iterable[str]) -> str:
    return f"({' OR '.join(f'({condition})' for condition in conditions)})"


def _build_equality(column: str, values: Sequence[str]) -> str:
    return f"{column} = '{values[0]}'" if len(values) == 1 else f"{column} IN ({', '.join(map(repr, values))})"


def _build_in_clause(values: Sequence[str]) -> str:
    return in_clause(connection.vendor, len(values))


def _build_in_param(values: Sequence[str]) -> Any:
    return in_param(values, connection.vendor)
