"""The commands that a change of the work tree must pass before it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from . import allowed
from .allowed import NotAllowed
from .command import Result
from .output import clipped
from .repository import Repository

TEST_SECONDS = 1800
TOLD = 8_000  # characters of output that go into a report


@dataclass(frozen=True, slots=True)
class Check:
    command: str
    timeout: float = TEST_SECONDS
    expected: int = 0


@dataclass(frozen=True, slots=True)
class Checked:
    check: Check
    result: Result

    @property
    def passed(self) -> bool:
        return self.result.ran and not self.result.timed_out and self.result.exit_code == self.check.expected

    def told(self) -> str:
        return f"{self.check.command[:200]} {self.result.told()}"

    def details(self) -> dict[str, Any]:
        return {
            "command": self.check.command[:TOLD],
            "exit_code": self.result.exit_code,
            "duration_seconds": self.result.duration_sec,
            "stdout": clipped(self.result.stdout, TOLD),
            "stderr": clipped(self.result.stderr, TOLD),
        }


def of_patch(entry: PatchLedger) -> list[Check]:
    """The exit gates of the tasks that made the patch; without any, the test command of the settings."""
    gates = TestGate.objects.filter(exit_of__patch=entry, successor=None).distinct()
    return _of(gates) or of_settings()


def of_settings() -> list[Check]:
    command = settings.STATECORE_PATCH_TEST_COMMAND
    return [Check(command)] if command else []


def of_workstream(workstream_id: str, gate_type: str) -> list[Check]:
    return _of(TestGate.objects.filter(workstream=workstream_id, gate_type=gate_type, successor=None))


def _of(gates: QuerySet[TestGate]) -> list[Check]:
    return [Check(gate.command, gate.timeout_sec, gate.expected_exit_code) for gate in gates.order_by("pk")]


def run(repository: Repository, checks: Iterable[Check], extra: dict[str, str] | None = None) -> list[Checked]:
    """Each in its turn, up to the first that does not pass."""
    done: list[Checked] = []
    for check in checks:
        done.append(Checked(check, _result(repository, check, extra)))
        if not done[-1].passed:
            break
    return done


def _result(repository: Repository, check: Check, extra: dict[str, str] | None) -> Result:
    try:
        arguments = allowed.arguments(check.command)
    except NotAllowed as refused:
        return Result(refused.exit_code, stderr=str(refused), ran=False)
    return repository.run(arguments, timeout=check.timeout, extra=extra)
