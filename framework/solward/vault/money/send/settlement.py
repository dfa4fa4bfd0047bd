"""Computes what a landed transaction took, from its balances before and after.

A reservation is an upper bound. For each asset, the part that did not leave is released: at most
what this transaction reserved, and only if enough hosts agree (`is_enough`). The balances belong to
one signature; no amount comes from a simulation or from another slot.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

from solward.solana.message import AnyMessage, top_level_calls
from solward.solana.programs import ASSOCIATED_TOKEN_PROGRAM, TOKEN_PROGRAMS, WRAPPED_SOL_MINT
from solward.solana.protocol import ASSOCIATED_TOKEN_CREATIONS, MAX_COMPUTE_UNITS, Token
from solward.solana.tokens import TOKEN_2022_MAX_ACCOUNT_RENT, associated_address
from solward.types.errors import LedgerError, LedgerUnavailable
from solward.types.guardrail import Line
from solward.types.money import SOL_DECIMALS, from_units, lamports_to_sol
from solward.types.record import TransactionType
from solward.vault.grants.model import USD
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.transport import is_enough
from solward.vault.store.attempts import NetworkCost
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET

_CLOSE = bytes([Token.CLOSE_ACCOUNT])


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """The balance of a token account: `units` of the token `mint`."""

    mint: str
    owner: str
    program: str
    units: int
    decimals: int


@dataclass(frozen=True, slots=True)
class Balances:
    """A transaction's accounts with their lamports and tokens, before and after it.

    Attributes:
        accounts: addresses in the order of the message; accounts from lookup tables come last.
        tokens_before: token balances by index in `accounts`; other accounts are no token accounts.
        tokens_after: token balances by index in `accounts`.
        units: compute units used; hosts need not agree on them, because no money depends on them.
    """

    accounts: tuple[str, ...]
    lamports_before: tuple[int, ...]
    lamports_after: tuple[int, ...]
    tokens_before: Mapping[int, TokenBalance]
    tokens_after: Mapping[int, TokenBalance]
    units: int | None = field(default=None, compare=False)


def needs_balances(
    record_type: str,
    fee_lamports: int,
    reserved: Mapping[str, int],
    message: AnyMessage,
) -> bool:
    """Return whether a landed transaction's balances can release or report any amount. A transfer's
    balances cannot, so they are not read."""
    return (
        record_type in (TransactionType.SWAP, TransactionType.RECLAIM_RENT)
        or reserved.get(COSTS_ASSET, 0) > fee_lamports
        or bool(_accounts_closed_by(message, str(message.account_keys[0])))
    )


def own_accounts(
    landed: Balances, message: AnyMessage, wallet: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wallet's own token accounts that a landed transaction opened, with the rent it
    paid, and the accounts that it closed, with the rent that came back; in lamports, pure.

    Only instructions signed by the wallet count, and only if the balances show their effect."""
    openings, closings = _accounts_opened_by(message, wallet), _accounts_closed_by(message, wallet)
    opened: dict[str, int] = {}
    closed: dict[str, int] = {}
    for place, address in enumerate(landed.accounts):
        before, after = landed.tokens_before.get(place), landed.tokens_after.get(place)
        was, left = landed.lamports_before[place], landed.lamports_after[place]
        is_new = before is None and after is not None and after.owner == wallet
        if address in openings and is_new:
            paid = left - was - _wrapped_lamports(landed.tokens_after, place)
            rent = min(paid, TOKEN_2022_MAX_ACCOUNT_RENT)
            if rent > 0:
                opened[address] = rent
        elif address in closings and before is not None and before.owner == wallet and left == 0:
            closed[address] = max(0, was - _wrapped_lamports(landed.tokens_before, place))
    return opened, closed


def _accounts_opened_by(message: AnyMessage, wallet: str) -> frozenset[str]:
    """Return the associated accounts that the message opens, which the wallet pays for and owns."""
    return frozenset(
        account
        for call in top_level_calls(message)
        if call.program == ASSOCIATED_TOKEN_PROGRAM
        and call.data in ASSOCIATED_TOKEN_CREATIONS
        and len(call.accounts) == 6
        and call.accounts[0] == call.accounts[2] == wallet
        and (account := call.accounts[1]) is not None
    )


