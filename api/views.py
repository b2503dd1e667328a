"""What every view of the API has in common."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

import orjson
from django.http import HttpRequest, HttpResponse
from rest_framework.views import APIView

from statecore.kernel.flow import Flow
from statecore.kernel.refusals import NotFound
from statecore.records.token import Scope

from . import authentication, permissions, throttling
from .bodies import JSON
from .problems import as_refusal, problem
from .refusals import MethodNotAllowed


class ApiView(APIView):
    """Who calls, whether the token is for it, how often: then the method, and whatever it raises is told as a refusal.

    Django REST framework makes the view and lets drf-spectacular find it. Its own way to the method (parsers,
    renderers, negotiation, a request around the request) would cost more than the change that is asked for.
    """

    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    writes_need: ClassVar[Scope] = Scope.AGENT
    # The machine that a call is about, where it is about one: it takes the right to see it, or to operate it.
    flow: ClassVar[Flow | None] = None
    action: ClassVar[str] = "operate"
    leaves_rights_to_the_door: ClassVar[bool] = False
    # What the framework would do is done here.
    authentication_classes = permission_classes = throttle_classes = parser_classes = renderer_classes = ()

    @classmethod
    def made_for(cls, **given: Any) -> Callable[..., HttpResponse]:
        """The view of one machine, or whatever else it is given."""
        made: Any = type(cls.__name__, (cls,), given)
        view: Callable[..., HttpResponse] = made.as_view()
        return view

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            response = self.answered(request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - told and, where it is a mistake of ours, logged
            response = problem(as_refusal(error))
        return response

    def answered(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        self.admit(request)
        response: HttpResponse = self.handler(request)(request, *args, **kwargs)
        return response

    def admit(self, request: Any) -> None:
        permission = self.permission(request)
        authentication.identify(request, permission)
        permissions.check(request, self.writes_need)
        if permission and not self.leaves_rights_to_the_door:
            permissions.require_right(request, permission)
        throttling.check(request, request.auth)

    def permission(self, request: Any) -> str:
        if self.flow is None:
            return ""
        return self.flow.permission("view" if request.method in permissions.SAFE else self.action)

    def handler(self, request: HttpRequest) -> Any:
        method = str(request.method).lower()
        found = getattr(self, method, None) if method in self.http_method_names else None
        if found is None:
            methods = [name.upper() for name in self.http_method_names if hasattr(self, name)]
            raise MethodNotAllowed(f"{request.method} is not open here", methods=methods)
        return found


def answer(body: Any, status: int = 200, **headers: str) -> HttpResponse:
    """Headers are named as Python can: `Retry_After`."""
    response = HttpResponse(orjson.dumps(body), status=status, content_type=JSON)
    for name, value in headers.items():
        response[name.replace("_", "-")] = value
    return response


class NothingHere(ApiView):
    """Every address below the API that no other view has: a caller of the API never gets a page."""

    schema = None
    writes_need = Scope.READ

    def handler(self, request: HttpRequest) -> Any:
        raise NotFound("there is nothing at this address; every address ends with a slash")
