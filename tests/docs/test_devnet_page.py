"""Every command of docs/how-to/devnet.md runs in its order, on a ledger of somebody else."""

from __future__ import annotations

import json
import shlex
import signal
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from click.testing import CliRunner
from tests.docs.page_commands import assert_printed, page_commands, page_settings
from tests.support.localnet import localnet_process
from tests.support.processes import Service
from tests.support.repository import DOCS
from tests.support.vendors.process import vendor_process

from solward.settings import Settings
from solward_cli import main

PAGE = (DOCS / "how-to/devnet.md").read_text()
SETTINGS = page_settings(PAGE)
START = "solward up --no-rpc"
STAND_INS = {"devnet, ": "localnet, ", "api.devnet.solana.com": "127.0.0.1"}


def test_its_settings_are_those_of_devnet_and_may_be_served_with() -> None:
    given = Settings(_env_file=None, **{name.lower(): value for name, value in SETTINGS.items()})
    given.check_serving()
    assert given.solana_network == "devnet"


@pytest.fixture
def service(tmp_path: Path) -> Iterator[Service]:
    """The page's settings on a ledger of this machine; nobody is at the vendor's address yet."""
    given = {name: value for name, value in SETTINGS.items() if name != "SOLWARD_HOME"}
    with vendor_process() as vendor:
        base_url = vendor.base_urls["OPENAI_BASE_URL"]
    with localnet_process(tmp_path / "ledger.db") as node:
        given |= {"SOLANA_NETWORK": "localnet", "SOLANA_RPC_URL": node.http}
        service = Service(tmp_path / "home", **given, OPENAI_BASE_URL=base_url)
        service.starting = (*START.split()[1:], "--dashboard-port", "0")
        service.environment |= {
            "API_PORT": str(service.port),
            "MAX_TRANSACTIONS_PER_MINUTE": "5",
            "COLUMNS": "80",
        }
        try:
            yield service
        finally:
            if service.process is not None:
                service.stop(signal.SIGKILL)


@pytest.mark.more
@pytest.mark.timeout(180)
def test_every_command_prints_what_the_page_says(
    service: Service, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    runner = CliRunner(env=service.environment)
    with ExitStack() as stack:
        for command, lines in page_commands(PAGE):
            if command == START:
                service.start()
                continue
            if command.startswith("solward agent start"):
                stack.enter_context(_model(service))
            if command.startswith("solward agent decisions"):
                _wait_for_a_payment(service)
            ran = runner.invoke(main, shlex.split(command)[1:])
            assert ran.exit_code == 0, f"{command}: {ran.output}"
            assert_printed(command, lines, ran.output, STAND_INS)


def _model(service: Service) -> AbstractContextManager[object]:
    """A vendor whose model does what the page's strategy says."""
    with service.client(SETTINGS["API_SECRET"]) as client:
        wallets = client.get("/wallets").json()["wallets"]
    [savings] = [each["publicKey"] for each in wallets if each["name"] == "savings"]
    port = urlsplit(service.environment["OPENAI_BASE_URL"]).port
    arguments = json.dumps({"to": savings, "amount": 0.01})
    return vendor_process(
        "--port", str(port), "--tool", "transfer", "--arguments", arguments
    )  # fmt: skip


def _wait_for_a_payment(service: Service) -> None:
    deadline = time.monotonic() + 60
    with service.client(SETTINGS["API_SECRET"]) as client:
        while time.monotonic() < deadline:
            records = client.get("/transactions").json()["transactions"]
            if any((each["type"], each["status"]) == ("transfer", "confirmed") for each in records):
                return
            time.sleep(0.2)
    raise AssertionError("the agent paid nothing")
