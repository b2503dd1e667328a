"""The words templates are written in: a chip for a state, a time, an icon, a link to an entity."""

from __future__ import annotations

from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from dashboard.models import Preference
from dashboard.modules import needed_by
from statecore.derive.tones import looks
from statecore.kernel import registry
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.entity import Entity
from statecore.kernel.flow import Flow
from statecore.stuck import words

register = template.Library()


@register.simple_tag
def look(shell: Any = None) -> SafeString:
    """The person's choices, on the page's root: there is no moment in which it looks otherwise."""
    preference = shell.preference if shell else Preference()
    chosen = ((name, value) for name, value in preference.choices().items() if value != "system")
    return format_html_join("", ' data-{}="{}"', chosen)


@register.simple_tag
def module(script: str) -> SafeString:
    """A script, and all it imports asked for at once: over a slow line each step on the way to the last would count."""
    needed = format_html_join("", '<link rel="modulepreload" href="{}">', ((static(n),) for n in needed_by(script)))
    return format_html('{}<script type="module" src="{}"></script>', needed, static(script))


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', sprite(), name)


@cache
def sprite() -> str:
    """Asked for by every icon of a page, and the same as long as the process lives."""
    return static("dashboard/icons.svg")


@register.simple_tag
def chip(entity_type: str, state: str, kind: str = "") -> SafeString:
    """Word, shape and colour of a state."""
    seen = looks(entity_type).get(state)
    if seen is None:
        return format_html('<span class="chip ended">{}</span>', state or "nothing")
    return format_html('<span class="chip {} {}">{}{}</span>', seen.tone, kind, icon(seen.tone), seen.word)


@register.simple_tag
def forced_mark() -> SafeString:
    title = "An operator forced this entity's state at least once"
    return format_html('<span class="mark-forced" title="{}">{}forced</span>', title, icon("forced"))


@register.simple_tag
def entity_url(entity_type: str, entity_id: str) -> str:
    return reverse("console:entity", args=[registry.flow(entity_type).collection, entity_id])


@register.simple_tag
def entity_link(entity_type: str, entity_id: str) -> SafeString:
    return format_html('<a class="id" href="{}">{}</a>', entity_url(entity_type, entity_id), entity_id)


@register.filter
def address(entity: Entity) -> str:
    return entity_url(entity.flow.entity_type, entity.pk)


@register.simple_tag
def machine_url(entity_type: str, query: str = "") -> str:
    url = reverse("console:machine", args=[registry.flow(entity_type).collection])
    return f"{url}?{urlencode({'q': query})}" if query else url


@register.simple_tag
def nav(page: str, title: str, symbol: str) -> SafeString:
    return format_html(
        '<a href="{}" data-nav="{}">{}{}<span class="tally" data-tally="{}"></span></a>',
        reverse(f"console:{page}"), page, icon(symbol), title, page,
    )  # fmt: skip


@register.simple_tag
def moment() -> str:
    return rfc3339(now())


@register.simple_tag
def ago(at: datetime | str | None) -> SafeString:
    """How long ago, with the exact time on hover; a module keeps it true and in the viewer's zone."""
    if not at:
        return mark_safe('<span class="muted">never</span>')
    then = datetime.fromisoformat(at) if isinstance(at, str) else at
    exact = rfc3339(then)
    return format_html(
        '<time class="num" datetime="{}" title="{}" data-format="ago">{}</time>', exact, exact, spoken(now() - then)
    )


@register.simple_tag
def lasting(at: datetime) -> SafeString:
    """For how long already; kept true like the other times."""
    exact = rfc3339(at)
    return format_html(
        '<time class="num" datetime="{}" title="{}" data-format="length">{}</time>',
        exact,
        exact,
        words.length(now() - at),
    )


def spoken(since: timedelta) -> str:
    """`3 min ago`, or `in 3 min` of what is still to come."""
    if since < timedelta():
        return f"in {words.length(-since)}"
    return f"{words.length(since)} ago"


@register.filter
def duration(given: timedelta | float | None) -> str:
    if given is None:
        return ""
    return words.length(given if isinstance(given, timedelta) else timedelta(seconds=given))


@register.simple_tag
def segments(title: str, name: str, preference: Preference) -> SafeString:
    """One choice of several, each a button that saves at once."""
    field: Any = Preference._meta.get_field(name)
    current = getattr(preference, name)
    buttons = format_html_join(
        "",
        '<button type="submit" name="{}" value="{}" aria-pressed="{}">{}</button>',
        ((name, value, "true" if value == current else "false", label) for value, label in field.choices),
    )
    group = format_html('<div class="segments" role="group" aria-label="{}">{}</div>', title, buttons)
    return format_html('<div class="field"><span class="label">{}</span>{}</div>', title, group)


@register.simple_tag
def copy_button(text: str, what: str = "") -> SafeString:
    return format_html(
        '<button type="button" class="copy" data-copy="{}" aria-label="Copy {}">{}</button>',
        text, what or text, icon("copy"),
    )  # fmt: skip


@register.filter
def tone(event: dict[str, Any]) -> str:
    """Of the state an event led to."""
    seen = looks(event["entity_type"]).get(event["to_state"])
    return seen.tone.value if seen else "ended"


@register.filter
def spoken_trigger(trigger: str) -> str:
    """`user_cancelled` as a person would say it."""
    return trigger.replace("_", " ").capitalize()


@register.filter
def noun(entity_type: str) -> str:
    """`gate`, `agent job`: one entity of a machine, as its pages call it."""
    return registry.flow(entity_type).event_noun.replace("_", " ").replace("uet", "UET")


@register.simple_tag
def counted(count: int, flow: Flow) -> str:
    """`1 patch`, `2 patches`: the plural is what the machine's page is called."""
    return f"1 {noun(flow.entity_type)}" if count == 1 else f"{count} {flow.collection.replace('-', ' ')}"


@register.filter
def spoken_state(state: str) -> str:
    return state.lower().replace("_", " ")
