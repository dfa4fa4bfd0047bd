"""Sentences for people and models: about grants, which can be parsed, and about what can leave.

A sentence is one line of plain text; `vault.grants.spelling` quotes names that others chose. A
sentence is parsed to a document, which `grant_documents` checks.
"""

from __future__ import annotations

import difflib
import json
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, Operation
from solward.types.site import SITE, SITE_PATTERN
from solward.vault.grants.model import ANY_ASSET, ANYBODY, OWN, USD, NewRecipient, sorted_assets
from solward.vault.grants.spelling import (
    APPROVE,
    BE_PAID,
    ID_PATTERN,
    SENT,
    THROUGH,
    Names,
    amount_of,
    asset_unit,
    capital,
    hundredths,
    joined,
    length_text,
    named,
    principal_name,
    quoted,
)

_EACH: Final = {"1m": "a minute", "1h": "an hour", "24h": "a day", "7d": "a week"}
_EACH_BACK: Final = {words: window for window, words in _EACH.items()}
_AT_ONCE: Final = "at once"
_MAY_WORDS: Final = {each.value: each.value for each in Operation} | {
    APPROVE: "approve what is held"
}
_MAY_BACK: Final = {words: word for word, words in _MAY_WORDS.items()}
# Grants of agents and keys do not bind the admin secret; ceilings and the wallet's grants do.
_BUT_OPERATOR: Final = "by anybody but the operator"
_SITES_MAY_BACK: Final = {BE_PAID: Operation.PAY.value}
_RECIPIENTS: Final = {ANYBODY: "anybody", OWN: "own wallets"}
_RECIPIENTS_BACK: Final = {words: text for text, words in _RECIPIENTS.items()}
_ASKED: Final = " a person is asked"
_SOMEBODY_NEW: Final = "to somebody new"
_NOBODY_NEW: Final = "nothing to somebody new"
_QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
_NAME: Final = rf"(?:{_QUOTED} \((?:{ID_PATTERN}|{_QUOTED})\)|{_QUOTED}|{ID_PATTERN})"
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
# All words that may follow the operations in a sentence, except numbers, names and units.
_VOCABULARY: Final = (
    "a above an and any anybody as asked asset at by day days fees from hour hours impact in into"
    " is least minute minutes most new nothing of once only operator or other own person price"
    " rent slippage somebody swaps through to transaction transactions until up week wallets UTC"
)
_WORDS: Final = frozenset(_VOCABULARY.split())


def document_sentence(document: Mapping[str, Any], names: Names) -> str:
    """Return the sentence for a grant's document that `grant_json` wrote."""
    who, may = document["who"], document["may"]
    is_site = who.startswith(SITE)
    does = BE_PAID if is_site else joined([_MAY_WORDS[each] for each in may])
    text = f"{capital(principal_name(who, names))} may {does}"
    if "wallet" in document:
        text += f" from {named('wallet', document['wallet'], names)}"
    limits = list(_asset_limits(document))
    if limits:
        text += " " + ", and ".join(
            f"up to {_limit_words(*each, is_alone=len(limits) == 1)}" for each in limits
        )
    to = document.get("to", [] if is_site or SENT.isdisjoint(may) else [ANYBODY])
    if to:
        text += f", to {joined([_RECIPIENTS.get(each, each) for each in to])}"
    if "via" in document:
        text += THROUGH + joined([each.removeprefix(SITE) for each in document["via"]], " or ")
    return "; ".join((text, *_asking_clauses(document), *_further_clauses(document))) + "."


DEFAULTS_SENTENCE: Final = (
    "Without grants SOL may leave within the ceilings, tokens may be swapped within the bounds of"
    " swaps, and tokens that the wallet launched may be burned; no token may be transferred or"
    " paid."
)


def read_only_sentence(who: str, names: Names) -> str:
    """Return the sentence for a principal that is under grants and has no grant."""
    if who.startswith(SITE):
        return f"{capital(principal_name(who, names))} may not be paid."
    return f"{capital(principal_name(who, names))} may only read."


