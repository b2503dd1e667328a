"""Template tags and filters: state chips, times, icons, labels, links to entities."""

from __future__ import annotations

import re
from datetime import datetime, timedelta
from functools import cache
from typing import Any
from urllib.parse import urlencode

import orjson
from django import template
from django.templatetags.static import static
from django.urls import reverse
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe

from statecore.dashboard import labels
from statecore.dashboard.assets import find_imports
from statecore.dashboard.models import Preference
from statecore.kernel import phrasing, registry
from statecore.kernel.clock import now, rfc3339
from statecore.kernel.entity import Entity
from statecore.read_models.diagrams.tones import state_styles

register = template.Library()


@register.simple_tag
def appearance(frame: Any = None) -> SafeString:
    """The user's preferences as attributes of the root element, so that the page never flashes in another theme."""
    preference = frame.preference if frame else Preference()
    chosen = ((name, value) for name, value in preference.choices().items() if value != "system")
    return format_html_join("", ' data-{}="{}"', chosen)


@register.simple_tag
def module(script: str) -> SafeString:
    """A module script with preload links for everything it imports."""
    preloads = format_html_join(
        "", '<link rel="modulepreload" href="{}">', ((static(n),) for n in find_imports(script))
    )
    return format_html('{}<script type="module" src="{}"></script>', preloads, static(script))


@register.simple_tag
def icon(name: str) -> SafeString:
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', sprite(), name)


@cache
def sprite() -> str:
    """Cached: every icon of a page uses it."""
    return static("dashboard/icons.svg")


@register.simple_tag
def field_error(refusal: Any, name: str) -> SafeString:
    """What is wrong with a field of a form or with a part of its JSON; empty if nothing is."""
    errors: dict[str, list[str]] = refusal.facts.get("errors", {}) if refusal else {}
    found = [
        (field.removeprefix(name).lstrip("."), " ".join(sentences))
        for field, sentences in errors.items()
        if re.match(rf"{re.escape(name)}(?![a-z0-9_])", field)
    ]
    return format_html_join("", '<span class="hint tone-failed" role="alert">{} {}</span>', found)


@register.simple_tag
def chip(entity_type: str, state: str, kind: str = "") -> SafeString:
    """A state as word, shape and colour."""
    style = state_styles(entity_type).get(state)
    if style is None:
        return format_html('<span class="chip ended">{}</span>', state or "none")
    return format_html('<span class="chip {} {}">{}{}</span>', style.tone, kind, icon(style.tone), style.word)


@register.simple_tag
def forced_mark() -> SafeString:
    title = "An operator has forced this entity's state at least once"
    return format_html('<span class="mark-forced" title="{}">{}forced</span>', title, icon("forced"))


@register.simple_tag
def unverified_mark() -> SafeString:
    title = "The stored data of this entity does not verify: it was changed in another way than by a transition"
    return format_html('<span class="mark-unverified" title="{}">{}does not verify</span>', title, icon("failed"))


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
def nav(page: str, title: str, symbol: str, count: int = 0) -> SafeString:
    """A link of the navigation with a count; a script updates the counts that the board has."""
    return format_html(
        '<a href="{}" data-nav="{}">{}{}<span class="tally{}" data-tally="{}">{}</span></a>',
        reverse(f"console:{page}"), page, icon(symbol), title, " loud" if count else "", page, count or "",
    )  # fmt: skip


@register.simple_tag
def timestamp() -> str:
    return rfc3339(now())


@register.simple_tag
def ago(at: datetime | str | None) -> SafeString:
    """A relative time with the exact one on hover; a script keeps it current and in the viewer's time zone."""
    if not at:
        return mark_safe('<span class="muted">never</span>')
    then = datetime.fromisoformat(at) if isinstance(at, str) else at
    exact = rfc3339(then)
    return format_html(
        '<time class="num" datetime="{}" title="{}" data-format="ago">{}</time>', exact, exact, format_ago(now() - then)
    )


@register.simple_tag
def local_time(at: datetime) -> SafeString:
    """A moment to the minute; a script shows it in the viewer's time zone."""
    exact, shown = rfc3339(at), f"{at:%Y-%m-%d %H:%M} UTC"
    return format_html('<time class="num" datetime="{}" title="{}" data-format="local">{}</time>', exact, exact, shown)


@register.simple_tag
def elapsed(at: datetime) -> SafeString:
    """The time since a moment, kept current by a script."""
    exact = rfc3339(at)
    return format_html(
        '<time class="num" datetime="{}" title="{}" data-format="length">{}</time>',
        exact,
        exact,
        phrasing.format_duration(now() - at),
    )


@register.simple_tag
def countdown(until: datetime | str | None) -> SafeString:
    """The time left until a moment, kept current by a script to the second."""
    if not until:
        return mark_safe('<span class="muted">until released</span>')
    end = datetime.fromisoformat(until) if isinstance(until, str) else until
    left, exact = max(end - now(), timedelta()), rfc3339(end)
    return format_html(
        '<time class="num" datetime="{}" title="{}" data-format="countdown">{} left</time>',
        exact,
        exact,
        phrasing.format_duration(left),
    )


def format_ago(since: timedelta) -> str:
    """`3 min ago`, or `in 3 min` for a time in the future."""
    if since < timedelta():
        return f"in {phrasing.format_duration(-since)}"
    return f"{phrasing.format_duration(since)} ago"


@register.filter
def duration(given: timedelta | float | None) -> str:
    if given is None:
        return ""
    return phrasing.format_duration(given if isinstance(given, timedelta) else timedelta(seconds=given))


@register.simple_tag
def segments(title: str, name: str, preference: Preference) -> SafeString:
    """A segmented control; each button submits its choice."""
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
    """The tone of the state an event led to."""
    style = state_styles(event["entity_type"]).get(event["to_state"])
    return style.tone.value if style else "ended"


@register.filter
def code_spans(text: str) -> SafeString:
    """Text with each `name` in backticks as a code element."""
    parts = text.split("`")
    if len(parts) % 2 == 0:
        return format_html("{}", text)
    return format_html_join(
        "", "{}", ((format_html("<code>{}</code>", part) if odd % 2 else part,) for odd, part in enumerate(parts))
    )


@register.filter
def without_which(detail: str) -> str:
    """`failed 3 min ago` for `which failed 3 min ago`, where the entity is the subject already."""
    return detail.removeprefix("which ")


@register.filter
def as_json(value: Any) -> str:
    """For an attribute, which the template escapes."""
    return orjson.dumps(value).decode()


@register.filter
def fact(value: Any) -> str:
    """A recorded value as text."""
    if isinstance(value, list):
        return ", ".join(map(fact, value))
    return {None: "none", True: "yes", False: "no"}[value] if value is None or isinstance(value, bool) else str(value)


register.filter(labels.channel_label)
register.filter(labels.guard_label)
register.filter(labels.noun)
register.filter(labels.humanize)
register.filter(labels.humanize_state)
register.simple_tag(labels.count_noun)


@register.simple_tag
def count_entities(count: int, entity_type: str) -> str:
    return labels.count_noun(count, registry.flow(entity_type))


register.simple_tag(labels.action_label)
