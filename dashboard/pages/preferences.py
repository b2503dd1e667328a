"""How the console should look, for one person; each button saves at once."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.http import require_POST

from dashboard.models import Preference
from dashboard.rights import person
from dashboard.shell import LOOK

CHOICES = ("theme", "contrast", "density")


@require_POST
def preferences(request: HttpRequest) -> HttpResponse:
    chosen = {name: request.POST[name] for name in CHOICES if name in request.POST}
    for name, value in chosen.items():
        field: Any = Preference._meta.get_field(name)
        if value not in dict(field.flatchoices):
            raise BadRequest(f"{name} cannot be {value!r}")
    saved, _is_new = Preference.objects.update_or_create(user=person(request), defaults=chosen)
    request.session[LOOK] = saved.choices()
    return HttpResponseRedirect(_back(request))


def _back(request: HttpRequest) -> str:
    wanted = request.POST.get("next", "")
    is_ours = url_has_allowed_host_and_scheme(wanted, allowed_hosts={request.get_host()})
    return wanted if is_ours else reverse("console:overview")