def read_sentence(text: str) -> dict[str, Any]:
    """Parse a grant's sentence to a document, which `read_grant` then checks.

    Raises:
        InvalidRequest: the text is not a grant's sentence; names the words that are not understood.
    """
    head = _HEAD.match(text)
    if head is None or not text.endswith("."):
        raise InvalidRequest(
            'A sentence such as "Agent scout may transfer up to 5 USDC at once and 20 a day, to '
            f'@vendors." is expected{_missing_part(text)}'
        )
    who = f"{SITE}{head[3]}" if head[3] else f"{head[1].lower()}:{_read_name(head[2])}"
    document: dict[str, Any] = {"who": who}
    rest = text[head.end() : -1]
    may = _MAY.match(rest)
    words = may[0] if may else rest
    rest = rest[len(words) :]
    known = _SITES_MAY_BACK if head[3] else _MAY_BACK
    document["may"] = [_word_for(known, each) for each in _list_items(words)]
    wallet = _FROM.match(rest)
    if wallet is not None:
        document["wallet"] = _read_name(wallet[1])
        rest = rest[wallet.end() :]
    body, *clauses = rest.split("; ")
    body, through, sites = body.partition(THROUGH)
    if through:
        document["via"] = [f"{SITE}{each}" for each in _list_items(sites, " or ")]
    limits, _, recipients = body.partition(", to ")
    if limits:
        if not limits.startswith(" up to "):
            raise _unclear_error(limits)
        document["assets"] = {}
        for each in limits.removeprefix(" up to ").split(", and up to "):
            _read_limit(each, document["assets"])
    if recipients and recipients != _RECIPIENTS[ANYBODY]:
        document["to"] = [_RECIPIENTS_BACK.get(each, each) for each in _list_items(recipients)]
    for clause in clauses:
        _read_clause(clause, document)
    return document


def can_leave_sentence(
    wallet_id: str | None, amounts: Mapping[str, tuple[int, int] | None], names: Names
) -> str:
    """Return the sentence about the maximum that anybody but the operator can move in a day.

    Args:
        wallet_id: the wallet's id; None for the wallet of an agent that does not exist yet.
        amounts: asset (also `ANY_ASSET` in micro-dollars, `COSTS` in lamports) -> smallest units
            and decimals; None if nothing limits the asset. An asset that is missing cannot leave.
    """
    assets = [each for each in sorted_assets(amounts) if each != COSTS]
    other = _asset_text(len(assets) == 1)
    most = []
    for asset in (*assets, *(each for each in (COSTS,) if each in amounts)):
        bound, is_other = amounts[asset], asset == ANY_ASSET
        if bound is None:
            unit = other if is_other else f"of {asset_unit(asset, names)}"
            most.append(f"any amount {unit}")
        elif bound[0]:
            amount = amount_of(*bound, USD if is_other else asset, names)
            most.append(f"{amount} {other}" if is_other else amount)
    wallet = "its wallet" if wallet_id is None else f"wallet {named('wallet', wallet_id, names)}"
    if not most:
        return f"Nothing can leave {wallet} today {_BUT_OPERATOR}."
    said = f"{joined(most)} can leave {wallet} today {_BUT_OPERATOR}."
    return f"At most {said}" if any(amounts.values()) else capital(said)


def unlimited_sentence(through: Sequence[str], others: int, names: Names) -> str:
    """Return the sentence that names whom nothing limits, and the command that does.

    Args:
        through: principals that may be named; the first three are.
        others: the number of further principals.
    """
    named_ = [principal_name(each, names) for each in through[:3]]
    others += len(through) - len(named_)
    if others:
        what = "another" if named_ else "one principal"
        many = "others" if named_ else "principals"
        named_.append(what if others == 1 else f"{others:,} {many}")
    verb = "has" if len(named_) == 1 and (through or others == 1) else "have"
    return (
        f"{capital(joined(named_))} {verb} no grants, so nothing limits how much of a token can be"
        " swapped; limit it with `solward policy grant add`."
    )


def extra_dollars_sentence(assets: Sequence[str]) -> str:
    """Return the sentence that dollars of `can_leave_sentence` may also leave as these assets."""
    return (
        f"The amount in dollars may also leave as {joined(list(assets))}, in addition to their own"
        " amounts."
    )


