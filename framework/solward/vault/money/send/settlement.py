"""What a landed transaction really took, from its own balances before and after.

Reservations are gross. What did not leave is given back per asset, at most what this transaction
reserved, and only on a word that is enough (`is_enough`). Nothing here comes from a
simulation or from another slot: the balances belong to one signature.
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
from solward.vault.store.attempts import Spent
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET

_CLOSE = bytes([Token.CLOSE_ACCOUNT])


@dataclass(frozen=True, slots=True)
class TokenBalance:
    """What a token account held: `units` of `mint`."""

    mint: str
    owner: str
    program: str
    units: int
    decimals: int


@dataclass(frozen=True, slots=True)
class Landed:
    """A transaction's accounts with their lamports and tokens, before and after it.

    Attributes:
        accounts: in the order of the message, those of lookup tables last.
        tokens_before: by the place in `accounts`; no other is a token account.
        tokens_after: likewise.
        units: compute units it used; hosts need not agree on what costs nothing.
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
    """Return whether a landed transaction's balances can give back or report anything; a transfer's
    cannot, and costs no call for them."""
    return (
        record_type in (TransactionType.SWAP, TransactionType.RECLAIM_RENT)
        or reserved.get(COSTS_ASSET, 0) > fee_lamports
        or bool(_closed_by(message, str(message.account_keys[0])))
    )


def own_accounts(
    landed: Landed, message: AnyMessage, wallet: str
) -> tuple[dict[str, int], dict[str, int]]:
    """Return the wallet's own token accounts that a landed transaction opened, each with the rent
    it paid, and those it closed, each with the rent that came back; in lamports, pure.

    Only by instructions of the wallet itself, whose effect the balances show.
    """
    openings, closings = _opened_by(message, wallet), _closed_by(message, wallet)
    opened: dict[str, int] = {}
    closed: dict[str, int] = {}
    for place, address in enumerate(landed.accounts):
        before, after = landed.tokens_before.get(place), landed.tokens_after.get(place)
        was, left = landed.lamports_before[place], landed.lamports_after[place]
        is_new = before is None and after is not None and after.owner == wallet
        if address in openings and is_new:
            paid = left - was - _wrapped(landed.tokens_after, place)
            rent = min(paid, TOKEN_2022_MAX_ACCOUNT_RENT)
            if rent > 0:
                opened[address] = rent
        elif address in closings and before is not None and before.owner == wallet and left == 0:
            closed[address] = max(0, was - _wrapped(landed.tokens_before, place))
    return opened, closed


def _opened_by(message: AnyMessage, wallet: str) -> frozenset[str]:
    """Associated accounts that the wallet pays for and owns."""
    return frozenset(
        account
        for call in top_level_calls(message)
        if call.program == ASSOCIATED_TOKEN_PROGRAM
        and call.data in ASSOCIATED_TOKEN_CREATIONS
        and len(call.accounts) == 6
        and call.accounts[0] == call.accounts[2] == wallet
        and (account := call.accounts[1]) is not None
    )


def _closed_by(message: AnyMessage, wallet: str) -> frozenset[str]:
    """Token accounts that the wallet closes, to itself."""
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
    landed: Landed,
    wallet: str,
    fee_lamports: int,
    reserved: Mapping[str, int],
    lines: Sequence[Line],
) -> dict[str, int]:
    """asset -> units that count, for a transaction that landed without an error; pure.

    Never more than reserved and never below 0. Lamports cannot have left the wallet but to
    accounts that have more afterwards, so these bound SOL and costs together, whatever came in at
    the same time. Tokens count as the bytes say, but for those whose receiver is the wallet's
    associated account afterwards; another account of its may have a delegate. Balances do not tell
    what left from what came in at the same time, such as newly minted units.

    Args:
        wallet: pays the fee.
        fee_lamports: of the message's bytes.
        reserved: asset -> units; `COSTS_ASSET` is fee and rent.
        lines: what the bytes let leave.
    """
    rent, moved, total = _lamports_gained(landed, wallet)
    tokens = {
        asset: _tokens_left(landed, wallet, asset, lines)
        for asset in reserved
        if asset not in (SOL_ASSET, COSTS_ASSET)
    }
    return _kept(reserved, tokens, fee_lamports + rent, moved, fee_lamports + total)


