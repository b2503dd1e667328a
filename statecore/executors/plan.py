"""A compensation plan: how a committed patch is taken back. Read strictly, or refused field by field."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

import orjson

from ..kernel.plain import object_complaint
from ..kernel.refusals import Invalid
from ..machines.test_gate import Type as GateType

ACTIONS_LIMIT = 20
WORD = re.compile(r"[A-Za-z0-9][A-Za-z0-9 ._@:/+#-]{0,99}")
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
    def needs_the_repository(self) -> bool:
        beyond_notices = any(not isinstance(step, Notify) for step in self.steps)
        return beyond_notices or bool(self.required_gates) or self.verify_clean_state


def digest(plan: Mapping[str, Any]) -> str:
    """What an approval is given for: any change of the plan changes it."""
    return hashlib.sha256(orjson.dumps(plan, option=orjson.OPT_SORT_KEYS)).hexdigest()


def read(plan: object, commit_sha: str) -> Plan:
    """The plan of a patch that was committed as `commit_sha`; a refusal names every field that is wrong."""
    if (complaint := object_complaint(plan)) is not None or not isinstance(plan, dict):
        raise Invalid({"plan": [complaint or "must be an object."]})
    if errors := dict(_errors(plan, commit_sha)):
        raise Invalid({name: [sentence] for name, sentence in errors.items()})
    validation = plan.get("validation", {})
    return Plan(
        tuple(_step(action) for action in plan["actions"]),
        tuple(validation.get("required_gates", ())),
        validation.get("verify_clean_state", False),
    )


def _step(action: Mapping[str, Any]) -> Step:
    return ACTIONS[action["action"]](**{name: value for name, value in action.items() if name != "action"})


def _errors(plan: Mapping[str, Any], commit_sha: str) -> Iterator[tuple[str, str]]:
    yield from _unknown("", plan, {"compensation_type", "actions", "validation"})
    kind, actions = plan.get("compensation_type"), plan.get("actions")
    if kind not in list(Kind):
        yield "compensation_type", f"must be one of {', '.join(Kind)}."
    if not isinstance(actions, list) or len(actions) > ACTIONS_LIMIT:
        yield "actions", f"must be a list of at most {ACTIONS_LIMIT} actions."
        return
    for number, action in enumerate(actions):
        yield from _errors_of_action(f"actions.{number}", action, commit_sha)
    reverts = sum(isinstance(action, dict) and action.get("action") == "git_revert" for action in actions)
    if reverts != (1 if kind == Kind.GIT_REVERT else 0):
        yield "actions", "must have one git_revert where the compensation_type is git_revert, and none elsewhere."
    yield from _errors_of_validation(plan.get("validation", {}))


def _errors_of_action(where: str, action: object, commit_sha: str) -> Iterator[tuple[str, str]]:
    if not isinstance(action, dict) or action.get("action") not in list(ACTIONS):
        yield where, f"must be an object whose action is one of {', '.join(ACTIONS)}."
        return
    name = action["action"]
    yield from _unknown(f"{where}.", action, {"action", *ACTIONS[name].__slots__})
    if name == "git_revert":
        yield from _errors_of_revert(where, action, commit_sha)
        return
    if not isinstance(action.get("required", False), bool):
        yield f"{where}.required", "must be true or false."
    if name == "run_tests" and not _is_word(action.get("test_suite")):
        yield f"{where}.test_suite", "must be the name of a suite."
    for words in ("channels", "recipients") if name == "notify" else ():
        given = action.get(words, [])
        if not isinstance(given, list) or len(given) > 100 or not all(map(_is_word, given)):
            yield f"{where}.{words}", "must be a list of names."


def _errors_of_revert(where: str, action: Mapping[str, Any], commit_sha: str) -> Iterator[tuple[str, str]]:
    sha = action.get("commit_sha")
    if not isinstance(sha, str) or SHA.fullmatch(sha) is None or not commit_sha.startswith(sha):
        yield f"{where}.commit_sha", f"must be the commit of the patch, which is {commit_sha or 'not known'}."
    if "branch" in action and not _is_word(action["branch"]):
        yield f"{where}.branch", "must be the name of a branch."


def _errors_of_validation(validation: object) -> Iterator[tuple[str, str]]:
    if not isinstance(validation, dict):
        yield "validation", "must be an object."
        return
    yield from _unknown("validation.", validation, {"required_gates", "verify_clean_state"})
    gates = validation.get("required_gates", [])
    if not isinstance(gates, list) or any(gate not in GateType.values for gate in gates) or len({*gates}) < len(gates):
        yield "validation.required_gates", f"must be a list of {', '.join(GateType.values)}, each once."
    if not isinstance(validation.get("verify_clean_state", False), bool):
        yield "validation.verify_clean_state", "must be true or false."


def _unknown(where: str, given: Mapping[str, Any], known: set[str]) -> Iterator[tuple[str, str]]:
    for name in sorted(given.keys() - known):
        yield f"{where}{name}", "is not part of a compensation plan."


def _is_word(value: object) -> bool:
    return isinstance(value, str) and WORD.fullmatch(value) is not None
