"""Reads responses into records."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from .call import DecodedResponse
from .records import (
    Entity,
    Event,
    Explanation,
    Json,
    LogLine,
    Page,
    PositionedEvent,
    Record,
    ReportAndClaimResult,
    SubmittedRun,
    Task,
    TransitionCheck,
    WorkerEntity,
    to_record,
)
from .refusals import UnexpectedResponse

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def read_object(response: DecodedResponse) -> Json:
    if not isinstance(response.json, dict):
        raise UnexpectedResponse("the response is not a JSON object")
    return response.json


def read_text(response: DecodedResponse) -> str:
    if not isinstance(response.json, str):
        raise UnexpectedResponse("the response is not plain text")
    return response.json


def get_member(body: Json, name: str, kind: type[T]) -> T:
    """Returns a member of a JSON object; raises UnexpectedResponse if it is missing or has another type."""
    found = body.get(name)
    if not isinstance(found, kind):
        raise UnexpectedResponse(f"the response has no valid {name}")
    return found


def read_as(kind: type[R]) -> Callable[[DecodedResponse], R]:
    def read(response: DecodedResponse) -> R:
        return to_record(kind, read_object(response))

    return read


def read_page_of(read: Callable[[DecodedResponse], T]) -> Callable[[DecodedResponse], Page[T]]:
    def read_page(response: DecodedResponse) -> Page[T]:
        body = read_object(response)
        results = [read(DecodedResponse(each)) for each in get_member(body, "results", list)]
        return Page(results=results, next=body.get("next"), previous=body.get("previous"))

    return read_page


def read_results_of(read: Callable[[DecodedResponse], T]) -> Callable[[DecodedResponse], list[T]]:
    def read_results(response: DecodedResponse) -> list[T]:
        return read_page_of(read)(response).results

    return read_results


def read_entity(response: DecodedResponse) -> Entity:
    """Reads an entity from the response itself, or from its member `entity`."""
    return to_record(Entity, _unwrap_entity(response))


def read_task(response: DecodedResponse) -> Task:
    return to_record(Task, _unwrap_entity(response))


def read_worker(response: DecodedResponse) -> WorkerEntity:
    return to_record(WorkerEntity, _unwrap_entity(response))


def _unwrap_entity(response: DecodedResponse) -> Json:
    body = read_object(response)
    inner = body.get("entity")
    return inner if isinstance(inner, dict) else body


def read_member(name: str, kind: type[R]) -> Callable[[DecodedResponse], R]:
    """Reads the only member of the response."""
    return lambda response: to_record(kind, get_member(read_object(response), name, dict))


def read_log_line(response: DecodedResponse) -> LogLine:
    return to_record(LogLine, read_object(response))


def read_next(response: DecodedResponse) -> int:
    return int(get_member(read_object(response), "next", int))


def read_explanation(response: DecodedResponse) -> Explanation:
    body = read_object(response)
    made = to_record(Explanation, body)
    made.transitions = [to_record(TransitionCheck, each) for each in get_member(body, "transitions", list)]
    return made


def read_submitted_run(response: DecodedResponse) -> SubmittedRun:
    body = read_object(response)
    run = body.get("entity") or body.get("run") or body
    run_id = run.get("id") if isinstance(run, dict) else run
    return SubmittedRun(run=str(run_id), replayed=response.replayed, fields=body)


def read_claimed_tasks(response: DecodedResponse) -> list[Task]:
    return [to_record(Task, each) for each in get_member(read_object(response), "tasks", list)]


def read_report_and_claim(response: DecodedResponse) -> ReportAndClaimResult:
    body = read_object(response)
    return ReportAndClaimResult(
        tasks=read_claimed_tasks(response), reports=get_member(body, "reports", list), fields=body
    )


def read_positioned_event(response: DecodedResponse) -> PositionedEvent:
    body = read_object(response)
    return PositionedEvent(
        position=get_member(body, "position", int), event=to_record(Event, get_member(body, "event", dict))
    )


def read_nothing(response: DecodedResponse) -> None:
    return None
