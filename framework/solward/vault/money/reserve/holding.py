"""What a person decides on: what a held transaction takes, as shown; and whether it still does."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from solward.support import jsontext
from solward.types.guardrail import SOL, Intent, Line, Operation
from solward.types.hold import GENERATED_KEY, Hold
from solward.types.money import SOL_DECIMALS, format_amount, format_sol, from_units
from solward.types.record import TransactionRecord
from solward.vault.money.judge.grant_case import VENUE, is_pockets
from solward.vault.money.request import Actor, Payment, PocketUse

# What stands for a pocket's address: another try has another pocket.
_POCKET: Final = "pocket"
# Their recipient is the wallet's own, or nobody, by the bytes; a new account each time.
_TO_NOBODY: Final = frozenset({Operation.STAKE, Operation.WRAP, Operation.BURN, Operation.LAUNCH})

Key = tuple[str, str, str]


def lines_of(lines: tuple[Line, ...], pocket: PocketUse | None) -> tuple[Line, ...]:
    """What leaves by the bytes, with the pocket under the name of any."""
    if pocket is None:
        return lines
    address = pocket.pocket.address
    return tuple(_pockets(line) if is_pockets(line, address) else line for line in lines)


def arrives_of(intent: Intent, pocket: PocketUse | None) -> dict[str, int]:
    """mint -> least units that must arrive, at once or by a later step."""
    return {**intent.tokens_in, **({} if pocket is None else pocket.returns)}


def with_decimals(lines: Sequence[Line], decimals: Mapping[str, int]) -> tuple[Line, ...]:
    """Lines with the decimals that a node says where the bytes do not state them.

    Args:
        decimals: mint -> its decimals.
    """
    return tuple(
        line
        if line.decimals is not None
        else replace(line, decimals=_decimals(line.asset, decimals))
        for line in lines
    )


def shown_lines(lines: Sequence[Line]) -> tuple[dict[str, Any], ...]:
    """Lines as a hold has them."""
    shown = []
    for line in lines:
        fields = {
            "operation": line.operation.value,
            "asset": line.asset,
            "units": str(line.units),
            "account": line.account,
            "owner": line.owner,
            "decimals": line.decimals,
        }
        shown.append({name: value for name, value in fields.items() if value is not None})
    return tuple(shown)


def digest_of(
    wallet_id: str,
    chain: Sequence[str],
    actor: Actor,
    intent: Intent,
    lines: Sequence[Line],
    pocket: PocketUse | None,
    payment: Payment | None = None,
) -> str:
    """SHA-256 of what is asked and what it takes: the same request again has the same.

    Of what only its caller can make again it is all that says what that is: an approval is given to
    whatever has this digest. An agent's request has no key of its caller's: each cycle's is
    another, and the same payment asked for in the next cycle is not to be a second one. A paid
    request is one by what it requests and takes, whichever route or skill makes it.
    """
    key = None
    if not is_keyless(actor):
        key = [str(actor.action_key)]
        if actor.idempotency is not None:
            key = [actor.idempotency.scope, actor.idempotency.fingerprint]
    if actor.recipe is not None:
        recipe = actor.recipe()
        asked = recipe.get("fields", recipe)
    else:
        asked = {**_asked(intent, pocket), "call": actor.call}
    lefts = _sums([_at_any_venue(line) for line in lines], actor.recipe is None)
    left = sorted([*each, str(units)] for each, units in lefts.items())
    whole = ["hold", wallet_id, list(chain), intent.type, key, asked, left]
    if payment is not None:
        # The whole request: what is bought for it is what was approved.
        request = [payment.url, payment.method, payment.fingerprint]
        payers = [each for each in chain if not each.startswith(("skill:", "plugin:"))]
        whole = ["hold", wallet_id, payers, intent.type, key, request, left]
    return hashlib.sha256(jsontext.dumps(whole, canonical=True).encode()).hexdigest()


def is_keyless(actor: Actor) -> bool:
    """Whether its caller chose no key, which would make it a payment of its own."""
    if actor.idempotency is not None:
        return actor.idempotency.is_generated
    key = actor.action_key
    return actor.run is not None or key is None or key.startswith(GENERATED_KEY)


def is_same_payment(
    hold: Hold, record: TransactionRecord, lines: Sequence[Line], arrives: Mapping[str, int]
) -> bool:
    """Whether a transaction takes what a hold shows, from the same wallet to the same recipients,
    for the same assets, by whichever route, skill or spelling it was asked for.

    Args:
        arrives: as `arrives_of`; how much of them changes with each quote.
    """
    if not lines or (hold.wallet_id, hold.type) != (record.wallet_id, record.type):
        return False
    if hold.arrives.keys() != arrives.keys():
        return False
    if any(line.operation is Operation.LAUNCH for line in lines):
        # Nothing in its lines says which token it is.
        return False
    shown = [_at_any_venue(_line(each)) for each in hold.lines]
    taken = [_at_any_venue(each) for each in lines]
    return _sums(shown, hold.repeats) == _sums(taken, hold.repeats)


def is_declared(recipe: Mapping[str, Any] | None) -> bool:
    """Whether what makes a transaction again is a declared operation: its lines say what it is. A
    plugin's own instructions may be for anything."""
    return recipe is not None and "operation" in recipe


