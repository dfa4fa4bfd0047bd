"""Transactions that plugins make themselves: checks of their values and types, calls to programs
with a pocket, and recipes to repeat a transaction after its approval.

A plugin's values may have the plugin's own classes, whose comparisons can return anything. Limits
compare values, so all values are converted to exact built-in types here.
"""

from __future__ import annotations

import base64
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from typing import Any, Final

from solders.instruction import Instruction

from solward.context import PocketRequest
from solward.solana.accounts import max_rent
from solward.solana.message import Call, decode_transaction, top_level_calls, unbatched
from solward.solana.programs import (
    ASSOCIATED_TOKEN_PROGRAM,
    COMPUTE_BUDGET_PROGRAM,
    MEMO_PROGRAMS,
    SYSTEM_PROGRAM,
    TOKEN_PROGRAMS,
    WRAPPED_SOL_MINT,
)
from solward.solana.protocol import ASSOCIATED_TOKEN_CREATIONS, System, Token
from solward.solana.tokens import (
    TRANSFER_FEE,
    associated_account_size,
    associated_address,
    read_mint,
)
from solward.support import jsontext
from solward.support.base58 import is_address
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Intent
from solward.types.ledger import ReadLedger
from solward.types.money import SOL_DECIMALS, U64_MAX, from_units
from solward.types.record import PLUGIN_DETAILS, TransactionType
from solward.vault.custody import Pocket
from solward.vault.money.pocket.instructions import PocketToken, funding
from solward.vault.money.request import Draft, PocketDraft, PocketUse

Details = dict[str, Any]

_MAX_MINTS = 4
_MAX_NAME = 64


def plugin_draft(
    wallet: str, declared: Intent, instructions: Iterable[object], wire: object = None
) -> Draft:
    """Return the draft of a skill's own transaction, which only this wallet signs.

    Args:
        declared: the skill's declaration; its wallet is not read.
        wire: a whole transaction, instead of instructions.

    Raises:
        InvalidRequest: a value has another type, or the bytes do not match the declared type or a
            detail; names the field.
    """
    made = tuple(_copy_instruction(each) for each in instructions)
    if wire is not None and not isinstance(wire, bytes | bytearray | memoryview):
        raise InvalidRequest("wire must be bytes")
    exact = None if wire is None else bytes(memoryview(wire))
    type_ = plain_text(declared.type, "type")
    intent = Intent(
        type=type_,
        wallet=wallet,
        lamports_out=_plain_amount(declared.lamports_out, "lamports_out"),
        rent_lamports=_plain_amount(declared.rent_lamports, "rent_lamports"),
        tokens_out=plain_units(declared.tokens_out, "tokens_out"),
        tokens_in=plain_units(declared.tokens_in, "tokens_in"),
        destinations=_plain_texts(declared.destinations, "destinations"),
        may_close=_plain_texts(declared.may_close, "may_close"),
        details=plain_details(declared.details),
    )
    if type_ == TransactionType.OTHER:
        return Draft(_with_details(intent, {}), made, exact)
    if type_ == TransactionType.SWAP:
        return _swap_draft(intent, made, exact)
    state = _STATED.get(type_)
    if state is None:
        raise InvalidRequest(f"type must be one of {', '.join(TYPES)}")
    calls = list(_read_calls(made, exact))
    kind = [call for call in calls if all(call.accounts) and state.is_kind(call)]
    rest = [call for call in calls if call not in kind]
    pure = bool(kind) and all(map(_is_neutral, rest))
    stated = state.details(wallet, kind, intent.details) if pure else None
    if stated is None:
        raise InvalidRequest(f"type must be other: a {type_} is {state.text}, and nothing else")
    return Draft(_with_details(intent, stated), made, exact)


def plain(value: object) -> Any:
    """Convert JSON-like data to exact built-in types; other values are returned unchanged."""
    kind = type(value)
    if value is None or kind in (bool, int, str, Decimal):
        return value
    if issubclass(kind, int):
        return operator.index(value)  # type: ignore[arg-type]
    if issubclass(kind, str):
        return str.__str__(value)
    if issubclass(kind, Decimal):
        return Decimal(value)  # type: ignore[arg-type]
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value


# The types of transactions that can be recognized by their bytes.


