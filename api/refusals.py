"""Refusals specific to HTTP; the others are in statecore.kernel.refusals."""

from __future__ import annotations

from statecore.kernel.refusals import Refusal

SIZE_NEEDED = "send the size of the artifact as Content-Length, and no Transfer-Encoding"


class NotAuthenticated(Refusal):
    """The token or session is missing or invalid."""

    code, status = "not_authenticated", 401


class MethodNotAllowed(Refusal):
    """The URL does not support this method."""

    code, status = "method_not_allowed", 405


class LengthRequired(Refusal):
    """The call needs the header `Content-Length`."""

    code, status = "length_required", 411


class RangeNotSatisfiable(Refusal):
    """The requested range is beyond the content, which has `size` bytes."""

    code, status = "range_not_satisfiable", 416


class UnsupportedMediaType(Refusal):
    """The body is not `application/json`."""

    code, status = "unsupported_media_type", 415


class Throttled(Refusal):
    """Too many requests; retry after `retry_after` seconds."""

    code, status = "throttled", 429


class TooManyStreams(Refusal):
    """The account has as many open streams and WebSockets as `STATECORE_STREAMS_PER_ACCOUNT` allows; close one."""

    code, status = "too_many_streams", 429


class InternalError(Refusal):
    """An unexpected error, logged with its traceback."""

    code, status = "internal_error", 500