def venue_of(hold: Hold) -> str | None:
    """The venue that was shown to who approves a swap; None of anything else."""
    accounts = (str(line.get("account", "")) for line in hold.lines)
    return next((each.removeprefix(VENUE) for each in accounts if each.startswith(VENUE)), None)


def _at_any_venue(line: Line) -> Line:
    """Which venue offers the most changes from one request to the next."""
    at_venue = (line.account or "").startswith(VENUE)
    return replace(line, account=VENUE) if at_venue else line


def change(
    hold: Hold, intent: Intent, lines: Sequence[Line], costs: int, arrives: Mapping[str, int]
) -> str | None:
    """What it takes beyond what was shown, or gives less; None where nothing.

    Each line at most as shown, to the same recipient, with the same decimals; costs likewise; and a
    swap's minimum at least.

    Args:
        lines: with their decimals.
        costs: network fee and rent, in lamports.
        arrives: as `arrives_of`.
    """
    if intent.type != hold.type:
        return f"it is a {intent.type} now"
    exact = hold.repeats
    before = [_line(each) for each in hold.lines]
    were, are = _sums(before, exact), _sums(lines, exact)
    stated = {line.asset: line.decimals for line in before if line.decimals is not None}
    for key, units in are.items():
        line = next(each for each in lines if _key(each, exact) == key)
        decimals = line.decimals
        if decimals is None:
            decimals = stated.get(line.asset)
        if stated.get(line.asset, decimals) != decimals:
            return f"{line.asset} has {decimals} decimals now, not {stated[line.asset]}"
        if units > were.get(key, 0) or key not in were:
            return (
                f"{_amount(line.asset, units, decimals)} would leave by {line.operation.value}"
                f"{_to(line)} now, and {_amount(line.asset, were.get(key, 0), decimals)} was shown"
            )
    if costs > hold.costs_lamports:
        return (
            f"fee and rent may be {format_sol(costs)} SOL now, and"
            f" {format_sol(hold.costs_lamports)} SOL was shown"
        )
    for mint, least in hold.arrives.items():
        if arrives.get(mint, 0) < least:
            return (
                f"at least {arrives.get(mint, 0)} units of {mint} would arrive now, and"
                f" {least} was shown"
            )
    return None


def _asked(intent: Intent, pocket: PocketUse | None) -> dict[str, Any]:
    """What is declared, but for what another try has otherwise: a quote's minimum, a pocket."""
    address, use = None, {}
    if pocket is not None:
        address = pocket.pocket.address
        use = {
            "mints": sorted(pocket.mints),
            "program": pocket.program,
            "position": pocket.position,
            "stays": pocket.stays,
            "returns": {mint: str(units) for mint, units in pocket.returns.items()},
        }
    hidden = () if pocket is None else ("pocket",)
    details = {name: it for name, it in intent.details.items() if name not in hidden}
    return {
        "details": details,
        "pocket": use,
        "lamportsOut": intent.lamports_out,
        "tokensOut": {mint: str(units) for mint, units in intent.tokens_out.items()},
        "destinations": sorted(_POCKET if to == address else to for to in intent.destinations),
        "mayClose": sorted(intent.may_close),
        "mayRevoke": sorted(intent.may_revoke),
        "slippageBps": intent.slippage_bps,
    }


def _sums(lines: Sequence[Line], exact: bool) -> Counter[Key]:
    sums: Counter[Key] = Counter()
    for line in lines:
        sums[_key(line, exact)] += line.units
    return sums


def _key(line: Line, exact: bool) -> Key:
    """Args:
    exact: the mint of a launch counts: nothing else says which it is.
    """
    is_new = line.operation is Operation.LAUNCH and not exact
    account = None if line.operation in _TO_NOBODY else line.account
    return line.operation.value, "" if is_new else line.asset, account or ""


def _line(shown: Mapping[str, Any]) -> Line:
    return Line(
        Operation(shown["operation"]),
        shown["asset"],
        int(shown["units"]),
        shown.get("account"),
        shown.get("owner"),
        shown.get("decimals"),
    )


def _pockets(line: Line) -> Line:
    return replace(line, account=_POCKET, owner=None)


def _decimals(asset: str, decimals: Mapping[str, int]) -> int | None:
    return SOL_DECIMALS if asset == SOL else decimals.get(asset)


def _amount(asset: str, units: int, decimals: int | None) -> str:
    if asset == SOL:
        return f"{format_sol(units)} SOL"
    if decimals is None:
        return f"{units} units of {asset}"
    return f"{format_amount(from_units(units, decimals))} {asset}"


def _to(line: Line) -> str:
    receiver = line.owner or line.account
    return "" if receiver is None or line.operation in _TO_NOBODY else f" to {receiver}"
