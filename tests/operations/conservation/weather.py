"""What can befall a transaction between the service and the ledger."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from typing import Any

from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from tests.support.engine import Bench, by_hand
from tests.support.swaps import SwapBench

from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.vault.custody import Wallet

WEATHERS = ("calm", "silent", "lost", "unheard", "overtaken")
# More than the 150 blocks a blockhash lives.
_TOO_LATE_SLOTS = 200
# Enough for any fee here, and for the account to stay alive after it.
_LEFT_OVER = 1_000_000


@contextmanager
def weather(name: str, swaps: SwapBench, wallet: Wallet, stranger: Keypair) -> Iterator[None]:
    """Let one of `WEATHERS` pass over a wallet's transaction.

    `silent`: neither simulation, faucet nor venue answers. `lost`: the signed bytes never arrive.
    `unheard`: they arrive twice, and no answer comes back. `overtaken`: the owner gives the
    wallet's SOL to the stranger by hand just before they arrive.
    """
    bench, plugin = swaps.bench, swaps.plugin
    faults, honest = bench.wire.faults, plugin.requote

    async def silent(method: str, _params: Sequence[Any]) -> Any:
        raise LedgerUnavailable(f"The ledger did not answer {method}")

    def away(_quote: Any) -> Any:
        raise LedgerUnavailable("The swap venue did not answer")

    async def lost(method: str, params: Sequence[Any]) -> Any:
        await bench.localnet.advance_slots(_TOO_LATE_SLOTS)
        return await silent(method, params)

    async def unheard(method: str, params: Sequence[Any]) -> Any:
        await bench.wire.direct(method, params)
        # Now it is refused as processed already.
        with suppress(LedgerRejected):
            await bench.wire.direct(method, params)
        return await silent(method, params)

    async def overtaken(method: str, params: Sequence[Any]) -> Any:
        await _spend_by_hand(bench, wallet, stranger)
        wire, options = params
        return await bench.wire.direct(method, [wire, {**options, "skipPreflight": True}])

    match name:
        case "silent":
            faults |= {"simulateTransaction": silent, "requestAirdrop": silent}
            plugin.requote = away
        case "lost":
            faults["sendTransaction"] = lost
        case "unheard":
            faults["sendTransaction"] = unheard
        case "overtaken":
            faults["sendTransaction"] = overtaken
        case _:
            assert name == "calm"
    try:
        yield
    finally:
        faults.clear()
        plugin.requote = honest


async def _spend_by_hand(bench: Bench, wallet: Wallet, stranger: Keypair) -> None:
    held = await bench.lamports(wallet.address)
    if held <= 2 * _LEFT_OVER:
        return
    pay = TransferParams(
        from_pubkey=Pubkey.from_string(wallet.address),
        to_pubkey=stranger.pubkey(),
        lamports=held - _LEFT_OVER,
    )
    await by_hand(replace(bench, wallet=wallet), transfer(pay))
