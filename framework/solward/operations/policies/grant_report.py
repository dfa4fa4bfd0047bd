"""Reports on the amounts left in grants and limits, and the maximum that can leave in a day."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from solward.database.database import Database
from solward.database.window_clock import Moment
from solward.operations.policies.grant_documents import grant_sentence
from solward.operations.policies.grant_sentences import (
    can_leave_sentence,
    extra_dollars_sentence,
    unlimited_sentence,
)
from solward.solana.token_list import TokenList, known_decimals
from solward.support.clock import iso
from solward.support.durations import DAY_MS
from solward.types.guardrail import COSTS, SOL, Operation
from solward.types.money import SOL_DECIMALS, amount_text, lamports_to_sol
from solward.types.roles import is_key
from solward.vault.grants.decide import Need
from solward.vault.grants.model import (
    ANY_ASSET,
    RATE,
    USD,
    USD_DECIMALS,
    AssetLimit,
    Grant,
    Window,
    from_stored,
)
from solward.vault.grants.sentences import left_sentence
from solward.vault.grants.spelling import Names, unit_name, window_text
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.judge.granting import names_of, room_at, window_uses
from solward.vault.store import grants as store
from solward.vault.store import spending

# If a window is full to this percentage, the report has the time when it has room again.
_NEARLY_FULL: Final = 80
SWAPS: Final = "agents, keys and schedules without grants may swap any token"
"""The reason for an unlimited amount of a token."""

Caller = tuple[str, ScopeLimits]
"""An agent, a key or a schedule that may use a wallet, with its ceilings."""


class KeyGroup(NamedTuple):
    """A number of keys without grants that have the same ceilings.

    Attributes:
        example: the principal of one of them.
    """

    limits: ScopeLimits
    keys: int
    example: str


@dataclass(frozen=True, slots=True)
class WalletKeys:
    """The keys that may use a wallet.

    Attributes:
        single: keys with their ceilings, including all keys under grants.
        alike: the other keys, by their ceilings.
    """

    single: Sequence[Caller]
    alike: Sequence[KeyGroup] = ()


async def wallet_grants(
    database: Database,
    tokens: TokenList,
    wallet_id: str,
    ceilings: ScopeLimits,
    callers: Sequence[Caller],
    shown: Collection[str] | None = None,
    alike: Sequence[KeyGroup] = (),
    within: Sequence[str] = (),
    draft: Mapping[str, Sequence[Grant]] | None = None,
) -> dict[str, Any]:
    """Return `grants` of a wallet and of its users, and `canLeave`, all read at one moment.

    Args:
        ceilings: of the wallet.
        callers: all agents, keys and schedules of the operator that may use it.
        shown: the principals to include in `grants`; None for all.
        alike: keys that may use it and are not in `callers`.
        within: schedules made by keys. They do not count for `canLeave`, because their grants only
            narrow those of the key.
        draft: principal -> its grants in a draft policy, whose `canLeave` is added as `drafted`.
    """
    wallet = f"wallet:{wallet_id}"
    principals = [wallet, *(who for who, _ in callers), *within]
    async with database.read() as connection:
        now = await database.moment(connection)
        sets = await _read_sets(connection, principals)
        leaving = can_leave(wallet_id, ceilings, callers, sets, now, alike)
        drafted = leaving
        if draft is not None:
            drafted = can_leave(wallet_id, ceilings, callers, draft, now, alike)
        named = _principals_to_name([wallet, *leaving.through, *drafted.through], sets)
        names = await names_of(connection, tokens, named)
        visible = {who: each for who, each in sets.items() if shown is None or who in shown}
        grants = await grants_report(connection, visible, names, now, wallet_id)
    report = {"grants": grants, "canLeave": leaving.to_json(wallet_id, names, shown)}
    if draft is not None:
        report["drafted"] = drafted.to_json(wallet_id, names, shown)
    return report


async def leaving_by_wallet(
    database: Database,
    ceilings: ScopeLimits,
    users: Mapping[str, tuple[Sequence[Caller], Sequence[KeyGroup]]],
) -> dict[str, CanLeave]:
    """Return the maximum that can leave each wallet, for one moment.

    Args:
        ceilings: the limits that the service sets for each wallet; its own ceilings are added.
        users: wallet id -> `callers` and `alike` of `wallet_grants`.
    """
    async with database.read() as connection:
        now = await database.moment(connection)
        stored = await store.all_sets(connection)
        own = await spending.ceilings_by_wallet(connection)
    sets = {who: tuple(map(from_stored, each)) for who, each in stored.items()}
    found = {}
    for wallet_id, (callers, alike) in users.items():
        limits = ceilings.within(own.get(wallet_id, {}))
        found[wallet_id] = can_leave(wallet_id, limits, callers, sets, now, alike)
        # Thousands of wallets do not stop other requests.
        await asyncio.sleep(0)
    return found


async def principal_grants(
    database: Database, tokens: TokenList, principals: Sequence[str]
) -> list[dict[str, Any]]:
    """Return `grants_report` for the given principals that are under grants."""
    async with database.read() as connection:
        now = await database.moment(connection)
        sets = await _read_sets(connection, principals)
        names = await names_of(connection, tokens, _principals_to_name((), sets))
        return await grants_report(connection, sets, names, now)


async def _read_sets(
    connection: AsyncConnection, principals: Sequence[str]
) -> dict[str, tuple[Grant, ...]]:
    found = await store.sets_of(connection, principals)
    return {who: tuple(map(from_stored, found[who])) for who in principals if who in found}


def _principals_to_name(more: Sequence[str], sets: Mapping[str, Sequence[Grant]]) -> set[str]:
    wallets = {f"wallet:{g.wallet}" for each in sets.values() for g in each if g.wallet is not None}
    return {*more, *sets, *wallets}


async def grants_report(
    connection: AsyncConnection,
    sets: Mapping[str, Sequence[Grant]],
    names: Names,
    now: Moment,
    wallet_id: str | None = None,
) -> list[dict[str, Any]]:
    """Return principals' grants with sentences, and the used and left amount of each limit.

    Args:
        sets: principal -> its grants, in the order of the answer.
        wallet_id: omit grants that are only for other wallets; the other grants keep their numbers.
    """
    needs = {need for each in sets.values() for grant in each for need, _, _ in _limits(grant)}
    counted = await window_uses(connection, needs, now.window_ms)
    report = []
    for who, grants in sets.items():
        shown = []
        for number, grant in enumerate(grants, 1):
            if None not in (wallet_id, grant.wallet) and grant.wallet != wallet_id:
                continue
            rows = [
                await _limit_json(connection, *limit, counted[limit[0]], names, now.window_ms)
                for limit in _limits(grant)
            ]
            sentence = grant_sentence(grant, names)
            shown.append({"id": grant.id, "number": number, "sentence": sentence, "limits": rows})
        kind, _, own_id = who.partition(":")
        report.append({"who": who, "name": names.name(kind, own_id) or own_id, "grants": shown})
    return report


def _limits(grant: Grant) -> Iterator[tuple[Need, int, Window]]:
    for counted, decimals, window in grant.limits():
        # A grant that only allows approving is never charged.
        if grant.may or counted not in (COSTS, RATE):
            yield (grant.scope, counted, window.length_ms), decimals, window


async def _limit_json(
    connection: AsyncConnection,
    need: Need,
    decimals: int,
    window: Window,
    counted: int,
    names: Names,
    now_ms: int,
) -> dict[str, Any]:
    """Return a limit as JSON, with amounts as text in whole units, dollars or transactions."""
    asset, most = need[1], window.most
    room_ms = None
    if counted and counted * 100 >= most * _NEARLY_FULL:
        room_ms = await room_at(connection, need, 1, now_ms)
    name = ANY_ASSET if asset == USD else asset
    body = {
        "asset": name if name in (ANY_ASSET, COSTS, RATE) else unit_name(asset, names),
        "window": window_text(window.length_ms),
        "limit": amount_text(most, decimals),
        "used": amount_text(counted, decimals),
        "left": amount_text(max(0, most - counted), decimals),
        "sentence": left_sentence(asset, decimals, window, counted, names, room_ms, now_ms),
    }
    return body if room_ms is None else body | {"roomAt": iso(room_ms)}


# The maximum that can leave.


@dataclass(frozen=True, slots=True)
class _Bound:
    """The maximum amount of one asset that can leave in 24 hours.

    Attributes:
        units: smallest units; None if nothing limits them.
        micro_dollars: value of the asset that may leave in addition to `units`.
    """

    units: int | None
    micro_dollars: int = 0


@dataclass(frozen=True, slots=True)
class CanLeave:
    """The maximum that all principals except the operator can move from a wallet in any 24 hours.

    Attributes:
        bounds: asset -> smallest units; None if nothing limits it. `ANY_ASSET` stands for all
            assets that are not named, in micro-dollars; `COSTS` counts as an asset.
        decimals: asset -> its decimals.
        dollars: named asset -> micro-dollars that grants in dollars allow in addition.
        through: an agent, key or schedule for which nothing limits some asset -> the number of
            principals that it stands for.
    """

    bounds: Mapping[str, int | None]
    decimals: Mapping[str, int]
    dollars: Mapping[str, int] = field(default_factory=dict)
    through: Mapping[str, int] = field(default_factory=dict)

    def to_json(
        self, wallet_id: str | None, names: Names, shown: Collection[str] | None = None
    ) -> dict[str, Any]:
        """Return `assets`, name -> `most` in whole units (dollars for `*`), and a `sentence`.

        If nothing limits an asset, its `most` is null and it has a `reason`; `through` has the
        principals that can move it. `wallet_id` is the argument of `can_leave_sentence`.

        Args:
            shown: the principals that may be named; None for all.
        """
        assets: dict[str, Any] = {}
        for asset, units in self.bounds.items():
            name = asset if asset in (ANY_ASSET, COSTS) else unit_name(asset, names)
            if units is None:
                assets[name] = {"most": None, "reason": SWAPS}
                continue
            assets[name] = {"most": amount_text(units, self.decimals[asset])}
            if self.dollars.get(asset):
                assets[name]["dollarsBeside"] = amount_text(self.dollars[asset], USD_DECIMALS)
        amounts = {
            asset: None if units is None else (units, self.decimals[asset])
            for asset, units in self.bounds.items()
        }
        sentence = can_leave_sentence(wallet_id, amounts, names)
        beside = [unit_name(each, names) for each in self.dollars if self.dollars[each]]
        if beside:
            sentence += f" {extra_dollars_sentence(beside)}"
        through = [who for who in self.through if shown is None or who in shown]
        others = sum(self.through.values()) - len(through)
        if wallet_id is not None and (through or others):
            sentence += f" {unlimited_sentence(through, others, names)}"
        return {"window": "24h", "assets": assets, "through": through, "sentence": sentence}


def can_leave(
    wallet_id: str,
    ceilings: ScopeLimits,
    callers: Iterable[Caller],
    sets: Mapping[str, Sequence[Grant]],
    now: Moment,
    alike: Sequence[KeyGroup] = (),
) -> CanLeave:
    """Compute the maximum that can leave a wallet in any 24 hours, from the arguments alone.

    It is the sum over the ceilings and grants of all agents, keys and schedules, but at most what
    those of the wallet allow. The operator's own actions are not counted.

    Args:
        ceilings: of the wallet.
        sets: principal -> its grants, for principals under grants.
        alike: keys that are not in `callers`.
    """
    wallet = f"wallet:{wallet_id}"
    asking = list(callers)
    decimals = {SOL: SOL_DECIMALS, COSTS: SOL_DECIMALS}
    for who in (wallet, *(each for each, _ in asking)):
        for grant in sets.get(who, ()):
            decimals |= {each.asset: each.decimals for each in grant.assets.values()}
    for mint in sorted(ceilings.daily_tokens.keys() - decimals.keys()):
        # If the mint's decimals are not known, 0 is used: the amount is then in smallest units.
        decimals[mint] = known_decimals(mint) or 0
    decimals[ANY_ASSET] = USD_DECIMALS
    bounds: dict[str, int | None] = {}
    dollars: dict[str, int] = {}
    through: dict[str, int] = {}
    lends = any(_may_swap(sets.get(who, ())) for who in (wallet, *(each for each, _ in asking)))
    for asset in decimals:
        parts = [_caller_bound(who, limits, asset, wallet_id, sets, now) for who, limits in asking]
        parts += [
            _scale(
                _caller_bound(group.example, group.limits, asset, wallet_id, {}, now), group.keys
            )
            for group in alike
        ]
        whole = _smaller_bound(_summed_bound(parts), _ceiling_bound(ceilings, asset, lends=lends))
        if wallet in sets:
            whole = _smaller_bound(whole, _grants_bound(sets[wallet], asset, wallet_id, now))
        bounds[asset] = whole.units
        if whole.units is None:
            counts = {who: 1 for who, _ in asking} | {each.example: each.keys for each in alike}
            named_parts = zip(counts.items(), parts, strict=True)
            through |= dict(each for each, part in named_parts if part.units is None)
        if whole.units is not None and asset != ANY_ASSET and whole.micro_dollars:
            dollars[asset] = whole.micro_dollars
    return CanLeave(bounds, decimals, dollars, through)


def _caller_bound(
    who: str,
    limits: ScopeLimits,
    asset: str,
    wallet_id: str,
    sets: Mapping[str, Sequence[Grant]],
    now: Moment,
) -> _Bound:
    if is_key(who) and limits.daily_lamports == 0:
        # The key may not sign anything.
        return _Bound(0)
    # The wallet's grants or the caller's grants may count loans to pockets as costs.
    lends = any(_may_swap(sets.get(each, ())) for each in (who, f"wallet:{wallet_id}"))
    ceiling = _ceiling_bound(limits, asset, lends=lends)
    if who in sets:
        return _smaller_bound(_grants_bound(sets[who], asset, wallet_id, now), ceiling)
    return ceiling


def _may_swap(grants: Sequence[Grant]) -> bool:
    """Return whether grants allow swaps of tokens.

    Its pocket borrows SOL for fee and rent, which grants count as costs, and ceilings as SOL.
    """
    return any(
        Operation.SWAP in grant.may and any(asset != SOL for asset in grant.assets)
        for grant in grants
    )


def _ceiling_bound(limits: ScopeLimits, asset: str, *, lends: bool = False) -> _Bound:
    if asset == SOL:
        return _Bound(limits.daily_lamports)
    if asset == COSTS:
        costs, sol = limits.daily_costs_lamports, limits.daily_lamports
        if lends and costs is not None:
            return _Bound(None if sol is None else costs + sol)
        return _Bound(costs)
    return _Bound(limits.daily_tokens.get(asset))


def _grants_bound(grants: Sequence[Grant], asset: str, wallet_id: str, now: Moment) -> _Bound:
    units = micro_dollars = 0
    for grant in grants:
        ended = grant.until_ms is not None and min(now.database_ms, now.window_ms) >= grant.until_ms
        if ended or not grant.may or grant.wallet not in (None, wallet_id):
            continue
        if asset == COSTS:
            units += grant.costs_lamports
            continue
        if grant.may == frozenset({Operation.LAUNCH}):
            continue
        limit = grant.assets.get(asset)
        if limit is not None:
            units += _max_units_a_day(limit, grant.rates)
        elif (any_ := grant.assets.get(ANY_ASSET)) is not None:
            micro_dollars += _max_units_a_day(any_, grant.rates)
    return _Bound(units, micro_dollars)


def _max_units_a_day(limit: AssetLimit, rates: Sequence[Window]) -> int:
    """Return the maximum that a limit allows in any 24 hours, in smallest units."""
    most = min(_windows_a_day(window) * window.most for window in limit.windows)
    if limit.per_tx is not None and rates:
        most = min(most, limit.per_tx * min(_windows_a_day(rate) * rate.most for rate in rates))
    return most


def _windows_a_day(window: Window) -> int:
    return -(-DAY_MS // window.length_ms)


def _scale(one: _Bound, callers: int) -> _Bound:
    """Return the bound of several callers, each of which has the bound `one`."""
    units = None if one.units is None else one.units * callers
    return _Bound(units, one.micro_dollars * callers)


def _summed_bound(parts: Sequence[_Bound]) -> _Bound:
    units = [each.units for each in parts]
    whole = None if None in units else sum(each for each in units if each is not None)
    return _Bound(whole, sum(each.micro_dollars for each in parts))


def _smaller_bound(one: _Bound, other: _Bound) -> _Bound:
    """Return one of two bounds that apply together: the smaller one, if they are comparable."""
    if one.units is None or other.units is None:
        return other if one.units is None else one
    # Prices are not known here, so units can be compared only with units. Otherwise either bound is
    # correct, and the bound with fewer dollars is used.
    if one.micro_dollars or other.micro_dollars:
        return min(one, other, key=lambda each: (each.micro_dollars, each.units))
    return _Bound(min(one.units, other.units))


async def limits_report(database: Database, scope: str, limits: ScopeLimits) -> dict[str, Any]:
    """Return one scope's limits as JSON: SOL as Decimal, None for a missing limit.

    `spent` counts transactions that ended in the last 24 hours, `reserved` unfinished ones; `left`
    is the maximum for a new one.
    """
    return (await limits_reports(database, {scope: limits}))[scope]


async def limits_reports(
    database: Database, limits: Mapping[str, ScopeLimits]
) -> dict[str, dict[str, Any]]:
    """Return scope -> its `limits_report`, for one moment."""
    mints = {mint for each in limits.values() for mint in each.daily_tokens}
    async with database.read() as connection:
        now = (await database.moment(connection)).window_ms
        usage = await spending.usage(connection, limits, mints, now)
        held = await spending.reserved_by_scope(connection, limits)
    return {scope: _scope_json(each, usage[scope], held[scope]) for scope, each in limits.items()}


def _scope_json(
    limits: ScopeLimits, spent: spending.Usage, held_units: Mapping[str, int]
) -> dict[str, Any]:
    def day(limit: int | None, asset: str, shown: Callable[[int | None], Any]) -> dict[str, Any]:
        counted, reserved = spent.units_last_day.get(asset, 0), held_units.get(asset, 0)
        return {
            "limit": shown(limit),
            "spent": shown(counted - reserved),
            "reserved": shown(reserved),
            "left": shown(_left_amount(limit, counted)),
        }

    return {
        "maxSolPerTransaction": {"limit": _sol_or_none(limits.max_lamports_per_tx)},
        "maxTransactionsPerMinute": {
            "limit": limits.max_tx_per_minute,
            "used": spent.tx_last_minute,
            "left": _left_amount(limits.max_tx_per_minute, spent.tx_last_minute),
        },
        "dailySpendingLimitSol": day(limits.daily_lamports, spending.SOL_ASSET, _sol_or_none),
        "maxCostsSolPerDay": day(limits.daily_costs_lamports, spending.COSTS_ASSET, _sol_or_none),
        "dailyTokens": {mint: day(limit, mint, str) for mint, limit in limits.daily_tokens.items()},
    }


def _left_amount(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(0, limit - used)


def _sol_or_none(lamports: int | None) -> Any:
    return None if lamports is None else lamports_to_sol(lamports)
