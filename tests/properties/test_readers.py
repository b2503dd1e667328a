"""Plans, files and streams of whatever contents are understood, or refused in the way that is documented."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import orjson
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from api import authentication, bodies, idempotency
from api.client import StatecoreError
from api.client.retries import Patience
from api.client.stream import Lines, Stream
from api.live import long_poll
from api.refusals import NotAuthenticated
from statecore import scheduling
from statecore.integrity import retired_file
from statecore.integrity.retired_file import NotAsSealed
from statecore.journal import digest
from statecore.kernel.refusals import Invalid, Refusal
from statecore.records import Seal
from statecore.sinks import journal_file
from tests.properties.parsing import JSON, TEXT, asking, few, many, plain, refusal_of
from tests.properties.support import rolled_back
from tests.support import world

IDS = st.sampled_from(["a", "b", "c", "PH-1"]) | JSON


def objects(*names: str, **inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    """With an id mostly, and any of these members."""
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
        body = bodies._decoded(orjson.dumps(plain(plan)))
        scheduling.submit(body, actor=world.operator())

    with rolled_back():
        world.phase()
        refusal = refusal_of(Refusal, submit)

    assert refusal is None or refusal.detail


LINES = st.sampled_from([b"data: ", b"event: resnapshot", b"event: x", b"id: 7", b"id: -1", b"id: \xd9\xa3", b":", b""])
TOLD = JSON | st.fixed_dictionaries({"event": JSON}, optional={"position": JSON})
BYTES = LINES | st.binary(max_size=20) | TOLD.map(lambda told: b"data: " + orjson.dumps(plain(told)))


@many
@given(st.lists(BYTES, max_size=8).map(b"\n".join))
@example(b'data: {"event": {}}\n\n')
def test_a_stream_is_heard_or_said_to_be_garbled(heard: bytes) -> None:
    stream = Stream(0, {}, Patience())

    def listen() -> None:
        for line in Lines().add(heard + b"\n\n"):
            stream.hear(line)

    assert str(refusal_of(StatecoreError, listen) or "heard")
    assert (stream.position or 0) >= 0


@many
@given(st.lists(BYTES | st.builds(lambda at: b'{"position":%d}' % at, st.integers(-1, 9)), max_size=6).map(b"\n".join))
def test_the_end_of_a_journal_file_is_found_whatever_it_holds(written: bytes) -> None:
    lines = written.split(b"\n")

    assert all(told is None or isinstance(told["position"], int) for told in map(journal_file._parsed, lines))
    assert all(journal_file._parsed(line) is None for line in lines), "without its end a line is not whole"
    assert all(isinstance(told, dict | None) for told in (journal_file._parsed(line + b"\n") for line in lines))


def sealed(told: Any) -> bytes:
    body = orjson.dumps(plain(told)).decode()
    return orjson.dumps({"position": 1, "body": body, "hash": digest(body)})


@few
@given(
    st.lists(BYTES | JSON.map(sealed) | JSON.map(plain).map(orjson.dumps), max_size=3).map(b"\n".join), st.booleans()
)
def test_a_retired_file_of_whatever_contents_is_not_as_sealed(
    tmp_path_factory: Any, written: bytes, packed: bool
) -> None:
    path = Path(tmp_path_factory.mktemp("retired")) / "file.gz"
    path.write_bytes(gzip.compress(written) if packed else written)
    seal = Seal(first_position=1, last_position=1, root="0" * 64)

    assert str(refusal_of(NotAsSealed, retired_file.contents, path, [seal]))


@pytest.mark.django_db
@many
@given(TEXT | TEXT.map("Bearer {}".format) | st.just("Bearer " + "x" * 10_000))
def test_a_token_is_known_or_the_call_is_refused(header: str) -> None:
    refusal = refusal_of(NotAuthenticated, authentication.read, header)

    assert refusal if header else refusal is None


@many
@given(st.dictionaries(st.just("request_id") | TEXT, JSON, max_size=2), st.none() | TEXT)
def test_the_key_of_a_request_is_one_or_is_refused(body: dict[str, Any], header: str | None) -> None:
    request = asking()
    request.META |= {} if header is None else {idempotency.HEADER: header}
    refusal = refusal_of(Invalid, idempotency.key_of, request, body)

    assert refusal is None or refusal.facts["errors"].keys() <= {"request_id", "Idempotency-Key"}


@many
@given(st.binary(max_size=40) | st.fixed_dictionaries({"wait": JSON}).map(plain).map(orjson.dumps))
@example(b'{"wait": 1e308}')
@example(b'{"wait": true}')
def test_who_waits_for_work_waits_no_longer_than_is_allowed(body: bytes) -> None:
    assert 0 <= long_poll._seconds(body) <= long_poll.LONGEST_WAIT
