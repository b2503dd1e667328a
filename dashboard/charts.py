"""Drawing the panels of a trend report: paths, labels of axes and summaries."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from math import floor, log10
from typing import Any, NamedTuple

from statecore.kernel import phrasing
from statecore.kernel.clock import rfc3339
from statecore.read_models.trends import HeatMap, Line, Panel, Period
from statecore.read_models.trends.report import COUNT, PER_MINUTE, SECONDS, TASKS

WIDTH, HEIGHT = 300, 80
SHADES = 5  # of the heat map, without the one of nothing
DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")


class DrawnLine(NamedTuple):
    """Paths in steps, because a value is that of a whole step; a step without a value is left out."""

    name: str
    tone: str
    path: str
    area: str
    before: str


class Chart(NamedTuple):
    panel: Panel
    lines: list[DrawnLine]
    top: str  # the value at the upper edge
    total: str
    change: str
    summary: str  # in words, for screen readers
    data: dict[str, Any]  # for the values under the pointer

    @property
    def has_values(self) -> bool:
        return any(line.path for line in self.lines)

    @property
    def has_before(self) -> bool:
        return any(line.before for line in self.lines)


def draw_panel(panel: Panel, period: Period) -> Chart:
    known = [value for line in panel.lines for value in (*line.values, *line.before) if value is not None]
    top = round_up(max(known, default=0), panel.unit)
    total = "no data" if panel.total is None else format_total(panel, panel.total)
    change = _describe_change(panel)
    return Chart(
        panel,
        [_draw_line(line, top, is_filled=len(panel.lines) == 1) for line in panel.lines],
        format_value(panel, top),
        total,
        change,
        f"{panel.title}: {total}{f', {change}' if change else ''}",
        {
            "start": rfc3339(period.start),
            "step": period.step.total_seconds(),
            "unit": panel.unit,
            "lines": [
                {"name": line.name, "values": _shorten(line.values), "before": _shorten(line.before)}
                for line in panel.lines
            ],
        },
    )


def _shorten(values: list[float | None]) -> list[float | None]:
    return [None if value is None else float(f"{value:.4g}") for value in values]


def _draw_line(line: Line, top: float, *, is_filled: bool) -> DrawnLine:
    path = draw_steps(line.values, top)
    return DrawnLine(
        line.name, line.tone, path, _close(line.values, top) if is_filled else "", draw_steps(line.before, top)
    )


def draw_steps(values: list[float | None], top: float) -> str:
    """The path of a line that is level in each step."""
    parts, is_drawn = [], False
    for place, (left, right, y) in enumerate(_iterate_steps(values, top)):
        if values[place] is None:
            is_drawn = False
            continue
        parts.append(f"V{y:g}H{right:g}" if is_drawn else f"M{left:g} {y:g}H{right:g}")
        is_drawn = True
    return "".join(parts)


def _close(values: list[float | None], top: float) -> str:
    """The area below the line."""
    steps = zip(values, _iterate_steps(values, top), strict=True)
    return "".join(f"M{left:g} {HEIGHT}V{y:g}H{right:g}V{HEIGHT}z" for value, (left, right, y) in steps if value)


def _iterate_steps(values: list[float | None], top: float) -> Iterator[tuple[float, float, float]]:
    width = WIDTH / len(values)
    for place, value in enumerate(values):
        yield round(place * width, 1), round((place + 1) * width, 1), round(HEIGHT * (1 - (value or 0) / top), 1)


MINUTE, HOUR, DAY = 60, 3600, 86400
DURATIONS = (
    1,
    2,
    5,
    10,
    20,
    30,
    *(n * MINUTE for n in (1, 2, 5, 10, 20, 30)),
    *(n * HOUR for n in (1, 2, 4, 8, 12)),
    DAY,
)


def round_up(value: float, unit: str = COUNT) -> float:
    """The next of 1, 2 and 5 times a power of ten, or the next usual duration; 1 for nothing."""
    if value <= 0:
        return 1
    if unit == SECONDS and value <= DAY:
        return next(each for each in DURATIONS if each >= value)
    power: float = 10 ** floor(log10(value))
    return next(each * power for each in (1, 2, 5, 10) if each * power >= value * 0.999)


def format_value(panel: Panel, value: float) -> str:
    if panel.unit == SECONDS:
        return phrasing.format_duration(timedelta(seconds=value))
    return f"{format_number(value)}/min" if panel.unit == PER_MINUTE else format_number(value)


def format_total(panel: Panel, value: float) -> str:
    if panel.unit == SECONDS:
        return f"{panel.label} {format_value(panel, value)}"
    return f"{format_value(panel, value)} {panel.label}" if panel.unit == TASKS else format_value(panel, value)


def format_number(value: float) -> str:
    return f"{value:,.0f}" if value >= 100 or value == int(value) else f"{value:,.3g}"


def _describe_change(panel: Panel) -> str:
    now, before = panel.total, panel.total_before
    if now is None or before is None:
        return ""
    shown = f"{format_value(panel, before)} before"
    percent = round(100 * (now - before) / before) if before else 0
    return f"{percent:+,} %, {shown}" if percent else shown


class Cell(NamedTuple):
    slot: int  # the hour of the week
    x: int
    y: int
    shade: int
    title: str


def draw_heat_map(heat_map: HeatMap) -> list[Cell]:
    most = max((value for hours in heat_map.hours for value in hours), default=0)
    return [
        Cell(24 * day + hour, hour, day, _find_shade(value, most), f"{format_number(value)} an hour")
        for day, hours in enumerate(heat_map.hours)
        for hour, value in enumerate(hours)
    ]


def _find_shade(value: float, most: float) -> int:
    return min(SHADES, 1 + int(SHADES * value / most)) if value else 0


def list_ticks(period: Period) -> list[datetime]:
    """The start, the middle and the end."""
    return [period.start, period.start + (period.end - period.start) / 2, period.end]
