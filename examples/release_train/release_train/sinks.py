"""Keeps a row for each departure."""

from __future__ import annotations

from statecore.framework.extensions import Batch, Sink

from .models import Departure, State, Train


class Departures(Sink):
    name = "departures"

    def deliver(self, batch: Batch) -> None:
        for event in batch:
            if event.entry.entity_type == Train.flow.entity_type and event.entry.to_state == State.DEPARTED:
                # An event may be delivered again.
                found = {"train_id": event.entry.entity_id, "defaults": {"position": event.position}}
                Departure.objects.update_or_create(**found)
