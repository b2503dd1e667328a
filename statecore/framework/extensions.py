"""Registers what surrounds the machines of another package: reactions, sinks, alert rules, work, REST calls, pages.

Call these functions in `ready()` of the package's AppConfig. docs/how-to/extend.md has an example of each.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.urls import path

from .. import transitions
from ..api.access import actor_of
from ..api.request import Request
from ..api.request_body import Body, RequestBody
from ..api.responses import json_response
from ..api.views import ApiView
from ..dashboard.permissions import get_actor, require_permission
from ..dashboard.rendering import render
from ..delivery.sinks.alert_rules import CountRule, EntryRule, Violation
from ..delivery.sinks.sink import Batch, NumberedEvent, Sink
from ..kernel import extensions, registry
from ..kernel.actors import THE_SYSTEM as SYSTEM_ACTOR
from ..kernel.registry import EditReaction, Reaction
from ..kernel.transition import Severity
from ..transitions.change import Change
from ..transitions.unit_of_work import UnitOfWork


def add_reaction(entity_type: str, reaction: Reaction) -> None:
    """Calls `reaction(work, changes)` in the transaction of each transition of a machine, or of all for ""."""
    registry.reactions.append((entity_type, reaction))


def add_edit_reaction(entity_type: str, reaction: EditReaction) -> None:
    """Calls `reaction(work, entity, names)` in the transaction of each edit of an entity."""
    registry.edit_reactions.append((entity_type, reaction))


def add_sink(create: Callable[[], Sink]) -> None:
    """Delivers every event to a sink, in order and at least once, in the sequencer."""
    extensions.sinks.append(create)


def add_alert_rule(rule: CountRule | EntryRule) -> None:
    """Opens and resolves alerts by a rule; its name must be unique."""
    extensions.alert_rules.append(rule)


def add_executor(task: str, *, every: timedelta, queue: str = "celery") -> None:
    """Starts a Celery task of the package's `tasks` module repeatedly; a worker of the queue executes it.

    The queues `gates` and `patches` belong to the executors, which may run long commands.
    """
    extensions.sweeps.append(extensions.Sweep(task, every, queue))


def add_api_call(route: str, view: type[ApiView], *, name: str) -> None:
    """Serves a view below /api/v1/; the OpenAPI document describes it by the docstrings of its methods."""
    extensions.api_routes.append(path(route, view.as_view(), name=name))


def add_page(route: str, view: Callable[..., HttpResponse], *, name: str, title: str, permission: str) -> None:
    """Adds a page to the console and to its navigation. The view itself has to require the permission."""
    extensions.pages.append(extensions.Page(path(route, view, name=name), title, permission))


__all__ = [
    "SYSTEM_ACTOR", "ApiView", "Batch", "Body", "Change", "CountRule", "EntryRule", "HttpRequest", "HttpResponse",
    "NumberedEvent", "Request", "RequestBody", "Severity", "Sink", "UnitOfWork", "Violation", "actor_of",
    "add_alert_rule", "add_api_call", "add_edit_reaction", "add_executor", "add_page", "add_reaction", "add_sink",
    "get_actor", "json_response", "render", "require_permission", "transitions",
]  # fmt: skip
