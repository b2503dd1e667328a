"""The addresses of the API, in the order they are tried."""

from django.urls import include, path, re_path

from . import collections
from .views import NothingHere

urlpatterns = [
    path("", include("api.openapi.views")),
    path("", include("api.agents")),
    path("", include("api.records")),
    path("", include("api.bulk")),
    path("", include("api.screens.urls")),
    path("", include(collections.addresses())),
    # Last: whatever no other one has.
    re_path("", NothingHere.as_view()),
]
