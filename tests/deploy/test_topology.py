"""An installation with PostgreSQL, Redis, nginx and two of each process works and survives failures."""

from __future__ import annotations

import json
import re
import signal
import threading
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from socket import create_connection
from typing import Any

import httpx
import psutil
import psycopg
import pytest
from websockets.sync.client import ClientConnection, connect

from statecore_client import Invalid
from tests.deploy.topology import (
    NGINX,
    OPEN_FILES,
    OPENSSL,
    PASSWORD,
    Topology,
    running,
)
from tests.support import databases, redis
from tests.support.waiting import until

PATIENCE = 20.0
PROTOCOL = "2025-06-18"

pytestmark = pytest.mark.skipif(
    not (NGINX and OPENSSL), reason="nginx and openssl are needed: apt-get install nginx-light openssl"
)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Topology]:
    directory = tmp_path_factory.mktemp("deploy")
    with (
        redis.running(directory / "redis.sock") as broker,
        running(directory, databases.create_database(directory), broker) as topology,
    ):
        yield topology


# A task that no worker here claims, so that it does not disturb the tests that claim, in whichever order they run.
UNCLAIMED = {"required_capabilities": ["none of the workers"]}


def plan(name: str, *tasks: dict[str, Any]) -> dict[str, Any]:
    return {"id": name, "phase": "PH-1", "workstreams": [{"id": f"{name}-w", "tasks": list(tasks)}], "start": True}


@pytest.fixture(scope="module")
def phase(site: Topology) -> None:
    with site.client() as statecore:
        statecore.create("phases", id="PH-1")


def test_plain_http_is_redirected_to_https(site: Topology) -> None:
    answer = httpx.get(f"http://127.0.0.1:{site.plain}/login/?next=/", follow_redirects=False)

    assert (answer.status_code, answer.headers["location"]) == (301, "https://127.0.0.1/login/?next=/")


def log_in(browser: httpx.Client, password: str, **headers: str) -> httpx.Response:
    page = browser.get("/login/")
    assert page.status_code == 200
    found = re.search(r'name="csrfmiddlewaretoken" value="([^"]+)"', page.text)
    assert found
    form = {"username": "ada", "password": password, "csrfmiddlewaretoken": found[1]}
    return browser.post("/login/", data=form, headers={"Referer": str(page.url), **headers})


def test_an_operator_can_log_in(site: Topology) -> None:
    with site.browser() as browser:
        answer = log_in(browser, PASSWORD)

        assert answer.status_code == 302, answer.text
        assert "Secure" in answer.headers["set-cookie"]
        assert answer.headers["strict-transport-security"]
        assert browser.get("/start/").status_code == 200


def test_failed_logins_record_the_address_seen_by_the_proxy(site: Topology) -> None:
    """Neither the proxy's address nor one that the client claims is recorded."""
    with site.browser(local_address="127.0.0.7") as browser:
        log_in(browser, "a wrong guess", **{"X-Forwarded-For": "192.0.2.1"})

    with psycopg.connect(site.database) as connection:
        rows = connection.execute("SELECT host(ip_address) FROM axes_accessattempt").fetchall()
    assert rows == [("127.0.0.7",)]


def test_calls_sockets_and_streams_return_the_same_event(site: Topology, phase: None) -> None:
    with site.client() as statecore:
        statecore.submit_plan(plan("seen", {"id": "seen-1", **UNCLAIMED}))
        by_call = {event.entity_id for event in statecore.list_history("tasks", "seen-1")}
        by_stream = first_position_on_stream(site, "seen-1")
    by_socket = first_position_on_socket(site, "seen-1")

    assert by_call == {"seen-1"}
    assert by_stream
    assert by_stream == by_socket


def first_position_on_stream(site: Topology, entity: str) -> int:
    """Returns the position of the entity's first event."""
    with site.client() as statecore, closing(statecore.stream_events(after=0, entity=entity)) as events:
        return int(next(events).position)


def socket(site: Topology, path: str) -> ClientConnection:
    address = site.url.replace("https", "wss")
    return connect(f"{address}{path}", additional_headers=site.bearer, ssl=site.trust, open_timeout=PATIENCE)