def _kept(
    reserved: Mapping[str, int], tokens: Mapping[str, int], costs: int, sol: int, total: int
) -> dict[str, int]:
    """asset -> units that count of those reserved. Of SOL and costs, what is beyond the one's
    reservation counts as the other.

    Args:
        tokens: asset -> units that left.
        costs: lamports that are costs for certain, and count as those first.
        sol: lamports that are none for certain.
        total: lamports that left altogether.
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


def kept_of_failed(fee_lamports: int, reserved: Mapping[str, int]) -> dict[str, int]:
    """asset -> units that count, for a transaction that landed with an error: its fee; pure."""
    kept = {
        asset: min(units, fee_lamports) if asset == COSTS_ASSET else 0
        for asset, units in reserved.items()
    }
    # Grants count some assets in dollars.
    return kept | {USD: 0}


class StepsTotal:
    """What the wallet's own balances changed by, over the landed steps of one record.

    Attributes:
        lamports: by which the wallet's own shrank, fees included. What a call brought lowers
            neither this nor `tokens`: somebody else may have paid it at the same time.
        brought: mint -> units that calls brought; lamports under the mint of wrapped SOL.
        fees: network fees the wallet paid.
        spent: fees and compute units of all steps, whoever paid them; units None where a step's are
            not known.
        rent: put into token accounts of the wallet's own.
        tokens: mint -> units by which its associated accounts shrank.
        decimals: mint -> decimals.
    """

    def __init__(self) -> None:
        self.lamports = 0
        self.fees = 0
        self.spent = Spent(units=0)
        self.rent = 0
        self.tokens: Counter[str] = Counter()
        self.brought: Counter[str] = Counter()
        self.decimals: dict[str, int] = {WRAPPED_SOL_MINT: SOL_DECIMALS}

    def add_fee(self, lamports: int, spent: Spent) -> None:
        """Add a step that failed on the ledger; the wallet paid `lamports` of what was spent."""
        self.lamports += lamports
        self.fees += lamports
        self._spend(spent)

    def add(
        self, landed: Landed, wallet: str, fee_lamports: int, spent: Spent, *, is_call: bool = False
    ) -> None:
        """Add a step that landed.

        Args:
            is_call: others made what it does.
        """
        self.fees += fee_lamports
        self._spend(spent)
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

    def _spend(self, spent: Spent) -> None:
        known = self.spent.units is not None and spent.units is not None
        self.spent += spent
        if not known:
            self.spent = replace(self.spent, units=None)

    def arrived(self, mint: str) -> Any:
        """Whole units of `mint` the wallet has more of, fees and rent aside."""
        units = self.brought[mint] - self.tokens[mint]
        if mint == WRAPPED_SOL_MINT:
            units += -self.lamports + self.fees + self.rent
        return from_units(max(0, units), self.decimals.get(mint, 0))


def kept_of_steps(total: StepsTotal, reserved: Mapping[str, int]) -> dict[str, int]:
    """asset -> units that count after all steps; never above what was reserved, nor below 0."""
    # A call may pay rent out of its funding.
    kept = _kept(reserved, total.tokens, total.fees + total.rent, 0, total.lamports)
    if not any(units for asset, units in kept.items() if asset != COSTS_ASSET):
        kept[USD] = 0
    return kept


def settled_details(
    record_type: str, details: Mapping[str, Any], landed: Landed, wallet: str, fee_lamports: int
) -> dict[str, Any] | None:
    """Return a record's details with what the landed transaction adds to them; None where nothing.

    Of a swap: what arrived, and what was sold where the record does not say it yet. Of rent that
    was reclaimed: what came, whatever a node said of the cluster's rent.
    """
    if record_type == TransactionType.RECLAIM_RENT:
        gained = landed.lamports_after[0] - landed.lamports_before[0] + fee_lamports
        return {**details, "reclaimed": lamports_to_sol(max(0, gained))}
    if record_type != TransactionType.SWAP:
        return None
    found: dict[str, Any] = {}
    for side, sign in (("input", -1), ("output", 1)):
        mint = details.get(f"{side}Token")
        if isinstance(mint, str) and (side == "output" or "inputAmount" not in details):
            change = _change(landed, wallet, fee_lamports, mint)
            if change is not None:
                found[f"{side}Amount"] = max(Decimal(0), sign * change)
    return {**details, **found}


async def read_landed(
    ledger: Ledger, signature: str, message: AnyMessage
) -> tuple[Landed | None, bool]:
    """Return the balances of a landed transaction, and whether enough hosts say the same of them;
    None where no node has them (yet)."""
    answers = await asyncio.gather(*(_of_node(node, signature, message) for node in ledger.nodes()))
    found = [(landed, origin) for landed, origin in answers if landed is not None]
    for landed, _ in found:
        if is_enough([origin for other, origin in found if other == landed]):
            return landed, True
    return (found[0][0] if found else None), False


async def _of_node(node: Ledger, signature: str, message: AnyMessage) -> tuple[Landed | None, str]:
    try:
        answer = await node.transaction(signature)
        landed = None if answer is None else parse_landed(answer, signature, message)
    except LedgerError:
        landed = None
    return landed, node.origin


def parse_landed(answer: Mapping[str, Any], signature: str, message: AnyMessage) -> Landed:
    """Read a `getTransaction` answer in the encoding `json`.

    Raises:
        LedgerUnavailable: it is another transaction's, or has no balances.
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
        before, after = _amounts(meta["preBalances"]), _amounts(meta["postBalances"])
        if not len(accounts) == len(before) == len(after):
            raise _malformed()
        return Landed(
            accounts,
            before,
            after,
            _tokens(meta["preTokenBalances"], len(accounts)),
            _tokens(meta["postTokenBalances"], len(accounts)),
            _units(meta.get("computeUnitsConsumed")),
        )
    except (KeyError, IndexError, TypeError, ValueError, AttributeError):
        raise _malformed() from None


