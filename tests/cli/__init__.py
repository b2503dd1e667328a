"""The command line, run as real processes against the real server."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
