"""The task as a django-fsm user would write it and the journal as a plain table, with the same columns and indexes."""

from __future__ import annotations

from typing import Any, cast

from django.db import models
from django_fsm import FSMField, transition

from statecore.journal import Event
from statecore.kernel.ids import ID_LENGTH
from statecore.machines.task import Task


def plain(field: models.Field[Any, Any]) -> models.Field[Any, Any]:
    """Returns the field without its foreign key, so that peers skip those checks like raw SQL does."""
    if not field.is_relation:
        return field.clone()
    return models.CharField(max_length=ID_LENGTH, null=True, unique=field.unique, db_index=True, db_column=field.column)


def columns_of(model: type[models.Model]) -> type[models.Model]:
    fields = {field.attname: plain(field) for field in model._meta.concrete_fields}
    meta = type("Meta", (), {"abstract": True, "app_label": "peer"})
    return type(f"{model.__name__}Columns", (models.Model,), {"__module__": __name__, "Meta": meta, **fields})


def indexes_of(model: type[models.Model]) -> list[models.Index]:
    """Returns copies of the model's indexes over the same columns."""

    def column(name: str) -> str:
        sign, bare = name[: name.startswith("-")], name.removeprefix("-")
        return sign + cast("Any", model._meta.get_field(bare)).attname

    def over_columns(condition: Any) -> Any:
        if isinstance(condition, models.Q):
            renamed = condition.copy()
            renamed.children = [over_columns(each) for each in condition.children]
            return renamed
        field, _, lookup = condition[0].partition("__")
        return "__".join(filter(None, (column(field), lookup))), condition[1]

    return [
        models.Index(
            fields=list(map(column, index.fields)),
            condition=index.condition and over_columns(index.condition),
            name=f"peer_{index.name}",
        )
        for index in model._meta.indexes
    ]


def the_lease_is_held(task: Any) -> bool:
    return bool(task.attempt == task.reported_attempt)


def the_exit_code_is_expected(task: Any) -> bool:
    return task.reported_exit_code in task.expected_exit_codes


class PeerTask(columns_of(Task)):  # type: ignore[misc]
    """The id is an integer, because django-fsm-log stores entity ids in an integer column."""

    id = models.BigAutoField(primary_key=True)
    state = FSMField(default="pending", max_length=32)

    reported_attempt: int
    reported_exit_code: int

    class Meta:
        indexes = indexes_of(Task)

    @transition(
        field=state,
        source="running",
        target="validating",
        conditions=[the_lease_is_held, the_exit_code_is_expected],
    )
    def finish(self) -> None:
        self.exit_code = self.reported_exit_code


class PeerEvent(columns_of(Event)):  # type: ignore[misc]
    class Meta:
        constraints = (
            models.UniqueConstraint(fields=("entity_type", "entity_id", "sequence"), name="peerevent_is_linear"),
        )
