"""The Django admin: a read-only view of every machine, the journal and the records."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, cast

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model, QuerySet
from django.http import HttpRequest
from django.utils.functional import cached_property
from django.utils.html import format_html

from .journal import COLUMNS, ArchivedRange, Event, EventKind
from .journal.accounts import VIEW_ACCOUNTS
from .kernel import registry
from .records import Approval, CompensationStep, Patch, Phase

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Model]
    ModelPaginator = Paginator[Model]
else:
    ModelAdmin = admin.ModelAdmin
    ModelPaginator = Paginator


COUNT_LIMIT = 10_000


class BoundedPaginator(ModelPaginator):
    """Stops counting at `COUNT_LIMIT` rows, so that the cost does not grow with the table."""

    @cached_property
    def count(self) -> int:
        return cast("QuerySet[Model]", self.object_list)[:COUNT_LIMIT].count()


class ReadOnly(ModelAdmin):
    paginator = BoundedPaginator
    show_full_result_count = False
    show_facets = admin.ShowFacets.NEVER  # facets count the whole table
    list_per_page = 50
    list_max_show_all = 0

    def get_object(self, request: HttpRequest, object_id: str, from_field: str | None = None) -> Any:
        """Return None for an id with a NUL, which the admin decodes from `_00` and PostgreSQL rejects."""
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
    # The template links to the console, which performs transitions and overrides.
    change_form_template = "admin/entity_change_form.html"

    def get_fields(self, request: HttpRequest, obj: Any = None) -> list[Any]:
        """Show the state fields first."""
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

    def get_queryset(self, request: HttpRequest) -> QuerySet[Any]:
        """Without the account journal for staff who may not read it."""
        events = super().get_queryset(request)
        return events if request.user.has_perm(VIEW_ACCOUNTS) else events.exclude(kind=EventKind.ACCOUNT)

    def details(self, event: Event) -> str:
        rest = {name: value for name, value in event.as_dict().items() if name not in COLUMNS}
        return format_html("<pre>{}</pre>", json.dumps(rest, indent=2, ensure_ascii=False))


@admin.register(Phase, Patch)
class RecordAdmin(ReadOnly):
    list_display = ("id", "title", "created_at")
    search_fields = ("id__startswith",)


@admin.register(ArchivedRange)
class ArchivedRangeAdmin(ReadOnly):
    list_display = ("first_position", "last_position", "until", "file", "operator", "reason", "archived_at")
    ordering = ("-last_position",)


@admin.register(CompensationStep)
class CompensationStepAdmin(ReadOnly):
    list_display = ("entry", "action", "ok", "actor", "started_at", "ended_at", "error")
    list_filter = ("action", "ok")
    search_fields = ("entry__pk__startswith",)
    ordering = ("-pk",)


@admin.register(Approval)
class ApprovalAdmin(ReadOnly):
    list_display = (
        "id",
        "entity_type",
        "entity_id",
        "to_state",
        "requested_by",
        "requested_at",
        "expires_at",
        "status",
    )
    search_fields = ("entity_id__startswith",)
    ordering = ("-pk",)
    list_select_related = ("decision",)


for _flow in registry.flows():
    admin.site.register(_flow.model, EntityAdmin)
