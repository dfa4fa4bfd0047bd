"""jupiter: the Jupiter Swap API (developers.jup.ag).

`JUPITER_API` chooses which of its calls make a swap; price and swap are always of the same ones:

    build   `GET /swap/v2/build`: the router's instruction, for one transaction of wallet and pocket
    order   `GET /swap/v2/order`: a whole transaction of the best of several routers, in steps
    v1      `GET /swap/v1/quote`, then `POST /swap/v1/swap-instructions`: the version before

`build` and `v1` are made in steps too where the API wants a taker that holds what it sells. The
address is configuration (`JUPITER_API_URL`), already bound to the client that is handed in.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any

from solders.address_lookup_table_account import AddressLookupTableAccount
from solders.compute_budget import set_compute_unit_limit, set_compute_unit_price
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.transaction import VersionedTransaction

from solward import (
    ASSOCIATED_TOKEN_PROGRAM,
    InvalidRequest,
    LedgerUnavailable,
    Quote,
    QuoteRequest,
    SkillError,
    SwapInstructions,
    SwapTransaction,
    VenueContext,
    VenueSpec,
    hookimpl,
)
from solward_plugins.venues.jupiter_http import NeedsFunds, ask, line, unexpected

_BUILD, _ORDER = "/swap/v2/build", "/swap/v2/order"
_QUOTE, _INSTRUCTIONS, _SWAP = "/swap/v1/quote", "/swap/v1/swap-instructions", "/swap/v1/swap"

# Instructions of the associated token program: Create (in its old form as well), CreateIdempotent.
_CREATES = frozenset({b"", b"\x00", b"\x01"})
_PRICE = 3

# Where a transaction is too large: most accounts of its route.
_FEWER_ACCOUNTS = (None, 40, 30, 20)
_MAX_WIRE_BYTES = 1_232

# Of a transaction that a pocket signs alone. The API's price follows the dearest of the last
# blocks, so it is cut; the pocket's float pays it.
_UNITS = 1_400_000
_MAX_PRIORITY_LAMPORTS = 500_000
_MICRO = 10**6

# Makers of `jupiterz` sign inside of `/execute`, which nobody calls here.
_NO_MAKERS = "jupiterz"
# The router of `/build`, alone.
_ONE_ROUTER = "jupiterz,dflow,okx"

# (router is jupiterz, `errorCode`) of an order that has a price and no transaction.
_ORDER_ERRORS = {
    (False, 1): "the taker does not hold what it sells",
    (False, 2): "the taker has too little SOL for fee and rent",
    (False, 3): "the amount is too small for its fee to be sponsored",
    (True, 1): "the taker does not hold what it sells",
    (True, 2): "the taker lacks a token account",
    (True, 3): "no transaction could be made of the quote",
}

# By this code the swap is made in steps, by `venue_swap`.
_FUNDS_FIRST = "funds_first"

# An active lookup table begins with its state and the slot of its deactivation, which is never; its
# addresses follow the header.
_ACTIVE_TABLE = (1).to_bytes(4, "little") + b"\xff" * 8
_TABLE_HEADER_BYTES = 56

# Wrong shapes, as any of the readers below meets them.
_MALFORMED = (KeyError, TypeError, ValueError, AttributeError, IndexError, InvalidOperation)


@hookimpl
def venue_spec() -> VenueSpec:
    """A venue for every mint the API can route."""
    return VenueSpec("jupiter", base_url_env="JUPITER_API_URL")


@hookimpl
async def venue_quote(request: QuoteRequest, context: VenueContext) -> Quote:
    """The price by the calls that make the swap."""
    query = _query(request.input_mint, request.output_mint, request.amount, request.slippage_bps)
    api = _api(context)
    if api == "order":
        return _order_quote(await _order(context, query, _NO_MAKERS), {})
    if api == "v1":
        return await _v1_quote(context, query, None)
    # A price has a taker too: a key that was never used, as the taker of a swap is one.
    try:
        body = await ask(context, "GET", _BUILD, query=query | {"taker": str(Keypair().pubkey())})
    except NeedsFunds:
        # The same router tells its price without a taker; its fee makes that one a little lower.
        return _order_quote(await _order(context, query, _ONE_ROUTER), {"fundsFirst": True})
    return _quote(body, {})


@hookimpl
async def venue_instructions(
    quote: Quote, taker: str, destination: str, max_accounts: int | None, context: VenueContext
) -> SwapInstructions:
    """The swap of a quote, by `build` at the price of now.

    Neither `payer` nor `nativeDestinationAccount` is ever sent: both put another key than the
    taker's into the swap instruction. SOL is sold from the taker's wrapped SOL account and
    arrives wrapped.
    """
    api = _api(context)
    if api == "order" or quote.raw.get("fundsFirst"):
        raise SkillError(_FUNDS_FIRST, "The swap venue wants a taker that holds what it sells")
    try:
        if api == "v1":
            return await _v1_instructions(quote, taker, destination, max_accounts, context)
        query = _again(quote, max_accounts) | {
            "taker": taker,
            "destinationTokenAccount": destination,
            "wrapAndUnwrapSol": "false",
        }
        body = await ask(context, "GET", _BUILD, query=query)
    except NeedsFunds as error:
        raise SkillError(_FUNDS_FIRST, str(error)) from None
    try:
        return SwapInstructions(
            quote=_quote(body, {}),
            swap=_instruction(body["swapInstruction"]),
            accounts=_accounts_of(taker, body["setupInstructions"]),
            tables=_tables(body["addressesByLookupTableAddress"]),
        )
    except _MALFORMED:
        raise unexpected() from None


@hookimpl
async def venue_swap(quote: Quote, wallet: str, context: VenueContext) -> SwapTransaction:
    """The swap of a quote as a transaction of a pocket, which holds what it sells by now."""
    api = _api(context)
    if api == "order":
        return await _order_swap(quote, wallet, context)
    make = _v1_swap if api == "v1" else _build_swap
    for max_accounts in _FEWER_ACCOUNTS:
        made = await make(quote, wallet, max_accounts, context)
        if len(made.wire) <= _MAX_WIRE_BYTES:
            return made
    raise LedgerUnavailable(
        "The swap venue's swap does not fit into a transaction, even over the fewest accounts"
    )


# Version 2, `build`.


async def _build_swap(
    quote: Quote, taker: str, max_accounts: int | None, context: VenueContext
) -> SwapTransaction:
    query = _again(quote, max_accounts) | {"taker": taker}
    body = await ask(context, "GET", _BUILD, query=query)
    _check_kept(quote, _quote(body, {}))
    try:
        recent = body["blockhashWithMetadata"]
        blockhash, height = (
            Hash(bytes(recent["blockhash"])),
            _integer(recent["lastValidBlockHeight"]),
        )
        cleanup = body["cleanupInstruction"]
        # Tips are left out: whoever lands it is the service's own node.
        instructions = [
            *_budget(body["computeBudgetInstructions"]),
            *map(_instruction, body["setupInstructions"]),
            _instruction(body["swapInstruction"]),
            *([] if cleanup is None else [_instruction(cleanup)]),
            *map(_instruction, body["otherInstructions"]),
        ]
        tables = _tables(body["addressesByLookupTableAddress"])
    except _MALFORMED:
        raise unexpected() from None
    return SwapTransaction(_unsigned(taker, instructions, tables, blockhash), height)


def _unsigned(
    payer: str,
    instructions: Sequence[Instruction],
    tables: Mapping[str, Sequence[str]],
    blockhash: Hash,
) -> bytes:
    contents = [
        AddressLookupTableAccount(
            Pubkey.from_string(table), [Pubkey.from_string(each) for each in held]
        )
        for table, held in tables.items()
    ]
    try:
        message = MessageV0.try_compile(
            Pubkey.from_string(payer), instructions, contents, blockhash
        )
    except Exception as error:
        # solders exports no type for what cannot be compiled.
        if type(error).__name__ != "CompileError":
            raise
        raise LedgerUnavailable("The swap venue's swap names too many accounts") from None
    unsigned = [Signature.default()] * message.header.num_required_signatures
    return bytes(VersionedTransaction.populate(message, unsigned))


def _budget(given: Sequence[Mapping[str, Any]]) -> list[Instruction]:
    """A limit of compute units, and the API's price for them where the pocket can pay it."""
    most = _MAX_PRIORITY_LAMPORTS * _MICRO // _UNITS
    prices = [
        int.from_bytes(each.data[1:9], "little")
        for each in map(_instruction, given)
        if len(each.data) == 9 and each.data[0] == _PRICE
    ]
    return [set_compute_unit_limit(_UNITS), set_compute_unit_price(min([*prices[:1], most]))]


