"""What the API answers, typed. `fields` holds everything that was told, also what has no name here."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from .refusals import Garbled

Json = dict[str, Any]
R = TypeVar("R", bound="Record")
T = TypeVar("T")


class Record(msgspec.Struct, kw_only=True):
    fields: Json = {}

    def __getitem__(self, name: str) -> Any:
        return self.fields[name]

    def get(self, name: str, default: Any = None) -> Any:
        return self.fields.get(name, default)


NEVER = datetime.fromtimestamp(0, UTC)


class Entity(Record, kw_only=True):
    """One row of any collection. A plain record, such as a phase, has no state, and never entered one."""

    id: str
    state: str = ""
    version: int = 0
    created_at: datetime = NEVER
    updated_at: datetime = NEVER
    state_entered_at: datetime = NEVER
    retry_of: str | None = None
    metadata: Json = {}


class Task(Entity, kw_only=True):
    """A task as an agent sees it; `attempt` is the fencing number that a report must name."""

    attempt: int = 0
    workstream: str | None = None
    run: str | None = None
    worker: str | None = None
    payload: Any = None
    required_capabilities: list[str] = []
    expected_exit_codes: list[int] = msgspec.field(default_factory=lambda: [0])
    timeout_sec: float = 1800
    retry_count: int = 0
    max_retries: int = 0
    is_critical: bool = False
    lease_expires_at: datetime | None = None
    exit_code: int | None = None
    output: str = ""
    last_error: str = ""


class Worker(Entity, kw_only=True):
    capabilities: list[str] = []
    max_concurrent_tasks: int = 1
    current_load: int = 0


class Event(Record, kw_only=True):
    """One change of one entity, as the journal keeps it."""

    event_id: str
    entity_type: str
    entity_id: str
    to_state: str
    trigger: str
    kind: str
    version: int
    timestamp: datetime
    actor: str = ""
    severity: str = "info"
    from_state: str | None = None
    operator: str | None = None
    reason: str | None = None
    caused_by: str | None = None
    prev_hash: str = ""
    hash: str = ""
    metadata: Json = {}


class Positioned(msgspec.Struct, kw_only=True):
    """An event and its place in the order of all events: where to go on after a pause."""

    position: int
    event: Event


class Outcome(Record, kw_only=True):
    """What a move changed: the event, what followed from it, and the entity as it is now.

    `replayed` says that this is the kept answer to an earlier request with the same key.
    """

    changed: bool
    event: Event | None = None
    caused: list[Event] = []
    entity: Entity | None = None
    replayed: bool = False


class Submitted(Record, kw_only=True):
    """The run of an accepted plan."""

    run: str
    replayed: bool = False


class Unmet(msgspec.Struct, kw_only=True):
    code: str
    detail: str
    entity: str | None = None


class Move(Record, kw_only=True):
    """One move from where an entity is, and what is in its way."""

    trigger: str
    to_state: str
    allowed: bool
    kind: str = "normal"
    unmet: list[Unmet] = []


class Explanation(Record, kw_only=True):
    moves: list[Move]
    waiting_on: list[Json] = []
    sentence: str = ""
    state: str = ""


class Exchanged(Record, kw_only=True):
    """What became of each report, in their order (`changed`, or why not in `refusal`), and the tasks that come next."""

    tasks: list[Task] = []
    reports: list[Json] = []


class Beat(Record, kw_only=True):
    """The answer to a heartbeat: where the worker is, and what it has to do."""

    state: str
    commands: list[Json] = []

    def cancels(self, task: Task) -> bool:
        """Whether this attempt at the task is to be stopped; an earlier one of the same task is another matter."""
        return any(
            command.get("cancel") == task.id and command.get("attempt", task.attempt) == task.attempt
            for command in self.commands
        )

    @property
    def shuts_down(self) -> bool:
        return any("shutdown" in command for command in self.commands)


class Stuck(Record, kw_only=True):
    """Something past its deadline, or waiting for a decision."""

    entity_type: str
    id: str
    state: str
    why: str = ""
    overdue_seconds: float = 0.0


class Machine(Record, kw_only=True):
    """The declaration of a machine."""

    entity_type: str
    version: str
    initial: str
    states: list[Json]
    moves: list[Json]


class Page(msgspec.Struct, Generic[T], kw_only=True):
    results: list[T]
    next: str | None = None
    previous: str | None = None


def record(kind: type[R], told: Any) -> R:
    """A record of what was told; what does not fit is the server's fault, and said to be."""
    try:
        made = msgspec.convert(told, kind, strict=False)
    except msgspec.ValidationError as error:
        raise Garbled(f"not a {kind.__name__}: {error}") from None
    made.fields = told
    return made
