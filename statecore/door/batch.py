"""The batch door: the same trigger for thousands of entities, same checks, same events, a few statements."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from django.db import transaction

from ..journal import Entry
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.moves import Facts, Move
from ..kernel.refusals import ConstraintViolated, NotFound, Refusal
from . import rows, write
from .change import Account, Before, Change, as_it_was, check_words, record
from .outcome import Outcome
from .refused import count, counted
from .transition import account_of, fire
from .work import perform, react_to


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

    def step(write_all: Callable[[Iterator[Change], dict[str, Item]], None]) -> list[Item]:
        fired, items = _fire_all(model, wanted, trigger, Facts(now(), actor, params or {}, reason))
        moved: list[Change] = []
        write_all(_recorded(fired, account, moved, items), items)
        for change in moved:
            if change.entity.pk not in items:
                items[change.entity.pk] = _told(change, react_to(change))
        return [items.get(entity_id) or _not_there(model, entity_id) for entity_id in wanted]

    def account(move: Move, facts: Facts) -> Account:
        return account_of(move, facts, metadata or {}, cause)

    with counted(model.flow.entity_type):
        check_words(reason, metadata or {}, params or {})
        try:
            return perform(lambda: step(_together), keep=not dry_run)
        except ConstraintViolated:
            # From the start again: a savepoint around every batch would cost each row a multixact on PostgreSQL.
            return perform(lambda: step(_one_by_one), keep=not dry_run)


class Fired(NamedTuple):
    """An entity that has made its move and is yet to be recorded."""

    entity: Entity
    before: Before
    move: Move
    facts: Facts


def _fire_all(
    model: type[Entity], wanted: list[str], trigger: str, facts: Facts
) -> tuple[list[Fired], dict[str, Item]]:
    """Lock them all, then move those that may: no guard sees what another of the batch has become."""
    fired: list[Fired] = []
    others: dict[str, Item] = {}
    for entity in rows.lock_many(model, wanted):
        before = as_it_was(entity)
        # Shared by all, but for an entity that was written by a clock ahead of ours.
        own = facts if entity.updated_at <= facts.at else replace(facts, at=entity.updated_at)
        try:
            move = fire(entity, trigger, own)
        except Refusal as refusal:
            others[entity.pk] = _refused(entity, refusal)
            continue
        if move is None:
            others[entity.pk] = Item(entity.pk, Outcome(entity, None))
        else:
            fired.append(Fired(entity, before, move, own))
    return fired, others


def _recorded(
    fired: list[Fired], account: Callable[[Move, Facts], Account], moved: list[Change], items: dict[str, Item]
) -> Iterator[Change]:
    """One after the other, while the database writes those before; all that came of it is left in `moved`."""
    for entity, before, move, facts in fired:
        try:
            change = record(entity, before, account(move, facts))
        except Refusal as refusal:
            items[entity.pk] = _refused(entity, refusal)
        else:
            moved.append(change)
            yield change


def _together(changes: Iterator[Change], items: dict[str, Item]) -> None:
    write.update(changes)


def _one_by_one(changes: Iterator[Change], items: dict[str, Item]) -> None:
    """So that what the database refuses is refused alone."""
    for change in changes:
        try:
            with transaction.atomic():
                write.update([change])
        except ConstraintViolated as violation:
            items[change.entity.pk] = _refused(change.entity, violation)


def _told(change: Change, caused: tuple[Entry, ...]) -> Item:
    entity = rows.as_it_is_now(change.entity, caused)
    return Item(entity.pk, Outcome(entity, change.entry, caused))


def _refused(entity: Entity, refusal: Refusal) -> Item:
    count(entity.flow.entity_type, refusal)
    return Item(entity.pk, None, refusal)


def _not_there(model: type[Entity], entity_id: str) -> Item:
    refusal = NotFound(f"there is no {model.flow.entity_type} {entity_id!r}")
    count(model.flow.entity_type, refusal)
    return Item(entity_id, None, refusal)
