"""An agent of CrewAI with a wallet: python with_crewai.py "Send 0.1 SOL to ..."."""

import os
import sys

from crewai import Agent
from crewai.mcp import MCPServerStdio

wallet = MCPServerStdio(
    command="solward",
    args=["mcp"],
    env={name: os.environ[name] for name in ("SOLWARD_API_URL", "SOLWARD_API_KEY")},
)
agent = Agent(
    role="Treasurer",
    goal="Pay what is asked for, once",
    backstory="You have a wallet, and limits that others have set.",
    llm="openai/gpt-5-mini",
    mcps=[wallet],
)
print(agent.kickoff(sys.argv[1]).raw)
