"""A database as the first schema had it, and what becomes of it: a program of its own, on the database it is given.

`filled-0001.jsonl.gz` holds the rows that a simulation left in every table under `0001_initial`; it never changes.
Rows are written by the models as that migration knew them, which is what the program of that time would write.
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
    """How the file was made: on a database where nothing but a simulation was, under the first schema."""
    from django.apps import apps

    from statecore.backup import tables

    with gzip.GzipFile(FILE, "wb", mtime=0) as file:
        for model in apps.get_app_config("statecore").get_models(include_auto_created=True):
            if model.__name__ != "Token":  # its user would have to come along
                for row in tables.rows(model):
                    file.write(json.dumps({"model": model.__name__, "row": row}, default=str).encode() + b"\n")


def rows() -> dict[str, list[dict[str, Any]]]:
    found = defaultdict(list)
    with gzip.open(FILE, "rt") as file:
        for line in file:
            told = json.loads(line)
            found[told["model"]].append(told["row"])
    return found


def fill() -> int:
    """As the first version would have written it, whatever the schema is by now."""
    from django.core.management.color import no_style
    from django.db import connection, transaction
    from django.db.migrations.loader import MigrationLoader

    from statecore.backup import tables
    from statecore.kernel import triggers

    then = MigrationLoader(connection).project_state(FIRST).apps
    count = 0
    with transaction.atomic():
        triggers.remove(connection)
        models = {name: then.get_model("statecore", name) for name in rows()}
        for name, given in rows().items():
            count += tables.load(models[name], given)
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

    from statecore import integrity
    from statecore.journal import Event
    from statecore.records import commit_order
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
    commit_order.mark()  # the rows come from another server
    before = Event.objects.count()
    errors = [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    task = world.running_task()
    world.fire(task, "execution_completed", exit_code=0, attempt=task.attempt)
    catch_up()
    errors += [str(finding) for finding in integrity.check_all() if finding.severity == integrity.ERROR]
    numbered = len(ordered()) == Event.objects.count() > before
    sys.stdout.write(json.dumps({"filled": filled, "errors": errors, "goes_on": numbered}))
    connection.close()


if __name__ == "__main__":
    main(sys.argv[1])
