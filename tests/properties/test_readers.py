"""Plans, files and streams of any content are accepted or refused in the documented way."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statecore import scheduling
from statecore.api.access import read_token
from statecore.api.live import long_poll
from statecore.api.refusals import NotAuthenticated
from statecore.api.request_body import KEY_HEADER, decode_json, read_key
from statecore.journal import digest
from statecore.journal.home_files import parse_position_line
from statecore.kernel.refusals import Invalid, Refusal
from statecore.operations.integrity.archives import InvalidArchive, read_archive
from statecore_client import StatecoreError
from statecore_client.retries import RetryPolicy
from statecore_client.stream import LineSplitter, Stream
from tests.properties.parsing import (
    JSON,
    TEXT,
    few,
    finite,
    many,
    refusal_of,
    request_with_query,
)
from tests.properties.support import rolled_back
from tests.support import world

pytestmark = pytest.mark.once_on("sqlite")

IDS = st.sampled_from(["a", "b", "c", "PH-1"]) | JSON


def objects(*names: str, **inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """Objects with any of these members, usually including an id."""
    members = dict.fromkeys(names, st.lists(IDS, max_size=2) | JSON) | inner
    return st.fixed_dictionaries({"id": IDS}, optional={**members, "x": JSON}) | JSON


TASKS = objects("depends_on", "gates", "entry_gates", "priority", "timeout_sec", "max_retries", "payload", "state")
GATES = objects("depends_on", "gate_type", "command", "timeout_sec")
WORKSTREAMS = objects("depends_on", tasks=st.lists(TASKS, max_size=3), gates=st.lists(GATES, max_size=2))
PLANS = st.fixed_dictionaries(
    {"phase": st.just("PH-1") | IDS, "workstreams": st.lists(WORKSTREAMS, max_size=3) | JSON},
    optional={"id": IDS, "start": st.booleans() | JSON, "metadata": JSON, "gates": st.lists(GATES, max_size=2)},
)


@pytest.mark.django_db
@many
@given(PLANS | JSON)
def test_a_plan_is_kept_as_a_whole_or_refused(plan: Any) -> None:
    def submit() -> None:
        body = decode_json(orjson.dumps(finite(plan)))
        scheduling.submit_plan(body, actor=world.operator())

    with rolled_back():
        world.phase()
        refusal = refusal_of(Refusal, submit)

    assert refusal is None or refusal.detail


LINES = st.sampled_from([b"data: ", b"event: resnapshot", b"event: x", b"id: 7", b"id: -1", b"id: \xd9\xa3", b":", b""])
TOLD = JSON | st.fixed_dictionaries({"event": JSON}, optional={"position": JSON})
BYTES = LINES | st.binary(max_size=20) | TOLD.map(lambda answer: b"data: " + orjson.dumps(finite(answer)))


@many
@given(st.lists(BYTES, max_size=8).map(b"\n".join))
@example(b'data: {"event": {}}\n\n')
def test_a_stream_is_read_or_reported_as_garbled(heard: bytes) -> None:
    stream = Stream(0, {}, RetryPolicy())

    def listen() -> None:
        for line in LineSplitter().add(heard + b"\n\n"):
            stream.take_line(line)

    assert str(refusal_of(StatecoreError, listen) or "heard")
    assert (stream.position or 0) >= 0


@many
@given(st.lists(BYTES | st.builds(lambda at: b'{"position":%d}' % at, st.integers(-1, 9)), max_size=6).map(b"\n".join))
def test_the_end_of_a_journal_file_is_found_whatever_it_holds(written: bytes) -> None:
    lines = written.split(b"\n")

    assert all(answer is None or isinstance(answer["position"], int) for answer in map(parse_position_line, lines))
    assert all(parse_position_line(line) is None for line in lines), "a line without a newline is incomplete"
    assert all(isinstance(answer, dict | None) for answer in (parse_position_line(line + b"\n") for line in lines))


def hashed(answer: Any) -> bytes:
    body = orjson.dumps(finite(answer)).decode()
    return orjson.dumps({"position": 1, "body": body, "hash": digest(body)})


@few
@given(
    st.lists(BYTES | JSON.map(hashed) | JSON.map(finite).map(orjson.dumps), max_size=3).map(b"\n".join),
    st.booleans(),
)
def test_an_archive_file_with_random_contents_is_refused(tmp_path_factory: Any, written: bytes, packed: bool) -> None:
    path = Path(tmp_path_factory.mktemp("archive")) / "file.gz"
    path.write_bytes(gzip.compress(written) if packed else written)

    assert str(refusal_of(InvalidArchive, read_archive, path, 1, [bytes(32)]))


@pytest.mark.django_db
@many
@given(TEXT | TEXT.map("Bearer {}".format) | st.just("Bearer " + "x" * 10_000))
def test_a_token_is_known_or_the_call_is_refused(header: str) -> None:
    refusal = refusal_of(NotAuthenticated, read_token, header)

    assert refusal if header else refusal is None


@many
@given(st.dictionaries(st.just("request_id") | TEXT, JSON, max_size=2), st.none() | TEXT)
def test_the_key_of_a_request_is_one_or_is_refused(body: dict[str, Any], header: str | None) -> None:
    request = request_with_query()
    request.META |= {} if header is None else {KEY_HEADER: header}
    refusal = refusal_of(Invalid, read_key, request, body)

    assert refusal is None or refusal.facts["errors"].keys() <= {"request_id", "Idempotency-Key"}


@many
@given(st.binary(max_size=40) | st.fixed_dictionaries({"wait": JSON}).map(finite).map(orjson.dumps))
@example(b'{"wait": 1e308}')
@example(b'{"wait": true}')
def test_a_long_poll_waits_no_longer_than_allowed(body: bytes) -> None:
    assert 0 <= long_poll._wait_in_body(body) <= long_poll.MAX_WAIT_SECONDS
