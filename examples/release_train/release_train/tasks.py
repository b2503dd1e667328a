"""The work that a Celery worker does for trains; `apps.py` has the interval."""

from celery import shared_task

from statecore.framework.declarations import clock
from statecore.framework.extensions import SYSTEM_ACTOR, transitions

from .models import State, Train


@shared_task
def depart() -> None:
    """Lets loaded trains depart that are due. A train that another worker took is refused, which changes nothing."""
    due = Train.objects.filter(state=State.LOADED, departs_at__lte=clock.now()).values_list("pk", flat=True)
    transitions.transition_many(Train, list(due[:100]), "departed", actor=SYSTEM_ACTOR)
