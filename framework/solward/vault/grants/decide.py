"""Decides whether grants let a transaction through, and which grants are charged for it; pure.

Every principal of the chain must allow the transaction. Within one principal, each line is charged
whole to one grant, the lines of a grant add up, and the first assignment that fits, in written
order, is used. So a further grant can only allow more. The maximum that can leave is the sum of one
principal's grants: of the principal with the lowest sum.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, TypeAlias

from solward.solana.programs import (
    TOKEN_2022_PROGRAM,
    TOKEN_2022_WRAPPED_SOL_MINT,
    WRAPPED_SOL_MINT,
)
from solward.solana.tokens import associated_address
from solward.support.durations import MINUTE_MS
from solward.types.guardrail import COSTS, SOL, Line, Operation
from solward.types.money import SOL_DECIMALS
from solward.types.site import SITE
from solward.vault.grants.dollars import NOT_ASKED
from solward.vault.grants.model import (
    ANY_ASSET,
    ANYBODY,
    COSTS_WINDOW_MS,
    OWN,
    RATE,
    AssetLimit,
    Case,
    Charge,
    Decision,
    Finding,
    Grant,
    Hours,
    NewRecipient,
    Reason,
    SwapBounds,
    SwapTerms,
    Window,
)
from solward.vault.grants.spelling import hours_text, joined, time_text

Need: TypeAlias = tuple[str, str, int]
"""A sum that `decide` reads: scope, asset (or `USD`, `COSTS`, `RATE`) and length in ms of the
window (now - length, now]."""

# Reasons, from the first check to the last. A refusal names the grant that passed most checks.
_NEARNESS: Final = {
    why: place
    for place, why in enumerate(
        (
            Reason.NO_GRANT,
            Reason.WALLET,
            Reason.VIA,
            Reason.RECIPIENT,
            Reason.ENDED,
            Reason.HOURS,
            Reason.NEW_RECIPIENT,
            Reason.INTO,
            Reason.SLIPPAGE,
            Reason.IMPACT,
            Reason.DECIMALS,
            Reason.PRICE,
            Reason.PER_TX,
            Reason.WINDOW,
            Reason.RATE,
            Reason.COSTS,
        )
    )
}
# The maximum number of grants tried for one transaction's lines after the first assignment failed,
# because a search may have to try all assignments. Beyond it the transaction is refused.
_MOST_TRIES: Final = 1_000
_MINUTES_A_DAY: Final = 1_440
# Operations with a recipient. Burns and launches pay nobody; stakes and wraps keep the SOL.
_RECEIVED: Final = frozenset({Operation.TRANSFER, Operation.FUND, Operation.PAY, Operation.SWAP})
# Operations whose recipient may be new; the venue of a swap is no recipient.
_PAID: Final = _RECEIVED - {Operation.SWAP}
# The maximum number of sites that a refusal names; it counts the other sites.
_SAID_SITES: Final = 3


@dataclass(frozen=True, slots=True)
class _Candidate:
    """A grant for one operation and asset.

    Attributes:
        number: the grant's number in its principal's list, from 1.
        limit: None if nothing leaves, as in a launch or a transaction without lines.
    """

    number: int
    grant: Grant
    scope: str
    limit: AssetLimit | None


@dataclass(frozen=True, slots=True)
class CompiledGrants:
    """One principal's grants, in written order, by operation and asset.

    Attributes:
        grants: all grants of the principal.
        asks_new: whether any grant needs to know whom the wallet has paid.
        uses_book: whether any grant names recipients of the address book.
        counts_dollars: whether any grant counts dollars.
        acting: grants with an operation, for transactions without lines.
        named: (operation, asset) -> grants for it, for every asset that a grant names.
        others: operation -> grants for all other assets.
    """

    grants: tuple[Grant, ...] = ()
    asks_new: bool = False
    uses_book: bool = False
    counts_dollars: bool = False
    acting: tuple[_Candidate, ...] = ()
    named: Mapping[tuple[Operation, str], tuple[_Candidate, ...]] = field(default_factory=dict)
    others: Mapping[Operation, tuple[_Candidate, ...]] = field(default_factory=dict)

    def candidates(self, line: Line | None) -> tuple[_Candidate, ...]:
        """Return the grants for the line's operation and asset."""
        if line is None:
            return self.acting
        found = self.named.get((line.operation, line.asset))
        return self.others.get(line.operation, ()) if found is None else found


