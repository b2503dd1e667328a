"""An attacker with SQL access: changes events and recomputes everything in the database that depends on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import orjson
from django.apps import apps
from django.db import connection

from statecore.journal import COLUMNS, GENESIS, MIRRORED, Event, Numbering, Position, TreeHashes, digest
from statecore.journal.tree import Frontier
from statecore.kernel import registry
from statecore.storage import triggers
from statecore_client.transparency.merkle import hash_leaf

Members = dict[str, Any]


class Forgery(NamedTuple):
    """An event as the attacker wants it, without the hashes, which are recomputed."""

    members: Members

    def build(self, sequence: int, previous: str) -> dict[str, Any]:
        members = {**self.members, "sequence": sequence, "prev_hash": previous}
        details = members.pop("details")
        body = orjson.dumps(members)[:-1] + b',"details":' + orjson.dumps(details, option=orjson.OPT_SORT_KEYS) + b"}"
        return {**members, "body": body.decode(), "hash": digest(body.decode())}


def read_history() -> list[Forgery]:
    bodies = Position.objects.order_by("position").values_list("event__body", flat=True)
    return [Forgery(orjson.loads(body)) for body in bodies]


def rewrite(change: Callable[[list[Forgery]], None], epoch: int = 1) -> None:
    """Replaces the history, recomputes chains, rows, positions and tree, and puts the triggers back."""
    history = read_history()
    change(history)
    with triggers.disabled(connection), connection.cursor() as cursor:
        for table in (Position, Event, TreeHashes):
            cursor.execute(f"DELETE FROM {table._meta.db_table}")
        frontier, heads = Frontier(0, []), {}
        for position, forgery in enumerate(history, 1):
            key = forgery.members["entity_type"], forgery.members["entity_id"]
            sequence, previous = heads.get(key, (0, GENESIS))
            event = forgery.build(sequence + 1, previous)
            heads[key] = sequence + 1, event["hash"]
            _insert(position, event)
            for row in frontier.extend(hash_leaf(event["body"].encode())):
                row.save(force_insert=True)
        _adjust_rows(heads)
        Numbering.objects.update(head=len(history), seen="", epoch=epoch)


def _insert(position: int, event: dict[str, Any]) -> None:
    assert set(MIRRORED) < event.keys()
    Event.objects.create(**{name: event[name] for name in COLUMNS})
    copied = {name: event[name] for name in ("entity_type", "kind", "severity", "actor")}
    Position.objects.create(position=position, event_id=event["event_id"], run_id="", **copied)


def _adjust_rows(heads: dict[tuple[str, str], tuple[int, str]]) -> None:
    for flow in registry.flows():
        for row in flow.model.objects.all():
            version, head = heads.get((flow.entity_type, row.pk), (0, ""))
            flow.model.objects.filter(pk=row.pk).update(version=version, chain_head=head)
            if not version:
                flow.model.objects.filter(pk=row.pk)._raw_delete("default")


def delete_checkpoints() -> None:
    """Removes the signed checkpoints in the database, which contradict the new tree."""
    apps.get_model("statecore", "SignedCheckpoint").objects.all().delete()
