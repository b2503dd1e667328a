"""Arguments of the command line: each is parsed as field and value or refused, and sent as typed."""

from __future__ import annotations

import json
from argparse import ArgumentTypeError
from typing import Any

import msgspec
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from statecore_client.cli.reading import parse_pair
from statecore_client.cli.transitions import parse_value
from tests.properties.parsing import JSON, TEXT, finite, many, refusal_of

pytestmark = pytest.mark.once_on("sqlite")

NEARLY = st.sampled_from(["NaN", "-Infinity", "1e999", "[", "{}", '"\\ud800"', "01", "1_0", "9" * 5_000, "\0", "٣"])


@many
@given(TEXT | st.builds("{}={}".format, TEXT, TEXT | NEARLY))
@example("=")
@example("a==b")
def test_a_pair_is_a_field_and_its_value_or_is_refused(text: str) -> None:
    refusal = refusal_of(ArgumentTypeError, parse_pair, text)
    name, value = ("", "") if refusal else parse_pair(text)

    assert str(refusal) if refusal else f"{name}={value}" == text
    assert bool(name) is (refusal is None)
    assert "=" not in name


@many
@given(JSON.map(finite))
def test_a_value_that_is_json_is_read_as_what_it_says(value: Any) -> None:
    assert parse_value(json.dumps(value)) == value


@many
@given(TEXT | NEARLY | JSON.map(json.dumps))
@example("[" * 100_000)
@example("[NaN]")
def test_a_value_is_sent_as_it_was_read(text: str) -> None:
    """JSON has no NaN: it would arrive as null."""
    value = parse_value(text)
    refusal = refusal_of(UnicodeEncodeError, msgspec.json.encode, value)

    assert refusal or msgspec.json.decode(msgspec.json.encode(value)) == value
