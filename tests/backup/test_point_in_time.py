"""PostgreSQL's continuous archiving: a base backup and the archived log bring the database back to a chosen time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection

from statecore.delivery.sinks.journal_file import JournalFile
from statecore.delivery.sinks.tree import Tree
from statecore.journal.epochs import list_epochs
from statecore.journal.position import head
from statecore.machines.run import Run
from statecore.operations import integrity
from tests.support import postgres, world
from tests.support.databases import pointed_at
from tests.support.sequencer import catch_up, sign
from tests.support.waiting import until

pytestmark = pytest.mark.once_on("postgres")


class Archive:
    """The settings of docs/how-to/back-up-and-restore.md, in a new folder."""

    def __init__(self, server: postgres.Mortal) -> None:
        self.server = server
        self.log, self.base = (server.server.pgdata.with_name(name) for name in ("archive", "base"))
        self.log.mkdir(mode=0o700)
        server.own(self.log)

    def turn_on(self) -> None:
        copy = f"test ! -f {self.log}/%f && cp %p {self.log}/%f"
        with psycopg.connect(self.server.url, autocommit=True) as session:
            session.execute("ALTER SYSTEM SET archive_mode = on")
            session.execute(f"ALTER SYSTEM SET archive_command = '{copy}'")
        self.server.kill()
        self.server.start()

    def back_up(self) -> None:
        self.server.copy_to(self.base)

    def finish(self) -> None:
        """Waits until all that was written is in the archive."""
        with psycopg.connect(self.server.url, autocommit=True) as session:
            name = session.execute("SELECT pg_walfile_name(pg_switch_wal())").fetchone()[0]  # type: ignore[index]
        until(lambda: (self.log / name).exists())

    @contextmanager
    def recovered(self, until_time: str) -> Iterator[None]:
        """Starts the base backup in place of the lost server, at its address."""
        with (self.base / "postgresql.auto.conf").open("a") as settings:
            settings.write(
                f"restore_command = 'cp {self.log}/%f %p'\n"
                f"recovery_target_time = '{until_time}'\n"
                "recovery_target_action = 'promote'\n"
            )
        (self.base / "recovery.signal").touch()
        self.server.own(self.base / "recovery.signal")
        options = f'-h "" -k {self.server.server.pgdata}'
        control = ("pg_ctl", "-D", str(self.base))
        self.server.execute(*control, "-o", options, "-l", str(self.base / "log"), "-w", "start")
        try:
            until(lambda: not (self.base / "recovery.signal").exists())
            yield
        finally:
            self.server.execute(*control, "-m", "immediate", "-w", "stop")


def read_time(url: str) -> str:
    with psycopg.connect(url) as session:
        return str(session.execute("SELECT clock_timestamp()").fetchone()[0])  # type: ignore[index]


def work(run: str) -> None:
    world.created("Run", id=run, phase=world.phase())
    catch_up(JournalFile(), Tree())
    sign()


def test_a_database_recovered_to_a_time_verifies_and_names_what_came_after(home: Path, django_db_blocker: Any) -> None:
    with postgres.mortal() as server, django_db_blocker.unblock(), pointed_at(server.url):
        archive = Archive(server)
        archive.turn_on()
        call_command("migrate", verbosity=0)
        work("in-the-backup")
        archive.back_up()
        work("in-the-archive")
        kept, chosen = head(), read_time(server.url)
        work("too-late")
        archive.finish()
        server.lose()
        connection.close()  # its session may outlive the server by a moment

        with archive.recovered(chosen):
            catch_up(JournalFile(), Tree())
            (epoch,) = list_epochs()
            assert (epoch.number, epoch.reason, epoch.kept) == (2, "failover", kept)
            assert epoch.losses is not None
            assert {each["entity_id"] for each in epoch.losses.events} >= {"too-late"}
            assert set(Run.objects.values_list("pk", flat=True)) == {"in-the-backup", "in-the-archive"}
            work("after")
            assert integrity.check_all() == []
