"""A worker as a program: `python -m tests.worker.program FOLDER DRAIN_SECONDS`.

Its function writes the file `started`, and works until the file `go` exists.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from dataclasses import dataclass
from pathlib import Path

from statecore_client import Context, Worker

folder, drain_seconds = Path(sys.argv[1]), float(sys.argv[2])
worker = Worker("builder", capabilities=["python"], heartbeat_seconds=0.2, wait_seconds=2, drain_seconds=drain_seconds)


@dataclass
class Build:
    target: str


@worker.task("build")
async def build(ctx: Context, spec: Build) -> None:
    (folder / f"started-{ctx.attempt}").touch()
    while not (folder / "go").exists():
        await asyncio.sleep(0.02)
    ctx.log(f"built {spec.target}")


if __name__ == "__main__":
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    sys.exit(worker.run())
