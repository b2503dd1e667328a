"""The command bar: entities, actions, searches, pages, actors and saved views that fit the typed words.

Everything it lists is what the account may see and do; the pages that it leads to check again.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple
from urllib.parse import urlencode

from django.contrib.auth.models import User
from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import reverse
from django.views.decorators.http import require_safe

from statecore.dashboard import labels, navigation, permissions, rendering
from statecore.dashboard.models import SavedView
from statecore.dashboard.queries import entities, lookup, search
from statecore.dashboard.queries.time_limit import TimedOut, time_limit
from statecore.dashboard.templatetags.console import entity_url, machine_url
from statecore.journal import Event
from statecore.kernel.actors import Kind
from statecore.kernel.clock import now
from statecore.kernel.flow import Flow
from statecore.machines.run import Run
from statecore.machines.workstream import Workstream
from statecore.records import Token

from .query_params import get_text

MOST, MOST_OF_MACHINE = 8, 4
METADATA_SECONDS = 1.0
EVENT = "evt_"


class Option(NamedTuple):
    """One line: a link with its text, what it is, and the state of an entity."""

    title: str
    url: str
    kind: str = ""
    entity_type: str = ""
    state: str = ""


class Group(NamedTuple):
    title: str
    options: list[Option]
    note: str = ""


@require_safe
def command(request: HttpRequest) -> HttpResponse:
    """The options as a list for the combobox; without a script, as a page with links."""
    text = get_text(request, "q")
    groups = [group for group in _find_groups(request, text) if group.options or group.note]
    context = {"groups": groups, "q": text, "count": sum(len(group.options) for group in groups)}
    template = "dashboard/parts/command.html" if rendering.is_fragment(request) else "dashboard/command.html"
    return rendering.render(request, template, context)


def _find_groups(request: HttpRequest, text: str) -> Iterator[Group]:
    words = text.split()
    visible = sorted(permissions.visible_machines(request.user), key=navigation.menu_order)
    flows = {flow.entity_type: flow for flow in visible}
    exact = lookup.find_by_ids(visible, words)
    rest = [word for word in words if word not in {found.entity_id for found in exact}]
    actions = [option for found in exact[:2] for option in _list_actions(request, flows[found.entity_type], found)]
    groups = [_list_entities(visible, words, exact), Group("Actions", _keep(actions, rest)[:MOST])]
    yield from reversed(groups) if rest else groups
    yield from _list_searches(request, visible, words)
    yield Group("Pages", _keep(_list_pages(request), words)[:MOST])
    if words:
        yield Group("Saved views", _list_views(request, visible, text))
        yield Group("Actors", _list_actors(request, words))
        yield Group("Events", _list_events(request, flows, words))


def _keep(options: list[Option], words: list[str]) -> list[Option]:
    """Those whose text contains every word."""
    return [each for each in options if all(word.lower() in f"{each.title} {each.kind}".lower() for word in words)]


def _show(found: lookup.Found) -> Option:
    url = entity_url(found.entity_type, found.entity_id)
    return Option(found.entity_id, url, labels.noun(found.entity_type), found.entity_type, found.state)


def _list_entities(visible: list[Flow], words: list[str], exact: list[lookup.Found]) -> Group:
    options = [_show(found) for found in exact]
    started = lookup.find_by_prefix(visible, words[0], MOST_OF_MACHINE) if len(words) == 1 else []
    note = "Too many ids to search for their beginnings: type the whole id." if started is None else ""
    options += [_show(found) for found in started or [] if found not in exact]
    return Group("Entities", options[: 2 * MOST], note)


def _list_actions(request: HttpRequest, flow: Flow, found: lookup.Found) -> list[Option]:
    """What the account may do with an entity in its state; guards are evaluated by the page that it leads to."""
    pk, noun, args = found.entity_id, labels.noun(flow.entity_type), [flow.collection, found.entity_id]
    options: list[Option] = []
    if permissions.is_allowed(request.user, flow, "operate"):
        declared = [each for each in flow.transitions if Kind.OPERATOR in each.actors and found.state in each.sources]
        for trigger in dict.fromkeys(each.trigger for each in declared):
            label = labels.action_label(flow, trigger, found.state)
            options.append(Option(f"{label} {pk}", reverse("console:transition", args=[*args, trigger])))
        if flow.is_final(found.state):
            options.append(Option(f"Retry {noun} {pk}", reverse("console:retry", args=args)))
    if flow.may_be_waived() and found.state not in flow.done and permissions.is_allowed(request.user, flow, "waive"):
        options.append(Option(f"Waive {noun} {pk}", reverse("console:waive", args=args)))
    may_leave = any(flow.may_force(found.state, state) for state in flow.states if state != found.state)
    if may_leave and permissions.is_allowed(request.user, flow, "override"):
        options.append(Option(f"Force a state of {noun} {pk}", reverse("console:force", args=args)))
    if flow is Run.flow:
        if found.state in flow.live and permissions.is_allowed(request.user, Workstream.flow, "operate"):
            options.append(Option(f"Pause run {pk}", reverse("console:pause_run", args=[pk])))
            options.append(Option(f"Resume run {pk}", reverse("console:resume_run", args=[pk])))
        options.append(Option(f"Graph and replay of {pk}", reverse("console:run", args=[pk])))
        options.append(Option(f"Tasks of {pk}", machine_url("task", f"run:{pk}")))
    return options


def _list_searches(request: HttpRequest, visible: list[Flow], words: list[str]) -> Iterator[Group]:
    """Searches of the machines that know all qualifiers, the current machine first; `tasks state:failed` names one."""
    named = [flow for flow in visible if words and words[0].lower() in (flow.collection, flow.entity_type)]
    text, here = " ".join(words[1:] if named else words), get_text(request, "here")
    if not any(":" in word for word in text.split()) and not (named and text):
        return
    parsed = {flow.entity_type: search.parse(text, flow, now()) for flow in named or visible}
    fitting = [flow for flow in named or visible if not parsed[flow.entity_type].errors]
    fitting.sort(key=lambda flow: flow.entity_type != here)
    if search.METADATA in text:
        yield _find_matches(fitting, parsed)
    options = [Option(f"Search {navigation.machine_name(flow).lower()}: {text}", machine_url(flow.entity_type, text))
               for flow in fitting[:MOST]]  # fmt: skip
    yield Group("Searches", options)


def _find_matches(flows: list[Flow], parsed: dict[str, search.Search]) -> Group:
    found: list[Option] = []
    try:
        with time_limit(METADATA_SECONDS):
            for flow in flows:
                rows = entities.filter_rows(flow, parsed[flow.entity_type]).order_by("-pk")
                matches = rows.values_list("pk", "state")[:MOST_OF_MACHINE]
                found += [_show(lookup.Found(flow.entity_type, pk, state)) for pk, state in matches]
    except TimedOut:
        return Group("Matches", found, "Metadata is not indexed and the search took too long: add state: or run:.")
    return Group("Matches", found)


def _list_pages(request: HttpRequest) -> list[Option]:
    pages = [
        Option(page.title, reverse(f"console:{page.name}"), "page") for page in navigation.list_pages(request.user)
    ]
    machines = permissions.visible_machines(request.user)
    return [
        *pages,
        *(Option(navigation.machine_name(each), machine_url(each.entity_type), "page") for each in machines),
    ]


def _list_views(request: HttpRequest, visible: list[Flow], text: str) -> list[Option]:
    accessible = Q(owner=permissions.get_user(request)) | Q(is_shared=True)
    types = [flow.entity_type for flow in visible]
    found = SavedView.objects.filter(accessible, entity_type__in=types, name__icontains=text).order_by("name")[:MOST]
    return [Option(view.name, machine_url(view.entity_type, view.query), "saved view") for view in found]


def _list_actors(request: HttpRequest, words: list[str]) -> list[Option]:
    """Accounts and tokens by the beginning of their names, for those who may read the journal."""
    if len(words) != 1 or not request.user.has_perm("statecore.view_event"):
        return []
    names = User.objects.filter(username__istartswith=words[0]).order_by("username").values_list("username", flat=True)
    tokens = Token.objects.filter(name__istartswith=words[0]).order_by("name").values_list("name", flat=True)
    found = dict.fromkeys([*names[:MOST_OF_MACHINE], *tokens.distinct()[:MOST_OF_MACHINE]])
    audit = reverse("console:audit")
    return [Option(name, f"{audit}?{urlencode({'actor': name})}", "events by this actor") for name in found]


def _list_events(request: HttpRequest, flows: dict[str, Any], words: list[str]) -> list[Option]:
    """A whole id of an event leads to its receipt."""
    wanted = [word for word in words if word.startswith(EVENT)][:MOST]
    if not wanted or not request.user.has_perm("statecore.view_event"):
        return []
    found = Event.objects.filter(pk__in=wanted, entity_type__in=list(flows))
    return [Option(each.pk, reverse("console:receipt", args=[each.pk]), "receipt") for each in found]
