"""Generated actors and fields: valid for a trigger, and invalid."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from statecore.kernel.actors import THE_SYSTEM, Actor, Channel, Kind
from statecore.kernel.flow import Flow
from statecore.kernel.transition import Param
from statecore.transitions import Category
from tests.races.contest import operator

ACTORS = st.sampled_from(
    [
        THE_SYSTEM,
        operator("ada"),
        Actor.agent("agent-7"),
        Actor.agent("Zoë «the fast» 🚀 O'Neil"),
        Actor("nobody", Kind.OPERATOR, Channel.REST),
    ]
)
# Values that a JSON parser returns and no database stores unchanged.
NASTY_TEXTS = ("", "\0", "nul\0inside", "\ud800", "x" * 300, "'; --", '"\\', "é\u2028🚀", "{}", "null")
TEXTS = st.one_of(st.sampled_from(NASTY_TEXTS), st.text(max_size=12))
NUMBERS = st.one_of(
    st.integers(-3, 5),
    st.sampled_from([2**15, 2**31 - 1, 2**31, -(2**31), 2**63, 2**70]),
    st.floats(allow_nan=True, allow_infinity=True),
)
ATOMS = st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS)
JSON = st.recursive(
    ATOMS,
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=5,
)
REASONS = st.one_of(st.just(""), st.just("seen to be wrong by hand"), TEXTS)
METADATA = st.one_of(st.just({}), st.dictionaries(TEXTS, JSON, max_size=2))
CATEGORIES = st.sampled_from([*Category.values, "whim"])

FITTING: dict[Any, st.SearchStrategy[Any]] = {
    int: st.integers(0, 3),
    float: st.floats(0, 9, allow_nan=False),
    str: st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=12),
    bool: st.booleans(),
    dict: st.dictionaries(st.text("abc", max_size=3), st.integers(0, 9), max_size=2),
    list: st.lists(st.sampled_from(["w-1", "w-2"]), max_size=3),
    Any: st.none() | st.lists(st.integers(0, 9) | st.sampled_from(["é🚀", ""]) | st.booleans(), max_size=2),
}


def fitting(params: tuple[Param, ...]) -> st.SearchStrategy[dict[str, Any]]:
    """Returns valid fields for a trigger."""
    needed = {param.name: FITTING[param.type] for param in params if param.required}
    others = {param.name: FITTING[param.type] for param in params if not param.required}
    return st.fixed_dictionaries(needed, optional=others)


def unfitting(params: tuple[Param, ...]) -> st.SearchStrategy[dict[str, Any]]:
    names = [param.name for param in params] + ["state", "nonsense"]
    return st.dictionaries(st.sampled_from(names), JSON, max_size=3)


def fields_of(flow: Flow, trigger: str) -> st.SearchStrategy[dict[str, Any]]:
    params = next((move.params for move in flow.transitions if move.trigger == trigger), ())
    return st.one_of(fitting(params), unfitting(params))
