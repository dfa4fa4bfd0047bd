"""Offers of sellers: the check whether an offer may be paid, the choice, and its transaction.

An offer's values are from the seller and not trusted.
"""

from __future__ import annotations

import re
import secrets
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Final

import httpx
from solders.instruction import Instruction
from spl.memo.constants import MEMO_PROGRAM_ID

from solward.operations.payments.requests import MaxPrice, SellerRequest, address_of
from solward.plugins.payment_checks import MAX_MEMO_BYTES, MAX_RAW_BYTES, MAX_SPLITS
from solward.solana.builders import pay, send_tokens
from solward.solana.programs import (
    TOKEN_2022_WRAPPED_SOL_MINT,
    TOKEN_PROGRAM,
    WRAPPED_SOL_MINT,
)
from solward.solana.token_list import TokenList
from solward.solana.tokens import (
    NON_TRANSFERABLE,
    TRANSFER_FEE,
    TRANSFER_HOOK,
    associated_address,
    read_mint,
)
from solward.support import jsontext
from solward.support.base58 import is_address
from solward.support.clean_text import one_line
from solward.types.errors import InvalidRequest, PaymentRefused
from solward.types.guardrail import SOL, Intent
from solward.types.ledger import ReadLedger
from solward.types.manifest import site_name
from solward.types.money import SOL_DECIMALS, amount_text, format_amount, from_units
from solward.types.payment import MAX_UNITS, PaymentMode, PaymentOffer, offer_json
from solward.types.record import TransactionType
from solward.types.site import without_default_port
from solward.vault.money.request import Draft, Payment

# The minimum price of a compute unit in a payment, in micro-lamports.
LEAST_UNIT_PRICE: Final = 1

# Mint extensions of Token-2022 (`ExtensionType`) by which more can leave, less can arrive, others
# can move or stop tokens, or the amount is hidden or different: transfer fee, confidential
# transfer, default state of accounts, non-transferable, interest, permanent delegate, transfer
# hook, confidential fee, confidential mint and burn, scaled amounts, pausable.
_REFUSED_EXTENSIONS: Final = frozenset(
    {TRANSFER_FEE, 4, 6, NON_TRANSFERABLE, 10, 12, TRANSFER_HOOK, 16, 24, 25, 26}
)
# Sponsored payments cost no fee. Push is last, because the seller is paid before it accepts the
# payment; and MPP sellers do not announce that they refuse push, which some do by default.
_PREFERENCE: Final = (PaymentMode.SPONSORED, PaymentMode.UNSPONSORED, PaymentMode.PUSH)

# An address with a host, a path, a query, a name, or a first segment without a dot. Programs read
# others in different ways: ///evil.example/a, /\\evil.example/a and evil.example/a may each mean
# that host.
_RESOURCE: Final = re.compile(
    r"(?:(?:https?:)?//[^/?#]|/(?!/)|\?|#|\.\.?/|[^/?#:\\]+(?=[?#]|$)"
    r"|(?:[^/?#:\\.\u3002\uff0e\uff61%]|%(?!2e))+(?=/))[^\\]*",
    re.IGNORECASE,
)

# The number of random bytes, written in hex, in a memo that only makes equal payments distinct.
_NONCE_BYTES = 16


@dataclass(frozen=True, slots=True)
class Asset:
    """The asset of a payment.

    Attributes:
        mint: `SOL` or a mint.
        program: the mint's token program; None for SOL.
    """

    mint: str
    decimals: int
    program: str | None = None


@dataclass(frozen=True, slots=True)
class ChosenOffer:
    """An offer that may be paid, and the mode in which to pay it."""

    protocol: str
    offer: PaymentOffer
    mode: PaymentMode
    asset: Asset


class Assets:
    """A cache of assets that are allowed for payments; a mint's properties never change."""

    def __init__(self, ledger: ReadLedger) -> None:
        self._ledger = ledger
        self._known: dict[str, Asset | str] = {SOL: Asset(SOL, SOL_DECIMALS)}

    async def get(self, mint: str) -> Asset:
        """Return an asset with its decimals and program; reads each mint from the ledger once.

        Raises:
            PaymentRefused: `asset_refused`: it is not a mint, or has an extension by which another
                amount than the paid one could leave or arrive.
            LedgerError: the ledger did not answer.
        """
        found = self._known.get(mint)
        if found is None:
            found = await self._read_asset(mint)
            if len(self._known) > _MOST_KNOWN:
                # Cleared, because sellers choose the mints and must not fill the memory.
                self._known = {SOL: self._known[SOL]}
            self._known[mint] = found
        if isinstance(found, str):
            raise PaymentRefused("asset_refused", found)
        return found

    async def _read_asset(self, address: str) -> Asset | str:
        if address in (WRAPPED_SOL_MINT, TOKEN_2022_WRAPPED_SOL_MINT):
            # If wrapped SOL was sent as a token, the ceilings of SOL would not count it.
            return "payments in wrapped SOL are not made; a seller may ask for SOL"
        try:
            mint = await read_mint(self._ledger, address, "asset")
        except InvalidRequest:
            # The refusal is not cached, because the mint may be created later.
            raise PaymentRefused(
                "asset_refused", f"{address} is not a mint on this network"
            ) from None
        if mint.program != TOKEN_PROGRAM and _REFUSED_EXTENSIONS.intersection(mint.extensions):
            return (
                f"{address} has a Token-2022 extension by which another amount than the paid"
                " one could leave or arrive"
            )
        return Asset(address, mint.decimals, mint.program)


