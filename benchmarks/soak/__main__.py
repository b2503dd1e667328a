"""Runs the soak test: `python -m benchmarks.soak`."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.report import Report
from benchmarks.soak import scenario

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # so that all child processes are stopped
    report = Report({**vars(options), "tasks per second": scenario.TASKS_PER_SECOND})
    with tempfile.TemporaryDirectory(prefix="soak-") as directory:
        load = scenario.Load(options.minutes, options.pace, options.agents, options.fault_every)
        result = scenario.run(Path(directory), load, durable=True)
    result.add_to(report)
    if options.write:
        report.write(RESULTS, "soak", "Soak test with faults")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="minutes of work (default 60)")
    parser.add_argument("--pace", type=float, default=12.0, help="acceleration (default 12)")
    parser.add_argument("--agents", type=int, default=24, help="concurrent agents (default 24)")
    parser.add_argument("--fault-every", type=float, default=10.0, help="seconds between two kills (default 10)")
    parser.add_argument("--write", action="store_true", help="write results/soak.md and .json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
