"""A random walk: any actor makes any call, the clock moves both ways, and every step is checked."""

from __future__ import annotations

import math
from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any

import time_machine
from django.db import IntegrityError, transaction
from hypothesis import event as noted
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from statecore import transitions
from statecore.journal import Event, IdempotencyRecord
from statecore.kernel.flow import Flow
from statecore.kernel.refusals import Refusal
from statecore.kernel.transition import Transition
from statecore.operations import integrity
from statecore.transitions import Outcome, RequestKey
from tests.machines import worlds
from tests.properties import values
from tests.properties.support import rolled_back
from tests.races.records import assert_consistent, events
from tests.support import world

START = datetime(2026, 1, 5, 8, tzinfo=UTC)
ANY = st.data()
SHIFTS = st.sampled_from([-3600, -1, 0.000001, 1, 59.5, 121, 301, 4000])


class Walk(RuleBasedStateMachine):
    """`cast` are the entities the walk moves; successors join it."""

    def __init__(self, cast: Callable[[], list[Any]]) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(rolled_back())
        self.clock = self.stack.enter_context(time_machine.travel(START, tick=False))
        self.cast = cast()
        self.last = self.cast[0]
        self.checked = ("", 0)
        self.requests = 0

    # Steps

    @rule(data=ANY, actor=values.ACTORS)
    def fire_an_open_trigger_with_what_it_needs(self, data: Any, actor: Any) -> None:
        entity = self._draw(data)
        moves = [move for move in entity.flow.transitions if entity.state in move.sources]
        if not moves:
            return
        move = data.draw(st.sampled_from(moves))
        given = data.draw(values.fitting(move.params))
        if data.draw(st.integers(0, 3)):
            given |= self._prepared(move, entity)
            actor = world.actor_of_kind(data.draw(st.sampled_from(sorted(move.actors))))
        self._call(entity, lambda **more: transitions.transition(
            type(entity), entity.pk, move.trigger, actor=actor, params=given, **more))  # fmt: skip

    @rule(data=ANY, actor=values.ACTORS, reason=values.REASONS, metadata=values.METADATA)
    def fire_any_trigger_with_anything(self, data: Any, actor: Any, reason: str, metadata: Any) -> None:
        entity = self._draw(data)
        trigger = data.draw(st.sampled_from([*entity.flow.triggers, "no_such_trigger", "created", ""]))
        given = {
            "actor": actor, "params": data.draw(values.fields_of(entity.flow, trigger)), "reason": reason,
            "metadata": metadata, "expected_version": data.draw(st.sampled_from([None, entity.version, 0])),
        }  # fmt: skip
        self._call(entity, lambda **more: transitions.transition(type(entity), entity.pk, trigger, **given, **more))

    @rule(data=ANY, actor=values.ACTORS, reason=values.REASONS, category=values.CATEGORIES)
    def force_any_state(self, data: Any, actor: Any, reason: str, category: str) -> None:
        entity = self._draw(data)
        state = data.draw(st.sampled_from([*entity.flow.states, "no_such_state"]))
        if data.draw(st.booleans()):
            actor, reason, category = world.operator(), world.REASON, "other"
        self._call(entity, lambda **more: transitions.override(
            type(entity), entity.pk, state, actor=actor, reason=reason, category=category, **more),
            preview=True)  # fmt: skip

    @rule(data=ANY, actor=values.ACTORS, reason=values.REASONS)
    def retry(self, data: Any, actor: Any, reason: str) -> None:
        entity = self._draw(data)
        outcome = self._call(entity, lambda **more: transitions.retry(
            type(entity), entity.pk, actor=actor, reason=reason, **more))  # fmt: skip
        if outcome is not None:
            self.cast.append(outcome.entity)

    @rule(data=ANY, actor=values.ACTORS)
    def fire_for_all_of_a_kind_at_once(self, data: Any, actor: Any) -> None:
        entity = self._draw(data)
        trigger = data.draw(st.sampled_from(entity.flow.triggers))
        given = data.draw(values.fields_of(entity.flow, trigger))
        ids = [each.pk for each in self.cast if type(each) is type(entity)] + ["nobody"]
        before = Event.objects.count()
        items = transitions.transition_many(type(entity), ids, trigger, actor=actor, params=given)
        assert [item.entity_id for item in items] == ids
        made = [item for item in items if item.outcome and item.outcome.changed]
        assert Event.objects.count() >= before + len(made)
        noted(f"batch: {len(made)} made")

    @rule(data=ANY, actor=values.ACTORS)
    def send_a_request_twice(self, data: Any, actor: Any) -> None:
        entity = self._draw(data)
        trigger = data.draw(st.sampled_from(entity.flow.triggers))
        self.requests += 1
        given = {
            "actor": actor, "params": data.draw(values.fields_of(entity.flow, trigger)),
            "metadata": data.draw(values.METADATA),
            "request": RequestKey(f"key-{self.requests}", "here", "hash"),
        }  # fmt: skip
        first = self._call(entity, lambda: transitions.transition(type(entity), entity.pk, trigger, **given))
        if first is None:
            return
        before = self._trace(entity)
        again = transitions.transition(type(entity), entity.pk, trigger, **given)
        assert again.replayed
        assert again.as_dict() == first.as_dict()
        assert self._trace(entity) == before

    @rule(seconds=SHIFTS)
    def let_time_pass(self, seconds: float) -> None:
        """Also backwards, as when a clock is corrected."""
        self.clock.shift(timedelta(seconds=seconds))

    def _prepared(self, move: Transition, entity: Any) -> dict[str, Any]:
        """Makes the guards hold, as far as constraints and rows allow."""
        try:
            with transaction.atomic():
                return worlds.prepared(worlds.PREPARE, move, entity, self.clock)
        except (Refusal, IntegrityError):
            return {}

    # Checks

    def _draw(self, data: Any) -> Any:
        chosen = data.draw(st.sampled_from(range(len(self.cast))))
        self.last = self._now(self.cast[chosen])
        return self.last

    def _now(self, entity: Any) -> Any:
        return type(entity).objects.get(pk=entity.pk)

    def _trace(self, entity: Any) -> tuple[Any, ...]:
        return *world.trace(entity), IdempotencyRecord.objects.count()

    def _call(self, entity: Any, ask: Callable[..., Outcome], *, preview: bool = False) -> Outcome | None:
        """Makes a call: a refusal, a dry run and a repeat leave no trace, a transition exactly what it returns."""
        before = self._trace(entity)
        try:
            if preview:
                seen = ask(dry_run=True)
                assert self._trace(entity) == before
            outcome = ask()
        except Refusal as refusal:
            assert self._trace(entity) == before
            noted(refusal.code)
            return None
        if preview:
            assert seen.changed == outcome.changed
        if not outcome.changed:
            assert self._trace(entity)[:2] == before[:2]
        else:
            self._check_event(entity, outcome)
        noted("changed" if outcome.changed else "repeat")
        return outcome

    def _check_event(self, before: Any, outcome: Outcome) -> None:
        """Asserts that the event is stored as returned and was allowed."""
        entry = outcome.entry
        assert entry is not None
        stored = Event.objects.get(pk=entry.event_id)
        assert stored.as_dict() == entry.as_dict()
        answer = entry.as_dict()
        if entry.kind == "created":
            return
        flow: Flow = before.flow
        edge = (before.state, entry.to_state)
        assert entry.from_state == before.state
        assert not flow.is_final(before.state) or edge in flow.final_exits()
        if entry.kind != "override":
            taken = [m for m in flow.open_transitions(before.state, entry.trigger) if m.target == entry.to_state]
            assert {answer["severity"]} <= {str(move.severity) for move in taken}
            assert any(answer["actor_kind"] in move.actors for move in taken)
        assert entry.timestamp >= before.updated_at
        dwell = (entry.timestamp - before.state_entered_at).total_seconds()
        assert math.isclose(answer["dwell_seconds"], dwell, abs_tol=1e-6)
        row = self._now(before)
        forced = entry.kind == "override"
        assert row.attempt in (before.attempt + 1,) if forced else row.attempt >= before.attempt
        assert row.updated_at == row.state_entered_at == entry.timestamp

    @invariant()
    def row_and_events_agree_and_the_constraints_hold(self) -> None:
        row = assert_consistent(self.last)
        if (row.pk, row.version) == self.checked:
            return
        self.checked = row.pk, row.version
        for constraint in row._meta.constraints:
            constraint.validate(type(row), row)

    def teardown(self) -> None:
        try:
            for entity in self.cast:
                row = assert_consistent(entity)
                assert [event.as_dict()["version"] for event in events(row)] == list(range(1, row.version + 1))
            assert integrity.verify_chain() is None
            assert [found for found in integrity.check_all() if found.severity == "error"] == []
        finally:
            self.stack.close()
