"""What every view of the API has in common."""

from __future__ import annotations

from typing import Any, ClassVar

import orjson
from django.http import HttpResponse
from rest_framework.renderers import JSONRenderer
from rest_framework.request import Request
from rest_framework.views import APIView

from statecore.kernel.refusals import NotFound
from statecore.records.token import Scope

from .negotiation import JSON


class ApiView(APIView):
    """Bodies are read by `api.bodies`, answers are written by `answer`: no parser and no renderer is needed."""

    http_method_names = ["get", "post", "put", "patch", "delete", "head"]
    writes_need: ClassVar[Scope] = Scope.AGENT
    parser_classes = ()
    renderer_classes = (JSONRenderer,)


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

    def initial(self, request: Request, *args: Any, **kwargs: Any) -> None:
        super().initial(request, *args, **kwargs)
        raise NotFound("there is nothing at this address; every address ends with a slash")
