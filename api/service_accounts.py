"""Service accounts and their tokens: administrators see and change all, others see and rotate those that they own."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

from django.http import HttpResponse
from msgspec import UNSET, Meta, UnsetType

from statecore.accounts import service_accounts
from statecore.accounts.service_accounts import DEFAULT_OVERLAP, LONGEST_LIFETIME
from statecore.kernel.actors import NAME_LENGTH
from statecore.kernel.refusals import NotFound
from statecore.records.service_account import MANAGE_ACCOUNTS, NAME, PURPOSE_LENGTH, ServiceAccount
from statecore.records.token import LONGEST_OVERLAP, Scope
from statecore.transitions import Outcome
from statecore.transitions.unit_of_work import UnitOfWork

from .access import actor_of, has_permission
from .openapi.fields import TIME, Schema, nullable, text
from .openapi.operation import SIZE, operation, query
from .openapi.schemas import FLAG, STRING, array, component, obj, page_of
from .request import Request
from .request_body import As, Body, RequestBody, respond_once
from .responses import json_response, outcome_response
from .views import ApiView

HOUR, DAY = timedelta(hours=1), timedelta(days=1)
SERVICE_ID: Schema = {"type": "string", "pattern": f"^{NAME.pattern}$", "examples": ["nightly-build"]}
SCOPE: Schema = {"type": "string", "enum": list(Scope.values)}
SECRET: Schema = {
    "type": ["string", "null"],
    "description": "The token. In the first response only: a repeat under the same key has null.",
}
TOKEN = component("Token", obj({
    "name": STRING, "user": STRING, "scope": SCOPE, "prefix": STRING, "created_at": TIME,
    **dict.fromkeys(("expires_at", "revoked_at", "last_used_at"), nullable(TIME)),
}))  # fmt: skip
SERVICE_ACCOUNT = component("ServiceAccount", obj({
    "id": STRING, "username": STRING, "owner": nullable(STRING), "has_active_owner": FLAG, "purpose": STRING,
    "roles": array(STRING), "is_enabled": FLAG, "created_at": TIME, "created_by": STRING,
    "expires_at": nullable(TIME), "tokens": array(TOKEN),
}))  # fmt: skip
WITH_SECRET: Schema = {"allOf": [TOKEN, obj({"secret": SECRET})]}
NAME_TEXT: Schema = {**text(NAME_LENGTH), "minLength": 1}
Owner = Annotated[str, As(NAME_TEXT)]
Purpose = Annotated[str, As({**text(PURPOSE_LENGTH), "minLength": 1})]
Roles = Annotated[list[str], As(array(NAME_TEXT))]
Days = Annotated[float, Meta(gt=0, le=LONGEST_LIFETIME / DAY)]
Hours = Annotated[float, Meta(ge=0, le=LONGEST_OVERLAP / HOUR)]
AFTER = query("after", SERVICE_ID, "Return those with a higher id.")


class ServiceAccountView(ApiView):
    # Tokens of these accounts may have any rights, so a smaller scope must not lead to them.
    writes_need = (Scope.OVERRIDE,)


class ServiceAccounts(ServiceAccountView):
    route = "service-accounts/"

    class Fields(Body):
        id: Annotated[str, As(SERVICE_ID)]
        owner: Owner
        purpose: Purpose
        roles: Roles = []
        expires_at: Annotated[datetime, Meta(tz=True)] | None = None

    @operation(
        "List service accounts by id",
        {200: page_of(SERVICE_ACCOUNT)},
        params=[AFTER, SIZE],
        name="list_service_accounts",
    )
    def get(self, request: Request) -> HttpResponse:
        params = self.params(request)
        after, size = params.get_text("after"), params.get_page_size()
        found = [each.as_dict() for each in _list_visible(request) if each.name > after]
        return json_response(params.build_page_by_id(found[:size], more=len(found) > size))

    @operation(
        "Create a service account",
        {201: SERVICE_ACCOUNT},
        body=Fields,
        refusals=(409,),
        description="It has no token yet. Its user is `service/ID`; its owner is the person who answers for it.",
        name="create_service_account",
    )
    def post(self, request: Request) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)

        def create(work: UnitOfWork | None) -> dict[str, Any]:
            given = body.fields
            return service_accounts.create(
                given.id,
                owner=given.owner,
                purpose=given.purpose,
                roles=given.roles,
                expires_at=given.expires_at,
                actor=actor,
            ).as_dict()

        return body.respond_once(actor, create, 201)


class OneServiceAccount(ServiceAccountView):
    route = "service-accounts/<str:account_id>/"

    class Fields(Body):
        owner: Owner | UnsetType = UNSET
        purpose: Purpose | UnsetType = UNSET
        roles: Roles | UnsetType = UNSET
        expires_at: Annotated[datetime, Meta(tz=True)] | UnsetType | None = UNSET

    @operation(
        "Read one service account with its tokens",
        {200: SERVICE_ACCOUNT},
        name="get_service_account",
    )
    def get(self, request: Request, account_id: str) -> HttpResponse:
        found = next((each for each in _list_visible(request) if each.name == account_id), None)
        if found is None:
            raise NotFound(f"there is no service account {account_id!r} that you may see")
        return json_response(found.as_dict())

    @operation(
        "Change a service account",
        {200: SERVICE_ACCOUNT},
        body=Fields,
        description="An earlier `expires_at` also ends its tokens earlier.",
        name="edit_service_account",
    )
    def patch(self, request: Request, account_id: str) -> HttpResponse:
        given = RequestBody(request, self.Fields).fields.list_given()
        return json_response(service_accounts.change(account_id, given, actor=actor_of(request)).as_dict())


class DisableServiceAccount(ServiceAccountView):
    route = "service-accounts/<str:account_id>/disable/"

    @operation(
        "Refuse the tokens of a service account",
        {200: SERVICE_ACCOUNT},
        body=Body,
        refusals=(409,),
        name="disable_service_account",
    )
    def post(self, request: Request, account_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        return body.respond_once(actor, lambda work: service_accounts.disable(account_id, actor=actor).as_dict())


class EnableServiceAccount(ServiceAccountView):
    route = "service-accounts/<str:account_id>/enable/"

    @operation(
        "Accept the tokens of a service account again",
        {200: SERVICE_ACCOUNT},
        body=Body,
        refusals=(409,),
        name="enable_service_account",
    )
    def post(self, request: Request, account_id: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        return body.respond_once(actor, lambda work: service_accounts.enable(account_id, actor=actor).as_dict())


class ServiceAccountTokens(ServiceAccountView):
    route = "service-accounts/<str:account_id>/tokens/"

    class Fields(Body):
        scope: Annotated[str, As(SCOPE)]
        days: Days | None = None

    @operation(
        "Create a token of a service account",
        {201: WITH_SECRET},
        body=Fields,
        refusals=(409,),
        description="Valid for 90 days, or for `days`, at most as long as the account, which needs an active owner.",
        name="issue_token",
    )
    def post(self, request: Request, account_id: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        texts: list[str] = []

        def issue(work: UnitOfWork | None) -> dict[str, Any]:
            token, text = service_accounts.issue_token(
                account_id, body.fields.scope, lifetime=_read_days(body.fields.days), actor=actor
            )
            texts.append(text)
            return token.as_dict()

        return _respond_with_secret(respond_once(body.key, actor, issue), texts)


class RotateServiceAccountToken(ServiceAccountView):
    route = "service-accounts/<str:account_id>/tokens/<str:prefix>/rotate/"

    class Fields(Body):
        overlap_hours: Hours = DEFAULT_OVERLAP / HOUR
        days: Days | None = None

    @operation(
        "Replace a token of a service account",
        {201: WITH_SECRET},
        body=Fields,
        refusals=(409,),
        description="Creates a token with the same scope. The old one stays valid for `overlap_hours`.",
        name="rotate_token",
    )
    def post(self, request: Request, account_id: str, prefix: str) -> HttpResponse:
        body, actor = RequestBody(request, self.Fields), actor_of(request)
        texts: list[str] = []

        def rotate(work: UnitOfWork | None) -> dict[str, Any]:
            overlap, lifetime = timedelta(hours=body.fields.overlap_hours), _read_days(body.fields.days)
            token, text = service_accounts.rotate_token(
                account_id, prefix, overlap=overlap, lifetime=lifetime, actor=actor
            )
            texts.append(text)
            return token.as_dict()

        return _respond_with_secret(respond_once(body.key, actor, rotate), texts)


class RevokeServiceAccountToken(ServiceAccountView):
    route = "service-accounts/<str:account_id>/tokens/<str:prefix>/revoke/"

    @operation(
        "Revoke a token of a service account",
        {200: TOKEN},
        body=Body,
        refusals=(409,),
        name="revoke_token",
    )
    def post(self, request: Request, account_id: str, prefix: str) -> HttpResponse:
        body, actor = RequestBody(request, Body), actor_of(request)
        return body.respond_once(
            actor, lambda work: service_accounts.revoke_token(account_id, prefix, actor=actor).as_dict()
        )


def _list_visible(request: Request) -> list[ServiceAccount]:
    is_admin = has_permission(request, MANAGE_ACCOUNTS)
    return service_accounts.list_visible(request.user.pk, is_admin=is_admin)


def _read_days(days: float | None) -> timedelta | None:
    return None if days is None else timedelta(days=days)


def _respond_with_secret(outcome: Outcome, texts: list[str]) -> HttpResponse:
    """The secret is not a part of the response that is stored under an idempotency key: a repeat has null."""
    return outcome_response(outcome, {**outcome.as_dict(), "secret": texts[-1] if texts else None}, 201)
