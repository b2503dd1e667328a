"""What was sent with POST: read, taken to be the same as before if its key says so, and answered once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Generic, TypeVar

from django.http import HttpResponse

from statecore.kernel.actors import Actor

from . import bodies, idempotency
from .request import Request

Shape = TypeVar("Shape", bound=bodies.Body)


class Posted(Generic[Shape]):
    """`said` has the shape of the call; `further` is what else was said, where a call has fields of its own."""

    def __init__(self, request: Request, shape: type[Shape], *, takes_more: bool = False) -> None:
        body = bodies.read(request)
        self.key = idempotency.key_of(request, body)
        fixed = {name: body.pop(name) for name in shape.__struct_fields__ if name in body} if takes_more else body
        self.said = bodies.shaped(fixed, shape)
        self.further: dict[str, Any] = body if takes_more else {}

    def once(
        self,
        actor: Actor,
        ask: Callable[[], dict[str, Any]],
        status: int = 200,
        *,
        is_kept: Callable[[Any], bool] = lambda told: True,
    ) -> HttpResponse:
        """For what is not a single change at the door, which has the key for itself."""
        return idempotency.reply(idempotency.once(self.key, actor, ask, is_kept=is_kept), status=status)
