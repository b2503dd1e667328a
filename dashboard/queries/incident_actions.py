"""The buttons of incidents and of the entities that hang on them: label, title and URL of each action."""

from __future__ import annotations

from typing import NamedTuple

from django.conf import settings
from django.http import HttpRequest
from django.urls import reverse
from django.utils.http import urlencode

from statecore.dashboard import labels, permissions
from statecore.kernel import registry
from statecore.kernel.flow import Flow
from statecore.read_models import incidents, stuck
from statecore.read_models.incidents.root_cause import OWN
from statecore.records import Incident


class Button(NamedTuple):
    label: str
    title: str
    url: str


def is_group(incident: Incident) -> bool:
    """Whether its entities have no cause in common but their state, so that each needs a separate action."""
    return incident.key.startswith(f"{OWN} ")


def list_actions(request: HttpRequest, incident: Incident) -> list[Button]:
    """The suggested actions that the user may take, the best one first."""
    if incident.resolved_at is not None:
        return []
    found = [] if settings.STATECORE_READ_ONLY else _list_suggested(request, incident)
    return [*found, *_list_links(request, incident)]


def list_offers(request: HttpRequest, item: stuck.Item) -> list[Button]:
    """What may be done about one entity."""
    if settings.STATECORE_READ_ONLY:
        return []
    return [
        _make_button(
            offer.action, offer.entity.flow, offer.entity.pk, offer.entity.state, offer.trigger, offer.to_state
        )
        for offer in stuck.list_offers(item, permissions.get_actor(request))
    ]


def _list_suggested(request: HttpRequest, incident: Incident) -> list[Button]:
    if is_group(incident) and sum(incident.counts.values()) > 1:
        return []
    allowed = incidents.allow_suggestions(incident.actions, request.user.has_perm)
    return [
        _make_button(
            each.action, registry.flow(each.entity_type), each.entity_id, each.state, each.trigger, each.to_state
        )
        for each in allowed
    ]


def _list_links(request: HttpRequest, incident: Incident) -> list[Button]:
    """Where to go if the cause is no single entity."""
    word, _space, rest = incident.key.partition(" ")
    if word == OWN:
        entity_type, _dot, state = rest.partition(".")
        return _link_list(request, registry.flow(entity_type), f"state:{state} overdue:yes", "late")
    if word in ("no_worker", "busy_workers", "no_affinity"):
        return [
            Button("Start a worker", "How to start an agent with these capabilities", reverse("console:start")),
            *_link_list(request, registry.flow("task"), "state:queued", "queued"),
        ]
    if word == "hold" and request.user.has_perm("statecore.view_hold"):
        return [Button("Show the hold", "The hold with its reason and end", reverse("console:holds"))]
    return []


def _link_list(request: HttpRequest, flow: Flow, query: str, word: str) -> list[Button]:
    if not permissions.is_allowed(request.user, flow, "view"):
        return []
    url = f"{reverse('console:machine', args=[flow.collection])}?{urlencode({'q': query})}"
    things = flow.collection.replace("-", " ")
    return [Button(f"Show {word} {things}", f"Select and change {word} {things}", url)]


def _make_button(action: stuck.Action, flow: Flow, pk: str, state: str, trigger: str, to_state: str) -> Button:
    noun, args = labels.noun(flow.entity_type), [flow.collection, pk]
    match action:
        case stuck.Action.RETRY:
            return Button(f"Retry {noun}", f"Retry {noun} {pk}", reverse("console:retry", args=args))
        case stuck.Action.WAIVE:
            return Button(f"Waive {noun}", f"Continue without {noun} {pk}", reverse("console:waive", args=args))
        case stuck.Action.TRANSITION:
            label = labels.action_label(flow, trigger, state)
            return Button(label, f"{label} {pk}", reverse("console:transition", args=[*args, trigger]))
    url = reverse("console:force", args=args)
    if not to_state:
        return Button("Force a state", f"Force a state of {noun} {pk}", url)
    title = f"Force {noun} {pk} to {labels.humanize_state(to_state)}"
    return Button(f"Fail {noun}", title, f"{url}?{urlencode({'to': to_state})}")
