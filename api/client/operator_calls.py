"""What operators and screens call: machines, numbers, what is stuck, alerts, the journal."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from .call import Call, address, call, pages
from .connection import Connection
from .readers import as_told, event, page_of, positioned, reader, results_of, worker
from .records import Event, Json, Machine, Page, Positioned, Stuck, Worker


class OperatorCalls(Connection):
    @call
    def machines(self) -> Call[list[Machine]]:
        """Every machine as it is declared."""
        return Call("GET", address("machines"), results_of(reader(Machine)))

    @call
    def machine(self, entity_type: str) -> Call[Machine]:
        return Call("GET", address("machines", entity_type), reader(Machine))

    @call
    def stats(self) -> Call[Json]:
        """Counts by machine and state, rates."""
        return Call("GET", address("stats"), as_told)

    @pages
    def stuck(self, /, **filters: Any) -> Call[Page[Stuck]]:
        """What is past its deadline or needs a decision."""
        return Call("GET", address("stuck"), page_of(reader(Stuck)), params=filters)

    @pages
    def alerts(self, /, **filters: Any) -> Call[Page[Json]]:
        return Call("GET", address("alerts"), page_of(as_told), params=filters)

    @call
    def acknowledge(self, alert_id: str, *, request_id: str | None = None) -> Call[Json]:
        path = address("alerts", str(alert_id), "acknowledge")
        return Call("POST", path, as_told, body={}, keyed=True, request_id=request_id)

    @pages
    def overrides(self, /, **filters: Any) -> Call[Page[Event]]:
        """What was forced, by whom and why."""
        return Call("GET", address("overrides"), page_of(event), params=filters)

    @pages
    def events(self, /, after: int = 0, **filters: Any) -> Call[Page[Positioned]]:
        """The journal in its order, from a position on."""
        return Call("GET", address("events"), page_of(positioned), params={"after": after, **filters})

    @call
    def verify(self) -> Call[Json]:
        """Whether the journal holds together; names the first bad row."""
        return Call("GET", address("audit", "verify"), as_told)

    @call
    def run_at(self, run_id: str, time: datetime) -> Call[Json]:
        """A run as it was at a moment."""
        return Call("GET", address("runs", run_id, "at"), as_told, params={"time": time.isoformat()})

    @call
    def compensation(self, patch_id: str) -> Call[Json]:
        """How a committed patch would be taken back: `plan`, `digest`, `approved_by`, `default`, `steps`."""
        return Call("GET", address("patches", patch_id, "compensation"), as_told)

    @call
    def write_compensation(self, patch_id: str, plan: Mapping[str, Any]) -> Call[Json]:
        """Keep a plan in place of the one before."""
        return Call("PUT", address("patches", patch_id, "compensation"), as_told, body=plan)

    @call
    def approve_compensation(self, patch_id: str, *, digest: str, request_id: str | None = None) -> Call[Json]:
        """Let the plan with this digest be carried out."""
        path = address("patches", patch_id, "compensation", "approve")
        return Call("POST", path, as_told, body={"digest": digest}, keyed=True, request_id=request_id)

    @call
    def request_rollback(self, patch_id: str, *, reason: str, request_id: str | None = None) -> Call[Json]:
        """Ask for the approved plan to be carried out."""
        path = address("patches", patch_id, "compensation", "request")
        return Call("POST", path, as_told, body={"reason": reason}, keyed=True, request_id=request_id)

    @call
    def drain(self, worker_id: str, *, request_id: str | None = None) -> Call[Worker]:
        """No new task for a worker; it leaves when it has finished what it holds."""
        path = address("workers", worker_id, "drain")
        return Call("POST", path, worker, body={}, keyed=True, request_id=request_id)
