"""A ledger that lies gets no signature: what its answers cannot prove is a failed record."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from tests.support.engine_harness import UNLIMITED, Bench

from solward.cluster import WrongCluster, open_cluster
from solward.errors import GuardrailBlocked, LedgerError, TransactionFailed
from solward.settings import Settings
from solward.vault.guardrails import DEFAULT_PROGRAMS, Policy
from solward.vault.transactions.engine import Engine, EngineOptions
from solward.vault.transactions.request import ADMIN
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.server import serving

Lie = Callable[[Any], None]


def lying(bench: Bench, method: str, lie: Lie) -> None:
    """From now on the ledger's own answer to `method` is changed by `lie`."""

    async def fault(name: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(name, params)
        lie(answer)
        return answer

    bench.wire.faults[method] = fault


def _long_lived(answer: Any) -> None:
    answer["value"]["lastValidBlockHeight"] += 2


def _no_inner(answer: Any) -> None:
    answer["value"]["innerInstructions"] = None


def _no_accounts(answer: Any) -> None:
    answer["value"]["accounts"] = None


def _fewer_accounts(answer: Any) -> None:
    answer["value"]["accounts"].pop()


@pytest.mark.parametrize(
    ("method", "lie", "reason"),
    [
        ("getLatestBlockhash", _long_lived, "impossible last valid block height"),
        ("simulateTransaction", _no_inner, "no inner instructions"),
        ("simulateTransaction", _fewer_accounts, "unexpected shape"),
    ],
)
async def test_30_an_answer_that_cannot_be_is_no_ground_to_sign(
    bench: Bench, method: str, lie: Lie, reason: str
) -> None:
    lying(bench, method, lie)
    trial = await bench.engine.dry_run(bench.wallet.id, ADMIN, bench.draft(1))
    assert not trial.allowed
    with pytest.raises(TransactionFailed, match=reason):
        await bench.transfer(1)
    (record,) = await bench.history()
    assert (record.status.value, record.signature) == ("failed", None)
    assert bench.wire.calls["sendTransaction"] == 0
    assert await bench.reserved_units() == 0


def _more_gone(answer: Any) -> None:
    answer["value"]["accounts"][0]["lamports"] -= 1


@pytest.mark.parametrize("lie", [_no_accounts, _more_gone])
async def test_30_what_an_answer_shows_to_be_gone_counts_as_gone(bench: Bench, lie: Lie) -> None:
    lying(bench, "simulateTransaction", lie)
    with pytest.raises(GuardrailBlocked) as caught:
        await bench.transfer(1)
    assert caught.value.rule == "simulated_effects"


async def test_30_another_cluster_than_the_configured_one_is_refused(tmp_path: Path) -> None:
    localnet = await Localnet.open(None, LocalnetOptions())
    try:
        async with serving(localnet, "127.0.0.1", 0) as addresses:
            settings = Settings(
                _env_file=None,
                solward_home=tmp_path,
                api_secret="a-secret-for-tests-of-at-least-32-bytes",
                solana_network="devnet",
                solana_rpc_url=addresses.http,
            )
            with pytest.raises(WrongCluster, match="SOLANA_NETWORK is devnet, but"):
                async with open_cluster(settings):
                    raise AssertionError("another cluster was opened")
    finally:
        await localnet.close()


async def test_30_a_cluster_found_wrong_after_the_start_gets_no_transaction(bench: Bench) -> None:

    async def wrong() -> None:
        raise WrongCluster("SOLANA_NETWORK is devnet, but SOLANA_RPC_URL serves testnet")

    assert issubclass(WrongCluster, LedgerError)
    options = EngineOptions(Policy(DEFAULT_PROGRAMS), UNLIMITED)
    engine = Engine(bench.ledger, bench.database, bench.wallets, options, verify_cluster=wrong)
    with pytest.raises(TransactionFailed, match="serves testnet"):
        await engine.execute(bench.wallet.id, ADMIN, bench.draft(1))
    await engine.close()
    assert bench.wire.calls["sendTransaction"] == 0
