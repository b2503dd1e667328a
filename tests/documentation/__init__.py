"""The documentation: links, commands and examples work, and the reference is complete."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
