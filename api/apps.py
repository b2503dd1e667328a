"""The Django application of the API; it has no models."""

from django.apps import AppConfig


class ApiConfig(AppConfig):
    name = "statecore.api"
    label = "api"