_MOST_KNOWN: Final = 1_000


@dataclass(frozen=True, slots=True)
class Terms:
    """The conditions that an offer must meet.

    Attributes:
        networks: names and CAIP-2 ids of the service's own ledger.
        wallet: the payer's address.
        managed: those sponsors in the offers that are keys of this service's wallets.
        resource_sites: see PAYMENTS_RESOURCE_SITES.
    """

    request: SellerRequest
    networks: Collection[str]
    wallet: str
    tokens: TokenList
    managed: Collection[str]
    resource_sites: Collection[str] = ()

    def max_price(self) -> tuple[MaxPrice, str] | None:
        """Return the request's `max` and its asset, `SOL` or a mint; None if there is no `max`.

        Raises:
            InvalidRequest: the asset is neither a known symbol nor a mint.
        """
        most = self.request.max_price
        if most is None:
            return None
        mint = self.tokens.resolve(most.asset, "max: the asset")
        return most, SOL if mint == WRAPPED_SOL_MINT else mint

    def name_of(self, asset: str) -> str:
        """Return an asset's symbol, or its mint if it has none."""
        return asset if asset == SOL else self.tokens.symbol_of(asset) or asset


async def check_offer(
    offer: PaymentOffer, terms: Terms, assets: Assets
) -> tuple[Asset, tuple[PaymentMode, ...]]:
    """Return an offer's asset, and the modes in which the offer may be paid.

    Raises:
        PaymentRefused: the offer may not be paid; `code` says why.
        InvalidRequest: `max` names no asset.
        LedgerError: the ledger did not answer.
    """
    _check_values(offer)
    most = terms.max_price()
    if offer.network not in terms.networks:
        raise PaymentRefused("network_mismatch", f"its network is {quoted_text(offer.network)}")
    if most is not None and offer.asset != most[1]:
        raise PaymentRefused(
            "asset_mismatch",
            f"it asks for {terms.name_of(offer.asset)}, and max is in {terms.name_of(most[1])}",
        )
    _check_resource(offer, terms)
    if offer.expires_ms is not None and offer.expires_ms <= time.time() * 1000:
        raise PaymentRefused("offer_expired", "its time to be paid has ended")
    if offer.opens_accounts:
        raise PaymentRefused(
            "opens_accounts", "it wants token accounts opened at the wallet's cost"
        )
    receivers = (offer.pay_to, *(each.recipient for each in offer.splits))
    if terms.wallet in receivers:
        raise PaymentRefused("pays_itself", "it pays the wallet itself")
    modes = _payable_modes(offer, terms)
    asset = await assets.get(offer.asset)
    if most is not None and from_units(offer.units, asset.decimals) > most[0].amount:
        name = terms.name_of(offer.asset)
        raise PaymentRefused(
            "price_above_max",
            f"it asks {amount_text(offer.units, asset.decimals)} {name}, and max is"
            f" {format_amount(most[0].amount)} {name}",
        )
    if offer.decimals is not None and offer.decimals != asset.decimals:
        raise PaymentRefused(
            "decimals_mismatch",
            f"it counts {offer.decimals} decimals, and {offer.asset} has {asset.decimals}",
        )
    if offer.token_program is not None and offer.token_program != asset.program:
        raise PaymentRefused(
            "program_mismatch", f"it names another token program than {offer.asset} has"
        )
    return asset, modes


def preferred_offer(candidates: Sequence[ChosenOffer]) -> ChosenOffer:
    """Return the candidate with the best mode; among equals, the first in the seller's order."""
    return min(candidates, key=lambda each: _PREFERENCE.index(each.mode))


def no_offer_error(site: str, reasons: Sequence[tuple[str, InvalidRequest]]) -> PaymentRefused:
    """Return the error for a seller with no offer that may be paid.

    Args:
        reasons: protocols, each with the error that says why its offer may not be paid.
    """
    if not reasons:
        return PaymentRefused(
            "no_offer", f"{site} asks for a payment that no loaded protocol can make"
        )
    first = reasons[0][1]
    code = first.code if isinstance(first, PaymentRefused) else "offer_malformed"
    texts = list(dict.fromkeys(f"{protocol}: {_reason_text(each)}" for protocol, each in reasons))
    more = f"; and {len(texts) - 4} more" if len(texts) > 4 else ""
    return PaymentRefused(
        code, f"{site} makes no offer that may be paid: {'; '.join(texts[:4])}{more}"
    )


def quoted_text(text: str) -> str:
    """Return a seller's text on one line and in quotation marks."""
    return jsontext.dumps(one_line(text))


