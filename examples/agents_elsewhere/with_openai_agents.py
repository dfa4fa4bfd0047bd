"""An agent of the OpenAI Agents SDK with a wallet: python with_openai_agents.py "Send 0.1 ..."."""

import asyncio
import os
import sys

from agents import Agent, Runner, set_default_openai_api
from agents.mcp import MCPServerStdio

WALLET = {
    "command": "solward",
    "args": ["mcp"],
    "env": {name: os.environ[name] for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY")},
}
# Spoken by every model server that is compatible with OpenAI's.
set_default_openai_api("chat_completions")


async def main(task: str) -> None:
    # A call may wait for the ledger, and for a service that restarts.
    async with MCPServerStdio(WALLET, client_session_timeout_seconds=120) as wallet:
        agent = Agent(name="Treasurer", model="gpt-5-mini", mcp_servers=[wallet])
        print((await Runner.run(agent, task)).final_output)


asyncio.run(main(sys.argv[1]))
