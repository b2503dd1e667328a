"""The MCP tools, called with the official client over HTTP."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
