"""How the console should look, for one person; each button saves at once."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import BadRequest
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.views.decorators.http import require_POST

from dashboard.models import Preference
from dashboard.rights import person
from dashboard.shell import LOOK

from .asked import onward

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
    return HttpResponseRedirect(onward(request))
