"""The protocol: lists the tools a token may use, and calls them in its name."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp_types
import msgspec
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from api.client import AsyncClient, Patience, Refused, StatecoreError, Unsendable
from statecore.records.token import Token

from . import reading, working
from .application import TOKEN
from .tool import Tool, catalogue

TOOL = "statecore.tool"
# Among ourselves, without a network: the loopback is a host that every set-up allows, and none sends on what says TLS.
HERE = "https://127.0.0.1"
MODULES = (reading, working)  # read for the tools they declare

Application = Callable[..., Awaitable[None]]
Context = ServerRequestContext[Any, Any]


def manager(application: Application) -> StreamableHTTPSessionManager:
    """Without sessions: any process may answer the next request."""
    return StreamableHTTPSessionManager(server(application), stateless=True, json_response=True)


def server(application: Application) -> Server[Any]:
    """Each call goes through the whole of the API: its scopes, its throttles, its refusals."""

    async def list_tools(context: Context, _params: Any) -> mcp_types.ListToolsResult:
        token = _token(context)
        return mcp_types.ListToolsResult(tools=[_told(tool) for tool in catalogue.values() if token.may(tool.scope)])

    async def call_tool(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        tool = catalogue.get(params.name)
        if tool is None or not _token(context).may(tool.scope):
            return _failed({"code": "unknown_tool", "detail": f"there is no tool {params.name} for this token"})
        try:
            asked = msgspec.convert(params.arguments or {}, tool.arguments)
        except msgspec.ValidationError as error:
            return _failed({"code": "invalid", "detail": str(error)})
        return await _called(application, tool, asked, context)

    return Server(
        "statecore", instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool,
        get_tool_input_schema=lambda name: catalogue[name].schema if name in catalogue else None,
    )  # fmt: skip


INSTRUCTIONS = """Statecore keeps the state of runs, workstreams, tasks, workers, patches, gates and jobs. Nothing \
changes except by a legal, recorded transition. Before you fire one, `explain` the entity: it lists the moves that are \
open and what is in the way of the others. A refusal has a code and a sentence, and has changed nothing."""


async def _called(application: Application, tool: Tool, asked: Any, context: Context) -> mcp_types.CallToolResult:
    try:
        async with _client(application, tool, context) as client:
            told = await tool.call(client, asked)
    except Refused as refusal:
        return _failed({"code": refusal.code, "detail": refusal.detail, **refusal.facts})
    except Unsendable as error:
        return _failed({"code": "invalid", "detail": str(error)})
    except StatecoreError as error:
        return _failed({"code": "unavailable", "detail": str(error)})
    structured = told if isinstance(told, dict) else {"results": told}
    return mcp_types.CallToolResult(content=[_text(structured)], structured_content=structured)


@asynccontextmanager
async def _client(application: Application, tool: Tool, context: Context) -> Any:
    """A client of ours in this process, with the caller's own token; the tool is noted where only we can."""

    async def marked(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await application({**scope, TOOL: tool.name}, receive, send)

    text = context.request.headers["authorization"].partition(" ")[2].strip()  # type: ignore[union-attr]
    transport = httpx.ASGITransport(app=marked, raise_app_exceptions=False)
    async with AsyncClient(HERE, text, transport=transport, patience=Patience(total=5.0)) as client:
        yield client


def _token(context: Context) -> Token:
    token: Token = context.request.scope[TOKEN]  # type: ignore[union-attr]
    return token


def _told(tool: Tool) -> mcp_types.Tool:
    hints = mcp_types.ToolAnnotations(read_only_hint=tool.only_reads, destructive_hint=False, open_world_hint=False)
    return mcp_types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.schema, annotations=hints
    )  # fmt: skip


def _text(told: Any) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=json.dumps(told, ensure_ascii=False, default=str))


def _failed(problem: dict[str, Any]) -> mcp_types.CallToolResult:
    return mcp_types.CallToolResult(content=[_text(problem)], structured_content=problem, is_error=True)
