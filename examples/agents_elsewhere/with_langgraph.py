"""An agent of LangGraph with a wallet: python with_langgraph.py "Send 0.1 SOL to ..."."""

import asyncio
import os
import sys

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_mcp_adapters.tools import load_mcp_tools

WALLET = {
    "transport": "stdio",
    "command": "solward",
    "args": ["mcp"],
    "env": {name: os.environ[name] for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY")},
}


async def main(task: str) -> None:
    # One session for all calls: what a person is asked about is remembered in its process.
    async with MultiServerMCPClient({"solward": WALLET}).session("solward") as session:
        agent = create_agent("openai:gpt-5-mini", await load_mcp_tools(session))
        answer = await agent.ainvoke({"messages": [("user", task)]})
        print(answer["messages"][-1].content)


asyncio.run(main(sys.argv[1]))
