"""Dependents of a retried entity wait for its successor; each changed link is an edit of the dependent."""

from __future__ import annotations

from typing import Any

from ..journal import EventKind
from ..kernel import evidence, registry
from ..kernel.entity import Entity
from ..kernel.fields import related, reverse_key
from ..kernel.transition import Facts, Severity
from ..storage.links import read_links
from .change import Change, EventSpec, record_edit
from .edit import EDITED, amend, describe
from .link_rows import replace_target
from .unit_of_work import UnitOfWork


def relink_dependents(work: UnitOfWork, model: type[Entity], old: str, successor: str, facts: Facts) -> None:
    """Dependents that are past waiting keep their link: nothing reverts work that has started since."""
    for owner, link in _links_to(model):
        links = link.remote_field.through.objects.filter(**{link.m2m_reverse_field_name(): old})
        name = link.m2m_field_name()
        unfinished = owner.objects.exclude(state__in=owner.flow.final)
        # Locked, so that none stops waiting while it is re-linked.
        locked = work.lock_ids(owner, links.filter(**{f"{name}__in": unfinished}).values_list(name, flat=True))
        waiting = owner.objects.filter(pk__in=locked, state__in=owner.flow.waits_for(link.name))
        relinked = sorted(waiting.values_list("pk", flat=True))
        if relinked:
            replace_links(work, owner, link, relinked, (old, successor), facts)
            _rename_blockers(owner, relinked, old, successor)
    for name in model.flow.succession.followers:
        owner, key = related(model, name), reverse_key(model, name)
        following = owner.objects.filter(**{key: old}).exclude(state__in=owner.flow.final)
        for follower in work.lock_many(owner, sorted(following.values_list("pk", flat=True))):
            amend(work, follower, {key: successor}, actor=facts.actor)


def replace_links(
    work: UnitOfWork, owner: type[Entity], link: Any, ids: list[str], targets: tuple[str, str], facts: Facts
) -> None:
    """Replace a target of a link of these entities by another one, and record the edit of each."""
    links = read_links(owner, ids)
    dependents = work.lock_many(owner, ids)
    work.stage([_record(dependent, link.name, links[dependent.pk], targets, facts) for dependent in dependents])
    work.flush()
    replace_target(work.connection, link, ids, *targets)


def _record(dependent: Any, name: str, links: dict[str, list[str]], targets: tuple[str, str], facts: Facts) -> Change:
    old, successor = targets
    before = dependent.__dict__.copy()
    kept, changed = sorted(links[name]), sorted(successor if each == old else each for each in links[name])
    dependent.link_digests = evidence.digest_links({**links, name: changed})
    edited = Facts(max(facts.at, dependent.updated_at), facts.actor, {}, facts.reason)
    metadata = {"changed": {name: describe(kept, changed)}}
    return record_edit(dependent, before, EventSpec(EventKind.EDITED, EDITED, Severity.INFO, edited, metadata))


def _rename_blockers(owner: Any, ids: list[str], old: str, successor: str) -> None:
    """Replace the old id by the successor's in the `blocked_by` lists."""
    if "blocked_by" not in {field.name for field in owner._meta.concrete_fields}:
        return
    for pk, blocked_by in owner.objects.filter(pk__in=ids).exclude(blocked_by=[]).values_list("pk", "blocked_by"):
        if old in blocked_by:
            named = sorted({successor if name == old else name for name in blocked_by})
            owner.objects.filter(pk=pk).update(blocked_by=named)


def _links_to(model: type[Entity]) -> list[tuple[type[Entity], Any]]:
    return [
        (flow.model, link)
        for flow in registry.flows()
        for link in flow.model._meta.many_to_many
        if link.related_model is model
    ]
