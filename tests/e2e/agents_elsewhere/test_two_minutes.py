"""docs/how-to/mcp.md, "In two minutes", runs with an empty home, and a host of its file."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from tests.e2e.plugin_author.quickstart import blocks
from tests.promises import promise
from tests.support.cli import STRANGER
from tests.support.mcp import called, refusal
from tests.support.processes import ended, free_port, running
from tests.support.repository import DOCS

pytestmark = promise("mcp-within-two-minutes")


IN_TWO_MINUTES = [each for each in blocks(DOCS / "how-to/mcp.md") if each.title == "In two minutes"]


@pytest.mark.more
@pytest.mark.timeout(120)
async def test_a_host_has_a_wallet_by_three_commands(tmp_path: Path) -> None:
    [up, commands] = (each.text for each in IN_TWO_MINUTES)
    assert (up, commands.count("\n")) == ("solward up\n", 3)
    port = str(free_port())
    environment = {
        "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
        "HOME": str(tmp_path),
        "API_PORT": port,
    }
    beside = ("--no-rpc", "--no-dashboard")
    with running(tmp_path / "home", *up.split()[1:], *beside, API_PORT=port) as (process, _):
        done = await asyncio.to_thread(
            subprocess.run,
            ["/bin/bash", "-euc", commands],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
        )
        assert done.returncode == 0, done.stderr
        file = tmp_path / ".config" / "Claude" / "claude_desktop_config.json"
        [entry] = json.loads(file.read_text())["mcpServers"].values()
        with (tmp_path / "log").open("w") as log:
            transport = stdio_client(StdioServerParameters(**entry), errlog=log)
            async with Client(transport, cache=None) as host:
                assert "transfer" in {tool.name for tool in (await host.list_tools()).tools}
                assert "Sent 0.6 SOL" in await called(host, "transfer", to=STRANGER, amount=0.6)
                # The limit of the key's grant, of which 0.4 SOL are left.
                assert "1 SOL" in await refusal(host, "transfer", to=STRANGER, amount=0.5)
        ended(process, signal.SIGINT)
