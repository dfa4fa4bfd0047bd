"""Grants in words: the one table of sentences, for people and models alike.

A grant as a sentence and back, why one refuses or asks, what is left and what can leave. Plain text
of one line; what others named (agents, keys, wallets) is between double quotes, escaped, and with
its id, unless it is one plain ASCII word that nothing else is called. Addresses are whole.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from types import MappingProxyType
from typing import Any, Final

from solward.support import jsontext
from solward.support.durations import DAY_MS, MINUTE_MS
from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, SOL, Intent, Line, Operation
from solward.types.money import SOL_DECIMALS, format_amount
from solward.types.record import PLUGIN_DETAILS, TransactionType
from solward.types.site import SITE, SITE_PATTERN
from solward.vault.grants.model import (
    ANY_ASSET,
    ANYBODY,
    OWN,
    RATE,
    USD,
    USD_DECIMALS,
    Finding,
    NewRecipient,
    Why,
    Window,
    sorted_assets,
)
from solward.vault.grants.spelling import (
    APPROVE,
    Names,
    amount_text,
    quoted,
    unit_name,
    window_text,
)
from solward.vault.refusal import Refusal, RefusalNumbers

_EACH: Final = {"1m": "a minute", "1h": "an hour", "24h": "a day", "7d": "a week"}
_EACH_BACK: Final = {words: window for window, words in _EACH.items()}
_UNITS: Final = {"m": "minutes", "h": "hours", "d": "days"}
_AT_ONCE: Final = "at once"
_MAY_WORDS: Final = {each.value: each.value for each in Operation} | {
    APPROVE: "approve what is held"
}
_MAY_BACK: Final = {words: word for word, words in _MAY_WORDS.items()}
# A site pays nobody: it is paid.
_BE_PAID: Final = "be paid"
# Grants of agents and keys do not bind the admin secret; ceilings and the wallet's own do.
_BUT_OPERATOR: Final = "by anybody but the operator"
_SITES_MAY_BACK: Final = {_BE_PAID: Operation.PAY.value}
_THROUGH: Final = ", through "
_RECIPIENTS: Final = {ANYBODY: "anybody", OWN: "own wallets"}
_RECIPIENTS_BACK: Final = {words: text for text, words in _RECIPIENTS.items()}
_SENT: Final = frozenset({Operation.TRANSFER, Operation.FUND, Operation.PAY})
_RECEIVED: Final = _SENT | {Operation.SWAP}
_NONE_OWN: Final[Mapping[str, str]] = MappingProxyType({})
_ASKED: Final = " a person is asked"
_SOMEBODY_NEW: Final = "to somebody new"
_NOBODY_NEW: Final = "nothing to somebody new"

_ID: Final = r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,98}[A-Za-z0-9])?"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_NAME: Final = rf"(?:{_QUOTED} \((?:{_ID}|{_QUOTED})\)|{_QUOTED}|{_ID})"
_PLAIN: Final = re.compile(_ID)
_SUBJECTS: Final = ("Wallet", "Agent", "Key", "Schedule", "Plugin", "Skill", "Site")
_HEAD: Final = re.compile(rf"(?:({'|'.join(_SUBJECTS[:-1])}) ({_NAME})|Site ({SITE_PATTERN})) may ")
_MAY: Final = re.compile(r"[a-z ,]*?(?= from | up to |, to |; |\Z)")
_FROM: Final = re.compile(rf" from ({_NAME})")
_AMOUNT: Final = r"[0-9]+(?:\.[0-9]+)?"
_PERIOD: Final = "at once|a minute|an hour|a day|a week|in [0-9]+ (?:minutes|hours|days)"
_FIRST: Final = re.compile(rf"(?:\$({_AMOUNT})|({_AMOUNT}) ([A-Za-z0-9]+)) ({_PERIOD})")
_FURTHER: Final = re.compile(rf"\$?({_AMOUNT}) ({_PERIOD})")
_RATE: Final = re.compile(rf"([0-9]+)(?: transactions?)? ({_PERIOD})")
_IN: Final = re.compile(r"in ([0-9]+) (minute|hour|day)s")
# Every word that a sentence may have after what may be done, beside numbers, names and units.
_VOCABULARY: Final = (
    "a above an and any anybody as asked asset at by day days fees from hour hours impact in into"
    " is least minute minutes most new nothing of once only operator or other own person price"
    " rent slippage somebody swaps through to transaction transactions until up week wallets UTC"
)
_WORDS: Final = frozenset(_VOCABULARY.split())


def document_sentence(document: Mapping[str, Any], names: Names) -> str:
    """All that a grant's document says, in one sentence; of one that `grant_json` wrote."""
    who, may = document["who"], document["may"]
    is_site = who.startswith(SITE)
    does = _BE_PAID if is_site else _and([_MAY_WORDS[each] for each in may])
    text = f"{_capital(principal_name(who, names))} may {does}"
    if "wallet" in document:
        text += f" from {_named('wallet', document['wallet'], names)}"
    limits = list(_limits(document))
    if limits:
        text += " " + ", and ".join(
            f"up to {_limit(*each, is_alone=len(limits) == 1)}" for each in limits
        )
    to = document.get("to", [] if is_site or _SENT.isdisjoint(may) else [ANYBODY])
    if to:
        text += f", to {_and([_RECIPIENTS.get(each, each) for each in to])}"
    if "via" in document:
        text += _THROUGH + _or([each.removeprefix(SITE) for each in document["via"]])
    return "; ".join((text, *_asks(document), *_clauses(document))) + "."


