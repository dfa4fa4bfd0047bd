"""The built-in rules in order, what limits count, and the verdict: the first refusal ends it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Protocol

from solders.pubkey import Pubkey

from solward.guardrail import Hold, Intent, TransactionEffects
from solward.money import SOL_DECIMALS, format_amount, format_sol, from_units
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.vault.guardrails.grants.judged import GRANTS_RULE
from solward.vault.guardrails.model import Policy, ScopeLimits, ScopeUsage

# The setting that a refusal for costs names.
COSTS_SETTING: Final = "MAX_COSTS_SOL_PER_DAY (or maxCostsSolPerDay of the agent or key)"
RATE_LIMIT: Final = "rate_limit"
# Of violations by what a payment may be, whatever else landed between read and simulation.
PAYMENT_TERMS: Final = "payment_terms"
_REVOCABLE: Final = frozenset({"mint_authority", "freeze_authority"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome: the rules evaluated in order, and the one that refused with its reason.

    Attributes:
        hold: why it waits for a person, where none refused.
        retry_after_s: seconds after which it may be asked for again, where that is known.
    """

    applied: tuple[str, ...]
    rule: str | None = None
    reason: str | None = None
    hold: str | None = None
    retry_after_s: int | None = None

    @property
    def allowed(self) -> bool:
        """True when no rule refused."""
        return self.rule is None


class PluginGuardrail(Protocol):
    """A plugin's rule, asked after the built-in ones outside the database; it can only refuse, or
    let a person decide."""

    @property
    def name(self) -> str:
        """As stored in a record's `guardrailsApplied`."""

    async def check(self, intent: Intent, effects: TransactionEffects, /) -> str | Hold | None:
        """The reason to refuse, `Hold` with the reason to ask a person, or None.

        What it does to its arguments must not reach the caller: it gives the plugin copies.
        """


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A rule that judges each scope by its own limits and usage.

    Attributes:
        name: as stored in a record's `guardrailsApplied`.
        check: the reason to refuse, or None.
        of_keys: True where it judges API keys' scopes alone, False all others, None every scope.
        needs_effects: skipped where nothing was simulated.
    """

    name: str
    check: Callable[[Intent, TransactionEffects, ScopeLimits, ScopeUsage], str | None]
    of_keys: bool | None = None
    needs_effects: bool = False


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule that judges the transaction by the policy, once.

    Attributes:
        name: as stored in a record's `guardrailsApplied`.
        check: the reason to refuse, or None.
        needs_effects: skipped where nothing was simulated.
    """

    name: str
    check: Callable[[Intent, TransactionEffects, Policy], str | None]
    needs_effects: bool = True


def judge(
    intent: Intent,
    effects: TransactionEffects | None,
    scopes: Sequence[tuple[str, ScopeLimits, ScopeUsage]],
    policy: Policy,
) -> Verdict:
    """Evaluate the built-in rules in the order of `RULES`.

    Every scope binds, so the strictest does. With `effects` None (not simulated yet, or an
    airdrop the network makes) only the rules that judge a declaration run.

    Args:
        scopes: (`wallet:<id>` | `agent:<id>` | `key:<id>`, its limits, what it has used).
    """
    applied: list[str] = []
    seen = _NOTHING if effects is None else effects
    for rule in BUILT_IN:
        if effects is None and rule.needs_effects:
            continue
        if isinstance(rule, LimitRule):
            applied.append(rule.name)
            for scope, limits, usage in scopes:
                kind = scope.partition(":")[0]
                if rule.of_keys is not None and rule.of_keys != (kind == "key"):
                    continue
                reason = rule.check(intent, seen, limits, usage)
                if reason is not None:
                    whose = "API key" if kind == "key" else kind
                    wait_s = _retry_after_s(usage) if rule.name == RATE_LIMIT else None
                    text = f"{reason} (limit of the {whose})"
                    return Verdict(tuple(applied), rule.name, text, retry_after_s=wait_s)
        else:
            applied.append(rule.name)
            reason = rule.check(intent, seen, policy)
            if reason is not None:
                return Verdict(tuple(applied), rule.name, reason)
    return Verdict(tuple(applied))


_NOTHING: Final = TransactionEffects(lamports_out=0, fee_lamports=0)


# What limits count and reservations hold: declared, or possible by the bytes, whichever is more.


