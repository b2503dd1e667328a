"""Retrying what is final: the old entity stays as it ended, a successor starts afresh in its place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from ..journal import Entry
from ..kernel import registry
from ..kernel.actors import Actor, Kind
from ..kernel.clock import now
from ..kernel.entity import Entity
from ..kernel.fields import column, related, reverse_key
from ..kernel.moves import Facts, unmet_among
from ..kernel.refusals import GuardFailed, InvalidTransition, PermissionDenied, Unmet
from ..kernel.ulid import new_id
from . import rights, rows
from .change import Change, check_words
from .create import write_new
from .idempotency import RequestKey, answer_once
from .outcome import Outcome
from .perform import perform, react_to
from .refused import counted
from .successors import newest, newest_held
from .transition import check_not_succeeded

TRIGGER = "retried"


def retry(
    model: type[Entity],
    entity_id: str,
    *,
    actor: Actor,
    reason: str = "",
    request: RequestKey | None = None,
    dry_run: bool = False,
) -> Outcome:
    """A successor of a final entity, linked by `retry_of`; whoever waits for the old one now waits for it."""

    def step() -> Outcome:
        entity = rows.lock(model, entity_id)
        facts = Facts(max(now(), entity.updated_at), actor, {}, reason)
        _may_be_retried(entity, facts)
        return Family(facts).succeed(entity)

    with counted(model.flow.entity_type):
        _may_retry(model, actor)
        check_words(reason, {})
        return perform(lambda: answer_once(request, actor, step), keep=not dry_run)


def _may_retry(model: type[Entity], actor: Actor) -> None:
    """Recovery is authorised by an operator, or by the system on a policy of theirs; never by an agent."""
    if actor.kind is Kind.AGENT:
        raise PermissionDenied("an agent does not retry", required=model.flow.permission("operate"))
    rights.require(actor, model.flow, "operate")


def _may_be_retried(entity: Entity, facts: Facts) -> None:
    if not entity.flow.is_final(entity.state):
        raise InvalidTransition(f"{entity} is {entity.state}: only what is final is retried", **entity.standing())
    check_not_succeeded(entity)
    if unmet := unmet_among(entity.flow.succession.guards, entity, facts):
        raise GuardFailed("retry", unmet, **entity.standing())


@dataclass
class Family:
    """An entity and the unfinished children that are retried with it.

    All successors are made first and linked afterwards, because they may depend on each other; then the reactions.
    """

    facts: Facts
    heirs: dict[tuple[type[Entity], str], Entity] = field(default_factory=dict)
    made: list[Change] = field(default_factory=list)

    def succeed(self, entity: Entity) -> Outcome:
        heir = self._heir_of(entity, cause=None)
        self._children_of(entity, heir.entry)
        for (model, old), successor in self.heirs.items():
            self._carry_links(model, old, successor)
            self._lead_followers(model, old, successor)
        caused = react_to(self.made)
        children = [change.entry for change in self.made[1:]]
        return Outcome(rows.latest(heir.entity), heir.entry, (*children, *caused))

    def _heir_of(self, entity: Entity, cause: Entry | None) -> Change:
        model = type(entity)
        names = model.plain_fields() - set(entity.flow.succession.leaves_behind)
        fields = {name: self._inherited(entity, name) for name in names}
        heir = write_new(
            model, new_id(entity.flow.prefix), fields, self.facts, cause=cause, trigger=TRIGGER, retry_of=entity
        )
        self.heirs[model, entity.pk] = heir.entity
        self.made.append(heir)
        return heir

    def _inherited(self, entity: Entity, name: str) -> Any:
        value: Any = getattr(entity, column(entity, name).attname)
        target: Any = related(entity, name)
        if value is None or not isinstance(target, type) or not issubclass(target, Entity):
            return value
        return self._current(target, value)

    def _children_of(self, entity: Entity, cause: Entry) -> None:
        for name in entity.flow.succession.children:
            children = getattr(entity, name)
            unfinished = children.exclude(state__in=children.model.flow.done).filter(successor=None)
            wanted = list(unfinished.order_by("pk").values_list("pk", flat=True))
            for child in rows.lock_many(children.model, wanted):
                _must_have_ended(child, entity)
                self._children_of(child, self._heir_of(child, cause).entry)

    def _carry_links(self, model: type[Entity], old: str, heir: Entity) -> None:
        """The successor depends on what the old one did, or on the successors of that."""
        for link in model._meta.many_to_many:
            target: Any = link.related_model
            ids = set(getattr(model(id=old), link.name).values_list("pk", flat=True))
            mine = {pk for pk in ids if (target, pk) in self.heirs}
            rows.hold(target, ids - mine)
            getattr(heir, link.name).add(
                *(self._current(target, pk) for pk in mine), *(newest_held(target, pk) for pk in ids - mine)
            )

    def _current(self, model: Any, pk: str) -> str:
        heir = self.heirs.get((model, pk))
        return heir.pk if heir else newest(model, pk)

    def _lead_followers(self, model: type[Entity], old: str, heir: Entity) -> None:
        """Who is past what it waited for keeps it: nothing takes back what has been started since."""
        for owner, link in _links_to(model):
            links = link.remote_field.through.objects.filter(**{link.m2m_reverse_field_name(): old})
            name = link.m2m_field_name()
            unfinished = owner.objects.exclude(state__in=owner.flow.final)
            # Held, so that none goes past it while it is led on.
            held = rows.hold(owner, links.filter(**{f"{name}__in": unfinished}).values_list(name, flat=True))
            waiting = owner.objects.filter(pk__in=held, state__in=owner.flow.waits_for(link.name))
            led = list(waiting.values_list("pk", flat=True))
            links.filter(**{f"{name}__in": led}).update(**{link.m2m_reverse_field_name(): heir.pk})
            _tell_the_blocked(owner, led, old, heir.pk)
        for name in model.flow.succession.followers:
            owner, key = related(model, name), reverse_key(model, name)
            owner.objects.filter(**{key: old}).exclude(state__in=owner.flow.final).update(**{key: heir.pk})


def _tell_the_blocked(owner: Any, ids: list[str], old: str, heir: str) -> None:
    """Where it is written down what somebody is blocked by, the successor's name takes the place of the old one's."""
    if "blocked_by" not in {field.name for field in owner._meta.concrete_fields}:
        return
    for pk, blocked_by in owner.objects.filter(pk__in=ids).exclude(blocked_by=[]).values_list("pk", "blocked_by"):
        if old in blocked_by:
            named = sorted({heir if name == old else name for name in blocked_by})
            owner.objects.filter(pk=pk).update(blocked_by=named)


def _must_have_ended(child: Entity, parent: Entity) -> None:
    """Else the same work would be done twice, by the old one and by its successor."""
    if not child.has_ended():
        unmet = [Unmet("child_live", f"{child} is still {child.state}", child.pk)]
        raise GuardFailed("retry", unmet, **parent.standing())


def _links_to(model: type[Entity]) -> list[tuple[type[Entity], Any]]:
    return [
        (flow.model, link)
        for flow in registry.flows()
        for link in flow.model._meta.many_to_many
        if link.related_model is model
    ]
