"""The deployment files are valid, and their commands run."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
