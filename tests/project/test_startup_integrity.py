"""Nothing is started on a journal that does not verify, unless somebody says so."""

import pytest
from django.db import connection

from statecore.journal import Event
from statecore.kernel import triggers
from statecore.project import startup
from statecore.project.refusal import Refused
from tests.support import world

pytestmark = pytest.mark.django_db


def tamper() -> None:
    world.task()
    with triggers.lowered(connection):
        Event.objects.filter(entity_type="task").update(to_state="completed")


def test_a_sound_journal_lets_it_start() -> None:
    world.task()
    startup.check_integrity(start_anyway=False)


def test_a_tampered_event_stops_it_with_one_sentence() -> None:
    tamper()
    with pytest.raises(Refused) as refused:
        startup.check_integrity(start_anyway=False)
    assert "does not verify" in str(refused.value)
    assert "\n" not in str(refused.value)


def test_a_missing_trigger_stops_it() -> None:
    triggers.remove(connection)
    with pytest.raises(Refused, match="is missing"):
        startup.check_integrity(start_anyway=False)


def test_somebody_may_insist() -> None:
    tamper()
    startup.check_integrity(start_anyway=True)