DEFAULTS_SENTENCE: Final = (
    "Without grants SOL may leave within the ceilings, tokens may be swapped within the bounds of"
    " swaps, and tokens that the wallet launched may be burned; no token may be transferred or"
    " paid."
)


def read_only_sentence(who: str, names: Names) -> str:
    """Of a principal under grants that has none."""
    if who.startswith(SITE):
        return f"{_capital(principal_name(who, names))} may not be paid."
    return f"{_capital(principal_name(who, names))} may only read."


def read_sentence(text: str, names: Names) -> dict[str, Any]:
    """The document of the grant that such a sentence is of, for `read_grant` to check.

    Raises:
        InvalidRequest: it is no sentence of a grant; says which words are not understood.
    """
    head = _HEAD.match(text)
    if head is None or not text.endswith("."):
        raise InvalidRequest(
            'A sentence such as "Agent scout may transfer up to 5 USDC at once and 20 a day, to '
            f'@vendors." is expected{_missing(text)}'
        )
    who = f"{SITE}{head[3]}" if head[3] else f"{head[1].lower()}:{_read_name(head[2])}"
    document: dict[str, Any] = {"who": who}
    rest = text[head.end() : -1]
    may = _MAY.match(rest)
    words = may[0] if may else rest
    rest = rest[len(words) :]
    known = _SITES_MAY_BACK if head[3] else _MAY_BACK
    document["may"] = [_known(known, each) for each in _items(words)]
    wallet = _FROM.match(rest)
    if wallet is not None:
        document["wallet"] = _read_name(wallet[1])
        rest = rest[wallet.end() :]
    body, *clauses = rest.split("; ")
    body, through, sites = body.partition(_THROUGH)
    if through:
        document["via"] = [f"{SITE}{each}" for each in _items(sites, " or ")]
    limits, _, recipients = body.partition(", to ")
    if limits:
        if not limits.startswith(" up to "):
            raise _unclear(limits)
        document["assets"] = {}
        for each in limits.removeprefix(" up to ").split(", and up to "):
            _read_limit(each, document["assets"])
    if recipients and recipients != _RECIPIENTS[ANYBODY]:
        document["to"] = [_RECIPIENTS_BACK.get(each, each) for each in _items(recipients)]
    for clause in clauses:
        _read_clause(clause, document)
    return document


def finding_refusal(finding: Finding, names: Names) -> Refusal:
    """Why a principal's grants refuse a transaction, with the numbers that the sentence says."""
    said = _FINDINGS[finding.why](finding, _Words(finding, names))
    return said if isinstance(said, Refusal) else Refusal(said)


def finding_sentence(finding: Finding, names: Names) -> str:
    """Why a principal's grants refuse a transaction."""
    return finding_refusal(finding, names).reason


def reason_sentence(finding: Finding, names: Names) -> str:
    """Why a person is asked about one: for a finding of `Decision.held`."""
    if finding.why is Why.NEW_RECIPIENT:
        grant = _Words(finding, names).grant
        return f"{_somebody_new(finding)}; {grant} asks a person about such."
    return finding_sentence(finding, names)


