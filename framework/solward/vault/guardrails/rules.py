"""The built-in rules in order, their inputs (limits, usage and policy), the amounts that limits
count, and the verdict. The first refusal ends the evaluation.

All amounts are integers of the smallest unit; addresses are base58 text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol, TypeAlias

from solders.pubkey import Pubkey

from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import DEFAULT_MAX_NETWORK_FEE
from solward.types.guardrail import CEILINGS, Hold, Intent, TransactionEffects
from solward.types.money import SOL_DECIMALS, amount_text
from solward.vault.grants.judged import GRANTS_RULE
from solward.vault.refusal import Refusal, RefusalNumbers

# The setting that a refusal because of costs tells people to change.
COSTS_SETTING: Final = "MAX_COSTS_SOL_PER_DAY (or maxCostsSolPerDay of the wallet, agent or key)"
RATE_LIMIT: Final = "rate_limit"
COSTS_RULE: Final = "costs_limit"
# Violations of a payment's terms. They count even if other transactions landed in between.
PAYMENT_TERMS: Final = "payment_terms"
_REVOCABLE: Final = frozenset({"mint_authority", "freeze_authority"})


@dataclass(frozen=True, slots=True)
class Verdict:
    """The outcome of judging: the evaluated rules, and the rule that refused, with its reason.

    Attributes:
        hold: why the transaction waits for a person, if no rule refused.
        retry_after_s: seconds after which the caller may ask again, if known.
        numbers: the numbers in the reason, if a built-in rule or grants refused; None for a
            plugin's rule or a reason without numbers.
        passing: whether the cause of the refusal is a temporary failure, not the transaction.
        cause: `RateReached` if a grant's rate refused the transaction.
    """

    applied: tuple[str, ...]
    rule: str | None = None
    reason: str | None = None
    hold: str | None = None
    retry_after_s: int | None = None
    numbers: RefusalNumbers | None = None
    passing: bool = False
    cause: type[Exception] | None = None

    @property
    def allowed(self) -> bool:
        """True when no rule refused."""
        return self.rule is None


class PluginGuardrail(Protocol):
    """A plugin's rule, which runs after the built-in rules and can only refuse or hold."""

    @property
    def name(self) -> str:
        """The rule's name, as stored in a record's `guardrailsApplied`."""

    async def check(self, intent: Intent, effects: TransactionEffects, /) -> str | Hold | None:
        """Return the reason to refuse, `Hold` with the reason to ask a person, or None.

        The implementation gives the plugin copies, so that it cannot change the caller's objects.
        """


