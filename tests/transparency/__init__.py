"""Proofs without a server: Merkle tree, signed notes, checkpoints, and copies of the journal."""

import pytest

pytestmark = pytest.mark.once_on("postgres")
