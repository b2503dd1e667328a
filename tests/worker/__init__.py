import pytest

pytestmark = pytest.mark.once_on("postgres")
