"""`solward tokens` on real homes: what it stores is known by symbol, and nobody else's is."""

from __future__ import annotations

import asyncio
import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.cli import PASSPHRASE, backed_up, refused, solward
from tests.support.services import STRANGER, serving_api

from solward.solana.programs import LOCALNET_USDC_MINT, TOKEN_2022_PROGRAM
from solward.solana.token_list import known_decimals
from solward.types.errors import StoreError
from solward.types.ledger import Account
from solward.vault.ledger.client import Ledger


def launched(home: Path, *symbols: str) -> dict[str, str]:
    """Mints on the home's own ledger, of whose tokens its wallet has 1000."""

    async def make() -> dict[str, str]:
        async with serving_api(home) as api:
            wallet = await api.wallet(2)
            made = {}
            for symbol in symbols:
                body = {"name": symbol, "symbol": symbol, "decimals": 6, "initialSupply": 1000}
                answer = await api.post(f"/wallets/{wallet}/launch-token", body)
                made[symbol] = answer.json["mint"]
            return made

    return asyncio.run(make())


def published(path: Path, mints: Mapping[str, str], **changed: Any) -> Path:
    path.write_text(
        json.dumps(
            [
                {
                    "id": mint, "symbol": symbol, "decimals": 6, "isVerified": True,
                    "tokenProgram": TOKEN_2022_PROGRAM,
                } | changed
                for symbol, mint in mints.items()
            ]
        )
    )  # fmt: skip
    return path


def burned(home: Path, symbol: str) -> tuple[int, Any]:
    """What burning one token by its symbol answers."""

    async def ask() -> tuple[int, Any]:
        async with serving_api(home) as api:
            (wallet,) = (await api.get("/wallets")).json["wallets"]
            path = f"/wallets/{wallet['id']}/burn"
            answer = await api.call("POST", path, {"mint": symbol, "amount": 1})
            return answer.status, answer.json

    return asyncio.run(ask())


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


@promise("shown-before-stored")
def test_a_list_is_shown_and_stored_once_the_operator_says_so_and_its_symbols_work(
    home: Path, tmp_path: Path
) -> None:
    mints = launched(home, "ACME", "OTHER")
    file = published(tmp_path / "list.json", {**mints, "USDС": STRANGER, "USDC": STRANGER})
    listed = json.loads(file.read_text())
    file.write_text(json.dumps([*listed, {"symbol": "ODD"}]))
    result = solward(home, "tokens", "refresh", file, typed="n\n")
    assert "Nothing was stored" in refused(result)
    assert "! Entry 4 of the token list: id must be a str; it is left out\n" in result.output
    assert f"+ ACME {mints['ACME']}, 6 decimals\n" in result.output
    looks = f"its symbol looks like USDC of the mint {LOCALNET_USDC_MINT}"
    assert f"! USDC {STRANGER} refused: {looks}\n" in result.output
    assert burned(home, "acme")[0] == 400

    result = solward(home, "tokens", "refresh", file, "--only", "ACME", typed="y\n")
    assert result.exit_code == 0, result.output
    assert "Store these 1 tokens for localnet?" in result.output
    status, answer = burned(home, "acme")
    assert (status, answer["details"]["mint"]) == (200, mints["ACME"])
    assert burned(home, "OTHER")[0] == 400
    status, answer = burned(home, "ACМE")
    assert status == 400
    assert f"looks like ACME but is spelled differently; ACME is the mint {mints['ACME']}" in str(
        answer
    )

    result = solward(home, "tokens", "refresh", file, "--only", "OTHER", "--yes")
    assert f"- ACME {mints['ACME']}\n+ OTHER {mints['OTHER']}" in result.output
    assert "Store these" not in result.output
    again = solward(home, "tokens", "refresh", file, "--only", "OTHER")
    assert (again.exit_code, "is already up to date" in again.output) == (0, True)

    listed = solward(home, "tokens", "list").output
    assert "USDC" in listed
    assert mints["OTHER"] in listed
    assert mints["ACME"] not in listed
    shown = solward(home, "tokens", "show", "other").output
    assert mints["OTHER"] in shown
    assert "from the stored list" in shown
    assert "by its address alone" in solward(home, "tokens", "show", mints["ACME"]).output
    assert solward(home, "tokens", "clear").exit_code == 0
    assert burned(home, "OTHER")[0] == 400


