"""Saves the appearance that a user chose; each button of the menu submits one choice."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_http_methods

from statecore.dashboard.models import Preference
from statecore.dashboard.permissions import get_user
from statecore.dashboard.rendering import PREFERENCE

from .query_params import get_next_url

CHOICES = ("theme", "contrast", "density")


@require_http_methods(["GET", "HEAD", "POST"])
def preferences(request: HttpRequest) -> HttpResponse:
    """Other methods lead to a page: a login in between turns the submitted form into a GET."""
    if request.method != "POST":
        return HttpResponseRedirect(get_next_url(request))
    chosen = {name: request.POST[name] for name in CHOICES if name in request.POST}
    for name, value in chosen.items():
        field: Any = Preference._meta.get_field(name)
        if value not in dict(field.flatchoices):
            raise BadRequest(f"{value!r} is not a valid {name}.")
    saved, _is_new = Preference.objects.update_or_create(user=get_user(request), defaults=chosen)
    request.session[PREFERENCE] = saved.choices()
    return HttpResponseRedirect(get_next_url(request))
