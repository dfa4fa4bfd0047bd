"""The sentences of grants: why grants refuse or ask, what is held, and what a limit has left.

Plain text of one line, for people and models alike. The module
`operations.policies.grant_sentences` writes and reads grants as sentences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Final

from solward.support import jsontext
from solward.support.durations import DAY_MS, MINUTE_MS
from solward.types.guardrail import SOL, Intent, Line, Operation
from solward.types.money import SOL_DECIMALS, amount_text, format_amount
from solward.types.record import PLUGIN_DETAILS, TransactionType
from solward.types.site import SITE
from solward.vault.grants.model import RATE, USD, Finding, Reason, Window
from solward.vault.grants.spelling import (
    BE_PAID,
    SENT,
    THROUGH,
    Names,
    amount_of,
    asset_unit,
    capital,
    dollars,
    hundredths,
    joined,
    length_text,
    named,
    plain,
    principal_name,
    quoted,
    unit_name,
    window_text,
)
from solward.vault.refusal import Refusal, RefusalNumbers

_RECEIVED: Final = SENT | {Operation.SWAP}
_NONE_OWN: Final[Mapping[str, str]] = MappingProxyType({})


def finding_refusal(finding: Finding, names: Names) -> Refusal:
    """Return why a principal's grants refuse a transaction, with the numbers in the sentence."""
    said = _FINDINGS[finding.why](finding, _FindingWords(finding, names))
    return said if isinstance(said, Refusal) else Refusal(said)


def finding_sentence(finding: Finding, names: Names) -> str:
    """Return why a principal's grants refuse a transaction."""
    return finding_refusal(finding, names).reason


def reason_sentence(finding: Finding, names: Names) -> str:
    """Return why a person is asked, for a finding in `Decision.held`."""
    if finding.why is Reason.NEW_RECIPIENT:
        grant = _FindingWords(finding, names).grant
        return f"{_new_recipient(finding)}; {grant} asks a person first."
    return finding_sentence(finding, names)


def hold_sentence(
    who: str,
    wallet_id: str,
    lines: Sequence[Line],
    names: Names,
    intent: Intent,
    *,
    sites: Sequence[str] = (),
    own: Mapping[str, str] = _NONE_OWN,
    arrives: Sequence[Line] = (),
    digest: str = "",
) -> str:
    """Return the sentence about a held transaction: who requests it, its amounts and recipients.

    Args:
        intent: the declaration of the planned transaction.
        sites: the principals of the chain that are sites.
        own: address -> wallet id, for recipients that are wallets of this service.
        arrives: the minimum amount of each asset that must arrive.
        digest: SHA-256 of the whole request, if words alone cannot distinguish it from another: for
            a plugin's instructions, and for the body of a paid request.
    """
    each = [_line_text(line, names, own.get(_address(line))) for line in lines]
    asked = joined(each) if each else "make a transaction that takes only fees and rent"
    asked = _action_text(intent, asked, digest, names)
    if arrives:
        asked += f" for at least {joined([_amount_text(each, names) for each in arrives])}"
    asker = capital(principal_name(who, names))
    text = f"{asker} asks to {asked}, from wallet {named('wallet', wallet_id, names)}"
    if sites:
        text += THROUGH + joined([each.removeprefix(SITE) for each in sites])
    text += "."
    words = intent.details.get(PLUGIN_DETAILS)
    if words:
        said = jsontext.dumps(words, canonical=True)
        cut = said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"
        text += f" Unchecked description by the plugin: {quoted(cut)}."
    return text


@dataclass(frozen=True, slots=True)
class _ActionText:
    """The text for the effect of a transaction type whose lines do not state its effect.

    Attributes:
        text: with the record's details in braces.
        fixed: names of the details that must not change between showing and carrying out.
    """

    text: str
    fixed: tuple[str, ...]


