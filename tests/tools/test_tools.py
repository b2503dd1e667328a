"""The tools a language model can list and call depend on its token's scope; it always acts as an agent."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
import time_machine
from mcp import Client, MCPError
from mcp.client.streamable_http import streamable_http_client

from statecore import __version__
from statecore.journal import Event
from statecore.kernel import registry
from statecore.kernel.clock import now
from statecore.machines.run import Run
from statecore.machines.task import Task
from statecore_client import Client as SyncClient
from tests.agent.process import claim_as_w1, state, submit
from tests.api.test_rights import invalid_tokens
from tests.support import site as sites
from tests.support import world
from tests.support.plans import insert_copies
from tests.support.site import Site

READ_TOOLS = {
    "describe_machine", "explain", "get_entity", "get_history", "get_stats", "list_approvals", "list_attempts",
    "list_artifacts", "list_entities", "list_holds", "list_machines", "list_stuck", "read_log",
}  # fmt: skip


def run_with_client(site: Site, token: str, action: Callable[[Client], Awaitable[Any]], **further: str) -> Any:
    async def run() -> Any:
        headers = {"Authorization": f"Bearer {token}", **further}
        async with (
            httpx2.AsyncClient(headers=headers, timeout=30) as http,
            Client(streamable_http_client(f"{site.url}/mcp/", http_client=http)) as client,
        ):
            return await action(client)

    return asyncio.run(run())


def call_tool(site: Site, token: str, tool: str, **arguments: Any) -> Any:
    return run_with_client(site, token, lambda client: client.call_tool(tool, arguments))


def read_refusal(result: Any) -> dict[str, Any]:
    """A refusal is text: clients refuse structured content that does not match the output schema, also of errors."""
    assert result.is_error
    assert result.structured_content is None
    refusal: dict[str, Any] = json.loads(result.content[0].text)
    return refusal


def list_tool_names(site: Site, token: str) -> set[str]:
    listed = run_with_client(site, token, lambda client: client.list_tools())
    return {tool.name for tool in listed.tools}


def last_event(entity_id: str) -> dict[str, Any]:
    return Event.objects.filter(entity_id=entity_id).latest("sequence").as_dict()


def test_a_read_token_lists_only_read_tools(site: Site) -> None:
    listed = run_with_client(site, sites.token("read"), lambda client: client.list_tools())

    assert {tool.name for tool in listed.tools} == READ_TOOLS
    assert all(tool.annotations.read_only_hint and tool.description for tool in listed.tools)


@pytest.mark.parametrize("scope", ["agent", "override"])
def test_a_wider_token_lists_more_tools_but_no_overrides(site: Site, scope: str) -> None:
    seen = list_tool_names(site, sites.token(scope))

    assert seen > READ_TOOLS
    assert {"fire_transition", "claim_task", "submit_plan"} <= seen
    assert not [name for name in seen if "override" in name or "force" in name]


def test_a_read_token_cannot_call_a_tool_it_cannot_list(site: Site) -> None:
    submit({"id": "t1"})
    result = call_tool(site, sites.token("read"), "fail_task", task_id="t1", attempt=1, error="no")

    assert result.is_error
    assert read_refusal(result)["code"] == "unknown_tool"
    assert state("t1") == "queued"


def test_read_tools_return_entities_and_explanations(site: Site) -> None:
    submit({"id": "t1"}, {"id": "t2", "depends_on": ["t1"]})
    token = sites.token("read")

    found = call_tool(site, token, "list_entities", collection="tasks", filters={"state": "blocked"})
    assert [each["id"] for each in found.structured_content["results"]] == ["t2"]
    assert call_tool(site, token, "get_entity", collection="tasks", id="t1").structured_content["state"] == "queued"
    assert call_tool(site, token, "explain", collection="tasks", id="t2").structured_content["waiting_on"]
    assert call_tool(site, token, "get_history", collection="tasks", id="t1").structured_content["events"]
    machines = call_tool(site, token, "list_machines").structured_content["results"]
    assert {machine["entity_type"] for machine in machines} == {flow.entity_type for flow in registry.flows()}


def test_the_server_has_a_version_and_every_tool_an_output_schema(site: Site) -> None:
    async def read(client: Client) -> Any:
        return client.server_info, (await client.list_tools()).tools

    server, listed = run_with_client(site, sites.token("override"), read)

    assert (server.name, server.version) == ("statecore", __version__)
    assert [tool.name for tool in listed if (tool.output_schema or {}).get("type") != "object"] == []


def test_a_prompt_explains_the_loop_of_an_agent(site: Site) -> None:
    async def read(client: Client) -> Any:
        listed = (await client.list_prompts()).prompts
        return listed, await client.get_prompt("work", {"capabilities": "python, docs"}), await client.list_tools()

    listed, prompt, tools = run_with_client(site, sites.token("agent"), read)

    assert [each.name for each in listed] == ["work"]
    text = prompt.messages[0].content.text
    assert "with the capabilities python, docs" in text
    named = set(re.findall(r"`([a-z]+_[a-z_]+)`", text)) - {"lease_lost"}
    assert named
    assert named <= {tool.name for tool in tools.tools}


def test_an_unknown_prompt_is_refused(site: Site) -> None:
    async def read(client: Client) -> None:
        with pytest.raises(MCPError, match="there is no prompt nothing"):
            await client.get_prompt("nothing", {})

    run_with_client(site, sites.token("read"), read)


def test_a_patch_is_submitted_for_a_claimed_task(site: Site) -> None:
    submit({"id": "t1"})
    token = sites.token("agent", "assistant")
    diff = "--- a/one.txt\n+++ b/one.txt\n@@ -1 +1 @@\n-one\n+two\n"

    async def work(client: Client) -> Any:
        worker = (await client.call_tool("register_worker", {})).structured_content["id"]
        claimed = await client.call_tool("claim_task", {"worker_id": worker})
        (task,) = claimed.structured_content["tasks"]
        patch = {"task_id": task["id"], "attempt": task["attempt"], "diff": diff, "title": "Count on"}
        return await client.call_tool("submit_patch", patch)

    result = run_with_client(site, token, work)

    assert not result.is_error, result
    assert Task.objects.get(pk="t1").patch_id == result.structured_content["id"]


def test_a_model_writes_the_log_of_its_task_which_others_read(site: Site) -> None:
    submit({"id": "t1"})

    async def work(client: Client) -> Any:
        worker = (await client.call_tool("register_worker", {})).structured_content["id"]
        claimed = await client.call_tool("claim_task", {"worker_id": worker})
        (task,) = claimed.structured_content["tasks"]
        lines = {"task_id": task["id"], "attempt": task["attempt"], "lines": ["one", "two"]}
        return await client.call_tool("write_log", lines)

    written = run_with_client(site, sites.token("agent", "assistant"), work)
    read = call_tool(site, sites.token("read"), "read_log", task_id="t1", after=1)

    assert not written.is_error, written
    assert [line["text"] for line in read.structured_content["results"]] == ["two"]
    assert call_tool(site, sites.token("read", "r"), "list_artifacts", task_id="t1").structured_content["results"] == []


def test_holds_attempts_and_approvals_are_listed(site: Site) -> None:
    submit({"id": "t1"})
    with SyncClient(site.url, sites.token("operate")) as operator:
        operator.place_hold("everything", reason="maintenance")
    token = sites.token("read")

    (hold,) = call_tool(site, token, "list_holds").structured_content["results"]
    assert (hold["scope"], hold["reason"]) == ("everything", "maintenance")
    assert call_tool(site, token, "list_approvals").structured_content == {"results": [], "more": False}
    assert call_tool(site, token, "list_attempts", task_id="t1").structured_content == {"results": [], "more": False}


def test_list_stuck_reports_whether_there_are_more(site: Site) -> None:
    with time_machine.travel(now() - timedelta(days=2)):
        insert_copies(world.run(), 149)
    token, more = sites.token("read"), {}
    for limit in (120, 150):
        found = call_tool(site, token, "list_stuck", limit=limit).structured_content
        more[len(found["results"])] = found["more"]

    assert more == {120: True, 150: False}


def test_a_plan_is_submitted_and_completed_with_tools(site: Site) -> None:
    token = sites.token("agent", "assistant")
    plan = {"id": "r1", "phase": world.phase().pk, "workstreams": [{"id": "w", "tasks": [{"id": "t1"}]}], "start": True}

    async def work(client: Client) -> Any:
        await client.call_tool("submit_plan", {"plan": plan})
        worker = (await client.call_tool("register_worker", {})).structured_content["id"]
        claimed = await client.call_tool("claim_task", {"worker_id": worker, "wait": 2})
        (task,) = claimed.structured_content["tasks"]
        report = {"task_id": task["id"], "attempt": task["attempt"], "output": "done by a model"}
        return await client.call_tool("complete_task", report)

    result = run_with_client(site, token, work)

    assert not result.is_error, result
    assert Run.objects.get().state == "succeeded"
    reported = Event.objects.get(entity_id="t1", trigger="execution_completed").as_dict()
    assert (reported["actor"], reported["actor_kind"], reported["metadata"]["tool"]) == (
        "assistant", "agent", "complete_task",
    )  # fmt: skip
    started = Event.objects.get(entity_id="t1", trigger="worker_started").as_dict()
    assert started["metadata"]["tool"] == "claim_task"
    assert Event.objects.get(entity_id="r1", trigger="created").as_dict()["metadata"]["tool"] == "submit_plan"


@pytest.mark.django_db(transaction=True)
def test_tools_work_behind_a_tls_proxy(redis_server: str, tmp_path: Path) -> None:
    """As in deploy/: requests without TLS are redirected, while a tool's own calls stay inside the process."""
    token, through_tls = sites.token("agent"), {"X-Forwarded-Proto": "https"}
    run = {"collection": "runs", "fields": {"phase": world.phase().pk}}

    async def work(client: Client) -> list[Any]:
        looked = await client.call_tool("list_machines", {})
        return [looked, await client.call_tool("create_entity", run)]

    with sites.running(tmp_path, redis_server, STATECORE_HTTPS="1", STATECORE_TRUSTED_PROXIES="127.0.0.1") as site:
        assert httpx.get(f"{site.url}/api/v1/machines/").status_code == 301
        results = run_with_client(site, token, work, **through_tls)

    assert [result.is_error for result in results] == [False, False], results
    assert Run.objects.count() == 1