def _asset_limits(document: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    for name, limit in document.get("assets", {}).items():
        yield name, limit["usd"] if name == ANY_ASSET else limit


def _limit_words(name: str, limit: Mapping[str, Any], *, is_alone: bool) -> str:
    amounts = [(limit["perTx"], _AT_ONCE)] if "perTx" in limit else []
    amounts += [(most, _window_words(window)) for window, most in limit["per"].items()]
    if name == ANY_ASSET:
        return (
            f"{joined([f'${amount} {each}' for amount, each in amounts])} {_asset_text(is_alone)}"
        )
    (amount, each), *further = amounts
    return joined([f"{amount} {name} {each}", *(f"{amount} {each}" for amount, each in further)])


def _asset_text(is_alone: bool) -> str:
    return "of any asset" if is_alone else "of any other asset"


def _asking_clauses(document: Mapping[str, Any]) -> Iterator[str]:
    """Yield the clauses that say when a person is asked, and what new recipients may get."""
    holds = [
        f"${limit['hold']}" if name == ANY_ASSET else f"{limit['hold']} {name}"
        for name, limit in _asset_limits(document)
        if "hold" in limit
    ]
    new = document.get("new")
    asks = [f"above {joined(holds, ' or ')}"] if holds else []
    if new == NewRecipient.HOLD:
        asks.append(f"or {_SOMEBODY_NEW}," if holds else _SOMEBODY_NEW)
    if asks:
        yield ", ".join(asks) + _ASKED
    if new == NewRecipient.REFUSE:
        yield _NOBODY_NEW


def _rate_words(rates: Mapping[str, int]) -> str:
    (window, most), *further = rates.items()
    many = "transaction" if most == 1 else "transactions"
    words = [f"{most} {_window_words(window)}" for window, most in further]
    return joined([f"{most} {many} {_window_words(window)}", *words])


@dataclass(frozen=True, slots=True)
class _Clause:
    """A field of the document, and how its clause in the sentence is written and read.

    Attributes:
        path: the field, such as `rate` or `swap.into`.
        before: words before the value.
        after: words after it.
        pattern: regular expression of the value's words.
        write: converts the value to words.
        read: converts such words to the value.
    """

    path: str
    before: str
    after: str = ""
    pattern: str = ".*"
    write: Callable[[Any], str] = str
    read: Callable[[str], Any] = str


def _further_clauses(document: Mapping[str, Any]) -> Iterator[str]:
    for clause in _CLAUSES:
        parent, _, field = clause.path.rpartition(".")
        value = (document.get(parent, {}) if parent else document).get(field)
        if value is not None:
            yield f"{clause.before}{clause.write(value)}{clause.after}"


def _read_limit(text: str, assets: dict[str, Any]) -> None:
    amounts = text
    for is_alone in (True, False):
        amounts = amounts.removesuffix(f" {_asset_text(is_alone)}")
    first, *further = _list_items(amounts)
    match = _FIRST.fullmatch(first)
    if match is None:
        raise _unclear_error(first)
    limit: dict[str, Any] = {"per": {}}
    asset = ANY_ASSET if match[1] else match[3]
    if asset in assets:
        raise InvalidRequest(f"{asset} stands twice in the sentence")
    assets[asset] = {"usd": limit} if match[1] else limit
    _add_amount(limit, match[1] or match[2], match[4])
    for each in further:
        match = _FURTHER.fullmatch(each)
        if match is None:
            raise _unclear_error(each)
        _add_amount(limit, match[1], match[2])


def _add_amount(limit: dict[str, Any], amount: str, period: str) -> None:
    into, key = (limit, "perTx") if period == _AT_ONCE else (limit["per"], _read_period(period))
    if key in into:
        raise InvalidRequest(f"{amount} {period} is given in addition to another amount {period}")
    into[key] = amount


def _read_clause(text: str, document: dict[str, Any]) -> None:
    if text.endswith(_ASKED):
        _read_asks(text.removesuffix(_ASKED), document)
        return
    if text == _NOBODY_NEW:
        _put_value(document, "new", NewRecipient.REFUSE.value, text)
        return
    for clause in _CLAUSES:
        before, after = re.escape(clause.before), re.escape(clause.after)
        match = re.fullmatch(f"{before}({clause.pattern}){after}", text, re.DOTALL)
        if match is not None:
            _put_value(document, clause.path, clause.read(match[1]), text)
            return
    raise _unclear_error(text)


def _put_value(document: dict[str, Any], path: str, value: object, clause: str) -> None:
    parent, _, field = path.rpartition(".")
    into = document.setdefault(parent, {}) if parent else document
    if field in into:
        raise InvalidRequest(f"{quoted(clause)} is given in addition to another such clause")
    into[field] = value


def _read_asks(text: str, document: dict[str, Any]) -> None:
    amounts = "" if text == _SOMEBODY_NEW else text.removesuffix(f", or {_SOMEBODY_NEW},")
    if amounts != text:
        if "new" in document:
            raise InvalidRequest(f"{quoted(_SOMEBODY_NEW)} stands twice")
        document["new"] = NewRecipient.HOLD.value
    if not amounts:
        return
    if not amounts.startswith("above "):
        raise _unclear_error(text)
    for each in _list_items(amounts.removeprefix("above "), " or "):
        match = re.fullmatch(rf"\$({_AMOUNT})|({_AMOUNT}) ([A-Za-z0-9]+)", each)
        if match is None:
            raise _unclear_error(each)
        asset = ANY_ASSET if match[1] else match[3]
        limit = document.get("assets", {}).get(asset)
        if limit is None:
            raise InvalidRequest(f"A person is asked above {each}, but {asset} has no limit")
        limit = limit["usd"] if asset == ANY_ASSET else limit
        if "hold" in limit:
            raise InvalidRequest(f"A person is asked above two amounts of {asset}")
        limit["hold"] = match[1] or match[2]


def _read_rates(text: str) -> dict[str, int]:
    rates: dict[str, int] = {}
    for each in _list_items(text):
        match = _RATE.fullmatch(each)
        if match is None or match[2] == _AT_ONCE or len(match[1]) > 20:
            raise _unclear_error(each)
        period = _read_period(match[2])
        if period in rates:
            raise InvalidRequest(f"{each} is given in addition to another number {match[2]}")
        rates[period] = int(match[1])
    return rates


def _read_period(text: str) -> str:
    found = _EACH_BACK.get(text)
    if found is not None:
        return found
    match = _IN.fullmatch(text)
    if match is None:
        raise _unclear_error(text)
    return f"{match[1]}{match[2][0]}"


def _read_percent(text: str) -> int:
    whole, _, fraction = text.partition(".")
    if len(whole) > 5 or len(fraction) > 2:
        raise InvalidRequest(f"{quoted(text[:60])}% has too many digits; hundredths are expected")
    return int(whole + fraction.ljust(2, "0"))


def _read_name(text: str) -> str:
    """Return the id in parentheses or, without parentheses, the whole text."""
    match = re.fullmatch(rf"{_QUOTED} \((.+)\)", text)
    said = match[1] if match else text
    return str(json.loads(said)) if said.startswith('"') else said


def _word_for(words: Mapping[str, str], text: str) -> str:
    found = words.get(text)
    if found is None:
        raise InvalidRequest(f"one of {', '.join(words)} is expected, not {quoted(text[:60])}")
    return found


def _missing_part(text: str) -> str:
    """Return the first part of a grant's sentence that is missing in a text."""
    subject, may, _ = text.partition(" may ")
    kind = subject.partition(" ")[0]
    if not may:
        return ': " may " is missing' if text else ""
    if kind not in _SUBJECTS:
        return f": one of {', '.join(_SUBJECTS)} is expected first, not {quoted(kind[:60])}"
    if _HEAD.match(text) is None:
        return f": {quoted(subject[:60])} is no {kind.lower()}'s name"
    return ": it has no full stop at its end"


def _unclear_error(text: str) -> InvalidRequest:
    """Return the error for a text, with its first unknown word and a similar known word."""
    text = text.strip()[:60]
    before, unknown = "", None
    for word in re.findall(r"[^\s,;]+", text):
        # A word after an amount is a unit.
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
    _Clause("rate", "at most ", write=_rate_words, read=_read_rates),
    _Clause(
        *("hours", "from ", " UTC", r"\S+ to \S+"),
        write=lambda hours: hours.removesuffix(" UTC").replace("-", " to "),
        read=lambda words: f"{words.replace(' to ', '-')} UTC",
    ),
    _Clause("until", "until ", "", r"\S+"),
    _Clause(
        *("swap.into", "swaps only into "),
        write=lambda into: joined(into, " or "),
        read=lambda words: _list_items(words, " or "),
    ),
    _Clause("swap.slippageBps", "slippage at most ", "%", _AMOUNT, hundredths, _read_percent),
    _Clause("swap.impactBps", "price impact at most ", "%", _AMOUNT, hundredths, _read_percent),
)


def _window_words(window: str) -> str:
    """Return a window in words: `a day` for `24h`, `in 3 days`."""
    return _EACH.get(window) or f"in {length_text(window)}"


def _list_items(text: str, last: str = " and ") -> list[str]:
    """Return the items of a list in words, such as "a, b and c"."""
    *first, end = text.split(last)
    return [*(each for part in first for each in part.split(", ")), end]
