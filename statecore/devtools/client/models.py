"""The records of the client: the schemas of responses that have a name."""

from __future__ import annotations

from functools import cache
from typing import Any

from statecore.api.openapi.calls import list_calls
from statecore.api.openapi.fields import Schema
from statecore.api.openapi.schemas import list_named
from statecore.api.responses import JSON

from .arguments import TYPES
from .source import HEAD, render_doc

MODELS_HEAD = (
    HEAD.format(about="The records that calls return, as the server declares them.")
    + """
from __future__ import annotations

from datetime import datetime
from typing import Any

from .records import NEVER, Event, Json, Record
"""
)
NUMBERS_AND_TEXT = {"str": '""', "int": "0", "float": "0.0", "bool": "False", "datetime": "NEVER"}
DEFAULTS = {**NUMBERS_AND_TEXT, "list": "[]", "dict": "{}", "Json": "{}"}
# Records that are written by hand, and what reads each.
WRITTEN = {
    "Event": ("Event", "read_as(Event)"),
    "Explanation": ("Explanation", "read_explanation"),
    "PositionedEvent": ("PositionedEvent", "read_positioned_event"),
    "StuckEntity": ("StuckEntity", "read_as(StuckEntity)"),
    "SubmittedRun": ("SubmittedRun", "read_submitted_run"),
    "Worker": ("WorkerEntity", "read_worker"),
}


def render_models() -> str:
    return MODELS_HEAD + "".join(f"\n\n{_render_model(name, schema)}" for name, schema in list_models().items())


@cache
def list_models() -> dict[str, Schema]:
    """Returns the schemas of the records by name, each after those that it contains."""
    found: dict[str, Schema] = {}
    for operation in (each for call in list_calls().values() if not call.is_written for each in call.operations):
        for response in operation["responses"].values():
            _collect(response.get("content", {}).get(JSON, {}).get("schema", {}), found)
    return found


def _collect(schema: Any, found: dict[str, Schema]) -> None:
    if isinstance(schema, list):
        for each in schema:
            _collect(each, found)
    elif isinstance(schema, dict):
        for each in schema.values():
            _collect(each, found)
        name = str(schema.get("$ref", "")).rpartition("/")[2]
        if name in list_named() and name not in found and name not in WRITTEN:
            target = list_named()[name]
            _collect(target, found)
            found[name] = {**target, "properties": dict(target["properties"])}
        if "allOf" in schema and (base := found.get(schema["allOf"][0].get("$ref", "").rpartition("/")[2])):
            for part in schema["allOf"][1:]:
                base["properties"] |= part["properties"]


def _render_model(name: str, schema: Schema) -> str:
    """Only the first member must be there: a server of another version may not have the others."""
    (first, kind), *others = ((member, _annotate_member(each)) for member, each in schema["properties"].items())
    lines = [f"{first}: {kind}", *(f"{member}: {kind}{_render_default(kind)}" for member, kind in others)]
    about = render_doc(schema.get("description", f"The members of {name}."), "    ")
    return f"class {name}(Record, kw_only=True):\n{about}\n\n" + "\n".join(f"    {line}" for line in lines) + "\n"


def _render_default(kind: str) -> str:
    if kind.endswith("| None") or kind == "Any":
        return " = None"
    default = DEFAULTS.get(kind.partition("[")[0])
    return f" = {default}" if default else " | None = None"


def _annotate_member(schema: Schema) -> str:
    if name := schema.get("$ref", "").rpartition("/")[2]:
        return name if name in {*list_models(), "Event"} else "Json"
    if "anyOf" in schema:
        known = [each for each in schema["anyOf"] if each.get("type") != "null"]
        inner = _annotate_member(known[0]) if len(known) == 1 else "Any"
        return inner if len(known) == len(schema["anyOf"]) else f"{inner} | None"
    kinds = schema.get("type", "string" if schema.keys() & {"enum", "const"} else "")
    kinds = kinds if isinstance(kinds, list) else [kinds]
    kind = next((each for each in kinds if each != "null"), "")
    if kind == "array":
        found = f"list[{_annotate_member(schema['items'])}]"
    elif kind == "object":
        values = schema.get("additionalProperties")
        found = f"dict[str, {_annotate_member(values)}]" if isinstance(values, dict) else "Json"
    else:
        found = "datetime" if schema.get("format") == "date-time" else TYPES.get(kind, "Any")
    return f"{found} | None" if "null" in kinds and found != "Any" else found
