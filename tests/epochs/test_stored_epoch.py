"""The number of the epoch in the database is the one that the journal records."""

from __future__ import annotations

import pytest
from django.db import transaction

from statecore.journal import Numbering
from statecore.journal.epochs import Reason, start_epoch
from statecore.operations import integrity
from tests.support import world
from tests.support.sequencer import catch_up

pytestmark = pytest.mark.django_db(transaction=True)


def epoch_findings() -> list[str]:
    found = {*integrity.check_all(), *integrity.check_recent()}
    return [finding.detail for finding in found if finding.check == "epoch"]


def test_an_epoch_that_no_event_started_is_found() -> None:
    world.run()
    catch_up()
    assert epoch_findings() == []

    Numbering.objects.update(epoch=7)

    assert epoch_findings() == ["the stored epoch is 7, but the journal records epoch 1"]


def test_an_epoch_that_was_set_back_is_found() -> None:
    world.run()
    catch_up()
    with transaction.atomic():
        start_epoch(4, Reason.RESTORE, None)
    assert epoch_findings() == []

    Numbering.objects.update(epoch=1)

    assert epoch_findings() == ["the stored epoch is 1, but the journal records epoch 4"]
