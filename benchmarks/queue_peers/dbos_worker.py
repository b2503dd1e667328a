"""DBOS Transact: a queue of workflows without steps, started while more are enqueued. Run by the peers' interpreter.

The queue polls; the interval is a tenth of the default, because DBOS would else wait most of the time.
"""

import json
import sys
import time

from dbos import DBOS, DBOSConfig

database = sys.argv[1].replace("postgresql://", "postgresql+psycopg://", 1)
config: DBOSConfig = {"name": "bench", "system_database_url": database, "log_level": "ERROR"}
DBOS(config=config)


@DBOS.workflow()
def work() -> None:
    pass


DBOS.launch()
DBOS.register_queue("bench", polling_interval_sec=0.1)
print("ready", flush=True)
for line in sys.stdin:
    start = time.perf_counter()
    handles = [DBOS.enqueue_workflow("bench", work) for _ in range(int(line))]
    enqueued = time.perf_counter() - start
    for handle in handles:
        handle.get_result(polling_interval_sec=0.05)
    print(json.dumps({"seconds": time.perf_counter() - start, "enqueue": enqueued}), flush=True)
