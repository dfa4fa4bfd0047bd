"""A plugin's call of any program: the pocket it is made with, and what goes into that."""

from __future__ import annotations

from collections.abc import Mapping

from solders.pubkey import Pubkey

from solward.context.pocket import PocketRequest
from solward.operations.plugin_draft import plain, plain_details, plain_text, plain_units
from solward.solana.accounts import rent_exempt_minimum
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.tokens import (
    TRANSFER_FEE,
    associated_account_size,
    read_mint,
)
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import U64_MAX
from solward.types.record import TransactionType
from solward.vault.custody import Pocket
from solward.vault.money.pocket.instructions import PocketToken, funding
from solward.vault.money.request import PocketDraft, PocketUse

_MAX_MINTS = 4
_MAX_NAME = 64


def read_request(given: PocketRequest) -> PocketRequest:
    """A skill's request in exact built-in values, read once; refused where it cannot be meant.

    Raises:
        InvalidRequest: naming the field.
    """
    request = PocketRequest(
        build=given.build,
        lamports=plain(given.lamports),
        tokens=plain_units(given.tokens, "tokens"),
        returns=plain_units(given.returns, "returns"),
        mints=tuple(plain_text(mint, "mints") for mint in given.mints),
        program=None if given.program is None else plain_text(given.program, "program"),
        position=None if given.position is None else plain_text(given.position, "position"),
        stays=bool(given.stays),
        details=plain_details(given.details),
    )
    if not callable(request.build):
        raise InvalidRequest("build must be an async function of the pocket's address")
    _amounts({"lamports": request.lamports}, "lamports", least=0)
    _amounts(request.tokens, "tokens", least=1)
    _amounts(request.returns, "returns", least=0)
    if not request.lamports and not request.tokens:
        raise InvalidRequest("lamports or tokens must be given: the pocket pays its own fee")
    if len(_mints(request)) > _MAX_MINTS:
        raise InvalidRequest(f"a pocket holds at most {_MAX_MINTS} mints")
    for mint in _mints(request):
        _address(mint, "mints")
    if (request.program is None) != (request.position is None):
        raise InvalidRequest("program and position must be given together")
    if request.stays and request.position is None:
        raise InvalidRequest("stays needs program and position: what stays must have a name")
    if request.program is not None:
        _address(request.program, "program")
    name = request.position
    if name is not None and not (0 < len(name) <= _MAX_NAME and name.isprintable()):
        raise InvalidRequest(f"position must be text of 1 to {_MAX_NAME} printable characters")
    return request


async def plan_use(
    wallet: str, pocket: Pocket, ledger: ReadLedger, request: PocketRequest
) -> PocketDraft:
    """The funding of a checked request, declared as what it is.

    Raises:
        InvalidRequest: a token is no mint, or one that cannot be put into a pocket.
        LedgerError: the ledger did not answer.
    """
    sides, rent = [], 0
    for address, units in request.tokens.items():
        mint = await read_mint(ledger, address, "tokens")
        if mint.address == WRAPPED_SOL_MINT:
            raise InvalidRequest("tokens: give SOL as lamports; the call can wrap it")
        if mint.runs_hook:
            raise InvalidRequest(f"tokens: {address} has a transfer hook, so no pocket can hold it")
        taxed = TRANSFER_FEE in mint.extensions
        sides.append((PocketToken(mint.address, mint.program, mint.decimals, taxed), units))
        rent += rent_exempt_minimum(associated_account_size(mint))
    intent = Intent(
        type=TransactionType.OTHER,
        wallet=wallet,
        lamports_out=request.lamports,
        rent_lamports=rent,
        tokens_out=dict(request.tokens),
        destinations=frozenset({pocket.address}),
        details={**request.details, "pocket": pocket.address},
    )
    return PocketDraft(
        intent,
        funding(wallet, pocket.address, request.lamports, sides),
        PocketUse(
            pocket,
            mints=_mints(request),
            leaves=True,
            program=request.program,
            position=request.position,
            stays=request.stays,
        ),
        request.build,
        returns=dict(request.returns),
        stays=request.stays,
    )


def _mints(request: PocketRequest) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*request.tokens, *request.returns, *request.mints)))


def _amounts(amounts: Mapping[str, int], field: str, *, least: int) -> None:
    for units in amounts.values():
        if type(units) is not int or not least <= units <= U64_MAX:
            raise InvalidRequest(f"{field} must be whole numbers of smallest units from {least} on")


def _address(value: str, field: str) -> None:
    try:
        Pubkey.from_string(value)
    except (TypeError, ValueError):
        raise InvalidRequest(f"{field} must be base58 addresses") from None
