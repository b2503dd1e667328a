"""Headers, form fields and filters of any content are accepted or refused."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statecore.api.filters import AS_TEXT, apply_filters, derive_filters, normalize_filters
from statecore.api.live.access import check_host, check_origin
from statecore.dashboard.pages.forms import read_fields
from statecore.kernel.refusals import Invalid, PermissionDenied
from statecore.kernel.transition import Param
from statecore.machines.task import Task
from tests.properties.parsing import JSON, TEXT, many, refusal_of

pytestmark = pytest.mark.once_on("sqlite")

HOSTS = TEXT | st.sampled_from(["[", "]:1", "[::1]:80", "127.0.0.1:8000", "http://[", "http://x:99999", "null", "a@b"])


def scope(**headers: str) -> dict[str, Any]:
    return {"headers": [(name.encode(), value.encode("utf-8")) for name, value in headers.items()]}


@many
@given(HOSTS, HOSTS)
@example("127.0.0.1", "http://[")
def test_an_origin_is_accepted_or_refused(host: str, origin: str) -> None:
    refusals = [refusal_of((Invalid, PermissionDenied), check, scope(host=host, origin=origin)) for check in CHECKS]

    assert all(refusal is None or refusal.facts for refusal in refusals)


CHECKS = (check_host, check_origin)


@many
@given(st.sampled_from([int, bool, dict, list, str]), TEXT | st.just("[" * 100_000) | JSON.map(str))
def test_a_field_of_a_form_is_a_value_or_the_text_that_was_typed(kind: type, text: str) -> None:
    (read,) = read_fields((Param("x", kind, nullable=False, required=True),), {"field_x": text}).values()

    assert read == text or kind is not str


@many
@given(st.dictionaries(st.sampled_from([*derive_filters(Task), "nonsense"]), JSON, min_size=1, max_size=3))
def test_a_filter_of_a_body_finds_what_it_says_or_is_refused_by_name(given: dict[str, Any]) -> None:
    refusal = refusal_of(Invalid, lambda: apply_filters(Task.objects.all(), normalize_filters(Task, given)))

    assert refusal is None or refusal.facts["errors"].keys() <= given.keys()


@many
@given(st.integers(-(2**33), 2**33).map(str) | st.from_regex(AS_TEXT["integer"]["pattern"], fullmatch=True))
@example("2147483647")
@example("2147483648")
@example("-2147483648")
@example("-2147483649")
def test_a_number_in_a_filter_fits_into_32_bits(text: str) -> None:
    refusal = refusal_of(ValueError, derive_filters(Task)["priority"].parse, text)

    assert (refusal is None) is (-(2**31) <= int(text) < 2**31)
