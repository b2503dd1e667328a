"""Tests of the composition root."""

import pytest

pytestmark = pytest.mark.once_on("sqlite")
