"""The Django application: installs the triggers after each migrate and refuses a broken declaration at start-up."""

from typing import Any

from django.apps import AppConfig
from django.core.checks import Tags, register
from django.db import connections
from django.db.models.signals import post_migrate


class StatecoreConfig(AppConfig):
    name = "statecore"
    default_auto_field = "django.db.models.BigAutoField"

    def ready(self) -> None:
        from . import agent_events, reactions, sequencer
        from .kernel import checks, registry
        from .records import checkpoint
        from .stuck import abandoned
        from .stuck.recovery.checks import settings_name_recoveries

        register(checks.machines_are_sound, Tags.models)
        register(checks.settings_name_known_states, Tags.models)
        register(settings_name_recoveries, Tags.models)
        registry.reactions += [
            agent_events.mirror,
            checkpoint.clear_when_done,
            abandoned.mark_what_is_left,
            reactions.follow,
        ]
        registry.listeners.append(sequencer.ring)
        post_migrate.connect(_install_triggers, sender=self)
        post_migrate.connect(_install_commit_order, sender=self)


def _install_triggers(using: str, **_: Any) -> None:
    from .kernel import triggers

    triggers.install(connections[using])


def _install_commit_order(using: str, **_: Any) -> None:
    from .records import commit_order

    commit_order.install(connections[using])
