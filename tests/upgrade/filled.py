"""Fills a database with rows of the first schema, upgrades it and checks it. Run as a program by test_filled.py.

`filled-0001.jsonl.gz` contains the rows of a simulation under `0001_initial` and never changes. Rows are written with
the models of that migration, like the first version would write them.
"""

from __future__ import annotations

import gzip
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

FILE = Path(__file__).with_name("filled-0001.jsonl.gz")
FIRST = ("statecore", "0001_initial")


def write() -> None:
    """Writes the file from a database of the first schema that contains only a simulation."""
    from django.apps import apps

    from statecore.operations.backup import tables

    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        for model in apps.get_app_config("statecore").get_models(include_auto_created=True):
            if model.__name__ != "Token":  # tokens need a user
                for row in tables.read_rows(model):
                    file.write(json.dumps({"model": model.__name__, "row": row}, default=str).encode() + b"\n")


def rows() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    with gzip.open(FILE, "rt") as file:
        for line in file:
            record = json.loads(line)
            found[record["model"]].append(record["row"])
    return found


def fill() -> int:
    """Loads the rows like the first version would write them, into the current schema. Returns their number."""
    from django.core.management.color import no_style
    from django.db import connection, transaction
    from django.db.migrations.loader import MigrationLoader

    from statecore.operations.backup import tables
    from statecore.storage import triggers

    first_apps = MigrationLoader(connection).project_state(FIRST).apps
    count = 0
    with transaction.atomic():
        triggers.remove(connection)
        models = {name: first_apps.get_model("statecore", name) for name in rows()}
        for name, given in rows().items():
            count += tables.load_rows(models[name], given)
        triggers.install(connection)
        with connection.cursor() as cursor:
            for statement in connection.ops.sequence_reset_sql(no_style(), list(models.values())):
                cursor.execute(statement)
    return count


def main(order: str) -> None:
    import django

    django.setup()
    from django.core.management import call_command
    from django.db import connection

    from statecore.journal import Event, commit_order
    from statecore.operations import integrity
    from tests.support import world
    from tests.support.sequencer import catch_up, ordered

    if order == "write":
        write()
        return
    if order == "fill, then migrate":
        call_command("migrate", *FIRST, verbosity=0)
        filled = fill()
        call_command("migrate", verbosity=0)
    else:
        call_command("migrate", verbosity=0)
        filled = fill()
    commit_order.load_numbering()  # the commit-order columns come from another server
    before = Event.objects.count()
    errors = [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    task = world.running_task()
    world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt)
    catch_up()
    errors += [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    numbered = len(ordered()) == Event.objects.count() > before
    sys.stdout.write(json.dumps({"filled": filled, "errors": errors, "continues": numbered}))
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
