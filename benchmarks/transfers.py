"""Transfers through REST, against the same transfers on the bare VM and a bare handler."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import load
from benchmarks.report import Ratio
from solders.hash import Hash
from solders.keypair import Keypair
from solders.litesvm import LiteSVM
from solders.message import MessageV0
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

COUNT = 1_000
WALLETS = 500


def litesvm_per_second() -> float:
    """Build, sign and execute transfers straight on the VM."""
    vm = LiteSVM().with_blockhash_check(False)
    payer, recipient = Keypair(), Keypair().pubkey()
    vm.airdrop(payer.pubkey(), 10**15)
    started = time.perf_counter()
    for number in range(COUNT):
        params = TransferParams(
            from_pubkey=payer.pubkey(), to_pubkey=recipient, lamports=10**6 + number
        )
        message = MessageV0.try_compile(payer.pubkey(), [transfer(params)], [], Hash.default())
        vm.send_transaction(VersionedTransaction(message, [payer]))
    return COUNT / (time.perf_counter() - started)


async def measure(tmp: Path) -> Iterator[Ratio]:
    """Wallets made and transfers sent through REST."""
    recipient = str(Keypair().pubkey())
    with load.bare() as url:
        async with load.client(f"{url}/") as client:
            echo = load.Request("POST", "echo", {"to": recipient, "amount": 0.001})
            await load.per_second(client, [echo] * 500)
            bare = await load.per_second(client, [echo] * 4_000)
    with load.service(tmp / "transfers") as url:
        async with load.client(f"{url}/api/v1/") as client:
            create = load.Request("POST", "wallets", {})
            await load.per_second(client, [create] * 50)
            created = await load.per_second(client, [create] * WALLETS)
            wallet = f"wallets/{(await load.answer(client, create))['walletId']}"
            await load.answer(client, load.Request("POST", f"{wallet}/airdrop", {"amount": 2}))
            requests = [
                load.Request(
                    "POST",
                    f"{wallet}/transfer",
                    {"to": recipient, "amount": (1_000_000 + number) / 10**9},
                )
                for number in range(COUNT)
            ]
            await load.per_second(client, requests[:50])
            sent = await load.per_second(client, requests[50:])
    return iter(
        [
            Ratio("transfers by REST / on the bare VM", sent, litesvm_per_second(), "1/s", 0.01),
            Ratio("transfers by REST / bare Quart handler", sent, bare, "1/s", 0.03),
            Ratio("wallets created by REST / bare Quart handler", created, bare, "1/s", 0.1),
        ]
    )
