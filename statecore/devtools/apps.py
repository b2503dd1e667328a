"""The Django application that carries the developers' commands: `machines` and `simulate`."""

from django.apps import AppConfig


class DevtoolsConfig(AppConfig):
    name = "statecore.devtools"
    label = "statecore_devtools"
