"""The description of one API call, and the decorators that turn it into a method of both clients.

A method decorated with `call` returns a description. The synchronous client performs it and returns the result; the
asynchronous client returns an awaitable. Each call is therefore written once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

from msgspec import UNSET

from .records import Json, Page
from .transfer import Content, Download

if TYPE_CHECKING:
    from .clients import AsyncClient, Client

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class DecodedResponse:
    """The JSON or text of a successful response. `replayed`: an earlier request with the same key produced it."""

    json: Any
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[DecodedResponse], T]
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    # A keyed call has an idempotency key, so it takes effect once, however often it is sent. The key is the request_id,
    # or random if there is none.
    keyed: bool = False
    request_id: str | None = None
    # Added to the client's timeout. The server may hold back the response to a long poll for as long.
    extra_seconds: float = 0.0
    # Sent in place of a JSON body, and where the body of the response is written; both in pieces.
    content: Content | None = None
    download: Download | None = None


def build_path(*parts: str | int) -> str:
    """Returns a path such as `tasks/t1/explain/`; parts are quoted and cannot add path segments."""
    return "".join(f"{quote_part(str(part))}/" for part in parts)


def build_query(**params: Any) -> Json:
    """Returns the parameters that are not None; times as the API takes them."""
    given = drop_none(**params)
    return {name: each.isoformat() if isinstance(each, datetime) else each for name, each in given.items()}


def quote_part(part: str) -> str:
    """Quotes an id. An id that consists of dots is valid, but unquoted it would be a relative path."""
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")


def drop_none(**fields: Any) -> Json:
    """Returns the fields that are not None."""
    return {name: value for name, value in fields.items() if value is not None}


def drop_unset(**fields: Any) -> Json:
    """Returns the fields that are given, which may be None."""
    return {name: value for name, value in fields.items() if value is not UNSET}


class Described(Generic[P, T]):
    """Turns a function that describes a call into a method of both clients, which do with it what `action` names."""

    action = ""

    def __init__(self, describe: Callable[Concatenate[Any, P], T]) -> None:
        self.describe, self.__doc__ = describe, describe.__doc__

    def bind(self, client: Any) -> Any:
        def perform(*args: P.args, **kwargs: P.kwargs) -> Any:
            return getattr(client, self.action)(self.describe(client, *args, **kwargs))

        return self if client is None else update_wrapper(perform, self.describe)


class call(Described[P, Call[T]]):  # noqa: N801 - used as a decorator
    """A method that performs a call and returns its result."""

    action = "perform"

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self.bind(client)


class paged_call(Described[P, Call[Page[T]]]):  # noqa: N801 - used as a decorator
    """A method that yields the items of a list and fetches pages as needed."""

    action = "iterate_pages"

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        return self.bind(client)
