"""Parts of the kernel: ids, actors, trigger fields, backoff, storable text."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
import time_machine
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from statecore.kernel import clock
from statecore.kernel.actors import Actor
from statecore.kernel.clock import rfc3339
from statecore.kernel.ids import CROCKFORD, is_valid_id, new_id
from statecore.kernel.refusals import Invalid
from statecore.kernel.transition import params_from_signature, validate_params
from statecore.kernel.validation import json_error, text_error

pytestmark = pytest.mark.once_on("sqlite")  # they use no database


def test_an_id_is_a_prefix_and_twenty_six_digits() -> None:
    prefix, digits = new_id("task").split("_")
    assert (prefix, len(digits)) == ("task", 26)
    assert set(digits) <= set(CROCKFORD)
    assert is_valid_id(new_id("task"))


def test_ids_sort_by_the_time_they_were_made() -> None:
    made = []
    for second in range(3):
        with time_machine.travel(datetime(2026, 1, 1, second=second, tzinfo=UTC), tick=False):
            made.append(new_id("evt"))
    assert made == sorted(made)


def test_ids_made_at_the_same_moment_differ() -> None:
    with time_machine.travel(datetime(2026, 1, 1, tzinfo=UTC), tick=False):
        assert len({new_id("evt") for _ in range(1000)}) == 1000


@pytest.mark.parametrize("text", ["", "a b", "ä", "x" * 65, "a/b", "a\n", None, 5, 'a"b'])
def test_what_is_no_id_is_not_taken_for_one(text: object) -> None:
    assert not is_valid_id(text)


@pytest.mark.parametrize("name", ["", 'a"b', "a\\b", "a\nb", "x" * 151])
def test_an_actor_has_a_name_that_needs_no_escape(name: str) -> None:
    with pytest.raises(ValueError, match="actor name"):
        Actor.agent(name)


def test_a_moment_is_spelt_in_utc_with_microseconds() -> None:
    east = timezone(timedelta(hours=2))
    assert rfc3339(datetime(2026, 1, 1, 2, 0, tzinfo=east)) == "2026-01-01T00:00:00.000000Z"


class Sample:
    def move(
        self, count: int, name: str = "", flag: bool = False, ratio: float = 0, more: dict | None = None
    ) -> None: ...


FIELDS = params_from_signature(Sample.move)


@pytest.mark.parametrize(
    ("given_fields", "field"),
    [
        ({}, "count"),
        ({"count": "5"}, "count"),
        ({"count": True}, "count"),
        ({"count": None}, "count"),
        ({"count": 2**31}, "count"),
        ({"count": 1, "flag": 1}, "flag"),
        ({"count": 1, "ratio": float("nan")}, "ratio"),
        ({"count": 1, "name": "a\0b"}, "name"),
        ({"count": 1, "name": "\ud800"}, "name"),
        ({"count": 1, "more": {"a": "\0"}}, "more"),
        ({"count": 1, "more": []}, "more"),
        ({"count": 1, "what": 1}, "what"),
    ],
)
def test_a_field_that_does_not_fit_is_refused_by_name(given_fields: dict, field: str) -> None:
    with pytest.raises(Invalid) as refused:
        validate_params(FIELDS, given_fields)
    assert list(refused.value.facts["errors"]) == [field]


def test_fields_that_fit_are_taken_as_they_are() -> None:
    fitting = {"count": 1, "name": "x", "flag": True, "ratio": 1, "more": None}
    assert validate_params(FIELDS, fitting) == fitting


def test_a_field_of_an_unknown_kind_cannot_be_declared() -> None:
    def move(self, when: datetime) -> None: ...

    with pytest.raises(TypeError, match="when"):
        params_from_signature(move)


@given(tries=st.integers(1, 10_000), name=st.text(min_size=1, max_size=20))
def test_a_wait_is_between_half_and_all_of_its_length(tries: int, name: str) -> None:
    longest = min(900, 5 * 2 ** min(tries - 1, 30))
    assert longest / 2 <= clock.retry_delay(name, tries).total_seconds() <= longest
    assert clock.retry_delay(name, tries) == clock.retry_delay(name, tries)


@pytest.mark.parametrize("value", ["a\0b", "\ud800"])
def test_text_that_no_database_keeps_is_refused(value: str) -> None:
    assert text_error(value)
    assert json_error({"a": [value]})
    assert json_error({value: 1})


@pytest.mark.parametrize(
    "value", [float("nan"), float("inf"), {1: 2}, {"a": {1, 2}}, datetime.now(UTC), 2**70, "x" * 300_000]
)
def test_what_is_not_plain_json_is_refused(value: object) -> None:
    assert json_error({"a": value} if not isinstance(value, dict) else value)


def test_nesting_without_end_is_refused() -> None:
    deep: list = []
    for _ in range(100_000):
        deep = [deep]
    assert json_error(deep)


# Without limits of time, which a busy machine exceeds.
@settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers(-(2**53), 2**53)
        | st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")),
        lambda inner: st.lists(inner) | st.dictionaries(st.text("ab\\u0"), inner),
        max_leaves=10,
    )
)
def test_plain_json_is_taken(value: object) -> None:
    assert json_error(value) is None
