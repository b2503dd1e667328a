"""The test commands that a change must pass before it is committed."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from django.conf import settings
from django.db.models import QuerySet

from statecore_client.processes.output import keep_end

from ..kernel import repositories
from ..machines.patch_ledger import PatchLedger
from ..machines.test_gate import TestGate
from . import isolated_command
from .checkouts import Source
from .command import Result
from .command_slots import slots
from .errors import WorkerStopping

DEFAULT_TIMEOUT = 1800
OUTPUT_LIMIT = 8_000  # characters of output kept in the details


@dataclass(frozen=True, slots=True)
class VerificationCommand:
    command: str
    timeout: float = DEFAULT_TIMEOUT
    expected_exit_code: int = 0


@dataclass(frozen=True, slots=True)
class VerificationResult:
    verification: VerificationCommand
    result: Result

    @property
    def passed(self) -> bool:
        return self.result.completed and self.result.exit_code == self.verification.expected_exit_code

    def describe(self) -> str:
        return f"{self.verification.command[:200]} {self.result.describe()}"

    def details(self) -> dict[str, Any]:
        return {
            "command": self.verification.command[:OUTPUT_LIMIT],
            "exit_code": self.result.exit_code,
            "duration_seconds": self.result.duration_sec,
            "stdout": keep_end(self.result.stdout, OUTPUT_LIMIT),
            "stderr": keep_end(self.result.stderr, OUTPUT_LIMIT),
        }


def commands_for_patch(entry: PatchLedger) -> list[VerificationCommand]:
    """Return the configured test command, which no plan replaces, and those of the exit gates of the patch's tasks."""
    gates = TestGate.objects.filter(exit_of__patch=entry, successor=None).distinct()
    return [*commands_from_settings(entry), *_commands_of(gates)]


def commands_from_settings(entry: PatchLedger) -> list[VerificationCommand]:
    """Return the test command of the patch's repository."""
    configured = repositories.get_all().get(entry.workstream.repository)
    command = configured.test_command if configured else settings.STATECORE_PATCH_TEST_COMMAND
    return [VerificationCommand(command)] if command else []


def commands_of_workstream(workstream_id: str, gate_type: str) -> list[VerificationCommand]:
    return _commands_of(TestGate.objects.filter(workstream=workstream_id, gate_type=gate_type, successor=None))


def _commands_of(gates: QuerySet[TestGate]) -> list[VerificationCommand]:
    return [
        VerificationCommand(gate.command, gate.timeout_sec, gate.expected_exit_code) for gate in gates.order_by("pk")
    ]


def run_until_failure(
    source: Source,
    commands: Iterable[VerificationCommand],
    extra: dict[str, str] | None = None,
    is_obsolete: Callable[[], bool] = bool,
) -> list[VerificationResult]:
    """Run the commands in order, each in its own checkout, until one does not pass; raises WorkerStopping.

    A command is ended when `is_obsolete` returns true.
    """
    results: list[VerificationResult] = []
    for each in commands:
        with slots.hold():
            result = isolated_command.run(
                each.command, source, timeout=each.timeout, extra=extra, is_obsolete=is_obsolete
            )
        if result.stopped:
            raise WorkerStopping
        results.append(VerificationResult(each, result))
        if not results[-1].passed:
            break
    return results
