"""The localnet's market by its HTTP calls, over a localnet whose clock stands still."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import httpx
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from solders.token.associated import get_associated_token_address
from tests.support.localnet_chain import SOL, Chain, StillClock

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.market import POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.venue import venue_app

USDC, BONK = (str(pool.mint) for pool in POOLS)
# Fixed: test workers must name their cases alike.
TAKER = str(Keypair.from_seed(bytes(31) + b"\x09").pubkey())


@dataclass
class Market:
    """The venue's HTTP side over a localnet whose clock stands still."""

    chain: Chain
    http: httpx.AsyncClient

    async def ask(self, **query: Any) -> httpx.Response:
        good = {"inputMint": WRAPPED_SOL_MINT, "outputMint": USDC, "amount": SOL, "taker": TAKER}
        asked = {name: each for name, each in (good | query).items() if each is not None}
        return await self.http.get("/swap/v2/build", params=asked)

    async def build(self, source: str, target: str, amount: int, **more: Any) -> dict[str, Any]:
        response = await self.ask(inputMint=source, outputMint=target, amount=amount, **more)
        assert response.status_code == 200, response.text
        answer: dict[str, Any] = response.json()
        return answer

    async def trade(self, source: str, target: str, amount: int) -> int:
        """Settle the payer's swap as a user of the API does; what it was quoted."""
        taker = self.chain.payer
        answer = await self.build(source, target, amount, taker=str(taker.pubkey()))
        await self.chain.do(*whole(answer))
        self.chain.clock.slots(1)
        return int(answer["outAmount"])

    async def units(self, owner: Pubkey, mint: str) -> int:
        account = get_associated_token_address(owner, Pubkey.from_string(mint))
        held = await self.chain.value("getTokenAccountBalance", str(account))
        return int(held["amount"])


def instruction(body: dict[str, Any]) -> Instruction:
    accounts = [
        AccountMeta(Pubkey.from_string(each["pubkey"]), each["isSigner"], each["isWritable"])
        for each in body["accounts"]
    ]
    return Instruction(
        Pubkey.from_string(body["programId"]), base64.b64decode(body["data"]), accounts
    )


def whole(answer: dict[str, Any]) -> list[Instruction]:
    """Every instruction of an answer, in the order in which they are sent."""
    parts = [
        *answer["computeBudgetInstructions"],
        *answer["setupInstructions"],
        answer["swapInstruction"],
        *([answer["cleanupInstruction"]] if answer["cleanupInstruction"] else []),
    ]
    return [instruction(part) for part in parts]


@asynccontextmanager
async def open_market(**options: Any) -> AsyncIterator[Market]:
    clock = StillClock()
    opened = {"clock": clock, "ticker": False, "genesis": genesis_accounts, **options}
    node = await Localnet.open(None, LocalnetOptions(**opened))
    try:
        chain = await Chain.with_payer(node, clock)
        transport = httpx.ASGITransport(venue_app(node.call))
        async with httpx.AsyncClient(transport=transport, base_url="http://venue") as http:
            yield Market(chain, http)
    finally:
        await node.close()