def _accounts_closed_by(message: AnyMessage, wallet: str) -> frozenset[str]:
    """Return the token accounts that the wallet closes and whose rent goes to the wallet."""
    return frozenset(
        account
        for call in top_level_calls(message)
        if call.program in TOKEN_PROGRAMS
        and call.data == _CLOSE
        and len(call.accounts) == 3
        and call.accounts[1] == call.accounts[2] == wallet
        and (account := call.accounts[0]) is not None
    )


def kept_units(
    landed: Balances,
    wallet: str,
    fee_lamports: int,
    reserved: Mapping[str, int],
    lines: Sequence[Line],
) -> dict[str, int]:
    """Return the units, by asset, that still count after a landing without an error; pure.

    The units are at least 0 and at most those reserved. Lamports can only have gone to accounts
    that have more afterwards, so these accounts bound SOL and costs together, whatever came in at
    the same time. Tokens count as in the bytes, because balances do not separate what left from
    what came in, such as newly minted units. Units that the wallet's associated account receives do
    not count; another account of the wallet counts, because it may have a delegate.

    Args:
        wallet: the fee payer.
        fee_lamports: the fee by the message's bytes.
        reserved: asset -> units; `COSTS_ASSET` stands for fee and rent.
        lines: the amounts that the bytes let leave.
    """
    rent, moved, total = _lamports_gained(landed, wallet)
    tokens = {
        asset: _units_sent(landed, wallet, asset, lines)
        for asset in reserved
        if asset not in (SOL_ASSET, COSTS_ASSET)
    }
    return _split_kept_units(reserved, tokens, fee_lamports + rent, moved, fee_lamports + total)


def _split_kept_units(
    reserved: Mapping[str, int], tokens: Mapping[str, int], costs: int, sol: int, total: int
) -> dict[str, int]:
    """Return the reserved units that count, by asset. SOL beyond the reservation for SOL counts as
    costs, and costs beyond the reservation for costs count as SOL.

    Args:
        tokens: asset -> units that left.
        costs: lamports that are certainly costs, and count as costs first.
        sol: lamports that are certainly not costs.
        total: all lamports that left.
    """
    kept = {
        asset: min(units, max(0, tokens[asset]))
        for asset, units in reserved.items()
        if asset not in (SOL_ASSET, COSTS_ASSET)
    }
    costs = min(reserved.get(COSTS_ASSET, 0), costs)
    sol = min(reserved.get(SOL_ASSET, 0), max(sol, total - costs))
    costs = min(reserved.get(COSTS_ASSET, 0), max(costs, total - sol))
    found = {SOL_ASSET: sol, COSTS_ASSET: costs}
    return kept | {asset: units for asset, units in found.items() if asset in reserved}


def kept_units_of_failed(fee_lamports: int, reserved: Mapping[str, int]) -> dict[str, int]:
    """Return the units, by asset, that still count after a failure on the ledger: the fee."""
    kept = {
        asset: min(units, fee_lamports) if asset == COSTS_ASSET else 0
        for asset, units in reserved.items()
    }
    # Grants may count an asset in dollars, which are released too.
    return kept | {USD: 0}


