"""The lock files agree: what is installed, with traces or without, is what was tested."""

from __future__ import annotations

from tests.support.site import ROOT


def locked(name: str) -> set[str]:
    return {line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith(" ")}


def test_what_runs_is_in_what_runs_with_traces_and_both_are_in_what_is_tested() -> None:
    alone, with_traces, tested = map(locked, ("requirements.lock", "requirements-otel.lock", "requirements-dev.lock"))

    assert alone < with_traces < tested
    assert any(line.startswith("opentelemetry-sdk==") for line in with_traces - alone)