def _check_values(offer: PaymentOffer) -> None:
    """Refuse values that no valid offer has, because the plugin that read it is not trusted."""
    split = sum(each.units for each in offer.splits if type(each.units) is int)
    amounts = (offer.units, *(each.units for each in offer.splits))
    if not all(type(each) is int and 1 <= each <= MAX_UNITS for each in amounts):
        raise PaymentRefused("amount_invalid", "its amount is not a whole number of units")
    if split >= offer.units:
        raise PaymentRefused("amount_invalid", "its splits use up its amount")
    if len(offer.splits) > MAX_SPLITS:
        raise PaymentRefused("too_many_splits", f"it has more than {MAX_SPLITS} splits")
    addresses = [offer.pay_to, *(each.recipient for each in offer.splits)]
    addresses += [each for each in (offer.fee_payer, offer.token_program) if each is not None]
    addresses += [] if offer.asset == SOL else [offer.asset]
    if not all(map(is_address, addresses)):
        raise PaymentRefused("address_invalid", "it names something that is not a Solana address")
    memo = None if offer.memo is None else offer.memo.encode("utf-8", "replace")
    if memo is not None and not 1 <= len(memo) <= MAX_MEMO_BYTES:
        raise PaymentRefused(
            "memo_invalid", f"its memo must be text of 1 to {MAX_MEMO_BYTES} bytes"
        )
    unfit = jsontext.explain_unfit(offer.memo, "its memo")
    if unfit is not None:
        # PostgreSQL cannot store NUL in text.
        raise PaymentRefused("memo_invalid", unfit)
    if offer.most_unit_price < LEAST_UNIT_PRICE or offer.most_compute_units < 1:
        raise PaymentRefused("budget_invalid", "it leaves no room for compute units")
    if len(jsontext.dumps(dict(offer.raw)).encode()) > MAX_RAW_BYTES:
        raise PaymentRefused("offer_too_large", f"it has more than {MAX_RAW_BYTES >> 10} KiB")


def _check_resource(offer: PaymentOffer, terms: Terms) -> None:
    """Refuse an offer for another site. The scheme and its default port are ignored, because a
    seller behind a TLS proxy receives requests by http."""
    request, named = terms.request, offer.resource
    if named is None or named == request.url:
        return
    asked = without_default_port(site_name(request.site))
    listing = ""
    try:
        if _RESOURCE.fullmatch(named) and named == named.strip():
            url = str(httpx.URL(request.url).join(named))
            found = without_default_port(site_name(address_of(url, "resource")[1]))
            listing = f"{asked}={found}"
    except (InvalidRequest, httpx.InvalidURL, ValueError):
        pass
    if listing in terms.resource_sites or listing == f"{asked}={asked}":
        return
    reason = f"is not of {asked}; PAYMENTS_RESOURCE_SITES may list {listing}"
    if not listing:
        reason = (
            f"cannot be read as one of {asked}: an http or https address without a user, or a path"
            " that all programs read alike, is expected"
        )
    raise PaymentRefused("resource_mismatch", f"it is for {quoted_text(named)}, which {reason}")


def _payable_modes(offer: PaymentOffer, terms: Terms) -> tuple[PaymentMode, ...]:
    modes = tuple(each for each in _PREFERENCE if each in offer.modes)
    if PaymentMode.SPONSORED not in modes:
        if not modes:
            raise PaymentRefused("no_mode", "it accepts no payment mode that the service supports")
        return modes
    problem = None
    if offer.fee_payer is None:
        problem = PaymentRefused("fee_payer_missing", "it names nobody who pays the network fee")
    elif offer.fee_payer == terms.wallet or offer.fee_payer in terms.managed:
        # Otherwise the wallet's signature for the tokens would also make it pay the fee.
        problem = PaymentRefused(
            "fee_payer_own", "it has a wallet or pocket of this service pay the network fee"
        )
    if problem is None:
        return modes
    others = tuple(each for each in modes if each is not PaymentMode.SPONSORED)
    if not others:
        raise problem
    return others


def _reason_text(error: InvalidRequest) -> str:
    return error.reason if isinstance(error, PaymentRefused) else one_line(str(error))


def payment_draft(wallet: str, request: SellerRequest, chosen: ChosenOffer) -> Draft:
    """Return the draft of a payment, without compute budget instructions.

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
        transfers = [pay(wallet, to, units) for to, units in parts]
        receivers = {to for to, _ in parts}
    else:
        source = associated_address(wallet, asset.mint, program)
        accounts = {to: associated_address(to, asset.mint, program) for to, _ in parts}
        transfers = [
            send_tokens(asset.mint, program, asset.decimals, source, accounts[to], wallet, units)
            for to, units in parts
        ]
        receivers = {*accounts, *accounts.values()}
    # Not by `spl.memo`, which always names a signer; the wallet already signs the message.
    memos = [] if memo is None else [Instruction(MEMO_PROGRAM_ID, memo.encode(), [])]
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