_ACTS: Final[Mapping[str, _ActionText]] = {
    TransactionType.STAKE: _ActionText(
        "stake {amount} SOL with validator {validator}", ("amount", "validator")
    ),
    TransactionType.UNSTAKE: _ActionText(
        "unstake {amount} SOL in stake account {stakeAccount} from validator {validator}",
        ("stakeAccount", "validator"),
    ),
    TransactionType.WITHDRAW_STAKE: _ActionText(
        "withdraw {amount} SOL from stake account {stakeAccount} to the wallet", ("stakeAccount",)
    ),
    TransactionType.WRAP_SOL: _ActionText(
        "wrap {amount} SOL in its account {account}", ("amount", "account")
    ),
    TransactionType.UNWRAP_SOL: _ActionText(
        "unwrap {amount} SOL by closing its account {account}", ("account",)
    ),
    TransactionType.TOKEN_LAUNCH: _ActionText(
        "launch token {name} ({symbol}) with {decimals} decimals, and mint {supply} tokens to the"
        " wallet",
        ("name", "symbol", "decimals", "supply"),
    ),
    TransactionType.MINT_SUPPLY: _ActionText(
        "mint {amount} of token {mint} to its account {account}", ("amount", "mint", "account")
    ),
    TransactionType.REVOKE_AUTHORITY: _ActionText(
        "give up the {authorityType} authority of token {mint} for ever", ("authorityType", "mint")
    ),
    TransactionType.CLOSE_ACCOUNT: _ActionText(
        "close its account {account} of token {mint}", ("account", "mint")
    ),
    TransactionType.RECLAIM_RENT: _ActionText(
        "take back {reclaimed} SOL of rent, by closing {closed} empty token accounts and reducing"
        " {reduced} others",
        ("reclaimed", "closed", "reduced"),
    ),
    TransactionType.AIRDROP: _ActionText("ask the faucet for {amount} SOL", ("amount",)),
    TransactionType.PAYMENT: _ActionText("{asked} for {method} {url}", ("method", "url")),
}
# The maximum number of a plugin's own characters that are shown.
_MOST_SAID: Final = 500
# Hexadecimal digits of a digest: enough that two requests never share them by chance.
_SHOWN_DIGITS: Final = 12


def fixed_details(type_: str) -> tuple[str, ...]:
    """Return the names of the details that must stay as shown in a transaction of this type."""
    act = _ACTS.get(type_)
    return () if act is None else act.fixed


def _action_text(intent: Intent, asked: str, digest: str, names: Names) -> str:
    """Return the text of a transaction's effect; `asked` states the amounts in its bytes."""
    act = _ACTS.get(intent.type)
    words = {name: _detail_text(name, each, names) for name, each in intent.details.items()}
    try:
        text = asked if act is None else act.text.format_map({**words, "asked": asked})
    except KeyError:
        # A plan that failed early knows only what was asked for.
        text = asked
    if intent.type == TransactionType.OTHER and intent.may_close:
        text += f", which may close {joined(sorted(intent.may_close))}"
    return f"{text} (request {digest[:_SHOWN_DIGITS]})" if digest else text


def _detail_text(name: str, value: object, names: Names) -> str:
    if isinstance(value, Decimal | int):
        return format_amount(value)
    return (
        unit_name(value, names) if name == "mint" and isinstance(value, str) else plain(str(value))
    )


def left_sentence(
    asset: str,
    decimals: int,
    window: Window,
    used: int,
    names: Names,
    room_ms: int | None = None,
    now_ms: int | None = None,
) -> str:
    """Return what is left of a limit: `1.2 of 20 USDC left in 24 hours; more at 14:05 UTC`.

    Args:
        asset: a limit's asset, `USD`, `COSTS` or `RATE`, which has no decimals.
        used: smallest units, or transactions, in the window that ends now.
        room_ms: when the next part of `used` leaves the window; None if no part does.
        now_ms: the current time; `room_ms` is written with its date if it is on another day.
    """
    n = _limit_numbers(
        asset,
        decimals,
        names,
        window.most,
        left=max(0, window.most - used),
        window_ms=window.length_ms,
    )
    left = f"{_left_text(n)}{_period(n)}"
    return left if room_ms is None else f"{left}; more at {_time_of_day(room_ms, now_ms)}"


# Findings.


class _FindingWords:
    """The parts of the sentence about one finding.

    Attributes:
        who: `agent scout`.
        grant: `grant 3 of agent scout`.
        gives: `grant 3 gives agent scout`.
        lets_not: `Grant 3 does not let agent scout`, before what it does.
        does: the action that is requested.
        asset: the line's asset.
        n: the numbers; only some sentences use its `left`.
        asked: the requested amount, such as `6 USDC` or `$6 of USDC`.
    """

    def __init__(self, finding: Finding, names: Names) -> None:
        who, number = principal_name(finding.who, names), finding.number
        self.names, self.who = names, who
        self.grant, self.gives = who, f"{who} has"
        self.lets_not = f"{capital(who)} has no grant to"
        if number is not None:
            self.grant = f"grant {number} of {who}"
            self.gives = f"grant {number} gives {who}"
            self.lets_not = f"Grant {number} does not let {who}"
        self.does = _requested_text(finding, names)
        line, limit = finding.line, finding.limit or 0
        self.asset = "the asset" if line is None else asset_unit(line.asset, names)
        self.n = _limit_numbers(
            finding.counted_as or (line.asset if line else SOL),
            finding.decimals or 0,
            names,
            limit,
            asked=finding.requested or 0,
            left=max(0, limit - (finding.used or 0)),
            window_ms=finding.window_ms,
        )
        of = "" if line is None else f" of {self.asset}"
        self.asked = f"{self.n.asked}{of if self.n.unit is None else f' {self.n.unit}'}"

    def above_limit(self, more: str) -> Refusal:
        """Return the refusal of an amount above the grant's whole limit, whatever was used."""
        n = replace(self.n, left=None)
        return Refusal(f"{self.asked} is more than the {_limit(n)}{more} that {self.gives}.", n)


