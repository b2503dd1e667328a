"""The protected state column, and typed access to a model's columns and relations."""

from __future__ import annotations

from typing import Any, cast

from django.db import models
from django.db.models import TextChoices
from django_fsm import FSMField, FSMFieldDescriptor

STATE_LENGTH = 32


class ProtectedState(FSMFieldDescriptor):
    """Rejects every assignment to the state of a loaded row, even if the column was deferred.

    django-fsm's refresh disables the protection on the field, which all threads share. Here it is disabled on the
    instance; see Entity.refresh_from_db.
    """

    def __get__(self, instance: Any, owner: Any = None) -> Any:
        # Guards read the state often.
        if instance is not None and (state := instance.__dict__.get("state")) is not None:
            return state
        return super().__get__(instance, owner)

    def __set__(self, instance: Any, value: Any) -> None:
        loaded = self.field.name in instance.__dict__ or not instance._state.adding
        if loaded and not instance.__dict__.get("_refreshing"):
            raise AttributeError("state is protected: fire a transition with statecore.transitions")
        self.field.set_state(instance, value)


class StateField(FSMField):
    descriptor_class = ProtectedState

    def __init__(self, states: type[TextChoices] | None = None, *, initial: str | None = None, **kwargs: Any) -> None:
        if states is not None:
            # Labels equal values: a state is spelled the same everywhere.
            kwargs["choices"] = [(value, value) for value in states.values]
            kwargs["default"] = str(initial)
        kwargs.setdefault("max_length", STATE_LENGTH)
        kwargs.update(protected=True, editable=False)
        super().__init__(**kwargs)

    @staticmethod
    def force(instance: Any, value: str) -> None:
        """Sets the state of a loaded instance without a transition; only for overrides."""
        instance.__dict__["state"] = value


def column(model: type[models.Model] | models.Model, name: str) -> models.Field[Any, Any]:
    return cast("models.Field[Any, Any]", model._meta.get_field(name))


def related(model: type[models.Model] | models.Model, name: str) -> Any:
    """Returns the model at the other end of a relation. Machines refer to each other by name, never by import."""
    return model._meta.get_field(name).related_model


def reverse_key(model: type[models.Model], name: str) -> str:
    """Returns the name of the foreign key behind a reverse relation."""
    return cast("models.ForeignObjectRel", model._meta.get_field(name)).field.name
