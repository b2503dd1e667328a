"""The body of a request: a JSON object of bounded size, converted to the fields of the call, answered once per key."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Callable
from typing import Any, Generic, TypeVar

import msgspec
from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.http import HttpResponse
from django.http.request import UnreadablePostError

from statecore.journal import KEY_LENGTH
from statecore.kernel.actors import Actor
from statecore.kernel.refusals import ConstraintViolated, Invalid, TooLarge
from statecore.kernel.validation import text_error
from statecore.records.proof import NO_PROOF, Proof
from statecore.transitions import Outcome, RequestKey
from statecore.transitions.idempotency import answer_once
from statecore.transitions.unit_of_work import UnitOfWork, run_in_transaction

from .refusals import UnsupportedMediaType
from .request import Request
from .responses import JSON, outcome_response

T = TypeVar("T")
Respond = Callable[[UnitOfWork | None], dict[str, Any]]

EXACT = 2**53  # the largest whole number that a float holds exactly
# Code that walks through a body calls itself for each level.
MAX_DEPTH = 300
KEY_HEADER = "HTTP_IDEMPOTENCY_KEY"
KEY_FIELD = "request_id"
KEY_PATTERN = re.compile(r"[!-~]{1,200}")


class Body(msgspec.Struct, forbid_unknown_fields=True, kw_only=True):
    """The base of the fields of a call; an unknown field is refused by name."""

    def list_given(self) -> dict[str, Any]:
        """Return the fields that the caller has set, for calls whose fields are UNSET by default."""
        return {name: value for name, value in msgspec.structs.asdict(self).items() if value is not msgspec.UNSET}


class As:
    """The schema of a field of a body, in its annotation, where its Python type is not enough."""

    def __init__(self, schema: dict[str, Any]) -> None:
        self.schema = schema


Shape = TypeVar("Shape", bound=Body)


class RequestBody(Generic[Shape]):
    """The fields of a call, its idempotency key, and further fields where the call takes them (`takes_more`)."""

    def __init__(self, request: Request, shape: type[Shape], *, takes_more: bool = False) -> None:
        body = read_body(request)
        self.key = read_key(request, body)
        fixed = {name: body.pop(name) for name in shape.__struct_fields__ if name in body} if takes_more else body
        self.fields = convert_body(fixed, shape)
        self.extra: dict[str, Any] = body if takes_more else {}

    def respond_once(
        self,
        actor: Actor,
        respond: Respond,
        status: int = 200,
        *,
        is_kept: Callable[[Any], bool] = lambda response: True,
        is_one_step: bool = False,
        proof: Proof = NO_PROOF,
    ) -> HttpResponse:
        """Respond once per key, for calls that are not a single call of the transition service."""
        outcome = respond_once(self.key, actor, respond, is_kept=is_kept, is_one_step=is_one_step, proof=proof)
        return outcome_response(outcome, status=status)


# Reading


def read_body(request: Request) -> dict[str, Any]:
    """Return the JSON object of the body; an empty body counts as an empty object."""
    raw = raw_body(request)
    if not raw:
        return {}
    content_type = (request.META.get("CONTENT_TYPE") or "").partition(";")[0].strip().lower()
    if content_type != JSON:
        raise UnsupportedMediaType(f"the body must be {JSON}, not {content_type or 'of no type'}")
    body = decode_json(raw)
    if not isinstance(body, dict):
        raise Invalid({"body": ["must be an object."]})
    return body


def raw_body(request: Request) -> bytes:
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    try:
        raw: bytes = request.body
    except RequestDataTooBig:
        raise TooLarge(f"the body is larger than {limit} bytes") from None
    except UnreadablePostError as error:
        raise Invalid({"body": ["could not be read to its end."]}) from error
    if len(raw) > limit:
        raise TooLarge(f"the body is larger than {limit} bytes")
    return raw


def decode_json(raw: bytes) -> Any:
    try:
        body = _decoder.decode(raw)
    except (ValueError, RecursionError) as error:  # msgspec's errors are ValueErrors
        raise Invalid({"body": [f"is not JSON that can be read: {error}."]}) from None
    if raw.count(b"[") + raw.count(b"{") > MAX_DEPTH and _is_too_deep(body):
        raise Invalid({"body": [f"is nested deeper than {MAX_DEPTH} levels."]})
    return body


def _is_too_deep(body: Any) -> bool:
    level = [body]
    for _depth in range(MAX_DEPTH):
        nested = [each.values() if isinstance(each, dict) else each for each in level if isinstance(each, dict | list)]
        level = [child for children in nested for child in children]
        if not level:
            return False
    return any(isinstance(each, dict | list) for each in level)


def _read_number(text: str) -> int | float:
    """In JSON 1.0 is a whole number like 1."""
    number = float(text)
    if not math.isfinite(number):
        raise ValueError(f"{text} is out of range")
    return int(number) if number.is_integer() and abs(number) < EXACT else number


_decoder = msgspec.json.Decoder(float_hook=_read_number)
_PLACE = re.compile(r" - at `\$\.?(?P<place>.*?)`$")
_NAMED = re.compile(r"field `(?P<place>.+)`$")


def convert_body(body: dict[str, Any], shape: type[T]) -> T:
    """Convert to the fields of a call; raises Invalid, by the field that msgspec's message names."""
    try:
        return msgspec.convert(body, shape)
    except msgspec.ValidationError as error:
        message = str(error)
        found = _PLACE.search(message) or _NAMED.search(message)
        raise Invalid({found["place"] if found else "body": [f"{_PLACE.sub('', message)}."]}) from None