@dataclass(frozen=True, slots=True)
class LimitRule:
    """A rule that judges each scope by the scope's own limits and usage.

    Attributes:
        name: as stored in a record's `guardrailsApplied`.
        check: the refusal, or None.
        of_keys: True to judge API keys' scopes only, False all other scopes, None every scope.
        needs_effects: skipped if nothing was simulated.
        ceiling: the wallet's ceiling (`CEILINGS`) that it enforces; empty if there is none.
    """

    name: str
    check: Callable[[Intent, TransactionEffects, ScopeLimits, ScopeUsage], Refusal | None]
    of_keys: bool | None = None
    needs_effects: bool = False
    ceiling: str = ""


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule that judges each transaction once, by the policy.

    Attributes:
        name: as stored in a record's `guardrailsApplied`.
        check: the refusal, or None.
        needs_effects: skipped if nothing was simulated.
    """

    name: str
    check: Callable[[Intent, TransactionEffects, Policy], Refusal | None]
    needs_effects: bool = True


def judge(
    intent: Intent,
    effects: TransactionEffects | None,
    scopes: Usages,
    policy: Policy,
) -> Verdict:
    """Evaluate the built-in rules in the order of `RULES`.

    Every scope binds, so the strictest decides. If `effects` is None (not simulated yet, or an
    airdrop that the network makes), only the rules that judge a declaration run.

    Args:
        scopes: (`wallet:<id>` | `agent:<id>` | `key:<id>`, the scope's limits, its usage).
    """
    applied: list[str] = []
    seen = _NOTHING if effects is None else effects
    for rule in BUILT_IN:
        if effects is None and rule.needs_effects:
            continue
        applied.append(rule.name)
        if isinstance(rule, LimitRule):
            for scope, limits, usage in scopes:
                kind = scope.partition(":")[0]
                if rule.of_keys is not None and rule.of_keys != (kind == "key"):
                    continue
                refusal = rule.check(intent, seen, limits, usage)
                if refusal is not None:
                    wait_s = _retry_after_s(usage) if rule.name == RATE_LIMIT else None
                    return Verdict(
                        tuple(applied),
                        rule.name,
                        f"{refusal.reason} ({_limit_name(rule, kind, limits, refusal)})",
                        retry_after_s=wait_s,
                        numbers=refusal.numbers,
                    )
        else:
            refusal = rule.check(intent, seen, policy)
            if refusal is not None:
                return Verdict(tuple(applied), rule.name, refusal.reason, numbers=refusal.numbers)
    return Verdict(tuple(applied))


def _limit_name(rule: LimitRule, kind: str, limits: ScopeLimits, refusal: Refusal) -> str:
    """Return whose limit refused; a ceiling of the wallet's own has the name that requests use."""
    numbers = refusal.numbers
    # The limit of a token is never a ceiling of the wallet's own.
    counted = numbers is not None and numbers.unit in (_SOL.name, _TRANSACTIONS)
    if counted and rule.ceiling in limits.ceilings:
        return f"the wallet's ceiling {rule.ceiling}"
    return f"limit of the {'API key' if kind == 'key' else kind}"


_NOTHING: Final = TransactionEffects(lamports_out=0, fee_lamports=0)


# Limits count, and reservations take, the larger of the declared amount and the bytes' bound.


def counted_lamports(intent: Intent, effects: TransactionEffects) -> int:
    """Return the lamports that count against SOL limits; fees and rent are costs instead."""
    outflow = effects.outflow
    possible = effects.lamports_out if outflow is None else outflow.lamports
    return max(intent.lamports_out, possible)


def counted_tokens(intent: Intent, effects: TransactionEffects) -> Mapping[str, int]:
    """Return mint -> units that count against per-mint limits, with no inflow subtracted."""
    outflow = effects.outflow
    declared = intent.tokens_out
    possible = effects.tokens_out if outflow is None else outflow.tokens
    return {
        mint: max(declared.get(mint, 0), possible.get(mint, 0))
        for mint in sorted(declared.keys() | possible.keys())
    }


def counted_costs(effects: TransactionEffects) -> int:
    """Return the lamports of fees and rent that count against cost ceilings, without inflows."""
    if effects.outflow is None:
        return effects.fee_lamports + effects.rent_lamports
    return effects.outflow.costs


def max_debit(intent: Intent, effects: TransactionEffects) -> int:
    """Return the maximum lamports that the wallet can lose: amount, fee and rent."""
    return counted_lamports(intent, effects) + counted_costs(effects)


def expected_debit(intent: Intent, effects: TransactionEffects) -> int:
    """Return the lamports that the wallet loses in the simulation; for records, not limits."""
    return counted_lamports(intent, effects) + effects.fee_lamports + effects.rent_lamports


# The rules.


def _max_per_tx(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, _usage: ScopeUsage
) -> Refusal | None:
    """Refuse a transaction that moves more SOL than the scope allows at once."""
    most = limits.max_lamports_per_tx
    counted = counted_lamports(intent, effects)
    if most is None or counted <= most:
        return None
    n = _SOL.numbers(counted, most)
    return Refusal(
        f"{n.asked} {n.unit} is more than the {n.limit} {n.unit} allowed per transaction", n
    )


def _rate_limit(
    _intent: Intent, _effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> Refusal | None:
    """Refuse if the scope used up a sliding minute's transactions; blocked ones do not count."""
    most = limits.max_tx_per_minute
    if most is None or usage.tx_last_minute < most:
        return None
    n = RefusalNumbers(
        used=str(usage.tx_last_minute), limit=str(most), unit=_TRANSACTIONS, window="minute"
    )
    reason = f"the last {n.window} had {n.used} of the {n.limit} allowed {n.unit}"
    seconds = _retry_after_s(usage)
    if seconds is not None:
        reason += f"; the next is possible in {seconds} s"
    return Refusal(reason, n)


def _retry_after_s(usage: ScopeUsage) -> int | None:
    """Return the seconds until the sliding minute has room again, if known."""
    # Rounded up: a caller that waits exactly this long must not be early.
    return None if usage.next_tx_ms is None else max(1, -(-usage.next_tx_ms // 1000))


def _spending_limit_check(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> Refusal | None:
    """Apply `_daily_limit` to API keys. A key that may spend nothing may not even pay fees."""
    # A transaction with an outflow needs the wallet's signature, even if another key pays the fee.
    if limits.daily_lamports == 0 and (effects.fee_lamports or effects.outflow is not None):
        n = RefusalNumbers(limit="0", unit=_SOL.name)
        return Refusal(f"a key that may spend {n.limit} {n.unit} cannot sign a transaction", n)
    return _daily_limit(intent, effects, limits, usage)


def _daily_limit(
    intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> Refusal | None:
    """Refuse to spend more SOL, or more of a mint, than the scope has left in a rolling 24 hours.

    The rule's name is `daily_limit` for wallets and agents, and `spending_limit_check` for API
    keys, whose limit spans all wallets. A transaction that spends nothing passes.
    """
    counted = counted_lamports(intent, effects)
    if limits.daily_lamports is not None:
        left = max(0, limits.daily_lamports - usage.lamports_last_day)
        if counted > left:
            n = _SOL.of_day(counted, limits.daily_lamports, left, usage.lamports_last_day)
            return Refusal(
                f"{n.asked} {n.unit} is more than the {n.left} {n.unit} left of the "
                f"{n.limit} {n.unit} allowed in {n.window}; {n.used} {n.unit} is spent or reserved",
                n,
            )
    for mint, units in counted_tokens(intent, effects).items():
        most = limits.daily_tokens.get(mint)
        if most is None:
            continue
        spent = usage.tokens_last_day.get(mint, 0)
        left = max(0, most - spent)
        if units > left:
            n = _token_unit(mint, effects).of_day(units, most, left, spent)
            return Refusal(
                f"{n.asked} {n.unit} are more than the {n.left} left of the {n.limit} allowed in "
                f"{n.window}; {n.used} are spent or reserved",
                n,
            )
    return None


def _program_allowlist(
    _intent: Intent, effects: TransactionEffects, _policy: Policy
) -> Refusal | None:
    """Refuse instructions that name the wallet's key and have no known worst case.

    A program without a decoder never gets the wallet's key among its accounts.
    """
    return _first_violation(effects, "program_allowlist")


def _blocked_address(intent: Intent, effects: TransactionEffects, policy: Policy) -> Refusal | None:
    """Refuse a transaction that pays, uses or gives control to a blocked address."""
    blocked = policy.blocked_addresses
    said = "blocked address {} is {}".format
    for address in sorted(blocked & (intent.destinations | {intent.wallet})):
        return Refusal(said(address, "the wallet or a destination"))
    for address in sorted(blocked & effects.addresses):
        return Refusal(said(address, "an account of the transaction, or the owner of an account"))
    for address in sorted(blocked):
        key = bytes(Pubkey.from_string(address))
        if any(key in data for data in effects.instruction_data):
            return Refusal(said(address, "in the data of an instruction"))
    return None


def _fee_limit(intent: Intent, effects: TransactionEffects, policy: Policy) -> Refusal | None:
    """Refuse undeclared rent, and a fee, rent or number of new accounts above its maximum."""
    if effects.fee_lamports > policy.max_fee_lamports:
        n = _SOL.numbers(effects.fee_lamports, policy.max_fee_lamports)
        return Refusal(
            f"a network fee of {n.asked} {n.unit} is more than the {n.limit} {n.unit} allowed; "
            "MAX_NETWORK_FEE_SOL sets this limit",
            n,
        )
    rent = min(policy.max_rent_lamports, intent.rent_lamports)
    if effects.tied and effects.rent_lamports > rent:
        whose = "declared" if rent == intent.rent_lamports else "allowed"
        n = _SOL.numbers(effects.rent_lamports, rent)
        return Refusal(
            f"rent of {n.asked} {n.unit} is more than the {n.limit} {n.unit} {whose} for new "
            "accounts",
            n,
        )
    possible = 0 if effects.outflow is None else effects.outflow.rent_lamports
    if possible > policy.max_rent_lamports:
        n = _SOL.numbers(possible, policy.max_rent_lamports)
        return Refusal(
            f"rent of up to {n.asked} {n.unit} is more than the {n.limit} {n.unit} allowed for new "
            "accounts",
            n,
        )
    if effects.tied and effects.accounts_created > policy.max_accounts_created:
        n = RefusalNumbers(
            asked=str(effects.accounts_created),
            limit=str(policy.max_accounts_created),
            unit="new accounts",
        )
        return Refusal(
            f"{n.asked} {n.unit} are more than the {n.limit} allowed in one transaction", n
        )
    return _first_violation(effects, "fee_limit")


def _simulated_effects(
    intent: Intent, effects: TransactionEffects, _policy: Policy
) -> Refusal | None:
    """Refuse a transaction that takes more from the wallet than its intent declares.

    The bytes must not allow more. The simulation must not show more either, if it shows only this
    transaction's effects.
    """
    refused = _first_violation(effects, PAYMENT_TERMS)
    if refused is not None:
        return refused
    violation = _first_violation(effects, "simulated_effects") if effects.tied else None
    if violation is not None:
        return violation
    undeclared = _undeclared_outflow(intent, effects)
    if undeclared is not None or not effects.tied:
        return undeclared
    if effects.lamports_out > intent.lamports_out:
        return _excess_refusal(_SOL, "would", effects.lamports_out, intent.lamports_out)
    for mint, units in sorted(effects.tokens_out.items()):
        declared = intent.tokens_out.get(mint, 0)
        if units > declared:
            return _excess_refusal(_token_unit(mint, effects), "would", units, declared)
    for mint, least in sorted(intent.tokens_in.items()):
        arriving = effects.tokens_in.get(mint, 0)
        if arriving < least:
            unit = _token_unit(mint, effects)
            return Refusal(
                f"only {unit.amount(arriving)} {unit.name} would arrive; at least"
                f" {unit.amount(least)} are required"
            )
    for account, receiver in sorted(effects.closed.items()):
        if receiver != intent.wallet:
            return Refusal(
                f"account {account} would be closed to {receiver}, which is not the wallet "
                f"{intent.wallet}"
            )
        if account not in intent.may_close:
            return Refusal(
                f"account {account} would be closed, but the transaction declares that it closes "
                f"{_names_text(intent.may_close)}"
            )
    parties = intent.destinations | {intent.wallet}
    for account, owner in sorted(effects.created.items()):
        if not {account, owner} & parties:
            return Refusal(
                f"the wallet would pay for account {account} of {owner}, but the transaction "
                f"declares only {_names_text(parties)}"
            )
    return None


def _undeclared_outflow(intent: Intent, effects: TransactionEffects) -> Refusal | None:
    """Return a refusal if the bytes can take more than is declared."""
    if effects.outflow is None:
        return None
    if effects.outflow.lamports > intent.lamports_out:
        return _excess_refusal(_SOL, "could", effects.outflow.lamports, intent.lamports_out)
    for mint, units in sorted(effects.outflow.tokens.items()):
        declared = intent.tokens_out.get(mint, 0)
        if units > declared:
            return _excess_refusal(_token_unit(mint, effects), "could", units, declared)
    return None


def _excess_refusal(unit: _Unit, would: str, leaving: int, declared: int) -> Refusal:
    """Return the refusal of units that would, or could, leave in excess of the declared units."""
    n = unit.numbers(leaving, declared)
    # SOL needs a singular verb, tokens need a plural verb.
    allowed = f"{n.limit} {n.unit} is" if unit is _SOL else f"{n.limit} are"
    return Refusal(f"{n.asked} {n.unit} {would} leave the wallet, but only {allowed} declared", n)


def _authority_change(
    intent: Intent, effects: TransactionEffects, _policy: Policy
) -> Refusal | None:
    """Refuse to give away control over the wallet or its accounts, except by declared revokes."""
    for change in effects.authority_changes:
        declared = (
            change.to is None and change.kind in _REVOCABLE and change.account in intent.may_revoke
        )
        if not declared:
            return Refusal(
                f"{change.kind} of {change.account} would pass to {change.to or 'nobody'}; the "
                "transaction may only give up the mint or freeze authority of its declared mints: "
                f"{_names_text(intent.may_revoke)}"
            )
    return _first_violation(effects, "authority_change")


def _costs_limit(
    _intent: Intent, effects: TransactionEffects, limits: ScopeLimits, usage: ScopeUsage
) -> Refusal | None:
    """Refuse more fees and rent than the scope has left of its ceiling in a rolling 24 hours."""
    most = limits.daily_costs_lamports
    if most is None:
        return None
    costs, left = counted_costs(effects), max(0, most - usage.costs_last_day)
    if costs <= left:
        return None
    n = _SOL.of_day(costs, most, left, usage.costs_last_day)
    return Refusal(
        f"fees and rent of up to {n.asked} {n.unit} are more than the {n.left} {n.unit} left of "
        f"the {n.limit} {n.unit} allowed in {n.window}; {n.used} {n.unit} is spent or reserved; "
        f"{COSTS_SETTING} sets this limit",
        n,
    )


def _swap_bounds(intent: Intent, _effects: TransactionEffects, policy: Policy) -> Refusal | None:
    """Refuse a swap that moves the price too far. Slippage is checked when a swap is requested."""
    impact, most = intent.price_impact_bps, policy.max_price_impact_bps
    if impact is None or impact <= most:
        return None
    n = RefusalNumbers(asked=str(impact), limit=str(most), unit="basis points")
    return Refusal(
        f"the swap would move the price by {n.asked} {n.unit}, more than the {n.limit} allowed; "
        "MAX_PRICE_IMPACT_BPS sets this limit",
        n,
    )


# The rules are evaluated in this order.
BUILT_IN: tuple[LimitRule | PolicyRule, ...] = (
    LimitRule("max_per_tx", _max_per_tx, ceiling="maxSolPerTransaction"),
    LimitRule(RATE_LIMIT, _rate_limit, ceiling="maxTransactionsPerMinute"),
    LimitRule("daily_limit", _daily_limit, of_keys=False, ceiling="dailySpendingLimitSol"),
    PolicyRule("program_allowlist", _program_allowlist),
    PolicyRule("blocked_address", _blocked_address, needs_effects=False),
    LimitRule("spending_limit_check", _spending_limit_check, of_keys=True),
    PolicyRule("fee_limit", _fee_limit),
    PolicyRule("simulated_effects", _simulated_effects),
    PolicyRule("authority_change", _authority_change),
    LimitRule(COSTS_RULE, _costs_limit, needs_effects=True, ceiling="maxCostsSolPerDay"),
    PolicyRule("swap_bounds", _swap_bounds),
)
RULES: Final = tuple(rule.name for rule in BUILT_IN)
FREEZE_RULE: Final = "freeze"
"""The rule that `guardrailsApplied` names if the freeze switch refused."""
CLOCK_RULE: Final = "clock"
"""The rule that `guardrailsApplied` names if the clock of windows is too far behind."""
OWN_RULES: Final = frozenset((*RULES, GRANTS_RULE, FREEZE_RULE, CLOCK_RULE))
"""The names of all built-in rules, which no plugin's rule may have."""


# The texts of refusals.


@dataclass(frozen=True, slots=True)
class _Unit:
    """The unit of amounts of SOL or one mint; `decimals` is None if the transaction shows none."""

    name: str
    decimals: int | None
    mint: str | None = None

    def amount(self, units: int) -> str:
        """Return smallest units as whole SOL or tokens; unchanged if the decimals are unknown."""
        return str(units) if self.decimals is None else amount_text(units, self.decimals)

    def numbers(self, asked: int, limit: int) -> RefusalNumbers:
        """Return a refusal's numbers about one transaction, from smallest units."""
        return RefusalNumbers(
            self.amount(asked), self.amount(limit), unit=self.name, mint=self.mint
        )

    def of_day(self, asked: int, limit: int, left: int, used: int) -> RefusalNumbers:
        """Return a refusal's numbers about a rolling 24 hours, from smallest units."""
        n = self.numbers(asked, limit)
        return replace(n, left=self.amount(left), used=self.amount(used), window="24 hours")


_SOL: Final = _Unit("SOL", SOL_DECIMALS)
_TRANSACTIONS: Final = "transactions"


def _token_unit(mint: str, effects: TransactionEffects) -> _Unit:
    known = SOL_DECIMALS if mint == WRAPPED_SOL_MINT else effects.decimals.get(mint)
    if known is None:
        return _Unit(f"smallest units of mint {mint}", None)
    return _Unit(f"tokens of mint {mint}", known, mint)


def _first_violation(effects: TransactionEffects, rule: str) -> Refusal | None:
    return next((Refusal(reason) for name, reason in effects.violations if name == rule), None)


def _names_text(names: Iterable[str]) -> str:
    return ", ".join(sorted(set(names))) or "none"


@dataclass(frozen=True, slots=True)
class ScopeLimits:
    """The limits of one scope (`wallet:<id>`, `agent:<id>`, `key:<id>`); None means no limit.

    Attributes:
        max_lamports_per_tx: maximum lamports in one transaction.
        max_tx_per_minute: maximum transactions in a sliding minute.
        daily_lamports: maximum lamports in a rolling 24 hours.
        daily_tokens: mint -> maximum units in a rolling 24 hours.
        daily_costs_lamports: maximum lamports of fees and rent in a rolling 24 hours.
        ceilings: the names of the limits that are the wallet's own ceilings.
    """

    max_lamports_per_tx: int | None = None
    max_tx_per_minute: int | None = None
    daily_lamports: int | None = None
    daily_tokens: Mapping[str, int] = field(default_factory=dict)
    daily_costs_lamports: int | None = None
    ceilings: frozenset[str] = frozenset()

    def within(self, ceilings: Mapping[str, int]) -> ScopeLimits:
        """Return these limits with a wallet's own ceilings (`CEILINGS`); the smaller one binds.

        Args:
            ceilings: name -> lamports, or transactions.
        """
        own = {}
        for name, most in ceilings.items():
            bound = getattr(self, CEILINGS[name])
            if bound is None or most < bound:
                own[name] = most
        limits: dict[str, Any] = {CEILINGS[name]: most for name, most in own.items()}
        return replace(self, ceilings=frozenset(own), **limits)


@dataclass(frozen=True, slots=True)
class ScopeUsage:
    """The usage of one scope: transactions in a minute, amounts and costs in 24 hours.

    Attributes:
        next_tx_ms: milliseconds until the minute has room again; None if it has room, or if the
            time is not known. Only the refusal's text uses this.
    """

    tx_last_minute: int = 0
    lamports_last_day: int = 0
    tokens_last_day: Mapping[str, int] = field(default_factory=dict)
    next_tx_ms: int | None = None
    costs_last_day: int = 0


Usages: TypeAlias = Sequence[tuple[str, ScopeLimits, ScopeUsage]]
"""Scopes, each with its limits and its usage."""


@dataclass(frozen=True, slots=True)
class Policy:
    """The settings of rules that do not depend on the scope; one per process.

    Attributes:
        blocked_addresses: addresses that no transaction may pay or be signed with.
        regulated_mints: mints that may move although their issuer can take, stop or tax them.
        max_fee_lamports: maximum network fee of one transaction.
        max_rent_lamports: maximum rent of one transaction.
        max_accounts_created: maximum number of accounts that one transaction may create.
        max_price_impact_bps: how far a swap may move the price, in basis points.
    """

    blocked_addresses: frozenset[str] = frozenset()
    regulated_mints: frozenset[str] = frozenset()
    max_fee_lamports: int = DEFAULT_MAX_NETWORK_FEE
    max_rent_lamports: int = 20_000_000
    max_accounts_created: int = 4
    max_price_impact_bps: int = 500
