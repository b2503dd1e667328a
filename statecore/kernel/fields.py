"""Looking up a model's columns and relations by name, typed."""

from __future__ import annotations

from typing import Any, cast

from django.db import models


def column(model: type[models.Model] | models.Model, name: str) -> models.Field[Any, Any]:
    return cast("models.Field[Any, Any]", model._meta.get_field(name))


def related(model: type[models.Model] | models.Model, name: str) -> Any:
    """The model at the other end of a relation: machines name each other by string, never by import."""
    return model._meta.get_field(name).related_model


def reverse_key(model: type[models.Model], name: str) -> str:
    """The foreign key behind a reverse relation."""
    return cast("models.ForeignObjectRel", model._meta.get_field(name)).field.name
