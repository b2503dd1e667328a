"""Whom somebody waits for: what was retried is answered for by its successor."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from ..kernel.entity import Entity
from ..kernel.fields import related
from ..kernel.refusals import Invalid
from ..kernel.ulid import is_valid_id
from . import rows


def awaited(model: type[Entity], entity_id: str, links: Mapping[str, Any]) -> dict[str, list[str]]:
    """The ids of each link field, each once, each of an entity there is and that nobody retries meanwhile."""
    targets: dict[type[Entity], set[str]] = {}
    for name, ids in links.items():
        if not isinstance(ids, list | tuple) or not all(is_valid_id(each) for each in ids):
            raise Invalid({name: ["must be a list of ids."]})
        if entity_id in ids:
            raise Invalid({name: [f"{entity_id} cannot depend on itself."]})
        targets.setdefault(related(model, name), set()).update(ids)
    there = {target: rows.hold(target, ids) for target, ids in targets.items()}
    for name, ids in links.items():
        target = related(model, name)
        if missing := [each for each in ids if each not in there[target]]:
            raise Invalid({name: [f"there is no {target.flow.entity_type} {', '.join(missing)}."]})
    return {name: _newest_of(related(model, name), ids) for name, ids in links.items()}


def _newest_of(model: type[Entity], ids: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(newest_held(model, each) for each in ids))


def newest_held(model: type[Entity], pk: str) -> str:
    """The newest of one that is held, held too: who retries it afterwards sees who has come to wait for it."""
    while (successor := newest(model, pk)) != pk:
        pk = successor
        rows.hold(model, [pk])
    return pk


def newest(model: type[Entity], pk: str) -> str:
    """The last of the successors: whoever depends on something retried depends on what took its place."""
    while (successor := model.objects.filter(retry_of=pk).values_list("pk", flat=True).first()) is not None:
        pk = successor
    return pk
