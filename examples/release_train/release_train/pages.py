"""The page *Timetable* of the console."""

from __future__ import annotations

from statecore.framework.console import HttpRequest, HttpResponse, render, require_permission

from .models import Departure, Train

PERMISSION = "release_train.view_train"


def timetable(request: HttpRequest) -> HttpResponse:
    require_permission(request, PERMISSION)
    trains = Train.objects.order_by("departs_at")[:100]
    return render(request, "release_train/timetable.html", {"trains": trains, "departed": Departure.objects.count()})
