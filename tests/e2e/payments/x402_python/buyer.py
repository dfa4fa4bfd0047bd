"""x402's own client: python buyer.py '{"rpc", "key", "url"}'; prints the answer."""

from __future__ import annotations

import asyncio
import json

from serving import GIVEN
from solders.keypair import Keypair
from x402 import x402Client
from x402.http.clients.httpx import x402HttpxClient
from x402.mechanisms.svm import KeypairSigner
from x402.mechanisms.svm.exact import register_exact_svm_client


async def main() -> None:
    signer = KeypairSigner(Keypair.from_bytes(bytes(GIVEN["key"])))
    client = register_exact_svm_client(x402Client(), signer, rpc_url=GIVEN["rpc"])
    # Otherwise it pays in the USDC of mainnet and devnet alone.
    client.set_spend_controls(False)
    async with x402HttpxClient(client) as http:
        answer = await http.get(GIVEN["url"], timeout=30)
        print(json.dumps({"status": answer.status_code, "body": answer.json()}))


asyncio.run(main())