def test_an_operators_token_acts_as_an_agent(site: Site) -> None:
    submit({"id": "t1"})
    claim_as_w1()

    result = call_tool(
        site, sites.token("override"), "fire_transition", collection="tasks", id="t1", trigger="user_cancelled",
        reason="it is not needed",
    )  # fmt: skip

    assert result.is_error
    assert read_refusal(result)["code"] == "permission_denied"
    assert state("t1") == "running"


def test_a_refusal_has_a_code_and_facts(site: Site) -> None:
    submit({"id": "t1"})
    refused = call_tool(site, sites.token("agent"), "complete_task", task_id="t1", attempt=1)

    assert refused.is_error
    assert read_refusal(refused)["code"] in ("lease_lost", "invalid_transition")
    assert read_refusal(refused)["state"] == "queued"


@pytest.mark.parametrize(
    "arguments",
    [{}, {"collection": "tasks"}, {"collection": 7, "id": "t1"}, {"collection": "tasks", "id": "t1", "more": 1}],
)
def test_wrong_arguments_are_refused_by_name(site: Site, arguments: dict[str, Any]) -> None:
    result = call_tool(site, sites.token("read"), "get_entity", **arguments)

    assert result.is_error
    assert read_refusal(result)["code"] == "invalid"


@pytest.mark.parametrize("header", [{}, {"Authorization": "Bearer stc_wrong"}, {"Authorization": "Basic YTpi"}])
def test_a_missing_or_wrong_token_is_refused(site: Site, header: dict[str, str]) -> None:
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
    answer = httpx.post(f"{site.url}/mcp/", json=body, headers={"Accept": "application/json", **header})

    assert answer.status_code == 401
    assert answer.json()["code"] == "not_authenticated"
    assert answer.headers["www-authenticate"].startswith("Bearer")


