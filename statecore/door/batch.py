"""The batch door: the same trigger for thousands of entities, same checks, same events, a few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db import transaction

from ..journal import Entry
from ..kernel.actors import THE_SYSTEM, Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.links import together
from ..kernel.moves import Facts, Move
from ..kernel.refusals import ConstraintViolated, NotFound, Refusal
from . import rows, write
from .change import Account, Before, Change, as_it_was, check_words, record
from .outcome import Outcome
from .perform import perform, react_to
from .refused import count, counted
from .transition import account_of, fire
from .work import current

Choose = Callable[[], list[Entity]]


@dataclass(frozen=True, slots=True)
class Item:
    """What became of one entity of a batch."""

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
) -> list[Item]:
    """Each entity moves or is refused by itself; what moves is committed together."""
    wanted = list(dict.fromkeys(entity_ids))
    turn = Turn(lambda: rows.lock_many(model, wanted), trigger, params or {}, reason, metadata or {}, cause)
    (items,) = transition_in_turn(model, [turn], actor=actor, dry_run=dry_run)
    return [items.get(entity_id) or not_there(model, entity_id) for entity_id in wanted]


class Turn(NamedTuple):
    """A batch among others: the entities that `choose` reads and locks inside the transaction."""

    choose: Choose
    trigger: str
    params: Mapping[str, Any] = {}
    reason: str = ""
    metadata: Mapping[str, Any] = {}
    cause: Entry | None = None


def transition_in_turn(
    model: type[Entity], turns: Sequence[Turn], *, actor: Actor, dry_run: bool = False
) -> list[dict[str, Item]]:
    """Batches one after the other, committed together; what follows, follows from all of them."""

    def step(write_all: WriteAll) -> list[dict[str, Item]]:
        batches = []
        for turn in turns:
            batch = Batch(_always(turn.cause), turn.metadata)
            batch.move(turn.choose(), turn.trigger, Facts(now(), actor, turn.params, turn.reason), write_all)
            batches.append(batch)
        caused = react_to([change for batch in batches for change in batch.moved])
        return [batch.told(model, caused) for batch in batches]

    with counted(model.flow.entity_type):
        for turn in turns:
            check_words(turn.reason, turn.metadata, turn.params)
        try:
            return perform(lambda: step(_together), keep=not dry_run)
        except ConstraintViolated:
            # From the start again: a savepoint around every batch would cost each row a multixact on PostgreSQL.
            return perform(lambda: step(_one_by_one), keep=not dry_run)


def follow_up(
    model: type[Entity],
    causes: Mapping[str, Entry | None],
    trigger: str,
    *,
    params: Mapping[str, Any] | None = None,
    reason: str = "",
) -> list[str]:
    """What follows for these entities, each from its own cause, inside the work that brought it about.

    One whose guards do not hold stays where it is. Nobody is waited for: those whom somebody else has locked are told.
    """
    batch = Batch(causes.__getitem__, {})
    found = rows.at_hand(model, causes, skip_locked=True)
    batch.move(found, trigger, Facts(now(), THE_SYSTEM, params or {}, reason), _together)
    react_to(batch.moved)
    return [] if len(found) == len(causes) else sorted(causes.keys() - {entity.pk for entity in found})


def _always(cause: Entry | None) -> Callable[[str], Entry | None]:
    return lambda _entity_id: cause


class Fired(NamedTuple):
    """An entity that has made its move and is yet to be recorded."""

    entity: Entity
    before: Before
    move: Move
    facts: Facts


class Batch:
    """Entities that are moved together, what they became and why others stayed."""

    def __init__(self, cause_of: Callable[[str], Entry | None], metadata: Mapping[str, Any]) -> None:
        self.cause_of, self.metadata = cause_of, metadata
        self.moved: list[Change] = []
        self.repeated: list[Entity] = []
        self.refusals: list[tuple[Entity, Refusal]] = []

    def move(self, entities: list[Entity], trigger: str, facts: Facts, write_all: WriteAll) -> None:
        """Move those that may, and write them."""
        with together(entities):
            # All of them before the first is written: no guard sees what another of the batch has become.
            fired = [made for entity in entities if (made := self._fire(entity, trigger, facts))]
        write_all(self._recorded(fired), self)

    def _fire(self, entity: Entity, trigger: str, facts: Facts) -> Fired | None:
        before = as_it_was(entity)
        # Shared by all, but for an entity that was written by a clock ahead of ours.
        own = facts if entity.updated_at <= facts.at else replace(facts, at=entity.updated_at)
        try:
            move = fire(entity, trigger, own)
        except ConstraintViolated:  # of what was unwritten until a guard has read: not a word about this entity
            raise
        except Refusal as refusal:
            self.refusals.append((entity, refusal))
            return None
        if move is None:
            self.repeated.append(entity)
            return None
        return Fired(entity, before, move, own)

    def _recorded(self, fired: list[Fired]) -> Iterator[Change]:
        """One after the other, while the database writes those before."""
        for entity, before, move, facts in fired:
            try:
                change = record(entity, before, self._account(entity, move, facts))
            except Refusal as refusal:
                self.refuse(entity, refusal)
            else:
                self.moved.append(change)
                yield change

    def refuse(self, entity: Entity, refusal: Refusal) -> None:
        """It has moved in memory and not in the database: nobody may rely on it."""
        self.refusals.append((entity, refusal))
        current().known.pop((type(entity), entity.pk), None)

    def _account(self, entity: Entity, move: Move, facts: Facts) -> Account:
        return account_of(move, facts, self.metadata, self.cause_of(entity.pk))

    def told(self, model: type[Entity], caused: tuple[Entry, ...]) -> dict[str, Item]:
        for _entity, refusal in self.refusals:
            count(model.flow.entity_type, refusal)
        items = {entity.pk: Item(entity.pk, None, refusal) for entity, refusal in self.refusals}
        items |= {entity.pk: Item(entity.pk, Outcome(entity, None)) for entity in self.repeated}
        below = _by_origin(caused)
        for entity, entry, *_ in self.moved:
            follows = tuple(below.get(entry.event_id, ()))
            items[entity.pk] = Item(entity.pk, Outcome(rows.latest(entity), entry, follows))
        return items


WriteAll = Callable[[Iterator[Change], Batch], None]


def _together(changes: Iterator[Change], batch: Batch) -> None:
    write.update(changes)


def _one_by_one(changes: Iterator[Change], batch: Batch) -> None:
    """So that what the database refuses is refused alone."""
    for change in changes:
        try:
            with transaction.atomic():
                write.update([change])
                write.flush()
        except ConstraintViolated as violation:
            batch.moved.remove(change)
            batch.refuse(change.entity, violation)


def _by_origin(caused: tuple[Entry, ...]) -> dict[str, list[Entry]]:
    """The entries of a cascade by the event at its top; a cause always comes before what it causes."""
    origins: dict[str, str] = {}
    found: dict[str, list[Entry]] = {}
    for entry in caused:
        origin = origins[entry.event_id] = origins.get(entry.caused_by, entry.caused_by)
        found.setdefault(origin, []).append(entry)
    return found


def not_there(model: type[Entity], entity_id: str) -> Item:
    refusal = NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    count(model.flow.entity_type, refusal)
    return Item(entity_id, None, refusal)
