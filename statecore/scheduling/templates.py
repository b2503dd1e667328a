"""Plan templates: declaration of parameters, substitution, and storing of versions. No code is evaluated.

In the plan, `{"$parameter": "NAME"}` becomes the value of a parameter, and `${NAME}` within a text its text. `${run}`
and `${scheduled_at}` are known in every template. Ids of workstreams, tasks and gates are names within the plan: each
run gets its own ids, made from the id of the run and the name.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from django.conf import settings
from django.db import IntegrityError, transaction

from ..journal.accounts import Action
from ..kernel.actors import Actor
from ..kernel.clock import now, rfc3339
from ..kernel.ids import ID_LENGTH, is_valid_id
from ..kernel.refusals import DuplicateId, Invalid, NotFound
from ..kernel.validation import json_error, object_error, text_error
from ..machines.run import Run
from ..machines.task import Task
from ..machines.test_gate import TestGate
from ..machines.workstream import Workstream
from ..records.plan_template import DESCRIPTION_LENGTH, PlanTemplate
from ..transitions import rights
from .plan_document import MAX_ENTITIES, read_plan

TYPES: dict[str, tuple[type, ...]] = {
    "string": (str,), "integer": (int,), "number": (int, float), "boolean": (bool,),
}  # fmt: skip
DECLARED = {"type", "default", "choices", "description"}
GIVEN = ("run", "scheduled_at")
NAME = re.compile(r"[a-z][a-z0-9_]{0,39}")
PLACE = re.compile(r"\$\{([a-z][a-z0-9_]*)\}")
REFERENCE = "$parameter"
EXAMPLES: dict[str, Any] = {"string": "x", "integer": 1, "number": 1.5, "boolean": True}
EXAMPLE_RUN = "r" * 49  # as long as the id of a run of a schedule
LINKS = ("depends_on", "gates", "entry_gates")


def store(
    template: str, *, plan: Any, parameters: Any = None, description: str = "", actor: Actor, is_new: bool = True
) -> PlanTemplate:
    """Store the first version of a template, or the next one; raises Invalid, DuplicateId and PermissionDenied."""
    require(actor, "add", "plantemplate")
    declared = {} if parameters is None else parameters
    errors = {
        "id": None if is_valid_id(template) else "must be 1 to 64 of A-Z a-z 0-9 . _ : -",
        "description": text_error(description, DESCRIPTION_LENGTH),
        "plan": object_error(plan, settings.DATA_UPLOAD_MAX_MEMORY_SIZE),
        **_find_declaration_errors(declared),
    }
    _raise_errors(errors)
    _check_plan(plan, declared)
    newest = PlanTemplate.objects.filter(template=template).order_by("-version").first()
    if is_new and newest is not None:
        how = "store its next version, or use another id"
        raise DuplicateId(f"the template {template!r} exists: {how}", id=template)
    if not is_new and newest is None:
        raise NotFound(f"there is no template {template!r}")
    made = PlanTemplate(
        template=template, version=newest.version + 1 if newest else 1, description=description, parameters=declared,
        plan=plan, created_by=actor.name, created_at=now(),
    )  # fmt: skip
    try:
        with transaction.atomic():
            made.insert(Action.TEMPLATE_STORED, actor=actor, facts={"template": template, "version": made.version})
    except IntegrityError as error:
        raise DuplicateId(f"version {made.version} of template {template!r} was just stored", id=template) from error
    return made


def require(actor: Actor, action: str, record: str) -> None:
    """Raises PermissionDenied unless an operator may do this, and may submit plans."""
    rights.require_record(actor, action, record)
    for model in (Run, Workstream, TestGate, Task):
        rights.require(actor, model.flow, "operate")


def get(template: str, version: int | None = None) -> PlanTemplate:
    """Return a version of a template, or the newest one."""
    found = PlanTemplate.objects.filter(template=template) if is_valid_id(template) else PlanTemplate.objects.none()
    chosen = (found if version is None else found.filter(version=version)).order_by("-version").first()
    if chosen is None:
        raise NotFound(f"there is no template {template!r}" + ("" if version is None else f" in version {version}"))
    return chosen


# Parameters


def complete_values(declared: Mapping[str, Any], values: Any) -> dict[str, Any]:
    """Return the value of each parameter; raises Invalid for unknown, missing and wrong ones."""
    if error := object_error(values):
        raise Invalid({"parameters": [error]})
    errors: dict[str, str | None] = {
        f"parameters.{name}": "is not a parameter of the template." for name in values if name not in declared
    }
    found = {}
    for name, declaration in declared.items():
        if name in values:
            errors[f"parameters.{name}"] = _find_value_error(declaration, values[name])
            found[name] = values[name]
        elif "default" in declaration:
            found[name] = declaration["default"]
        else:
            errors[f"parameters.{name}"] = "is required."
    _raise_errors(errors)
    return found


def _find_declaration_errors(declared: Any) -> dict[str, str | None]:
    if not isinstance(declared, Mapping):
        return {"parameters": "must be an object."}
    return {f"parameters.{name}": _find_declaration_error(name, each) for name, each in declared.items()}


def _find_declaration_error(name: str, declaration: Any) -> str | None:
    if NAME.fullmatch(name) is None or name in GIVEN:
        return "must have a name of at most 40 of a-z 0-9 _, other than run and scheduled_at."
    if not isinstance(declaration, Mapping) or declaration.keys() - DECLARED or not _is_type(declaration.get("type")):
        return f"must be an object with a type ({', '.join(TYPES)}), and default, choices and description if needed."
    choices = declaration.get("choices", [])
    if not isinstance(choices, list):
        return "must have a list of choices."
    if error := text_error(declaration.get("description", ""), DESCRIPTION_LENGTH):
        return f"has a description that {error}"
    plain = {"type": declaration["type"]}
    errors = [_find_value_error(plain, each) for each in choices]
    if "default" in declaration:
        errors.append(_find_value_error(declaration, declaration["default"]))
    return next((error for error in errors if error), None)


def _is_type(given: object) -> bool:
    return isinstance(given, str) and given in TYPES


def _find_value_error(declaration: Mapping[str, Any], value: Any) -> str | None:
    kind = declaration["type"]
    if not isinstance(value, TYPES[kind]) or (isinstance(value, bool) and kind != "boolean"):
        return f"must be of type {kind}."
    if declaration.get("choices") and value not in declaration["choices"]:
        return f"must be one of {', '.join(map(str, declaration['choices']))}."
    return json_error(value)


def _raise_errors(errors: Mapping[str, str | None]) -> None:
    if found := {name: [error] for name, error in errors.items() if error}:
        raise Invalid(found)


# Plans


def build_plan(template: PlanTemplate, values: Any, run_id: str, at: datetime) -> dict[str, Any]:
    """Return the plan of a run; raises Invalid for parameters that do not fit."""
    given = complete_values(template.parameters, values)
    return _build(template.plan, {**given, "run": run_id, "scheduled_at": rfc3339(at)}, run_id)


def _check_plan(plan: Mapping[str, Any], declared: Mapping[str, Any]) -> None:
    """Read the plan as it is with an example of each parameter."""
    values = {
        name: each.get("default", next(iter(each.get("choices", ())), EXAMPLES[each["type"]]))
        for name, each in declared.items()
    }
    if "id" in plan or "start" in plan:
        raise Invalid({"plan": ["must be without id and start: each run gets an id and is started."]})
    try:
        built = _build(plan, {**values, "run": EXAMPLE_RUN, "scheduled_at": rfc3339(now())}, EXAMPLE_RUN)
        read_plan(built, MAX_ENTITIES)
    except Invalid as refusal:
        raise Invalid({f"plan.{place}": errors for place, errors in refusal.facts["errors"].items()}) from refusal


def _build(plan: Mapping[str, Any], values: Mapping[str, Any], run_id: str) -> dict[str, Any]:
    built: dict[str, Any] = _substitute(plan, values)
    _give_ids(built, run_id)
    return {**built, "id": run_id, "start": True}


def _substitute(part: Any, values: Mapping[str, Any]) -> Any:
    if isinstance(part, Mapping):
        if part.keys() == {REFERENCE}:
            return _look_up(part[REFERENCE], values)
        return {name: _substitute(each, values) for name, each in part.items()}
    if isinstance(part, list):
        return [_substitute(each, values) for each in part]
    if isinstance(part, str):
        return PLACE.sub(lambda found: _as_text(_look_up(found[1], values)), part)
    return part


def _look_up(name: Any, values: Mapping[str, Any]) -> Any:
    if not isinstance(name, str) or name not in values:
        raise Invalid({"parameters": [f"{name} is used in the plan but not declared."]})
    return values[name]


def _as_text(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _give_ids(plan: dict[str, Any], run_id: str) -> None:
    """Replace the names of the plan's entities by ids of this run; other ids, of gates that exist, stay."""
    entities = list(_list_entities(plan))
    ids = {each["id"]: _name_entity(run_id, each["id"]) for each in entities if is_valid_id(each.get("id"))}
    for each in entities:
        each["id"] = ids.get(each.get("id"), each.get("id")) if is_valid_id(each.get("id")) else each.get("id")
        for link in LINKS:
            if isinstance(each.get(link), list) and all(not isinstance(one, dict) for one in each[link]):
                each[link] = [ids.get(one, one) if isinstance(one, str) else one for one in each[link]]


def _list_entities(plan: Mapping[str, Any]) -> Any:
    """Yield the objects of workstreams, tasks and gates; what has the wrong shape is left to `read_plan`."""
    parts = [plan, *(each for each in _list_objects(plan.get("workstreams")))]
    yield from parts[1:]
    for part in parts:
        for name in ("tasks", "gates"):
            yield from _list_objects(part.get(name))


def _list_objects(given: Any) -> list[dict[str, Any]]:
    return [each for each in given if isinstance(each, dict)] if isinstance(given, list) else []


def _name_entity(run_id: str, name: str) -> str:
    """Return `RUN:NAME`, with a digest instead of a name that would be too long."""
    full = f"{run_id}:{name}"
    return full if len(full) <= ID_LENGTH else f"{run_id}:{hashlib.sha256(name.encode()).hexdigest()[:12]}"
