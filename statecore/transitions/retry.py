"""Retries: a final entity keeps its state, and a successor takes its place."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from ..journal import Entry
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.fields import column, related
from ..kernel.ids import is_valid_id, new_id
from ..kernel.refusals import GuardFailed, InvalidTransition, PermissionDenied, Refusal, Unmet
from ..kernel.transition import Facts, evaluate_guards
from ..storage.links import read_links
from ..storage.sql_params import in_clause, in_param
from . import approvals, rights
from .change import Change, check_not_retried, validate_reason_and_metadata
from .create import insert_entity
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .relink import relink_dependents
from .successors import lock_newest, newest
from .unit_of_work import UnitOfWork, run_in_transaction

TRIGGER = "retried"
TRY = re.compile(r"(.+):([1-9]\d*)")  # the id of a successor: the name, and the number of the try


def retry(
    model: type[Entity],
    entity_id: str,
    *,
    actor: Actor,
    reason: str = "",
    request: RequestKey | None = None,
    dry_run: bool = False,
    within: UnitOfWork | None = None,
) -> Outcome:
    """Create a successor of a final entity, linked by `retry_of`; dependents of the old one now depend on it."""

    def succeed(work: UnitOfWork) -> Outcome:
        entity = work.lock(model, entity_id)
        facts = Facts(max(now(), entity.updated_at), actor, {}, reason)
        _check_retryable(entity, facts)
        outcome = Succession(work, facts).succeed(entity)
        if outcome.entry is not None:
            approvals.check_steps(work, actor, (outcome.entry, *outcome.caused))
        return outcome

    with counting_refusals(model.flow.entity_type):
        require_retry(model, actor)
        validate_reason_and_metadata(reason, {})
        return run_in_transaction(succeed, within=within, dry_run=dry_run, request=request, actor=actor)


def may_retry(entity: Entity, actor: Actor) -> bool:
    """Whether `retry` would accept the entity now, apart from what its children and approvals demand."""
    try:
        require_retry(type(entity), actor)
        _check_retryable(entity, Facts(max(now(), entity.updated_at), actor, {}, ""))
    except Refusal:
        return False
    return True


def require_retry(model: type[Entity], actor: Actor) -> None:
    """Retries are authorised by operators, or by the system on their policy; never by an agent."""
    if actor.holds:
        raise PermissionDenied("an agent does not retry", required=model.flow.permission("operate"))
    rights.require(actor, model.flow, "operate")


def _check_retryable(entity: Entity, facts: Facts) -> None:
    if not entity.flow.is_final(entity.state):
        raise InvalidTransition(f"{entity} is {entity.state}: only what is final is retried", **entity.current_facts())
    check_not_retried(entity)
    if unmet := evaluate_guards(entity.flow.succession.guards, entity, facts):
        raise GuardFailed("retry", unmet, **entity.current_facts())


@dataclass
class Succession:
    """The retry of an entity together with its unfinished children.

    The ids of all successors are chosen first, because they may depend on each other; then they are created with their
    links, and the reactions run.
    """

    work: UnitOfWork
    facts: Facts
    successors: dict[tuple[type[Entity], str], str] = field(default_factory=dict)
    created: dict[tuple[type[Entity], str], Change] = field(default_factory=dict)

    def succeed(self, entity: Entity) -> Outcome:
        selected = list(self._select(entity, None))
        self.successors = name_successors(self.work, [each for each, _parent in selected])
        for retried, parent in selected:
            self._create_successor(retried, cause=self.created[type(parent), parent.pk].entry if parent else None)
        for (model, old), successor_id in self.successors.items():
            relink_dependents(self.work, model, old, successor_id, self.facts)
        successor, *children = self.created.values()
        caused = self.work.react([successor, *children])
        return Outcome(
            self.work.latest(successor.entity), successor.entry, (*(each.entry for each in children), *caused)
        )

    def _select(self, entity: Entity, parent: Entity | None) -> Iterator[tuple[Entity, Entity | None]]:
        """Yield the entity and its unfinished children, each locked and with its parent."""
        yield entity, parent
        for name in entity.flow.succession.children:
            children = getattr(entity, name)
            unfinished = children.exclude(state__in=children.model.flow.done).filter(successor=None)
            wanted = list(unfinished.order_by("pk").values_list("pk", flat=True))
            for child in self.work.lock_many(children.model, wanted):
                _check_ended(child, entity)
                yield from self._select(child, entity)

    def _create_successor(self, entity: Entity, cause: Entry | None) -> None:
        model = type(entity)
        names = model.editable_fields() - set(entity.flow.succession.leaves_behind)
        self.created[model, entity.pk] = insert_entity(
            self.work,
            model,
            self.successors[model, entity.pk],
            {name: self._inherited(entity, name) for name in names},
            self.facts,
            cause=cause,
            trigger=TRIGGER,
            retry_of=entity,
            links=self._inherited_links(entity),
        )

    def _inherited(self, entity: Entity, name: str) -> Any:
        value: Any = getattr(entity, column(entity, name).attname)
        target: Any = related(entity, name)
        if value is None or not isinstance(target, type) or not issubclass(target, Entity):
            return value
        return self._current(target, value)

    def _inherited_links(self, entity: Entity) -> dict[str, list[str]]:
        """The successor depends on the dependencies of the old entity, or on their successors."""
        found = {}
        links = read_links(type(entity), [entity.pk])[entity.pk]
        for name, ids in links.items():
            target: Any = related(entity, name)
            retried = {pk for pk in ids if (target, pk) in self.successors}
            self.work.lock_ids(target, set(ids) - retried)
            newest_ids = [lock_newest(self.work, target, pk) for pk in sorted(set(ids) - retried)]
            found[name] = [*dict.fromkeys([*(self._current(target, pk) for pk in retried), *newest_ids])]
        return found

    def _current(self, model: Any, pk: str) -> str:
        successor = self.successors.get((model, pk))
        return successor or newest(model, pk)


def name_successors(work: UnitOfWork, entities: Iterable[Entity]) -> dict[tuple[type[Entity], str], str]:
    """Return an id for the successor of each entity: its name with the number of the try, such as `build:2`.

    Lists, graphs and reports thus show tries of one thing. A taken or too long id is replaced by a new one.
    """
    named: dict[type[Entity], dict[str, str]] = {}
    for entity in entities:
        named.setdefault(type(entity), {})[entity.pk] = _name_next_try(entity)
    found: dict[tuple[type[Entity], str], str] = {}
    for model, wanted in named.items():
        taken = _select_existing(work, model, list(wanted.values()))
        for pk, name in wanted.items():
            found[model, pk] = new_id(model.flow.prefix) if name in taken or not is_valid_id(name) else name
    return found


def _select_existing(work: UnitOfWork, model: type[Entity], ids: list[str]) -> set[str]:
    """The ids are one parameter, because a run may have 100,000 parts."""
    vendor = work.connection.vendor
    query = f"SELECT id FROM {model._meta.db_table} WHERE id {in_clause(vendor, len(ids))}"
    return {pk for (pk,) in work.query(query, [in_param(ids, vendor)])}


def _name_next_try(entity: Any) -> str:
    tried = TRY.fullmatch(entity.pk) if entity.retry_of_id else None
    return f"{tried[1]}:{int(tried[2]) + 1}" if tried else f"{entity.pk}:2"


def _check_ended(child: Entity, parent: Entity) -> None:
    """A child that is still live would do the same work as its successor."""
    if not child.has_ended():
        unmet = [Unmet("child_live", f"{child} is still {child.state}", child.pk)]
        raise GuardFailed("retry", unmet, **parent.current_facts())
