"""Every way the server says no, as exceptions: by family, with the code, the sentence and the facts."""

from __future__ import annotations

from typing import Any, ClassVar


class StatecoreError(Exception):
    """The root of everything the client raises by itself."""


class Unreachable(StatecoreError):
    """No usable answer within the patience of the client: whether the call was heard is not known."""


class Garbled(StatecoreError):
    """An answer that is not what the API promises: most likely it did not come from Statecore."""


class Unsendable(StatecoreError):
    """Nothing was sent: there is no way to say it, such as a number that is not finite."""


class Refused(StatecoreError):
    """The server said no, and nothing was changed. `facts` is the rest of the problem document."""

    codes: ClassVar[tuple[str, ...]] = ()
    statuses: ClassVar[tuple[int, ...]] = ()

    def __init__(self, status: int, code: str, detail: str, facts: dict[str, Any]) -> None:
        super().__init__(f"{code}: {detail}" if detail else code)
        self.status, self.code, self.detail, self.facts = status, code, detail, facts


class Invalid(Refused):
    """The request itself is wrong; `errors` says what, by field."""

    codes = ("invalid", "state_is_protected", "unknown_trigger")
    statuses = (400, 405, 406, 413, 415)

    @property
    def errors(self) -> dict[str, list[str]]:
        return dict(self.facts.get("errors", {}))


class NotAuthenticated(Refused):
    statuses = (401,)


class PermissionDenied(Refused):
    """`facts["required"]` names what is missing."""

    statuses = (403,)


class NotFound(Refused):
    statuses = (404, 410)


class Conflict(Refused):
    """The entity is not where the caller thought: `state`, `version` and `allowed` say where it is."""

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
    """`unmet` lists the reasons: code, detail and, where there is one, the entity waited for."""

    codes = ("guard_failed",)

    @property
    def unmet(self) -> list[dict[str, Any]]:
        return list(self.facts.get("unmet", ()))


class LeaseLost(GuardFailed):
    """The task is no longer this worker's: what it did does not count."""

    codes = ("lease_lost",)


class StaleVersion(Conflict):
    codes = ("stale_version",)


class IdempotencyMismatch(Refused):
    codes = ("idempotency_mismatch",)
    statuses = (422,)


class Retired(Refused):
    """It is in a file by now, no longer in the database; `retired_upto` is the last position that is."""

    codes = ("retired",)
    statuses = (410,)

    @property
    def retired_upto(self) -> int | None:
        return self.facts.get("retired_upto")


class Throttled(Refused):
    """Too many calls, for longer than the client was willing to wait."""

    statuses = (429,)

    @property
    def retry_after(self) -> float | None:
        return self.facts.get("retry_after")


class BreakerOpen(Refused):
    """The tool is not to be called now; asking again is worth it after `retry_after` seconds."""

    codes = ("breaker_open",)

    @property
    def retry_after(self) -> float | None:
        return self.facts.get("retry_after")


FAMILIES: tuple[type[Refused], ...] = (
    Invalid, NotAuthenticated, PermissionDenied, NotFound, GuardFailed, LeaseLost, StaleVersion, Conflict,
    IdempotencyMismatch, Retired, Throttled, BreakerOpen,
)  # fmt: skip
BY_CODE = {code: family for family in FAMILIES for code in family.codes}
BY_STATUS = {status: family for family in FAMILIES for status in family.statuses}


def refusal(status: int, problem: dict[str, Any], retry_after: float | None) -> Refused:
    """The exception of a problem document: by its code, and by its status where the code is a new one."""
    facts = {
        name: value for name, value in problem.items() if name not in ("type", "title", "status", "code", "detail")
    }
    if retry_after is not None:
        facts["retry_after"] = retry_after
    code = str(problem.get("code") or f"http_{status}")
    family = BY_CODE.get(code) or BY_STATUS.get(status, Refused)
    return family(status, code, str(problem.get("detail") or problem.get("title") or ""), facts)
