"""Both servers receive and send artifacts in bounded memory, and keep nothing of a broken upload."""

from __future__ import annotations

import hashlib
import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import psutil
import pytest

from statecore.machines.task import Task
from statecore.project.commands import REST
from statecore.records import Artifact, ArtifactContent
from tests.support import forked, world
from tests.support import site as sites
from tests.support.site import ROOT, Site, free_port
from tests.support.waiting import is_listening, until

pytestmark = pytest.mark.once_on("postgres")
PIECE = os.urandom(1_048_576)
PIECES = 96
SPARE = 48 * 1_048_576  # more than the buffers of a server, and less than the content


class Server:
    def __init__(self, url: str, process: psutil.Process, home: Path, token: str) -> None:
        self.url, self.process, self.home = f"{url}/api/v1/tasks/t1/artifacts/", process, home
        self.headers = {"Authorization": f"Bearer {token}"}

    @property
    def memory(self) -> int:
        return sum(each.memory_info().rss for each in [self.process, *self.process.children(recursive=True)])


@contextmanager
def rest(site: Site, log: Path) -> Iterator[tuple[str, psutil.Process]]:
    """Starts granian, which serves REST behind nginx."""
    port = free_port()
    with log.open("wb") as output:
        process = forked.Popen([*REST, "--port", str(port)], cwd=ROOT, env=site.environ, stdout=output, stderr=output)
    try:
        until(lambda: is_listening(port), 60)
        yield f"http://127.0.0.1:{port}", psutil.Process(process.pid)
    finally:
        # Its child, which serves, must not outlive it.
        process.kill()
        process.wait(20)
        until(lambda: not is_listening(port), 20)


@pytest.fixture(params=["uvicorn", "granian"])
def server(request: pytest.FixtureRequest, site: Site, tmp_path: Path) -> Iterator[Server]:
    world.task(id="t1")
    token, home = sites.token("operate"), Path(os.environ["STATECORE_HOME"])
    assert site.process is not None
    if request.param == "uvicorn":
        yield Server(site.url, psutil.Process(site.process.pid), home, token)
        return
    with rest(site, tmp_path / "rest.log") as (url, process):
        yield Server(url, process, home, token)


def _generate() -> Iterator[bytes]:
    for number in range(PIECES):
        yield number.to_bytes(4, "big") + PIECE[4:]


def test_a_large_artifact_passes_through_in_bounded_memory(server: Server) -> None:
    size = PIECES * len(PIECE)
    with httpx.Client(headers=server.headers, timeout=120) as client:
        client.put(f"{server.url}warm", content=b"warm")
        before = server.memory

        stored = client.put(f"{server.url}big", content=_generate(), headers={"Content-Length": str(size)})

        assert (stored.status_code, stored.json()["size"]) == (201, size), stored.text
        received, digest = 0, hashlib.sha256()
        with client.stream("GET", f"{server.url}big") as response:
            for data in response.iter_bytes():
                received += len(data)
                digest.update(data)
    assert (received, digest.hexdigest()) == (size, stored.json()["sha256"])
    assert server.memory - before < SPARE


def test_an_upload_that_breaks_off_leaves_nothing(server: Server) -> None:
    address = urlsplit(server.url)
    with socket.create_connection((str(address.hostname), int(address.port or 0))) as connection:
        request = f"PUT {address.path}x HTTP/1.1\r\nHost: localhost\r\nAuthorization: {server.headers['Authorization']}"
        connection.sendall(f"{request}\r\nContent-Length: 1000000\r\n\r\n".encode() + b"x" * 300_000)
    # A later call is served after the broken one has ended.
    until(lambda: httpx.get(server.url, headers=server.headers).status_code == 200)
    files = [path for path in server.home.iterdir() if path.is_file() and path.stat().st_size == 300_000]
    assert (files, Artifact.objects.count(), ArtifactContent.objects.count()) == ([], 0, 0)
    assert Task.objects.get(pk="t1").version == 1


@pytest.mark.parametrize(("headers", "status"), [({}, 411), ({"Content-Length": str(2**40)}, 413)])
def test_a_body_without_or_beyond_a_limit_is_refused(server: Server, headers: dict[str, str], status: int) -> None:
    def pieces() -> Iterator[Any]:
        yield from [b"x" * 65_536] * 50_000

    refused = httpx.put(
        f"{server.url}x", content=pieces() if headers else iter([b"x"]), headers={**server.headers, **headers}
    )
    assert (refused.status_code, refused.headers["Content-Type"]) == (status, "application/problem+json")


def test_a_large_body_of_a_caller_without_a_valid_token_is_refused_before_it_is_read(server: Server) -> None:
    address = urlsplit(server.url)
    for authorization in ("", "Authorization: Bearer wrong\r\n"):
        with socket.create_connection((str(address.hostname), int(address.port or 0)), timeout=20) as connection:
            request = f"PUT {address.path}x HTTP/1.1\r\nHost: localhost\r\n{authorization}"
            connection.sendall(f"{request}Content-Length: 200000000\r\n\r\n".encode())
            assert connection.recv(12) == b"HTTP/1.1 401"


def test_a_body_of_another_call_is_limited_before_it_is_written_to_disk(site: Site) -> None:
    pieces = iter([b"x" * 65_536] * 50_000)
    refused = httpx.post(f"{site.url}/api/v1/workers/", content=pieces, headers={"Content-Type": "application/json"})
    assert (refused.status_code, refused.json()["code"]) == (413, "too_large")
