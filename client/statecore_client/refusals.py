"""The exceptions of the client: one class for each kind of refusal, with its code, detail and facts."""

from __future__ import annotations

from typing import Any, ClassVar


class StatecoreError(Exception):
    """The base class of the exceptions of this client."""


class Unreachable(StatecoreError):
    """No usable response before the client gave up. The server may or may not have executed the call."""


class UnexpectedResponse(StatecoreError):
    """The response does not have the documented form. It probably does not come from Statecore."""


class Unsendable(StatecoreError):
    """Nothing was sent: JSON cannot represent a value, such as NaN, or a header cannot contain the `request_id`."""


class Refused(StatecoreError):
    """The server refused the call and changed nothing.

    `code` and `detail` give the reason; `facts` holds the remaining members of the problem document.
    """

    codes: ClassVar[tuple[str, ...]] = ()
    statuses: ClassVar[tuple[int, ...]] = ()

    def __init__(self, status: int, code: str, detail: str, facts: dict[str, Any]) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.status, self.code, self.detail, self.facts = status, code, detail, facts


class Invalid(Refused):
    """The request is invalid; `errors` holds the messages by field."""

    codes = ("invalid", "state_is_protected", "unknown_trigger")
    statuses = (400, 405, 406, 413, 415)

    @property
    def errors(self) -> dict[str, list[str]]:
        return dict(self.facts.get("errors", {}))


class NotAuthenticated(Refused):
    statuses = (401,)


class PermissionDenied(Refused):
    """`facts["required"]` is the missing permission or scope."""

    statuses = (403,)


class NotFound(Refused):
    statuses = (404, 410)


class Conflict(Refused):
    """The current state does not allow the call. `allowed` lists the triggers that are open in `state`."""

    statuses = (409,)

    @property
    def state(self) -> str | None:
        return self.facts.get("state")

    @property
    def version(self) -> int | None:
        return self.facts.get("version")

    @property
    def allowed(self) -> list[str]:
        return list(self.facts.get("allowed", ()))


class GuardFailed(Conflict):
    """`unmet` lists the guards that refused: `code`, `detail` and, if the guard waits for an entity, `entity`."""

    codes = ("guard_failed",)

    @property
    def unmet(self) -> list[dict[str, Any]]:
        return list(self.facts.get("unmet", ()))


class LeaseLost(GuardFailed):
    """The worker no longer holds the task; its result is not accepted."""

    codes = ("lease_lost",)


class StaleVersion(Conflict):
    """The entity has changed since the caller read the version that it passed as `expected_version`."""

    codes = ("stale_version",)


class IdempotencyMismatch(Refused):
    """The `request_id` was used before, for a different request."""

    codes = ("idempotency_mismatch",)
    statuses = (422,)


class Archived(Refused):
    """The requested events are in an archive file and no longer in the journal, up to position `archived_upto`."""

    codes = ("archived",)
    statuses = (410,)

    @property
    def archived_upto(self) -> int | None:
        return self.facts.get("archived_upto")


class Throttled(Refused):
    """The token exceeded its rate limit, and the client may not wait until `retry_after` seconds have passed."""

    statuses = (429,)

    @property
    def retry_after(self) -> float | None:
        return self.facts.get("retry_after")


class BreakerOpen(Refused):
    """The tool must not be called now; request it again after `retry_after` seconds."""

    codes = ("breaker_open",)

    @property
    def retry_after(self) -> float | None:
        return self.facts.get("retry_after")


REFUSALS: tuple[type[Refused], ...] = (
    Invalid, NotAuthenticated, PermissionDenied, NotFound, GuardFailed, LeaseLost, StaleVersion, Conflict,
    IdempotencyMismatch, Archived, Throttled, BreakerOpen,
)  # fmt: skip
BY_CODE = {code: refusal for refusal in REFUSALS for code in refusal.codes}
BY_STATUS = {status: refusal for refusal in REFUSALS for status in refusal.statuses}


def build_refusal(status: int, problem: dict[str, Any], retry_after: float | None) -> Refused:
    """Returns the exception for a problem document, chosen by its code, or by its status if the code is unknown."""
    facts = {
        name: value for name, value in problem.items() if name not in ("type", "title", "status", "code", "detail")
    }
    if retry_after is not None:
        facts["retry_after"] = retry_after
    code = str(problem.get("code") or f"http_{status}")
    refusal = BY_CODE.get(code) or BY_STATUS.get(status, Refused)
    return refusal(status, code, str(problem.get("detail") or problem.get("title") or ""), facts)
