"""Calling a running Solward from Python: a wallet, a payment, a refusal."""

import asyncio
import os
from decimal import Decimal

from solward.client import Refused, SolwardClient

URL = os.environ.get("SOLWARD_API_URL", "http://127.0.0.1:3001")
RECEIVER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"


async def main() -> None:
    async with SolwardClient(URL, os.environ["SOLWARD_API_KEY"]) as client:
        wallet = await client.wallets.create(name="payroll")
        await client.wallets.airdrop(wallet.id, amount=2)
        paid = await client.wallets.transfer(wallet.id, to=RECEIVER, amount=Decimal("0.25"))
        print(paid.status, paid.signature)
        try:
            await client.wallets.transfer(wallet.id, to=RECEIVER, amount=5)
        except Refused as refused:
            print(refused)
        balance = await client.wallets.balance(wallet.id)
        print(balance.sol, "SOL left")


asyncio.run(main())
