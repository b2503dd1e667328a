"""A worker of the Python client: stores the numbers up to `count` as an artifact and hands on their sum."""

from __future__ import annotations

import sys
from dataclasses import dataclass

from statecore_client import Context, Worker

worker = Worker("numbers")


@dataclass
class Range:
    count: int


@worker.task("python")
def sum_numbers(ctx: Context, spec: Range) -> dict[str, int]:
    numbers = range(1, spec.count + 1)
    content = "".join(f"{number}\n" for number in numbers).encode()
    ctx.client.put_artifact(ctx.task.id, "numbers.txt", content, attempt=ctx.attempt)
    return {"sum": sum(numbers)}


if __name__ == "__main__":
    sys.exit(worker.run())
