"""Every test asserts something: an assert, a `pytest.raises`, a browser `expect`, or a helper that asserts."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

TESTS = Path(__file__).parents[1]
ASSERTING_CALLS = {
    "raises", "warns", "fail", "expect", "run_state_machine_as_test",
    "django_assert_num_queries", "django_assert_max_num_queries",
}  # fmt: skip
# A test named like this states that the call must succeed, and needs no assertion.
SUCCEEDS = "does_not_raise"


@dataclass(frozen=True)
class Function:
    """A function of the tests: where it is, whether it asserts, and the functions and fixtures it uses."""

    place: str
    name: str
    asserts: bool
    uses: frozenset[str]


def functions_of(source: str, file: str) -> Iterator[Function]:
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield read_function(node, file)


def read_function(function: ast.FunctionDef | ast.AsyncFunctionDef, file: str) -> Function:
    asserts, uses = False, {argument.arg for argument in function.args.args}
    for node in ast.walk(function):
        if isinstance(node, ast.Call):
            uses.add(getattr(node.func, "attr", "") or getattr(node.func, "id", ""))
        elif isinstance(node, ast.Assert) or (isinstance(node, ast.Raise) and "AssertionError" in ast.dump(node)):
            asserts = True
    asserts = asserts or bool(ASSERTING_CALLS & uses)
    return Function(f"{file}:{function.lineno}", function.name, asserts, frozenset(uses))


def names_that_assert(functions: Iterable[Function]) -> set[str]:
    """Names whose every definition asserts, itself or through a helper."""
    definitions = defaultdict(list)
    for function in functions:
        definitions[function.name].append(function)
    found: set[str] = set()
    while True:
        more = {
            name
            for name, same_name in definitions.items()
            if all(function.asserts or found & function.uses for function in same_name)
        }
        if more == found:
            return found
        found = more


def without_assertion(functions: list[Function]) -> list[Function]:
    helpers = names_that_assert(functions)
    tests = (function for function in functions if function.name.startswith("test_") and SUCCEEDS not in function.name)
    return [test for test in tests if not test.asserts and not helpers & test.uses]


def test_every_test_asserts_something() -> None:
    functions = [
        function
        for path in sorted(TESTS.rglob("*.py"))
        for function in functions_of(path.read_text(), str(path.relative_to(TESTS.parent)))
    ]
    found = "\n".join(f"{test.place}: {test.name}" for test in without_assertion(functions))
    assert not found, f"add an assertion, or say {SUCCEEDS} in the name where success is the whole test:\n{found}"


def test_a_test_without_an_assertion_is_found() -> None:
    source = """
def check(value): assert value
def act(value): return value
def test_one(): check(act(1))
def test_two(): act(1)
def test_three():
    with pytest.raises(ValueError): act(1)
def test_four_does_not_raise(): act(1)
"""
    assert [test.name for test in without_assertion(list(functions_of(source, "example.py")))] == ["test_two"]
