"""A database is of one network: nothing that was made for one is gone on with on another."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support import rpc as rpc_nodes
from tests.support.database import connected, rows_of
from tests.support.services import STRANGER, serving_api

from solward.database.database import Database
from solward.database.ledger_network import bind_network
from solward.service.service import Solward
from solward.settings import Settings
from solward.solana.protocol import GENESIS
from solward.types.errors import ConfigError
from solward_localnet.node import Localnet

pytestmark = promise("one-network-a-database")


NETWORK = "SELECT id, network FROM ledger_network"


def settings(home: Path, **given: Any) -> Settings:
    return Settings(_env_file=None, solward_home=home, **given)


async def started(home: Path, **given: Any) -> None:
    async with Solward.open(settings(home, **given)):
        pass


@promise("other-network-database-refused")
async def test_another_network_is_refused_before_its_ledger_is_asked_for_fates(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path) as api:
        wallet = await api.wallet(1)
        paid = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.1})
        assert paid.status == 200
    # As a process leaves it that was killed before it heard of its transaction's end.
    with connected(tmp_path) as connection:
        connection.exec_driver_sql("UPDATE transactions SET status = 'pending'")
    before = rows_of(tmp_path, "SELECT * FROM transactions ORDER BY id")

    async with rpc_nodes.listening(rpc_nodes.answers_name("x", GENESIS["devnet"])) as (node,):
        other = {"solana_rpc_url": node.url, "solana_network": "devnet"}
        with pytest.raises(ConfigError, match="SOLANA_NETWORK is devnet, but the database"):
            await started(tmp_path, **other)
        assert node.calls == {}
        assert rows_of(tmp_path, "SELECT * FROM transactions ORDER BY id") == before
        assert rows_of(tmp_path, NETWORK) == [(1, "localnet")]


async def test_a_network_that_its_rpc_is_not_of_binds_nothing(
    tmp_path: Path, localnet: Localnet
) -> None:
    async def answers(method: str, params: Sequence[Any]) -> Any:
        is_asked = method == "getGenesisHash"
        return GENESIS["devnet"] if is_asked else await localnet.call(method, params)

    async with rpc_nodes.listening(answers) as (node,):
        devnet = {"solana_rpc_url": node.url, "solana_network": "devnet"}
        with pytest.raises(ConfigError, match="serves devnet "):
            await started(tmp_path, **devnet | {"solana_network": "mainnet-beta"})
        assert rows_of(tmp_path, NETWORK) == [(1, None)]
        await started(tmp_path, **devnet)
        assert rows_of(tmp_path, NETWORK) == [(1, "devnet")]


async def test_a_network_whose_rpc_is_away_is_bound_before_the_first_transaction(
    tmp_path: Path, localnet: Localnet
) -> None:
    async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (node,):
        node.faults["*"] = 503
        async with serving_api(tmp_path, solana_rpc_url=node.url, solana_network="localnet") as api:
            assert rows_of(tmp_path, NETWORK) == [(1, None)]
            node.faults.clear()
            wallet = await api.wallet(1)
            paid = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.1})
            assert paid.status == 200, paid.text
            assert rows_of(tmp_path, NETWORK) == [(1, "localnet")]


async def test_of_two_first_starts_on_two_networks_one_goes_on(tmp_path: Path) -> None:
    database = await Database.open(settings(tmp_path).database_url, tmp_path)
    try:
        ends = await asyncio.gather(
            *(bind_network(database, network) for network in ("devnet", "mainnet-beta")),
            return_exceptions=True,
        )
        [refused] = [end for end in ends if end is not None]
        assert isinstance(refused, ConfigError)
        [(_, bound)] = rows_of(tmp_path, NETWORK)
        await bind_network(database, bound)
    finally:
        await database.close()
