"""The embedded node: in this process, on a clock that stands still, and as a process of its own."""

from __future__ import annotations

import base64
import contextlib
import os
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from solward.solana.protocol import rent_of
from solward_localnet.jsonrpc import RpcError
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

# A client of a localnet for tests: builds, signs and sends real transactions.

SOL = 1_000_000_000
SLOT_MS = LocalnetOptions().slot_ms
FEE = 5_000
PAYER_LAMPORTS = 1_000 * SOL


@dataclass
class StillClock:
    """A clock in milliseconds that only moves when told to."""

    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def slots(self, count: int, slot_ms: int = SLOT_MS) -> None:
        self.now_ms += count * slot_ms


def rent(size: int) -> int:
    """Lamports of rent that a new localnet asks for an account of `size` bytes."""
    return rent_of(size, LocalnetOptions().rent_per_byte)


def key() -> Pubkey:
    return Keypair().pubkey()


def pay(source: Pubkey, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=source, to_pubkey=to, lamports=lamports))


def wire(tx: VersionedTransaction) -> str:
    return base64.b64encode(bytes(tx)).decode("ascii")


def signed(
    instructions: Sequence[Instruction], *signers: Keypair, blockhash: Hash | str
) -> VersionedTransaction:
    """A transaction that all its signers signed; the first pays."""
    latest = Hash.from_string(blockhash) if isinstance(blockhash, str) else blockhash
    message = MessageV0.try_compile(signers[0].pubkey(), list(instructions), [], latest)
    return VersionedTransaction(message, list(signers))


async def land(
    call: Callable[[str, Sequence[Any]], Awaitable[Any]],
    instructions: Sequence[Instruction],
    *signers: Keypair,
) -> str:
    """Put a transaction of somebody else on a ledger; its signature.

    Args:
        call: of the ledger's RPC, such as `Localnet.call`.
        signers: the first pays.
    """
    latest = (await call("getLatestBlockhash", []))["value"]["blockhash"]
    transaction = signed(instructions, *signers, blockhash=latest)
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    return str(await call("sendTransaction", [wire(transaction), options]))


@dataclass
class Chain:
    node: Localnet
    clock: StillClock
    payer: Keypair

    @classmethod
    async def with_payer(cls, node: Localnet, clock: StillClock) -> Chain:
        payer = Keypair()
        await node.call("requestAirdrop", [str(payer.pubkey()), PAYER_LAMPORTS])
        return cls(node, clock, payer)

    async def call(self, method: str, *params: Any) -> Any:
        return await self.node.call(method, params)

    async def value(self, method: str, *params: Any) -> Any:
        answer = await self.call(method, *params)
        assert set(answer["context"]) == {"apiVersion", "slot"}
        return answer["value"]

    async def error(self, method: str, *params: Any) -> RpcError:
        with pytest.raises(RpcError) as caught:
            await self.call(method, *params)
        return caught.value

    async def blockhash(self) -> Hash:
        return Hash.from_string((await self.value("getLatestBlockhash"))["blockhash"])

    async def signed(
        self,
        instructions: Sequence[Instruction],
        *signers: Keypair,
        payer: Keypair | None = None,
        blockhash: Hash | None = None,
    ) -> VersionedTransaction:
        paying = payer or self.payer
        latest = blockhash or await self.blockhash()
        return signed(instructions, paying, *signers, blockhash=latest)

    async def transfer(
        self, to: Pubkey, lamports: int, *, blockhash: Hash | None = None
    ) -> VersionedTransaction:
        return await self.signed([pay(self.payer.pubkey(), to, lamports)], blockhash=blockhash)

    async def post(self, tx: VersionedTransaction, **config: Any) -> str:
        """Send signed bytes; the signature."""
        return str(await self.call("sendTransaction", wire(tx), {"encoding": "base64", **config}))

    async def refused(self, tx: VersionedTransaction, **config: Any) -> RpcError:
        return await self.error("sendTransaction", wire(tx), {"encoding": "base64", **config})

    async def do(self, *instructions: Instruction, signers: Sequence[Keypair] = ()) -> str:
        """Sign and send instructions paid by the payer; the signature."""
        return await self.post(await self.signed(instructions, *signers))

    async def balance(self, address: Pubkey) -> int:
        return int(await self.value("getBalance", str(address)))

    async def status(self, signature: str) -> Mapping[str, Any] | None:
        found: Mapping[str, Any] | None = (await self.value("getSignatureStatuses", [signature]))[0]
        return found

    async def transaction(self, signature: str, **config: Any) -> Any:
        options = {"maxSupportedTransactionVersion": 1, **config}
        return await self.call("getTransaction", signature, options)


# A real `solward localnet` process on free ports.


@dataclass
class LocalnetProcess:
    """A running process; `http` and `ws` are where it listens."""

    process: subprocess.Popen[str]
    http: str
    ws: str

    def stop(self, number: signal.Signals = signal.SIGTERM) -> int:
        """Send the signal and wait; the exit code."""
        self.process.send_signal(number)
        return self.process.wait(20)


@contextlib.contextmanager
def localnet_process(ledger: Path, *options: str) -> Iterator[LocalnetProcess]:
    """Start the process on `ledger` and free ports; killed at the end where it still runs."""
    command = [sys.executable, "-m", "solward_cli.localnet", "--ledger", str(ledger)]
    process = subprocess.Popen(
        [*command, "--port", "0", *options],
        stdout=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
    )
    assert process.stdout is not None
    try:
        lines = [process.stdout.readline() for _ in range(3)]
        found = re.findall(r"(?:http|ws)://\S+", "".join(lines))
        assert len(found) == 2, f"the process did not say where it listens: {lines}"
        yield LocalnetProcess(process, *found)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()