def first_position_on_socket(site: Topology, entity: str) -> int:
    with socket(site, f"/ws/events/?after=0&entity={entity}") as ws:
        while True:
            message = json.loads(ws.recv(timeout=PATIENCE))
            if message["type"] == "events":
                return int(message["events"][0]["position"])


def test_a_body_that_is_too_large_is_refused_like_by_the_api(site: Topology) -> None:
    with site.client() as statecore, pytest.raises(Invalid) as refused:
        statecore.create("ingestion-jobs", metadata={"a": "x" * 10_000_000})

    assert refused.value.code == "too_large"


@pytest.mark.parametrize("name", ["live@", "rest@", "nginx"])
def test_servers_raise_their_limit_of_open_files(site: Topology, name: str) -> None:
    (first, *_others) = [process.pid for unit, process in site.running.items() if name in unit]
    family = [psutil.Process(first), *psutil.Process(first).children(recursive=True)]

    assert max(open_file_limit(process.pid) for process in family) > 2 * OPEN_FILES
    assert "exceed open file resource limit" not in (site.directory / "nginx.log").read_text()


def open_file_limit(pid: int) -> int:
    found = re.search(r"Max open files +(\d+)", Path(f"/proc/{pid}/limits").read_text())
    assert found
    return int(found[1])


def test_the_board_socket_sends_a_snapshot(site: Topology) -> None:
    with socket(site, "/ws/board/") as ws:
        assert json.loads(ws.recv(timeout=PATIENCE))["type"] == "snapshot"


WAITING = {
    "query": {"params": {"wait": 30}},
    "preference": {"headers": {"Prefer": "respond-async, wait=30"}},
    "body": {"json": {"wait": 30}},
}


@pytest.mark.parametrize("how", WAITING)
def test_a_claim_waits_until_there_is_work(site: Topology, phase: None, how: str) -> None:
    taken: list[str] = []
    with site.client() as statecore:
        worker = statecore.register_worker(["python"], worker_id=f"patient-{how}")

        def wait() -> None:
            taken.extend(each["id"] for each in claim(site, worker.id, **WAITING[how]))

        before = count_claims(site, "live@")
        waiting = threading.Thread(target=wait)
        waiting.start()
        until(lambda: count_claims(site, "live@") > before, 30)
        statecore.submit_plan(plan(f"waited-for-{how}", {"id": f"waited-for-{how}-1"}))
        waiting.join(30)
        assert taken
        (held,) = statecore.list_held_tasks(worker.id)
        statecore.complete_task(held.id, attempt=held.attempt or 1)


def test_a_claim_that_does_not_wait_is_served_by_the_wsgi_server(site: Topology) -> None:
    with site.client() as statecore:
        worker = statecore.register_worker(["python"], worker_id="brief")
        before = count_claims(site, "live@"), count_claims(site, "rest@")

        assert statecore.claim_tasks(worker.id) == []
        statecore.fire("workers", worker.id, "shutdown_requested")

    until(lambda: count_claims(site, "rest@") > before[1], 30)
    assert count_claims(site, "live@") == before[0]


def claim(site: Topology, worker: str, *, headers: dict[str, str] | None = None, **request: Any) -> Any:
    with site.browser() as browser:
        path = f"/api/v1/workers/{worker}/claim/"
        return browser.post(path, headers={**site.bearer, **(headers or {})}, timeout=60, **request).json()["tasks"]


def count_claims(site: Topology, unit: str) -> int:
    return sum(site.log(name).count("/claim/") for name in site.running if unit in name)


def test_mcp_tools_work_behind_the_proxy(site: Topology, phase: None) -> None:
    hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": {"name": "test", "version": "1"}}
    read = {"name": "get_entity", "arguments": {"collection": "phases", "id": "PH-1"}}

    assert call_mcp(site, "initialize", hello)["serverInfo"]
    result = call_mcp(site, "tools/call", read)
    assert (result["isError"], result["structuredContent"].get("id")) == (False, "PH-1"), result


