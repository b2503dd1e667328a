"""Batches: one trigger for thousands of entities, with the same checks and events, in a few statements."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple

from django.db import transaction

from ..journal import Entry
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.refusals import ConstraintViolated, Refusal
from ..kernel.transition import Facts, Guard, Transition
from ..storage.links import share_lookups
from . import approvals
from .change import Change, event_spec, fire, record, validate_reason_and_metadata
from .entity_reader import not_found
from .outcome import Outcome, count_refusal, counting_refusals
from .unit_of_work import UnitOfWork, run_in_transaction

Choose = Callable[[UnitOfWork], list[Any]]


@dataclass(frozen=True, slots=True)
class Item:
    """The outcome or refusal of one entity of a batch."""

    entity_id: str
    outcome: Outcome | None
    refusal: Refusal | None = None


def transition_many(
    model: type[Entity],
    entity_ids: Iterable[str],
    trigger: str,
    *,
    actor: Actor,
    params: Mapping[str, Any] | None = None,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    cause: Entry | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> list[Item]:
    """Apply a trigger to each entity; the accepted ones are committed together, the others refused one by one."""
    wanted = list(dict.fromkeys(entity_ids))
    turn = Turn(lambda work: work.lock_many(model, wanted), trigger, params or {}, reason, metadata or {}, cause)
    (items,) = transition_in_turn(model, [turn], actor=actor, dry_run=dry_run, within=within)
    return [items.get(entity_id) or missing_item(model, entity_id) for entity_id in wanted]


class Turn(NamedTuple):
    """One batch of several: `choose` locks its entities inside the transaction.

    `known` are guards that hold by the choice. `flush=False` if the other guards read only the row of the entity, so
    that staged changes cannot affect them.
    """

    choose: Choose
    trigger: str
    params: Mapping[str, Any] = {}
    reason: str = ""
    metadata: Mapping[str, Any] = {}
    cause: Entry | None = None
    known: Collection[Guard] = ()
    flush: bool = True

    def cause_of(self, _entity_id: str) -> Entry | None:
        return self.cause


def transition_in_turn(
    model: type[Entity],
    turns: Sequence[Turn],
    *,
    actor: Actor,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> list[dict[str, Item]]:
    """Apply batches one after the other, commit them together, and react to all of them at once."""

    def step(work: UnitOfWork, *, one_by_one: bool) -> list[dict[str, Item]]:
        batches = []
        for turn in turns:
            batch = Batch(work, turn.cause_of, turn.metadata)
            entities = turn.choose(work)
            facts = Facts(now(), actor, turn.params, turn.reason, turn.known)
            batch.apply(entities, turn.trigger, facts, flush=turn.flush, one_by_one=one_by_one)
            batches.append(batch)
        changes = [change for batch in batches for change in batch.changes]
        caused = work.react(changes)
        approvals.check_steps(work, actor, (*(change.entry for change in changes), *caused))
        return [batch.items(model, caused) for batch in batches]

    with counting_refusals(model.flow.entity_type):
        for turn in turns:
            validate_reason_and_metadata(turn.reason, turn.metadata, turn.params)
        try:
            return run_in_transaction(partial(step, one_by_one=False), within=within, dry_run=dry_run)
        except ConstraintViolated:
            if within is not None and within.is_one_step:
                raise
            # Repeated as a whole: a savepoint around every batch would cost each row a multixact on PostgreSQL.
            return run_in_transaction(partial(step, one_by_one=True), within=within, dry_run=dry_run)


def follow_up(
    work: UnitOfWork,
    model: type[Entity],
    causes: Mapping[str, Entry | None],
    trigger: str,
    *,
    params: Mapping[str, Any] | None = None,
    reason: str = "",
    metadata: Mapping[str, Any] | None = None,
    known: Collection[Guard] = (),
    flush: bool = True,
) -> list[str]:
    """Apply a reaction's trigger to these entities, each with the event that caused it.

    Where the guards do not hold, an entity keeps its state. Rows locked elsewhere are skipped; their ids are returned.
    `known` and `flush` as for `Turn`.
    """
    batch = Batch(work, causes.__getitem__, metadata or {})
    found = work.lock_known(model, causes, skip_locked=True)
    # A consequence has the time of the event before it, so that a cascade is one moment in every history.
    at = work.entries[-1].timestamp if work.entries else now()
    batch.apply(found, trigger, Facts(at, THE_SYSTEM, params or {}, reason, known), flush=flush)
    work.react(batch.changes)
    return [] if len(found) == len(causes) else sorted(causes.keys() - {entity.pk for entity in found})


class Fired(NamedTuple):
    """An entity that has changed in memory and is yet to be recorded."""

    entity: Entity
    before: Mapping[str, Any]
    transition: Transition
    facts: Facts


@dataclass(slots=True)
class Batch:
    """Entities that change together: the changes, the repeats that change nothing, and the refusals."""

    work: UnitOfWork
    cause_of: Callable[[str], Entry | None]
    metadata: Mapping[str, Any]
    changes: list[Change] = field(default_factory=list)
    repeated: list[Entity] = field(default_factory=list)
    refusals: list[tuple[Entity, Refusal]] = field(default_factory=list)

    def apply(
        self, entities: list[Any], trigger: str, facts: Facts, *, flush: bool = True, one_by_one: bool = False
    ) -> None:
        """Fire the trigger for each entity, then record and write all changes, or `one_by_one` in savepoints.

        All guards are evaluated before the first write: no guard sees the result of another transition of the batch.
        """
        if flush:
            self.work.flush()
        if len(entities) > 1:
            share_lookups(entities)
        fired = []
        for entity in entities:
            before = entity.__dict__.copy()
            # Shared by all, except an entity that was written by a clock ahead of this one.
            own = facts if entity.updated_at <= facts.at else replace(facts, at=entity.updated_at)
            try:
                transition = fire(entity, trigger, own)
            except Refusal as refusal:
                self.refusals.append((entity, refusal))
                continue
            finally:
                entity.lookups = None  # they are outdated after the first write
            if transition is None:
                self.repeated.append(entity)
            else:
                fired.append(Fired(entity, before, transition, own))
        if one_by_one:
            self._write_one_by_one(fired)
        else:
            self.work.stage(self._record(fired))

    def _record(self, fired: list[Fired]) -> Iterator[Change]:
        """Record one change after the other, while the database writes those before."""
        for entity, before, transition, facts in fired:
            try:
                change = record(entity, before, event_spec(transition, facts, self.metadata, self.cause_of(entity.id)))
            except Refusal as refusal:
                self._refuse(entity, refusal)
            else:
                self.changes.append(change)
                yield change

    def _write_one_by_one(self, fired: list[Fired]) -> None:
        """Write each change in a savepoint, so that a violated constraint refuses that entity alone."""
        for change in self._record(fired):
            try:
                with transaction.atomic():
                    self.work.stage([change])
                    self.work.flush()
            except ConstraintViolated as violation:
                self.changes.remove(change)
                self._refuse(change.entity, violation)

    def _refuse(self, entity: Entity, refusal: Refusal) -> None:
        self.refusals.append((entity, refusal))
        self.work.forget(entity)

    def items(self, model: type[Entity], caused: tuple[Entry, ...]) -> dict[str, Item]:
        for _entity, refusal in self.refusals:
            count_refusal(model.flow.entity_type, refusal)
        items = {entity.pk: Item(entity.pk, None, refusal) for entity, refusal in self.refusals}
        items |= {entity.pk: Item(entity.pk, Outcome(entity, None)) for entity in self.repeated}
        effects = _by_origin(caused)
        for change in self.changes:
            follows = tuple(effects.get(change.entry.event_id, ()))
            outcome = Outcome(self.work.latest(change.entity), change.entry, follows)
            items[change.entry.entity_id] = Item(change.entry.entity_id, outcome)
        return items


def _by_origin(caused: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """Group the events of a cascade by the event at its root; causes come before effects."""
    origins: dict[str, str] = {}
    found: dict[str, list[Entry]] = {}
    for entry in caused:
        origin = origins[entry.event_id] = origins.get(entry.caused_by, entry.caused_by)
        found.setdefault(origin, []).append(entry)
    return found


def missing_item(model: type[Entity], entity_id: str) -> Item:
    refusal = not_found(model, entity_id)
    count_refusal(model.flow.entity_type, refusal)
    return Item(entity_id, None, refusal)
