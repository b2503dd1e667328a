"""The Django application: registers checks and reactions, and installs the database triggers after each migrate."""

from types import ModuleType
from typing import Any

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import Tags, register
from django.db import connections
from django.db.models.signals import post_migrate, pre_save


class StatecoreConfig(AppConfig):
    name = "statecore"
    default_auto_field = "django.db.models.BigAutoField"

    def __init__(self, name: str, module: ModuleType) -> None:
        super().__init__(name, module)
        _complete_settings()

    def ready(self) -> None:
        from . import reactions
        from .accounts import changes
        from .delivery import queue_news, sequencer
        from .kernel import checks, registry
        from .reactions import abandoned
        from .records import account_names, checkpoint
        from .scheduling import agent_job_log
        from .scheduling.recovery import settings_name_recoveries

        register(checks.machines_are_sound, Tags.models)
        register(checks.settings_name_known_states, Tags.models)
        register(settings_name_recoveries, Tags.models)
        registry.reactions += [
            ("agent_job", agent_job_log.append_changes),
            ("pipeline_job", checkpoint.clear_when_done),
            ("workstream", abandoned.mark_abandoned),
            *reactions.REACTIONS,
            ("task", queue_news.announce_queued),
        ]
        registry.edit_reactions += reactions.EDIT_REACTIONS
        registry.listeners.append(sequencer.wake_sequencer)
        changes.connect()
        pre_save.connect(account_names.check_username, sender=settings.AUTH_USER_MODEL)
        post_migrate.connect(_install_triggers, sender=self)
        post_migrate.connect(_install_commit_order, sender=self)
        post_migrate.connect(_grant_rights, sender=self)


def _complete_settings() -> None:
    """Sets the settings that a project lacks; an installation has all of them."""
    if hasattr(settings, "STATECORE_HOME"):
        return
    from .project import defaults

    for name, value in vars(defaults).items():
        if name.isupper() and not hasattr(settings, name):
            setattr(settings, name, value)
    settings.STORAGES = {"artifacts": defaults.STATECORE_ARTIFACT_STORAGE, **settings.STORAGES}


def _install_triggers(using: str, **_: Any) -> None:
    from .storage import triggers

    triggers.install(connections[using])


def _install_commit_order(using: str, **_: Any) -> None:
    from .journal import commit_order

    commit_order.install(connections[using])


def _grant_rights(using: str, **_: Any) -> None:
    from .storage import roles

    roles.grant_rights(connections[using])
