"""The Django application of the installation itself; it has no models."""

import os

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "statecore.project"
    label = "statecore_project"

    def ready(self) -> None:
        from statecore import observing

        from . import request_logs  # noqa: F401  it signs up by being imported
        from .refusal import Refused

        try:
            observing.traces.switch_on(os.environ)
        except observing.NotInstalled as missing:
            raise Refused(str(missing)) from None
