"""The MCP server: lists the tools that a token may use, and calls them with that token."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import httpx
import mcp_types
import msgspec
from mcp import MCPError
from mcp.server import Server, ServerRequestContext
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from statecore import __version__
from statecore.records.token import Token
from statecore_client import AsyncClient, Refused, RetryPolicy, StatecoreError, Unsendable

from . import prompts
from .application import TOKEN
from .catalogue import catalogue
from .tool import Tool

TOOL = "statecore.tool"
# Calls stay in this process. ALLOWED_HOSTS always contains the loopback address, and https avoids redirects to TLS.
BASE_URL = "https://127.0.0.1"

Application = Callable[..., Awaitable[None]]
Context = ServerRequestContext[Any, Any]


def create_manager(application: Application) -> StreamableHTTPSessionManager:
    """Create a manager without sessions, so that any process can answer the next request."""
    return StreamableHTTPSessionManager(create_server(application), stateless=True, json_response=True)


def create_server(application: Application) -> Server[Any]:
    """Create a server with tools that call `application`, so that the scopes, limits and refusals of the API apply."""

    async def list_tools(context: Context, _params: Any) -> mcp_types.ListToolsResult:
        token = _get_token(context)
        return mcp_types.ListToolsResult(
            tools=[_describe(tool) for tool in catalogue.values() if token.may(tool.scope)]
        )

    async def call_tool(context: Context, params: mcp_types.CallToolRequestParams) -> mcp_types.CallToolResult:
        tool = catalogue.get(params.name)
        if tool is None or not _get_token(context).may(tool.scope):
            return _build_error({"code": "unknown_tool", "detail": f"this token has no tool {params.name}"})
        try:
            arguments = msgspec.convert(params.arguments or {}, tool.arguments)
        except msgspec.ValidationError as error:
            return _build_error({"code": "invalid", "detail": str(error)})
        return await _call(application, tool, arguments, context)

    async def list_prompts(context: Context, _params: Any) -> mcp_types.ListPromptsResult:
        return prompts.list_prompts()

    async def get_prompt(context: Context, params: mcp_types.GetPromptRequestParams) -> mcp_types.GetPromptResult:
        found = prompts.get_prompt(params.name, params.arguments or {})
        if found is None:
            raise MCPError(mcp_types.INVALID_PARAMS, f"there is no prompt {params.name}")
        return found

    return Server(
        "statecore", version=__version__, instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool,
        on_list_prompts=list_prompts, on_get_prompt=get_prompt,
        get_tool_input_schema=lambda name: catalogue[name].schema if name in catalogue else None,
    )  # fmt: skip


INSTRUCTIONS = """Statecore manages the states of runs, workstreams, tasks, workers, patches, gates and jobs. States \
change only by declared transitions, which are recorded. Before you fire a transition, call `explain`: it lists the \
transitions that are allowed, and the unmet conditions of the others. A refusal has a code and a message, and changes \
nothing. The prompt `work` explains how an agent claims tasks and reports."""


async def _call(application: Application, tool: Tool, arguments: Any, context: Context) -> mcp_types.CallToolResult:
    try:
        async with _open_client(application, tool, context) as client:
            result = await tool.perform(client, arguments)
    except Refused as refusal:
        return _build_error({"code": refusal.code, "detail": refusal.detail, **refusal.facts})
    except Unsendable as error:
        return _build_error({"code": "invalid", "detail": str(error)})
    except StatecoreError as error:
        return _build_error({"code": "unavailable", "detail": str(error)})
    return mcp_types.CallToolResult(content=[_to_text(result)], structured_content=result)


@asynccontextmanager
async def _open_client(application: Application, tool: Tool, context: Context) -> Any:
    """Yield a client that calls the application in this process with the caller's token.

    The name of the tool is in the ASGI scope, which callers cannot set.
    """

    async def with_tool_name(scope: Mapping[str, Any], receive: Any, send: Any) -> None:
        await application({**scope, TOOL: tool.name}, receive, send)

    text = context.request.headers["authorization"].partition(" ")[2].strip()  # type: ignore[union-attr]
    transport = httpx.ASGITransport(app=with_tool_name, raise_app_exceptions=False)
    async with AsyncClient(BASE_URL, text, transport=transport, retry_policy=RetryPolicy(total=5.0)) as client:
        yield client


def _get_token(context: Context) -> Token:
    token: Token = context.request.scope[TOKEN]  # type: ignore[union-attr]
    return token


def _describe(tool: Tool) -> mcp_types.Tool:
    hints = mcp_types.ToolAnnotations(read_only_hint=tool.call.is_read, destructive_hint=False, open_world_hint=False)
    return mcp_types.Tool(
        name=tool.name, description=tool.description, input_schema=tool.schema, output_schema=tool.output_schema,
        annotations=hints,
    )  # fmt: skip


def _to_text(value: Any) -> mcp_types.TextContent:
    return mcp_types.TextContent(type="text", text=json.dumps(value, ensure_ascii=False, default=str))


def _build_error(problem: dict[str, Any]) -> mcp_types.CallToolResult:
    """Only text: clients compare structured content with the output schema also if the call was refused."""
    return mcp_types.CallToolResult(content=[_to_text(problem)], is_error=True)
