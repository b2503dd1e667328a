"""The result of a transition."""

from __future__ import annotations

from .call import DecodedResponse
from .models import Approval
from .readers import read_object
from .records import Entity, Event, Record, to_record


class Outcome(Record, kw_only=True):
    """The result of a transition: the event, the events it caused, and the entity afterwards.

    `caused` has the first hundred of these events, `caused_count` counts them all. `approval` is the
    request of an override that waits for a second person, or the one that was approved. `replayed` is true if this is
    the stored answer to an earlier request with the same key.
    """

    changed: bool
    event: Event | None = None
    caused: list[Event] = []
    caused_count: int = 0
    entity: Entity | None = None
    approval: Approval | None = None
    replayed: bool = False


def read_outcome(response: DecodedResponse) -> Outcome:
    body = read_object(response)
    made, moved, requested = body.get("event"), body.get("entity"), body.get("approval")
    return Outcome(
        changed=bool(body.get("changed")),
        event=to_record(Event, made) if made else None,
        caused=[to_record(Event, each) for each in body.get("caused") or ()],
        caused_count=body.get("caused_count", 0),
        entity=to_record(Entity, moved) if moved else None,
        approval=to_record(Approval, requested) if requested else None,
        replayed=response.replayed,
        fields=body,
    )
