"""The localnet from a program of yours: solana-py, as against any Solana node."""

import asyncio

from solana.constants import LAMPORTS_PER_SOL
from solana.rpc.async_api import AsyncClient
from solders.keypair import Keypair


async def main() -> None:
    keypair = Keypair()
    async with AsyncClient("http://127.0.0.1:8899") as client:
        signature = (await client.request_airdrop(keypair.pubkey(), LAMPORTS_PER_SOL)).value
        await client.confirm_transaction(signature)
        print((await client.get_balance(keypair.pubkey())).value)


asyncio.run(main())
