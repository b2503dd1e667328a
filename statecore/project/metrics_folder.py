"""Where the processes of one machine keep their counts, so that any of them can add them up."""

import os
from pathlib import Path

VARIABLE = "PROMETHEUS_MULTIPROC_DIR"


def prepare(home: Path) -> None:
    """Empty at each start: Prometheus expects counts to begin anew with the program.

    Must run before prometheus_client is imported. What a process counted stays when it dies, so nothing has to be
    marked: there are no gauges among the files.
    """
    folder = Path(os.environ.setdefault(VARIABLE, str(home / "metrics")))
    folder.mkdir(parents=True, exist_ok=True)
    for left_over in folder.glob("*.db"):
        left_over.unlink()
