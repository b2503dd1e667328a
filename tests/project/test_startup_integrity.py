"""The processes refuse to start on a journal that does not verify, unless the operator starts them anyway."""

import pytest
from django.db import connection

from statecore.journal import Event
from statecore.project import startup
from statecore.project.refusal import Refused
from statecore.storage import triggers
from tests.support import world

pytestmark = pytest.mark.django_db


def tamper() -> None:
    world.task()
    with triggers.disabled(connection):
        Event.objects.filter(entity_type="task").update(to_state="completed")


def test_starting_on_a_sound_journal_does_not_raise() -> None:
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


def test_starting_anyway_on_a_tampered_journal_does_not_raise() -> None:
    tamper()
    startup.check_integrity(start_anyway=True)
