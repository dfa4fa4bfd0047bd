"""Checks that a payment's transaction makes the transfers of the offer and nothing else; pure.

The offer is a seller's claim, read by a plugin. So this module checks the bytes, and the accounts
that they touch, against the offer before anything is reserved.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Mapping
from typing import Final

from solders.instruction import Instruction
from solders.pubkey import Pubkey

from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    MEMO_PROGRAMS,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAMS,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import MAX_COMPUTE_UNITS, System, Token
from solward.solana.tokens import TRANSFER_FEE, mint_account, token_account
from solward.types.errors import InvalidRequest
from solward.types.guardrail import SOL, TransactionEffects
from solward.types.ledger import Account
from solward.types.money import COUNTED_MAX
from solward.types.payment import PaymentMode
from solward.types.record import TransactionType
from solward.vault.guardrails.comparison import mint_refusals
from solward.vault.money.request import Draft, Payment

# With these extensions the seller gets less than is sent, or balances are hidden. So they are
# refused even if the operator allowed the mint.
_NEVER: Final = {TRANSFER_FEE: "a transfer fee", 4: "confidential transfers"}
_TRANSFER: Final = System.TRANSFER.to_bytes(4, "little")
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")


def check_draft(draft: Draft) -> None:
    """Refuse a draft whose type, mode or instructions do not match the payment it declares.

    Raises:
        InvalidRequest: the text names the fault.
    """
    payment, intent = draft.payment, draft.intent
    if payment is None:
        if intent.type == TransactionType.PAYMENT:
            raise InvalidRequest("type must not be payment: only the service itself may use it")
        return
    if intent.type != TransactionType.PAYMENT:
        raise InvalidRequest(f"type of a payment must be payment, not {intent.type}")
    if draft.wire is not None or draft.pocket is not None or draft.tables or draft.otherwise:
        raise InvalidRequest("a payment must consist of instructions alone")
    if not 0 < payment.units <= COUNTED_MAX:
        raise InvalidRequest(f"units of a payment must be 1 to {COUNTED_MAX}, not {payment.units}")
    if not 0 < payment.most_compute_units <= MAX_COMPUTE_UNITS:
        raise InvalidRequest(f"most_compute_units must be 1 to {MAX_COMPUTE_UNITS}")
    if payment.most_unit_price < 1:
        raise InvalidRequest("most_unit_price must be at least 1 micro-lamport")
    if not _DIGEST.fullmatch(payment.fingerprint):
        raise InvalidRequest("fingerprint must be a SHA-256 in lower case hex")
    if (payment.mode is PaymentMode.SPONSORED) != (payment.fee_payer is not None):
        raise InvalidRequest("a sponsored payment must have a fee payer, any other payment none")
    if payment.fee_payer is not None:
        try:
            Pubkey.from_string(payment.fee_payer)
        except ValueError:
            raise InvalidRequest("feePayer must be a base58 Solana address") from None
        if payment.fee_payer == intent.wallet:
            raise InvalidRequest("feePayer must not be the wallet itself")
    _check_instructions(draft.instructions, payment, intent.wallet)


def _check_instructions(
    instructions: Collection[Instruction], payment: Payment, wallet: str
) -> None:
    paid, memos = 0, 0
    for each in instructions:
        program, data = str(each.program_id), bytes(each.data)
        accounts = [str(meta.pubkey) for meta in each.accounts]
        if payment.fee_payer in accounts:
            raise InvalidRequest("no instruction of a payment may name the sponsor's account")
        if program in MEMO_PROGRAMS:
            memos += 1
            if data.decode("utf-8", "replace") != payment.memo:
                raise InvalidRequest("the memo instruction must contain the payment's memo alone")
        elif program in TOKEN_PROGRAMS and payment.asset != SOL:
            checked = len(data) == 10 and data[0] == Token.TRANSFER_CHECKED
            if not checked or len(accounts) != 4:
                raise InvalidRequest("a payment of tokens may use TransferChecked alone")
            source, mint, _to, authority = accounts
            if (source, mint, authority) != (payment.source, payment.asset, wallet):
                raise InvalidRequest("a payment's transfer must use the payment's account and mint")
            if data[9] != payment.decimals:
                raise InvalidRequest(f"a payment's transfer must not have {data[9]} decimals")
            paid += int.from_bytes(data[1:9], "little")
        elif program == SYSTEM_PROGRAM and payment.asset == SOL:
            if len(data) != 12 or data[:4] != _TRANSFER or accounts[:1] != [wallet]:
                raise InvalidRequest("a payment of SOL may use the wallet's Transfer alone")
            paid += int.from_bytes(data[4:12], "little")
        elif program != ASSOCIATED_TOKEN_PROGRAM or payment.fee_payer is not None:
            raise InvalidRequest(f"a payment must have no instruction of program {program}")
    if memos != (payment.memo is not None):
        raise InvalidRequest("a payment must have one memo instruction if it has a memo, else none")
    if paid != payment.units:
        raise InvalidRequest(f"the transfers of a payment move {paid} units, not {payment.units}")


def account_refusals(
    draft: Draft, payment: Payment, before: Mapping[str, Account | None], regulated: Collection[str]
) -> Iterator[str]:
    """Yield each reason to refuse a payment because of the accounts that it names.

    Args:
        before: address -> state of every account that the payment names.
        regulated: see `Policy.regulated_mints`.
    """
    if payment.asset == SOL:
        return
    mint = mint_account(payment.asset, before.get(payment.asset))
    if mint is None:
        yield f"{payment.asset} is not a mint, so nothing can be paid with it"
        return
    if mint.decimals != payment.decimals:
        yield (
            f"mint {mint.address} has {mint.decimals} decimals, but the payment states"
            f" {payment.decimals}"
        )
    never = [name for kind, name in _NEVER.items() if kind in mint.extensions]
    for name in never:
        yield f"mint {mint.address} has {name}, so nothing can be paid with it"
    if not never:
        yield from mint_refusals(mint, regulated)
    source = token_account(before.get(payment.source))
    if source is None or source.mint != mint.address:
        yield f"the wallet has no token account of mint {mint.address}"
    elif source.is_frozen:
        yield f"the wallet's account {payment.source} of mint {mint.address} is frozen"
    named = [(str(i.program_id), [str(a.pubkey) for a in i.accounts]) for i in draft.instructions]
    opened = {at[1] for program, at in named if program == ASSOCIATED_TOKEN_PROGRAM and at[1:]}
    for account in (at[2] for program, at in named if program in TOKEN_PROGRAMS):
        held = token_account(before.get(account))
        if held is not None and held.is_frozen:
            yield f"the seller's token account {account} of mint {mint.address} is frozen"
        elif held is None and account not in opened:
            yield (
                f"the seller's token account {account} of mint {mint.address} does not exist, and"
                " the payment does not open it"
            )


def amount_mismatch(payment: Payment, effects: TransactionEffects) -> str | None:
    """Return why the bytes do not pay exactly the amount; None if they do."""
    outflow = effects.outflow
    if outflow is None:
        return None
    native = payment.asset in (SOL, WRAPPED_SOL_MINT)
    tokens = {} if native else {payment.asset: payment.units}
    # A transfer to the wallet's own account moves nothing, but the seller would see a payment.
    if (outflow.lamports, dict(outflow.tokens)) != (payment.units if native else 0, tokens):
        return "the payment's bytes do not take exactly the payment's amount"
    return None


def source_balance(payment: Payment, before: Mapping[str, Account | None]) -> int:
    """Return the units in a payment's source account before the payment."""
    state = before.get(payment.source)
    if payment.asset == SOL:
        return 0 if state is None else state.lamports
    account = token_account(state)
    return 0 if account is None else min(account.amount, COUNTED_MAX)