@pytest.mark.more
@promise("changed-list-refused")
@pytest.mark.parametrize(
    "change",
    [
        "UPDATE token_lists SET tokens = replace(tokens, ?1, ?2)",
        "UPDATE token_lists SET tokens = replace(tokens, '6', '9')",
        "UPDATE token_lists SET stored_ms = stored_ms + 1",
        "UPDATE token_lists SET mac = '0'",
        "UPDATE token_lists SET mac = ''",
    ],
)
def test_a_list_that_somebody_changed_is_refused_by_the_start_and_the_command(
    home: Path, tmp_path: Path, change: str
) -> None:
    mints = launched(home, "ACME")
    file = published(tmp_path / "list.json", mints)
    assert solward(home, "tokens", "refresh", file, "--yes").exit_code == 0
    with closing(sqlite3.connect(home / "solward.db")) as connection, connection:
        given = (mints["ACME"], STRANGER) if "?1" in change else ()
        assert connection.execute(change, given).rowcount == 1
    text = "The token list of localnet was changed after `solward tokens refresh` stored it"
    for command in (["list"], ["show", "ACME"], ["refresh", str(file), "--yes"]):
        assert text in refused(solward(home, "tokens", *command))
    with pytest.raises(StoreError, match=text):
        burned(home, "ACME")
    assert solward(home, "tokens", "clear").exit_code == 0
    assert solward(home, "tokens", "refresh", file, "--yes").exit_code == 0
    assert burned(home, "ACME")[0] == 200


@promise("changed-list-refused")
def test_a_list_of_another_network_is_none_of_this_one(home: Path, tmp_path: Path) -> None:
    mints = launched(home, "ACME")
    file = published(tmp_path / "list.json", mints)
    assert solward(home, "tokens", "refresh", file, "--yes").exit_code == 0
    with closing(sqlite3.connect(home / "solward.db")) as connection, connection:
        connection.execute("UPDATE token_lists SET network = 'devnet'")
    assert burned(home, "ACME")[0] == 400
    devnet = {"SOLANA_NETWORK": "devnet", "SOLANA_RPC_URL": "http://127.0.0.1:9"}
    assert "was changed after" in refused(solward(home, "tokens", "list", **devnet))


@pytest.mark.more
@promise("list-in-backups")
def test_it_is_in_a_backup_and_outlives_a_rotation(home: Path, tmp_path: Path) -> None:
    mints = launched(home, "ACME")
    file = published(tmp_path / "list.json", mints)
    assert solward(home, "tokens", "refresh", file, "--yes").exit_code == 0
    assert solward(home, "keystore", "rotate").exit_code == 0
    archive = backed_up(home, tmp_path / "solward.backup")
    other = tmp_path / "other"
    result = solward(other, "restore", archive, typed=f"{PASSPHRASE}\n")
    assert result.exit_code == 0, result.output
    assert mints["ACME"] in solward(other, "tokens", "list").output


def test_what_cannot_be_a_source_is_refused_before_anything_is_opened(
    home: Path, tmp_path: Path
) -> None:
    for source, text in (
        ((), "SOURCE must be given: no published list of localnet is known"),
        ((str(tmp_path / "none.json"),), "cannot be read: No such file"),
        (("http://example.com/list",), "SOURCE must be a file or an https:// address"),
        (("ftp://example.com/list",), "SOURCE must be a file or an https:// address"),
        (("http://127.0.0.1:9/list",), "SOURCE did not answer: ConnectError"),
    ):
        assert text in refused(solward(home, "tokens", "refresh", *source))
    assert not home.exists()


@promise("stored-decimals-hold")
def test_decimals_of_the_list_are_taken_from_no_node(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mints = launched(home, "ACME")
    file = published(tmp_path / "list.json", mints)
    assert known_decimals(mints["ACME"]) is None
    assert solward(home, "tokens", "refresh", file, "--yes").exit_code == 0
    honest = Ledger.account

    async def lies(self: Ledger, address: str) -> Account | None:
        found = await honest(self, address)
        if address != mints["ACME"] or found is None:
            return found
        return Account(found.lamports, found.owner, found.data[:44] + b"\x08" + found.data[45:])

    monkeypatch.setattr(Ledger, "account", lies)
    status, answer = burned(home, mints["ACME"])
    assert status == 500
    assert f"{mints['ACME']} has 8 decimals; it has 6" in answer["error"]
