"""The reasons to refuse a request, each with a stable code, a sentence and facts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Unmet:
    """Why a guard does not hold.

    `entity` is the id of the entity it depends on, `entity_type` its machine if that is a different one.
    """

    code: str
    detail: str
    entity: str | None = None
    entity_type: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Omits empty members."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Refusal(Exception):
    """A request was refused and nothing was changed; `status` is the HTTP status of the response."""

    code: ClassVar[str]
    status: ClassVar[int] = 409
    counted = False

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts

    def as_dict(self) -> dict[str, Any]:
        return {"code": self.code, "detail": self.detail, **self.facts}


class Invalid(Refusal):
    """The request is invalid; `errors` explains it by field."""

    code, status = "invalid", 400

    def __init__(self, errors: Mapping[str, Iterable[str]], **facts: Any) -> None:
        listed = {field: list(sentences) for field, sentences in errors.items()}
        detail = "; ".join(f"{field}: {' '.join(sentences)}" for field, sentences in listed.items())
        super().__init__(detail, errors=listed, **facts)


class StateIsProtected(Refusal):
    """A state can be changed only by transitions, not by writing the field."""

    code, status = "state_is_protected", 400


class UnknownTrigger(Refusal):
    """The machine does not have this trigger; `triggers` lists those it has."""

    code, status = "unknown_trigger", 400


class PermissionDenied(Refusal):
    """The caller lacks a scope or permission; `required` names it."""

    code, status = "permission_denied", 403


class NotTheHolder(Refusal):
    """Another agent holds the entity; `holder` is its identity. Only the holder may report on it."""

    code, status = "not_the_holder", 403


class SamePerson(Refusal):
    """The request for approval, or the work to be judged, is from the same account; another account decides."""

    code, status = "same_person", 403


class ApprovalRequired(Refusal):
    """The change leads to a protected state (`policies`); request an override, which another person approves."""

    code, status = "approval_required", 403


class NotFound(Refusal):
    """The requested object does not exist."""

    code, status = "not_found", 404


class Archived(Refusal):
    """The events are archived; `file` names the archive file, and `archived_upto` is the last archived position."""

    code, status = "archived", 410


class EpochEnded(Refusal):
    """A failover or a restore lost the position; `kept` is the last one that the current `epoch` shares with it."""

    code = "epoch_ended"


class InvalidTransition(Refusal):
    """The trigger cannot be fired from the current state; `allowed` lists those that can."""

    code = "invalid_transition"


class TerminalState(Refusal):
    """The entity is in a final state; a retry creates a successor."""

    code = "terminal_state"


class AlreadyInState(Refusal):
    """The entity is already in the target state."""

    code = "already_in_state"


class GuardFailed(Refusal):
    """A guard of the transition does not hold; `unmet` lists the reasons."""

    code = "guard_failed"

    def __init__(self, about: str, unmet: Iterable[Unmet], **facts: Any) -> None:
        self.unmet = tuple(unmet)
        reasons = "; ".join(reason.detail for reason in self.unmet)
        reasons_as_dicts = [{"entity": None, **reason.as_dict()} for reason in self.unmet]
        super().__init__(f"{about}: {reasons}", unmet=reasons_as_dicts, **facts)


class LeaseLost(GuardFailed):
    """The caller no longer holds the task and must discard its result."""

    code = "lease_lost"


class LogGap(Refusal):
    """Lines before these are missing: `offset` is the number of lines of the attempt that are stored."""

    code = "log_gap"


class LogTooFast(Refusal):
    """The log grows faster than `STATECORE_TASK_LOG_BYTES_PER_SECOND` permits; retry after `retry_after` seconds."""

    code, status = "log_too_fast", 429


class ConstraintViolated(Refusal):
    """A database constraint refused the change."""

    code = "constraint_violated"


class AlreadyRetried(Refusal):
    """The entity already has a successor."""

    code = "already_retried"


class StaleVersion(Refusal):
    """The entity has changed since it was read; `version` is the current version."""

    code = "stale_version"


class ApprovalExpired(Refusal):
    """The request for approval was not decided in time; request the override again."""

    code = "approval_expired"


class AlreadyDecided(Refusal):
    """The request for approval is decided already; `approval` has the decision."""

    code = "already_decided"


class AlreadyRequested(Refusal):
    """The same override by the same account is waiting for approval; `approval` is that request."""

    code = "already_requested"


class DuplicateId(Refusal):
    """The id is already in use."""

    code = "duplicate_id"


class TooLarge(Refusal):
    """The body is larger than `STATECORE_BODY_LIMIT`, or an artifact larger than the limit that `setting` names."""

    code, status = "too_large", 413


class StorageUnavailable(Refusal):
    """The storage of artifacts is unreachable or full; retry after `retry_after` seconds."""

    code, status = "storage_unavailable", 503


class Unavailable(Refusal):
    """The database is unreachable, starting or overloaded; nothing was changed. Retry after `retry_after` seconds."""

    code, status = "unavailable", 503


class DatabaseReadOnly(Refusal):
    """The database accepts no changes, because it is read-only or a replica; retry after `retry_after` seconds."""

    code, status = "database_read_only", 503


class DatabaseFull(Refusal):
    """The disk of the database is full; nothing was changed. Retry after `retry_after` seconds."""

    code, status = "database_full", 503


class DatabaseBusy(Refusal):
    """A lock was not released in time, or no connection was free; retry after `retry_after` seconds."""

    code, status = "database_busy", 503


class IdempotencyMismatch(Refusal):
    """The idempotency key was used for a different request."""

    code, status = "idempotency_mismatch", 422


class BreakerOpen(Refusal):
    """The circuit breaker of the tool is open; retry after `retry_after` seconds."""

    code, status = "breaker_open", 503
