"""The Python client: against a server that misbehaves, and against the real one."""

import pytest

pytestmark = pytest.mark.once_on("sqlite")
