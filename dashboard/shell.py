"""What surrounds every page: the machines to choose from, the person, how it should look."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.conf import settings
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render as render_template
from django.utils.cache import patch_vary_headers

from statecore.kernel import registry
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow

from . import rights, second_factor
from .models import Preference

LOOK = "look"  # in the session
TOGETHER, ALONE = "Plans", "Jobs and tools"


def render(request: HttpRequest, template: str, context: dict[str, Any], status: int = 200) -> HttpResponse:
    response = render_template(request, template, {**context, "shell": Shell(request)}, status=status)
    return told_apart(request, response)


def told_apart(request: HttpRequest, response: HttpResponse) -> HttpResponse:
    """A part and its page share an address: whoever goes back must not be given the part that was kept of it."""
    patch_vary_headers(response, ["HX-Request"])
    if is_fragment(request):
        response["Cache-Control"] = "no-store"
    return response


def is_fragment(request: HttpRequest) -> bool:
    """Whether htmx asks for a part of the page, not for a page to go back to."""
    return request.headers.get("HX-Request") == "true" and "HX-History-Restore-Request" not in request.headers


def name_of(flow: Flow) -> str:
    """`Patch ledger`, `Tasks`: the collection's name as a person would write it."""
    return flow.collection.replace("-", " ").capitalize().replace("Uet", "UET")


def preference_of(request: HttpRequest) -> Preference:
    """Kept in the session, which every page reads anyway."""
    if not request.user.is_authenticated:
        return Preference()
    if LOOK not in request.session:
        found = Preference.objects.filter(user=request.user).first() or Preference()
        request.session[LOOK] = found.choices()
    return Preference(**request.session[LOOK])


class Shell:
    """Lazy where it costs a query: a fragment needs none of it."""

    def __init__(self, request: HttpRequest) -> None:
        self.request = request
        self.read_only = settings.STATECORE_READ_ONLY
        self.second_factor_is_off = second_factor.is_off()

    @property
    def preference(self) -> Preference:
        return preference_of(self.request)

    def machines(self) -> list[tuple[str, list[tuple[Flow, str]]]]:
        """The machines this person may see: those that work together first, parents before their parts."""
        seen = [flow for flow in registry.flows() if rights.may(self.request.user, flow, "view")]
        together = sorted((flow for flow in seen if neighbours(flow)), key=depth)
        alone = [flow for flow in seen if flow not in together]
        groups = ((TOGETHER, together), (ALONE, alone))
        return [(title, [(flow, name_of(flow)) for flow in flows]) for title, flows in groups if flows]


def neighbours(flow: Flow) -> set[type[Entity]]:
    """The other machines it is linked with, in either direction."""
    return _machines(flow, flow.model._meta.get_fields())


def depth(flow: Flow) -> int:
    """How many machines stand above it."""
    above = _machines(flow, flow.model._meta.concrete_fields)
    return max((1 + depth(model.flow) for model in above), default=0)


def _machines(flow: Flow, fields: Iterable[Any]) -> set[type[Entity]]:
    linked = {field.related_model for field in fields if field.is_relation} - {flow.model}
    return {model for model in linked if isinstance(model, type) and issubclass(model, Entity)}
