"""The typed results of calls. `fields` holds the whole JSON object, including members without an attribute."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

import msgspec

from .refusals import UnexpectedResponse

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
    """An entity of any collection, or a row without a machine, such as a phase; its state is empty."""

    id: str
    state: str = ""
    version: int = 0
    created_at: datetime = NEVER
    updated_at: datetime = NEVER
    state_entered_at: datetime = NEVER
    retry_of: str | None = None
    metadata: Json = {}


class Task(Entity, kw_only=True):
    """A task with its payload. `attempt` is the fencing number that a report must name."""

    attempt: int = 0
    workstream: str | None = None
    run: str | None = None
    worker: str | None = None
    payload: Any = None
    required_capabilities: list[str] = []
    tool: str = ""
    expected_exit_codes: list[int] = msgspec.field(default_factory=lambda: [0])
    timeout_sec: float = 1800
    heartbeat_sec: float = 60
    retry_count: int = 0
    max_retries: int = 0
    is_critical: bool = False
    lease_expires_at: datetime | None = None
    exit_code: int | None = None
    output: str = ""
    last_error: str = ""
    # The results of its dependencies by id, in the answer to a claim.
    inputs: dict[str, Any] = {}
    # The attempt before this one, in the answer to a claim: attempt, exit_code, error, output, and patch if it had one.
    previous: dict[str, Any] | None = None


class WorkerEntity(Entity, kw_only=True):
    """A registered worker."""

    capabilities: list[str] = []
    max_concurrent_tasks: int = 1
    current_load: int = 0


class Event(Record, kw_only=True):
    """One change of one entity, as stored in the journal."""

    event_id: str
    entity_type: str
    entity_id: str
    to_state: str
    trigger: str
    kind: str
    version: int
    timestamp: datetime
    event_name: str = ""
    actor: str = ""
    severity: str = "info"
    from_state: str | None = None
    operator: str | None = None
    reason: str | None = None
    caused_by: str | None = None
    prev_hash: str = ""
    hash: str = ""
    metadata: Json = {}


class PositionedEvent(msgspec.Struct, kw_only=True):
    """An event and its position in the journal; pass the cursor as `after` to resume."""

    position: int
    event: Event
    epoch: int | None = None

    @property
    def cursor(self) -> str:
        """The position with its epoch, so that a failover or a restore in between is noticed."""
        return str(self.position) if self.epoch is None else f"{self.epoch}-{self.position}"


class LogLine(Record, kw_only=True):
    """A line of a task's log. The stream is `stdout`, `stderr`, or `system` for a line about dropped ones."""

    number: int
    attempt: int = 0
    stream: str = "stdout"
    text: str = ""
    at: datetime = NEVER


class SubmittedRun(Record, kw_only=True):
    """The run of an accepted plan."""

    run: str
    replayed: bool = False


class UnmetGuard(msgspec.Struct, kw_only=True):
    """Why a transition is not allowed. `entity` is the entity that the guard waits for, if there is one."""

    code: str
    detail: str
    entity: str | None = None


class TransitionCheck(Record, kw_only=True):
    """A transition from the current state: whether it is allowed now and, if not, its unmet guards."""

    trigger: str
    to_state: str
    allowed: bool
    kind: str = "normal"
    unmet: list[UnmetGuard] = []


class Explanation(Record, kw_only=True):
    """Why an entity is in its state. `waiting_on` is the chain of entities from the next cause to the root cause."""

    transitions: list[TransitionCheck]
    waiting_on: list[Json] = []
    sentence: str = ""
    state: str = ""


class ReportAndClaimResult(Record, kw_only=True):
    """The claimed tasks, and a result for each report in order: `changed`, or `refusal` with the reason."""

    tasks: list[Task] = []
    reports: list[Json] = []


class HeartbeatReply(Record, kw_only=True):
    """The state of the worker, and commands for it: tasks to cancel, or a request to shut down."""

    state: str
    commands: list[Json] = []

    def cancels(self, task: Task) -> bool:
        """Whether this attempt of the task is cancelled; a command for another attempt does not count."""
        return any(
            command.get("cancel") == task.id and command.get("attempt", task.attempt) == task.attempt
            for command in self.commands
        )

    @property
    def requests_shutdown(self) -> bool:
        return any("shutdown" in command for command in self.commands)


class LeaseReply(Record, kw_only=True):
    """The reply to a renewal: the state, and when the lease ends without another one (None if it does not end)."""

    state: str
    attempt: int = 0
    lease_expires_at: datetime | None = None
    commands: list[Json] = []


class StuckEntity(Record, kw_only=True):
    """An entity that is overdue or needs a decision."""

    entity_type: str
    id: str
    state: str
    kind: str = "overdue"
    why: str = ""
    overdue_seconds: float = 0.0
    incident: int | None = None
    recovery: Json = {}

    @property
    def actions(self) -> list[Json]:
        """What the caller may do now; each has `action` (`retry`, `transition`, `override`), `collection` and `id`."""
        return list(self.recovery.get("actions") or ())


class Page(msgspec.Struct, Generic[T], kw_only=True):
    results: list[T]
    next: str | None = None
    previous: str | None = None


def to_record(kind: type[R], body: Any) -> R:
    """Converts JSON to a record; raises UnexpectedResponse if it does not have the documented form."""
    try:
        made = msgspec.convert(body, kind, strict=False)
    except msgspec.ValidationError as error:
        raise UnexpectedResponse(f"not a {kind.__name__}: {error}") from None
    made.fields = body
    return made
