"""A client of a localnet for tests: builds, signs and sends real transactions."""

import base64
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction

from solward_localnet.errors import RpcError
from solward_localnet.node import Localnet

SOL = 1_000_000_000
FEE = 5_000
PAYER_LAMPORTS = 1_000 * SOL


@dataclass
class StillClock:
    """A clock in milliseconds that only moves when told to."""

    now_ms: int = 1_800_000_000_000

    def __call__(self) -> int:
        return self.now_ms

    def slots(self, count: int, slot_ms: int = 400) -> None:
        self.now_ms += count * slot_ms


def key() -> Pubkey:
    return Keypair().pubkey()


def pay(source: Pubkey, to: Pubkey, lamports: int) -> Instruction:
    return transfer(TransferParams(from_pubkey=source, to_pubkey=to, lamports=lamports))


def wire(tx: VersionedTransaction) -> str:
    return base64.b64encode(bytes(tx)).decode("ascii")


@dataclass
class Chain:
    node: Localnet
    clock: StillClock
    payer: Keypair

    @classmethod
    async def with_payer(cls, node: Localnet, clock: StillClock) -> "Chain":
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
        message = MessageV0.try_compile(
            paying.pubkey(), list(instructions), [], blockhash or await self.blockhash()
        )
        return VersionedTransaction(message, [paying, *signers])

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
