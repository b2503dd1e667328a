"""The agent, run as a real process against the real server."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