# Version 2, `order`.


async def _order(context: VenueContext, query: Mapping[str, str], without: str) -> dict[str, Any]:
    return await ask(
        context, "GET", _ORDER, query={**query, "swapMode": "ExactIn", "excludeRouters": without}
    )


def _order_quote(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Quote:
    """An order's offer; it signs losses the other way than a quote, and in percent."""
    try:
        points = body.get("priceImpact")
        loss = (
            -_fraction(body.get("priceImpactPct")) if points is None else -_fraction(points) / 100
        )
    except _MALFORMED:
        raise unexpected() from None
    return _quote({**body, "priceImpactPct": str(loss)}, raw)


async def _order_swap(quote: Quote, taker: str, context: VenueContext) -> SwapTransaction:
    body = await _order(context, _again(quote, None) | {"taker": taker}, _NO_MAKERS)
    try:
        wire = base64.b64decode(body["transaction"] or "", validate=True)
        router, code = str(body["router"]), body.get("errorCode")
        payer = body.get("signatureFeePayer")
        height = _integer(body["lastValidBlockHeight"]) if wire else 0
    except _MALFORMED:
        raise unexpected() from None
    if not wire:
        known = _ORDER_ERRORS.get((router == "jupiterz", code)) if type(code) is int else None
        reason = known or line(body.get("errorMessage") or body.get("error") or "no reason")
        raise InvalidRequest(f"The swap venue made no transaction: {reason}")
    if payer is not None and payer != taker:
        raise LedgerUnavailable("The swap venue's order has another signer, who signs there alone")
    _check_kept(quote, _order_quote(body, {}))
    return SwapTransaction(wire, height)


# Version 1.


async def _v1_quote(
    context: VenueContext, query: Mapping[str, str], max_accounts: int | None
) -> Quote:
    fewer = {} if max_accounts is None else {"maxAccounts": str(max_accounts)}
    body = await ask(context, "GET", _QUOTE, query={**query, **fewer})
    # It is passed back as it came: some of its fields are documented nowhere.
    return _quote(body, {"quoteResponse": body})


async def _v1_offer(quote: Quote, max_accounts: int | None, context: VenueContext) -> Quote:
    """The quote itself, or one over fewer accounts that is no worse than its minimum."""
    if max_accounts is None and "quoteResponse" in quote.raw:
        return quote
    return await _v1_quote(context, _again(quote, None), max_accounts)


async def _v1_instructions(
    quote: Quote,
    taker: str,
    destination: str,
    max_accounts: int | None,
    context: VenueContext,
) -> SwapInstructions:
    offer = await _v1_offer(quote, max_accounts, context)
    body = await ask(
        context,
        "POST",
        _INSTRUCTIONS,
        body={
            "userPublicKey": taker,
            "quoteResponse": offer.raw["quoteResponse"],
            "destinationTokenAccount": destination,
            "wrapAndUnwrapSol": False,
            # Its accounts are made in the same transaction, so there is nothing to be seen.
            "skipUserAccountsRpcCalls": True,
        },
    )
    try:
        swap = _instruction(body["swapInstruction"])
        accounts = _accounts_of(taker, body["setupInstructions"])
        tables = [_address(each) for each in body["addressLookupTableAddresses"]]
    except _MALFORMED:
        raise unexpected() from None
    return SwapInstructions(offer, swap, accounts, await _contents(tables, context))


async def _v1_swap(
    quote: Quote, taker: str, max_accounts: int | None, context: VenueContext
) -> SwapTransaction:
    offer = await _v1_offer(quote, max_accounts, context)
    _check_kept(quote, offer)
    level = {"priorityLevel": "medium", "maxLamports": _MAX_PRIORITY_LAMPORTS}
    body = await ask(
        context,
        "POST",
        _SWAP,
        body={
            "userPublicKey": taker,
            "quoteResponse": offer.raw["quoteResponse"],
            "dynamicComputeUnitLimit": True,
            "prioritizationFeeLamports": {"priorityLevelWithMaxLamports": level},
        },
    )
    try:
        wire = base64.b64decode(body["swapTransaction"], validate=True)
        return SwapTransaction(wire, _integer(body["lastValidBlockHeight"]))
    except _MALFORMED:
        raise unexpected() from None


async def _contents(tables: Sequence[str], context: VenueContext) -> dict[str, tuple[str, ...]]:
    """What lookup tables hold, by the ledger; one that cannot be used makes bytes longer only."""
    found = await context.ledger.accounts(tables) if tables else {}
    return {
        table: tuple(
            str(Pubkey(state.data[at : at + 32]))
            for at in range(_TABLE_HEADER_BYTES, len(state.data) - 31, 32)
        )
        for table, state in found.items()
        if state is not None and state.data[:12] == _ACTIVE_TABLE
    }


# Of all.


def _api(context: VenueContext) -> str:
    return context.options.get("JUPITER_API", "build")


def _query(source: str, target: str, amount: int, slippage_bps: int) -> dict[str, str]:
    return {
        "inputMint": source,
        "outputMint": target,
        "amount": str(amount),
        "slippageBps": str(slippage_bps),
    }


def _again(quote: Quote, max_accounts: int | None) -> dict[str, str]:
    """The request of a quote, for the same swap at the price of now."""
    query = _query(quote.input_mint, quote.output_mint, quote.in_amount, quote.slippage_bps)
    return query if max_accounts is None else query | {"maxAccounts": str(max_accounts)}


def _check_kept(quote: Quote, newer: Quote) -> None:
    """Refuse a swap that would promise less than the quote the slippage was given for."""
    if newer.minimum_out < quote.minimum_out:
        raise InvalidRequest(
            f"The price moved: the swap venue promises {newer.minimum_out} units now, and"
            f" {quote.minimum_out} were quoted"
        )


def _quote(body: Mapping[str, Any], raw: Mapping[str, Any]) -> Quote:
    try:
        return Quote(
            input_mint=str(body["inputMint"]),
            output_mint=str(body["outputMint"]),
            in_amount=_integer(body["inAmount"]),
            out_amount=_integer(body["outAmount"]),
            minimum_out=_integer(body["otherAmountThreshold"]),
            slippage_bps=_integer(body["slippageBps"]),
            price_impact=_fraction(body.get("priceImpactPct")),
            raw=raw,
        )
    except _MALFORMED:
        raise unexpected() from None


def _instruction(body: Mapping[str, Any]) -> Instruction:
    accounts = [
        AccountMeta(
            Pubkey.from_string(each["pubkey"]),
            is_signer=_flag(each["isSigner"]),
            is_writable=_flag(each["isWritable"]),
        )
        for each in body["accounts"]
    ]
    data = base64.b64decode(body["data"], validate=True)
    return Instruction(Pubkey.from_string(body["programId"]), data, accounts)


def _accounts_of(taker: str, setup: list[Mapping[str, Any]]) -> tuple[str, ...]:
    """The mints whose associated accounts of the taker the setup opens; the rest is dropped."""
    mints: dict[str, None] = {}
    for instruction in map(_instruction, setup):
        opens = str(instruction.program_id) == ASSOCIATED_TOKEN_PROGRAM
        if not opens or len(instruction.accounts) < 4:
            continue
        _payer, _account, owner, mint = (str(meta.pubkey) for meta in instruction.accounts[:4])
        if owner == taker and bytes(instruction.data) in _CREATES:
            mints[mint] = None
    return tuple(mints)


def _tables(body: Mapping[str, list[str]] | None) -> dict[str, tuple[str, ...]]:
    return {_address(table): tuple(map(_address, held)) for table, held in (body or {}).items()}


def _address(text: str) -> str:
    return str(Pubkey.from_string(text))


def _flag(value: object) -> bool:
    if isinstance(value, bool):
        return value
    raise ValueError("neither true nor false")


def _integer(value: object) -> int:
    """An amount as the API writes it: digits, as a string or a number.

    Raises:
        ValueError: a fraction, a sign, or anything else that `int` would accept.
    """
    text = value if isinstance(value, str) else str(value) if type(value) is int else ""
    if not (text.isascii() and text.isdecimal() and len(text) <= 20):
        raise ValueError("not an amount")
    return int(text)


def _fraction(value: object) -> Decimal:
    """The price impact; some routes have none.

    Raises:
        ValueError, InvalidOperation: not a finite number.
    """
    fraction = Decimal("0" if value is None or value == "" else str(value))
    if not fraction.is_finite():
        raise ValueError("not a finite number")
    return fraction
