"""The Django application of the project; it has no models."""

import os

from django.apps import AppConfig


class ProjectConfig(AppConfig):
    name = "statecore.project"
    label = "statecore_project"

    def ready(self) -> None:
        from statecore import request_context

        from . import process_limits
        from .refusal import Refused

        try:
            request_context.traces.switch_on(os.environ)
        except request_context.NotInstalled as missing:
            raise Refused(str(missing)) from None
        process_limits.resume_collection()
