"""The base of all API views: authentication, permissions, throttling, refusals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar

from django.http import HttpRequest, HttpResponse
from rest_framework.views import APIView

from statecore.kernel.flow import Flow
from statecore.kernel.refusals import NotFound
from statecore.records.token import Scope

from . import throttling
from .access import SAFE, check_scope, identify, require_permission
from .openapi.operation import find_operation
from .query_params import RequestParams
from .refusals import MethodNotAllowed
from .responses import as_refusal, problem


class ApiView(APIView):
    """Authenticates, authorises and throttles the caller, calls the method, and returns exceptions as problems.

    Django REST framework provides `as_view` and lets drf-spectacular find the view. Its own dispatch (parsers,
    renderers, negotiation, a wrapped request) would cost more than a transition.
    """

    # The path below /api/v1/, and the name of the route if it is reversed.
    route: ClassVar[str] = ""
    name: ClassVar[str] = ""
    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    # A change needs one of these scopes.
    writes_need: ClassVar[tuple[Scope, ...]] = (Scope.AGENT,)
    # The machine of the call, if any: callers need the permission to view it, or for `action` on it.
    flow: ClassVar[Flow | None] = None
    action: ClassVar[str] = "operate"
    checks_permission_later: ClassVar[bool] = False
    # Permissions that depend on the body, read together with the token.
    may_also_need: ClassVar[tuple[str, ...]] = ()
    # Derived from `flow` and `action`.
    read_permission: ClassVar[str] = ""
    write_permission: ClassVar[str] = ""
    # Replaced by `admit`.
    authentication_classes = permission_classes = throttle_classes = parser_classes = renderer_classes = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        flow: Flow | None = getattr(cls, "flow", None)
        if flow is not None:
            cls.read_permission, cls.write_permission = flow.permission("view"), flow.permission(cls.action)

    @classmethod
    def as_view_for(cls, **attributes: Any) -> Callable[..., HttpResponse]:
        """Return a view with these class attributes, such as the machine."""
        subclass: Any = type(cls.__name__, (cls,), attributes)
        view: Callable[..., HttpResponse] = subclass.as_view()
        return view

    def dispatch(self, request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
        try:
            return self.handle(request, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - returned as a problem, and logged if unexpected
            return problem(as_refusal(error))

    def handle(self, request: Any, *args: Any, **kwargs: Any) -> HttpResponse:
        self.admit(request)
        response: HttpResponse = self.handler(request)(request, *args, **kwargs)
        return response

    def admit(self, request: Any) -> None:
        permission = self.permission(request)
        identify(request, *filter(None, (permission, *self.may_also_need)))
        check_scope(request, *self.writes_need)
        if permission and not self.checks_permission_later:
            require_permission(request, permission)
        throttling.check(request, request.auth)

    def params(self, request: Any) -> RequestParams:
        """Return the query parameters; raises Invalid for those that the call does not declare."""
        declared = find_operation(self, "get" if request.method in SAFE else request.method)
        return RequestParams(request, *(declared.list_query_params(self) if declared else ()))

    def permission(self, request: Any) -> str:
        """Return the permission that the call needs on its machine; empty for a view without one."""
        return self.read_permission if request.method in SAFE else self.write_permission

    def handler(self, request: HttpRequest) -> Any:
        method = str(request.method).lower()
        found = getattr(self, method, None) if method in self.http_method_names else None
        if found is None:
            methods = [name.upper() for name in self.http_method_names if hasattr(self, name)]
            raise MethodNotAllowed(f"{request.method} is not supported by this URL", methods=methods)
        return found


class UnknownUrl(ApiView):
    """Any other path below the API, so that API callers never get an HTML page."""

    schema = None
    writes_need = (Scope.READ,)

    def handler(self, request: HttpRequest) -> Any:
        raise NotFound("no such URL; /api/v1/docs/ lists every call")
