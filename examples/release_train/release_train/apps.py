"""The Django application: registers what surrounds the machine."""

from datetime import timedelta

from django.apps import AppConfig


class ReleaseTrainConfig(AppConfig):
    name = "release_train"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from statecore.framework import console, extensions, rest

        from . import alerts, calls, pages, reactions, sinks

        extensions.add_reaction("run", reactions.load_trains)
        extensions.add_sink(sinks.Departures)
        extensions.add_alert_rule(alerts.TRAIN_LATE)
        extensions.add_periodic_task("release_train.tasks.depart", every=timedelta(seconds=5))
        rest.add_call(calls.Timetable)
        console.add_page(
            "timetable/", pages.timetable, name="timetable", title="Timetable", permission=pages.PERMISSION
        )
