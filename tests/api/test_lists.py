"""Lists: filters, orderings and pages that neither skip nor repeat a row."""

from itertools import pairwise
from urllib.parse import urlsplit

import pytest
import time_machine

from tests.api.callers import Caller, expect_ok, expect_refusal
from tests.support import world

pytestmark = pytest.mark.django_db


@pytest.fixture
def reader() -> Caller:
    return Caller("read")


def ids(page: dict) -> list[str]:
    return [row["id"] for row in page["results"]]


def follow(reader: Caller, url: str) -> dict:
    parts = urlsplit(url)
    return dict(expect_ok(reader.get(f"{parts.path.removeprefix('/api/v1/')}?{parts.query}")))


def jobs(count: int) -> list[str]:
    return [world.created("PipelineJob", id=f"j{number:03}").pk for number in range(count)]


@pytest.mark.parametrize("ordering", ["created_at", "-created_at", "id", "-id"])
def test_pages_there_and_back_hold_every_row_once(ordering: str, reader: Caller) -> None:
    with time_machine.travel("2026-01-01", tick=False):  # all have the same time: the id must decide
        made = jobs(7)
    wanted = made[::-1] if ordering.startswith("-") else made
    page = expect_ok(reader.get(f"pipeline-jobs/?page_size=3&ordering={ordering}"))
    assert page["previous"] is None
    there = [page]
    while there[-1]["next"]:
        there.append(follow(reader, there[-1]["next"]))
    assert [ids(page) for page in there] == [wanted[:3], wanted[3:6], wanted[6:]]
    back = [there[-1]]
    while back[-1]["previous"]:
        back.append(follow(reader, back[-1]["previous"]))
    assert [ids(page) for page in back] == [wanted[6:], wanted[3:6], wanted[:3]]


def test_a_row_added_between_pages_shifts_nothing(reader: Caller) -> None:
    jobs(4)
    first = expect_ok(reader.get("pipeline-jobs/?page_size=2"))
    world.created("PipelineJob", id="new")
    assert ids(first) + ids(follow(reader, first["next"])) == ["j003", "j002", "j001", "j000"]


def test_the_newest_come_first(reader: Caller) -> None:
    jobs(3)
    page = expect_ok(reader.get("pipeline-jobs/"))
    assert all(first["created_at"] >= second["created_at"] for first, second in pairwise(page["results"]))
    assert page["next"] is None


def test_filters_narrow_and_repeat(reader: Caller) -> None:
    first, second, third = world.queued_task(), world.task(), world.forced(world.task(), "failed")
    answer = expect_ok(reader.get("tasks/?state=queued&state=failed&ordering=id"))
    assert sorted(ids(answer)) == sorted([first.pk, third.pk])
    assert ids(expect_ok(reader.get(f"tasks/?run={second.run_id}"))) == [second.pk]
    assert ids(expect_ok(reader.get(f"tasks/?workstream={first.workstream_id}&state=pending"))) == []
    assert ids(expect_ok(reader.get(f"tasks/?id={first.pk}&is_critical=false"))) == [first.pk]
    assert ids(expect_ok(reader.get("tasks/?is_critical=true"))) == []
    assert ids(expect_ok(reader.get("tasks/?priority=1&priority=-2"))) == []


def test_filters_by_time(reader: Caller) -> None:
    with time_machine.travel("2026-01-01T00:00:00Z", tick=False):
        old = world.created("PipelineJob").pk
    with time_machine.travel("2026-02-01T00:00:00Z", tick=False):
        new = world.created("PipelineJob").pk
    assert ids(expect_ok(reader.get("pipeline-jobs/?created_after=2026-01-15T00:00:00Z"))) == [new]
    assert ids(expect_ok(reader.get("pipeline-jobs/?created_before=2026-01-15T00:00:00%2B01:00"))) == [old]
    assert (
        ids(
            expect_ok(
                reader.get("pipeline-jobs/?created_after=2026-01-01T00:00:00Z&created_before=2026-01-02T00:00:00Z")
            )
        )
        == []
    )


