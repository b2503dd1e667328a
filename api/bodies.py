"""What a caller sent: JSON of bounded size, an object, of the shape the call wants; anything else is refused."""

from __future__ import annotations

import math
import re
from typing import Any, TypeVar

import msgspec
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http.request import UnreadablePostError

from statecore.kernel.refusals import Invalid

from .refusals import TooLarge, UnsupportedMediaType
from .request import Request

T = TypeVar("T")
JSON = "application/json"
EXACT = 2**53  # the whole numbers that a float holds without loss end here


def _number(text: str) -> int | float:
    """To JSON 1.0 is a whole number like 1."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return int(number) if number.is_integer() and abs(number) < EXACT else number


_decoder = msgspec.json.Decoder(float_hook=_number)


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of every fixed shape; a field nobody knows is refused by name."""


def read(request: Request) -> dict[str, Any]:
    """The object that was sent; nothing at all counts as an empty one."""
    raw = raw_body(request)
    if not raw:
        return {}
    content_type = (request.META.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()
    if content_type != JSON:
        raise UnsupportedMediaType(f"the body must be {JSON}, not {content_type or 'of no type'}")
    body = _decoded(raw)
    if not isinstance(body, dict):
        raise Invalid({"body": ["must be an object."]})
    return body


def raw_body(request: Request) -> bytes:
    try:
        raw: bytes = request.body
    except RequestDataTooBig:
        raise _too_large() from None
    except UnreadablePostError as error:
        raise Invalid({"body": ["could not be read to its end."]}) from error
    if len(raw) > settings.DATA_UPLOAD_MAX_MEMORY_SIZE:
        raise _too_large()
    return raw


def _too_large() -> TooLarge:
    return TooLarge(f"the body is larger than {settings.DATA_UPLOAD_MAX_MEMORY_SIZE} bytes")


def _decoded(raw: bytes) -> Any:
    try:
        return _decoder.decode(raw)
    except (ValueError, RecursionError) as error:  # msgspec's own errors are ValueErrors
        raise Invalid({"body": [f"is not JSON that can be read: {error}."]}) from None


_PLACE = re.compile(r" - at `\$\.?(?P<place>.*?)`$")
_NAMED = re.compile(r"field `(?P<place>.+)`$")


def shaped(body: dict[str, Any], shape: type[T]) -> T:
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        raise _wrong(str(error)) from None


def _wrong(sentence: str) -> Invalid:
    """By the field it is about, as far as the sentence names one."""
    said = _PLACE.sub("", sentence)
    found = _PLACE.search(sentence) or _NAMED.search(sentence)
    return Invalid({found["place"] if found else "body": [f"{said}."]})
