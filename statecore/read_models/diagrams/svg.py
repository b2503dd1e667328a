"""Renders a machine as SVG for light and dark mode, without scripts, optionally with counts."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from itertools import pairwise

from ...kernel.flow import Flow
from ...kernel.transition import TransitionKind
from .layout import Box, Layout, Line, lay_out
from .mermaid import label_edges

MARGIN = 24.0
CHARACTER, SMALL = 8.2, 6.4  # maximum width of a character
ROW = 13.0
STATE_HEIGHT = 34.0
ABOVE = 14.0  # room for the arrow to the initial state

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


def render_svg(flow: Flow, counts: Mapping[str, int] | None = None) -> str:
    labels = {edge: text.split(", ") for edge, text in label_edges(flow).items()}
    loops = {source: labels.pop((source, target)) for source, target in [*labels] if source == target}
    sizes = {edge: _measure_label(rows) for edge, rows in labels.items()}
    states = {state: _measure_state(_format_caption(state, counts), loops.get(state, [])) for state in flow.states}
    layout = lay_out(flow.initial, states, sizes)
    system_edges = _find_system_edges(flow)
    drawn = [
        *(_draw_line(line, is_system=(line.source.name, line.target.name) in system_edges) for line in layout.lines),
        *(_draw_label(line, labels[line.source.name, line.target.name]) for line in layout.lines),
        _draw_start(layout.states[flow.initial]),
        *(_draw_state(flow, box, counts, loops.get(box.name, [])) for box in layout.states.values()),
    ]
    return _wrap(flow, layout, "".join(drawn))


def _wrap(flow: Flow, layout: Layout, drawn: str) -> str:
    title = escape(f"{flow.entity_type} {flow.version}: {len(flow.states)} states, {len(flow.transitions)} transitions")
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


def _measure_label(rows: list[str]) -> tuple[float, float]:
    return max(map(len, rows)) * SMALL, len(rows) * ROW


def _measure_state(caption: str, loops: list[str]) -> tuple[float, float]:
    """Returns the size of a state; triggers of self-loops are listed inside it."""
    width = max([len(caption) * CHARACTER, *(len(row) * SMALL + 16 for row in loops)])
    return width + 28, STATE_HEIGHT + len(loops) * ROW


def _format_caption(state: str, counts: Mapping[str, int] | None) -> str:
    return state if counts is None else f"{state} {counts.get(state, 0):,}"


def _find_system_edges(flow: Flow) -> set[tuple[str, str]]:
    normal_edges = {
        (source, transition.target)
        for transition in flow.transitions
        if transition.kind is TransitionKind.NORMAL
        for source in transition.sources
    }
    return set(label_edges(flow)) - normal_edges


def _draw_line(line: Line, *, is_system: bool) -> str:
    """Draws a line straight through its reserved boxes and curved in between."""
    down = line.source.y < line.target.y
    half = 0.5 if down else -0.5
    points = [_find_port(line.source, line, down=down)]
    for box in line.through:
        points += [(box.x, box.y - half * box.height), (box.x, box.y + half * box.height)]
    points.append(_find_port(line.target, line, down=not down))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        middle = (y0 + y1) / 2
        path += f"C{x0:.1f} {middle:.1f} {x1:.1f} {middle:.1f} {x1:.1f} {y1:.1f}"
    kind = "line system" if is_system else "line"
    edge = escape(f"{line.source.name} {line.target.name}")
    return f'<path class="{kind}" data-edge="{edge}" d="{path}" marker-end="url(#head)"/>'


def _find_port(box: Box, line: Line, *, down: bool) -> tuple[float, float]:
    """Returns where a line meets a state; the lines on one side are spread over its width."""
    next_ = line.through[0] if box is line.source else line.through[-1]
    meeting = sorted(box.below if down else box.above, key=lambda other: other.x)
    index = meeting.index(next_)
    usable = box.width - 16
    x = box.x - usable / 2 + usable * (index + 0.5) / len(meeting)
    return x, box.y + (box.height / 2 if down else -box.height / 2)


def _draw_label(line: Line, rows: list[str]) -> str:
    top = line.label.y - (len(rows) - 1) * ROW / 2 + 4
    return "".join(
        f'<text class="label" x="{line.label.x:.1f}" y="{top + index * ROW:.1f}">{escape(row)}</text>'
        for index, row in enumerate(rows)
    )


def _draw_state(flow: Flow, box: Box, counts: Mapping[str, int] | None, loops: list[str]) -> str:
    is_final = flow.is_final(box.name)
    kinds = ["state", *["initial"] * (box.name == flow.initial), *["final"] * is_final]
    # A second border marks final states without relying on colour.
    frame = _draw_frame(box, 0, 8) + (_draw_frame(box, 3, 6) if is_final else "")
    count = "" if counts is None else f' <tspan class="count">{counts.get(box.name, 0):,}</tspan>'
    first = box.y - len(loops) * ROW / 2 + 4.5
    text = f'<text x="{box.x:.1f}" y="{first:.1f}">{escape(box.name)}{count}</text>'
    for number, trigger in enumerate(loops, 1):
        text += f'<text class="own" x="{box.x:.1f}" y="{first + number * ROW + 1:.1f}">↻ {escape(trigger)}</text>'
    return f'<g class="{" ".join(kinds)}" data-state="{escape(box.name)}">{frame}{text}</g>'


def _draw_frame(box: Box, inset: float, radius: float) -> str:
    left, top = box.x - box.width / 2 + inset, box.y - box.height / 2 + inset
    width, height = box.width - 2 * inset, box.height - 2 * inset
    return f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:g}"/>'


def _draw_start(box: Box) -> str:
    x, top = box.x - box.width / 2 + 8, box.y - box.height / 2
    line = f"M{x:.1f} {top - 13:.1f}V{top - 1:.1f}"
    return (
        f'<circle class="start" cx="{x:.1f}" cy="{top - 18:.1f}" r="5"/>'
        f'<path class="line" d="{line}" marker-end="url(#head)"/>'
    )