@pytest.mark.parametrize(
    "query",
    [
        "page_size=0", "page_size=501", "page_size=x", "page_size=-1", "page_size=٣",
        "ordering=priority", "ordering=payload", "ordering=",
        "nonsense=1", "state=flying", "run=a b", "priority=x", "priority=99999999999", "is_critical=1",
        "created_after=yesterday", "created_after=2026-13-01T00:00:00Z", "created_after=0001-01-01T00:00:00%2B23:59",
        "created_after=2026-01-01T00:00:00Z&created_after=2026-01-01T00:00:00Z", "claimed_by=%00", "run=%00",
        "&".join(f"run={number}" for number in range(101)), "payload=1", "output=1",
    ],
)  # fmt: skip
def test_nonsense_in_a_query_is_refused_by_name(query: str, reader: Caller) -> None:
    answer = expect_refusal(reader.get(f"tasks/?{query}"), 400, "invalid")
    assert query.partition("=")[0] in answer["errors"]


@pytest.mark.parametrize("cursor", ["x", "", "W10", "bnVsbA", "%00", "W3RydWUsImlkIiwxLDJd"])
def test_an_invalid_cursor_is_refused(cursor: str, reader: Caller) -> None:
    expect_refusal(reader.get(f"tasks/?cursor={cursor}"), 404, "not_found")


def test_a_cursor_of_another_ordering_is_refused(reader: Caller) -> None:
    jobs(3)
    cursor = urlsplit(expect_ok(reader.get("pipeline-jobs/?page_size=1&ordering=id"))["next"]).query
    expect_refusal(reader.get(f"pipeline-jobs/?{cursor}&ordering=-id"), 404, "not_found")


def test_a_page_costs_the_same_whatever_is_on_it(reader: Caller, django_assert_max_num_queries) -> None:
    parent = world.workstream()
    for _ in range(5):
        world.task(workstream=parent, gates=[world.gate().pk])
    reader.get("tasks/")
    with django_assert_max_num_queries(4):  # the token, the rows, all their links, the entities that do not verify
        assert len(expect_ok(reader.get("tasks/"))["results"]) == 5


def test_phases_and_diffs_are_made_read_and_listed() -> None:
    agent, operator = Caller("agent"), Caller("operate")
    answer = expect_ok(operator.post("phases/", {"id": "PH-1", "title": "one", "allowed_paths": ["src/*"]}), 201)
    assert answer["allowed_paths"] == ["src/*"]
    expect_refusal(operator.post("phases/", {"id": "PH-1"}), 409, "duplicate_id")
    expect_refusal(agent.patch("phases/PH-1/", {"title": "two"}), 403, "permission_denied")
    assert expect_ok(operator.patch("phases/PH-1/", {"title": "two"}))["title"] == "two"
    assert ids(expect_ok(agent.get("phases/"))) == ["PH-1"]
    for bad in (
        {"id": "a b"},
        {"title": 7},
        {"title": "x" * 201},
        {"allowed_paths": "src"},
        {"allowed_paths": {}},
        {"forbidden_paths": ""},
        {"nonsense": 1},
        {"created_at": 1},
    ):
        expect_refusal(operator.post("phases/", bad), 400, "invalid")
    expect_refusal(operator.patch("phases/PH-1/", {"forbidden_paths": {}}), 400, "invalid")
    expect_refusal(agent.get("phases/nope/"), 404, "not_found")
    diff = expect_ok(agent.post("diffs/", {"diff": "--- a/x\n+++ b/x\n"}), 201)["id"]
    assert expect_ok(agent.get(f"diffs/{diff}/"))["diff"] == "--- a/x\n+++ b/x\n"
    expect_refusal(agent.post("diffs/", {}), 400, "invalid")
    expect_refusal(operator.patch(f"diffs/{diff}/", {"title": "x"}), 405, "method_not_allowed")
    workstream = world.workstream(run=world.run_by(agent.token.as_agent()))
    entry = expect_ok(agent.post("patches/", {"patch": diff, "workstream": workstream.pk}), 201)
    assert entry["state"] == "created"
