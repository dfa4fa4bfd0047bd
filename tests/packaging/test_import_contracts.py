"""The import contracts of pyproject.toml refuse what they say: each case breaks one of them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from tests.promises import promise

ROOT = Path(__file__).parents[2]
SOURCES = ("framework", "plugins", "server")

# Module to change (new where it does not exist), line added, contract that must break.
MUTATIONS = [
    (
        "framework/solward/vault/guardrails/rules.py",
        "import solward.vault.store.transactions",
        "Guardrails and grants: pure",
    ),
    (
        "framework/solward/vault/guardrails/rules.py",
        "import solward.vault.ledger.client",
        "Guardrails and grants: pure",
    ),
    (
        "framework/solward/vault/guardrails/effects.py",
        "import solward.support.clock",
        "Guardrails and grants: pure",
    ),
    ("framework/solward/vault/guardrails/rules.py", "import httpx", "Guardrails and grants: pure"),
    (
        "framework/solward/vault/guardrails/worst_case.py",
        "import solward.vault.guardrails.simulation",
        "Worst case of bytes: no state, no simulation",
    ),
    (
        "framework/solward/database/database.py",
        "import solward.settings",
        "Stored money and credentials: no settings",
    ),
    (
        "framework/solward/vault/money/engine.py",
        "import solward.plugins",
        "Vault: no plugin, agent, server or vendor",
    ),
    (
        "framework/solward/vault/money/engine.py",
        "import litellm",
        "Vault: no plugin, agent, server or vendor",
    ),
    (
        "framework/solward/operations/perform.py",
        "import solward.vault.custody.envelope",
        "Keys: opened in custody",
    ),
    (
        "framework/solward/hosts/inside/main.py",
        "import solward.vault.custody.service",
        "Inside a plugin host: no keys, settings or stores",
    ),
    (
        "framework/solward/hosts/inside/zygote.py",
        "import solward.settings",
        "Inside a plugin host: no keys, settings or stores",
    ),
    (
        "framework/solward/hosts/inside/plugins.py",
        "import solward.telemetry.scrub",
        "Inside a plugin host: no keys, settings or stores",
    ),
    (
        "framework/solward/hosts/inside/calls.py",
        "import solward.database.database",
        "Inside a plugin host: no keys, settings or stores",
    ),
    ("framework/solward/newthing.py", "", "Framework: layers"),
    ("framework/solward/vault/newthing.py", "", "Vault: layers"),
    ("framework/solward/vault/money/newthing.py", "", "Money path: layers"),
    ("framework/solward_localnet/newthing.py", "", "Embedded ledger: layers"),
    ("server/solward_server/newthing.py", "", "Server: layers"),
    ("server/solward_cli/newthing.py", "", "Command line: layers"),
    ("framework/solward/types/venue.py", "import structlog", "Words of authors and Solana: light"),
    (
        "framework/solward/context/__init__.py",
        "import solward.operations.perform",
        "Words of authors and Solana: light",
    ),
    (
        "framework/solward/hosts/wire/channel.py",
        "import solward.database.database",
        "Hosts' wire: light words, Solana and messages",
    ),
    (
        "framework/solward/hosts/wire/values.py",
        "import structlog",
        "Hosts' wire: light words, Solana and messages",
    ),
    (
        "framework/solward/hosts/wire/methods.py",
        "import solward.plugins",
        "Hosts' wire: light words, Solana and messages",
    ),
    (
        "framework/solward_localnet/node.py",
        "import solward.types.errors",
        "Embedded ledger: of Solward it knows Solana, and how HTTP is served",
    ),
    (
        "framework/solward/agents/service.py",
        "import solward_localnet.node",
        "Embedded ledger: production reaches it through the cluster",
    ),
    (
        "plugins/solward_plugins/skills/reading.py",
        "import solward.plugins",
        "Plugins: the public surface alone, as a third party's",
    ),
    (
        "framework/solward/client/http.py",
        "import solward.telemetry.logs",
        "Client: a program of another machine",
    ),
    (
        "framework/solward/vault/custody/envelope.py",
        "import solward.vault.custody.service",
        "No circles between the modules of a package",
    ),
]


def name_of(module: str) -> str:
    return ".".join(Path(module).with_suffix("").parts[1:]).removesuffix(".__init__")


def finding(module: str, line: str, contract: str) -> str:
    """What the linter prints of this mutation."""
    importer, imported = name_of(module), line.removeprefix("import ")
    if contract.startswith("No circles"):
        return f"No cycles are allowed in {importer.rpartition('.')[0]}."
    if contract.endswith(("through the cluster", "opened in custody")):
        return f"- {importer} -> {imported} "
    return f"{importer} may not import {imported} " if line else f"- {importer}\n"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The linter's report on a copy of the sources with all mutations."""
    tree = tmp_path_factory.mktemp("tree")
    for folder in SOURCES:
        shutil.copytree(ROOT / folder, tree / folder, ignore=shutil.ignore_patterns("__pycache__"))
    for module, line, _ in MUTATIONS:
        with (tree / module).open("a") as file:
            file.write(f"\n{line}\n")
    path = os.pathsep.join([*(str(tree / folder) for folder in SOURCES), str(ROOT)])
    linter = "from importlinter.cli import lint_imports_command; lint_imports_command()"
    done = subprocess.run(
        [sys.executable, "-c", linter, "--no-cache", "--config", str(ROOT / "pyproject.toml")],
        cwd=tree,
        env={**os.environ, "PYTHONPATH": path, "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1, done.stdout + done.stderr
    return done.stdout


@promise("simulation-lowers-nothing")
@pytest.mark.parametrize(
    ("module", "line", "contract"),
    MUTATIONS,
    ids=[f"{Path(module).stem}:{line or 'new'}" for module, line, _ in MUTATIONS],
)
def test_the_contract_refuses(report: str, module: str, line: str, contract: str) -> None:
    [section] = re.findall(
        rf"^{re.escape(contract)}\n-+\n(.*?)(?=^[^\n]+\n-+\n|\Z)", report, re.MULTILINE | re.DOTALL
    )
    assert finding(module, line, contract) in section
