"""Reads the shipped systemd units."""

from __future__ import annotations

import shlex
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
DEPLOY = ROOT / "deploy"
SYSTEMD = DEPLOY / "systemd"
# The interpreter of an installation.
PYTHON = "/opt/statecore/.venv/bin/python"


@dataclass(frozen=True)
class Unit:
    """A unit of the target; `statecore-rest@8001.service` is `statecore-rest@.service` with instance 8001."""

    name: str

    @property
    def instance(self) -> str:
        return self.name.removesuffix(".service").partition("@")[2]

    @property
    def file(self) -> Path:
        before, at, _rest = self.name.partition("@")
        return SYSTEMD / (f"{before}@.service" if at else self.name)

    def command(self, instance: str) -> list[str]:
        (line,) = settings(self.file)["ExecStart"]
        return shlex.split(line.replace("%i", instance))


def settings(file: Path) -> dict[str, list[str]]:
    found: dict[str, list[str]] = {}
    for line in file.read_text().splitlines():
        name, equals, value = line.partition("=")
        if equals and not line.startswith("#"):
            found.setdefault(name, []).append(value)
    return found


def target_units() -> list[Unit]:
    wanted = settings(SYSTEMD / "statecore.target")["Wants"]
    return [Unit(name) for line in wanted for name in line.split()]


def variables(file: str = "statecore.env") -> dict[str, str]:
    """Returns the settings of a shipped file."""
    lines = (DEPLOY / file).read_text().splitlines()
    pairs = [line.partition("=") for line in lines if line and not line.startswith("#")]
    return {name: value for name, _equals, value in pairs}
