"""`manage.py roles`: the roles of PostgreSQL, their rights, and the SQL that creates them."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import connection

from statecore.storage import roles


class Command(BaseCommand):
    help = "Show what each role of PostgreSQL may do with each table, or write the SQL that creates the roles."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--sql", action="store_true", help="write SQL for a superuser; afterwards `migrate` grants the rights"
        )
        parser.add_argument("--prefix", default="statecore", help="how the names of the roles begin (%(default)s)")
        parser.add_argument("--schema", default="public", help="the schema of the tables (%(default)s)")
        parser.add_argument("--database", help="the database (by default that of DATABASE_URL)")

    def handle(self, *args: Any, **options: Any) -> None:
        if not options["sql"]:
            for role in roles.PROCESSES:
                for table, rights in roles.list_rights(role).items():
                    self.stdout.write(f"{role}\t{table}\t{rights}")
            return
        database = options["database"] or connection.settings_dict["NAME"]
        if connection.vendor != "postgresql" and not options["database"]:
            raise CommandError("SQLite has no roles; name a database of PostgreSQL with --database")
        for statement in roles.write_sql(options["prefix"], options["schema"], database):
            self.stdout.write(f"{statement};")
