"""The words of the search field: `state:blocked,failed worker:w7 age:>30m actor:agent t1-`.

A word without a colon is the beginning of an id. Which qualifiers there are is read off the machine's fields.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q

from statecore.journal import Event, told_kind
from statecore.kernel.actors import Channel, Kind
from statecore.kernel.flow import Flow
from statecore.records import Anchor

KINDS, CHANNELS = [*map(str, Kind)], [*map(str, Channel)]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
AGE = re.compile(r"([<>]?)(\d{1,6})([smhd])")
YES, NO = {"yes", "true", "1"}, {"no", "false", "0"}
# Shown otherwise, or not worth a search.
NO_QUALIFIERS = {"state", "id", "retry_of", "abandoned", "chain_head"}


@dataclass(slots=True)
class Search:
    """What was asked, as conditions; `complaints` say which words were not understood."""

    text: str
    states: list[str] = field(default_factory=list)
    beginnings: list[str] = field(default_factory=list)
    within: dict[str, str] = field(default_factory=dict)
    conditions: list[Q | Exists] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    def told_by_events(self) -> dict[str, Any]:
        """What a browser can compare with an event, and whether that is all that was asked."""
        is_told = len(self.conditions) == len(self.beginnings) + len(self.within)
        return {"states": self.states, "beginnings": self.beginnings, "within": self.within, "is_told": is_told}


Reader = Callable[[str, datetime], Q | Exists]


def read(text: str, flow: Flow, at: datetime) -> Search:
    search, known = Search(text), qualifiers(flow)
    for word in text.split():
        name, colon, value = word.partition(":")
        try:
            if not colon:
                search.beginnings.append(word)
                search.conditions.append(Q(pk__startswith=word))
            elif name == "state":
                search.states += _states(value, flow)
            elif name in known:
                search.conditions.append(known[name](value, at))
                if name == "run":  # every event of a run's parts names the run
                    search.within[f"{name}_id"] = value
            else:
                raise ValueError(f"there is no qualifier {name}: try {', '.join(['state', *known])}")
        except ValueError as complaint:
            search.complaints.append(f"{word}: {complaint}")
    return search


def qualifiers(flow: Flow) -> dict[str, Reader]:
    found: dict[str, Reader] = {
        "age": _age("state_entered_at"),
        "created": _age("created_at"),
        "actor": partial(_by_actor, flow),
        "channel": partial(_by_channel, flow),
    }
    for column in flow.model._meta.concrete_fields:
        if column.name not in NO_QUALIFIERS and (reader := _reader(column)):
            found[column.name.removeprefix("is_")] = reader
    return found


def hints(flow: Flow) -> list[dict[str, Any]]:
    """What the search field completes: each qualifier and the values it may have, where they are few."""
    fixed: dict[str, list[str]] = {"state": [*flow.states], "age": [">10m", ">1h", ">1d", "<5m"], "created": ["<1h"]}
    fixed |= {"actor": KINDS, "channel": CHANNELS}
    booleans = {name for name in qualifiers(flow) if _is_boolean(flow, name)}
    names = ["state", *qualifiers(flow)]
    return [{"name": name, "values": ["yes", "no"] if name in booleans else fixed.get(name, [])} for name in names]


def with_word(text: str, word: str) -> str:
    """The same search with this qualifier instead of the one it had."""
    name = word.partition(":")[0]
    others = [each for each in text.split() if not each.startswith(f"{name}:")]
    return " ".join([*others, word])


def _states(value: str, flow: Flow) -> Iterable[str]:
    by_name = {state.lower(): state for state in flow.states}
    for word in value.split(","):
        if word.lower() not in by_name:
            raise ValueError(f"there is no state {word}: {', '.join(flow.states)}")
        yield by_name[word.lower()]


def _reader(column: Any) -> Reader | None:
    if isinstance(column, models.BooleanField):
        return partial(_boolean, column.name)
    if column.is_relation or (isinstance(column, models.CharField) and not column.primary_key):
        return partial(_exactly, column.attname)
    return None


def _is_boolean(flow: Flow, name: str) -> bool:
    columns = {column.name.removeprefix("is_"): column for column in flow.model._meta.concrete_fields}
    return isinstance(columns.get(name), models.BooleanField)


def _boolean(name: str, value: str, at: datetime) -> Q:
    if value.lower() not in YES | NO:
        raise ValueError("is yes or no")
    return Q(**{name: value.lower() in YES})


def _exactly(name: str, value: str, at: datetime) -> Q:
    if not value:
        raise ValueError("a value is missing")
    return Q(**{name: value})


def _age(column: str) -> Reader:
    def condition(value: str, at: datetime) -> Q:
        parts = AGE.fullmatch(value)
        if parts is None:
            raise ValueError("must read like >30m, <2h or >1d")
        sign, number, unit = parts.groups()
        try:
            then = at - timedelta(seconds=int(number) * UNITS[unit])
        except OverflowError:
            raise ValueError("is longer ago than there are dates") from None
        return Q(**{f"{column}__gt" if sign == "<" else f"{column}__lt": then})

    return condition


def _by_actor(flow: Flow, value: str, at: datetime) -> Q:
    """Whose move was the last one: by name, or any agent's, operator's or the system's."""
    named, kind = Q(actor=value), value in KINDS
    here = _last_moves(flow, Event).filter(named | Q(body__contains=told_kind(value)) if kind else named)
    retired = _last_moves(flow, Anchor).filter(named | Q(actor_kind=value) if kind else named)
    return Q(Exists(here)) | Q(Exists(retired))


def _by_channel(flow: Flow, value: str, at: datetime) -> Q:
    if value not in CHANNELS:
        raise ValueError(f"is one of {', '.join(CHANNELS)}")
    here, retired = (_last_moves(flow, journal).filter(channel=value) for journal in (Event, Anchor))
    return Q(Exists(here)) | Q(Exists(retired))


def _last_moves(flow: Flow, journal: Any) -> Any:
    """In the journal, or among what is left of it where it was retired."""
    return journal.objects.filter(entity_type=flow.entity_type, entity_id=OuterRef("pk"), sequence=OuterRef("version"))
