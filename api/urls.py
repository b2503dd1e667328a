"""The addresses of the API, in the order they are tried."""

from django.urls import re_path

from .views import NothingHere

urlpatterns = [
    re_path("", NothingHere.as_view()),
]
