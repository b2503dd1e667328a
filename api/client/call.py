"""One call of the API as a plain description, and the two ways a client offers it.

A method decorated with `call` returns the description; a plain client performs it and returns the result, an
asynchronous one returns something to await. So each call is written down once.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Concatenate, Generic, ParamSpec, TypeVar, overload
from urllib.parse import quote

from .records import Json, Page

if TYPE_CHECKING:
    from .asynchronous import AsyncClient
    from .synchronous import Client

P = ParamSpec("P")
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Answer:
    """A successful answer: its JSON, and whether it is the kept answer to an earlier request."""

    json: Any
    replayed: bool = False


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    method: str
    path: str
    read: Callable[[Answer], T]
    body: Any = None
    params: Mapping[str, Any] = field(default_factory=dict)
    # A keyed call is done once however often it is sent; None makes a key of its own.
    keyed: bool = False
    request_id: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    # How long the server may think, beyond the client's time-out: a long poll is asked to.
    extra_seconds: float = 0.0


def address(*parts: str) -> str:
    """`tasks/t1/explain/`; a part can never reach out of its place."""
    return "".join(f"{_quoted(part)}/" for part in parts)


def _quoted(part: str) -> str:
    """Dots alone are an id like any other, which as they are would lead out of the folder."""
    return quote(part, safe="") if part.strip(".") else part.replace(".", "%2E")


def given(**fields: Any) -> Json:
    """The fields that were given: None stands for not at all."""
    return {name: value for name, value in fields.items() if value is not None}


class call(Generic[P, T]):  # noqa: N801 - used as a decorator
    def __init__(self, describe: Callable[Concatenate[Any, P], Call[T]]) -> None:
        self.describe, self.__doc__ = describe, describe.__doc__

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, T]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, Awaitable[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        def perform(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.perform(self.describe(client, *args, **kwargs))

        return self if client is None else update_wrapper(perform, self.describe)


class pages(Generic[P, T]):  # noqa: N801 - used as a decorator
    """A list as long as it is: pages are fetched while somebody reads on."""

    def __init__(self, describe: Callable[Concatenate[Any, P], Call[Page[T]]]) -> None:
        self.describe, self.__doc__ = describe, describe.__doc__

    @overload
    def __get__(self, client: Client, owner: type) -> Callable[P, Iterator[T]]: ...
    @overload
    def __get__(self, client: AsyncClient, owner: type) -> Callable[P, AsyncIterator[T]]: ...

    def __get__(self, client: Any, owner: type) -> Any:
        def follow(*args: P.args, **kwargs: P.kwargs) -> Any:
            return client.follow(self.describe(client, *args, **kwargs))

        return self if client is None else update_wrapper(follow, self.describe)