class StepsTotal:
    """The changes that the landed steps of one record made to the wallet's own balances.

    Attributes:
        lamports: decrease of the wallet's own lamports, fees included. Income from a call lowers
            neither this nor `tokens`: somebody else may have paid it at the same time.
        brought: mint -> units that calls brought; lamports count under wrapped SOL's mint.
        fees: network fees that the wallet paid.
        spent: fees and compute units of all steps, whoever paid them; units are None if any step's
            units are not known.
        rent: lamports put into the wallet's own token accounts.
        tokens: mint -> units by which the wallet's associated accounts decreased.
        decimals: mint -> decimals.
    """

    def __init__(self) -> None:
        self.lamports = 0
        self.fees = 0
        self.spent = NetworkCost(units=0)
        self.rent = 0
        self.tokens: Counter[str] = Counter()
        self.brought: Counter[str] = Counter()
        self.decimals: dict[str, int] = {WRAPPED_SOL_MINT: SOL_DECIMALS}

    def add_fee(self, lamports: int, spent: NetworkCost) -> None:
        """Add a step that failed on the ledger; the wallet paid `lamports` of its fee."""
        self.lamports += lamports
        self.fees += lamports
        self._add_spent(spent)

    def add(
        self, landed: Balances, wallet: str, fee: int, spent: NetworkCost, *, is_call: bool = False
    ) -> None:
        """Add a step that landed.

        Args:
            is_call: whether the step is the call, whose effects a third party chose.
        """
        self.fees += fee
        self._add_spent(spent)
        for place, address in enumerate(landed.accounts):
            gained = landed.lamports_after[place] - landed.lamports_before[place]
            if address == wallet:
                if is_call and gained > 0:
                    self.brought[WRAPPED_SOL_MINT] += gained
                else:
                    self.lamports -= gained
                continue
            before, after = landed.tokens_before.get(place), landed.tokens_after.get(place)
            held = after or before
            if held is None or held.owner != wallet:
                continue
            if address != associated_address(wallet, held.mint, held.program):
                continue
            self.decimals[held.mint] = held.decimals
            moved = (after.units if after else 0) - (before.units if before else 0)
            if is_call and moved > 0:
                self.brought[held.mint] += moved
            else:
                self.tokens[held.mint] -= moved
            if before is None:
                self.rent += gained - (moved if held.mint == WRAPPED_SOL_MINT else 0)

    def _add_spent(self, spent: NetworkCost) -> None:
        known = self.spent.units is not None and spent.units is not None
        self.spent += spent
        if not known:
            self.spent = replace(self.spent, units=None)

    def tokens_gained(self, mint: str) -> Any:
        """Return the whole tokens of `mint` that the wallet gained, without fees and rent."""
        units = self.brought[mint] - self.tokens[mint]
        if mint == WRAPPED_SOL_MINT:
            units += -self.lamports + self.fees + self.rent
        return from_units(max(0, units), self.decimals.get(mint, 0))


def kept_units_of_steps(total: StepsTotal, reserved: Mapping[str, int]) -> dict[str, int]:
    """Return the units, by asset, that still count after all steps: 0 to the reserved units."""
    # A call may pay rent from its funding, so any of its lamports may be costs.
    kept = _split_kept_units(reserved, total.tokens, total.fees + total.rent, 0, total.lamports)
    if not any(units for asset, units in kept.items() if asset != COSTS_ASSET):
        kept[USD] = 0
    return kept


def settled_details(
    kind: str, details: Mapping[str, Any], landed: Balances, wallet: str, fee_lamports: int
) -> dict[str, Any] | None:
    """Return a record's details with the amounts that landed; None if nothing is added.

    A swap adds the amount that arrived, and the amount sold if the record lacks it. Reclaimed rent
    adds the lamports that came back by the balances, not by a node's word on the cluster's rent.
    """
    if kind == TransactionType.RECLAIM_RENT:
        gained = landed.lamports_after[0] - landed.lamports_before[0] + fee_lamports
        return {**details, "reclaimed": lamports_to_sol(max(0, gained))}
    if kind != TransactionType.SWAP:
        return None
    found: dict[str, Any] = {}
    for side, sign in (("input", -1), ("output", 1)):
        mint = details.get(f"{side}Token")
        if isinstance(mint, str) and (side == "output" or "inputAmount" not in details):
            change = _token_change(landed, wallet, fee_lamports, mint)
            if change is not None:
                found[f"{side}Amount"] = max(Decimal(0), sign * change)
    return {**details, **found}


async def read_landed(
    ledger: Ledger, signature: str, message: AnyMessage
) -> tuple[Balances | None, bool]:
    """Return the balances of a landed transaction, and whether enough hosts agree on them; None if
    no node has them yet."""
    answers = await asyncio.gather(*(_fetch(node, signature, message) for node in ledger.nodes()))
    found = [(landed, origin) for landed, origin in answers if landed is not None]
    for landed, _ in found:
        if is_enough([origin for other, origin in found if other == landed]):
            return landed, True
    return (found[0][0] if found else None), False


async def _fetch(node: Ledger, signature: str, message: AnyMessage) -> tuple[Balances | None, str]:
    try:
        answer = await node.transaction(signature)
        landed = None if answer is None else parse_landed(answer, signature, message)
    except LedgerError:
        landed = None
    return landed, node.origin


