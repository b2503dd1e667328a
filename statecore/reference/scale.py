"""The figures of docs/scale.md: tables out of the results of the benchmarks, and what is reckoned from them.

The page is written by hand; between its marks stands what the files in benchmarks/results/ say. What was not measured
yet says so.
"""

from __future__ import annotations

import re
from math import ceil
from pathlib import Path

from ..derive.tables import table

ROOT = Path(__file__).parents[2]
PAGE, RESULTS = ROOT / "docs" / "scale.md", ROOT / "benchmarks" / "results"
BLOCK = re.compile(r"(<!-- figures: (?P<file>\w+)(?:: (?P<title>[^\n]+?))? -->\n).*?(<!-- end of figures -->)", re.S)
SECTION = re.compile(r"^## (?P<title>.+)\n\n(?P<table>(?:\|.*\n)+)", re.M)
DAY, A_DAY = 86_400, 100_000_000
PEAK = 3  # times the mean
EVENTS_OF_A_TASK = 3  # claimed, done, validated: as the agent reports and claims
MANY, BEAT = 10_000, 10  # agents or viewers, and the seconds between two heartbeats


def page() -> str:
    return BLOCK.sub(_filled, PAGE.read_text())


def _filled(block: re.Match[str]) -> str:
    name, title = block["file"], block["title"] or ""
    lines = _arithmetic() if name == "arithmetic" else _figures(name, title)
    return "\n".join([block[1].rstrip("\n"), "", *lines, "", block[4]])


def _figures(name: str, title: str) -> list[str]:
    path = RESULTS / f"{name}.md"
    if not path.exists():
        return [f"**Not measured yet.** `python -m benchmarks.{name}` writes `benchmarks/results/{name}.md`."]
    chosen = [found for found in SECTION.finditer(path.read_text()) if found["title"].startswith(title)]
    if not chosen:
        raise ValueError(f"{path} has no section {title!r}, which docs/scale.md asks for")
    return "\n\n".join(f"{found['title']} (`{name}.md`):\n\n{found['table'].rstrip()}" for found in chosen).split("\n")


def _figure(name: str, title: str, row: str, column: int = 1) -> float:
    """One number of one table."""
    text = (RESULTS / f"{name}.md").read_text()
    (found,) = (each for each in SECTION.finditer(text) if each["title"].startswith(title))
    cells = [[cell.strip() for cell in line.strip("|\n ").split("|")] for line in found["table"].splitlines()]
    (wanted,) = (line for line in cells if line[0] == row)
    return float(wanted[column].replace(",", ""))


def _arithmetic() -> list[str]:
    """What a hundred million transitions a day take, from what was measured on the machine of the results."""
    mean = A_DAY / DAY
    move = _figure("door", "One move at a time, PostgreSQL", "door")
    batch = _figure("door", "A batch of 1,000, PostgreSQL", "door batch")
    verified = _figure("door", "Verifying the journal", "verify_chain")
    disk = _figure("storage", "A transition on disk", "everything")
    wal = _figure("storage", "A transition on disk", "write-ahead log")
    numbered = _figure("sequencer", "5,000 events per second", "written per second")
    sequencers, machines = PEAK * mean / numbered, PEAK * mean / move
    rows = [
        ("mean", f"{A_DAY:,} / {DAY:,} s", f"{mean:,.0f} transitions/s"),
        ("peak, taken as three times the mean", f"{PEAK} · {mean:,.0f}", f"{PEAK * mean:,.0f} transitions/s"),
        ("machines like this, one at a time, mean", f"{mean:,.0f} / {move:,.0f}", f"{mean / move:.1f}"),
        ("the same at the peak", f"{PEAK * mean:,.0f} / {move:,.0f}", f"{machines:.1f}"),
        ("the same at the peak, in batches", f"{PEAK * mean:,.0f} / {batch:,.0f}", f"{PEAK * mean / batch:.1f}"),
        ("sequencers at the peak", f"{PEAK * mean:,.0f} / {numbered:,.0f}", f"{sequencers:.1f}"),
        (
            "shards at the peak, rounded up",
            f"max({machines:.1f}, {sequencers:.1f})",
            f"{ceil(max(machines, sequencers))}",
        ),
        ("disk", f"{A_DAY:,} · {disk:,.0f} B", f"{A_DAY * disk / 1e9:,.0f} GB a day"),
        ("thirty days of it", f"30 · {A_DAY * disk / 1e9:,.0f} GB", f"{30 * A_DAY * disk / 1e12:,.1f} TB"),
        ("write-ahead log, mean", f"{mean:,.0f}/s · {wal:,.0f} B", f"{mean * wal / 1e6:,.1f} MB/s"),
        ("write-ahead log, peak", f"{PEAK} · {mean * wal / 1e6:,.1f} MB/s", f"{PEAK * mean * wal / 1e6:,.1f} MB/s"),
        ("verifying a day", f"{A_DAY:,} / {verified:,.0f}/s", f"{A_DAY / verified / 60:,.0f} min"),
        *_of_agents_and_viewers(mean),
    ]
    return table(("what", "reckoned", "makes"), rows)


def _of_agents_and_viewers(mean: float) -> list[tuple[str, str, str]]:
    tasks, claimed = mean / EVENTS_OF_A_TASK, _figure("claim", "Claim and complete", "report and claim")
    beats, beaten = MANY / BEAT, _figure("rest", "16 clients", "heartbeat")
    socket = _figure("live", "500 idle sockets", "an idle socket (kB)")
    return [
        ("tasks, if all of it is their work", f"{mean:,.0f} / {EVENTS_OF_A_TASK}", f"{tasks:,.0f} tasks/s"),
        ("machines like this for them", f"{tasks:,.0f} / {claimed:,.0f}", f"{tasks / claimed:.1f}"),
        (f"heartbeats of {MANY:,} agents", f"{MANY:,} / {BEAT} s", f"{beats:,.0f} calls/s"),
        ("web processes like this for them", f"{beats:,.0f} / {beaten:,.0f}", f"{beats / beaten:.1f}"),
        (f"memory for {MANY:,} viewers", f"{MANY:,} · {socket:,.1f} kB", f"{MANY * socket / 1000:,.0f} MB"),
    ]
