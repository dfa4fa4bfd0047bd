"""The transaction of a payment: transfers and a memo, as the seller's protocol wants them."""

from __future__ import annotations

import secrets

from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer

from solward.operations.payments.offers import Chosen
from solward.operations.payments.requests import SellerRequest
from solward.solana.instructions import Token
from solward.solana.programs import MEMO_PROGRAM
from solward.solana.tokens import associated_address
from solward.types.guardrail import SOL, Intent
from solward.types.manifest import site_name
from solward.types.money import from_units
from solward.types.payment import PaymentMode, offer_json
from solward.types.record import TransactionType
from solward.vault.money.request import Draft, Payment

# Of a memo that only makes equal payments distinct: as hexadecimal digits.
_NONCE_BYTES = 16


def payment_draft(wallet: str, request: SellerRequest, chosen: Chosen) -> Draft:
    """The draft of a payment, without compute budget.

    Args:
        wallet: the payer's address.
    """
    offer, asset = chosen.offer, chosen.asset
    parts = [
        (offer.pay_to, offer.units - sum(each.units for each in offer.splits)),
        *((each.recipient, each.units) for each in offer.splits),
    ]
    memo = offer.memo
    if memo is None and offer.nonce_memo:
        memo = secrets.token_hex(_NONCE_BYTES)
    program = asset.program
    if program is None:
        source = wallet
        transfers = [_sol(wallet, to, units) for to, units in parts]
        receivers = {to for to, _ in parts}
    else:
        source = associated_address(wallet, asset.mint, program)
        accounts = {to: associated_address(to, asset.mint, program) for to, _ in parts}
        transfers = [
            _tokens(wallet, source, accounts[to], chosen, program, units) for to, units in parts
        ]
        receivers = {*accounts, *accounts.values()}
    memos = [] if memo is None else [_memo(memo)]
    is_sol = asset.mint == SOL
    site = site_name(request.site)
    intent = Intent(
        type=TransactionType.PAYMENT,
        wallet=wallet,
        lamports_out=offer.units if is_sol else 0,
        tokens_out={} if is_sol else {asset.mint: offer.units},
        destinations=frozenset(receivers),
        details={
            "from": wallet,
            "to": offer.pay_to,
            "site": site,
            "url": request.shown_url,
            "method": request.method,
            "protocol": chosen.protocol,
            "mode": chosen.mode.value,
            "asset": asset.mint,
            "amount": from_units(offer.units, asset.decimals),
        },
    )
    payment = Payment(
        protocol=chosen.protocol,
        mode=chosen.mode,
        site=site,
        url=request.shown_url,
        method=request.method,
        fingerprint=request.fingerprint,
        offer=offer_json(offer),
        asset=asset.mint,
        units=offer.units,
        decimals=asset.decimals,
        pay_to=offer.pay_to,
        source=source,
        fee_payer=offer.fee_payer if chosen.mode is PaymentMode.SPONSORED else None,
        memo=memo,
        most_compute_units=offer.most_compute_units,
        most_unit_price=offer.most_unit_price,
    )
    return Draft(intent, (*transfers, *memos), payment=payment)


def _sol(wallet: str, to: str, lamports: int) -> Instruction:
    return transfer(
        TransferParams(
            from_pubkey=Pubkey.from_string(wallet),
            to_pubkey=Pubkey.from_string(to),
            lamports=lamports,
        )
    )


def _tokens(
    wallet: str, source: str, destination: str, chosen: Chosen, program: str, units: int
) -> Instruction:
    # As `spl.token` has it, whose own function takes a tenth of a millisecond to write ten bytes.
    asset = chosen.asset
    data = bytes((Token.TRANSFER_CHECKED,)) + units.to_bytes(8, "little") + bytes((asset.decimals,))
    accounts = (
        AccountMeta(Pubkey.from_string(source), is_signer=False, is_writable=True),
        AccountMeta(Pubkey.from_string(asset.mint), is_signer=False, is_writable=False),
        AccountMeta(Pubkey.from_string(destination), is_signer=False, is_writable=True),
        AccountMeta(Pubkey.from_string(wallet), is_signer=True, is_writable=False),
    )
    return Instruction(Pubkey.from_string(program), data, accounts)


def _memo(text: str) -> Instruction:
    return Instruction(Pubkey.from_string(MEMO_PROGRAM), text.encode(), [])
