"""A fixed clock that only the test shifts."""

from collections.abc import Iterator

import pytest
import time_machine


@pytest.fixture
def clock() -> Iterator[time_machine.Traveller]:
    from tests.machines.worlds import fixed_clock

    with fixed_clock() as traveller:
        yield traveller
