"""The admin shell: every machine and the journal, to look at; nothing is written here."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django.contrib import admin
from django.core.paginator import Paginator
from django.db.models import Model
from django.http import HttpRequest
from django.utils.functional import cached_property

from .journal import Event
from .kernel import registry
from .records import Patch, Phase

if TYPE_CHECKING:
    ModelAdmin = admin.ModelAdmin[Model]
    ModelPaginator = Paginator[Model]
else:
    ModelAdmin = admin.ModelAdmin
    ModelPaginator = Paginator


class UncountedPaginator(ModelPaginator):
    """Pages through a table without ever counting it: the next page is offered as long as this one is full."""

    @cached_property
    def count(self) -> int:
        return 2**31


class ReadOnly(ModelAdmin):
    paginator = UncountedPaginator
    show_full_result_count = False
    list_per_page = 50

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


@admin.register(Event)
class EventAdmin(ReadOnly):
    list_display = ("event_id", "timestamp", "entity_type", "entity_id", "from_state", "to_state", "trigger", "actor")
    list_filter = ("entity_type", "kind", "severity", "channel")
    search_fields = ("entity_id__startswith", "event_id__startswith")
    ordering = ("-event_id",)


@admin.register(Phase, Patch)
class RecordAdmin(ReadOnly):
    list_display = ("id", "title", "created_at")
    search_fields = ("id__startswith",)


for _flow in registry.flows():
    admin.site.register(_flow.model, EntityAdmin)
