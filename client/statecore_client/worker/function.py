"""A function that works on tasks: its payload and result types, and which errors are retried."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, get_type_hints

import msgspec

from ..records import Task
from .context import Context, TaskFailed

UNSERIALIZABLE = (TypeError, ValueError, OverflowError, RecursionError, msgspec.MsgspecError)


@dataclass(frozen=True, slots=True)
class Function:
    name: str
    call: Callable[..., Any]
    is_async: bool
    takes_payload: bool
    payload_type: Any
    retries: int | None
    retry_on: tuple[type[Exception], ...]

    def read_arguments(self, context: Context) -> tuple[Any, ...]:
        """Returns the arguments of the call. Raises TaskFailed, without retry, for a payload that does not fit."""
        if not self.takes_payload:
            return (context,)
        try:
            return (context, msgspec.convert(context.task.payload, self.payload_type))
        except msgspec.ValidationError as error:
            kind = getattr(self.payload_type, "__name__", str(self.payload_type))
            raise TaskFailed(f"the payload is not a {kind}: {error}", retry=False) from None

    def serialize(self, value: Any) -> Any:
        """Returns the result as JSON values. Raises TaskFailed, without retry, if it has others."""
        try:
            return msgspec.json.decode(msgspec.json.encode(value))
        except UNSERIALIZABLE as error:
            raise TaskFailed(f"the result of {self.name} cannot be sent as JSON: {error}", retry=False) from None

    def may_retry(self, error: BaseException, task: Task) -> bool:
        """Whether the task is to be tried again, as far as retries of the task remain."""
        if self.retries is not None and task.retry_count >= self.retries:
            return False
        return error.retry if isinstance(error, TaskFailed) else isinstance(error, self.retry_on)


def describe(
    call: Callable[..., Any], name: str, retries: int | None, retry_on: tuple[type[Exception], ...]
) -> Function:
    """Raises TypeError for a function that cannot be called with the context and the payload."""
    parameters = list(inspect.signature(call).parameters.values())
    positional = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    if not 1 <= len(parameters) <= 2 or any(each.kind not in positional for each in parameters):
        raise TypeError(f"{name} must take the context and, if it needs one, the payload: (ctx) or (ctx, payload)")
    payload_type = get_type_hints(call).get(parameters[1].name, Any) if len(parameters) == 2 else Any
    return Function(
        name, call, inspect.iscoroutinefunction(call), len(parameters) == 2, payload_type, retries, retry_on
    )