# Idempotency


def read_key(request: Request, body: dict[str, Any]) -> RequestKey | None:
    """Take `request_id` out of the body and return the idempotency key; the header wins where both are given."""
    is_in_body, in_body = KEY_FIELD in body, body.pop(KEY_FIELD, None)
    if is_in_body and (text_error(in_body, KEY_LENGTH) or not in_body):
        raise Invalid({KEY_FIELD: [f"must be text of 1 to {KEY_LENGTH} characters, without NUL."]})
    key = request.META.get(KEY_HEADER)
    if key is not None and not KEY_PATTERN.fullmatch(key):
        raise Invalid({"Idempotency-Key": ["must be 1 to 200 visible ASCII characters."]})
    key = in_body if key is None else key
    if key is None:
        return None
    # A path with and without its final slash is the same call.
    endpoint = f"{request.method} {request.path.removesuffix('/')}/"
    return RequestKey(key, endpoint, hashlib.sha256(raw_body(request)).hexdigest())


class Response(Outcome):
    """The outcome of a call that does not return one entity."""

    __slots__ = ()

    def as_dict(self) -> dict[str, Any]:
        return self.answer


def respond_once(
    key: RequestKey | None,
    actor: Actor,
    respond: Respond,
    *,
    is_kept: Callable[[Any], bool] = lambda response: True,
    is_one_step: bool = False,
    proof: Proof = NO_PROOF,
) -> Outcome:
    """Respond, or repeat the response stored under this key; response and record are one transaction.

    `respond` receives the unit of work to pass on as `within`; None without a key. A response that `is_kept` rejects is
    not stored: the same request is executed again. `is_one_step` saves the savepoint, if `respond` raises all errors of
    the transition service; it is executed again with one if a constraint is violated. With a key, raises NotProven if
    the proof does not hold.
    """

    def execute(work: UnitOfWork | None) -> Outcome:
        return Response(None, None, answer=respond(work))

    if key is None:
        return execute(None)

    def execute_once(work: UnitOfWork) -> Outcome:
        work.is_one_step = is_one_step
        return answer_once(key, actor, execute, work, is_kept=lambda outcome: is_kept(outcome.answer), proof=proof)

    try:
        return run_in_transaction(execute_once)
    except ConstraintViolated:
        if not is_one_step:
            raise
        return respond_once(key, actor, respond, is_kept=is_kept, proof=proof)
