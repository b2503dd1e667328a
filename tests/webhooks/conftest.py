"""A receiver on loopback, which the settings allow."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from tests.support.receivers import Receiver, receiving


@pytest.fixture(autouse=True)
def allowed(settings: Any) -> None:
    settings.STATECORE_WEBHOOK_HTTP = True
    settings.STATECORE_WEBHOOK_PRIVATE_ADDRESSES = ["127.0.0.0/8"]
    settings.STATECORE_WEBHOOK_TIMEOUT_SECONDS = 1


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as found:
        yield found
