"""Writes each failed workstream to `archive/` as one JSON file, with its rows, diffs and events."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import orjson
from django.conf import settings
from django.db import models

from ...journal import Event, EventKind
from ...journal.archive import get_last_archived_position, list_anchors
from ...kernel import registry
from ...kernel.clock import now, rfc3339
from ...kernel.entity import Entity
from ...machines.workstream import State, Workstream
from ...records import Patch
from .sink import Batch, Sink

FAILED = (Workstream.flow.entity_type, State.FAILED.value)
IDS_PER_QUERY = 500


class WorkstreamArchive(Sink):
    name = "archive"

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            is_edit = event.entry.kind == EventKind.EDITED
            if (event.entry.entity_type, event.entry.to_state) == FAILED and not is_edit:
                write_archive(event.entry.entity_id, event.position)


def write_archive(workstream_id: str, position: int) -> Path:
    """Writes the file of a workstream and returns its path; replaces an existing file in one step."""
    path = Path(settings.STATECORE_HOME) / "archive" / f"{workstream_id}.json"
    path.parent.mkdir(parents=True, exist_ok=True)
    part = path.with_suffix(".part")
    with part.open("wb") as file:
        file.write(orjson.dumps(collect_workstream(workstream_id, position), option=orjson.OPT_INDENT_2))
        file.flush()
        os.fsync(file.fileno())
    part.replace(path)
    return path


def collect_workstream(workstream_id: str, position: int) -> dict[str, Any]:
    """Returns the content of the file: the workstream, the entities that refer to it, and the events of all of them."""
    workstream = Workstream.objects.get(pk=workstream_id)
    parts = {
        flow.collection: list(flow.model.objects.filter(workstream=workstream).order_by("created_at", "pk"))
        for flow in registry.flows()
        if _refers_to_workstream(flow.model)
    }
    entities: list[Entity] = [workstream, *(row for rows in parts.values() for row in rows)]
    patch_ids = workstream.patches.values("patch")
    return {
        "archived_at": rfc3339(now()),
        "position": position,
        "workstream": workstream.as_dict(),
        "run": workstream.run.as_dict(),
        **{collection: [{**row.as_dict(), **row.details()} for row in rows] for collection, rows in parts.items()},
        "diffs": dict(Patch.objects.filter(pk__in=patch_ids).values_list("pk", "diff")),
        "events": _serialize_events(entities),
        "archived": _list_archived_chains(entities),
    }


def _refers_to_workstream(model: type[models.Model]) -> bool:
    return any(field.name == Workstream.flow.entity_type for field in model._meta.concrete_fields)


def _serialize_events(entities: list[Entity]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for flow in registry.flows():
        ids = [entity.pk for entity in entities if entity.flow is flow]
        for start in range(0, len(ids), IDS_PER_QUERY):
            some = ids[start : start + IDS_PER_QUERY]
            events = Event.objects.filter(entity_type=flow.entity_type, entity_id__in=some)
            found += [event.as_dict() for event in events]
    return sorted(found, key=lambda event: (event["timestamp"], event["entity_id"], event["sequence"]))


def _list_archived_chains(entities: list[Entity]) -> list[dict[str, Any]]:
    """Returns, for each entity with archived events, the file that contains them and the last sequence in it."""
    found = (
        [list_anchors(entity.flow.entity_type, entity.pk).first() for entity in entities]
        if get_last_archived_position()
        else []
    )
    return [
        {"entity_type": anchor.entity_type, "entity_id": anchor.entity_id, "upto": anchor.sequence}
        | {"file": anchor.archived_range.file}
        for anchor in found
        if anchor
    ]
