"""Compensation plans, which describe the rollback of a committed patch: parsing and strict validation."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from ..kernel.refusals import Invalid
from ..kernel.validation import object_error
from ..machines.test_gate import Type as GateType

ACTIONS_LIMIT = 20
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@:/+#-]{0,99}")
SHA = re.compile(r"[0-9a-f]{7,64}")


class Kind(StrEnum):
    GIT_REVERT = "git_revert"
    MANUAL_FIX = "manual_fix"
    SKIP = "skip"


@dataclass(frozen=True, slots=True)
class Revert:
    commit_sha: str
    branch: str = ""


@dataclass(frozen=True, slots=True)
class RunTests:
    test_suite: str
    required: bool = False


@dataclass(frozen=True, slots=True)
class Notify:
    channels: list[str] = field(default_factory=list)
    recipients: list[str] = field(default_factory=list)
    required: bool = False


Step = Revert | RunTests | Notify
ACTIONS: dict[str, type[Step]] = {"git_revert": Revert, "run_tests": RunTests, "notify": Notify}


@dataclass(frozen=True, slots=True)
class Plan:
    steps: tuple[Step, ...]
    required_gates: tuple[str, ...]
    verify_clean_state: bool

    @property
    def changes(self) -> list[Revert | RunTests]:
        return [step for step in self.steps if not isinstance(step, Notify)]

    @property
    def notices(self) -> list[Notify]:
        return [step for step in self.steps if isinstance(step, Notify)]

    @property
    def makes_revert(self) -> bool:
        """False if a person reverts the commit."""
        return any(isinstance(step, Revert) for step in self.steps)


def json_schema() -> dict[str, Any]:
    """Return the published schema of a plan. `read_plan` also requires the commit of the patch and one revert."""
    names = {"type": "array", "maxItems": 100, "items": {"type": "string", "pattern": f"^{NAME.pattern}$"}}
    name, flag = names["items"], {"type": "boolean"}
    fields: dict[str, dict[str, Any]] = {
        "git_revert": {"commit_sha": {"type": "string", "pattern": f"^{SHA.pattern}$"}, "branch": name},
        "run_tests": {"test_suite": name, "required": flag},
        "notify": {"channels": names, "recipients": names, "required": flag},
    }
    required = {"git_revert": ["commit_sha"], "run_tests": ["test_suite"]}
    gates = {"type": "array", "items": {"enum": GateType.values}, "uniqueItems": True}
    actions = [
        _object({"action": {"const": action}, **fields[action]}, ["action", *required.get(action, [])])
        for action in ACTIONS
    ]
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Compensation plan of a committed patch",
        **_object(
            {
                "compensation_type": {"enum": list(Kind)},
                "actions": {"type": "array", "maxItems": ACTIONS_LIMIT, "items": {"oneOf": actions}},
                "validation": _object({"required_gates": gates, "verify_clean_state": flag}, []),
            },
            ["compensation_type", "actions"],
        ),
    }


def _object(properties: dict[str, Any], required: list[str]) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


def digest(plan: Mapping[str, Any]) -> str:
    """Return a hash that identifies the approved version of a plan."""
    return hashlib.sha256(orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read_plan(plan: object, commit_sha: str) -> Plan:
    """Parse the plan of a patch committed as `commit_sha`; raises Invalid with an error for each wrong field."""
    if (complaint := object_error(plan)) is not None or not isinstance(plan, dict):
        raise Invalid({"plan": [complaint or "must be an object."]})
    if errors := dict(_find_errors(plan, commit_sha)):
        raise Invalid({name: [sentence] for name, sentence in errors.items()})
    validation = plan.get("validation", {})
    return Plan(
        tuple(_parse_step(action) for action in plan["actions"]),
        tuple(validation.get("required_gates", ())),
        validation.get("verify_clean_state", False),
    )


def _parse_step(action: Mapping[str, Any]) -> Step:
    return ACTIONS[action["action"]](**{name: value for name, value in action.items() if name != "action"})


def _find_errors(plan: Mapping[str, Any], commit_sha: str) -> Iterator[tuple[str, str]]:
    yield from _find_unknown("", plan, {"compensation_type", "actions", "validation"})
    kind, actions = plan.get("compensation_type"), plan.get("actions")
    if kind not in list(Kind):
        yield "compensation_type", f"must be one of {', '.join(Kind)}."
    if not isinstance(actions, list) or len(actions) > ACTIONS_LIMIT:
        yield "actions", f"must be a list of at most {ACTIONS_LIMIT} actions."
        return
    for number, action in enumerate(actions):
        yield from _find_action_errors(f"actions.{number}", action, commit_sha)
    reverts = sum(isinstance(action, dict) and action.get("action") == "git_revert" for action in actions)
    if reverts != (1 if kind == Kind.GIT_REVERT else 0):
        yield "actions", "must have one git_revert if the compensation_type is git_revert, and none otherwise."
    yield from _find_validation_errors(plan.get("validation", {}))


def _find_action_errors(where: str, action: object, commit_sha: str) -> Iterator[tuple[str, str]]:
    if not isinstance(action, dict) or action.get("action") not in list(ACTIONS):
        yield where, f"must be an object whose action is one of {', '.join(ACTIONS)}."
        return
    name = action["action"]
    yield from _find_unknown(f"{where}.", action, {"action", *ACTIONS[name].__slots__})
    if name == "git_revert":
        yield from _find_revert_errors(where, action, commit_sha)
        return
    if not isinstance(action.get("required", False), bool):
        yield f"{where}.required", "must be true or false."
    if name == "run_tests" and not _is_name(action.get("test_suite")):
        yield f"{where}.test_suite", "must be the name of a test suite."
    for field_name in ("channels", "recipients") if name == "notify" else ():
        given = action.get(field_name, [])
        if not isinstance(given, list) or len(given) > 100 or not all(map(_is_name, given)):
            yield f"{where}.{field_name}", "must be a list of names."


def _find_revert_errors(where: str, action: Mapping[str, Any], commit_sha: str) -> Iterator[tuple[str, str]]:
    sha = action.get("commit_sha")
    if not isinstance(sha, str) or SHA.fullmatch(sha) is None or not commit_sha.startswith(sha):
        yield f"{where}.commit_sha", f"must be the commit of the patch, which is {commit_sha or 'unknown'}."
    if "branch" in action and not _is_name(action["branch"]):
        yield f"{where}.branch", "must be the name of a branch."


def _find_validation_errors(validation: object) -> Iterator[tuple[str, str]]:
    if not isinstance(validation, dict):
        yield "validation", "must be an object."
        return
    yield from _find_unknown("validation.", validation, {"required_gates", "verify_clean_state"})
    gates = validation.get("required_gates", [])
    if not isinstance(gates, list) or any(gate not in GateType.values for gate in gates) or len({*gates}) < len(gates):
        yield "validation.required_gates", f"must be a list of {', '.join(GateType.values)}, each once."
    if not isinstance(validation.get("verify_clean_state", False), bool):
        yield "validation.verify_clean_state", "must be true or false."


def _find_unknown(where: str, given: Mapping[str, Any], known: set[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(given.keys() - known):
        yield f"{where}{name}", "is not part of a compensation plan."


def _is_name(value: object) -> bool:
    return isinstance(value, str) and NAME.fullmatch(value) is not None
