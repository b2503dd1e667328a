"""Retries: a final entity keeps its state, and a successor takes its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..journal import Entry
from ..kernel import registry
from ..kernel.actors import Actor
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.fields import column, related, reverse_key
from ..kernel.ids import new_id
from ..kernel.refusals import GuardFailed, InvalidTransition, PermissionDenied, Unmet
from ..kernel.transition import Facts, evaluate_guards
from . import approvals, rights
from .change import Change, check_not_retried, validate_reason_and_metadata
from .create import insert_entity
from .edit import amend
from .idempotency import RequestKey
from .outcome import Outcome, counting_refusals
from .successors import lock_newest, newest
from .unit_of_work import UnitOfWork, run_in_transaction

TRIGGER = "retried"


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
            approvals.check_steps(actor, (outcome.entry, *outcome.caused))
        return outcome

    with counting_refusals(model.flow.entity_type):
        _require_retry(model, actor)
        validate_reason_and_metadata(reason, {})
        return run_in_transaction(succeed, within=within, dry_run=dry_run, request=request, actor=actor)


def _require_retry(model: type[Entity], actor: Actor) -> None:
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

    All successors are created first and linked afterwards, because they may depend on each other; then the reactions
    run.
    """

    work: UnitOfWork
    facts: Facts
    successors: dict[tuple[type[Entity], str], Entity] = field(default_factory=dict)
    created: list[Change] = field(default_factory=list)

    def succeed(self, entity: Entity) -> Outcome:
        successor = self._create_successor(entity, cause=None)
        self._retry_children(entity, successor.entry)
        for (model, old), created in self.successors.items():
            self._copy_links(model, old, created)
            self._relink_dependents(model, old, created)
        caused = self.work.react(self.created)
        children = [change.entry for change in self.created[1:]]
        return Outcome(self.work.latest(successor.entity), successor.entry, (*children, *caused))

    def _create_successor(self, entity: Entity, cause: Entry | None) -> Change:
        model = type(entity)
        names = model.editable_fields() - set(entity.flow.succession.leaves_behind)
        fields = {name: self._inherited(entity, name) for name in names}
        successor_id = new_id(entity.flow.prefix)
        change = insert_entity(
            self.work, model, successor_id, fields, self.facts, cause=cause, trigger=TRIGGER, retry_of=entity
        )
        self.successors[model, entity.pk] = change.entity
        self.created.append(change)
        return change

    def _inherited(self, entity: Entity, name: str) -> Any:
        value: Any = getattr(entity, column(entity, name).attname)
        target: Any = related(entity, name)
        if value is None or not isinstance(target, type) or not issubclass(target, Entity):
            return value
        return self._current(target, value)

    def _retry_children(self, entity: Entity, cause: Entry) -> None:
        for name in entity.flow.succession.children:
            children = getattr(entity, name)
            unfinished = children.exclude(state__in=children.model.flow.done).filter(successor=None)
            wanted = list(unfinished.order_by("pk").values_list("pk", flat=True))
            for child in self.work.lock_many(children.model, wanted):
                _check_ended(child, entity)
                self._retry_children(child, self._create_successor(child, cause).entry)

    def _copy_links(self, model: type[Entity], old: str, successor: Entity) -> None:
        """The successor depends on the dependencies of the old entity, or on their successors."""
        for link in model._meta.many_to_many:
            target: Any = link.related_model
            ids = set(getattr(model(id=old), link.name).values_list("pk", flat=True))
            retried = {pk for pk in ids if (target, pk) in self.successors}
            self.work.lock_ids(target, ids - retried)
            newest_ids = [lock_newest(self.work, target, pk) for pk in ids - retried]
            getattr(successor, link.name).add(*(self._current(target, pk) for pk in retried), *newest_ids)

    def _current(self, model: Any, pk: str) -> str:
        successor = self.successors.get((model, pk))
        return successor.pk if successor else newest(model, pk)

    def _relink_dependents(self, model: type[Entity], old: str, successor: Entity) -> None:
        """Dependents that are past waiting keep their link: nothing reverts work that has started since."""
        for owner, link in _links_to(model):
            links = link.remote_field.through.objects.filter(**{link.m2m_reverse_field_name(): old})
            name = link.m2m_field_name()
            unfinished = owner.objects.exclude(state__in=owner.flow.final)
            # Locked, so that none stops waiting while it is re-linked.
            locked = self.work.lock_ids(owner, links.filter(**{f"{name}__in": unfinished}).values_list(name, flat=True))
            waiting = owner.objects.filter(pk__in=locked, state__in=owner.flow.waits_for(link.name))
            relinked = list(waiting.values_list("pk", flat=True))
            links.filter(**{f"{name}__in": relinked}).update(**{link.m2m_reverse_field_name(): successor.pk})
            _rename_blockers(owner, relinked, old, successor.pk)
        for name in model.flow.succession.followers:
            owner, key = related(model, name), reverse_key(model, name)
            following = owner.objects.filter(**{key: old}).exclude(state__in=owner.flow.final)
            for follower in self.work.lock_many(owner, sorted(following.values_list("pk", flat=True))):
                amend(self.work, follower, {key: successor.pk}, actor=self.facts.actor)


def _rename_blockers(owner: Any, ids: list[str], old: str, successor: str) -> None:
    """Replace the old id by the successor's in the `blocked_by` lists."""
    if "blocked_by" not in {field.name for field in owner._meta.concrete_fields}:
        return
    for pk, blocked_by in owner.objects.filter(pk__in=ids).exclude(blocked_by=[]).values_list("pk", "blocked_by"):
        if old in blocked_by:
            named = sorted({successor if name == old else name for name in blocked_by})
            owner.objects.filter(pk=pk).update(blocked_by=named)


def _check_ended(child: Entity, parent: Entity) -> None:
    """A child that is still live would do the same work as its successor."""
    if not child.has_ended():
        unmet = [Unmet("child_live", f"{child} is still {child.state}", child.pk)]
        raise GuardFailed("retry", unmet, **parent.current_facts())


def _links_to(model: type[Entity]) -> list[tuple[type[Entity], Any]]:
    return [
        (flow.model, link)
        for flow in registry.flows()
        for link in flow.model._meta.many_to_many
        if link.related_model is model
    ]