def compile_grants(grants: Sequence[Grant]) -> CompiledGrants:
    """Index one principal's grants by operation and asset; `grants` are in written order."""
    numbered = [(number, grant, grant.scope) for number, grant in enumerate(grants, 1)]
    named: dict[tuple[Operation, str], tuple[_Candidate, ...]] = {}
    others: dict[Operation, tuple[_Candidate, ...]] = {}
    for operation in Operation:
        allowing = [each for each in numbered if _may_perform(each[1], operation)]
        assets = {asset for _, grant, _ in allowing for asset in grant.assets}
        for asset in {*assets, ANY_ASSET}:
            found = tuple(
                _Candidate(number, grant, scope, limit)
                for number, grant, scope in allowing
                for limit in (_limit_of_asset(grant, operation, asset),)
                if limit is not None or operation == Operation.LAUNCH
            )
            if asset == ANY_ASSET:
                others[operation] = found
            else:
                named[operation, asset] = found
    acting = tuple(_Candidate(*each, None) for each in numbered if each[1].may)
    return CompiledGrants(
        tuple(grants),
        any(each.new != NewRecipient.ALLOW for each in grants),
        any(to.startswith("@") for each in grants for to in each.to),
        any(ANY_ASSET in each.assets for each in grants),
        acting,
        named,
        others,
    )


def _may_perform(grant: Grant, operation: Operation) -> bool:
    return operation in grant.may or (
        operation == Operation.FUND and Operation.TRANSFER in grant.may
    )


def _limit_of_asset(grant: Grant, operation: Operation, asset: str) -> AssetLimit | None:
    if operation == Operation.LAUNCH:
        return None
    return grant.assets.get(asset) or grant.assets.get(ANY_ASSET)


def covers(grant: Grant, line: Line, case: Case) -> bool:
    """Return whether the grant covers the line, regardless of amount and time.

    A new grant starts with its principal's earlier charges that it covers. Of `case`, only
    `wallet_id`, `chain`, `own` and `book` are read.
    """
    return (
        _may_perform(grant, line.operation)
        and (
            line.operation == Operation.LAUNCH
            or _limit_of_asset(grant, line.operation, line.asset) is not None
        )
        and grant.wallet in (None, case.wallet_id)
        and allows_sites(grant, case.chain)
        and _is_recipient(grant.to, line, case)
    )


def allows_sites(grant: Grant, chain: Sequence[str]) -> bool:
    """Return whether a grant names no site, or the site that the transaction pays."""
    return not grant.via or any(each in grant.via for each in chain)


def is_in_time(grant: Grant, now_ms: tuple[int, ...]) -> bool:
    """Return whether every clock in `now_ms` is within a grant's `until` and `hours`."""
    return not _has_ended(grant, now_ms) and _is_in_hours(grant, now_ms)


def needed(sets: Mapping[str, CompiledGrants], case: Case) -> frozenset[Need]:
    """Return the sums that `decide` reads for the same `sets` and `case`."""
    found: set[Need] = set()
    for who in case.chain:
        compiled = sets.get(who)
        if compiled is None:
            continue
        principal = _Principal(who, compiled, case)
        matched = [principal.match(at)[0] for at in range(len(principal.lines))]
        if case.costs_lamports:
            found.update((each.scope, COSTS, COSTS_WINDOW_MS) for each in matched[0])
        for each in {id(each): each for same in matched for each in same}.values():
            found.update((each.scope, RATE, rate.length_ms) for rate in each.grant.rates)
            if each.limit is not None:
                counted = each.limit.counted_as
                found.update((each.scope, counted, w.length_ms) for w in each.limit.windows)
    return frozenset(found)


