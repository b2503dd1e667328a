"""The protected state column: nothing assigns it but a move."""

from __future__ import annotations

from typing import Any

from django.db.models import TextChoices
from django_fsm import FSMField, FSMFieldDescriptor

STATE_LENGTH = 32


class ProtectedState(FSMFieldDescriptor):
    """Refuses every assignment to a loaded row, also where the column was deferred.

    django-fsm's own refresh switches protection off on the shared field, for every thread; here the switch
    is on the instance (see Entity.refresh_from_db).
    """

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # The library goes through three calls for each read, and guards and settling read it often.
        if instance is not None and (state := instance.__dict__.get("state")) is not None:
            return state
        return super().__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        loaded = self.field.name in instance.__dict__ or not instance._state.adding
        if loaded and not instance.__dict__.get("_refreshing"):
            raise AttributeError("state is protected: ask the door for a transition")
        self.field.set_state(instance, value)


class StateField(FSMField):
    descriptor_class = ProtectedState

    def __init__(self, states: type[TextChoices] | None = None, *, initial: str | None = None, **kwargs: Any) -> None:
        if states is not None:
            # Shown as they are written: the names of states are spelt the same everywhere.
            kwargs["choices"] = [(value, value) for value in states.values]
            kwargs["default"] = str(initial)
        kwargs.setdefault("max_length", STATE_LENGTH)
        kwargs.update(protected=True, editable=False)
        super().__init__(**kwargs)

    @staticmethod
    def force(instance: Any, value: str) -> None:
        """For the override door alone: set the state of a loaded instance without a move."""
        instance.__dict__["state"] = value
