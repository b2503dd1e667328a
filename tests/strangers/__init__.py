"""The OpenAPI document in the hands of tools that know nothing of Statecore: linters and generators of clients."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
