"""Payments on a real ledger: a wallet with a token, a seller, a sponsor who sends what he gets."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from pathlib import Path
from typing import Any

from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams
from tests.support.engine import Bench
from tests.support.localnet import signed
from tests.support.tokens import TOKEN, TokenBench, open_tokens

from solward.solana.programs import MEMO_PROGRAM
from solward.support.clock import now_ms
from solward.types.guardrail import Intent
from solward.types.payment import PaymentMode, Served
from solward.types.record import TransactionRecord, TransactionStatus, TransactionType
from solward.vault.money.request import ADMIN, Actor, Draft, HandedOverPayment, Payment
from solward.vault.store import spending
from solward.vault.store.attempts import AttemptState
from solward.vault.store.payments import StoredAnswer

SOL = 1_000_000_000
PRICE = 10_000
FUNDS = 1_000_000
# Past the expiry of whatever was signed before, and the finalized height past it too.
EXPIRED_SLOTS = 200


@dataclass
class Shop:
    """The parts, and whom is paid.

    Attributes:
        mint: that the wallet holds `FUNDS` units of.
        seller: owner of the token account that is paid.
        sponsor: pays fees, and sends.
    """

    tokens: TokenBench
    mint: str
    seller: Keypair
    sponsor: Keypair
    made: int = 0

    @property
    def bench(self) -> Bench:
        return self.tokens.bench

    def draft(
        self,
        units: int = PRICE,
        *,
        mode: PaymentMode = PaymentMode.SPONSORED,
        memo: str | None = None,
        url: str = "https://api.example.com/forecast",
        wallet: str | None = None,
        to: Pubkey | None = None,
        program: Pubkey = TOKEN,
        **terms: Any,
    ) -> Draft:
        """A payment of the token."""
        address = wallet or self.bench.wallet.address
        payer, mint = Pubkey.from_string(address), Pubkey.from_string(self.mint)
        source = get_associated_token_address(payer, mint, program)
        dest = to or get_associated_token_address(self.seller.pubkey(), mint, program)
        instructions = [
            transfer_checked(
                TransferCheckedParams(
                    program_id=program,
                    source=source,
                    mint=mint,
                    dest=dest,
                    owner=payer,
                    amount=units,
                    decimals=6,
                )
            )
        ]
        if memo is not None:
            instructions.append(memo_of(memo))
        sponsored = mode is PaymentMode.SPONSORED
        seller = str(self.seller.pubkey())
        payment = Payment(
            protocol="test",
            mode=mode,
            site="api.example.com",
            url=url,
            method="GET",
            fingerprint=hashlib.sha256(url.encode()).hexdigest(),
            offer={"network": "localnet"},
            asset=self.mint,
            units=units,
            decimals=6,
            pay_to=seller,
            source=str(source),
            fee_payer=str(self.sponsor.pubkey()) if sponsored else None,
            memo=memo,
        )
        intent = Intent(
            type=TransactionType.PAYMENT,
            wallet=address,
            tokens_out={self.mint: units},
            destinations=frozenset({seller}),
            details={"site": "api.example.com", "amount": Decimal(units) / 1_000_000},
        )
        return Draft(intent, tuple(instructions), payment=replace(payment, **terms))

    async def hand_over(
        self, units: int = PRICE, *, actor: Actor = ADMIN, **terms: Any
    ) -> HandedOverPayment:
        """Have the wallet's payment signed."""
        draft = self.draft(units, **terms)
        return await self.bench.engine.hand_over(self.bench.wallet.id, actor, draft)

    def signed(self, wire: bytes | None) -> VersionedTransaction:
        """With the sponsor's signature."""
        assert wire is not None
        unsigned = VersionedTransaction.from_bytes(wire)
        mine = self.sponsor.sign_message(bytes(to_bytes_versioned(unsigned.message)))
        return VersionedTransaction.populate(unsigned.message, [mine, *unsigned.signatures[1:]])

    @staticmethod
    def as_it_is(wire: bytes) -> VersionedTransaction:
        """What the wallet alone signs."""
        return VersionedTransaction.from_bytes(wire)

    async def send(self, transaction: VersionedTransaction, *, preflight: bool = True) -> str:
        """Put bytes on the ledger, past every fault."""
        wire = base64.b64encode(bytes(transaction)).decode()
        options = {"encoding": "base64", "skipPreflight": not preflight}
        return str(await self.bench.wire.direct("sendTransaction", [wire, options]))

    async def settle(self, handed: HandedOverPayment) -> str:
        """Sign and send as a facilitator does; the transaction's signature."""
        return await self.send(self.signed(handed.wire))

    async def answer(
        self, handed: HandedOverPayment, hint: str | None = None, served: Served = Served.YES
    ) -> None:
        """The seller answers, and names a signature."""
        status = 200 if served is Served.YES else 500
        answer = StoredAnswer(status, (), b"{}", served, hint, now_ms())
        await self.bench.engine.note_answer(handed.record.id, answer, 1_000_000)

    async def ended(self, handed: HandedOverPayment, seconds: float = 20) -> TransactionRecord:
        """The record once it is not pending any more."""
        record = await self.bench.engine.wait_until_settled(handed.record.id, seconds)
        assert record.status is not TransactionStatus.PENDING
        return record

    async def received(self) -> int:
        """What the seller has, by the ledger."""
        return sum((await self.tokens.accounts(self.mint, str(self.seller.pubkey()))).values())

    async def counted(self) -> int:
        """Units of the token that count against the wallet in 24 hours."""
        scope = f"wallet:{self.bench.wallet.id}"
        async with self.bench.database.read() as connection:
            found = await spending.usage(connection, [scope], [self.mint], now_ms())
        return found[scope].units_last_day.get(self.mint, 0)

    async def state(self, handed: HandedOverPayment) -> str:
        """Of the only attempt, which has a slot once it has landed."""
        from sqlalchemy import select

        from solward.database.tables import attempts

        async with self.bench.database.read() as connection:
            found = await connection.execute(
                select(attempts.c.state, attempts.c.landed_slot).where(
                    attempts.c.transaction_id == handed.record.id
                )
            )
        [(state, landed_slot)] = found
        assert AttemptState(state).landed == bool(landed_slot)
        return str(state)

    async def expire(self, slots: int = EXPIRED_SLOTS) -> None:
        await self.bench.localnet.advance_slots(slots)

    async def spam(self, rows: int, address: str | None = None) -> None:
        """Somebody mentions an address in transactions of his own."""
        at = address or self.tokens.account(self.mint)
        stranger = self.tokens.stranger
        latest = await self.bench.ledger.latest_blockhash()
        for _ in range(rows):
            self.made += 1
            params = TransferParams(
                from_pubkey=stranger.pubkey(), to_pubkey=stranger.pubkey(), lamports=self.made
            )
            instruction = transfer(params)
            mention = AccountMeta(Pubkey.from_string(at), False, False)
            instruction = Instruction(
                instruction.program_id, bytes(instruction.data), [*instruction.accounts, mention]
            )
            mentioned = signed([instruction], stranger, blockhash=latest.blockhash)
            await self.send(mentioned, preflight=False)


