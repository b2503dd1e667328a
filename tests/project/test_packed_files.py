"""Large vendored files are served compressed to clients that accept gzip."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from django.test import Client

VENDOR = Path(__file__).parents[2] / "static" / "vendor"


@pytest.mark.parametrize("packed", sorted(VENDOR.glob("*.gz")), ids=lambda path: path.name)
def test_a_compressed_file_equals_the_plain_one(packed: Path, client: Client, db: Any) -> None:
    plain = packed.with_suffix("")
    assert gzip.decompress(packed.read_bytes()) == plain.read_bytes()

    answer = client.get(f"/static/vendor/{plain.name}", headers={"accept-encoding": "gzip"})
    assert answer["Content-Encoding"] == "gzip"
    assert len(answer.content) == packed.stat().st_size
