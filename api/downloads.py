"""Sends a file in bounded memory, as a whole or as one range, such that no browser ever executes it."""

from __future__ import annotations

import base64
import re
from collections.abc import AsyncIterator, Iterator
from typing import Any

from asgiref.sync import sync_to_async
from django.core.handlers.asgi import ASGIRequest
from django.http import HttpResponse, StreamingHttpResponse

from .refusals import RangeNotSatisfiable
from .request import Request

CHUNK = 262_144
# The policy of the console permits scripts and styles of its host, so an artifact is never sent as one of these.
PASSIVE_TYPES = {
    "application/json", "application/pdf", "application/zip", "image/gif", "image/jpeg", "image/png", "image/webp",
    "text/csv", "text/plain",
}  # fmt: skip
OPAQUE = "application/octet-stream"
RANGE = re.compile(r"bytes=(?:(?P<first>[0-9]{1,18})-(?P<last>[0-9]{1,18})?|-(?P<suffix>[0-9]{1,18}))")


def describe_headers(name: str, sha256: str, content_type: str) -> dict[str, str]:
    """Return the headers of a download. The name needs no quoting: it has only letters, digits and some signs."""
    passive = content_type if content_type.partition(";")[0].strip().lower() in PASSIVE_TYPES else OPAQUE
    return {
        "Content-Type": passive,
        "Content-Disposition": f'attachment; filename="{name}"',
        "Content-Security-Policy": "default-src 'none'; frame-ancestors 'none'; sandbox",
        "X-Content-Type-Options": "nosniff",
        "Cross-Origin-Resource-Policy": "same-origin",
        "Cache-Control": "private, no-cache",
        "Accept-Ranges": "bytes",
        "ETag": f'"{sha256}"',
        "Repr-Digest": f"sha-256=:{base64.b64encode(bytes.fromhex(sha256)).decode()}:",
    }


def is_known(request: Request, etag: str) -> bool:
    """Whether the caller has this content already, by its `If-None-Match`."""
    given = [each.strip().removeprefix("W/") for each in request.META.get("HTTP_IF_NONE_MATCH", "").split(",")]
    return etag in given or given == ["*"]


def find_range(request: Request, etag: str, size: int) -> tuple[int, int] | None:
    """Return the first and the last byte of the requested range; None for the whole content.

    A range that cannot be read, or of another content (`If-Range`), is ignored, as RFC 9110 says.
    """
    found = RANGE.fullmatch(request.META.get("HTTP_RANGE", ""))
    if found is None or request.META.get("HTTP_IF_RANGE", etag) != etag:
        return None
    if found["suffix"] is not None:
        first, last = max(size - int(found["suffix"]), 0), size - 1
    else:
        first, last = int(found["first"]), min(int(found["last"] or size - 1), size - 1)
    if first >= size or int(found["last"] or first) < first or found["suffix"] == "0":
        raise RangeNotSatisfiable(f"the content has {size} bytes", size=size)
    return first, last


def file_response(request: Request, file: Any, size: int, headers: dict[str, str]) -> HttpResponse:
    """Return a response that streams the file and closes it."""
    try:
        chosen = find_range(request, headers["ETag"], size)
        first, last = chosen or (0, size - 1)
        file.seek(first)
    except BaseException:
        file.close()
        raise
    given = {**headers, "Content-Length": str(last - first + 1)}
    if chosen is not None:
        given["Content-Range"] = f"bytes {first}-{last}/{size}"
    kind = AsyncFilePart if isinstance(request, ASGIRequest) else FilePart
    response: Any = StreamingHttpResponse(
        kind(file, last - first + 1), status=200 if chosen is None else 206, headers=given
    )
    return response  # type: ignore[no-any-return]


class Part:
    """The next bytes of a file, which is closed with the response."""

    def __init__(self, file: Any, left: int) -> None:
        self.file, self.left = file, left

    def read(self) -> bytes:
        chunk: bytes = self.file.read(min(CHUNK, self.left)) if self.left else b""
        self.left -= len(chunk)
        return chunk

    def close(self) -> None:
        self.file.close()


class FilePart(Part):
    def __iter__(self) -> Iterator[bytes]:
        while chunk := self.read():
            yield chunk


class AsyncFilePart(Part):
    """Under ASGI, Django would read an ordinary iterator to its end before it sends anything."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        while chunk := await sync_to_async(self.read, thread_sensitive=False)():
            yield chunk
