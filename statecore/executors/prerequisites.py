"""What a gate that is wanted depends on, however far back, and no task names: nobody else would ever ask for it."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import UTC, datetime
from typing import Any

from django.db import connection

from ..kernel.many import among, listed, quoted
from ..machines.task import Task
from ..machines.test_gate import State, TestGate
from ..machines.workstream import FINAL as ENDED
from ..machines.workstream import Workstream

MOST = 500
GATES, WORKSTREAMS = TestGate._meta.db_table, Workstream._meta.db_table
LINKS = TestGate.depends_on.through._meta.db_table
EXIT, ENTRY = Task.gates.through._meta.db_table, Task.entry_gates.through._meta.db_table
# The way back goes past gates that wait, and ends at those that have begun. The gates of a task, and those of another
# workstream, have their turn there: what they are to test may not be done yet.
STEP = f"""
SELECT link.to_testgate_id FROM {LINKS} AS link
JOIN {GATES} AS gate ON gate.id = link.from_testgate_id
JOIN {GATES} AS other ON other.id = link.to_testgate_id
  AND (other.workstream_id IS NULL OR gate.workstream_id IS NULL OR other.workstream_id = gate.workstream_id)
"""
QUERY = f"""
WITH RECURSIVE needed (id) AS (
  {STEP} WHERE gate.id {{ids}}
  UNION {STEP} JOIN needed ON needed.id = gate.id WHERE gate.state = '{State.PENDING.value}')
SELECT gate.state_entered_at, gate.id FROM needed
JOIN {GATES} AS gate ON gate.id = needed.id
LEFT JOIN {WORKSTREAMS} AS workstream ON workstream.id = gate.workstream_id
WHERE gate.state = '{State.PENDING.value}' AND NOT gate.abandoned
  AND (workstream.id IS NULL OR workstream.state NOT IN ({quoted(ENDED)}))
  AND NOT EXISTS (SELECT 1 FROM {LINKS} AS link JOIN {GATES} AS other ON other.id = link.to_testgate_id
                  WHERE link.from_testgate_id = gate.id AND other.state <> '{State.PASSED.value}')
  AND NOT EXISTS (SELECT 1 FROM {EXIT} AS link WHERE link.testgate_id = gate.id)
  AND NOT EXISTS (SELECT 1 FROM {ENTRY} AS link WHERE link.testgate_id = gate.id)
ORDER BY gate.state_entered_at, gate.id LIMIT {MOST}
"""


def ready(wanted: Iterable[str]) -> list[tuple[datetime, str]]:
    """Of the gates that these wait for, those that may run now, longest wait first."""
    ids = sorted(set(wanted))
    if not ids:
        return []
    vendor = connection.vendor
    with connection.cursor() as cursor:
        cursor.execute(QUERY.format(ids=among(vendor, len(ids))), [listed(ids, vendor)])
        return [(_aware(since), pk) for since, pk in cursor.fetchall()]


def _aware(moment: Any) -> datetime:
    """SQLite's driver knows of no time zones."""
    found: datetime = moment if moment.tzinfo else moment.replace(tzinfo=UTC)
    return found
