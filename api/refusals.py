"""The refusals that only HTTP knows; those of the doors are in statecore.kernel.refusals."""

from __future__ import annotations

from statecore.kernel.refusals import Refusal


class NotAuthenticated(Refusal):
    """There is no token or session, or not a good one."""

    code, status = "not_authenticated", 401


class MethodNotAllowed(Refusal):
    """The address does not take this method."""

    code, status = "method_not_allowed", 405


class TooLarge(Refusal):
    """The body has more bytes than `STATECORE_BODY_LIMIT`."""

    code, status = "too_large", 413


class UnsupportedMediaType(Refusal):
    """The body is not `application/json`."""

    code, status = "unsupported_media_type", 415


class Throttled(Refusal):
    """Too many calls; `retry_after` says in how many seconds it is worth asking again."""

    code, status = "throttled", 429


class Unavailable(Refusal):
    """The database cannot be reached or is too busy; nothing was changed."""

    code, status = "unavailable", 503


class InternalError(Refusal):
    """A mistake of ours, logged with its trace."""

    code, status = "internal_error", 500
