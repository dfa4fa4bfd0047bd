"""A ledger that lies gets no signature: what its answers cannot prove is a failed record."""

from __future__ import annotations

import base64
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.engine import UNLIMITED, Bench
from tests.support.swaps import USDC_POOL, open_swaps
from tests.support.tokens import open_tokens

from solward.service.cluster import WrongCluster, open_cluster
from solward.settings import Settings
from solward.solana.programs import TOKEN_PROGRAMS
from solward.types.errors import GuardrailBlocked, LedgerError, TransactionFailed
from solward.vault.guardrails.rules import Policy
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN
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


@promise("far-expiry-not-signed")
@pytest.mark.parametrize(
    ("method", "lie", "reason"),
    [
        ("getLatestBlockhash", _long_lived, "impossible last valid block height"),
        ("simulateTransaction", _no_inner, "no inner instructions"),
        ("simulateTransaction", _fewer_accounts, "unexpected shape"),
        ("simulateTransaction", _no_accounts, "reported no accounts"),
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


@promise("hidden-accounts-refused")
async def test_30_what_an_answer_shows_to_be_gone_counts_as_gone(bench: Bench) -> None:
    lying(bench, "simulateTransaction", _more_gone)
    with pytest.raises(GuardrailBlocked) as caught:
        await bench.transfer(1)
    assert caught.value.rule == "simulated_effects"


async def refused(home: Path, network: str, text: str) -> None:
    """A localnet that a service of `network` must not open, for the reason in `text`."""
    localnet = await Localnet.open(None, LocalnetOptions())
    try:
        async with serving(localnet, "127.0.0.1", 0) as addresses:
            settings = Settings(
                _env_file=None,
                solward_home=home,
                api_secret="a-secret-for-tests-of-at-least-32-bytes",
                solana_network=network,
                solana_rpc_url=addresses.http,
            )
            with pytest.raises(WrongCluster, match=text):
                async with open_cluster(settings):
                    raise AssertionError("the cluster was opened")
    finally:
        await localnet.close()


async def test_30_another_cluster_than_the_configured_one_is_refused(tmp_path: Path) -> None:
    await refused(tmp_path, "devnet", r"SOLANA_NETWORK is devnet \(.*, but .* an unknown cluster")


async def test_30_a_cluster_found_wrong_after_the_start_gets_no_transaction(bench: Bench) -> None:

    async def wrong() -> None:
        raise WrongCluster("SOLANA_NETWORK is devnet, but SOLANA_RPC_URL serves testnet")

    assert issubclass(WrongCluster, LedgerError)
    options = EngineOptions(Policy(), UNLIMITED)
    engine = Engine(bench.ledger, bench.database, bench.wallets, options, verify_cluster=wrong)
    with pytest.raises(TransactionFailed, match="serves testnet"):
        await engine.execute(bench.wallet.id, ADMIN, bench.draft(1))
    await engine.close()
    assert bench.wire.calls["sendTransaction"] == 0


def _ten_to_the_ninth(answer: Any) -> None:
    """A mint's decimals are its 45th byte."""
    value = answer["value"]
    if value is not None and value["owner"] in TOKEN_PROGRAMS:
        data = bytearray(base64.b64decode(value["data"][0]))
        data[44] = 9
        value["data"][0] = base64.b64encode(bytes(data)).decode()


@promise("listed-decimals-only", "listed-decimals-hold")
async def test_decimals_that_a_listed_mint_has_not_are_no_ground_to_sign(tmp_path: Path) -> None:
    """One USDC would be a thousand."""
    async with open_swaps(tmp_path) as swaps:
        await swaps.swap("SOL", "USDC", 8)
        held, sent = await swaps.units(USDC_POOL.mint), await swaps.sent()
        lying(swaps.bench, "getAccountInfo", _ten_to_the_ninth)
        with pytest.raises(TransactionFailed, match="has 9 decimals; it has 6"):
            await swaps.swap("USDC", "SOL", 1)
        assert (await swaps.units(USDC_POOL.mint), await swaps.sent()) == (held, sent)


@promise("listed-decimals-only", "wrong-decimals-fail")
@pytest.mark.parametrize(
    ("operation", "named"),
    [
        ("transfer_token", {"to": str(Keypair().pubkey())}),
        ("burn", {}),
        ("mint_supply", {}),
    ],
)
async def test_wrong_decimals_of_any_mint_fail_on_the_ledger(
    tmp_path: Path, operation: str, named: dict[str, Any]
) -> None:
    async with open_tokens(tmp_path) as tokens:
        mint = await tokens.mint(units=5_000_000_000)
        lying(tokens.bench, "getAccountInfo", _ten_to_the_ninth)
        with pytest.raises((TransactionFailed, GuardrailBlocked)):
            await tokens.operations.perform(
                operation, tokens.wallet, ADMIN, {"mint": mint, "amount": 1, **named}
            )
        assert await tokens.units(mint) == 5_000_000_000
        assert tokens.sent() == 0
