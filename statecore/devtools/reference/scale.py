"""Fills the figures of docs/scale.md: tables from benchmarks/results/ and capacity estimates computed from them.

The text of the page is written by hand; only the blocks between its markers are replaced. A missing result is shown as
not measured.
"""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

from ..markdown import format_table

ROOT = Path(__file__).parents[3]
PAGE, RESULTS = ROOT / "docs" / "scale.md", ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- figures: (?P<file>\w+)(?:: (?P<title>[^\n]+?))? -->\n).*?(<!-- end of figures -->)", re.S)
SECTION = re.compile(r"^## (?P<title>.+)\n\n(?P<table>(?:\|.*\n)+)", re.M)
SECONDS_PER_DAY, TRANSITIONS_PER_DAY = 86_400, 100_000_000
PEAK = 3  # times the mean
EVENTS_PER_TASK = 3  # claimed, reported, validated
CLIENTS, HEARTBEAT_SECONDS = 10_000, 10  # agents or viewers


def render_page() -> str:
    """Returns the page with every block of figures replaced."""
    return BLOCK.sub(_fill_block, PAGE.read_text())


def _fill_block(block: re.Match[str]) -> str:
    name, title = block["file"], block["title"] or ""
    lines = _capacity() if name == "capacity" else _figures(name, title)
    return "\n".join([block[1].rstrip("\n"), "", *lines, "", block[4]])


def _figures(name: str, title: str) -> list[str]:
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return [f"**Not measured yet.** `python -m benchmarks.{name}` writes `benchmarks/results/{name}.md`."]
    chosen = [found for found in SECTION.finditer(path.read_text()) if found["title"].startswith(title)]
    if not chosen:
        raise ValueError(f"{path} has no section {title!r}, which docs/scale.md refers to")
    return "\n\n".join(f"{found['title']} (`{name}.md`):\n\n{found['table'].rstrip()}" for found in chosen).split("\n")


def _figure(name: str, title: str, row: str, column: int = 1) -> float:
    """Returns one number from one table of a result."""
    text = (RESULTS / f"{name}.md").read_text()
    (found,) = (each for each in SECTION.finditer(text) if each["title"].startswith(title))
    cells = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in found["table"].splitlines()]
    (wanted,) = (line for line in cells if line[0] == row)
    return float(wanted[column].replace(",", ""))


def _capacity() -> list[str]:
    """Estimates the resources for 100 million transitions per day from the measured rates."""
    mean = TRANSITIONS_PER_DAY / SECONDS_PER_DAY
    single = _figure("transition", "One transition at a time, PostgreSQL", "Statecore")
    batch = _figure("transition", "A batch of 1,000, PostgreSQL", "Statecore batch")
    verified = _figure("transition", "Verifying the journal", "verify_chain")
    disk = _figure("storage", "A transition on disk", "whole database")
    wal = _figure("storage", "A transition on disk", "write-ahead log")
    numbered = _figure("sequencer", "5,000 events per second", "events written per second")
    sequencers, hosts = PEAK * mean / numbered, PEAK * mean / single
    rows = [
        ("mean rate", f"{TRANSITIONS_PER_DAY:,} / {SECONDS_PER_DAY:,} s", f"{mean:,.0f} transitions/s"),
        ("peak rate, assumed to be three times the mean", f"{PEAK} · {mean:,.0f}", f"{PEAK * mean:,.0f} transitions/s"),
        ("hosts for single transitions, mean", f"{mean:,.0f} / {single:,.0f}", f"{mean / single:.1f}"),
        ("hosts for single transitions, peak", f"{PEAK * mean:,.0f} / {single:,.0f}", f"{hosts:.1f}"),
        ("hosts for batch transitions, peak", f"{PEAK * mean:,.0f} / {batch:,.0f}", f"{PEAK * mean / batch:.1f}"),
        ("sequencers, peak", f"{PEAK * mean:,.0f} / {numbered:,.0f}", f"{sequencers:.1f}"),
        (
            "shards, peak, rounded up",
            f"max({hosts:.1f}, {sequencers:.1f})",
            f"{ceil(max(hosts, sequencers))}",
        ),
        (
            "disk space",
            f"{TRANSITIONS_PER_DAY:,} · {disk:,.0f} B",
            f"{TRANSITIONS_PER_DAY * disk / 1e9:,.0f} GB per day",
        ),
        (
            "disk space for 30 days",
            f"30 · {TRANSITIONS_PER_DAY * disk / 1e9:,.0f} GB",
            f"{30 * TRANSITIONS_PER_DAY * disk / 1e12:,.1f} TB",
        ),
        ("write-ahead log, mean", f"{mean:,.0f}/s · {wal:,.0f} B", f"{mean * wal / 1e6:,.1f} MB/s"),
        ("write-ahead log, peak", f"{PEAK} · {mean * wal / 1e6:,.1f} MB/s", f"{PEAK * mean * wal / 1e6:,.1f} MB/s"),
        (
            "verifying one day of events",
            f"{TRANSITIONS_PER_DAY:,} / {verified:,.0f}/s",
            f"{TRANSITIONS_PER_DAY / verified / 60:,.0f} min",
        ),
        *_agents_and_viewers(mean),
    ]
    return format_table(("resource", "calculation", "result"), rows)


def _agents_and_viewers(mean: float) -> list[tuple[str, str, str]]:
    tasks, claimed = mean / EVENTS_PER_TASK, _figure("claim", "Claim and complete", "report and claim")
    needed, measured = CLIENTS / HEARTBEAT_SECONDS, _figure("rest", "16 clients", "heartbeat")
    socket = _figure("live", "500 idle event sockets", "memory per idle event socket (kB)")
    return [
        ("tasks, if all transitions are task work", f"{mean:,.0f} / {EVENTS_PER_TASK}", f"{tasks:,.0f} tasks/s"),
        ("hosts for these tasks", f"{tasks:,.0f} / {claimed:,.0f}", f"{tasks / claimed:.1f}"),
        (f"heartbeats of {CLIENTS:,} agents", f"{CLIENTS:,} / {HEARTBEAT_SECONDS} s", f"{needed:,.0f} requests/s"),
        ("web processes for these heartbeats", f"{needed:,.0f} / {measured:,.0f}", f"{needed / measured:.1f}"),
        (f"memory for {CLIENTS:,} viewers", f"{CLIENTS:,} · {socket:,.1f} kB", f"{CLIENTS * socket / 1000:,.0f} MB"),
    ]
