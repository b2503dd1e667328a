"""Runs the examples of docs/reference/python.md."""

import doctest
from datetime import timedelta
from typing import Any

import pytest
import time_machine

from statecore.kernel.clock import now
from statecore.records import Phase
from tests.support import world
from tests.support.site import ROOT

pytestmark = pytest.mark.django_db
PAGE = ROOT / "docs/reference/python.md"


def _make_stuck(phase: Phase) -> None:
    """Creates a stalled job, and a failed gate with tasks that wait for it."""
    with time_machine.travel(now() - timedelta(hours=12), tick=False):
        world.fire(world.created("IngestionJob", id="j1"), "start", worker="ann")
    with time_machine.travel(now() - timedelta(minutes=12), tick=False):
        gate = world.fire(world.fire(world.gate(id="UNIT", phase=phase), "gate_started"), "gate_failed", exit_code=1)
        workstream = world.workstream(run=world.run(phase=phase))
        world.task(id="t4", workstream=workstream, gates=[gate.pk])
        world.task(id="t9", workstream=workstream, depends_on=["t4"])


def test_every_example_prints_the_shown_output(capsys: Any) -> None:
    _make_stuck(Phase.objects.create(id="PH-1"))
    world.idle_worker(id="worker-7")
    session = doctest.DocTestParser().get_doctest(
        PAGE.read_text(), {"operator": world.operator()}, "page", PAGE.name, 0
    )

    found = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(session)

    assert (found.failed, found.attempted) == (0, len(session.examples)), capsys.readouterr().out
    assert found.attempted > 10
