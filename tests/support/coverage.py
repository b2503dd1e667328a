"""Measures which lines the tests run, into the file that STATECORE_TEST_COVERAGE names.

Tracing every test would take half as much time again. Further cases of a parametrized test and the examples of
Hypothesis seldom run other lines, so they are not traced.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pytest
from coverage import Coverage

PATH = os.environ.get("STATECORE_TEST_COVERAGE")
tracer = Coverage(data_file=PATH, data_suffix=True) if PATH else None
traced: set[str] = set()

# Lines that run when a module is imported count too.
if tracer:
    tracer.start()


def pytest_collection_finish() -> None:
    if tracer:
        tracer.stop()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    name = item.nodeid.partition("[")[0]
    if tracer is None or name in traced or item.get_closest_marker("hypothesis"):
        return (yield)
    traced.add(name)
    with tracer.collect():
        return (yield)


def pytest_unconfigure() -> None:
    if tracer:
        tracer.stop()
        tracer.save()
