"""The reference page of the environment variables."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple, cast

from pydantic.fields import FieldInfo

from ...project.environment import FIELDS
from ..markdown import format_page, format_section


class Variable(NamedTuple):
    name: str
    default: str
    meaning: str


# Variables that libraries read, not `environment`.
READ_BY_LIBRARIES = (
    Variable(
        "OTEL_EXPORTER_OTLP_ENDPOINT", "",
        "`http://collector:4318`: collector to which a span for each request is sent; needs the packages of the extra"
        " `otel`. The other `OTEL_…` variables of the OpenTelemetry SDK apply too",
    ),
    Variable("OTEL_SERVICE_NAME", "", "service name in traces; default: `statecore`"),
    Variable(
        "PROMETHEUS_MULTIPROC_DIR", "",
        "directory in which the processes of a host share their counters; default: `metrics` in `STATECORE_HOME`",
    ),
)  # fmt: skip
# Variables of the command line and the agent, on the host where they run.
CALLERS = (
    Variable("STATECORE_URL", "", "URL of the server; overrides the one saved by `statecore login`"),
    Variable("STATECORE_TOKEN", "", "token; overrides the one saved by `statecore login`"),
    Variable("STATECORE_TASK_ID", "", "task of `statecore patch` and `statecore artifact`, set by `statecore agent`"),
    Variable("STATECORE_ATTEMPT", "", "attempt at that task, set by `statecore agent`"),
    Variable("XDG_CONFIG_HOME", "~/.config", "directory below which `statecore login` saves the token"),
)


def group_variables() -> dict[str, list[Variable]]:
    """The settings of the server by the title of their group, in the order of their declaration."""
    found: dict[str, list[Variable]] = {}
    for name, field in FIELDS.items():
        title = cast("dict[str, Any]", field.json_schema_extra)["group"]
        found.setdefault(title, []).append(Variable(name, _default(field), field.description or ""))
    return {**found, "Traces and metrics": list(READ_BY_LIBRARIES)}


def _default(field: FieldInfo) -> str:
    return field.default if isinstance(field.default, str) else ""


def list_variables() -> Iterator[Variable]:
    for group in group_variables().values():
        yield from group


def render_page() -> str:
    head = ("variable", "default", "meaning")
    tables = [
        line for title, group in group_variables().items() for line in format_section(title, head, map(_row, group))
    ]
    return format_page(
        "Settings",
        "Environment variables of the server. They are validated at start; all invalid ones are reported together, by",
        "name and with the allowed values. An empty variable counts as unset.",
        "",
        *tables,
        *format_section("Command line and agent", head, map(_row, CALLERS)),
    )


def _row(variable: Variable) -> tuple[str, str, str]:
    return f"`{variable.name}`", f"`{variable.default}`" if variable.default else "", variable.meaning