def counted_lamports(intent: Intent, effects: TransactionEffects) -> int:
    """Lamports that count against SOL limits, gross; fee and rent are costs."""
    outflow = effects.outflow
    possible = effects.lamports_out if outflow is None else outflow.lamports
    return max(intent.lamports_out, possible)


def counted_tokens(intent: Intent, effects: TransactionEffects) -> Mapping[str, int]:
    """mint -> units that count against per-mint limits, gross."""
    outflow = effects.outflow
    declared = intent.tokens_out
    possible = effects.tokens_out if outflow is None else outflow.tokens
    return {
        mint: max(declared.get(mint, 0), possible.get(mint, 0))
        for mint in sorted(declared.keys() | possible.keys())
    }


def counted_costs(effects: TransactionEffects) -> int:
    """Lamports of fee and rent that count against cost ceilings, gross."""
    if effects.outflow is None:
        return effects.fee_lamports + effects.rent_lamports
    return effects.outflow.costs


def max_debit(intent: Intent, effects: TransactionEffects) -> int:
    """Most lamports the wallet can lose to this transaction: amount, fee and rent."""
    return counted_lamports(intent, effects) + counted_costs(effects)


def expected_debit(intent: Intent, effects: TransactionEffects) -> int:
    """Lamports the wallet loses as simulated, for the record of one that landed; no limit."""
    return counted_lamports(intent, effects) + effects.fee_lamports + effects.rent_lamports


# The rules.


def _max_per_tx(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, _usage: ScopeUsage
) -> str | None:
    """No transaction moves more SOL than its scopes allow at once."""
    most = limits.max_lamports_per_tx
    counted = counted_lamports(intent, effects)
    if most is None or counted <= most:
        return None
    return (
        f"{format_sol(counted)} SOL is more than the {format_sol(most)} SOL allowed per transaction"
    )


