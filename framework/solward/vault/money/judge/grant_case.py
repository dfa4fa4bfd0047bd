"""A transaction as grants judge it: its lines, its recipients and its costs; pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import associated_address
from solward.types.guardrail import SOL, Intent, Line, Operation, Outflow
from solward.types.record import TransactionType
from solward.vault.grants.decide import mint_of
from solward.vault.grants.model import SwapTerms
from solward.vault.money.request import PocketUse

_SENT = frozenset({Operation.TRANSFER, Operation.FUND, Operation.PAY})

VENUE = "venue:"
"""Prefix of the venue's name, which a swap's line has in place of the recipient's account."""


@dataclass(frozen=True, slots=True)
class Outgoings:
    """The amounts that a transaction's bytes can take, as grants count them.

    Attributes:
        lines: the amounts; lines of a swap that the service planned are labelled as a swap, and
            accounts have their owner if it is proved.
        costs_lamports: network fee, rent, and the SOL that the swap of a token lends its pocket.
        swap: the terms of a swap that the service planned.
    """

    lines: tuple[Line, ...]
    costs_lamports: int
    swap: SwapTerms | None = None


def find_outgoings(outflow: Outflow, intent: Intent, pocket: PocketUse | None) -> Outgoings:
    """Return the lines of a transaction, relabelled if the service planned a swap or payment."""
    if pocket is not None and pocket.venue is not None:
        return _swap_lines(outflow, intent, pocket, pocket.venue)
    lines = tuple(_with_owner(line, intent.destinations) for line in outflow.lines)
    if intent.type == TransactionType.PAYMENT:
        lines = tuple(map(_mark_paid, lines))
    return Outgoings(lines, outflow.costs)


def mark_funding(lines: Sequence[Line], own: Collection[str]) -> tuple[Line, ...]:
    """Mark transfers, but not payments, to wallets of this service as `FUND`."""
    return tuple(
        replace(line, operation=Operation.FUND)
        if line.operation == Operation.TRANSFER and (line.account in own or line.owner in own)
        else line
        for line in lines
    )


def recipients(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return the recipients: each paid account's owner if proved, otherwise the account."""
    paid = (line.owner or line.account for line in lines if line.operation in _SENT)
    return tuple(dict.fromkeys(each for each in paid if each is not None))


def addresses(lines: Iterable[Line]) -> tuple[str, ...]:
    """Return every address in transfers and payments, which may be a wallet of this service."""
    named = (
        each for line in lines if line.operation in _SENT for each in (line.account, line.owner)
    )
    return tuple(dict.fromkeys(each for each in named if each is not None))


def is_within(lines: Sequence[Line], limits: Sequence[Line]) -> bool:
    """Return whether every line is in `limits` with the same recipient and enough units."""
    most: dict[Line, int] = {}
    for line in limits:
        key = replace(line, units=0)
        most[key] = most.get(key, 0) + line.units
    for line in lines:
        key = replace(line, units=0)
        if key not in most or most[key] < line.units:
            return False
        most[key] -= line.units
    return True


def _swap_lines(outflow: Outflow, intent: Intent, pocket: PocketUse, venue: str) -> Outgoings:
    """Mark the amounts that a planned swap transfers to its pocket as sold at the venue."""
    sold: list[Line] = []
    costs = outflow.costs
    for line in outflow.lines:
        if line.operation != Operation.TRANSFER or not is_to_pocket(line, pocket.pocket.address):
            sold.append(_with_owner(line, intent.destinations))
        elif line.asset == SOL and intent.tokens_out:
            # A token is sold: the SOL pays the pocket's fee and rent, and most of it comes back.
            costs += line.units
        else:
            account = f"{VENUE}{venue}"
            sold.append(replace(line, operation=Operation.SWAP, account=account, owner=None))
    into = intent.details.get("outputToken")
    terms = SwapTerms(
        intent.slippage_bps, intent.price_impact_bps, SOL if into == WRAPPED_SOL_MINT else into
    )
    return Outgoings(tuple(sold), costs, terms)


def _mark_paid(line: Line) -> Line:
    """Mark a payment's transfer as `PAY`; return a line of any other operation unchanged."""
    is_sent = line.operation == Operation.TRANSFER
    return replace(line, operation=Operation.PAY) if is_sent else line


def is_to_pocket(line: Line, pocket: str) -> bool:
    """Return whether the line's amount goes to a pocket or to its associated account."""
    if pocket in (line.account, line.owner):
        return True
    program = line.program or TOKEN_PROGRAM
    return line.account == associated_address(pocket, mint_of(line.asset, program), program)


def _with_owner(line: Line, declared: Collection[str]) -> Line:
    """Add the owner to a line whose account is a declared destination's associated account."""
    if line.owner is not None or line.program is None or line.operation != Operation.TRANSFER:
        return line
    mint = mint_of(line.asset, line.program)
    for address in declared:
        if address == line.account:
            continue
        try:
            account = associated_address(address, mint, line.program)
        except ValueError:
            # A plugin may declare a destination that is no address.
            continue
        if account == line.account:
            return replace(line, owner=address)
    return line
