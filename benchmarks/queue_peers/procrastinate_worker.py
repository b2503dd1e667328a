"""Procrastinate's own worker: jobs that do nothing, `concurrency` at once. Run by the peers' interpreter."""

import asyncio
import json
import logging
import sys
import time

import procrastinate

BATCH = 500
logging.getLogger("procrastinate").setLevel(logging.ERROR)


async def main(database: str, concurrency: int) -> None:
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=database, max_size=concurrency))

    @app.task
    async def work() -> None:
        pass

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        print("ready", flush=True)
        while line := await asyncio.to_thread(sys.stdin.readline):
            start = time.perf_counter()
            for first in range(0, int(line), BATCH):
                await work.batch_defer_async(*[{}] * min(BATCH, int(line) - first))
            enqueued = time.perf_counter() - start
            await app.run_worker_async(concurrency=concurrency, wait=False, install_signal_handlers=False)
            print(json.dumps({"seconds": time.perf_counter() - start, "enqueue": enqueued}), flush=True)


asyncio.run(main(sys.argv[1], int(sys.argv[2])))