@dataclass(frozen=True, slots=True)
class _StatedType:
    """A type of transaction that is recognized, with all its details, by its instructions alone.

    Attributes:
        text: the type's description, for refusals.
        details: function of the wallet, the instructions and the given details. Returns the
            service's details; None if the instructions are not one such transaction of this wallet.
    """

    text: str
    is_kind: Callable[[Call], bool]
    details: Callable[[str, Sequence[Call], Mapping[str, Any]], Details | None]


def _is_transfer(call: Call) -> bool:
    return (
        call.program == SYSTEM_PROGRAM
        and len(call.accounts) == 2
        and len(call.data) == 12
        and _little_endian(call.data[:4]) == System.TRANSFER
    )


def _transfer(wallet: str, calls: Sequence[Call], _given: Mapping[str, Any]) -> Details | None:
    (source, to), lamports = calls[0].accounts, _little_endian(calls[0].data[4:])
    if len(calls) != 1 or source != wallet:
        return None
    return {"from": wallet, "to": to, "amount": from_units(lamports, SOL_DECIMALS)}


def _token_test(kind: Token, accounts: int) -> Callable[[Call], bool]:
    """Return a test for a "checked" token instruction, whose data has amount and decimals."""

    def found(call: Call) -> bool:
        return (
            call.program in TOKEN_PROGRAMS
            and len(call.accounts) == accounts
            and len(call.data) == 10
            and call.data[0] == kind
        )

    return found


def _amount(calls: Sequence[Call]) -> Decimal:
    return from_units(sum(_little_endian(call.data[1:9]) for call in calls), calls[0].data[9])


def _is_alike(calls: Sequence[Call], *parts: int) -> bool:
    """Return whether all calls have the same program, decimals and accounts at `parts`."""
    seen = {(c.program, c.data[9], *(c.accounts[at] for at in parts)) for c in calls}
    return len(seen) == 1


def _all_own(wallet: str, calls: Sequence[Call], source: int, mint: int) -> bool:
    """Return whether each call's source is the wallet's associated account of the mint."""
    return all(
        each.accounts[source] == _associated_account(wallet, each.accounts[mint], each.program)
        for each in calls
    )


def _token_transfer(wallet: str, calls: Sequence[Call], given: Mapping[str, Any]) -> Details | None:
    # Source, mint, receiver, authority. The source must be the wallet's associated account: of
    # another account the wallet may be only the delegate, and the bytes do not show the owner.
    _source, mint, account, authority = calls[0].accounts
    if not _is_alike(calls, 1, 2, 3) or authority != wallet or not _all_own(wallet, calls, 0, 1):
        return None
    if account == _associated_account(wallet, mint, calls[0].program):
        return None
    to = given.get("to", account)
    if to != account and _associated_account(to, mint, calls[0].program) != account:
        raise InvalidRequest(
            f"details.to must be {account}, the receiving account, or the address whose"
            " associated account it is"
        )
    return {"from": wallet, "to": to, "mint": mint, "amount": _amount(calls), "account": account}


def _burn(wallet: str, calls: Sequence[Call], _given: Mapping[str, Any]) -> Details | None:
    _account, mint, authority = calls[0].accounts
    if not _is_alike(calls, 1, 2) or authority != wallet or not _all_own(wallet, calls, 0, 1):
        return None
    return {"mint": mint, "amount": _amount(calls)}


def _mint_supply(wallet: str, calls: Sequence[Call], _given: Mapping[str, Any]) -> Details | None:
    mint, account, authority = calls[0].accounts
    own = _associated_account(wallet, mint, calls[0].program)
    if len(calls) != 1 or authority != wallet or account != own:
        return None
    return {"mint": mint, "amount": _amount(calls), "account": account}


_STATED: Final[Mapping[str, _StatedType]] = {
    TransactionType.TRANSFER: _StatedType(
        "one System transfer from the wallet", _is_transfer, _transfer
    ),
    TransactionType.TOKEN_TRANSFER: _StatedType(
        "a TransferChecked of one mint by the wallet to one account",
        _token_test(Token.TRANSFER_CHECKED, 4),
        _token_transfer,
    ),
    TransactionType.MINT_SUPPLY: _StatedType(
        "one MintToChecked by the wallet to its associated account",
        _token_test(Token.MINT_TO_CHECKED, 3),
        _mint_supply,
    ),
    TransactionType.BURN: _StatedType(
        "a BurnChecked of one mint by the wallet", _token_test(Token.BURN_CHECKED, 3), _burn
    ),
}
# The types that a plugin's own transaction may declare; other types need their operation.
TYPES: Final = (*_STATED, TransactionType.SWAP, TransactionType.OTHER)


