"""Tampering with the journal or a row is found, and the finding names the place."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from django.db import DataError, IntegrityError, connection, transaction
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from statecore.journal import COLUMNS, Event
from statecore.kernel.actors import Actor
from statecore.operations import integrity
from statecore.operations.integrity import Finding
from statecore.operations.integrity.rows import check_rows
from statecore.storage import triggers
from tests.machines import worlds
from tests.properties.support import SETTINGS, rolled_back
from tests.support import world

pytestmark = pytest.mark.django_db

TABLE = Event._meta.db_table
SOME = settings(SETTINGS, max_examples=12)
FEW = settings(SETTINGS, max_examples=4)


@pytest.fixture(scope="module", autouse=True)
def without_triggers(django_db_setup: None, django_db_blocker: Any) -> Iterator[None]:
    with django_db_blocker.unblock(), triggers.disabled(connection):
        yield


@pytest.fixture(autouse=True)
def a_small_history(db: None) -> None:
    world.fire(world.running_task(), "execution_completed", exit_code=0, attempt=1, actor=world.AGENT)
    job = world.created("AgentJob", goal="Größe prüfen")
    for _ in range(4):
        world.fire(job, "job_requeued", actor=Actor.agent("Zoë 🚀"))
    world.forced(world.created("CircuitBreaker", id="tool-1"), "OPEN")
    assert integrity.verify_chain() is None


def errors() -> list[Finding]:
    """Returns the findings, except the missing triggers."""
    return [found for found in integrity.check_all() if found.check != "triggers" and found.severity == "error"]


def recent_errors() -> list[Finding]:
    return [found for found in integrity.check_recent() if found.check != "triggers"]


def history() -> list[Event]:
    return list(Event.objects.order_by("entity_type", "entity_id", "sequence"))


def execute(statement: str, *params: Any) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement, params)
        assert cursor.rowcount == 1


def names(finding: Finding | None, event: Event) -> bool:
    """Returns the names of the tampered event and the next one, whose hash no longer matches."""
    assert finding is not None, f"the change of {event} was not found"
    places = (f"event {event.event_id},", f"number {event.sequence}:", f"number {event.sequence + 1}:")
    return any(place in finding.detail for place in places)


def tried(test: Callable[..., None], settings_: settings = SOME, **strategies: Any) -> None:
    """Runs each example on the same history and rolls it back."""

    @settings_
    @given(**strategies)
    def example(**drawn: Any) -> None:
        with rolled_back():
            test(**drawn)

    example()


INDEX = st.integers(0, 10**6)


def flip(event: Event, column: str, place: int, mask: int) -> None:
    """Changes one byte of one column."""
    value: Any = getattr(event, column)
    if column == "sequence":
        return _write(event, column, value ^ mask)
    if connection.vendor == "sqlite":
        return _write(event, column, _flipped(_stored(event, column), place, mask), "CAST(%s AS TEXT)")
    if column == "timestamp":
        return _write(event, column, value.replace(microsecond=(value.microsecond ^ mask) % 10**6))
    # PostgreSQL stores valid UTF-8 only, so the byte becomes another ASCII byte.
    ascii_ = _flipped(value.encode(), place, mask % 0x60 or 1).decode("ascii", errors="ignore").replace("\0", "")
    return _write(event, column, ascii_)


def _stored(event: Event, column: str) -> bytes:
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT CAST({column} AS BLOB) FROM {TABLE} WHERE event_id = %s", [event.event_id])
        stored: bytes = cursor.fetchone()[0]
    return stored


def _flipped(stored: bytes, place: int, mask: int) -> bytes:
    if not stored:  # an empty column has no byte to flip, so it gets one
        return bytes([mask])
    place %= len(stored)
    return stored[:place] + bytes([stored[place] ^ mask]) + stored[place + 1 :]


def _write(event: Event, column: str, value: Any, mark: str = "%s") -> None:
    assume(value != getattr(event, column))
    try:
        with transaction.atomic():
            execute(f"UPDATE {TABLE} SET {column} = {mark} WHERE event_id = %s", value, event.event_id)
    except (IntegrityError, DataError):
        assume(condition=False)  # the database refuses the value


@pytest.mark.parametrize("column", COLUMNS)
def test_a_flipped_byte_anywhere_in_an_event_is_found_and_named(column: str) -> None:
    events = history()

    def flipped(which: int, place: int, mask: int) -> None:
        event = events[which % len(events)]
        flip(event, column, place, mask)
        assert names(integrity.verify_chain(), event)

    tried(flipped, which=INDEX, place=INDEX, mask=st.integers(1, 255))


@pytest.mark.parametrize("column", COLUMNS)
def test_every_check_survives_a_flipped_byte_and_reports_it(column: str) -> None:
    """Including bytes that are not valid text."""
    events = history()

    def flipped(which: int, place: int) -> None:
        flip(events[which % len(events)], column, place, 0x80 if connection.vendor == "sqlite" else 1)
        assert errors() != []
        recent = recent_errors()
        # An event without an entity is not among the recent events of one.
        assert recent != [] or column in ("entity_type", "entity_id")

    tried(flipped, settings(SETTINGS, max_examples=2), which=INDEX, place=INDEX)


def test_an_untouched_journal_has_no_findings() -> None:
    assert errors() == []
    assert recent_errors() == []


def test_a_deleted_event_is_found_at_the_place_where_it_is_missing() -> None:
    events = history()

    def deleted(which: int) -> None:
        event = events[which % len(events)]
        followed = Event.objects.filter(
            entity_type=event.entity_type, entity_id=event.entity_id, sequence=event.sequence + 1
        ).exists()
        execute(f"DELETE FROM {TABLE} WHERE event_id = %s", event.event_id)
        if followed:
            assert names(integrity.verify_chain(), event)
        assert event.entity_id in {found.entity_id for found in errors()}
        assert event.entity_id in {found.entity_id for found in recent_errors()} or not followed

    tried(deleted, FEW, which=INDEX)


def test_a_removed_tail_of_any_length_is_found() -> None:
    def cut(which: int, length: int) -> None:
        event = history()[which % len(history())]
        chain = Event.objects.filter(entity_type=event.entity_type, entity_id=event.entity_id)
        last = chain.latest("sequence").sequence
        kept = max(0, last - length)
        with connection.cursor() as cursor:
            cursor.execute(
                f"DELETE FROM {TABLE} WHERE entity_type = %s AND entity_id = %s AND sequence > %s",
                [event.entity_type, event.entity_id, kept],
            )
        assert integrity.verify_chain() is None, "what is left is a chain"
        assert [found.entity_id for found in errors()] == [event.entity_id]

    tried(cut, FEW, which=INDEX, length=st.integers(1, 6))


def test_two_events_that_changed_places_are_found() -> None:
    events = history()

    def swapped(which: int, other: int) -> None:
        one = events[which % len(events)]
        alike = [e for e in events if (e.entity_type, e.entity_id) == (one.entity_type, one.entity_id) and e != one]
        assume(alike)
        two = alike[other % len(alike)]
        move = f"UPDATE {TABLE} SET sequence = %s WHERE event_id = %s"
        for sequence, event in ((10**6, one), (one.sequence, two), (two.sequence, one)):
            execute(move, sequence, event.event_id)
        finding = integrity.verify_chain()
        assert finding is not None
        assert finding.entity_id == one.entity_id
        assert f"number {min(one.sequence, two.sequence)}:" in finding.detail

    tried(swapped, which=INDEX, other=INDEX)


def test_two_events_whose_contents_changed_places_are_found() -> None:
    events = history()

    def swapped(which: int, other: int) -> None:
        one, two = events[which % len(events)], events[other % len(events)]
        assume(one != two)
        for event, content in ((one, two), (two, one)):
            execute(f"UPDATE {TABLE} SET body = %s, hash = %s WHERE event_id = %s",
                    content.body, content.hash, event.event_id)  # fmt: skip
        finding = integrity.verify_chain()
        assert finding is not None
        assert min(events.index(one), events.index(two)) == [e.event_id in finding.detail for e in events].index(True)

    tried(swapped, which=INDEX, other=INDEX)


def rewritten(event: Event, **columns: str) -> None:
    """Rewrites an event with a valid hash, as an expert attacker would."""
    body = event.body
    for name, value in columns.items():
        body = body.replace(f'"{name}":"{getattr(event, name)}"', f'"{name}":"{value}"', 1)
    columns |= {"body": body, "hash": hashlib.sha256(body.encode()).hexdigest()}
    assert body != event.body
    sets = ", ".join(f"{name} = %s" for name in columns)
    execute(f"UPDATE {TABLE} SET {sets} WHERE event_id = %s", *columns.values(), event.event_id)


def test_a_skilfully_rewritten_event_breaks_the_chain_after_it() -> None:
    events = history()

    def forged(which: int) -> None:
        event = events[which % len(events)]
        rewritten(event, actor="mallory")
        finding = integrity.verify_chain()
        is_last = not any(e.entity_id == event.entity_id and e.sequence == event.sequence + 1 for e in events)
        if not is_last:
            assert finding is not None
            assert f"number {event.sequence + 1}:" in finding.detail
        # The row holds the hash of its last event too.
        assert event.entity_id in {found.entity_id for found in errors()}

    tried(forged, FEW, which=INDEX)


def test_an_event_that_was_added_behind_the_last_is_found() -> None:
    last = history()[-1]
    columns = {name: getattr(last, name) for name in COLUMNS}
    columns |= {"event_id": "evt_forged", "sequence": last.sequence + 1, "prev_hash": last.hash}
    columns |= {"from_state": last.to_state, "to_state": last.to_state}
    body = last.body
    for name in ("event_id", "prev_hash", "from_state"):
        body = body.replace(f'"{name}":"{getattr(last, name)}"', f'"{name}":"{columns[name]}"', 1)
    body = body.replace(f'"sequence":{last.sequence}', f'"sequence":{last.sequence + 1}', 1)
    columns |= {"body": body, "hash": hashlib.sha256(body.encode()).hexdigest()}
    Event.objects.create(**columns)

    assert integrity.verify_chain() is None, "it is a good forgery"
    assert [found.entity_id for found in errors()] == [last.entity_id]
    assert [found.entity_id for found in recent_errors()] == [last.entity_id]


def test_a_chain_moved_to_another_entity_is_found() -> None:
    execute(f"UPDATE {TABLE} SET entity_id = %s WHERE entity_id = %s AND sequence = 2", "tool-2", "tool-1")

    assert "tool-1" in {found.entity_id for found in errors()} | {integrity.verify_chain().entity_id}


@pytest.mark.parametrize("flow", worlds.flows(), ids=lambda flow: flow.entity_type)
def test_a_row_with_another_state_is_found(flow: Any) -> None:
    entity = worlds.create_entity(flow)
    for state in flow.states:
        if state == entity.state:
            continue
        with rolled_back():
            try:
                with transaction.atomic():
                    flow.model.objects.filter(pk=entity.pk).update(state=state)
            except IntegrityError:
                continue  # the constraints require the fields of that state
            assert [found.entity_id for found in check_rows(flow)] == [entity.pk]
            assert entity.pk in {found.entity_id for found in recent_errors()}


@pytest.mark.parametrize(
    "change",
    [{"version": 1}, {"version": 3}, {"version": 0}, {"chain_head": "f" * 64}, {"chain_head": ""}, {"id": "tool-2"}],
    ids=str,
)
def test_a_row_at_another_place_in_its_chain_is_found(change: dict[str, Any]) -> None:
    world.model("CircuitBreaker").objects.filter(pk="tool-1").update(**change)

    assert {found.entity_type for found in errors()} == {"circuit_breaker"}
    assert {found.entity_id for found in errors()} <= {"tool-1", "tool-2"}
    assert {found.entity_id for found in recent_errors()} == {"tool-1"}


def test_a_row_that_was_deleted_is_found() -> None:
    execute("DELETE FROM statecore_circuitbreaker WHERE id = %s", "tool-1")

    assert [found.entity_id for found in errors()] == ["tool-1"]
    assert [found.entity_id for found in recent_errors()] == ["tool-1"]


def test_a_row_without_a_history_is_found() -> None:
    breaker = world.model("CircuitBreaker")
    at = breaker.objects.get(pk="tool-1").created_at
    breaker.objects.bulk_create(
        [breaker(id="tool-3", version=1, chain_head="f" * 64, created_at=at, updated_at=at, state_entered_at=at)]
    )

    assert [found.entity_id for found in errors()] == ["tool-3"]


def test_lowered_triggers_are_found() -> None:
    assert "triggers" in {found.check for found in integrity.check_all()}
    assert "triggers" in {found.check for found in integrity.check_recent()}
