import pytest

pytestmark = pytest.mark.once_on("sqlite")