def _wallet_refusal(finding: Finding, w: _FindingWords) -> str:
    wallet = f"{named('wallet', finding.detail, w.names)} only" if finding.detail else "another"
    return f"{capital(w.grant)} is for wallet {wallet}."


def _site_refusal(finding: Finding, w: _FindingWords) -> str:
    number, sites = finding.number, finding.detail or "other sites"
    may = f"{capital(w.who)} may" if number is None else f"Grant {number} lets {w.who}"
    return f"{may} pay through {sites} only."


def _new_recipient(finding: Finding) -> str:
    alike = f", though it looks like {finding.detail}, which was" if finding.detail else ""
    return f"{_address(finding.line)} was never paid from this wallet{alike}"


def _window_refusal(finding: Finding, w: _FindingWords) -> Refusal | str:
    if finding.why is Reason.COSTS and not finding.limit:
        return f"{capital(w.grant)} pays no network fee and no rent."
    if (finding.requested or 0) > (finding.limit or 0):
        return w.above_limit(_period(w.n))
    asked = w.asked if w.n.unit is None else w.n.asked
    is_one = w.n.unit is None or asked == "1" or finding.why is Reason.COSTS
    wanted = f"{asked} {'is' if is_one else 'are'} requested"
    has = f"{capital(w.grant)} has {_left_text(w.n)}{_period(w.n)}"
    return Refusal(f"{has}; {wanted}{_wait(finding)}", w.n)


def _rate_refusal(finding: Finding, w: _FindingWords) -> Refusal:
    limit, used = finding.limit or 0, finding.used or 0
    n = _limit_numbers(RATE, 0, w.names, limit, used=used, window_ms=finding.window_ms)
    made = f"{n.used} {'was' if used == 1 else 'were'} made"
    return Refusal(f"{capital(w.grant)} allows {_limit(n)}{_period(n)}; {made}{_wait(finding)}", n)


def _swap_refusal(what: str, finding: Finding, w: _FindingWords) -> Refusal:
    most = f"{hundredths(finding.limit or 0)}%"
    if finding.requested is None:
        n = RefusalNumbers(limit=most, unit=what)
        return Refusal(f"The {n.unit} is not known; {w.grant} allows at most {n.limit}.", n)
    n = RefusalNumbers(asked=f"{hundredths(finding.requested)}%", limit=most, unit=what)
    return Refusal(f"{n.asked} {n.unit} is more than the {n.limit} that {w.gives}.", n)


def _swap_into_refusal(finding: Finding, w: _FindingWords) -> str:
    bought = asset_unit(finding.detail, w.names) if finding.detail else "the requested token"
    return f"{w.lets_not} swap into {bought}."


def _decimals_refusal(finding: Finding, w: _FindingWords) -> Refusal:
    says, known = finding.requested, finding.limit
    n = RefusalNumbers(
        asked=None if says is None else str(says),
        limit=None if known is None else str(known),
        unit="decimals",
    )
    said = "no decimals" if says is None else f"{n.asked} decimals"
    written = f"{w.grant} was written for {n.limit or 'other decimals'}"
    return Refusal(f"The transaction states {said} for {w.asset}; {written}.", n)


def _price_refusal(finding: Finding, w: _FindingWords) -> str:
    reason = f": {_one_line(finding.detail)}" if finding.detail else ""
    return f"The price of {w.asset} is not known, and {w.grant} counts in dollars{reason}."


def _no_grant_refusal(_finding: Finding, w: _FindingWords) -> str:
    return f"{capital(w.who)} has no grant to {w.does}."


