"""solana-pay-kit's own client: python buyer.py '{"rpc", "key", "url"}'; prints the answer."""

from __future__ import annotations

import asyncio
import json

from serving import GIVEN
from solana.rpc.async_api import AsyncClient
from solana_pay_kit.client import PayKitClient
from solana_pay_kit.signer import LocalSigner


async def main() -> None:
    builder = PayKitClient.builder().signer(LocalSigner.from_bytes(bytes(GIVEN["key"])))
    builder = builder.rpc(AsyncClient(GIVEN["rpc"])).network("localnet").permissions(False)
    async with builder.build() as client:
        answer = await client.get(GIVEN["url"], timeout=30)
        print(json.dumps({"status": answer.status_code, "body": answer.json()}))


asyncio.run(main())