def priced(sets: Mapping[str, CompiledGrants], case: Case) -> frozenset[int]:
    """Return the indexes of the lines that a grant of the chain counts in dollars."""
    return frozenset(
        at
        for at, line in enumerate(case.lines)
        for compiled in (sets[who] for who in case.chain if who in sets)
        if any(
            each.limit is not None
            and each.limit.asset == ANY_ASSET
            and covers(each.grant, line, case)
            for each in compiled.candidates(line)
        )
    )


def decide(sets: Mapping[str, CompiledGrants], case: Case, used: Mapping[Need, int]) -> Decision:
    """Judge a transaction: it is let through, held or refused as a whole.

    Args:
        sets: principal -> its grants. A principal that is missing has the defaults: an agent or API
            key may spend SOL, swap, launch, and burn tokens that its wallet launched, and no other
            token leaves; a wallet, plugin or skill restricts nothing.
        used: the value of every sum of `needed(sets, case)`.

    Raises:
        KeyError: `used` lacks a sum.
    """
    is_judged = False
    held: list[Finding] = []
    charges: list[Charge] = []
    refusals: list[Finding] = []
    for who in case.chain:
        compiled = sets.get(who)
        if compiled is not None:
            is_judged = True
            shared = _Principal(who, compiled, case, used).plan_charges()
            if isinstance(shared, Finding):
                refusals.append(shared)
            else:
                held += shared.held
                charges += shared.charges
        elif who.startswith(("agent:", "key:", "schedule:")):
            for line in case.lines:
                if not _has_default(line, case):
                    continue
                is_judged = True
                why = _refused_by_default(line, case)
                if why is not None:
                    refusals.append(Finding(why, who, line, detail=_bought_mint(case)))
                    break
    if refusals:
        return Decision(is_judged, refused=refusals[0])
    if case.is_admins or case.is_approved:
        held = []
    return Decision(is_judged, None, tuple(held), tuple(charges))


# Agents and keys without grants.


def _has_default(line: Line, case: Case) -> bool:
    """Return whether default rules judge the line: any token unless launched, and SOL in swaps."""
    if line.operation == Operation.SWAP and case.listed is not None:
        return True
    return line.asset != SOL and line.operation != Operation.LAUNCH


def _refused_by_default(line: Line, case: Case) -> Reason | None:
    if line.operation == Operation.SWAP:
        into = _bought_mint(case)
        if case.listed is None or into == SOL or into in case.listed:
            return None
        return Reason.INTO
    if line.operation == Operation.BURN and line.asset in case.launched:
        return None
    return Reason.DEFAULT


def _bought_mint(case: Case) -> str | None:
    return None if case.swap is None else case.swap.into


# One principal's grants.


@dataclass(frozen=True, slots=True)
class _ChargePlan:
    held: tuple[Finding, ...]
    charges: tuple[Charge, ...]


@dataclass(frozen=True, slots=True)
class _Option:
    """A grant with room for one line by itself; the line counts `units` in this grant."""

    candidate: _Candidate
    units: int
    asks: bool
    """Whether a person is asked at any amount, because the recipient is new."""


_Match: TypeAlias = tuple[Sequence[_Candidate], tuple[Reason, _Candidate] | None]


