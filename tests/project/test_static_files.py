"""Static files of the console and the admin, requested from the real servers as a browser requests them."""

from __future__ import annotations

import gzip
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.api import server as wsgi_server
from tests.support import web

pytestmark = pytest.mark.django_db

STATIC = Path(__file__).parents[2] / "static"
# Served with Content-Encoding: gzip, because a packed copy lies beside it.
PACKED = next(f"/static/vendor/{path.stem}" for path in sorted((STATIC / "vendor").glob("*.gz")))
ASSETS = ["/static/dashboard/console.js", "/static/admin/css/base.css", PACKED]


@pytest.fixture(scope="module", params=["uvicorn", "granian"])
def address(
    request: pytest.FixtureRequest, django_db_setup: None, redis_server: str, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """The ASGI server of production, and the WSGI application: both serve static files."""
    home = tmp_path_factory.mktemp(request.param)
    if request.param == "uvicorn":
        with web.running(home, REDIS_URL=redis_server) as running:
            yield running.url
    else:
        with wsgi_server.running(redis_server, home / "web.log") as url:
            yield url


@pytest.mark.parametrize("path", ASSETS)
@pytest.mark.parametrize(("header", "validator"), [("If-None-Match", "ETag"), ("If-Modified-Since", "Last-Modified")])
def test_a_revalidated_file_is_not_modified(address: str, path: str, header: str, validator: str) -> None:
    first = httpx.get(address + path)
    assert first.status_code == 200

    again = httpx.get(address + path, headers={header: first.headers[validator]})

    assert again.status_code == 304
    assert again.content == b""
    assert again.headers["ETag"] == first.headers["ETag"]
    assert again.headers["Cache-Control"] == first.headers["Cache-Control"]


@pytest.mark.parametrize("path", ASSETS)
def test_a_changed_file_is_sent_again(address: str, path: str) -> None:
    answer = httpx.get(address + path, headers={"If-None-Match": '"another"'})

    assert answer.status_code == 200
    assert len(answer.content) > 0


@pytest.mark.parametrize("path", ASSETS)
def test_head_has_the_headers_of_get_and_no_body(address: str, path: str) -> None:
    whole = httpx.get(address + path)

    head = httpx.head(address + path)

    assert head.status_code == 200
    assert head.content == b""
    for name in ("Content-Length", "Content-Type", "ETag", "Last-Modified", "Cache-Control"):
        assert head.headers[name] == whole.headers[name], name


@pytest.mark.parametrize("path", ASSETS)
def test_a_range_is_a_part_of_the_file(address: str, path: str) -> None:
    plain = {"Accept-Encoding": "identity"}
    whole = httpx.get(address + path, headers=plain)

    part = httpx.get(address + path, headers={**plain, "Range": "bytes=2-9"})

    assert part.status_code == 206
    assert part.content == whole.content[2:10]
    assert httpx.head(address + path, headers={**plain, "Range": "bytes=2-9"}).status_code == 206


def test_a_range_beyond_the_end_is_refused(address: str) -> None:
    answer = httpx.get(address + ASSETS[0], headers={"Range": "bytes=99999999-"})

    assert answer.status_code == 416
    assert answer.headers["Content-Range"].startswith("bytes */")


def test_a_packed_copy_is_sent_as_it_is(address: str) -> None:
    with httpx.stream("GET", address + PACKED, headers={"Accept-Encoding": "gzip"}) as answer:
        packed = b"".join(answer.iter_raw())

    assert answer.headers["Content-Encoding"] == "gzip"
    assert gzip.decompress(packed) == (STATIC / PACKED.removeprefix("/static/")).read_bytes()


@pytest.mark.parametrize("path", ASSETS)
def test_other_methods_are_not_allowed(address: str, path: str) -> None:
    answer = httpx.post(address + path)

    assert answer.status_code == 405
    assert answer.headers["Allow"] == "GET, HEAD"
