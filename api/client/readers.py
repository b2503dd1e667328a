"""How answers are read into records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from .call import Answer
from .records import (
    Entity,
    Event,
    Exchanged,
    Explanation,
    Json,
    Move,
    Outcome,
    Page,
    Positioned,
    Record,
    Submitted,
    Task,
    Worker,
    record,
)
from .refusals import Garbled

T = TypeVar("T")
R = TypeVar("R", bound=Record)


def as_told(answer: Answer) -> Json:
    if not isinstance(answer.json, dict):
        raise Garbled("not a JSON object")
    return answer.json


def among(told: Json, name: str, kind: type[T]) -> T:
    """What an answer has under a name, if it is there and of its kind."""
    found = told.get(name)
    if not isinstance(found, kind):
        raise Garbled(f"without {name}")
    return found


def reader(kind: type[R]) -> Callable[[Answer], R]:
    def read(answer: Answer) -> R:
        return record(kind, as_told(answer))

    return read


def page_of(read: Callable[[Answer], T]) -> Callable[[Answer], Page[T]]:
    def read_page(answer: Answer) -> Page[T]:
        told = as_told(answer)
        results = [read(Answer(each)) for each in among(told, "results", list)]
        return Page(results=results, next=told.get("next"), previous=told.get("previous"))

    return read_page


def results_of(read: Callable[[Answer], T]) -> Callable[[Answer], list[T]]:
    def read_results(answer: Answer) -> list[T]:
        return page_of(read)(answer).results

    return read_results


def entity(answer: Answer) -> Entity:
    """An entity, alone or as part of what a call tells about its making."""
    return record(Entity, _bare(answer))


def task(answer: Answer) -> Task:
    return record(Task, _bare(answer))


def worker(answer: Answer) -> Worker:
    return record(Worker, _bare(answer))


def _bare(answer: Answer) -> Json:
    told = as_told(answer)
    inner = told.get("entity")
    return inner if isinstance(inner, dict) else told


def event(answer: Answer) -> Event:
    return record(Event, as_told(answer))


def outcome(answer: Answer) -> Outcome:
    told = as_told(answer)
    made, moved = told.get("event"), told.get("entity")
    return Outcome(
        changed=bool(told.get("changed")),
        event=record(Event, made) if made else None,
        caused=[record(Event, each) for each in told.get("caused") or ()],
        entity=record(Entity, moved) if moved else None,
        replayed=answer.replayed,
        fields=told,
    )


def explanation(answer: Answer) -> Explanation:
    told = as_told(answer)
    made = record(Explanation, told)
    made.moves = [record(Move, each) for each in among(told, "moves", list)]
    return made


def submitted(answer: Answer) -> Submitted:
    told = as_told(answer)
    run = told.get("entity") or told.get("run") or told
    run_id = run.get("id") if isinstance(run, dict) else run
    return Submitted(run=str(run_id), replayed=answer.replayed, fields=told)


def claimed(answer: Answer) -> list[Task]:
    return [record(Task, each) for each in among(as_told(answer), "tasks", list)]


def exchanged(answer: Answer) -> Exchanged:
    told = as_told(answer)
    return Exchanged(tasks=claimed(answer), reports=among(told, "reports", list), fields=told)


def positioned(answer: Answer) -> Positioned:
    told = as_told(answer)
    return Positioned(position=among(told, "position", int), event=record(Event, among(told, "event", dict)))


def nothing(answer: Answer) -> None:
    return None


def anything(answer: Answer) -> Any:
    return answer.json
