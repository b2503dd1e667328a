"""Attack 7: the write guard of PostgreSQL was a setting that anyone may set, and the shipped role owned the tables.

Every way of the finding is tried here with a connection of the role `web`, and refused by the database. What is left to
this role is to write rows and events that agree, as the application does.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest
from django.core.management import call_command
from django.db import connection, transaction

from statecore import transitions
from statecore.journal import GENESIS, Anchor, Event, accounts, events
from statecore.kernel.actors import THE_SYSTEM
from statecore.kernel.clock import now
from statecore.storage import trigger_check
from tests.support import world
from tests.support.roles import PREFIX

pytestmark = [pytest.mark.postgres, pytest.mark.django_db(transaction=True)]


@contextmanager
def connected_as(role: str) -> Iterator[psycopg.Connection[Any]]:
    settings = connection.get_connection_params()
    known = {name: settings[name] for name in ("dbname", "password", "host", "port") if settings.get(name)}
    with psycopg.connect(**known, user=f"{PREFIX}_{role}", autocommit=True) as connected:
        yield connected


@contextmanager
def acting_as(role: str) -> Iterator[None]:
    """Lets this process act with the rights of a role. The triggers and the rights see no difference to a login."""
    with connection.cursor() as cursor:
        cursor.execute(f"SET ROLE {PREFIX}_{role}")
        try:
            yield
        finally:
            cursor.execute("RESET ROLE")


@pytest.fixture
def web() -> Iterator[psycopg.Connection[Any]]:
    with connected_as("web") as connected:
        yield connected


STATE = "UPDATE statecore_run SET state = 'running'"
EVENT = "INSERT INTO statecore_event SELECT * FROM statecore_event"
WAYS = {
    "the setting of the guard": ["SET statecore.door = 'open'", STATE],
    "the setting of the guard, for an event": ["SET statecore.door = 'open'", EVENT],
    "the setting of archiving": ["SET statecore.archiving = 'open'", "DELETE FROM statecore_event"],
    "the former setting of archiving": ["SET statecore.retiring = 'open'", "DELETE FROM statecore_position"],
    "a setting pinned on the role": [f"ALTER ROLE {PREFIX}_web SET statecore.door = 'open'", STATE],
    "a disabled trigger": ["ALTER TABLE statecore_run DISABLE TRIGGER statecore_guard_statecore_run_update"],
    "all triggers disabled": ["ALTER TABLE statecore_run DISABLE TRIGGER ALL"],
    "a dropped trigger": ["DROP TRIGGER statecore_guard_statecore_run_update ON statecore_run"],
    "a replaced function": [
        """CREATE OR REPLACE FUNCTION statecore_guard_statecore_run() RETURNS trigger LANGUAGE plpgsql
        AS 'BEGIN RETURN NULL; END'"""
    ],
    "a setting of the function": ["ALTER FUNCTION statecore_guard_statecore_run() SET search_path = public"],
    "a foreign trigger": [
        """CREATE TRIGGER zzz BEFORE UPDATE ON statecore_run FOR EACH ROW
        EXECUTE FUNCTION statecore_guard_statecore_run()"""
    ],
    "a temporary table in place of the journal": [
        "CREATE TEMPORARY TABLE statecore_event AS SELECT * FROM public.statecore_event"
    ],
    "a schema before the journal": ["CREATE SCHEMA before"],
    "a function of its own": [
        "CREATE FUNCTION public.always(text, text) RETURNS boolean LANGUAGE sql AS 'SELECT TRUE'"
    ],
    "replication": ["SET session_replication_role = replica"],
    "the role of the owner": [f"SET ROLE {PREFIX}_owner"],
    "deleted events": ["DELETE FROM statecore_event"],
    "a truncated journal": ["TRUNCATE statecore_event"],
    "truncated runs": ["TRUNCATE statecore_run CASCADE"],
    "deleted runs": ["DELETE FROM statecore_run"],
    "changed events": ["UPDATE statecore_event SET actor = 'mallory'"],
    "a changed table": ["ALTER TABLE statecore_event ADD COLUMN more text"],
    "a made-up archive": ["INSERT INTO statecore_anchor DEFAULT VALUES"],
    "a changed migration": ["DELETE FROM django_migrations"],
}


@pytest.mark.parametrize("way", WAYS.values(), ids=WAYS.keys())
def test_attack_7_no_setting_and_no_statement_of_the_web_role_opens_the_guard(
    way: list[str], web: psycopg.Connection[Any]
) -> None:
    run = world.run()
    before = world.trace(run)
    with pytest.raises(psycopg.Error):
        _execute(web, way)
    assert world.trace(run) == before
    assert trigger_check.find_problems(connection) == []


def _execute(web: psycopg.Connection[Any], statements: list[str]) -> None:
    for statement in statements:
        web.execute(statement)


def forge(run: Any, *, to_state: str = "running", completed: str = "NULL", **changed: Any) -> None:
    """Writes a row and an event with SQL, as an attacker does who can compute hashes."""
    entry = events.build_entry(
        **{
            "entity_type": "run", "entity_id": run.pk, "sequence": run.version + 1, "prev_hash": run.chain_head,
            "kind": "normal", "trigger": "run_started", "from_state": run.state, "to_state": to_state,
            "severity": "info", "actor": "mallory", "channel": "rest", "at": now(), "details": {}, **changed,
        }
    )  # fmt: skip
    names, marks = ", ".join(events.COLUMNS), ", ".join(["%s"] * len(events.COLUMNS))
    with connection.cursor() as cursor:
        cursor.execute(
            f"WITH row AS (UPDATE statecore_run SET state = %s, version = %s, chain_head = %s, started_at = now(), "
            f"completed_at = {completed} WHERE id = %s) INSERT INTO statecore_event ({names}) VALUES ({marks})",
            [to_state, entry.sequence, entry.hash, run.pk, *entry],
        )


FORGERIES = {
    "another previous hash": {"prev_hash": GENESIS},
    "another previous state": {"from_state": "failed"},
    "a number left out": {"sequence": 3},
    "an event of another machine": {"entity_type": "task"},
    "an event of no machine": {"entity_type": "nothing"},
}


@pytest.mark.parametrize("forgery", FORGERIES.values(), ids=FORGERIES.keys())
def test_a_forged_event_that_does_not_extend_the_chain_is_refused(forgery: dict[str, Any]) -> None:
    run = world.run()
    before = world.trace(run)
    with acting_as("web"), pytest.raises(Exception, match="only the transition service"), transaction.atomic():
        forge(run, **forgery)
    assert world.trace(run) == before


def test_a_row_and_an_event_that_agree_are_accepted() -> None:
    """The forgeries above are refused for their difference, and not for the way they are written."""
    run = world.run()
    with acting_as("web"):
        forge(run)
    assert [event["actor"] for event in world.events_of(run)] == ["system", "mallory"]


def test_a_final_state_is_not_left_even_with_an_event_that_agrees() -> None:
    run = world.forced(world.run(), "failed")
    with acting_as("web"), pytest.raises(Exception, match="only the transition service"), transaction.atomic():
        forge(run, to_state="succeeded", completed="now()", kind="override", trigger="manual_override")


def test_an_event_without_its_row_and_a_hash_without_its_body_are_refused() -> None:
    run = world.run()
    (event,) = Event.objects.filter(entity_id=run.pk)
    made = events.build_entry(
        entity_type="run", entity_id=run.pk, sequence=2, prev_hash=event.hash, kind="normal", trigger="x",
        from_state="pending", to_state="running", severity="info", actor="m", channel="rest", at=now(), details={},
    )  # fmt: skip
    with acting_as("web"):
        for entry, words in ((made, "only the transition service"), (made._replace(actor="n"), "differ")):
            with pytest.raises(Exception, match=words), transaction.atomic():
                Event(**entry._asdict()).save(force_insert=True)


def test_an_entry_of_an_account_follows_the_last_one() -> None:
    accounts.record(accounts.Action.LOGGED_OUT, accounts.SYSTEM, actor=THE_SYSTEM)
    last = Event.objects.filter(entity_type="account", entity_id="system").latest("sequence")
    for sequence, prev_hash in ((last.sequence + 2, last.hash), (last.sequence + 1, GENESIS)):
        made = events.build_entry(
            entity_type="account", entity_id="system", sequence=sequence, prev_hash=prev_hash, kind="account",
            trigger="logged_in", from_state="", to_state="", severity="info", actor="m", channel="rest", at=now(),
            details={},
        )  # fmt: skip
        with pytest.raises(Exception, match="only the transition service"), transaction.atomic():
            Event(**made._asdict()).save(force_insert=True)


@pytest.mark.parametrize("role", ["web", "executor"])
def test_the_application_works_with_the_rights_of_its_role(role: str) -> None:
    phase = world.phase()
    with acting_as(role):
        run = transitions.create(world.model("Run"), actor=THE_SYSTEM, phase=phase).entity
        outcome = transitions.transition(type(run), run.pk, "run_started", actor=THE_SYSTEM)
    assert outcome.entity.state == "running"


SECRETS = (
    "SELECT password FROM auth_user", "SELECT hash FROM statecore_token", "SELECT * FROM django_session",
    "SELECT key FROM otp_totp_totpdevice", "SELECT token FROM otp_static_statictoken",
    "SELECT response FROM statecore_idempotencyrecord",
)  # fmt: skip


def test_the_reader_reads_no_secret_and_writes_nothing() -> None:
    with connected_as("reader") as reader:
        for allowed in (
            "SELECT * FROM statecore_event",
            "SELECT * FROM statecore_task",
            "SELECT username FROM auth_user",
        ):
            reader.execute(allowed)
        for refused in (*SECRETS, STATE, EVENT, "DELETE FROM statecore_alert"):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                reader.execute(refused)


def test_the_executor_reads_no_secret_and_decides_nothing() -> None:
    with connected_as("executor") as executor:
        for refused in (
            *SECRETS[:-1],
            "DELETE FROM statecore_event",
            "INSERT INTO statecore_approvaldecision DEFAULT VALUES",
        ):
            with pytest.raises(psycopg.errors.InsufficientPrivilege):
                executor.execute(refused)


def test_the_owner_migrates_and_grants(capsys: pytest.CaptureFixture[str]) -> None:
    with acting_as("owner"):
        call_command("migrate", verbosity=0)
    assert trigger_check.find_problems(connection) == []
    call_command("roles")
    assert "reader\tstatecore_event\tSELECT\n" in capsys.readouterr().out
    assert not Anchor.objects.exists()
