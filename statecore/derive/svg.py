"""A machine as a drawing of our own: readable in light and in dark, without a script, with counts where wanted."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise

from ..kernel.flow import Flow
from ..kernel.moves import MoveKind
from .diagrams import edges
from .layout import Box, Layout, Line, lay_out

MARGIN = 24.0
CHARACTER, SMALL = 8.2, 6.4  # how wide one is, at most
ROW = 13.0
STATE_HEIGHT = 34.0
ABOVE = 14.0  # where the initial state's own arrow begins

STYLE = """
.paper{fill:#fff}.state rect{fill:#f4f6f8;stroke:#4a5560;stroke-width:1.5}.state text{fill:#14181c}
.initial rect{stroke-width:3}.final rect{fill:#e3e8ed}.line{fill:none;stroke:#5b6773;stroke-width:1.3}
.system{stroke-dasharray:5 4}.head{fill:#5b6773}.label{fill:#333c45;stroke:#fff;stroke-width:4;paint-order:stroke}
.count{fill:#0b57a4;font-weight:700}.start{fill:#4a5560}
@media(prefers-color-scheme:dark){.paper{fill:#12161a}.state rect{fill:#1f262d;stroke:#9aa7b4}
.state text{fill:#edf1f5}.final rect{fill:#2b343d}.line{stroke:#8a97a4}.head{fill:#8a97a4}
.label{fill:#c5ced7;stroke:#12161a}.count{fill:#8ec7ff}.start{fill:#9aa7b4}}
text{font:13px ui-sans-serif,system-ui,sans-serif;text-anchor:middle}.label,.own{font-size:11px}
""".replace("\n", "")


def svg(flow: Flow, counts: Mapping[str, int] | None = None) -> str:
    labels = {edge: text.split(", ") for edge, text in edges(flow).items()}
    own = {source: labels.pop((source, target)) for source, target in [*labels] if source == target}
    sizes = {edge: _size(rows) for edge, rows in labels.items()}
    states = {state: _state_size(_words(state, counts), own.get(state, [])) for state in flow.states}
    layout = lay_out(flow.initial, states, sizes)
    by_system = _by_the_system_alone(flow)
    drawn = [
        *(_drawn_line(line, is_system=(line.source.name, line.target.name) in by_system) for line in layout.lines),
        *(_drawn_label(line, labels[line.source.name, line.target.name]) for line in layout.lines),
        _start(layout.states[flow.initial]),
        *(_drawn_state(flow, box, counts, own.get(box.name, [])) for box in layout.states.values()),
    ]
    return _page(flow, layout, "".join(drawn))


def _page(flow: Flow, layout: Layout, drawn: str) -> str:
    title = escape(f"{flow.entity_type} {flow.version}: {len(flow.states)} states, {len(flow.moves)} moves")
    width, height = layout.width + 2 * MARGIN, layout.height + 2 * MARGIN + ABOVE
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" role="img" viewBox="0 0 {width:.0f} {height:.0f}" '
        f'width="{width:.0f}" height="{height:.0f}" aria-label="{title}">'
        f"<title>{title}</title><style>{STYLE}</style>"
        '<defs><marker id="head" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path class="head" d="M0 0L8 4L0 8z"/></marker></defs>'
        f'<rect class="paper" width="100%" height="100%"/><g transform="translate({MARGIN:.0f} {MARGIN + ABOVE:.0f})">'
        f"{drawn}</g></svg>\n"
    )


def _size(rows: list[str]) -> tuple[float, float]:
    return max(map(len, rows)) * SMALL, len(rows) * ROW


def _state_size(words: str, own: list[str]) -> tuple[float, float]:
    """The triggers that leave a state as it is are told inside it."""
    width = max([len(words) * CHARACTER, *(len(row) * SMALL + 16 for row in own)])
    return width + 28, STATE_HEIGHT + len(own) * ROW


def _words(state: str, counts: Mapping[str, int] | None) -> str:
    return state if counts is None else f"{state} {counts.get(state, 0):,}"


def _by_the_system_alone(flow: Flow) -> set[tuple[str, str]]:
    asked = {(source, move.target) for move in flow.moves if move.kind is MoveKind.NORMAL for source in move.sources}
    return set(edges(flow)) - asked


def _drawn_line(line: Line, *, is_system: bool) -> str:
    """Straight through each place that was kept for it, and round in between."""
    down = line.source.y < line.target.y
    half = 0.5 if down else -0.5
    points = [_port(line.source, line, down=down)]
    for box in line.through:
        points += [(box.x, box.y - half * box.height), (box.x, box.y + half * box.height)]
    points.append(_port(line.target, line, down=not down))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    kind = "line system" if is_system else "line"
    edge = escape(f"{line.source.name} {line.target.name}")
    return f'<path class="{kind}" data-edge="{edge}" d="{path}" marker-end="url(#head)"/>'


def _port(box: Box, line: Line, *, down: bool) -> tuple[float, float]:
    """Lines that meet at one side of a state are spread over it, in the order they come from."""
    next_ = line.through[0] if box is line.source else line.through[-1]
    meeting = sorted(box.below if down else box.above, key=lambda other: other.x)
    place = meeting.index(next_)
    usable = box.width - 16
    x = box.x - usable / 2 + usable * (place + 0.5) / len(meeting)
    return x, box.y + (box.height / 2 if down else -box.height / 2)


def _drawn_label(line: Line, rows: list[str]) -> str:
    top = line.label.y - (len(rows) - 1) * ROW / 2 + 4
    return "".join(
        f'<text class="label" x="{line.label.x:.1f}" y="{top + index * ROW:.1f}">{escape(row)}</text>'
        for index, row in enumerate(rows)
    )


def _drawn_state(flow: Flow, box: Box, counts: Mapping[str, int] | None, own: list[str]) -> str:
    is_final = flow.is_final(box.name)
    kinds = ["state", *["initial"] * (box.name == flow.initial), *["final"] * is_final]
    # A second border: that it is final is not told by colour alone.
    frame = _frame(box, 0, 8) + (_frame(box, 3, 6) if is_final else "")
    count = "" if counts is None else f' <tspan class="count">{counts.get(box.name, 0):,}</tspan>'
    first = box.y - len(own) * ROW / 2 + 4.5
    text = f'<text x="{box.x:.1f}" y="{first:.1f}">{escape(box.name)}{count}</text>'
    for number, trigger in enumerate(own, 1):
        text += f'<text class="own" x="{box.x:.1f}" y="{first + number * ROW + 1:.1f}">↻ {escape(trigger)}</text>'
    return f'<g class="{" ".join(kinds)}" data-state="{escape(box.name)}">{frame}{text}</g>'


def _frame(box: Box, inset: float, radius: float) -> str:
    left, top = box.x - box.width / 2 + inset, box.y - box.height / 2 + inset
    width, height = box.width - 2 * inset, box.height - 2 * inset
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'


def _start(box: Box) -> str:
    x, top = box.x - box.width / 2 + 8, box.y - box.height / 2
    line = f"M{x:.1f} {top - 13:.1f}V{top - 1:.1f}"
    return (
        f'<circle class="start" cx="{x:.1f}" cy="{top - 18:.1f}" r="5"/>'
        f'<path class="line" d="{line}" marker-end="url(#head)"/>'
    )