def test_an_unusable_token_is_refused(site: Site) -> None:
    for who, text in invalid_tokens().items():
        headers = {"Authorization": f"Bearer {text}"} if text else {}
        answer = httpx.post(f"{site.url}/mcp/", json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
        assert (answer.status_code, answer.json()["code"]) == (401, "not_authenticated"), who


def test_an_oversized_body_is_refused(site: Site) -> None:
    headers = {"Authorization": f"Bearer {sites.token('read')}", "Content-Type": "application/json"}

    def chunks() -> Iterator[bytes]:
        for _ in range(10):
            yield b" " * 1024 * 1024

    answer = httpx.post(f"{site.url}/mcp/", content=chunks(), headers=headers, timeout=30)

    assert answer.status_code == 413
    assert answer.json()["code"] == "too_large"


def test_only_post_is_allowed(site: Site) -> None:
    headers = {"Authorization": f"Bearer {sites.token('read')}", "Accept": "text/event-stream"}
    for method in ("GET", "DELETE"):
        answer = httpx.request(method, f"{site.url}/mcp/", headers=headers, timeout=30)
        assert (answer.status_code, answer.headers["allow"]) == (405, "POST")


@pytest.mark.parametrize(
    ("tool", "arguments"),
    [
        ("create_entity", {"collection": "phases", "fields": {"request_id": 5}}),
        ("create_entity", {"collection": "phases", "fields": {"request_id": "é"}}),
        ("list_entities", {"collection": "schema"}),
    ],
)
def test_an_invalid_request_is_returned_as_a_problem(site: Site, tool: str, arguments: dict[str, Any]) -> None:
    result = call_tool(site, sites.token("agent"), tool, **arguments)

    assert result.is_error
    assert read_refusal(result)["code"] in ("invalid", "unavailable")


def test_a_header_cannot_claim_to_be_a_tool(site: Site) -> None:
    submit({"id": "t1"})
    claim_as_w1()
    headers = {"Authorization": f"Bearer {sites.token('operate')}", "statecore.tool": "fire_transition"}
    body = {"trigger": "user_cancelled", "reason": "not needed"}

    answer = httpx.post(f"{site.url}/api/v1/tasks/t1/transitions/", json=body, headers=headers)

    assert answer.status_code == 200
    assert "tool" not in last_event("t1")["metadata"]
