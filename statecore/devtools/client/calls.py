"""The methods of the client."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from statecore.api.openapi.calls import DeclaredCall, list_calls
from statecore.api.openapi.operation import CALL

from .answers import Answer, find_answer
from .arguments import KEY, Argument, annotate, join, list_shapes
from .models import list_models
from .source import HEAD, render_doc, wrap

CALLS_HEAD = (
    HEAD.format(about="The calls of the API: one method for each, as it is declared where the server handles it.")
    + """
from __future__ import annotations

import builtins
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Literal

from msgspec import UNSET, UnsetType

from .call import Call, build_path, build_query, call, drop_none, drop_unset, paged_call
from .connection import Connection
from .models import {models}
from .outcome import Outcome, read_outcome
from .readers import (
    read_as,
    read_entity,
    read_explanation,
    read_member,
    read_nothing,
    read_object,
    read_page_of,
    read_positioned_event,
    read_results_of,
    read_submitted_run,
    read_text,
    read_worker,
)
from .records import Entity, Event, Explanation, Json, Page, PositionedEvent, StuckEntity, SubmittedRun, WorkerEntity


class Calls(Connection):
"""
)
RIGHTS = "Takes a token of the scope"


@dataclass
class Method:
    """A method of the client that performs a call."""

    call: DeclaredCall

    @property
    def first(self) -> Any:
        return self.call.operations[0]

    @cached_property
    def answer(self) -> Answer:
        return find_answer(self.first)

    @cached_property
    def is_paged(self) -> bool:
        return self.answer.kind.startswith("Page[")

    @cached_property
    def query(self) -> tuple[list[Argument], bool]:
        """The parameters that all operations have, and whether some have others."""
        found = [[each for each in one["parameters"] if each["in"] == "query"] for one in self.call.operations]
        shapes = [{each["name"]: each["schema"] for each in params} for params in found]
        required = [each["name"] for each in found[0] if each.get("required")]
        return join(shapes, set(required), is_query=True)

    @cached_property
    def body(self) -> tuple[list[Argument], bool]:
        """The fields that all bodies have, and whether some have others."""
        shapes = [shape for one in self.call.operations for shape in list_shapes(one)]
        if not shapes:
            return [], False
        required = set.intersection(*(set(each.get("required", ())) for each in shapes))
        unset = "UNSET" if self.call.verb == "PATCH" else "None"
        return join([each.get("properties", {}) for each in shapes], required, unset)

    @property
    def whole_body(self) -> str:
        """The name of the argument that is the body, if its fields are not arguments."""
        return str(self.first[CALL].get("argument", ""))

    def list_parts(self) -> list[str]:
        parts = self.call.paths[0].removeprefix("/api/v1/").split("/")
        return ["{collection}", *parts[1:]] if self.call.is_generic else parts

    def list_path_arguments(self) -> list[Argument]:
        types = {each["name"]: annotate(each["schema"]) for each in self.first["parameters"] if each["in"] == "path"}
        names = [part.strip("{}") for part in self.list_parts() if part.startswith("{")]
        return [Argument(name, types.get(name, "str")) for name in names]

    def render(self) -> str:
        kind, decorator = self.answer.kind, "paged_call" if self.is_paged else "call"
        head = wrap(f"def {self.call.name}(", self._list_signature(), f") -> Call[{kind}]:")
        returned = wrap("return Call(", self._list_call(), ")", "        ")
        return f"    @{decorator}\n{head}\n{render_doc(self._describe())}\n{returned}\n"

    def _list_signature(self) -> list[str]:
        (query, more_query), (body, more_body) = self.query, ([], False) if self.whole_body else self.body
        path, given = self.list_path_arguments(), [*query, *body]
        positional = [each for each in given if each.is_required or (self.call.verb == "GET" and not self.is_paged)]
        named = [each for each in given if each not in positional]
        if self.call.verb == "POST":
            named.append(Argument(KEY, "str", is_required=False))
        more = ["**filters: Any"] if more_query else ["**fields: Any"] if more_body else []
        return [
            "self",
            *(each.render() for each in path),
            *(["/"] if more else []),
            *([f"{self.whole_body}: Mapping[str, Any]"] if self.whole_body else []),
            *(each.render() for each in positional),
            *(["*"] if named else []),
            *(each.render() for each in named),
            *more,
        ]

    def _list_call(self) -> list[str]:
        parts = [part.strip("{}") if part.startswith("{") else f'"{part}"' for part in self.list_parts()]
        found = [f'"{self.call.verb}"', f"build_path({', '.join(parts)})", self.answer.read]
        if self.query[0] or self.query[1]:
            named = [f"{each.name}={each.name}" for each in self.query[0]]
            found.append(f"params=build_query({', '.join([*named, *(['**filters'] if self.query[1] else [])])})")
        if self.call.verb != "GET" and "requestBody" in self.first:
            found.append(f"body={self.whole_body or self._render_body()}")
        return [*found, "keyed=True", f"{KEY}={KEY}"] if self.call.verb == "POST" else found

    def _render_body(self) -> str:
        fields, more = self.body
        needed = [f'"{each.name}": {each.name}' for each in fields if each.is_required]
        optional = [f"{each.name}={each.name}" for each in fields if not each.is_required]
        dropped = f"drop_{'unset' if self.call.verb == 'PATCH' else 'none'}({', '.join(optional)})" if optional else ""
        if not needed and not more:
            return dropped or "{}"
        if not needed and not dropped:
            return "fields"
        return "{" + ", ".join(["**fields"] * more + needed + [f"**{dropped}"] * bool(dropped)) + "}"

    def _describe(self) -> str:
        noun = self.first["tags"][0].replace("-", " ")
        text = f"{self.first['summary']}.\n\n{self.first.get('description', '')}"
        if self.call.is_generic:
            text = text.replace(noun, "entities").replace(noun.removesuffix("s"), "entity")
        return text.partition(RIGHTS)[0].strip()


def render_calls() -> str:
    methods = [Method(each) for each in list_calls().values() if not each.is_written]
    used = set(re.findall(r"\b[A-Z]\w+", " ".join(each.answer.kind for each in methods)))
    models = sorted(used & set(list_models()))
    return CALLS_HEAD.format(models=", ".join(models)) + "\n".join(each.render() for each in methods)
