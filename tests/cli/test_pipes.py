"""What a table prints where nobody reads it on a terminal: every value whole, a row on a line."""

from __future__ import annotations

import re

import pytest
from tests.support.cli import STRANGER, Live

TABLES = (
    ("wallet", "list"),
    ("tx", "list"),
    ("agent", "list"),
    ("key", "list"),
    ("hold", "list"),
    ("audit", "list"),
    ("pay", "list"),
)


def rows(printed: str) -> list[list[str]]:
    """Header and rows by their columns."""
    return [re.split(r" {2,}", line.strip()) for line in printed.splitlines()]


def unchanged(live: Live, command: tuple[str, str]) -> tuple[str, str]:
    """What a command prints on 40 and on 400 columns, while the service's agent did nothing."""
    while True:
        narrow, wide = (live.run(*command, COLUMNS=columns) for columns in ("40", "400"))
        if live.run(*command, COLUMNS="40") == narrow:
            return narrow, wide


@pytest.fixture(scope="module")
def made(live: Live) -> dict[str, str]:
    """A wallet with a long name, an agent and a key."""
    name = "a wallet whose name is far longer than forty columns"[:60]
    wallet = live.post("/wallets", name=name)
    live.post(f"/wallets/{wallet['walletId']}/airdrop", amount=2)
    live.post(f"/wallets/{wallet['walletId']}/transfer", to=STRANGER, amount=0.25)
    live.post("/keys", name="of a wallet", walletId=wallet["walletId"])
    return {"id": wallet["walletId"], "name": name, "address": wallet["address"]}


@pytest.mark.parametrize("command", TABLES, ids=" ".join)
def test_no_row_wraps_and_no_value_is_cut(
    live: Live, made: dict[str, str], command: tuple[str, str]
) -> None:
    narrow, wide = unchanged(live, command)
    assert narrow == wide
    assert "…" not in narrow
    header, *found = rows(narrow)
    if len(header) > 1:
        assert {len(row) for row in found} == {len(header)}, narrow


def test_whole_ids_and_addresses_are_there(live: Live, made: dict[str, str]) -> None:
    listed = live.run("wallet", "list", COLUMNS="40")
    assert [made["id"], made["name"], made["address"]] in rows(listed)
    assert made["id"] in live.run("key", "list", COLUMNS="40")


def test_transactions_name_their_wallet_and_token(live: Live, made: dict[str, str]) -> None:
    live.post(f"/wallets/{made['id']}/swap", inputToken="SOL", outputToken="USDC", amount=0.1)
    other = live.wallet(0)
    wallets = live.get("/wallets")["wallets"]
    [to] = [each["publicKey"] for each in wallets if each["name"] == other]
    live.post(f"/wallets/{made['id']}/transfer", to=to, amount=0.125)
    listed = live.run("tx", "list", "--wallet", made["name"], COLUMNS="40")
    header, transfer, swap, *_rest = rows(listed)
    assert header == ["TIMESTAMP (UTC)", "ID", "WALLET", "TYPE", "STATUS", "WHAT"]
    assert (transfer[2], transfer[5]) == (made["name"], f"0.125 SOL to {other} ({to})")
    assert swap[2] == made["name"]
    assert re.fullmatch(r"0\.1 SOL for [0-9.]+ USDC", swap[5]), swap