class _Principal:
    """One principal's grants, applied to one transaction.

    Attributes:
        lines: a transaction without lines is charged like a transaction with one empty line.
    """

    def __init__(
        self,
        who: str,
        compiled: CompiledGrants,
        case: Case,
        used: Mapping[Need, int] = MappingProxyType({}),
    ) -> None:
        self.who = who
        self.compiled = compiled
        self.case = case
        self.used = used
        self.lines: tuple[Line | None, ...] = case.lines or (None,)
        self._seen: dict[object, _Match] = {}

    def match(self, at: int) -> _Match:
        """Return the grants that fit a line regardless of past use, and the nearest unfit grant.

        Lines that differ only in units are matched once: a transaction may have dozens of them.
        """
        line = self.lines[at]
        key: object = None
        if line is not None:
            is_priced = isinstance(self.dollars(at), int)
            whom = line.account, line.owner, line.program
            key = line.operation, line.asset, line.decimals, whom, is_priced
        if key not in self._seen:
            self._seen[key] = self._match(at)
        return self._seen[key]

    def _match(self, at: int) -> _Match:
        line = self.lines[at]
        matched: list[_Candidate] = []
        nearest: tuple[Reason, _Candidate] | None = None
        # Cached, because many grants name the same recipients.
        reached: dict[tuple[str, ...], bool] = {}
        for each in self.compiled.candidates(line):
            to = each.grant.to
            if to not in reached:
                reached[to] = line is None or _is_recipient(to, line, self.case)
            why = self._mismatch(each, at, is_reached=reached[to])
            if why is None:
                matched.append(each)
            elif nearest is None or _NEARNESS[why] > _NEARNESS[nearest[0]]:
                nearest = why, each
        return matched, nearest

    def plan_charges(self) -> _ChargePlan | Finding:
        """Return each grant's charges and what a person must approve, or why grants refuse."""
        options: list[Sequence[_Option]] = []
        for at in range(len(self.lines)):
            found = self._find_options(at)
            if isinstance(found, Finding):
                return found
            options.append(found)
        placed = _Search(self, options).find_assignment()
        if isinstance(placed, _Miss):
            return self._finding(placed.why, placed.option.candidate, placed.at, placed.total)
        charges: dict[tuple[str, str], int] = {}
        for at, option in enumerate(placed):
            scope, limit = option.candidate.scope, option.candidate.limit
            # Even a charge of 0 makes a row, because the rate counts rows.
            charges.setdefault((scope, SOL), 0)
            if at == 0 and self.case.costs_lamports:
                charges[scope, COSTS] = self.case.costs_lamports
            if limit is not None:
                key = scope, limit.counted_as
                charges[key] = charges.get(key, 0) + option.units
        # One finding per grant and asset, because the sum is what exceeds the amount to ask above.
        held: dict[tuple[str, str], Finding] = {}
        for at, option in enumerate(placed):
            candidate, limit, whom = option.candidate, option.candidate.limit, self.lines[at]
            if option.asks:
                key = Reason.NEW_RECIPIENT, (whom and (whom.owner or whom.account)) or ""
                held.setdefault(key, self._finding(Reason.NEW_RECIPIENT, candidate, at))
            if limit is not None:
                key = candidate.scope, limit.counted_as
                if _is_above_hold(limit, charges[key]):
                    above = self._finding(Reason.ABOVE_HOLD, candidate, at, charges[key])
                    held.setdefault(key, above)
        reserved = tuple(Charge(*key, units) for key, units in charges.items())
        return _ChargePlan(tuple(held.values()), reserved)

    def _find_options(self, at: int) -> Sequence[_Option] | Finding:
        """Return the grants with room for the line alone, or why no grant has room."""
        found: list[_Option] = []
        matched, mismatched = self.match(at)
        nearest = None if mismatched is None else (*mismatched, 0)
        for each in matched:
            units = self._charged_units(each, at)
            why = self.find_full_limit(each, units, at)
            if why is None:
                asks = each.grant.new == NewRecipient.HOLD and _pays_new(self.lines[at], self.case)
                found.append(_Option(each, units, asks))
            elif nearest is None or _NEARNESS[why] > _NEARNESS[nearest[0]]:
                nearest = why, each, units
            elif why is nearest[0] is Reason.COSTS and self._remaining_costs(
                each
            ) > self._remaining_costs(nearest[1]):
                # Name the grant that needs the smallest reduction of the fee bid.
                nearest = why, each, units
        if found:
            return found
        if nearest is None:
            return Finding(Reason.NO_GRANT, self.who, self.lines[at])
        why, each, units = nearest
        return self._finding(why, each, at, units)

    def _remaining_costs(self, each: _Candidate) -> int:
        """Return the lamports left in a grant's window for network fees and rent."""
        return each.grant.costs_lamports - self.used.get((each.scope, COSTS, COSTS_WINDOW_MS), 0)

    # Checks of one grant, in the order of `_NEARNESS`.

    def _mismatch(self, each: _Candidate, at: int, *, is_reached: bool) -> Reason | None:
        """Return why the grant does not fit the line, regardless of past use; None if it fits."""
        grant, limit, case, line = each.grant, each.limit, self.case, self.lines[at]
        if grant.wallet is not None and grant.wallet != case.wallet_id:
            return Reason.WALLET
        if not allows_sites(grant, case.chain):
            return Reason.VIA
        if not is_reached:
            return Reason.RECIPIENT
        if _has_ended(grant, case.now_ms):
            return Reason.ENDED
        if not _is_in_hours(grant, case.now_ms):
            return Reason.HOURS
        if line is None:
            return None
        if grant.new == NewRecipient.REFUSE and _pays_new(line, case):
            return Reason.NEW_RECIPIENT
        if grant.swap is not None and line.operation == Operation.SWAP:
            why = _swap_mismatch(grant.swap, case.swap)
            if why is not None:
                return why
        if limit is None:
            return None
        if limit.asset != ANY_ASSET and line.decimals != limit.decimals:
            return Reason.DECIMALS
        if limit.asset == ANY_ASSET and isinstance(self.dollars(at), str):
            return Reason.PRICE
        return None

    def find_full_limit(self, each: _Candidate, total: int, at: int) -> Reason | None:
        """Return why the grant has no room for `total` units in this transaction, or None."""
        grant, limit, case = each.grant, each.limit, self.case
        if limit is not None:
            if limit.per_tx is not None and total > limit.per_tx:
                return Reason.PER_TX
            if self._full_window(each, limit.counted_as, limit.windows, total) is not None:
                return Reason.WINDOW
        if self._full_window(each, RATE, grant.rates, 1) is not None:
            return Reason.RATE
        if case.costs_lamports:
            # Costs are charged with the first line. A grant that allows no costs is for
            # transactions without costs.
            costs = self.used[each.scope, COSTS, COSTS_WINDOW_MS] if at == 0 else 0
            added = case.costs_lamports if at == 0 else 0
            if costs + added > grant.costs_lamports or not grant.costs_lamports:
                return Reason.COSTS
        return None

    def _full_window(
        self, each: _Candidate, asset: str, windows: Sequence[Window], added: int
    ) -> Window | None:
        """Return the longest window without room, because it stays full the longest."""
        for window in reversed(windows):
            if self.used[each.scope, asset, window.length_ms] + added > window.most:
                return window
        return None

    def _charged_units(self, each: _Candidate, at: int) -> int:
        """Return the units that the line counts in the grant; the asset's price must be known."""
        line = self.lines[at]
        if line is None or each.limit is None:
            return 0
        if each.limit.asset != ANY_ASSET:
            return line.units
        dollars = self.dollars(at)
        assert isinstance(dollars, int)
        return dollars

    def dollars(self, at: int) -> int | str:
        """Return a line's worth in micro-dollars, or why it is not known."""
        dollars = self.case.dollars
        return dollars[at] if at < len(dollars) else NOT_ASKED.reason

    # Findings.

    def _finding(self, why: Reason, each: _Candidate, at: int, asked: int = 0) -> Finding:
        """Return the finding; `asked` is the units that this transaction counts in the grant."""
        grant, limit, line, case = each.grant, each.limit, self.lines[at], self.case
        # The rate and the costs concern the transaction, not one of its lines.
        is_whole = why in (Reason.RATE, Reason.COSTS)
        found = Finding(why, self.who, None if is_whole else line, each.number)
        if why == Reason.SLIPPAGE and grant.swap is not None:
            asks = None if case.swap is None else case.swap.slippage_bps
            return replace(found, limit=grant.swap.slippage_bps, requested=asks)
        if why == Reason.IMPACT and grant.swap is not None:
            asks = None if case.swap is None else case.swap.impact_bps
            return replace(found, limit=grant.swap.impact_bps, requested=asks)
        if why == Reason.RATE:
            window = self._full_window(each, RATE, grant.rates, 1)
            return self._with_window(replace(found, counted_as=RATE, decimals=0), each, window, 1)
        if why == Reason.COSTS:
            # Not charged here, because the grant is for transactions that cost nothing.
            window = Window(COSTS_WINDOW_MS, grant.costs_lamports) if at == 0 else None
            found = replace(found, counted_as=COSTS, decimals=SOL_DECIMALS)
            return self._with_window(found, each, window, case.costs_lamports)
        if limit is not None and why in (Reason.WINDOW, Reason.PER_TX, Reason.ABOVE_HOLD):
            found = replace(found, counted_as=limit.counted_as, decimals=limit.decimals)
            if why == Reason.WINDOW:
                window = self._full_window(each, limit.counted_as, limit.windows, asked)
                return self._with_window(found, each, window, asked)
            most = limit.per_tx if why == Reason.PER_TX else limit.hold
            return replace(found, limit=most, requested=asked)
        if limit is not None and line is not None and why == Reason.DECIMALS:
            return replace(found, limit=limit.decimals, requested=line.decimals)
        return replace(found, detail=self._finding_detail(why, grant, at))

    def _with_window(
        self, found: Finding, each: _Candidate, window: Window | None, asked: int
    ) -> Finding:
        if window is None:
            return replace(found, limit=0, used=0, requested=asked)
        used = self.used[each.scope, found.counted_as or SOL, window.length_ms]
        return replace(
            found, limit=window.most, used=used, requested=asked, window_ms=window.length_ms
        )

    def _finding_detail(self, why: Reason, grant: Grant, at: int) -> str | None:
        line = self.lines[at]
        if why == Reason.WALLET:
            return grant.wallet
        if why == Reason.VIA:
            return _sites_text(grant.via)
        if why == Reason.ENDED and grant.until_ms is not None:
            return time_text(grant.until_ms // 1_000 * 1_000)
        if why == Reason.HOURS and grant.hours is not None:
            return hours_text(grant.hours)
        if why == Reason.INTO:
            return _bought_mint(self.case)
        if why == Reason.PRICE:
            return str(self.dollars(at))
        if why == Reason.NEW_RECIPIENT and line is not None:
            alike = self.case.lookalikes
            return alike.get(line.owner or "") or alike.get(line.account or "")
        return None


def _sites_text(via: Sequence[str]) -> str:
    """Return sites in words, such as `a.example, b.example or 97 others`."""
    named = [each.removeprefix(SITE) for each in via]
    if len(named) > _SAID_SITES + 1:
        named = [*named[:_SAID_SITES], f"{len(named) - _SAID_SITES} others"]
    return joined(named, " or ")


@dataclass(frozen=True, slots=True)
class _Miss:
    """A grant without room for line `at`, with which its lines would count `total` units."""

    why: Reason
    option: _Option
    at: int
    total: int


class _Search:
    """A search for the first assignment, in written order, of every line to a grant with room.

    Grants that do not need a person come before grants that hold.
    """

    def __init__(self, principal: _Principal, options: Sequence[Sequence[_Option]]) -> None:
        self._principal = principal
        self._find_options = options
        self._totals: dict[tuple[str, str], int] = {}
        self._placed: list[_Option] = []
        self._tries: int | None = None
        self._nearest: _Miss | None = None

    def find_assignment(self) -> tuple[_Option, ...] | _Miss:
        """Return the option for each line, or the miss at the latest line."""
        may_ask = any(_may_ask(option) for each in self._find_options for option in each)
        for may_hold in (False, True) if may_ask else (False,):
            self._tries = None
            if self._place_lines(may_hold):
                return tuple(self._placed)
        # Each line fits alone, so only a sum can have failed, and that notes a miss.
        assert self._nearest is not None
        return self._nearest

    def _place_lines(self, may_hold: bool) -> bool:
        at = len(self._placed)
        if at == len(self._find_options):
            return True
        for holds in (False, True) if may_hold else (False,):
            for option in self._find_options[at]:
                if (self._tries or 0) > _MOST_TRIES:
                    return False
                candidate = option.candidate
                limit = candidate.limit
                key = candidate.scope, "" if limit is None else limit.counted_as
                before = self._totals.get(key, 0)
                total = before + option.units
                if (option.asks or _is_above_hold(limit, total)) != holds:
                    continue
                if before:
                    self._tries = None if self._tries is None else self._tries + 1
                    why = self._principal.find_full_limit(candidate, total, at)
                    if why is not None:
                        self._note_miss(why, option, at, total)
                        continue
                self._totals[key] = total
                self._placed.append(option)
                if self._place_lines(may_hold):
                    return True
                self._tries = self._tries or 0
                self._placed.pop()
                self._totals[key] = before
        return False

    def _note_miss(self, why: Reason, option: _Option, at: int, total: int) -> None:
        kept = self._nearest
        if kept is None or (at, _NEARNESS[why]) > (kept.at, _NEARNESS[kept.why]):
            self._nearest = _Miss(why, option, at, total)


def _may_ask(option: _Option) -> bool:
    limit = option.candidate.limit
    return option.asks or (limit is not None and limit.hold is not None)


def _is_above_hold(limit: AssetLimit | None, total: int) -> bool:
    return limit is not None and limit.hold is not None and total > limit.hold


def _swap_mismatch(bounds: SwapBounds, terms: SwapTerms | None) -> Reason | None:
    if bounds.into and (terms is None or terms.into not in bounds.into):
        return Reason.INTO
    # An unknown number is refused if the grant limits it.
    if bounds.slippage_bps is not None:
        slippage = None if terms is None else terms.slippage_bps
        if slippage is None or slippage > bounds.slippage_bps:
            return Reason.SLIPPAGE
    if bounds.impact_bps is not None:
        impact = None if terms is None else terms.impact_bps
        if impact is None or impact > bounds.impact_bps:
            return Reason.IMPACT
    return None


def _has_ended(grant: Grant, now_ms: tuple[int, ...]) -> bool:
    return grant.until_ms is not None and any(now >= grant.until_ms for now in now_ms)


def _is_in_hours(grant: Grant, now_ms: tuple[int, ...]) -> bool:
    return grant.hours is None or all(_is_within(grant.hours, now) for now in now_ms)


def _is_within(hours: Hours, now_ms: int) -> bool:
    minute = now_ms // MINUTE_MS % _MINUTES_A_DAY
    if hours.start < hours.end:
        return hours.start <= minute < hours.end
    return minute >= hours.start or minute < hours.end


# Recipients.


def _is_recipient(to: tuple[str, ...], line: Line, case: Case) -> bool:
    """Return whether the line pays a recipient in `to` or has no recipient."""
    if line.operation not in _RECEIVED or ANYBODY in to:
        return True
    if OWN in to and _pays_one_of(case.own, line):
        return True
    addresses, names = _split_recipients(to)
    return _pays_one_of(addresses, line) or any(
        _pays_one_of(case.book.get(name, frozenset()), line) for name in names
    )


@functools.lru_cache(maxsize=1_024)
def _split_recipients(to: tuple[str, ...]) -> tuple[frozenset[str], tuple[str, ...]]:
    """Return the addresses in `to`, and its address book names without the @."""
    names = tuple(each[1:] for each in to if each.startswith("@"))
    return frozenset(each for each in to if not each.startswith("@") and each != OWN), names


def _pays_one_of(addresses: frozenset[str], line: Line) -> bool:
    """Return whether the line pays one of `addresses`, or its associated token account."""
    if line.account in addresses or line.owner in addresses:
        return True
    # The owner is known and not among them, so the account is not theirs.
    if line.program is None or line.owner is not None or line.account is None or not addresses:
        return False
    return line.account in _associated_accounts(addresses, line.asset, line.program)


@functools.lru_cache(maxsize=256)
def _associated_accounts(addresses: frozenset[str], asset: str, program: str) -> frozenset[str]:
    mint = mint_of(asset, program)
    return frozenset(associated_address(each, mint, program) for each in addresses)


def mint_of(asset: str, program: str) -> str:
    """Return an asset's mint under a token program; each program has its own wrapped SOL."""
    if asset != SOL:
        return asset
    return TOKEN_2022_WRAPPED_SOL_MINT if program == TOKEN_2022_PROGRAM else WRAPPED_SOL_MINT


def _pays_new(line: Line | None, case: Case) -> bool:
    """Return whether the line pays an address that the wallet never paid, such as a lookalike."""
    if line is None or line.operation not in _PAID:
        return False
    return not {line.account, line.owner} & case.paid