def _is_neutral(call: Call) -> bool:
    """Return whether a call moves nothing: compute budget, memo, opening an associated account."""
    if call.program == ASSOCIATED_TOKEN_PROGRAM:
        return call.data in ASSOCIATED_TOKEN_CREATIONS
    return call.program == COMPUTE_BUDGET_PROGRAM or call.program in MEMO_PROGRAMS


# A swap is declared by what may leave and must arrive; simulation and ledger enforce both.
MAX_DETAILS_BYTES: Final = 16 * 1024
_SWAP_AMOUNTS: Final = ("inputAmount", "outputAmount", "slippageBps", "priceImpact")


def _swap_draft(intent: Intent, made: tuple[Instruction, ...], wire: bytes | None) -> Draft:
    sold = {mint: units for mint, units in intent.tokens_out.items() if units}
    if intent.lamports_out:
        sold[WRAPPED_SOL_MINT] = sold.get(WRAPPED_SOL_MINT, 0) + intent.lamports_out
    bought = {mint: units for mint, units in intent.tokens_in.items() if units}
    if len(sold) != 1 or len(bought) != 1 or sold.keys() == bought.keys():
        raise InvalidRequest(
            "type must be other: a swap declares one asset in lamports_out or tokens_out, and"
            " another that must arrive in tokens_in"
        )
    for name in _SWAP_AMOUNTS:
        if name in intent.details:
            raise InvalidRequest(
                f"details.{name} must be left out: amounts are read from the transaction"
            )
    [source], [target] = sold, bought
    stated = {"inputToken": source, "outputToken": target}
    return Draft(_with_details(intent, stated), made, wire)


def _with_details(intent: Intent, stated: Details) -> Intent:
    """Return the intent with details read from the bytes, apart from the plugin's own details."""
    for name, value in stated.items():
        if name in intent.details and intent.details[name] != value:
            raise InvalidRequest(f"details.{name} must be {value}, as in the transaction")
    words = {name: value for name, value in intent.details.items() if name not in stated}
    return replace(intent, details=with_plugin_details(stated, words))


def with_plugin_details(stated: Mapping[str, Any], words: Mapping[str, Any]) -> Details:
    """Return the service's details, with a plugin's own details under `PLUGIN_DETAILS`."""
    return {**stated, PLUGIN_DETAILS: dict(words)} if words else dict(stated)


def _read_calls(made: Sequence[Instruction], wire: bytes | None) -> Iterable[Call]:
    if wire is not None:
        yield from top_level_calls(decode_transaction(wire).message)
        return
    for each in made:
        accounts = tuple(str(meta.pubkey) for meta in each.accounts)
        yield from unbatched(Call(str(each.program_id), bytes(each.data), accounts))


def _associated_account(owner: object, mint: object, program: str) -> str | None:
    try:
        return associated_address(str(owner), str(mint), program)
    except ValueError:
        return None


def _little_endian(data: bytes) -> int:
    return int.from_bytes(data, "little")


# Plain values.


def _copy_instruction(value: object) -> Instruction:
    if not isinstance(value, Instruction):
        raise InvalidRequest("instructions must be instructions of solders")
    # This is a copy, because the skill could change its own object while this one is judged.
    return Instruction.from_bytes(bytes(value))


def _plain_amount(value: object, field: str) -> int:
    found = plain(value)
    if type(found) is not int or not 0 <= found <= U64_MAX:
        raise InvalidRequest(f"{field} must be a whole number of smallest units")
    return found


def plain_units(value: Mapping[str, int], field: str) -> dict[str, int]:
    """Return mint -> units in exact built-in types; raises `InvalidRequest` naming the field."""
    return {plain_text(mint, field): _plain_amount(units, field) for mint, units in value.items()}


def plain_text(value: object, field: str) -> str:
    """Return text of the exact type `str`; raises `InvalidRequest` naming the field."""
    found = plain(value)
    if type(found) is not str:
        raise InvalidRequest(f"{field} must be text")
    return found


def _plain_texts(values: Iterable[object], field: str) -> frozenset[str]:
    return frozenset(plain_text(value, field) for value in values)