def parse_landed(answer: Mapping[str, Any], signature: str, message: AnyMessage) -> Balances:
    """Parse a `getTransaction` answer in the encoding `json`.

    Raises:
        LedgerUnavailable: the answer is another transaction's, or has no balances.
    """
    try:
        meta = answer["meta"]
        if answer["transaction"]["signatures"][0] != signature:
            raise LedgerUnavailable("The ledger answered with another transaction")
        loaded = meta.get("loadedAddresses") or {}
        accounts = (
            *(str(key) for key in message.account_keys),
            *(str(address) for address in loaded.get("writable", ())),
            *(str(address) for address in loaded.get("readonly", ())),
        )
        before, after = _parse_amounts(meta["preBalances"]), _parse_amounts(meta["postBalances"])
        if not len(accounts) == len(before) == len(after):
            raise _malformed_answer()
        return Balances(
            accounts,
            before,
            after,
            _parse_tokens(meta["preTokenBalances"], len(accounts)),
            _parse_tokens(meta["postTokenBalances"], len(accounts)),
            _parse_units(meta.get("computeUnitsConsumed")),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise _malformed_answer() from None


def _malformed_answer() -> LedgerUnavailable:
    return LedgerUnavailable("The ledger's answer to getTransaction has an unexpected shape")


def _parse_amounts(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(_parse_amount, values))


def _parse_amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _malformed_answer()
    return value


def _parse_units(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_COMPUTE_UNITS else None


def _parse_tokens(entries: Sequence[Mapping[str, Any]], accounts: int) -> dict[int, TokenBalance]:
    found: dict[int, TokenBalance] = {}
    for entry in entries:
        place, amount = _parse_amount(entry["accountIndex"]), entry["uiTokenAmount"]
        if place >= accounts or place in found:
            raise _malformed_answer()
        found[place] = TokenBalance(
            str(entry["mint"]),
            str(entry["owner"]),
            str(entry["programId"]),
            _parse_amount(int(amount["amount"])),
            _parse_amount(amount["decimals"]),
        )
    return found


def _lamports_gained(landed: Balances, wallet: str) -> tuple[int, int, int]:
    """Return the lamports by which accounts other than the wallet grew: the rent of new token
    accounts, all other lamports, and the sum."""
    rent = moved = total = 0
    for place, address in enumerate(landed.accounts):
        if address == wallet:
            continue
        gained = max(0, landed.lamports_after[place] - landed.lamports_before[place])
        new = place in landed.tokens_after and place not in landed.tokens_before
        wrapped = _wrapped_lamports(landed.tokens_after, place)
        of_rent = min(max(0, gained - wrapped), TOKEN_2022_MAX_ACCOUNT_RENT) if new else 0
        rent += of_rent
        moved += gained - of_rent
        total += gained
    return rent, moved, total


def _wrapped_lamports(tokens: Mapping[int, TokenBalance], place: int) -> int:
    held = tokens.get(place)
    return 0 if held is None or held.mint != WRAPPED_SOL_MINT else held.units


def _units_sent(landed: Balances, wallet: str, mint: str, lines: Sequence[Line]) -> int:
    own = {
        address
        for place, address in enumerate(landed.accounts)
        if (held := landed.tokens_after.get(place)) is not None
        and (held.owner, held.mint) == (wallet, mint)
        and address == associated_address(wallet, mint, held.program)
    }
    return sum(each.units for each in lines if each.asset == mint and each.account not in own)


def _token_change(landed: Balances, wallet: str, fee_lamports: int, mint: str) -> Decimal | None:
    """Return the whole tokens of `mint` that the wallet gained; None if no account shows decimals.

    SOL includes the SOL in the wallet's token accounts, so opening, closing or unwrapping such an
    account is no gain. The fee is left out."""
    if mint == WRAPPED_SOL_MINT:
        after = _own_lamports(landed.lamports_after, landed.tokens_after, landed, wallet)
        before = _own_lamports(landed.lamports_before, landed.tokens_before, landed, wallet)
        return from_units(after - before + fee_lamports, SOL_DECIMALS)
    shown = (*landed.tokens_after.values(), *landed.tokens_before.values())
    decimals = {held.decimals for held in shown if held.mint == mint}
    units = sum(
        sign * held.units
        for sign, tokens in ((1, landed.tokens_after), (-1, landed.tokens_before))
        for held in tokens.values()
        if (held.owner, held.mint) == (wallet, mint)
    )
    return from_units(units, decimals.pop()) if decimals else None


def _own_lamports(
    lamports: Sequence[int], tokens: Mapping[int, TokenBalance], landed: Balances, wallet: str
) -> int:
    return sum(
        lamports[place]
        for place, address in enumerate(landed.accounts)
        if address == wallet or (place in tokens and tokens[place].owner == wallet)
    )
