"""`python -m benchmarks.hour`: runs it, tells what was found, and with --write keeps it among the results."""

from __future__ import annotations

import argparse
import signal
import sys
import tempfile
from pathlib import Path

from benchmarks.hour import course
from benchmarks.report import Report

RESULTS = Path(__file__).parents[1] / "results"


def main() -> None:
    options = _options()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("told to end"))  # and takes all it has started along
    report = Report({**vars(options), "tasks a second of the hour": course.TASKS_A_SECOND})
    with tempfile.TemporaryDirectory(prefix="hour-") as directory:
        wishes = course.Wishes(options.minutes, options.pace, options.agents, options.fault_every)
        found = course.run(Path(directory), wishes, durable=True)
    found.tell(report)
    if options.write:
        report.write(RESULTS, "hour", "An hour's worth of work with faults, measured")


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.hour", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="how many minutes' worth of work (60)")
    parser.add_argument("--pace", type=float, default=12.0, help="how many times as fast (12)")
    parser.add_argument("--agents", type=int, default=24, help="how many work at once (24)")
    parser.add_argument("--fault-every", type=float, default=10.0, help="seconds between two kills (10)")
    parser.add_argument("--write", action="store_true", help="write results/hour.md and .json")
    return parser.parse_args()


if __name__ == "__main__":
    main()
