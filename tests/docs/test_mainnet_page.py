"""Every command of docs/how-to/mainnet.md runs in its order, on a ledger of somebody else."""

from __future__ import annotations

import re
import shlex
import signal
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner
from tests.docs.page_commands import assert_printed, page_commands, page_settings
from tests.support.localnet import localnet_process
from tests.support.processes import Service
from tests.support.repository import DOCS, ROOT

from solward.settings import Settings
from solward_cli import main
from solward_cli.doctor import CHECKS

PAGE = (DOCS / "how-to/mainnet.md").read_text()
SETTINGS = page_settings(PAGE)
START = "solward server start"
# Of mainnet with two operators; the test has one machine and no mainnet.
STAND_INS = {
    "mainnet-beta": "localnet",
    "rpc.example.com": "127.0.0.1",
    "rpc.example.org": "localhost",
    "jupiter: api.jup.ag": "demo_market: the ledger",
    "Operators: 2: example.com, example.org": "Operators: one, localhost: …",
}


def test_its_settings_are_those_of_mainnet_and_may_be_served_with() -> None:
    given = Settings(_env_file=None, **{name.lower(): value for name, value in SETTINGS.items()})
    given.check_serving()
    assert given.mainnet
    assert len(given.rpc_urls) == 2


def test_every_check_of_the_doctor_is_in_a_box() -> None:
    named = [
        name
        for command, _ in page_commands(PAGE)
        if command.startswith("solward doctor ")
        for name in command.split()[2:]
        if name in CHECKS
    ]
    assert sorted(named) == sorted(CHECKS)
    boxes = re.findall(r"^- \[ \] (.*?)(?=^- \[ \]|^#)", PAGE, re.DOTALL | re.MULTILINE)
    assert len(boxes) > 12
    assert all("```console" in box for box in boxes)


def test_every_failure_it_explains_is_a_text_of_the_product() -> None:
    sources = "".join(
        file.read_text()
        for folder in ("framework", "server", "plugins")
        for file in sorted((ROOT / folder).rglob("*.py"))
    )
    # A text that is too long for a line goes on in the next.
    whole = re.sub(r'"\s*\n\s*f?"', "", sources)
    rows = re.findall(r"^\| `([^`]+)` \|", PAGE.partition("## What goes wrong")[2], re.MULTILINE)
    assert len(rows) > 15
    texts = [row for row in rows if row != "getProgramAccounts: "]
    assert [text for text in texts if text not in whole] == []


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[tuple[Service, str]]:
    """The page's settings on a ledger behind two addresses, and a service that does not run yet."""
    with localnet_process(tmp_path / "ledger.db") as node:
        changed = {
            "SOLANA_NETWORK": "localnet",
            "SOLANA_RPC_URL": f"{node.http},{node.http.replace('127.0.0.1', 'localhost')}",
        }
        given = {name: value for name, value in SETTINGS.items() if name != "SOLWARD_HOME"}
        service = Service(tmp_path / "home", **given | changed)
        service.environment |= {
            "API_PORT": str(service.port),
            "MAX_TRANSACTIONS_PER_MINUTE": "5",
            "COLUMNS": "80",
        }
        try:
            yield service, node.http
        finally:
            if service.process is not None:
                service.stop(signal.SIGKILL)


@pytest.mark.more
@pytest.mark.timeout(180)
def test_every_command_prints_what_the_page_says(
    machine: tuple[Service, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service, node = machine
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("solward.plugins.folders.models.beside_the_service", lambda: False)
    passphrase = tmp_path / "passphrase"
    passphrase.write_text("correct horse battery staple\n")
    passphrase.chmod(0o600)
    for command, lines in page_commands(PAGE):
        if command == START:
            service.start()
            continue
        if command == "solward doctor funds":
            _fund(node, service)
        runner = CliRunner(env=service.environment)
        ran = runner.invoke(main, shlex.split(command)[1:])
        assert ran.exit_code == 0, f"{command}: {ran.output}"
        assert_printed(command, lines, ran.output, STAND_INS)
    assert (tmp_path / "recording" / "rpc-1.json").is_file()


def _fund(node: str, service: Service) -> None:
    """What a person sends to the wallet."""
    with service.client(SETTINGS["API_SECRET"]) as client:
        [wallet] = client.get("/wallets").json()["wallets"]
    address = wallet["publicKey"]
    call = {"jsonrpc": "2.0", "id": 1, "method": "requestAirdrop", "params": [address, 10**9]}
    assert "result" in httpx.post(node, json=call).json()
