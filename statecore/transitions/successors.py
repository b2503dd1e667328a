"""Links to retried entities lead to their successors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..kernel.entity import Entity
from ..kernel.fields import related
from ..kernel.ids import is_valid_id
from ..kernel.refusals import Invalid
from .unit_of_work import UnitOfWork


def resolve_links(
    work: UnitOfWork, model: type[Entity], entity_id: str, links: Mapping[str, Any]
) -> dict[str, list[str]]:
    """Return the newest successors of the linked entities by link field, locked until the commit against retries."""
    targets: dict[type[Entity], set[str]] = {}
    for name, ids in links.items():
        if not isinstance(ids, list | tuple) or not all(is_valid_id(each) for each in ids):
            raise Invalid({name: ["must be a list of ids."]})
        if entity_id in ids:
            raise Invalid({name: [f"{entity_id} cannot depend on itself."]})
        targets.setdefault(related(model, name), set()).update(ids)
    existing = {target: work.lock_ids(target, ids) for target, ids in targets.items()}
    for name, ids in links.items():
        target = related(model, name)
        if missing := [each for each in ids if each not in existing[target]]:
            raise Invalid({name: [f"there is no {target.flow.entity_type} {', '.join(missing)}."]})
    return {
        name: list(dict.fromkeys(lock_newest(work, related(model, name), each) for each in ids))
        for name, ids in links.items()
    }


def lock_newest(work: UnitOfWork, model: type[Entity], pk: str) -> str:
    """Lock and return the newest successor of a locked entity; a later retry then sees the new link."""
    while (successor := newest(model, pk)) != pk:
        pk = successor
        work.lock_ids(model, [pk])
    return pk


def newest(model: type[Entity], pk: str) -> str:
    """Return the id of the last successor, or the id itself if the entity was never retried."""
    while (successor := model.objects.filter(retry_of=pk).values_list("pk", flat=True).first()) is not None:
        pk = successor
    return pk
