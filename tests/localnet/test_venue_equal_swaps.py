"""Equal swaps asked for together: each is a transaction of its own."""

from __future__ import annotations

import asyncio
import base64

import httpx
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.transaction import VersionedTransaction

from solward.solana.programs import WRAPPED_SOL_MINT
from solward_localnet.market import POOLS, genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.venue import venue_app

USDC = POOLS[0]
ASKED = {
    "inputMint": WRAPPED_SOL_MINT,
    "outputMint": str(USDC.mint),
    "amount": "1000",
    "slippageBps": "50",
}


async def test_equal_swaps_on_one_blockhash_all_land() -> None:
    # Without a ticker and with a clock that stands, every swap gets the same blockhash.
    options = LocalnetOptions(genesis=genesis_accounts, ticker=False, clock=lambda: 1_000_000)
    node = await Localnet.open(None, options)
    user = Keypair()
    transport = httpx.ASGITransport(venue_app(node.call))
    try:
        await node.call("requestAirdrop", [str(user.pubkey()), 10**9])
        async with httpx.AsyncClient(transport=transport, base_url="http://localnet") as http:
            quote = (await http.get("/swap/v1/quote", params=ASKED)).json()
            body = {"quoteResponse": quote, "userPublicKey": str(user.pubkey())}
            answers = await asyncio.gather(
                *(http.post("/swap/v1/swap", json=body) for _ in range(3))
            )
        made = [
            VersionedTransaction.from_bytes(base64.b64decode(answer.json()["swapTransaction"]))
            for answer in answers
        ]
        assert len({str(each.message.recent_blockhash) for each in made}) == 1
        for each in made:
            own = user.sign_message(bytes(to_bytes_versioned(each.message)))
            signed = VersionedTransaction.populate(each.message, [own, *each.signatures[1:]])
            wire = base64.b64encode(bytes(signed)).decode()
            await node.call("sendTransaction", [wire, {"encoding": "base64"}])
        lookup = [str(user.pubkey()), {"mint": str(USDC.mint)}, {"encoding": "jsonParsed"}]
        (account,) = (await node.call("getTokenAccountsByOwner", lookup))["value"]
        held = account["account"]["data"]["parsed"]["info"]["tokenAmount"]["amount"]
        assert int(held) == 3 * int(quote["outAmount"])
    finally:
        await node.close()
