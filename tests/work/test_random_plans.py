"""Random plans with faults, waivers, repairs, pauses and holds: the run ends or its wait is explained.

A run that does not wait for decisions ends. All invariants hold after every step.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

import pytest
import time_machine
from django.db.models import Count, F, Q
from django.test import override_settings
from hypothesis import event as noted
from hypothesis import reject, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from statecore import scheduling, transitions
from statecore.executors import gates
from statecore.journal import Event
from statecore.kernel import clock, registry
from statecore.kernel.ids import new_id
from statecore.kernel.refusals import Invalid, Refusal
from statecore.machines.patch_ledger import PatchLedger
from statecore.machines.run import FINAL, Run
from statecore.machines.task import Task
from statecore.machines.test_gate import TestGate
from statecore.machines.worker import Worker
from statecore.machines.workstream import Workstream
from statecore.operations import integrity
from statecore.operations.integrity.invariants import check_invariants
from statecore.records import Patch
from statecore.records.hold import select_active
from statecore.scheduling import holds, timers
from statecore.transitions import waivers
from tests.properties.support import SETTINGS, rolled_back
from tests.races.records import assert_consistent
from tests.support import world
from tests.work import why
from tests.work.agents import (
    Agent,
    gate,
    states,
    submit,
    task,
    workstream,
)

pytestmark = [pytest.mark.slow, pytest.mark.django_db]
START = datetime(2026, 1, 5, 8, tzinfo=UTC)
ANY = st.data()
MACHINES = (Run, Workstream, Task, TestGate, PatchLedger, Worker)
# Only the sweeps restore these, and a step may end before the next sweep.
TIMELY = {
    "running_tasks_are_within_their_timeout",
    "live_workers_are_heard_from",
    "running_gates_are_within_their_timeout",
}
PATCH_WAY = (
    ("validation_passed", {"format_passed": True, "scope_passed": True, "constraints_passed": True}),
    ("accepted_for_merge", {}),
    ("apply_succeeded", {}),
    ("tests_passed", {}),
    ("commit_succeeded", {"commit_sha": "c0ffee"}),
)


@st.composite
def plans(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Workstreams, tasks and gates that depend only on earlier ones."""
    plan_gates: list[dict[str, Any]] = []
    for number in range(draw(st.integers(0, 3))):
        plan_gates.append(gate(f"g{number}", depends_on=draw(some([each["id"] for each in plan_gates], most=1))))
    names = [each["id"] for each in plan_gates]
    made: list[dict[str, Any]] = []
    tasks: list[str] = []
    for letter in "abc"[: draw(st.integers(1, 3))]:
        own = []
        for number in range(draw(st.integers(1, 4))):
            own.append(
                task(
                    f"{letter}{number}", *draw(some(tasks, most=2)),
                    gates=draw(some(names, most=1)), entry_gates=draw(some(names, most=1)),
                    is_critical=draw(st.integers(0, 4)) == 0, max_retries=draw(st.integers(0, 2)), timeout_sec=300,
                    max_repairs=draw(st.integers(0, 1)),
                    dependency_timeout_sec=draw(st.sampled_from([None, None, 400])),
                )
            )  # fmt: skip
            tasks.append(f"{letter}{number}")
        before = draw(some([each["id"] for each in made], most=1))
        final = [gate(f"final-{letter}", max_reruns=draw(st.integers(0, 1)))] if draw(st.booleans()) else []
        more = {"is_critical": draw(st.booleans()), "max_repairs": draw(st.integers(0, 1))}
        made.append(workstream(letter, *own, depends_on=before, gates=final, **more))
    return made, plan_gates


def some(names: list[str], *, most: int) -> st.SearchStrategy[list[str]]:
    chosen = st.lists(st.sampled_from(names), max_size=most, unique=True) if names else st.just([])
    return st.integers(0, 2).flatmap(lambda luck: chosen if luck else st.just([]))


