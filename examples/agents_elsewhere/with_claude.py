"""Claude with a wallet, by Anthropic's SDK: python with_claude.py "Send 0.1 SOL to ..."."""

import asyncio
import os
import sys

from anthropic import AsyncAnthropic
from anthropic.lib.tools.mcp import async_mcp_tool
from mcp import ClientSession, StdioServerParameters, stdio_client

WALLET = StdioServerParameters(
    command="solward",
    args=["mcp"],
    env={name: os.environ[name] for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY")},
)


async def main(task: str) -> None:
    async with stdio_client(WALLET) as streams, ClientSession(*streams) as session:
        await session.initialize()
        tools = [async_mcp_tool(tool, session) for tool in (await session.list_tools()).tools]
        asked = [{"role": "user", "content": task}]
        runner = AsyncAnthropic().beta.messages.tool_runner(
            model="claude-sonnet-4-5", max_tokens=1024, tools=tools, messages=asked
        )
        print((await runner.until_done()).content[-1].text)


asyncio.run(main(sys.argv[1]))