def hold_sentence(
    who: str,
    wallet_id: str,
    lines: Sequence[Line],
    findings: Iterable[Finding],
    names: Names,
    sites: Sequence[str] = (),
    own: Mapping[str, str] = _NONE_OWN,
    intent: Intent | None = None,
    arrives: Sequence[Line] = (),
    digest: str = "",
) -> str:
    """What waits for a person: who asks for what, to whom, and why a person is asked.

    Args:
        sites: principals of the chain that are sites.
        own: address -> id, of recipients that are wallets of this service.
        intent: what was planned; None where the lines say all.
        arrives: the least that must arrive, of each asset.
        digest: SHA-256 of the whole request, where it tells apart what no words can: instructions
            that a plugin made, and the body of a request that is paid for.
    """
    each = [_line(line, names, own.get(_address(line))) for line in lines]
    asked = _and(each) if each else "make a transaction that takes nothing but its costs"
    if intent is not None:
        asked = _act(intent, asked, digest, names)
    if arrives:
        asked += f" for at least {_and([_quantity(each, names) for each in arrives])}"
    reasons = " ".join(reason_sentence(each, names) for each in findings)
    asker = _capital(principal_name(who, names))
    text = f"{asker} asks to {asked}, from wallet {_named('wallet', wallet_id, names)}"
    if sites:
        text += _THROUGH + _and([each.removeprefix(SITE) for each in sites])
    text += "."
    words = None if intent is None else intent.details.get(PLUGIN_DETAILS)
    if words:
        said = jsontext.dumps(words, canonical=True)
        cut = said if len(said) <= _MOST_SAID else f"{said[:_MOST_SAID]}…"
        text += f" The plugin says of it, unchecked: {quoted(cut)}."
    return f"{text} {reasons}" if reasons else text


@dataclass(frozen=True, slots=True)
class _Act:
    """What a transaction of one type does, where its lines do not say it.

    Attributes:
        text: with the record's details in braces.
        fixed: names of the details that stay as they were shown until it is carried out.
    """

    text: str
    fixed: tuple[str, ...]


_ACTS: Final[Mapping[str, _Act]] = {
    TransactionType.STAKE: _Act(
        "stake {amount} SOL with validator {validator}", ("amount", "validator")
    ),
    TransactionType.UNSTAKE: _Act(
        "unstake {amount} SOL of stake {stakeAccount} at validator {validator}",
        ("stakeAccount", "validator"),
    ),
    TransactionType.WITHDRAW_STAKE: _Act(
        "withdraw {amount} SOL of stake {stakeAccount} to the wallet", ("stakeAccount",)
    ),
    TransactionType.WRAP_SOL: _Act(
        "wrap {amount} SOL in its account {account}", ("amount", "account")
    ),
    TransactionType.UNWRAP_SOL: _Act(
        "unwrap {amount} SOL by closing its account {account}", ("account",)
    ),
    TransactionType.TOKEN_LAUNCH: _Act(
        "launch token {name} ({symbol}) with {decimals} decimals, and mint {supply} of it to the"
        " wallet",
        ("name", "symbol", "decimals", "supply"),
    ),
    TransactionType.MINT_SUPPLY: _Act(
        "mint {amount} of token {mint} to its account {account}", ("amount", "mint", "account")
    ),
    TransactionType.REVOKE_AUTHORITY: _Act(
        "give up the {authorityType} authority of token {mint} for ever", ("authorityType", "mint")
    ),
    TransactionType.CLOSE_ACCOUNT: _Act(
        "close its account {account} of token {mint}", ("account", "mint")
    ),
    TransactionType.RECLAIM_RENT: _Act(
        "take back {reclaimed} SOL of rent, by closing {closed} empty token accounts and reducing"
        " {reduced}",
        ("reclaimed", "closed", "reduced"),
    ),
    TransactionType.AIRDROP: _Act("ask the faucet for {amount} SOL", ("amount",)),
    TransactionType.PAYMENT: _Act("{asked} for {method} {url}", ("method", "url")),
}
# Of a plugin's own words, so many characters are shown.
_MOST_SAID: Final = 500
# Hexadecimal digits of a digest: nobody makes two requests that have these in common by chance.
_SHOWN_DIGITS: Final = 12


def fixed_details(type_: str) -> tuple[str, ...]:
    """Names of the details that a transaction of this type must have as they were shown."""
    act = _ACTS.get(type_)
    return () if act is None else act.fixed


def _act(intent: Intent, asked: str, digest: str, names: Names) -> str:
    """What a planned transaction does; `asked` says what leaves by its bytes."""
    act = _ACTS.get(intent.type)
    words = {name: _detail(name, each, names) for name, each in intent.details.items()}
    try:
        text = asked if act is None else act.text.format_map({**words, "asked": asked})
    except KeyError:
        # A plan that failed early knows no more than what was asked for.
        text = asked
    if intent.type == TransactionType.OTHER and intent.may_close:
        text += f", which may close {_and(sorted(intent.may_close))}"
    return f"{text} (request {digest[:_SHOWN_DIGITS]})" if digest else text