def memo_of(text: str) -> Instruction:
    """A memo that nobody signs."""
    return Instruction(Pubkey.from_string(MEMO_PROGRAM), text.encode(), [])


def foreign_signature() -> str:
    """Of nobody's transaction."""
    return str(Signature.new_unique())


@asynccontextmanager
async def open_shop(
    tmp_path: Path, *, seller_has_account: bool = True, **options: Any
) -> AsyncIterator[Shop]:
    """Open everything; the watcher is fast."""
    async with open_tokens(tmp_path, **options) as tokens:
        mint = await tokens.mint(units=FUNDS, ours=False)
        seller, sponsor = Keypair(), Keypair()
        await tokens.bench.wire.direct("requestAirdrop", [str(sponsor.pubkey()), SOL])
        if seller_has_account:
            at, payer = Pubkey.from_string(mint), tokens.stranger.pubkey()
            await tokens.land(
                [create_idempotent_associated_token_account(payer, seller.pubkey(), at)]
            )
        tokens.bench.engine.watcher.pace = 0.02
        tokens.bench.engine.sender.pace = 0.05
        yield Shop(tokens, mint, seller, sponsor)


# Ed25519 (RFC 8032): with another nonce a key has another signature of the same message.
_PRIME = 2**255 - 19
_ORDER = 2**252 + 27742317777372353535851937790883648493
_D = -121665 * pow(121666, -1, _PRIME) % _PRIME
_BASE = (
    15112221349535400772501151409588531511454012693041857206046113283949847762202,
    46316835694926478169428394003475163141307993866256225615783033603165251855960,
)
_Point = tuple[int, int]


def _sum(one: _Point, other: _Point) -> _Point:
    (x, y), (u, v) = one, other
    k = _D * x * u * y * v
    return (
        (x * v + u * y) * pow(1 + k, -1, _PRIME) % _PRIME,
        (y * v + x * u) * pow(1 - k, -1, _PRIME) % _PRIME,
    )


def another_signature(key: Keypair, message: bytes, nonce: int) -> Signature:
    """A valid signature other than the one that every library makes."""
    hashed = hashlib.sha512(bytes(key)[:32]).digest()
    scalar = int.from_bytes(hashed[:32], "little") & ((1 << 254) - 8) | 1 << 254
    point, power, left = (0, 1), _BASE, nonce
    while left:
        point = _sum(point, power) if left & 1 else point
        power, left = _sum(power, power), left >> 1
    chosen = (point[1] | (point[0] & 1) << 255).to_bytes(32, "little")
    challenge = hashlib.sha512(chosen + bytes(key.pubkey()) + message).digest()
    proof = (nonce + int.from_bytes(challenge, "little") * scalar) % _ORDER
    return Signature(chosen + proof.to_bytes(32, "little"))
