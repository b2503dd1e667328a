"""The lock files agree: every installed version is a tested one."""

from __future__ import annotations

from tests.support.site import ROOT


def locked(name: str) -> set[str]:
    return {line for line in (ROOT / name).read_text().splitlines() if line and not line.startswith(" ")}


def test_each_lock_file_contains_the_smaller_ones() -> None:
    base, with_otel, development = map(locked, ("requirements.lock", "requirements-otel.lock", "requirements-dev.lock"))

    assert base < with_otel < development
    assert any(line.startswith("opentelemetry-sdk==") for line in with_otel - base)
