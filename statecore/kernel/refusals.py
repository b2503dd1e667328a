"""Every way the door says no: a stable code, a sentence, and the facts to act on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Unmet:
    """Why a guard refuses; `entity` names what it waits for, `entity_type` its machine where that is another one."""

    code: str
    detail: str
    entity: str | None = None
    entity_type: str | None = None

    def as_dict(self) -> dict[str, Any]:
        """Without what there is none of."""
        return {name: value for name, value in asdict(self).items() if value is not None}


class Refusal(Exception):
    """Nothing was changed. `status` is the HTTP status this refusal is told with."""

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
    """What was sent is wrong; `errors` says what, by field."""

    code, status = "invalid", 400

    def __init__(self, errors: Mapping[str, Iterable[str]], **facts: Any) -> None:
        listed = {field: list(sentences) for field, sentences in errors.items()}
        detail = "; ".join(f"{field}: {' '.join(said)}" for field, said in listed.items())
        super().__init__(detail, errors=listed, **facts)


class StateIsProtected(Refusal):
    """A state is changed by its moves alone, not by writing the field."""

    code, status = "state_is_protected", 400


class UnknownTrigger(Refusal):
    """The machine has no such trigger; `triggers` lists those it has."""

    code, status = "unknown_trigger", 400


class PermissionDenied(Refusal):
    """Whoever asks may not do this; `required` says what it takes."""

    code, status = "permission_denied", 403


class NotFound(Refusal):
    """There is no such thing."""

    code, status = "not_found", 404


class Retired(Refusal):
    """It is in a file by now, no longer in the database; `retired_upto` is the last position that is, `file` which."""

    code, status = "retired", 410


class InvalidTransition(Refusal):
    """The trigger is not open from where the entity is; `allowed` lists those that are."""

    code = "invalid_transition"


class TerminalState(Refusal):
    """The entity has ended, and its end is not left; a retry makes a successor."""

    code = "terminal_state"


class AlreadyInState(Refusal):
    """It is where it was to go already."""

    code = "already_in_state"


class GuardFailed(Refusal):
    """A condition of the move does not hold; `unmet` says which, and what is waited for."""

    code = "guard_failed"

    def __init__(self, about: str, unmet: Iterable[Unmet], **facts: Any) -> None:
        self.unmet = tuple(unmet)
        reasons = "; ".join(reason.detail for reason in self.unmet)
        told = [{"entity": None, **reason.as_dict()} for reason in self.unmet]
        super().__init__(f"{about}: {reasons}", unmet=told, **facts)


class LeaseLost(GuardFailed):
    """The task is not the caller's any more: the result is to be dropped."""

    code = "lease_lost"


class ConstraintViolated(Refusal):
    """The database, the last line, refused a row that the rules above it let through."""

    code = "constraint_violated"


class AlreadyRetried(Refusal):
    """It has a successor already, which goes on in its place."""

    code = "already_retried"


class StaleVersion(Refusal):
    """The entity has changed since the caller looked; `version` is the one it has now."""

    code = "stale_version"


class DuplicateId(Refusal):
    """The id is taken."""

    code = "duplicate_id"


class IdempotencyMismatch(Refusal):
    """The key was used for another request."""

    code, status = "idempotency_mismatch", 422


class BreakerOpen(Refusal):
    """The tool is not to be called now; `retry_after` says in how many seconds it is worth asking again."""

    code, status = "breaker_open", 503
