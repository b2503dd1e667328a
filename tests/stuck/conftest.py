"""A fixed clock that only the test shifts."""

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
import time_machine


@pytest.fixture(autouse=True)
def clock() -> Iterator[time_machine.Traveller]:
    from tests.machines.worlds import fixed_clock

    with fixed_clock() as traveller:
        yield traveller


@pytest.fixture
def later(clock: Any) -> Callable[..., None]:
    return lambda **duration: clock.shift(timedelta(**duration))
