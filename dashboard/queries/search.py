"""The search language: `state:blocked,failed worker:w7 age:>30m actor:agent meta.team:core t1-`.

A word without a colon is the beginning of an id. The qualifiers are derived from the machine's fields.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from functools import partial
from itertools import product
from typing import Any

from django.db import models
from django.db.models import Exists, OuterRef, Q, Value
from django.db.models.fields.json import KeyTransform, KeyTransformExact

from statecore.journal import Anchor, Event, actor_kind_prefix
from statecore.kernel.actors import Channel, Kind
from statecore.kernel.flow import Flow
from statecore.machines.task import Task
from statecore.read_models.stuck import select_without_progress
from statecore.scheduling import deadlines

METADATA = "meta."
MAX_LENGTH = 500  # of a search
KINDS, CHANNELS = [*map(str, Kind)], [*map(str, Channel)]
UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}
AGE = re.compile(r"([<>]?)(\d{1,6})([smhd])")
TIMES = re.compile(r"(\d{1,3}(?:\.\d{1,2})?)x")
YES, NO = {"yes", "true", "1"}, {"no", "false", "0"}
# Searched by other means, or not useful.
NO_QUALIFIERS = {"state", "id", "retry_of", "abandoned", "chain_head"}


@dataclass(slots=True)
class Search:
    """A parsed search; `errors` names the words that were not understood."""

    text: str
    states: list[str] = field(default_factory=list)
    prefixes: list[str] = field(default_factory=list)
    within: dict[str, str] = field(default_factory=dict)
    conditions: list[Q | Exists] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    @property
    def is_empty(self) -> bool:
        return not self.text.strip()

    def event_filter(self) -> dict[str, Any]:
        """The conditions that the browser can check against an event, and whether these are all of them."""
        is_complete = len(self.conditions) == len(self.prefixes) + len(self.within)
        return {"states": self.states, "prefixes": self.prefixes, "within": self.within, "is_complete": is_complete}


Reader = Callable[[str, datetime], Q | Exists]


def parse(text: str, flow: Flow, at: datetime) -> Search:
    search, known = Search(text), list_qualifiers(flow)
    for word in text.split():
        name, colon, value = word.partition(":")
        try:
            if not colon:
                search.prefixes.append(word)
                search.conditions.append(Q(pk__startswith=word))
            elif name == "state":
                search.states += _states(value, flow)
            elif name.startswith(METADATA):
                search.conditions.append(_by_metadata(name.removeprefix(METADATA), value))
            elif name in known:
                search.conditions.append(known[name](value, at))
                if name == "run":  # events of a run's parts carry its id
                    search.within[f"{name}_id"] = value
            else:
                raise ValueError(f"unknown qualifier; use one of {', '.join(['state', *known])}")
        except ValueError as error:
            search.errors.append(f"{word}: {error}")
    return search


def _by_metadata(key: str, value: str) -> Q:
    """`meta.team:core`: no index has the metadata, so a time limit ends the search of a large table.

    A number and a boolean match as such and as text, and a key with dots also as a path.
    """
    if not key or not value:
        raise ValueError("write a key and a value like meta.team:core")
    values: list[Any] = [value]
    with suppress(ValueError, RecursionError):
        values.append(json.loads(value))
    paths = [[key], key.split(".")] if "." in key else [[key]]
    found = Q(pk__in=[])
    for path, each in product(paths, values):
        transform: Any = "metadata"
        for name in path:
            transform = KeyTransform(name, transform)
        found |= Q(KeyTransformExact(transform, Value(each, models.JSONField())))
    return found


def list_qualifiers(flow: Flow) -> dict[str, Reader]:
    found: dict[str, Reader] = {
        "id": _by_ids,
        "age": _age("state_entered_at"),
        "created": _age("created_at"),
        "overdue": partial(_overdue, flow),
        "actor": partial(_by_actor, flow),
        "channel": partial(_by_channel, flow),
    }
    if flow is Task.flow:
        found["stalled"] = _stalled
    for column in flow.model._meta.concrete_fields:
        if column.name not in NO_QUALIFIERS and (reader := _reader(column)):
            found[column.name.removeprefix("is_")] = reader
    return found


def list_hints(flow: Flow) -> list[dict[str, Any]]:
    """Completions of the search field: each qualifier, with its values where they are few."""
    fixed: dict[str, list[str]] = {"state": [*flow.states], "age": [">10m", ">1h", ">1d", "<5m"], "created": ["<1h"]}
    fixed |= {"overdue": ["yes", "2x"], "stalled": ["yes"]}
    fixed |= {"actor": KINDS, "channel": CHANNELS}
    booleans = {name for name in list_qualifiers(flow) if _is_boolean(flow, name)}
    names = ["state", *list_qualifiers(flow)]
    return [{"name": name, "values": ["yes", "no"] if name in booleans else fixed.get(name, [])} for name in names]


def replace_word(text: str, word: str) -> str:
    """The search with this word in place of others with the same qualifier."""
    name = word.partition(":")[0]
    others = [each for each in text.split() if not each.startswith(f"{name}:")]
    return " ".join([*others, word])


def _states(value: str, flow: Flow) -> Iterable[str]:
    by_name = {state.lower(): state for state in flow.states}
    for word in value.split(","):
        if word.lower() not in by_name:
            raise ValueError(f"unknown state {word}; use one of {', '.join(flow.states)}")
        yield by_name[word.lower()]


def _reader(column: Any) -> Reader | None:
    if isinstance(column, models.BooleanField):
        return partial(_boolean, column.name)
    if column.is_relation or (isinstance(column, models.CharField) and not column.primary_key):
        return partial(_equals, column.attname)
    return None


def _is_boolean(flow: Flow, name: str) -> bool:
    columns = {column.name.removeprefix("is_"): column for column in flow.model._meta.concrete_fields}
    return isinstance(columns.get(name), models.BooleanField)


def _boolean(name: str, value: str, at: datetime) -> Q:
    if value.lower() not in YES | NO:
        raise ValueError("use yes or no")
    return Q(**{name: value.lower() in YES})


def _equals(name: str, value: str, at: datetime) -> Q:
    if not value:
        raise ValueError("add a value after the colon")
    return Q(**{name: value})


def _age(column: str) -> Reader:
    def condition(value: str, at: datetime) -> Q:
        parts = AGE.fullmatch(value)
        if parts is None:
            raise ValueError("write an age like >30m, <2h or >1d")
        sign, number, unit = parts.groups()
        try:
            then = at - timedelta(seconds=int(number) * UNITS[unit])
        except OverflowError:
            raise ValueError("the age is too large") from None
        return Q(**{f"{column}__gt" if sign == "<" else f"{column}__lt": then})

    return condition


def _by_ids(value: str, at: datetime) -> Q:
    """Whole ids: `id:t1,t2`. A word without a colon is the beginning of one."""
    return Q(pk__in=value.split(","))


def _overdue(flow: Flow, value: str, at: datetime) -> Q:
    """Past the deadline of its state, or past a multiple of it: `overdue:yes`, `overdue:2x`."""
    times = TIMES.fullmatch(value)
    if times is None and value.lower() not in YES:
        raise ValueError("use yes, or a multiple of the deadline like 2x")
    factor, found = float(times[1]) if times else 1.0, Q(pk__in=[])
    for state in flow.states:
        if flow.deadline(state) is not None and not flow.is_final(state):
            try:
                rows = deadlines.select_stuck(flow, state, at, factor)
            except OverflowError:
                raise ValueError("the multiple is too large") from None
            found |= Q(pk__in=rows.order_by().values("pk"))
    return found


def _stalled(value: str, at: datetime) -> Q:
    """Tasks whose agents are alive, without progress for longer than its limit."""
    if value.lower() not in YES:
        raise ValueError("use yes")
    return Q(pk__in=select_without_progress(at).order_by().values("pk"))


def _by_actor(flow: Flow, value: str, at: datetime) -> Q:
    """By the actor of the last event: a name, or a kind (agent, operator, system)."""
    named, kind = Q(actor=value), value in KINDS
    stored = _last_events(flow, Event).filter(named | Q(body__contains=actor_kind_prefix(value)) if kind else named)
    archived = _last_events(flow, Anchor).filter(named | Q(actor_kind=value) if kind else named)
    return Q(Exists(stored)) | Q(Exists(archived))


def _by_channel(flow: Flow, value: str, at: datetime) -> Q:
    if value not in CHANNELS:
        raise ValueError(f"unknown channel; use one of {', '.join(CHANNELS)}")
    stored, archived = (_last_events(flow, journal).filter(channel=value) for journal in (Event, Anchor))
    return Q(Exists(stored)) | Q(Exists(archived))


def _last_events(flow: Flow, journal: Any) -> Any:
    """The entity's last event, in the journal or among the anchors of archived events."""
    return journal.objects.filter(entity_type=flow.entity_type, entity_id=OuterRef("pk"), sequence=OuterRef("version"))
