"""One client process of the limit race: as many transfers at once as it is told.

    python racer.py URL TOKEN COUNT AMOUNT RECIPIENT WALLET [WALLET ...]

Prints the accepted signatures, one a line.
"""

from __future__ import annotations

import asyncio
import sys

import httpx


async def main() -> None:
    """Send them all, then print what was accepted."""
    url, token, count, amount, recipient, *wallets = sys.argv[1:]
    limits = httpx.Limits(max_connections=100)
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx.AsyncClient(
        base_url=url, headers=headers, timeout=120, limits=limits
    ) as client:
        body = {"to": recipient, "amount": float(amount)}
        answers = await asyncio.gather(
            *(
                client.post(f"/wallets/{wallets[n % len(wallets)]}/transfer", json=body)
                for n in range(int(count))
            )
        )
    for answer in answers:
        if answer.status_code == 200:
            print(answer.json()["signature"])
        else:
            assert answer.status_code == 500, answer.text


asyncio.run(main())
