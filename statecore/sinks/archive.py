"""Keeps each failed workstream in `archive/`, with all that belonged to it, as one JSON file."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.db import models

from ..journal import Event
from ..kernel import registry
from ..kernel.clock import now, rfc3339
from ..kernel.entity import Entity
from ..machines.workstream import State, Workstream
from ..records import Patch
from ..records.retirement import anchors_of, horizon
from .numbered import Batch
from .sink import Sink

FAILED = (Workstream.flow.entity_type, State.FAILED.value)
CHUNK = 500


class Archive(Sink):
    name = "archive"

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            if (event.entry.entity_type, event.entry.to_state) == FAILED:
                write(event.entry.entity_id, event.position)


def folder() -> Path:
    return Path(settings.STATECORE_HOME) / "archive"


def write(workstream_id: str, position: int) -> Path:
    """Whole or not at all; written again after a crash, it replaces itself."""
    path = folder() / f"{workstream_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".part")
    with beside.open("wb") as file:
        file.write(orjson.dumps(collect(workstream_id, position), option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)
    return path


def collect(workstream_id: str, position: int) -> dict[str, Any]:
    """The workstream and every machine's rows that point to it, with the events of all of them."""
    workstream = Workstream.objects.get(pk=workstream_id)
    parts = {flow.collection: list(_rows(flow.model, workstream)) for flow in registry.flows() if _belongs(flow.model)}
    everything: list[Entity] = [workstream, *(row for rows in parts.values() for row in rows)]
    return {
        "archived_at": rfc3339(now()),
        "position": position,
        "workstream": workstream.as_dict(),
        "run": workstream.run.as_dict(),
        **{collection: [row.as_dict() for row in rows] for collection, rows in parts.items()},
        "diffs": _diffs(workstream),
        "events": _events(everything),
        "retired": _retired(everything),
    }


def _belongs(model: type[models.Model]) -> bool:
    return any(field.name == Workstream.flow.entity_type for field in model._meta.concrete_fields)


def _rows(model: type[Entity], workstream: Workstream) -> Any:
    return model.objects.filter(workstream=workstream).order_by("created_at", "pk")


def _diffs(workstream: Workstream) -> dict[str, str]:
    ids = workstream.patches.values("patch")
    return dict(Patch.objects.filter(pk__in=ids).values_list("pk", "diff"))


def _retired(entities: list[Entity]) -> list[dict[str, Any]]:
    """Of whom the first events are in a file by now, and in which."""
    found = [anchors_of(entity.flow.entity_type, entity.pk).first() for entity in entities] if horizon() else []
    return [
        {"entity_type": anchor.entity_type, "entity_id": anchor.entity_id, "upto": anchor.sequence}
        | {"file": anchor.retirement.file}
        for anchor in found
        if anchor
    ]


def _events(entities: list[Entity]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for flow in registry.flows():
        ids = [entity.pk for entity in entities if entity.flow is flow]
        for start in range(0, len(ids), CHUNK):
            events = Event.objects.filter(entity_type=flow.entity_type, entity_id__in=ids[start : start + CHUNK])
            found += [event.as_dict() for event in events]
    return sorted(found, key=lambda event: (event["timestamp"], event["entity_id"], event["sequence"]))