class Faults(RuleBasedStateMachine):
    def __init__(self) -> None:
        super().__init__()
        self.stack = ExitStack()
        self.stack.enter_context(rolled_back())
        self.stack.enter_context(override_settings(STATECORE_GATE_COMMANDS=("true",)))
        self.clock = self.stack.enter_context(time_machine.travel(START, tick=False))
        self.agents: dict[str, Agent] = {}
        self.held: dict[str, list[Task]] = {}
        self.is_over = False
        self.add_agent(1)
        self.add_agent(2)

    def add_agent(self, capacity: int) -> Agent:
        name = f"w{len(self.held)}"
        self.agents[name] = Agent(name, max_concurrent_tasks=capacity)
        self.held[name] = []
        return self.agents[name]

    @initialize(
        planned=plans(), starts=st.sampled_from([True, True, True, False]), on_failure=st.sampled_from(["wait", "fail"])
    )
    def a_plan(self, planned: Any, starts: bool, on_failure: str) -> None:
        workstreams, plan_gates = planned
        try:
            submit(*workstreams, gates=plan_gates, start=starts, on_failure=on_failure)
        except Invalid as refusal:
            if "cycle" not in str(refusal.facts):
                raise
            reject()  # tasks that form a cycle through their gates

    # Rules

    def attempt(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except Refusal as refusal:
            noted(refusal.code)
            return None

    def draw_row(self, data: Any, model: Any, **wanted: Any) -> Any:
        found = list(model.objects.filter(**wanted).order_by("pk"))
        return data.draw(st.sampled_from(found)) if found else None

    @rule(data=ANY)
    def an_agent_works(self, data: Any) -> None:
        if not self.agents:
            return
        name = data.draw(st.sampled_from(sorted(self.agents)))
        agent = self.agents[name]
        self.attempt(lambda: scheduling.record_heartbeat(name, actor=agent.actor))
        if not self.held[name]:
            self.held[name] = self.attempt(agent.claim) or []
        elif data.draw(st.integers(0, 3)):
            self.attempt(lambda: agent.finish(self.held[name].pop()))
        else:
            self.attempt(lambda: agent.fail(self.held[name].pop()))

    @rule(data=ANY)
    def another_agent_works(self, data: Any) -> None:
        self.an_agent_works(data)

    @rule(data=ANY)
    def an_agent_dies(self, data: Any) -> None:
        if self.agents and data.draw(st.integers(0, 2)) == 0:
            del self.agents[data.draw(st.sampled_from(sorted(self.agents)))]

    @rule(data=ANY)
    def a_gate_runs(self, data: Any) -> None:
        chosen = self.draw_row(data, TestGate, state__in=("PENDING", "RUNNING"))
        if chosen is None:
            return
        exit_code = data.draw(st.sampled_from([0, 0, 0, 1]))
        if chosen.state == "PENDING":
            self.attempt(lambda: world.fire(chosen, "gate_started"))
        else:
            trigger = "gate_failed" if exit_code else "gate_passed"
            self.attempt(lambda: world.fire(chosen, trigger, exit_code=exit_code))

    @rule(data=ANY, seconds=st.sampled_from([None, 100]))
    def an_operator_waives_a_gate(self, data: Any, seconds: float | None) -> None:
        if data.draw(st.integers(0, 2)):
            return
        if chosen := self.draw_row(data, TestGate, state__in=("PENDING", "FAILED", "BLOCKED")):
            until = None if seconds is None else clock.now() + timedelta(seconds=seconds)
            given = {"reason": world.REASON, "category": "other", "expires_at": until}
            self.attempt(lambda: transitions.waive(TestGate, chosen.pk, actor=world.operator(), **given))

    @rule(data=ANY)
    def an_agent_hands_in_a_patch(self, data: Any) -> None:
        if chosen := self.draw_row(data, Task, state="running"):
            text = Patch.objects.create(id=new_id("diff"), diff="--- a\n+++ b\n")
            self.attempt(
                lambda: scheduling.submit_patch(PatchLedger, actor=world.operator(), task=chosen.pk, patch=text.pk)
            )

    @rule(data=ANY, seconds=st.sampled_from([None, 100]))
    def an_operator_pauses_or_resumes_something(self, data: Any, seconds: float | None) -> None:
        ways = [
            (Workstream, ("ready", "executing", "blocked"), "workstream_paused"),
            (Workstream, ("paused",), "workstream_resumed"),
            (Worker, ("idle", "busy"), "worker_suspended"),
            (Worker, ("suspended",), "worker_resumed"),
        ]
        luck = data.draw(st.integers(0, 7))
        if luck >= len(ways):
            return
        model, sources, trigger = ways[luck]
        is_limited = seconds is not None and not trigger.endswith("resumed")
        params = {"until": clock.rfc3339(clock.now() + timedelta(seconds=seconds or 0))} if is_limited else {}
        if chosen := self.draw_row(data, model, state__in=sources):
            self.attempt(lambda: world.fire(chosen, trigger, actor=world.operator(), **params))

    @rule(data=ANY, seconds=st.sampled_from([None, 100]))
    def an_operator_holds_or_releases(self, data: Any, seconds: float | None) -> None:
        active = list(select_active(clock.now()).order_by("pk"))
        if data.draw(st.integers(0, 3)):
            return
        if active and data.draw(st.booleans()):
            hold = data.draw(st.sampled_from(active))
            self.attempt(lambda: holds.release(hold.pk, actor=world.operator(), reason=world.REASON))
        else:
            until = None if seconds is None else clock.now() + timedelta(seconds=seconds)
            scope = data.draw(st.sampled_from(["everything", "run:r"]))
            given = {"reason": world.REASON, "expires_at": until}
            self.attempt(lambda: holds.place(scope, actor=world.operator(), **given))

    @rule(data=ANY)
    def an_operator_retries(self, data: Any) -> None:
        model = data.draw(st.sampled_from([Task, Task, TestGate, TestGate, Workstream]))
        if chosen := self.draw_row(data, model, state__in=model.flow.final, successor=None):
            self.attempt(lambda: transitions.retry(model, chosen.pk, actor=world.operator()))

    @rule(data=ANY)
    def an_operator_adds_a_task(self, data: Any) -> None:
        if data.draw(st.integers(0, 3)):
            return
        if (into := self.draw_row(data, Workstream)) and (after := self.draw_row(data, Task)):
            self.attempt(
                lambda: transitions.create(Task, workstream=into, depends_on=[after.pk], actor=world.operator())
            )

    @rule(data=ANY)
    def an_operator_stops_something(self, data: Any) -> None:
        ways = [
            (Task, ("running",), "user_cancelled"),
            (Workstream, ("planned", "ready", "executing"), "workstream_cancelled"),
            (Workstream, ("planned", "ready"), "workstream_skipped"),
            (Run, ("pending", "running"), "run_canceled"),
        ]
        luck = data.draw(st.integers(0, 15))
        if luck >= len(ways):
            return
        model, sources, trigger = ways[luck]
        if chosen := self.draw_row(data, model, state__in=sources):
            self.attempt(lambda: world.fire(chosen, trigger, actor=world.operator()))

    @rule(data=ANY)
    def an_operator_forces_something(self, data: Any) -> None:
        ways = [
            (Task, "failed"), (Task, "cancelled"), (Workstream, "failed"), (Workstream, "cancelled"),
            (Worker, "shutdown"), (TestGate, "FAILED"),
        ]  # fmt: skip
        luck = data.draw(st.integers(0, 15))
        if luck >= len(ways):
            return
        model, state = ways[luck]
        live = {"state__in": [each for each in model.flow.states if each not in model.flow.final]}
        if model is TestGate:
            live = {"state": "RUNNING"}
        if chosen := self.draw_row(data, model, **live):
            self.attempt(lambda: world.forced(chosen, state))

    @rule(data=ANY)
    def a_patch_comes_or_goes_its_way(self, data: Any) -> None:
        patch = self.draw_row(data, PatchLedger)
        if patch is None:
            if chosen := self.draw_row(data, Workstream, state__in=("ready", "executing")):
                self.attempt(lambda: world.patch(workstream=chosen))
        elif data.draw(st.integers(0, 5)):
            self.advance(patch)
        else:
            self.attempt(lambda: world.forced(patch, "quarantined"))

    def advance(self, patch: Any) -> None:
        for trigger, given in PATCH_WAY:
            if patch.flow.open_transitions(patch.state, trigger):
                self.attempt(lambda trigger=trigger, given=given: world.fire(patch, trigger, **given))
                return

    @rule(seconds=st.sampled_from([1, 30, 121, 301, 700]))
    def time_passes(self, seconds: float) -> None:
        self.clock.shift(seconds)
        self.sweep()

    def sweep(self) -> None:
        for name, agent in self.agents.items():
            self.attempt(lambda name=name, agent=agent: scheduling.record_heartbeat(name, actor=agent.actor))
        for sweep in (
            timers.time_out_tasks,
            timers.queue_retries,
            timers.mark_unresponsive_workers,
            timers.end_lost_workers,
            timers.fail_blocked_tasks,
            timers.fail_stopped_runs,
            timers.resume_paused,
            holds.end_expired,
            partial(waivers.expire, TestGate),
        ):
            sweep()

    # Invariants

    @invariant()
    def nothing_is_broken(self) -> None:
        broken = [
            str(found) for flow in registry.flows() for found in check_invariants(flow) if found.check not in TIMELY
        ]
        assert broken == []
        miscounted = Worker.objects.annotate(running=Count("tasks")).exclude(current_load=F("running"))
        assert list(miscounted) == []

    # Final state

    def drive(self) -> None:
        """Let all agents, gates and patches progress until nothing changes."""
        for _ in range(200):
            before = Event.objects.count()
            self.clock.shift(301)
            self.sweep()
            if not any(worker == "idle" for worker in states(Worker).values()):
                self.add_agent(5)
                before -= 1  # a new worker is no progress, but may enable some
            for agent in list(self.agents.values()):
                for each in self.held[agent.name] + (self.attempt(agent.claim) or []):
                    self.attempt(lambda agent=agent, each=each: agent.finish(each))
                self.held[agent.name] = []
            for chosen in TestGate.objects.filter(Q(pk__in=gates.find_due()) | Q(state="RUNNING")):
                self.attempt(lambda chosen=chosen: world.fire(chosen, "gate_started"))
                self.attempt(lambda chosen=chosen: world.fire(chosen, "gate_passed", exit_code=0))
            for patch in PatchLedger.objects.all():
                self.advance(patch)
            if Event.objects.count() == before:
                return
        raise AssertionError("the run never settles")

    def teardown(self) -> None:
        try:
            if Run.objects.exists():
                self.drive()
                self.judge(Run.objects.get())
        finally:
            self.stack.close()

    def judge(self, run: Run) -> None:
        details = f"{states(Workstream)} {states(Task)} {states(TestGate)} {states(PatchLedger)}"
        if run.state not in FINAL:
            reasons = why.why_not_ended(run)
            assert reasons, f"{run} is {run.state} without an explanation: {details}"
            assert run.on_failure == "wait" or why.is_up_to_operators(run), f"{run} waits: {details}"
            noted("explained")
        else:
            noted(str(run.state))
            assert not Task.objects.exclude(state__in=Task.flow.final).exists(), details
            assert not Workstream.objects.exclude(state__in=Workstream.flow.final).exists(), details
        assert [str(found) for found in integrity.check_all()] == []
        for model in MACHINES:
            for entity in model.objects.all():
                assert_consistent(entity)


def test_a_run_ends_or_its_wait_is_explained() -> None:
    run_state_machine_as_test(Faults, settings=settings(SETTINGS, max_examples=4, stateful_step_count=25))