_FINDINGS: Final[Mapping[Reason, Callable[[Finding, _FindingWords], Refusal | str]]] = {
    Reason.NO_GRANT: _no_grant_refusal,
    Reason.DEFAULT: _no_grant_refusal,
    Reason.WALLET: _wallet_refusal,
    Reason.VIA: _site_refusal,
    Reason.RECIPIENT: lambda f, w: f"{w.lets_not} {w.does} {_recipient(f.line)}.",
    Reason.NEW_RECIPIENT: lambda f, w: f"{_new_recipient(f)}; {w.grant} pays no new recipient.",
    Reason.HOURS: lambda f, w: f"{capital(w.grant)} applies at {f.detail or 'other hours'} only.",
    Reason.ENDED: lambda f, w: f"{capital(w.grant)} ended{f' at {f.detail}' if f.detail else ''}.",
    Reason.PER_TX: lambda _, w: w.above_limit(" at once"),
    Reason.WINDOW: _window_refusal,
    Reason.RATE: _rate_refusal,
    Reason.COSTS: _window_refusal,
    Reason.SLIPPAGE: partial(_swap_refusal, "slippage"),
    Reason.IMPACT: partial(_swap_refusal, "price impact"),
    Reason.INTO: _swap_into_refusal,
    Reason.DECIMALS: _decimals_refusal,
    Reason.PRICE: _price_refusal,
    Reason.ABOVE_HOLD: lambda _, w: (
        f"{w.asked} is more than the {_limit(w.n)} above which {w.grant} asks a person."
    ),
}


# Parts of the sentences.


def _limit_numbers(
    asset: str,
    decimals: int,
    names: Names,
    limit: int,
    *,
    asked: int | None = None,
    left: int | None = None,
    used: int | None = None,
    window_ms: int | None = None,
) -> RefusalNumbers:
    """Return a limit's numbers as text, from smallest units (for `RATE`, transactions)."""

    def text(units: int | None) -> str | None:
        if units is None:
            return None
        return dollars(units) if asset == USD else amount_text(units, decimals)

    unit = None if asset == USD else asset_unit(asset, names, limit)
    window = None if window_ms is None else length_text(window_text(window_ms))
    return RefusalNumbers(text(asked), text(limit), text(left), text(used), unit, window)


def _limit(n: RefusalNumbers) -> str:
    return f"{n.limit}" if n.unit is None else f"{n.limit} {n.unit}"


def _left_text(n: RefusalNumbers) -> str:
    """Return `1.2 of 20 USDC left`."""
    return f"{n.left} of {_limit(n)} left"


def _period(n: RefusalNumbers) -> str:
    return "" if n.window is None else f" in {n.window}"


def _wait(finding: Finding) -> str:
    if finding.room_ms is None:
        return "."
    return f"; more at {_time_of_day(finding.room_ms, finding.now_ms)}."


def _amount_text(line: Line, names: Names) -> str:
    if line.asset == SOL:
        return amount_of(line.units, SOL_DECIMALS, SOL, names)
    if line.decimals is None:
        return f"{line.units} smallest units of {asset_unit(line.asset, names)}"
    return amount_of(line.units, line.decimals, line.asset, names)


def _line_text(line: Line, names: Names, own_id: str | None) -> str:
    """Return a line as `transfer 3 USDC to <address>`; `own_id` is the id of a wallet it funds."""
    amount = _amount_text(line, names)
    doing = _operation_text(line, names, amount)
    if line.operation is Operation.FUND and own_id is not None:
        doing = f"fund your wallet {named('wallet', own_id, names)} with {amount}"
    return f"{doing} {_recipient(line)}" if line.operation in _RECEIVED else doing


def _operation_text(line: Line, names: Names, amount: str | None = None) -> str:
    what = amount or asset_unit(line.asset, names)
    if line.operation is Operation.LAUNCH:
        token = asset_unit(line.asset, names)
        return "launch a token" if amount is None else f"launch, mint or give up token {token}"
    if line.operation is Operation.FUND:
        return f"fund an own wallet with {what}"
    return f"{line.operation.value} {what}"


def _requested_text(finding: Finding, names: Names) -> str:
    line = finding.line
    if line is None:
        return "make a transaction"
    if finding.who.startswith(SITE) and line.operation is Operation.PAY:
        return f"{BE_PAID} {asset_unit(line.asset, names)}"
    return _operation_text(line, names)


def _recipient(line: Line | None) -> str:
    address = _address(line)
    venue = address.removeprefix("venue:")
    return f"at {plain(venue)}" if venue != address else f"to {address}"


def _address(line: Line | None) -> str:
    """Return the recipient's whole address, or `somebody`."""
    return (line and (line.owner or line.account)) or "somebody"


# Words of all sentences.


def _one_line(text: str) -> str:
    return quoted(text)[1:-1]


def _time_of_day(ms: int, now_ms: int | None) -> str:
    """Return a time in UTC, rounded up to minutes; with the date unless `now_ms` is that day."""
    minute = -(-ms // MINUTE_MS) * MINUTE_MS
    moment = datetime.fromtimestamp(minute // 1_000, UTC)
    is_today = now_ms is not None and minute // DAY_MS == now_ms // DAY_MS
    return f"{moment:%H:%M} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M} UTC"
