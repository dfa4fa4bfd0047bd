"""Clients that public generators make of `GET /openapi.json`, and a public linter of it."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.environments import npm_environment, python_environment
from tests.support.processes import SECRET, Service

HERE = Path(__file__).parent
PYTHON, NPM = HERE / "python_client", HERE / "npm"

pytestmark = [pytest.mark.more, pytest.mark.timeout(300)]


@dataclass(frozen=True, slots=True)
class Described:
    """A service with a seller, and its description as a file.

    Attributes:
        arguments: of the programs that call it.
    """

    document: Path
    arguments: tuple[str, str, str]


@pytest.fixture(scope="module")
def described(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Described]:
    folder = tmp_path_factory.mktemp("described")
    service = Service(folder / "home")
    service.starting = ("up", "--demo", "--no-rpc", "--no-dashboard")
    service.start()
    try:
        document = folder / "openapi.json"
        with service.client() as client:
            document.write_bytes(client.get("/openapi.json").content)
        seller = re.search(r"^Demo seller: +(\S+)", service.log.read_text(), re.M)
        assert seller is not None
        address = service.url.removesuffix("/api/v1")
        yield Described(document, (address, SECRET, seller[1]))
    finally:
        service.stop()


def run(folder: Path, *command: str | Path) -> str:
    """What a program that succeeds prints."""
    quiet = {"CI": "1", "REDOCLY_TELEMETRY": "off", "NO_COLOR": "1"}
    done = subprocess.run(
        command, cwd=folder, env=os.environ | quiet, capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-4000:]
    return done.stdout


def check(printed: str) -> None:
    """The client moved money and was refused, and read every answer as it is described."""
    found = json.loads(printed)
    limit, price = found.pop("refusals")
    assert limit.startswith("Transaction blocked by guardrail max_per_tx: 1000 SOL")
    assert price.endswith("(price_above_max)")
    assert found == {
        "statuses": [200, 200, 500, 200, 400],
        "transfer": "confirmed",
        "served": "yes",
        "payee": 0.5,
    }


@promise("description-fits-generators")
def test_a_generated_python_client_pays_and_is_refused(
    described: Described, tmp_path: Path
) -> None:
    python = python_environment(PYTHON)
    # Nothing is formatted: a formatter that is not found is a warning too.
    (tmp_path / "config.json").write_text('{"post_hooks": []}')
    generator = (python, python.with_name("openapi-python-client"), "generate")
    options = ("--meta", "none", "--config", "config.json", "--fail-on-warning")
    made = ("--path", described.document, "--output-path", "solward_client")
    run(tmp_path, *generator, *options, *made)
    shutil.copy(PYTHON / "pay.py", tmp_path)
    check(run(tmp_path, python, "pay.py", *described.arguments))


@pytest.fixture(scope="module")
def npm() -> Path:
    return npm_environment(NPM, "generated-client")


@promise("description-fits-generators")
def test_a_generated_typescript_client_pays_and_is_refused(
    described: Described, npm: Path, tmp_path: Path
) -> None:
    (tmp_path / "node_modules").symlink_to(npm)
    generator = ("node", npm / "@hey-api/openapi-ts/bin/run.js", "--no-log-file")
    options = ("-o", "solward", "-c", "@hey-api/client-fetch")
    run(tmp_path, *generator, "-i", described.document, *options)
    for name in ("pay.ts", "tsconfig.json"):
        shutil.copy(NPM / name, tmp_path)
    run(tmp_path, "node", npm / "typescript/bin/tsc", "-p", ".")
    check(run(tmp_path, "node", "pay.js", *described.arguments))


@promise("description-fits-generators")
def test_a_public_linter_finds_no_error(described: Described, npm: Path, tmp_path: Path) -> None:
    run(tmp_path, "node", npm / "@redocly/cli/bin/cli.js", "lint", described.document)
