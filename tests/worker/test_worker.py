"""The functions of a worker: payloads, results, failures, cancellation, progress, several at once."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import msgspec
import pytest

from statecore import transitions
from statecore.journal import Event
from statecore.machines.task import Task
from statecore_client import Cancelled, Client, Context, TaskFailed, Worker
from tests.agent.process import submit, task, wait_for_state
from tests.support import site as sites
from tests.support import world
from tests.support.site import Site
from tests.support.waiting import until
from tests.worker.test_processes import sweep_until_state

Run = Callable[[Worker], None]


@dataclass
class Sum:
    numbers: list[int]


class Total(msgspec.Struct):
    total: int


def new_worker(**settings: Any) -> Worker:
    return Worker("adder", capabilities=["python"], heartbeat_seconds=0.2, wait_seconds=1, **settings)


@contextmanager
def running(worker: Worker, url: str, token: str) -> Iterator[None]:
    worker.url, worker.token = url, token
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        yield
    finally:
        until(lambda: worker.crew is not None)
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
        assert worker.crew is not None
        worker.crew.closing.join(10)  # a slot may still wait for the response to its last claim


@pytest.fixture
def run(site: Site) -> Iterator[Run]:
    """Runs a worker until the end of the test."""
    token = sites.token("agent")
    with ExitStack() as workers:
        yield lambda worker: workers.enter_context(running(worker, site.url, token))


def a_sum(**fields: Any) -> dict[str, Any]:
    return {"id": "t1", "required_capabilities": ["sum"], "payload": {"numbers": [1, 2]}, **fields}


def test_functions_get_typed_payloads_and_their_output_is_stored(run: Run) -> None:
    worker = new_worker()

    @worker.task("sum")
    async def add(ctx: Context, spec: Sum) -> None:
        await asyncio.sleep(0)
        ctx.log(f"{ctx.task.id} attempt {ctx.attempt}: {sum(spec.numbers)}")

    @worker.task()
    def every_other(ctx: Context) -> None:
        ctx.log(f"payload {ctx.task.payload}")

    submit(a_sum(), {"id": "t2", "required_capabilities": ["python"], "payload": {"a": 1}})
    run(worker)

    wait_for_state("t1", "completed")
    wait_for_state("t2", "completed")
    assert (task("t1").output, task("t2").output) == ("t1 attempt 1: 3\n", "payload {'a': 1}\n")


def test_a_payload_that_does_not_fit_fails_the_task_without_a_retry(run: Run) -> None:
    worker = new_worker()

    @worker.task("sum")
    def add(ctx: Context, spec: Sum) -> None: ...

    submit(a_sum(payload={"numbers": ["one"]}, max_retries=3))
    run(worker)

    wait_for_state("t1", "failed")
    assert task("t1").last_error == "the payload is not a Sum: Expected `int`, got `str` - at `$.numbers[0]`"
    assert (task("t1").attempt, task("t1").retry_count) == (1, 0)


def test_errors_are_retried_as_declared(run: Run) -> None:
    worker = new_worker()

    @worker.task("flaky", retries=1, retry_on=(OSError,))
    def call(ctx: Context, payload: dict[str, Any]) -> None:
        if payload["error"] == "disk":
            raise OSError("the disk is full")
        if payload["error"] == "own":
            raise TaskFailed("it can never work", retry=False, exit_code=7)
        raise ValueError("a mistake in the function")

    flaky = {"required_capabilities": ["flaky"], "max_retries": 5}
    submit(*({"id": each, "payload": {"error": each}, **flaky} for each in ("disk", "own", "bug")))
    run(worker)

    for each in ("disk", "own", "bug"):
        sweep_until_state(each, "failed")
    found = {each: (task(each).attempt, task(each).last_error, task(each).exit_code) for each in ("disk", "own", "bug")}
    assert found == {
        "disk": (2, "OSError: the disk is full", 1),
        "own": (1, "it can never work", 7),
        "bug": (1, "ValueError: a mistake in the function", 1),
    }
    assert "raise ValueError" in task("bug").output


def test_a_result_that_the_server_refuses_fails_the_task_without_a_retry(run: Run) -> None:
    worker = new_worker()

    @worker.task("sum")
    def add(ctx: Context) -> str:
        return "x" * 1_000_000

    submit(a_sum(max_retries=3))
    run(worker)

    wait_for_state("t1", "failed")
    assert task("t1").last_error.startswith("the server refuses the result: ")


def test_a_task_for_no_function_fails(run: Run) -> None:
    worker = new_worker()

    @worker.task("sum")
    def add(ctx: Context) -> None: ...

    submit({"id": "t1", "required_capabilities": ["python"], "max_retries": 3})
    run(worker)

    wait_for_state("t1", "failed")
    assert task("t1").last_error.endswith("its required_capabilities name none of sum")


def cancel(name: str) -> None:
    transitions.transition(Task, name, "user_cancelled", actor=world.operator())


def test_cancelled_functions_end_and_report_nothing(run: Run) -> None:
    worker = new_worker(concurrency=2)
    started, ended = threading.Semaphore(0), threading.Semaphore(0)

    @worker.task("wait")
    async def wait(ctx: Context) -> None:
        started.release()
        try:
            await asyncio.sleep(60)
        finally:
            ended.release()

    @worker.task("watch")
    def watch(ctx: Context) -> None:
        started.release()
        assert ctx.wait_cancelled(60)
        ended.release()
        ctx.raise_if_cancelled()

    submit({"id": "t1", "required_capabilities": ["wait"]}, {"id": "t2", "required_capabilities": ["watch"]})
    run(worker)
    for each in ("t1", "t2"):
        assert started.acquire(timeout=30)
        wait_for_state(each, "running")
    for each in ("t1", "t2"):
        cancel(each)

    assert ended.acquire(timeout=30)
    assert ended.acquire(timeout=30)
    assert {task(each).state for each in ("t1", "t2")} == {"cancelled"}
    assert not Event.objects.filter(trigger="execution_failed").exists()


def test_progress_is_shown_while_several_functions_run(run: Run, site: Site) -> None:
    worker, together, finish = new_worker(concurrency=3), threading.Barrier(4), threading.Event()

    @worker.task("step")
    def step(ctx: Context) -> None:
        ctx.progress(0.5, "3 of 6 files")
        together.wait(30)
        assert finish.wait(30)

    submit(*({"id": f"t{number}", "required_capabilities": ["step"]} for number in range(3)))
    run(worker)
    together.wait(30)

    with Client(site.url, sites.token("read", name="reader")) as client:
        until(lambda: client.get("tasks", "t0")["progress"])
        assert client.get("tasks", "t0")["progress"].items() >= {"fraction": 0.5, "detail": "3 of 6 files"}.items()
    finish.set()
    for number in range(3):
        wait_for_state(f"t{number}", "completed")


def test_a_function_that_cannot_be_called_is_refused_when_it_is_declared() -> None:
    worker = new_worker()

    for wrong in (lambda: None, lambda ctx, payload, more: None, lambda *words: None):
        with pytest.raises(TypeError, match="must take the context"):
            worker.task("wrong")(wrong)
    with pytest.raises(ValueError, match="which server"):
        worker.run()


def test_results_are_sent_as_json() -> None:
    from statecore_client.worker.execution import FunctionResult
    from statecore_client.worker.function import describe

    def add(ctx: Context) -> Total: ...

    function = describe(add, "add", None, (Exception,))
    held = world_task()

    assert FunctionResult("", function.serialize(Total(total=3))).build_report(held, None) == (
        "execution_completed",
        {"attempt": 1, "output": "", "exit_code": 0, "result": {"total": 3}},
    )
    with pytest.raises(TaskFailed, match="the result of add cannot be sent as JSON"):
        function.serialize(object())
    assert not function.may_retry(TaskFailed("no", retry=False), held)
    assert function.may_retry(Cancelled("left"), held)


def world_task() -> Any:
    from statecore_client import Task as ClaimedTask

    return ClaimedTask(id="t1", attempt=1)