def plain_details(value: Mapping[str, Any]) -> Details:
    """Return details as JSON data in exact built-in types.

    Raises:
        InvalidRequest: it is not JSON, or has text or numbers that lists and exports cannot write.
    """
    try:
        text = jsontext.dumps(plain(value))
        found: Details = jsontext.loads(text)
    except (TypeError, ValueError, RecursionError):
        raise InvalidRequest("details must be JSON data, amounts as Decimal") from None
    if unfit := jsontext.explain_unfit(found, "details"):
        raise InvalidRequest(f"{unfit}; nothing was sent")
    if len(text.encode()) > MAX_DETAILS_BYTES:
        # Lists of records write the details of every record, even of a refused one.
        raise InvalidRequest(
            f"details must be at most {MAX_DETAILS_BYTES >> 10} KiB of JSON; nothing was sent"
        )
    return found


def read_request(given: PocketRequest) -> PocketRequest:
    """Return a skill's request in exact built-in types; each of its values is read only once.

    Raises:
        InvalidRequest: a value is wrong; names the field.
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
    _check_amounts({"lamports": request.lamports}, "lamports", least=0)
    _check_amounts(request.tokens, "tokens", least=1)
    _check_amounts(request.returns, "returns", least=0)
    if not request.lamports and not request.tokens:
        raise InvalidRequest("lamports or tokens must be given: the pocket pays its own fee")
    if len(_pocket_mints(request)) > _MAX_MINTS:
        raise InvalidRequest(f"a pocket holds at most {_MAX_MINTS} mints")
    if not all(map(is_address, _pocket_mints(request))):
        raise InvalidRequest("mints must be base58 addresses")
    if (request.program is None) != (request.position is None):
        raise InvalidRequest("program and position must be given together")
    if request.stays and request.position is None:
        raise InvalidRequest("stays requires program and position, which name what stays")
    if request.program is not None and not is_address(request.program):
        raise InvalidRequest("program must be base58 addresses")
    name = request.position
    if name is not None and not (0 < len(name) <= _MAX_NAME and name.isprintable()):
        raise InvalidRequest(f"position must be text of 1 to {_MAX_NAME} printable characters")
    return request


async def plan_pocket_call(
    wallet: str, pocket: Pocket, ledger: ReadLedger, request: PocketRequest
) -> PocketDraft:
    """Return the draft that funds a pocket for a checked request.

    Raises:
        InvalidRequest: a token is not a mint, or cannot be put into a pocket.
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
        rent += max_rent(associated_account_size(mint))
    intent = Intent(
        type=TransactionType.OTHER,
        wallet=wallet,
        lamports_out=request.lamports,
        rent_lamports=rent,
        tokens_out=dict(request.tokens),
        destinations=frozenset({pocket.address}),
        details=with_plugin_details({"pocket": pocket.address}, request.details),
    )
    return PocketDraft(
        intent,
        funding(wallet, pocket.address, request.lamports, sides),
        PocketUse(
            pocket,
            mints=_pocket_mints(request),
            leaves=True,
            program=request.program,
            position=request.position,
            stays=request.stays,
            returns=dict(request.returns),
        ),
        request.build,
    )


def _pocket_mints(request: PocketRequest) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*request.tokens, *request.returns, *request.mints)))


def _check_amounts(amounts: Mapping[str, int], field: str, *, least: int) -> None:
    for units in amounts.values():
        if type(units) is not int or not least <= units <= U64_MAX:
            raise InvalidRequest(f"{field} must be whole numbers of smallest units from {least} on")


def recipe_of(instructions: Sequence[Instruction], intent: Intent) -> dict[str, Any]:
    """Return JSON, without data from a node, from which the transaction can be made again."""
    declared = {each.name: getattr(intent, each.name) for each in fields(Intent)} | {"wallet": ""}
    return {
        "instructions": [base64.b64encode(bytes(each)).decode() for each in instructions],
        "intent": {
            name: sorted(value) if isinstance(value, frozenset) else value
            for name, value in declared.items()
        },
    }


def read_recipe(recipe: Mapping[str, Any]) -> tuple[Intent, list[Instruction]]:
    """Return the intent and instructions of a recipe; the engine sets the wallet.

    Raises:
        InvalidRequest: another version of Solward, with other declarations, stored the recipe.
    """
    sets = ("destinations", "may_close", "may_revoke")
    try:
        made = [Instruction.from_bytes(base64.b64decode(each)) for each in recipe["instructions"]]
        stored = recipe["intent"]
        stated = dict(stored["details"])
        words = stated.pop(PLUGIN_DETAILS, {})
        known = stored | {name: frozenset(stored[name]) for name in sets}
        return Intent(**known | {"details": {**stated, **words}}), made
    except (KeyError, TypeError):
        raise InvalidRequest("another version of Solward stored the request; repeat it") from None
