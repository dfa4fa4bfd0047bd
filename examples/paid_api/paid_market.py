"""For the tests: a ledger with tokens, and a buyer who holds them and signs what he likes."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from paid_api import Price
from quart.wrappers import Response
from solana.rpc.async_api import AsyncClient
from solana.rpc.commitment import Processed
from solana.rpc.models import TxOpts
from solders.instruction import Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.system_program import CreateAccountParams, create_account
from solders.token import ID as TOKEN_PROGRAM
from solders.token.associated import get_associated_token_address
from solders.transaction import VersionedTransaction
from spl.memo.constants import MEMO_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    initialize_mint2,
    mint_to,
    transfer_checked,
)
from spl.token.models import InitializeMint2Params, MintToParams, TransferCheckedParams

from solward_localnet.node import Localnet

PRICE = 10_000


@dataclass
class Market:
    """A served localnet, two mints of the buyer's, and the accounts of buyer and seller."""

    localnet: Localnet
    client: AsyncClient
    rpc_url: str
    buyer: Keypair = field(default_factory=Keypair)
    seller: Pubkey = field(default_factory=lambda: Keypair().pubkey())
    mints: list[Pubkey] = field(default_factory=list)

    @property
    def price(self) -> Price:
        return Price(PRICE, str(self.mints[0]), 6)

    def account(self, owner: Pubkey, mint: int = 0) -> Pubkey:
        return get_associated_token_address(owner, self.mints[mint], TOKEN_PROGRAM)

    async def land(self, instructions: Sequence[Instruction], *signers: Keypair) -> str:
        """Send a transaction of the buyer's; its signature."""
        wire = await self.signed(instructions, *signers)
        options = TxOpts(preflight_commitment=Processed)
        return str((await self.client.send_raw_transaction(base64.b64decode(wire), options)).value)

    async def signed(self, instructions: Sequence[Instruction], *signers: Keypair) -> str:
        """A transaction of the buyer's, which nobody has sent; base64."""
        latest = (await self.client.get_latest_blockhash()).value
        message = MessageV0.try_compile(
            self.buyer.pubkey(), list(instructions), [], latest.blockhash
        )
        wire = bytes(VersionedTransaction(message, [self.buyer, *signers]))
        return base64.b64encode(wire).decode()

    async def mint(self) -> None:
        """A mint, of which the buyer holds a million units; both have an account of it."""
        mint, payer = Keypair(), self.buyer.pubkey()
        at = mint.pubkey()
        self.mints.append(at)
        index = len(self.mints) - 1
        opening = CreateAccountParams(
            from_pubkey=payer, to_pubkey=at, lamports=10_000_000, space=82, owner=TOKEN_PROGRAM
        )
        making = InitializeMint2Params(
            decimals=6, program_id=TOKEN_PROGRAM, mint=at, mint_authority=payer
        )
        filling = MintToParams(
            program_id=TOKEN_PROGRAM,
            mint=at,
            dest=self.account(payer, index),
            mint_authority=payer,
            amount=1_000_000,
        )
        accounts = [
            create_idempotent_associated_token_account(payer, owner, at, TOKEN_PROGRAM)
            for owner in (payer, self.seller)
        ]
        steps = [create_account(opening), initialize_mint2(making), *accounts, mint_to(filling)]
        await self.land(steps, mint)

    def transfer(self, units: int = PRICE, mint: int = 0, to: Pubkey | None = None) -> Instruction:
        owner = self.buyer.pubkey()
        return transfer_checked(
            TransferCheckedParams(
                program_id=TOKEN_PROGRAM,
                source=self.account(owner, mint),
                mint=self.mints[mint],
                dest=to or self.account(self.seller, mint),
                owner=owner,
                amount=units,
                decimals=6,
            )
        )


def memo(text: str) -> Instruction:
    return Instruction(MEMO_PROGRAM_ID, text.encode(), [])


def challenge_of(answer: Response) -> dict[str, str]:
    """The fields of the `WWW-Authenticate` header of a 402."""
    assert answer.status_code == 402
    scheme, _, fields = answer.headers["WWW-Authenticate"].partition(" ")
    assert scheme == "Payment"
    return dict(re.findall(r'(\w+)="([^"]*)"', fields))


def asked(challenge: Mapping[str, str]) -> dict[str, Any]:
    """What a challenge asks for."""
    text = challenge["request"]
    found: dict[str, Any] = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return found


def credential(
    challenge: Mapping[str, str], payment: Any, kind: str = "signature"
) -> dict[str, str]:
    """The header that shows a payment: a signature, or the transaction itself."""
    shown = {"challenge": challenge, "payload": {"type": kind, kind: payment}}
    text = base64.urlsafe_b64encode(json.dumps(shown).encode()).decode().rstrip("=")
    return {"Authorization": f"Payment {text}"}
