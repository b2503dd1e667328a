"""Records without states: phases, and the diffs of patches."""

from __future__ import annotations

from datetime import datetime
from typing import Any, ClassVar

from django.core.exceptions import ValidationError
from django.db import IntegrityError, models, transaction
from django.http import HttpResponse

from statecore.journal.accounts import Action
from statecore.kernel.actors import Actor, Kind
from statecore.kernel.clock import rfc3339
from statecore.kernel.ids import is_valid_id, new_id
from statecore.kernel.refusals import DuplicateId, Invalid, NotFound, PermissionDenied
from statecore.kernel.validation import TEXT_LIMIT, describe_errors, field_error, json_error, text_error
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import Run
from statecore.records import Patch, Phase

from . import pages
from .access import actor_of
from .openapi.fields import ID, Schema, nullable, request_field
from .openapi.operation import list_params, operation
from .openapi.schemas import REQUEST_ID, obj, page_of, record_schema
from .request import Request
from .request_body import Body, RequestBody, read_body
from .responses import json_response
from .views import ApiView

OLDEST_FIRST = "id"


class RecordView(ApiView):
    """A view of one kind of record; callers need the permission to view the machine `flow`."""

    model: ClassVar[type[models.Model]]
    # Whether agents may add records; they never change them.
    agents_add: ClassVar[bool] = False

    def require(self, actor: Actor, action: str) -> None:
        """Require Django's permission of an operator; an agent may add some kinds of records."""
        name = self.model._meta.model_name
        permission = f"statecore.{action}_{name}"
        is_operator = actor.kind is Kind.OPERATOR
        allowed = actor.has_permission(permission) if is_operator else self.agents_add and action == "add"
        if not allowed:
            raise PermissionDenied(f"{actor.name} may not {action} a {name}", required=permission)

    def fields(self) -> dict[str, Any]:
        return {
            field.name: field for field in self.model._meta.concrete_fields if field.editable and field.name != "id"
        }

    def describe_fields(self) -> dict[str, Schema]:
        return {name: request_field(field) for name, field in self.fields().items()}

    def describe_new(self) -> Schema:
        required = [name for name, field in self.fields().items() if not (field.blank or field.has_default())]
        fields = {"id": nullable(ID), **self.describe_fields(), "request_id": REQUEST_ID}
        return obj(fields, required, closed=True)

    def set_fields(self, record: Any, given: dict[str, Any]) -> None:
        """Set fields; raises Invalid for values that one of the supported databases cannot store."""
        known, errors = self.fields(), {}
        for name, value in given.items():
            if complaint := _find_error(known.get(name), value):
                errors[name] = [complaint]
            else:
                setattr(record, name, value)
        if errors:
            raise Invalid(errors)
        try:
            record.clean_fields()
        except ValidationError as error:
            raise Invalid(describe_errors(error)) from error


def _find_error(field: Any, value: object) -> str | None:
    if field is None:
        return "is not a field that can be set."
    if isinstance(field, models.JSONField):
        return json_error(value) or field_error(field, value)
    return text_error(value, field.max_length or TEXT_LIMIT)


class Records(RecordView):
    @operation(
        lambda view: f"List {view.model._meta.verbose_name_plural}",
        {200: lambda view: page_of(record_schema(view.model))},
        params=lambda view: list_params(view.model),
        name="list",
    )
    def get(self, request: Request) -> HttpResponse:
        return json_response(pages.paginate(request, self.model._default_manager.all(), _serialize, OLDEST_FIRST))

    @operation(
        lambda view: f"Add a {view.model._meta.verbose_name}",
        {201: lambda view: record_schema(view.model)},
        body=lambda view: view.describe_new(),
        refusals=(409,),
        name="create",
    )
    def post(self, request: Request) -> HttpResponse:
        body, actor = RequestBody(request, Body, takes_more=True), actor_of(request)
        return body.respond_once(actor, lambda work: self._create(body.extra, actor), 201)

    def _create(self, given: dict[str, Any], actor: Actor) -> dict[str, Any]:
        self.require(actor, "add")
        given = dict(given)  # a copy, because the transaction may be repeated
        record_id = given.pop("id", None)
        record_id = new_id(str(self.model._meta.model_name)) if record_id is None else record_id
        if not is_valid_id(record_id):
            raise Invalid({"id": ["must be 1 to 64 characters of A-Z a-z 0-9 . _ : -"]})
        record = self.model(pk=record_id)
        self.set_fields(record, given)
        if isinstance(record, Patch):
            record.author = actor.identity
        try:
            with transaction.atomic():
                record.save(force_insert=True)
                _note(record, Action.PHASE_CREATED, actor)
        except IntegrityError:
            raise DuplicateId(f"the id {record_id!r} is taken", id=record_id) from None
        return _as_dict(record)


class Record(RecordView):
    @operation(
        lambda view: f"Read a {view.model._meta.verbose_name}",
        {200: lambda view: record_schema(view.model)},
        name="get",
    )
    def get(self, request: Request, record_id: str) -> HttpResponse:
        return json_response(_as_dict(self._get(record_id)))

    @operation(
        lambda view: f"Change a {view.model._meta.verbose_name}",
        {200: lambda view: record_schema(view.model)},
        body=lambda view: obj(view.describe_fields(), [], closed=True),
        name="edit",
    )
    def patch(self, request: Request, record_id: str) -> HttpResponse:
        given, actor = read_body(request), actor_of(request)
        self.require(actor, "change")
        with transaction.atomic():
            record = self._get(record_id, locked=True)
            self.set_fields(record, given)
            record.save(update_fields=list(given))
            _note(record, Action.PHASE_CHANGED, actor)
        return json_response(_as_dict(record))

    def _get(self, record_id: str, *, locked: bool = False) -> models.Model:
        rows = self.model._default_manager.select_for_update() if locked else self.model._default_manager.all()
        found = rows.filter(pk=record_id).first() if is_valid_id(record_id) else None
        if found is None:
            raise NotFound(f"there is no {self.model._meta.model_name} {record_id!r}")
        return found


class ReadOnlyRecord(Record):
    """A record that cannot change once it is created."""

    http_method_names = ["get", "head"]


def _note(record: models.Model, action: Action, actor: Actor) -> None:
    """Record the operator who sets the rules of a phase; a diff never changes."""
    if isinstance(record, Phase):
        record.record(action, actor)


def _serialize(records: list[Any]) -> list[dict[str, Any]]:
    return [_as_dict(record) for record in records]


def _as_dict(record: models.Model) -> dict[str, Any]:
    return {field.name: _to_json(getattr(record, field.attname)) for field in record._meta.concrete_fields}


def _to_json(value: Any) -> Any:
    return rfc3339(value) if isinstance(value, datetime) else value


class Phases(Records):
    route, model, flow = "phases/", Phase, Run.flow


class OnePhase(Record):
    route, model, flow = "phases/<str:record_id>/", Phase, Run.flow


class Diffs(Records):
    route, model, flow, agents_add = "diffs/", Patch, PatchLedger.flow, True


class Diff(ReadOnlyRecord):
    route, model, flow = "diffs/<str:record_id>/", Patch, PatchLedger.flow
