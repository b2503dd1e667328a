"""The admin shell: every machine and the journal, to look at; nothing is written here."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html

from .journal import COLUMNS, Event
from .kernel import registry
from .records import CompensationStep, Patch, Phase, Retirement

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Model]
    ModelPaginator = Paginator[Model]
else:
    ModelAdmin = admin.ModelAdmin
    ModelPaginator = Paginator


COUNTED = 10_000


class BoundedPaginator(ModelPaginator):
    """Counts no further than anybody would page: the cost does not grow with the table."""

    @cached_property
    def count(self) -> int:
        return cast("QuerySet[Model]", self.object_list)[:COUNTED].count()


class ReadOnly(ModelAdmin):
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # a number beside each filter counts the whole table
    list_per_page = 50
    list_max_show_all = 0

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """The admin writes what an address cannot hold as `_00`, and PostgreSQL cannot be asked for that."""
        return None if "\0" in object_id else super().get_object(request, object_id, from_field)

    def has_add_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, *args: Any) -> bool:
        return False


class EntityAdmin(ReadOnly):
    list_display = ("id", "state", "version", "state_entered_at", "updated_at")
    list_filter = ("state",)
    search_fields = ("id__startswith",)
    ordering = ("-pk",)
    readonly_fields = ("state", "version", "state_entered_at")
    # Moves and overrides are made in the console, which asks the door; here they are only offered.
    change_form_template = "admin/entity_change_form.html"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Where it is comes first, not after all that no form may change."""
        rest = [name for name in super().get_fields(request, obj) if name not in self.readonly_fields]
        return [*self.readonly_fields, *rest]


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = ("event_id", "timestamp", "entity_type", "entity_id", "from_state", "to_state", "trigger", "actor")
    list_filter = ("kind",)
    search_fields = ("entity_id__startswith", "event_id__startswith")
    ordering = ("-event_id",)
    exclude = ("body",)
    readonly_fields = ("details",)

    def details(self, event: Event) -> str:
        told = {name: value for name, value in event.as_dict().items() if name not in COLUMNS}
        return format_html("<pre>{}</pre>", json.dumps(told, indent=2, ensure_ascii=False))


@admin.register(Phase, Patch)
class RecordAdmin(ReadOnly):
    list_display = ("id", "title", "created_at")
    search_fields = ("id__startswith",)


@admin.register(Retirement)
class RetirementAdmin(ReadOnly):
    list_display = ("first_position", "last_position", "until", "file", "operator", "reason", "retired_at")
    ordering = ("-last_position",)


@admin.register(CompensationStep)
class CompensationStepAdmin(ReadOnly):
    list_display = ("entry", "action", "ok", "actor", "started_at", "ended_at", "error")
    list_filter = ("action", "ok")
    search_fields = ("entry__pk__startswith",)
    ordering = ("-pk",)


for _flow in registry.flows():
    admin.site.register(_flow.model, EntityAdmin)