def call_mcp(site: Topology, method: str, params: dict[str, Any]) -> dict[str, Any]:
    with site.browser() as browser:
        call = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        accept = {"Accept": "application/json, text/event-stream", "MCP-Protocol-Version": PROTOCOL, **site.bearer}
        answer = browser.post("/mcp/", json=call, headers=accept)

    assert answer.status_code == 200, answer.text
    result: dict[str, Any] = answer.json()["result"]
    return result


def test_every_web_process_serves_the_counts_of_all_processes(site: Topology, phase: None) -> None:
    """The sequencer counts shortly after the commit; then every process serves the count."""
    with site.client() as statecore:
        statecore.submit_plan(plan("counted", {"id": "counted-1", **UNCLAIMED}))
    with site.browser() as browser:

        def scrape() -> str:
            return browser.get("/metrics", headers={"Authorization": f"Bearer {'m' * 32}"}).text

        until(lambda: "state_transitions_total{" in scrape())
        assert all("state_transitions_total{" in scrape() for _ in range(4))


def test_the_doctor_reports_only_expected_warnings(site: Topology, phase: None) -> None:
    report = json.loads(site.manage("doctor", "--json", exit_code=1))

    found = {finding["check"]: finding["message"] for finding in report["findings"] if finding["level"] != "ok"}
    assert report["status"] == "warning", found
    # In tests, fsync is off, the token does not expire and there is no export.
    assert set(found) <= {"database", "tokens", "backup", "packages"}, found
    assert "statecore.example.org" in str(report["findings"])


def test_nginx_uses_restarted_servers_immediately(site: Topology) -> None:
    both = [unit for unit in site.units if "rest@" in unit.name]
    for unit in both:
        site.kill(unit.name)
    assert {site.status("/healthz") for _ in range(20)} == {502}

    for unit in both:
        site.start_unit(unit)
    for unit in both:
        until(lambda unit=unit: accepts(int(site.ports[unit.instance])), PATIENCE)  # type: ignore[misc]

    assert {site.status("/healthz") for _ in range(20)} == {200}


def accepts(port: int) -> bool:
    with suppress(ConnectionRefusedError), create_connection(("127.0.0.1", port), timeout=5):
        return True
    return False


def test_one_of_each_process_can_fail(site: Topology, phase: None) -> None:
    """Only the next test may follow, because killed processes are not restarted."""
    (leader,) = site.leaders()
    ports = sorted(site.ports)
    for name in (
        leader,
        f"statecore-rest@{ports[0]}.service",
        f"statecore-live@{ports[2]}.service",
        "statecore-worker@1.service",
    ):
        site.kill(name)

    with site.client() as statecore:
        for number in range(20):
            statecore.create("phases", id=f"after-{number}")
        statecore.submit_plan(plan("after", {"id": "after-1", "timeout_sec": 1, "max_retries": 1}))
        assert first_position_on_stream(site, "after-1") == first_position_on_socket(site, "after-1")
        worker = statecore.register_worker(["python"], worker_id="survivor", max_concurrent_tasks=10)
        (task,) = [task for task in statecore.claim_tasks(worker.id, limit=10, wait=20) if task.id == "after-1"]
        # No report is sent: the sweeps of the remaining worker process time the task out and queue it again.
        until(lambda: statecore.get("tasks", task.id)["retry_count"] == 1, 60)

    assert site.leaders() != [leader]
    assert len(site.leaders()) == 1
    until(lambda: site.status("/readyz") == 200)


def test_every_log_line_is_json_and_worth_reading(site: Topology) -> None:
    """From the first line to the last: probes and heartbeats are not logged, and no task that has expired."""
    with site.client() as statecore:
        statecore.send_heartbeat(statecore.register_worker(["python"], worker_id="regular").id)
    processes = {name: process for name, process in site.running.items() if name != "nginx"}
    for process in processes.values():
        process.terminate()
    assert {process.wait(PATIENCE) for process in processes.values()} <= {0, -signal.SIGTERM}

    files = site.directory.glob("statecore-*.log")
    lines = [json.loads(line) for file in files for line in file.read_text().splitlines()]
    requests = [line["request"] for line in lines if line["event"] == "request"]
    assert any("/claim/" in each for each in requests)
    assert not [each for each in requests if re.search("healthz|readyz|metrics|/heartbeat/", each)]
    assert not [line for line in lines if "revoked" in line["event"]]