def _rate_limit(
    _intent: Intent, _effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> str | None:
    """No scope makes more transactions in a sliding minute than it may; blocked ones count none."""
    most = limits.max_tx_per_minute
    if most is None or usage.tx_last_minute < most:
        return None
    reason = (
        f"{usage.tx_last_minute} transactions in the last minute leave none of the {most} allowed"
    )
    seconds = _retry_after_s(usage)
    return reason if seconds is None else f"{reason}; the next is possible in {seconds} s"


def _retry_after_s(usage: ScopeUsage) -> int | None:
    """Seconds until the minute leaves room again, where that is known."""
    # Rounded up: a caller that waits exactly this long must not be early.
    return None if usage.next_tx_ms is None else max(1, -(-usage.next_tx_ms // 1000))


def _spending_limit_check(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> str | None:
    """As `_daily_limit`, for API keys; one that may spend nothing signs nothing, fees included."""
    # Where another key pays the fee, the wallet signs all the same.
    if limits.daily_lamports == 0 and (effects.fee_lamports or effects.outflow is not None):
        return "a key that may spend 0 SOL signs nothing"
    return _daily_limit(intent, effects, limits, usage)


def _daily_limit(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> str | None:
    """No scope spends more in a rolling 24 hours than it may: SOL, and each mint; 0 passes.

    For wallets and agents as `daily_limit`, for API keys, over all wallets, as
    `spending_limit_check`.
    """
    counted = counted_lamports(intent, effects)
    if limits.daily_lamports is not None:
        left = max(0, limits.daily_lamports - usage.lamports_last_day)
        if counted > left:
            return (
                f"{format_sol(counted)} SOL is more than the {format_sol(left)} SOL left of the "
                f"{format_sol(limits.daily_lamports)} SOL allowed in 24 hours; "
                f"{format_sol(usage.lamports_last_day)} SOL is spent or reserved"
            )
    for mint, units in counted_tokens(intent, effects).items():
        most = limits.daily_tokens.get(mint)
        if most is None:
            continue
        spent = usage.tokens_last_day.get(mint, 0)
        left = max(0, most - spent)
        if units > left:
            unit = _token_unit(mint, effects)
            return (
                f"{unit.amount(units)} {unit} are more than the {unit.amount(left)} left of the "
                f"{unit.amount(most)} allowed in 24 hours; {unit.amount(spent)} are spent or "
                "reserved"
            )
    return None


def _program_allowlist(_intent: Intent, effects: TransactionEffects, _policy: Policy) -> str | None:
    """The wallet's key signs only instructions whose worst case is known.

    Programs that are not decoded never get it among their accounts.
    """
    return _first_violation(effects, "program_allowlist")


def _blocked_address(intent: Intent, effects: TransactionEffects, policy: Policy) -> str | None:
    """Nothing goes to, through or under the control of a blocked address."""
    blocked = policy.blocked_addresses
    refusal = "address {} is blocked; here it is {}".format
    for address in sorted(blocked & (intent.destinations | {intent.wallet})):
        return refusal(address, "the wallet or a destination")
    for address in sorted(blocked & effects.addresses):
        return refusal(address, "an account, or the owner of one")
    for address in sorted(blocked):
        key = bytes(Pubkey.from_string(address))
        if any(key in data for data in effects.instruction_data):
            return refusal(address, "a key in instruction data")
    return None


def _fee_limit(intent: Intent, effects: TransactionEffects, policy: Policy) -> str | None:
    """Network fees, rent and the number of new accounts stay within bounds; rent is declared."""
    if effects.fee_lamports > policy.max_fee_lamports:
        return (
            f"a network fee of {format_sol(effects.fee_lamports)} SOL is more than the "
            f"{format_sol(policy.max_fee_lamports)} SOL allowed; MAX_NETWORK_FEE_SOL sets it"
        )
    rent = min(policy.max_rent_lamports, intent.rent_lamports)
    if effects.tied and effects.rent_lamports > rent:
        whose = "declared" if rent == intent.rent_lamports else "allowed"
        return (
            f"rent of {format_sol(effects.rent_lamports)} SOL is more than the "
            f"{format_sol(rent)} SOL {whose} for new accounts"
        )
    possible = 0 if effects.outflow is None else effects.outflow.rent_lamports
    if possible > policy.max_rent_lamports:
        return (
            f"rent of up to {format_sol(possible)} SOL is more than the "
            f"{format_sol(policy.max_rent_lamports)} SOL allowed for new accounts"
        )
    if effects.tied and effects.accounts_created > policy.max_accounts_created:
        return (
            f"{effects.accounts_created} new accounts are more than the "
            f"{policy.max_accounts_created} allowed in one transaction"
        )
    return _first_violation(effects, "fee_limit")


def _simulated_effects(intent: Intent, effects: TransactionEffects, _policy: Policy) -> str | None:
    """The transaction does to the wallet what its intent declares, and nothing more.

    By its bytes it can do nothing more; by the simulation it does nothing more, where that shows
    this transaction alone.
    """
    refused = _first_violation(effects, PAYMENT_TERMS)
    if refused is not None:
        return refused
    violation = _first_violation(effects, "simulated_effects") if effects.tied else None
    if violation is not None:
        return violation
    undeclared = _undeclared(intent, effects)
    if undeclared is not None or not effects.tied:
        return undeclared
    if effects.lamports_out > intent.lamports_out:
        return (
            f"{format_sol(effects.lamports_out)} SOL would leave the wallet, "
            f"{format_sol(intent.lamports_out)} SOL is declared"
        )
    for mint, units in sorted(effects.tokens_out.items()):
        declared = intent.tokens_out.get(mint, 0)
        if units > declared:
            unit = _token_unit(mint, effects)
            return (
                f"{unit.amount(units)} {unit} would leave the wallet, {unit.amount(declared)} "
                "are declared"
            )
    for mint, least in sorted(intent.tokens_in.items()):
        arriving = effects.tokens_in.get(mint, 0)
        if arriving < least:
            unit = _token_unit(mint, effects)
            return (
                f"{unit.amount(arriving)} {unit} would arrive, at least {unit.amount(least)} "
                "are required"
            )
    for account, receiver in sorted(effects.closed.items()):
        if receiver != intent.wallet:
            return (
                f"account {account} would be closed to {receiver}, which is not the wallet "
                f"{intent.wallet}"
            )
        if account not in intent.may_close:
            return (
                f"account {account} would be closed, which is not declared; declared are "
                f"{_listed(intent.may_close)}"
            )
    parties = intent.destinations | {intent.wallet}
    for account, owner in sorted(effects.created.items()):
        if not {account, owner} & parties:
            return (
                f"account {account} would be paid for, whose owner {owner} is not declared; "
                f"declared are {_listed(parties)}"
            )
    return None


def _undeclared(intent: Intent, effects: TransactionEffects) -> str | None:
    """What the bytes can take beyond the declaration."""
    if effects.outflow is None:
        return None
    if effects.outflow.lamports > intent.lamports_out:
        return (
            f"{format_sol(effects.outflow.lamports)} SOL could leave the wallet, "
            f"{format_sol(intent.lamports_out)} SOL is declared"
        )
    for mint, units in sorted(effects.outflow.tokens.items()):
        declared = intent.tokens_out.get(mint, 0)
        if units > declared:
            unit = _token_unit(mint, effects)
            return (
                f"{unit.amount(units)} {unit} could leave the wallet, {unit.amount(declared)} "
                "are declared"
            )
    return None


def _authority_change(intent: Intent, effects: TransactionEffects, _policy: Policy) -> str | None:
    """Control over the wallet and its accounts is given to nobody; declared revokes excepted."""
    for change in effects.authority_changes:
        declared = (
            change.to is None and change.kind in _REVOCABLE and change.account in intent.may_revoke
        )
        if not declared:
            return (
                f"{change.kind} of {change.account} would pass to {change.to or 'nobody'}; allowed "
                "is giving up the mint or freeze authority of a declared mint, declared are "
                f"{_listed(intent.may_revoke)}"
            )
    return _first_violation(effects, "authority_change")


def _costs_limit(
    _intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> str | None:
    """No scope pays more fees and rent in a rolling 24 hours than its ceiling."""
    most = limits.daily_costs_lamports
    if most is None:
        return None
    costs, left = counted_costs(effects), max(0, most - usage.costs_last_day)
    if costs <= left:
        return None
    return (
        f"fees and rent of up to {format_sol(costs)} SOL are more than the {format_sol(left)} SOL "
        f"left of the {format_sol(most)} SOL allowed in 24 hours; "
        f"{format_sol(usage.costs_last_day)} SOL is spent or reserved; {COSTS_SETTING} sets it"
    )


def _swap_bounds(intent: Intent, _effects: TransactionEffects, policy: Policy) -> str | None:
    """No swap moves the price further than allowed; slippage is bounded where it is requested."""
    impact, most = intent.price_impact_bps, policy.max_price_impact_bps
    if impact is None or impact <= most:
        return None
    return (
        f"the swap would move the price by {impact} basis points, more than the {most} allowed; "
        "MAX_PRICE_IMPACT_BPS sets it"
    )


# Evaluated in this order.
BUILT_IN: tuple[LimitRule | PolicyRule, ...] = (
    LimitRule("max_per_tx", _max_per_tx),
    LimitRule(RATE_LIMIT, _rate_limit),
    LimitRule("daily_limit", _daily_limit, of_keys=False),
    PolicyRule("program_allowlist", _program_allowlist),
    PolicyRule("blocked_address", _blocked_address, needs_effects=False),
    LimitRule("spending_limit_check", _spending_limit_check, of_keys=True),
    PolicyRule("fee_limit", _fee_limit),
    PolicyRule("simulated_effects", _simulated_effects),
    PolicyRule("authority_change", _authority_change),
    LimitRule("costs_limit", _costs_limit, needs_effects=True),
    PolicyRule("swap_bounds", _swap_bounds),
)
RULES: Final = tuple(rule.name for rule in BUILT_IN)
FREEZE_RULE: Final = "freeze"
"""What `guardrailsApplied` has where the freeze switch refused."""
CLOCK_RULE: Final = "clock"
"""Likewise where windows are so far behind that nothing may be counted in them."""
OWN_RULES: Final = frozenset((*RULES, GRANTS_RULE, FREEZE_RULE, CLOCK_RULE))
"""Every name of a rule of our own; no plugin's rule has one."""


# The words of refusals.


@dataclass(frozen=True, slots=True)
class _TokenUnit:
    """How amounts of one mint are written; `decimals` None where the transaction shows none."""

    mint: str
    decimals: int | None

    def amount(self, units: int) -> str:
        """Smallest units as whole tokens, or unchanged where the decimals are not known."""
        return (
            str(units) if self.decimals is None else format_amount(from_units(units, self.decimals))
        )

    def __str__(self) -> str:
        unit = "smallest units" if self.decimals is None else "tokens"
        return f"{unit} of mint {self.mint}"


def _token_unit(mint: str, effects: TransactionEffects) -> _TokenUnit:
    known = SOL_DECIMALS if mint == WRAPPED_SOL_MINT else effects.decimals.get(mint)
    return _TokenUnit(mint, known)


def _first_violation(effects: TransactionEffects, rule: str) -> str | None:
    return next((reason for name, reason in effects.violations if name == rule), None)


def _listed(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or "none"
