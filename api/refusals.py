"""The refusals that only HTTP knows; those of the doors are in statecore.kernel.refusals."""

from __future__ import annotations

from statecore.kernel.refusals import Refusal


class NotAuthenticated(Refusal):
    code, status = "not_authenticated", 401


class MethodNotAllowed(Refusal):
    code, status = "method_not_allowed", 405


class TooLarge(Refusal):
    code, status = "too_large", 413


class UnsupportedMediaType(Refusal):
    code, status = "unsupported_media_type", 415


class Throttled(Refusal):
    """`retry_after` says in how many seconds it is worth asking again."""

    code, status = "throttled", 429


class Unavailable(Refusal):
    """The database cannot be reached or is too busy; nothing was changed."""

    code, status = "unavailable", 503


class InternalError(Refusal):
    """A mistake of ours, logged with its trace."""

    code, status = "internal_error", 500