def _detail(name: str, value: object, names: Names) -> str:
    if isinstance(value, Decimal | int):
        return format_amount(value)
    return (
        unit_name(value, names) if name == "mint" and isinstance(value, str) else _plain(str(value))
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
    """What is left of one limit: `1.2 of 20 USDC left in 24 hours; more at 14:05 UTC`.

    Args:
        asset: a limit's asset, `USD`, `COSTS` or `RATE`, which has no decimals.
        used: smallest units, or transactions, in the window that ends now.
        room_ms: when the next of it leaves the window; None where nothing does.
        now_ms: when it is said, since that time has its date where it is another day's.
    """
    n = _limit_numbers(
        asset,
        decimals,
        names,
        window.most,
        left=max(0, window.most - used),
        window_ms=window.length_ms,
    )
    left = f"{_left(n)}{_within(n)}"
    return left if room_ms is None else f"{left}; more at {_clock(room_ms, now_ms)}"


def can_leave_sentence(
    wallet_id: str | None, amounts: Mapping[str, tuple[int, int] | None], names: Names
) -> str:
    """The most that can leave a wallet today, whoever asks but the operator.

    Args:
        wallet_id: None for the wallet of an agent that is not made yet.
        amounts: asset (`ANY_ASSET` in micro-dollars, `COSTS` in lamports too) -> smallest units and
            decimals; None where nothing bounds it. What is missing cannot leave.
    """
    assets = [each for each in sorted_assets(amounts) if each != COSTS]
    other = _other(len(assets) == 1)
    most = []
    for asset in (*assets, *(each for each in (COSTS,) if each in amounts)):
        bound, is_other = amounts[asset], asset == ANY_ASSET
        if bound is None:
            unit = other if is_other else f"of {_unit(asset, names)}"
            most.append(f"any amount {unit}")
        elif bound[0]:
            amount = _amount(*bound, USD if is_other else asset, names)
            most.append(f"{amount} {other}" if is_other else amount)
    wallet = "its wallet" if wallet_id is None else f"wallet {_named('wallet', wallet_id, names)}"
    if not most:
        return f"Nothing can leave {wallet} today {_BUT_OPERATOR}."
    said = f"{_and(most)} can leave {wallet} today {_BUT_OPERATOR}."
    return f"At most {said}" if any(amounts.values()) else _capital(said)


def beside_sentence(assets: Sequence[str]) -> str:
    """Of assets by name: that the dollars `can_leave_sentence` says may leave as these too."""
    return (
        f"What it says in dollars may leave as {_and(list(assets))} too, beside their own amounts."
    )


def principal_name(who: str, names: Names) -> str:
    """`agent scout`: a principal in words, as the sentences have it."""
    kind, _, own_id = who.partition(":")
    # A site is spelled in one way, which says no more than it is.
    return f"{kind} {own_id if who.startswith(SITE) else _named(kind, own_id, names)}"


# A grant in words.


def _limits(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The asset's name and the limits of each asset."""
    for name, limit in document.get("assets", {}).items():
        yield name, limit["usd"] if name == ANY_ASSET else limit


def _limit(name: str, limit: Mapping[str, Any], *, is_alone: bool) -> str:
    amounts = [(limit["perTx"], _AT_ONCE)] if "perTx" in limit else []
    amounts += [(most, _each(window)) for window, most in limit["per"].items()]
    if name == ANY_ASSET:
        return f"{_and([f'${amount} {each}' for amount, each in amounts])} {_other(is_alone)}"
    (amount, each), *further = amounts
    return _and([f"{amount} {name} {each}", *(f"{amount} {each}" for amount, each in further)])


def _other(is_alone: bool) -> str:
    return "of any asset" if is_alone else "of any other asset"


def _asks(document: Mapping[str, Any]) -> Iterator[str]:
    """When a person is asked, and that nothing goes to somebody new."""
    holds = [
        f"${limit['hold']}" if name == ANY_ASSET else f"{limit['hold']} {name}"
        for name, limit in _limits(document)
        if "hold" in limit
    ]
    new = document.get("new")
    asks = [f"above {_or(holds)}"] if holds else []
    if new == NewRecipient.HOLD:
        asks.append(f"or {_SOMEBODY_NEW}," if holds else _SOMEBODY_NEW)
    if asks:
        yield ", ".join(asks) + _ASKED
    if new == NewRecipient.REFUSE:
        yield _NOBODY_NEW


def _rates(rates: Mapping[str, int]) -> str:
    (window, most), *further = rates.items()
    many = "transaction" if most == 1 else "transactions"
    words = [f"{most} {_each(window)}" for window, most in further]
    return _and([f"{most} {many} {_each(window)}", *words])


@dataclass(frozen=True, slots=True)
class _Clause:
    """A field of the document as a clause of its sentence, and back.

    Attributes:
        path: the field; before a dot, the one that it is in.
        before: words before the value.
        after: words after it.
        pattern: of the value's words.
        write: the value's words.
        read: the value of such words.
    """

    path: str
    before: str
    after: str = ""
    pattern: str = ".*"
    write: Callable[[Any], str] = str
    read: Callable[[str], Any] = str


def _clauses(document: Mapping[str, Any]) -> Iterator[str]:
    for clause in _CLAUSES:
        parent, _, field = clause.path.rpartition(".")
        value = (document.get(parent, {}) if parent else document).get(field)
        if value is not None:
            yield f"{clause.before}{clause.write(value)}{clause.after}"


# And back.


def _read_limit(text: str, assets: dict[str, Any]) -> None:
    amounts = text
    for is_alone in (True, False):
        amounts = amounts.removesuffix(f" {_other(is_alone)}")
    first, *further = _items(amounts)
    match = _FIRST.fullmatch(first)
    if match is None:
        raise _unclear(first)
    limit: dict[str, Any] = {"per": {}}
    asset = ANY_ASSET if match[1] else match[3]
    if asset in assets:
        raise InvalidRequest(f"{asset} stands twice in the sentence")
    assets[asset] = {"usd": limit} if match[1] else limit
    _add_amount(limit, match[1] or match[2], match[4])
    for each in further:
        match = _FURTHER.fullmatch(each)
        if match is None:
            raise _unclear(each)
        _add_amount(limit, match[1], match[2])


def _add_amount(limit: dict[str, Any], amount: str, period: str) -> None:
    into, key = (limit, "perTx") if period == _AT_ONCE else (limit["per"], _read_period(period))
    if key in into:
        raise InvalidRequest(f"{amount} {period} is said beside another amount {period}")
    into[key] = amount


def _read_clause(text: str, document: dict[str, Any]) -> None:
    if text.endswith(_ASKED):
        _read_asks(text.removesuffix(_ASKED), document)
        return
    if text == _NOBODY_NEW:
        _put(document, "new", NewRecipient.REFUSE.value, text)
        return
    for clause in _CLAUSES:
        before, after = re.escape(clause.before), re.escape(clause.after)
        match = re.fullmatch(f"{before}({clause.pattern}){after}", text, re.DOTALL)
        if match is not None:
            _put(document, clause.path, clause.read(match[1]), text)
            return
    raise _unclear(text)


def _put(document: dict[str, Any], path: str, value: object, clause: str) -> None:
    parent, _, field = path.rpartition(".")
    into = document.setdefault(parent, {}) if parent else document
    if field in into:
        raise InvalidRequest(f"{quoted(clause)} is said beside another such clause")
    into[field] = value


def _read_asks(text: str, document: dict[str, Any]) -> None:
    amounts = "" if text == _SOMEBODY_NEW else text.removesuffix(f", or {_SOMEBODY_NEW},")
    if amounts != text:
        if "new" in document:
            raise InvalidRequest("What becomes of somebody new is said twice")
        document["new"] = NewRecipient.HOLD.value
    if not amounts:
        return
    if not amounts.startswith("above "):
        raise _unclear(text)
    for each in _items(amounts.removeprefix("above "), " or "):
        match = re.fullmatch(rf"\$({_AMOUNT})|({_AMOUNT}) ([A-Za-z0-9]+)", each)
        if match is None:
            raise _unclear(each)
        asset = ANY_ASSET if match[1] else match[3]
        limit = document.get("assets", {}).get(asset)
        if limit is None:
            raise InvalidRequest(f"The sentence says above what {asset} is asked, and no limit")
        limit = limit["usd"] if asset == ANY_ASSET else limit
        if "hold" in limit:
            raise InvalidRequest(f"Above what {asset} is asked is said twice")
        limit["hold"] = match[1] or match[2]


def _read_rates(text: str) -> dict[str, int]:
    rates: dict[str, int] = {}
    for each in _items(text):
        match = _RATE.fullmatch(each)
        if match is None or match[2] == _AT_ONCE or len(match[1]) > 20:
            raise _unclear(each)
        period = _read_period(match[2])
        if period in rates:
            raise InvalidRequest(f"{each} is said beside another number {match[2]}")
        rates[period] = int(match[1])
    return rates


def _read_period(text: str) -> str:
    found = _EACH_BACK.get(text)
    if found is not None:
        return found
    match = _IN.fullmatch(text)
    if match is None:
        raise _unclear(text)
    return f"{match[1]}{match[2][0]}"


def _hundredths(bps: int) -> str:
    return amount_text(bps, 2)


def _read_percent(text: str) -> int:
    whole, _, fraction = text.partition(".")
    if len(whole) > 5 or len(fraction) > 2:
        raise InvalidRequest(f"{quoted(text[:60])}% has too many digits; hundredths are expected")
    return int(whole + fraction.ljust(2, "0"))


def _read_name(text: str) -> str:
    """The id that stands in parentheses, else the name or id itself."""
    match = re.fullmatch(rf"{_QUOTED} \((.+)\)", text)
    named = match[1] if match else text
    return str(json.loads(named)) if named.startswith('"') else named


def _known(words: Mapping[str, str], text: str) -> str:
    found = words.get(text)
    if found is None:
        raise InvalidRequest(f"{', '.join(words)} are expected, not {quoted(text[:60])}")
    return found


def _missing(text: str) -> str:
    """What of a sentence's form a text lacks first."""
    subject, may, _ = text.partition(" may ")
    kind = subject.partition(" ")[0]
    if not may:
        return ': " may " is missing' if text else ""
    if kind not in _SUBJECTS:
        return f": {', '.join(_SUBJECTS)} are expected first, not {quoted(kind[:60])}"
    if _HEAD.match(text) is None:
        return f": {quoted(subject[:60])} is no {kind.lower()}'s name"
    return ": it has no full stop at its end"


def _unclear(text: str) -> InvalidRequest:
    """Names the first word that no sentence has, and the one that may have been meant."""
    text = text.strip()[:60]
    before, unknown = "", None
    for word in re.findall(r"[^\s,;]+", text):
        # A unit stands behind an amount.
        is_unit = re.fullmatch(rf"\$?{_AMOUNT}", before) is not None
        if not (is_unit or word in _WORDS or re.fullmatch(rf"\$?{_AMOUNT}%?", word)):
            unknown = word
            break
        before = word
    if unknown is None or unknown == text:
        return InvalidRequest(f"{quoted(text)} is not understood")
    near = difflib.get_close_matches(unknown, _WORDS, 1)
    meant = f", did you mean {quoted(near[0])}?" if near else ""
    return InvalidRequest(f"{quoted(text)} is not understood: {quoted(unknown)}{meant}")


_CLAUSES: Final = (
    _Clause("costs", "fees and rent up to ", " SOL a day", _AMOUNT),
    _Clause("rate", "at most ", write=_rates, read=_read_rates),
    _Clause(
        *("hours", "from ", " UTC", r"\S+ to \S+"),
        write=lambda hours: hours.removesuffix(" UTC").replace("-", " to "),
        read=lambda words: f"{words.replace(' to ', '-')} UTC",
    ),
    _Clause("until", "until ", "", r"\S+"),
    _Clause(
        *("swap.into", "swaps only into "),
        write=lambda into: _or(into),
        read=lambda words: _items(words, " or "),
    ),
    _Clause("swap.slippageBps", "slippage at most ", "%", _AMOUNT, _hundredths, _read_percent),
    _Clause("swap.impactBps", "price impact at most ", "%", _AMOUNT, _hundredths, _read_percent),
)


# Findings.


class _Words:
    """What the sentences of one finding are made of.

    Attributes:
        who: `agent scout`.
        grant: `grant 3 of agent scout`.
        gives: `grant 3 gives agent scout`.
        lets_not: `Grant 3 does not let agent scout`, before what it does.
        does: what is asked for.
        asset: the line's.
        n: the numbers, of which `left` is said by some.
        asked: `6 USDC`, `$6 of USDC`.
    """

    def __init__(self, finding: Finding, names: Names) -> None:
        who, number = principal_name(finding.who, names), finding.number
        self.names, self.who = names, who
        self.grant, self.gives = who, f"{who} has"
        self.lets_not = f"{_capital(who)} has no grant to"
        if number is not None:
            self.grant = f"grant {number} of {who}"
            self.gives = f"grant {number} gives {who}"
            self.lets_not = f"Grant {number} does not let {who}"
        self.does = _does(finding, names)
        line, limit = finding.line, finding.limit or 0
        self.asset = "the asset" if line is None else _unit(line.asset, names)
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

    def than(self, more: str) -> Refusal:
        """More than a limit that the grant gives, whatever was used of it."""
        n = replace(self.n, left=None)
        return Refusal(f"{self.asked} is more than the {_most(n)}{more} that {self.gives}.", n)


def _other_wallet(finding: Finding, w: _Words) -> str:
    wallet = f"{_named('wallet', finding.detail, w.names)} only" if finding.detail else "another"
    return f"{_capital(w.grant)} is for wallet {wallet}."


def _via(finding: Finding, w: _Words) -> str:
    number, sites = finding.number, finding.detail or "other sites"
    may = f"{_capital(w.who)} may" if number is None else f"Grant {number} lets {w.who}"
    return f"{may} pay through {sites} only."


def _somebody_new(finding: Finding) -> str:
    alike = f", though it looks like {finding.detail}, which was" if finding.detail else ""
    return f"{_address(finding.line)} was never paid from this wallet{alike}"


def _window(finding: Finding, w: _Words) -> Refusal | str:
    if finding.why is Why.COSTS and not finding.limit:
        return f"{_capital(w.grant)} pays no network fee and no rent."
    if (finding.requested or 0) > (finding.limit or 0):
        return w.than(_within(w.n))
    asked = w.asked if w.n.unit is None else w.n.asked
    is_one = w.n.unit is None or asked == "1" or finding.why is Why.COSTS
    wanted = f"{asked} {'is' if is_one else 'are'} asked"
    has = f"{_capital(w.grant)} has {_left(w.n)}{_within(w.n)}"
    return Refusal(f"{has}; {wanted}{_room(finding)}", w.n)


def _rate(finding: Finding, w: _Words) -> Refusal:
    limit, used = finding.limit or 0, finding.used or 0
    n = _limit_numbers(RATE, 0, w.names, limit, used=used, window_ms=finding.window_ms)
    made = f"{n.used} {'was' if used == 1 else 'were'} made"
    return Refusal(f"{_capital(w.grant)} allows {_most(n)}{_within(n)}; {made}{_room(finding)}", n)


def _bound(what: str, finding: Finding, w: _Words) -> Refusal:
    most = f"{_hundredths(finding.limit or 0)}%"
    if finding.requested is None:
        n = RefusalNumbers(limit=most, unit=what)
        return Refusal(f"The {n.unit} is not known; {w.grant} allows at most {n.limit}.", n)
    n = RefusalNumbers(asked=f"{_hundredths(finding.requested)}%", limit=most, unit=what)
    return Refusal(f"{n.asked} {n.unit} is more than the {n.limit} that {w.gives}.", n)


def _into(finding: Finding, w: _Words) -> str:
    bought = _unit(finding.detail, w.names) if finding.detail else "what it would buy"
    return f"{w.lets_not} swap into {bought}."


def _decimals(finding: Finding, w: _Words) -> Refusal:
    says, known = finding.requested, finding.limit
    n = RefusalNumbers(
        asked=None if says is None else str(says),
        limit=None if known is None else str(known),
        unit="decimals",
    )
    said = "does not say" if says is None else f"says {n.asked} for"
    written = f"{w.grant} was written for {n.limit or 'what it had'}"
    return Refusal(f"The transaction {said} the decimals of {w.asset}; {written}.", n)


def _price(finding: Finding, w: _Words) -> str:
    reason = f": {_one_line(finding.detail)}" if finding.detail else ""
    return f"What {w.asset} is worth is not known, and {w.grant} counts in dollars{reason}."


def _no_grant(_finding: Finding, w: _Words) -> str:
    return f"{_capital(w.who)} has no grant to {w.does}."


_FINDINGS: Final[Mapping[Why, Callable[[Finding, _Words], Refusal | str]]] = {
    Why.NO_GRANT: _no_grant,
    Why.DEFAULT: _no_grant,
    Why.WALLET: _other_wallet,
    Why.VIA: _via,
    Why.RECIPIENT: lambda f, w: f"{w.lets_not} {w.does} {_to(f.line)}.",
    Why.NEW_RECIPIENT: lambda f, w: f"{_somebody_new(f)}; {w.grant} pays nobody new.",
    Why.HOURS: lambda f, w: f"{_capital(w.grant)} applies at {f.detail or 'other hours'} only.",
    Why.ENDED: lambda f, w: f"{_capital(w.grant)} ended{f' at {f.detail}' if f.detail else ''}.",
    Why.PER_TX: lambda _, w: w.than(" at once"),
    Why.WINDOW: _window,
    Why.RATE: _rate,
    Why.COSTS: _window,
    Why.SLIPPAGE: partial(_bound, "slippage"),
    Why.IMPACT: partial(_bound, "price impact"),
    Why.INTO: _into,
    Why.DECIMALS: _decimals,
    Why.PRICE: _price,
    Why.ABOVE_HOLD: lambda _, w: (
        f"{w.asked} is more than the {_most(w.n)} above which {w.grant} asks a person."
    ),
}


# What findings are made of.


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
    """What a sentence says of a limit, from smallest units, or transactions for `RATE`."""

    def text(units: int | None) -> str | None:
        if units is None:
            return None
        return _dollars(units) if asset == USD else amount_text(units, decimals)

    unit = None if asset == USD else _unit(asset, names, limit)
    window = None if window_ms is None else _length(window_text(window_ms))
    return RefusalNumbers(text(asked), text(limit), text(left), text(used), unit, window)


def _most(n: RefusalNumbers) -> str:
    return f"{n.limit}" if n.unit is None else f"{n.limit} {n.unit}"


def _left(n: RefusalNumbers) -> str:
    """`1.2 of 20 USDC left`."""
    return f"{n.left} of {_most(n)} left"


def _within(n: RefusalNumbers) -> str:
    return "" if n.window is None else f" in {n.window}"


def _room(finding: Finding) -> str:
    if finding.room_ms is None:
        return "."
    return f"; room at {_clock(finding.room_ms, finding.now_ms)}."


def _quantity(line: Line, names: Names) -> str:
    """`3 USDC`."""
    if line.asset == SOL:
        return _amount(line.units, SOL_DECIMALS, SOL, names)
    if line.decimals is None:
        return f"{line.units} smallest units of {_unit(line.asset, names)}"
    return _amount(line.units, line.decimals, line.asset, names)


def _line(line: Line, names: Names, own_id: str | None) -> str:
    """`transfer 3 USDC to <address>`: what is asked for; `own_id` is of the wallet it funds."""
    amount = _quantity(line, names)
    doing = _doing(line, names, amount)
    if line.operation is Operation.FUND and own_id is not None:
        doing = f"fund the own wallet {_named('wallet', own_id, names)} with {amount}"
    return f"{doing} {_to(line)}" if line.operation in _RECEIVED else doing


def _doing(line: Line, names: Names, amount: str | None = None) -> str:
    what = amount or _unit(line.asset, names)
    if line.operation is Operation.LAUNCH:
        token = _unit(line.asset, names)
        return "launch a token" if amount is None else f"make, mint or give up token {token}"
    if line.operation is Operation.FUND:
        return f"fund an own wallet with {what}"
    return f"{line.operation.value} {what}"


def _does(finding: Finding, names: Names) -> str:
    line = finding.line
    if line is None:
        return "make a transaction"
    if finding.who.startswith(SITE) and line.operation is Operation.PAY:
        return f"{_BE_PAID} {_unit(line.asset, names)}"
    return _doing(line, names)


def _to(line: Line | None) -> str:
    address = _address(line)
    venue = address.removeprefix("venue:")
    return f"at {_plain(venue)}" if venue != address else f"to {address}"


def _address(line: Line | None) -> str:
    """Who receives, whole."""
    return (line and (line.owner or line.account)) or "somebody"


# Words of all sentences.


def _named(kind: str, own_id: str, names: Names) -> str:
    """What others named: a plain word where it means nobody else, else quoted and with the id."""
    name = names.name(kind, own_id)
    if name is None or name == own_id:
        return _plain(own_id)
    if _PLAIN.fullmatch(name) and tuple(names.ids(kind, name)) == (own_id,):
        return name
    return f"{quoted(name)} ({_plain(own_id)})"


def _plain(text: str) -> str:
    return text if _PLAIN.fullmatch(text) else quoted(text)


def _one_line(text: str) -> str:
    return quoted(text)[1:-1]


def _unit(asset: str, names: Names, count: int = 2) -> str:
    """`USDC`, `SOL of fees and rent`; of so many transactions, where these are the unit."""
    if asset == RATE:
        return "transaction" if count == 1 else "transactions"
    return f"{SOL} of fees and rent" if asset == COSTS else unit_name(asset, names)


def _amount(units: int, decimals: int, asset: str, names: Names) -> str:
    if asset == USD:
        return _dollars(units)
    return f"{amount_text(units, decimals)} {_unit(asset, names)}"


def _dollars(units: int) -> str:
    return f"${amount_text(units, USD_DECIMALS)}"


def _each(window: str) -> str:
    """`a day` for `24h`, `in 3 days`."""
    return _EACH.get(window) or f"in {_length(window)}"


def _length(window: str) -> str:
    """`24 hours`, `a minute`, `7 days`."""
    return _EACH[window] if window in ("1m", "1h") else f"{window[:-1]} {_UNITS[window[-1]]}"


def _clock(ms: int, now_ms: int | None) -> str:
    """The minute from which it holds, in UTC; with its date unless that is the day of `now_ms`."""
    minute = -(-ms // MINUTE_MS) * MINUTE_MS
    moment = datetime.fromtimestamp(minute // 1_000, UTC)
    is_today = now_ms is not None and minute // DAY_MS == now_ms // DAY_MS
    return f"{moment:%H:%M} UTC" if is_today else f"{moment:%Y-%m-%d %H:%M} UTC"


def _and(items: Sequence[str], last: str = " and ") -> str:
    *first, end = items
    return f"{', '.join(first)}{last}{end}" if first else end


def _or(items: Sequence[str]) -> str:
    return _and(items, " or ")


def _items(text: str, last: str = " and ") -> list[str]:
    """The items of such a list."""
    *first, end = text.split(last)
    return [*(each for part in first for each in part.split(", ")), end]


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
