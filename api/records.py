"""The plain records beside the machines: phases, and the diffs that patches consist of."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.http import HttpResponse
from django.urls import path

from statecore.kernel.actors import Actor, Kind
from statecore.kernel.clock import rfc3339
from statecore.kernel.plain import TEXT_LIMIT, json_complaint, text_complaint
from statecore.kernel.refusals import DuplicateId, Invalid, NotFound, PermissionDenied
from statecore.kernel.ulid import is_valid_id, new_id
from statecore.kernel.validators import shape_complaint
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.records import Patch, Phase

from . import bodies, pages
from .actors import acting
from .posted import Posted
from .request import Request
from .views import ApiView, answer

NEWEST_LAST = "id"


class OfRecords(ApiView):
    """Seen by who sees the machine they belong to."""

    model: ClassVar[type[models.Model]]

    def require(self, actor: Actor, action: str) -> None:
        """An operator needs Django's permission; an agent adds records and changes none."""
        name = self.model._meta.model_name
        permission = f"statecore.{action}_{name}"
        allowed = actor.holds(permission) if actor.kind is Kind.OPERATOR else action == "add"
        if not allowed:
            raise PermissionDenied(f"{actor.name} may not {action} a {name}", required=permission)

    def fields(self) -> dict[str, Any]:
        return {
            field.name: field for field in self.model._meta.concrete_fields if field.editable and field.name != "id"
        }

    def checked(self, record: Any, given: dict[str, Any]) -> None:
        """Set what was given, if both databases keep it."""
        known, errors = self.fields(), {}
        for name, value in given.items():
            if complaint := _complaint(known.get(name), value):
                errors[name] = [complaint]
            else:
                setattr(record, name, value)
        if errors:
            raise Invalid(errors)
        try:
            record.clean_fields()
        except ValidationError as error:
            raise Invalid(error.message_dict) from error


def _complaint(field: Any, value: object) -> str | None:
    if field is None:
        return "is not a field that can be set."
    if isinstance(field, models.JSONField):
        return json_complaint(value) or shape_complaint(field, value)
    return text_complaint(value, field.max_length or TEXT_LIMIT)


class Records(OfRecords):
    def get(self, request: Request) -> HttpResponse:
        return answer(pages.page(request, self.model._default_manager.all(), _told, NEWEST_LAST))

    def post(self, request: Request) -> HttpResponse:
        asked, actor = Posted(request, bodies.Body, takes_more=True), acting(request)
        return asked.once(actor, lambda: self._create(asked.further, actor), 201)

    def _create(self, given: dict[str, Any], actor: Actor) -> dict[str, Any]:
        self.require(actor, "add")
        given = dict(given)  # it may be made again from the start
        record_id = given.pop("id", None)
        record_id = new_id(str(self.model._meta.model_name)) if record_id is None else record_id
        if not is_valid_id(record_id):
            raise Invalid({"id": ["must be 1 to 64 of A-Z a-z 0-9 . _ : -"]})
        record = self.model(pk=record_id)
        self.checked(record, given)
        try:
            with transaction.atomic():
                record.save(force_insert=True)
        except IntegrityError:
            raise DuplicateId(f"the id {record_id!r} is taken", id=record_id) from None
        return _as_dict(record)


class Record(OfRecords):
    def get(self, request: Request, record_id: str) -> HttpResponse:
        return answer(_as_dict(self._found(record_id)))

    def patch(self, request: Request, record_id: str) -> HttpResponse:
        given = bodies.read(request)
        self.require(acting(request), "change")
        record = self._found(record_id)
        self.checked(record, given)
        record.save(update_fields=list(given))
        return answer(_as_dict(record))

    def _found(self, record_id: str) -> models.Model:
        found = self.model._default_manager.filter(pk=record_id).first() if is_valid_id(record_id) else None
        if found is None:
            raise NotFound(f"there is no {self.model._meta.model_name} {record_id!r}")
        return found


class FixedRecord(Record):
    """One that stays as it was made."""

    http_method_names = ["get", "head"]


def _told(records: list[Any]) -> list[dict[str, Any]]:
    return [_as_dict(record) for record in records]


def _as_dict(record: models.Model) -> dict[str, Any]:
    return {field.name: _plain(getattr(record, field.attname)) for field in record._meta.concrete_fields}


def _plain(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value


urlpatterns = [
    path("phases/", Records.made_for(model=Phase, flow=Run.flow), name="phases-list"),
    path("phases/<str:record_id>/", Record.made_for(model=Phase, flow=Run.flow), name="phases-detail"),
    path("diffs/", Records.made_for(model=Patch, flow=PatchLedger.flow), name="diffs-list"),
    path("diffs/<str:record_id>/", FixedRecord.made_for(model=Patch, flow=PatchLedger.flow), name="diffs-detail"),
]
