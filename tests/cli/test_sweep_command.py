"""`solward wallet sweep` as a command, on a service in a process of its own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal

import pytest
from click.testing import CliRunner, Result
from solders.keypair import Keypair
from tests.support.processes import SECRET, Service, funded_wallet, sol_of

from solward_cli import main

FEE = Decimal("0.000005")


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Service]:
    made = Service(
        tmp_path_factory.mktemp("sweep") / "home",
        DAILY_SPENDING_LIMIT_SOL="3",
        LOCALNET_SLOT_MS="100",
    ).start()
    yield made
    made.stop()


def sweep(service: Service, *arguments: str, typed: str = "") -> Result:
    address = service.url.removesuffix("/api/v1")
    runner = CliRunner(env={"SOLWARD_API_URL": address, "SOLWARD_API_KEY": SECRET})
    return runner.invoke(main, ["wallet", "sweep", *arguments], input=typed)


def new_wallet(service: Service, name: str, sol: int) -> str:
    with service.client() as client:
        return funded_wallet(client, name, sol)


def balance(service: Service, wallet: str) -> Decimal:
    with service.client() as client:
        return sol_of(client, wallet)


def test_it_shows_what_it_will_do_asks_and_does_it(service: Service) -> None:
    wallet, other = new_wallet(service, "full", 2), new_wallet(service, "vault", 0)
    shown = sweep(service, "full", "vault", "--dry-run")
    assert shown.exit_code == 0, shown.output
    assert "send     2 SOL less fees (at most 2 SOL at once, 3 SOL more today" in " ".join(
        shown.stdout.split("\n")
    )
    declined = sweep(service, "full", "vault", typed="n\n")
    assert declined.exit_code == 1
    assert balance(service, wallet) == 2
    agreed = sweep(service, "full", "vault", typed="y\n")
    assert agreed.exit_code == 0, agreed.output
    assert "1 transactions" not in agreed.stdout
    assert "1 transaction, to " in agreed.stdout
    assert (balance(service, wallet), balance(service, other)) == (0, 2 - FEE)
    again = sweep(service, "full", "vault", "--yes", "--json")
    assert "The wallet holds nothing." in sweep(service, "full", "vault", "--yes").stdout
    assert (again.exit_code, json.loads(again.stdout)["signatures"]) == (0, [])


def test_what_a_limit_holds_is_listed_and_is_exit_code_1(service: Service) -> None:
    wallet = new_wallet(service, "rich", 4)
    to = str(Keypair().pubkey())
    result = sweep(service, wallet, to, "--yes")
    assert result.exit_code == 1
    assert "Not moved:" in result.stdout
    assert "DAILY_SPENDING_LIMIT_SOL" in result.stdout
    assert balance(service, wallet) == 1 - 2 * FEE
    told = sweep(service, wallet, to, "--yes", "--json")
    assert told.exit_code == 1
    (left,) = json.loads(told.stdout)["left"]
    assert left["what"] == "0.99999 SOL"


def refused(result: Result) -> str:
    assert result.exit_code == 1, result.output
    (line,) = [each for each in result.stderr.splitlines() if each.startswith("Error: ")]
    return line


def test_a_frozen_wallet_is_left_alone(service: Service) -> None:
    wallet, to = new_wallet(service, "frozen", 2), str(Keypair().pubkey())
    with service.client() as client:
        client.post("/freeze", json={"walletId": wallet})
        assert "solward unfreeze" in refused(sweep(service, wallet, to, "--yes"))
        client.post("/unfreeze", json={"walletId": wallet})
    assert balance(service, wallet) == 2


@pytest.mark.more
def test_a_receiver_that_is_none_or_the_wallet_itself_is_refused(service: Service) -> None:
    wallet = new_wallet(service, "careful", 0)
    with service.client() as client:
        address = client.get(f"/wallets/{wallet}").json()["publicKey"]
    assert "this wallet itself" in refused(sweep(service, "careful", address, "--yes"))
    assert "this wallet itself" in refused(sweep(service, "careful", "careful", "--yes"))
    assert "nobody" in refused(sweep(service, "careful", "nobody", "--yes"))
    assert "base58" in refused(sweep(service, "careful", "1" * 44, "--yes"))
    assert "nobody" in refused(sweep(service, "nobody", address, "--yes"))