def _malformed() -> LedgerUnavailable:
    return LedgerUnavailable("The ledger's answer to getTransaction has an unexpected shape")


def _amounts(values: Sequence[Any]) -> tuple[int, ...]:
    return tuple(map(_amount, values))


def _amount(value: Any) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise _malformed()
    return value


def _units(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= MAX_COMPUTE_UNITS else None


def _tokens(entries: Sequence[Mapping[str, Any]], accounts: int) -> dict[int, TokenBalance]:
    found: dict[int, TokenBalance] = {}
    for entry in entries:
        place, amount = _amount(entry["accountIndex"]), entry["uiTokenAmount"]
        if place >= accounts or place in found:
            raise _malformed()
        found[place] = TokenBalance(
            str(entry["mint"]),
            str(entry["owner"]),
            str(entry["programId"]),
            _amount(int(amount["amount"])),
            _amount(amount["decimals"]),
        )
    return found


def _lamports_gained(landed: Landed, wallet: str) -> tuple[int, int, int]:
    """Return lamports by which accounts other than the wallet grew: rent of new token accounts;
    what else they got, and accounts of any other kind; all of them together."""
    rent = moved = total = 0
    for place, address in enumerate(landed.accounts):
        if address == wallet:
            continue
        gained = max(0, landed.lamports_after[place] - landed.lamports_before[place])
        new = place in landed.tokens_after and place not in landed.tokens_before
        wrapped = _wrapped(landed.tokens_after, place)
        of_rent = min(max(0, gained - wrapped), TOKEN_2022_MAX_ACCOUNT_RENT) if new else 0
        rent += of_rent
        moved += gained - of_rent
        total += gained
    return rent, moved, total


def _wrapped(tokens: Mapping[int, TokenBalance], place: int) -> int:
    held = tokens.get(place)
    return 0 if held is None or held.mint != WRAPPED_SOL_MINT else held.units


def _tokens_left(landed: Landed, wallet: str, mint: str, lines: Sequence[Line]) -> int:
    own = {
        address
        for place, address in enumerate(landed.accounts)
        if (held := landed.tokens_after.get(place)) is not None
        and (held.owner, held.mint) == (wallet, mint)
        and address == associated_address(wallet, mint, held.program)
    }
    return sum(each.units for each in lines if each.asset == mint and each.account not in own)


def _change(landed: Landed, wallet: str, fee_lamports: int, mint: str) -> Decimal | None:
    """Whole units of `mint` by which the wallet's holding grew, None where no account shows its
    decimals. SOL is that of the wallet and its token accounts, so that opening, closing and
    unwrapping one of them is neither sold nor bought; without the fee."""
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
    lamports: Sequence[int], tokens: Mapping[int, TokenBalance], landed: Landed, wallet: str
) -> int:
    return sum(
        lamports[place]
        for place, address in enumerate(landed.accounts)
        if address == wallet or (place in tokens and tokens[place].owner == wallet)
    )
