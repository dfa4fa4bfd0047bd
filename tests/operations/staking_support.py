"""What an owner does with the wallet's key past the service, as with an imported key."""

from __future__ import annotations

import base64

from solders.instruction import Instruction
from tests.transactions.engine_bench import Bench

from solward.guardrails import Intent
from solward.transactions.build import compile_instructions, message_bytes, with_signature
from solward.transactions.request import Draft


async def by_hand(bench: Bench, *instructions: Instruction) -> None:
    """Land instructions signed by the wallet that no guardrail has seen."""
    draft = Draft(Intent(type="other", wallet=bench.wallet.address), instructions)
    blockhash = (await bench.ledger.latest_blockhash()).blockhash
    unsigned = compile_instructions(draft, blockhash, None)
    signer = await bench.wallets.signer(bench.wallet.id)
    signed = with_signature(unsigned, await signer.sign(message_bytes(unsigned.message)))
    wire = base64.b64encode(bytes(signed)).decode()
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    await bench.wire.direct("sendTransaction", [wire, options])
