"""The MCP SDK's own client, over both transports, to a service in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp_types import CallToolResult, TextContent, TextResourceContents
from tests.support.processes import SECRET, Service

from solward.support import jsontext

STDIO = (sys.executable, "-m", "solward_cli", "mcp")
MODES = ("auto", "legacy")
"""The protocol of 2026, which has no handshake, and the one before it."""


@asynccontextmanager
async def stdio_session(
    service: Service, *arguments: str, mode: str = "auto", token: str = SECRET, **options: Any
) -> AsyncIterator[Client]:
    """A client that started `solward mcp` as a host does; its log goes beside the service's."""
    folder: Path = service.home.parent
    command, *arguments = [*STDIO, *arguments]
    environment = stdio_environment(service, token)
    server = StdioServerParameters(command=command, args=arguments, env=environment, cwd=folder)
    with (folder / "mcp.log").open("a") as log:
        transport = stdio_client(server, errlog=log)
        async with Client(transport, mode=mode, cache=None, **options) as client:
            yield client


def stdio_environment(service: Service, token: str = SECRET) -> dict[str, str]:
    """The environment of a `solward mcp` for the service."""
    return {
        "SOLWARD_HOME": str(service.home.parent / "nobody"),
        "SOLWARD_API_URL": service.url.removesuffix("/api/v1"),
        "SOLWARD_API_KEY": token,
    }


@contextmanager
def stdio_process(folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """`solward mcp` of a service that is not there, which `ping` does not need."""
    with subprocess.Popen(
        [*STDIO, "--url", "http://127.0.0.1:9"],
        env={"SOLWARD_API_KEY": SECRET, "SOLWARD_HOME": str(folder / "nobody")},
        cwd=folder,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    ) as process:
        yield process
        assert process.stdin is not None
        process.stdin.close()
        assert process.wait(10) == 0


@asynccontextmanager
async def http_session(
    service: Service, *, mode: str = "auto", token: str = SECRET
) -> AsyncIterator[Client]:
    """A client of the service's own `/mcp`."""
    url = service.url.removesuffix("/api/v1") + "/mcp"
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(url, http_client=http)
        async with Client(transport, mode=mode, cache=None) as client:
            yield client


def text_of(result: CallToolResult) -> str:
    """The one text of a tool's result."""
    [content] = result.content
    assert isinstance(content, TextContent)
    return content.text


async def called(client: Client, name: str, **arguments: Any) -> str:
    """The text of a call that succeeds."""
    result = await client.call_tool(name, arguments)
    assert not result.is_error, text_of(result)
    return text_of(result)


async def refusal(client: Client, name: str, **arguments: Any) -> str:
    """The text of a call that is refused."""
    result = await client.call_tool(name, arguments)
    assert result.is_error, text_of(result)
    return text_of(result)


async def resource(client: Client, uri: str) -> Any:
    """A resource's JSON."""
    [content] = (await client.read_resource(uri)).contents
    assert isinstance(content, TextResourceContents)
    assert content.mime_type == "application/json"
    return jsontext.loads(content.text)
