"""A trigger's own fields, read off the signature of the method that makes the move."""

from __future__ import annotations

import inspect
import math
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Union, get_args, get_origin, get_type_hints

from .plain import json_complaint, text_complaint
from .refusals import Invalid

INT_MIN, INT_MAX = -(2**31), 2**31 - 1
JSON_NAMES = {
    int: "integer",
    float: "number",
    str: "string",
    bool: "boolean",
    dict: "object",
    list: "array",
}


@dataclass(frozen=True, slots=True)
class Param:
    name: str
    type: type
    nullable: bool
    required: bool

    @property
    def json_type(self) -> str:
        return JSON_NAMES[self.type]

    def complaint(self, value: object) -> str | None:
        """Why this value will not do, or None."""
        if value is None:
            return None if self.nullable else "may not be null."
        if not self._fits(value):
            return f"must be of type {self.json_type}."
        return _out_of_bounds(value)

    def _fits(self, value: object) -> bool:
        if isinstance(value, bool):
            return self.type is bool
        if self.type is float:
            return isinstance(value, int | float)
        return isinstance(value, self.type)


def _out_of_bounds(value: object) -> str | None:
    if isinstance(value, int) and not INT_MIN <= value <= INT_MAX:
        return "must fit into 32 bits."
    if isinstance(value, float) and not math.isfinite(value):
        return "must be a finite number."
    if isinstance(value, str):
        return text_complaint(value)
    return json_complaint(value) if isinstance(value, dict | list) else None


def params_of(method: Callable[..., Any]) -> tuple[Param, ...]:
    hints = get_type_hints(method)
    signature = inspect.signature(method)
    return tuple(
        _param(parameter, hints[parameter.name])
        for parameter in list(signature.parameters.values())[1:]
        if parameter.kind in (parameter.POSITIONAL_OR_KEYWORD, parameter.KEYWORD_ONLY)
    )


def _param(parameter: inspect.Parameter, hint: Any) -> Param:
    nullable = get_origin(hint) in (Union, types.UnionType) and type(None) in get_args(hint)
    if nullable:
        (hint,) = (part for part in get_args(hint) if part is not type(None))
    base = get_origin(hint) or hint
    if base not in JSON_NAMES:
        raise TypeError(f"{parameter.name}: a trigger's field cannot be a {hint!r}")
    return Param(parameter.name, base, nullable, parameter.default is parameter.empty)


def read_params(params: tuple[Param, ...], given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, if every field is known, present where it must be, and of its type; else a refusal."""
    errors: dict[str, list[str]] = {}
    known = {param.name: param for param in params}
    for name in given.keys() - known.keys():
        errors[name] = ["is not a field of this trigger."]
    for name, param in known.items():
        if name not in given:
            if param.required:
                errors[name] = ["is required."]
        elif complaint := param.complaint(given[name]):
            errors[name] = [complaint]
    if errors:
        raise Invalid(errors)
    return dict(given)
