"""Reads grants as people write them: in any case, with other words and another order.

`grant_sentences` defines the one spelling that is stored. This module reads other spellings and
returns every meaning that the text can have, as documents. It never guesses: a word that it does
not know is refused, because it could be the one that narrows the grant. A text with several
meanings gives several readings, of which a person chooses.
"""

from __future__ import annotations

import difflib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final, NoReturn

from solward.operations.policies import grant_words as terms
from solward.operations.policies.grant_sentences import read_sentence
from solward.resources.policy import MAX_SENTENCE
from solward.support.base58 import is_address
from solward.types.address_book import AddressBook
from solward.types.errors import InvalidRequest
from solward.types.guardrail import Operation
from solward.types.site import SITE, read_site
from solward.vault.grants.model import ANY_ASSET, ANYBODY, OWN, NewRecipient
from solward.vault.grants.spelling import APPROVE, SENT, Names, quoted

MAX_READINGS: Final = 8
"""The maximum number of readings; a text with more must be written more precisely."""
# The verb "pay", if the text says that it pays for requests.
_PAID_REQUEST: Final = "pay for requests"


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """The names that a text may use.

    Attributes:
        names: names of principals, assets and groups.
        recipients: names of contacts and of the service's wallets.
    """

    names: Names
    recipients: AddressBook

    def asset(self, word: str) -> str | None:
        """Return the symbol that a word spells in any case, or the mint that it is."""
        if is_address(word):
            return word
        symbols = ("SOL", *(each.symbol for each in self.names.tokens))
        return next((each for each in symbols if each.upper() == word.upper()), None)

    def principals(self, kind: str | None, name: str) -> list[str]:
        """Return the principals of a kind, or of any, that have a name or id in any case."""
        kinds = self.names.rows if kind is None else {kind: self.names.rows.get(kind, {})}
        found = [
            f"{each}:{own_id}"
            for each, rows in kinds.items()
            for own_id, called in rows.items()
            if name == own_id or name.casefold() == called.casefold()
        ]
        return list(dict.fromkeys(found))

    def recipient_kind(self, recipient: str) -> str:
        """Return whether `addresses` found a group, a wallet of the service, or a contact."""
        if recipient.startswith("@"):
            return "group"
        return "wallet" if recipient in self.recipients.ids.values() else "contact"

    def addresses(self, name: str) -> list[str]:
        """Return the recipients that a name may mean: addresses, and `@name` for a group."""
        if is_address(name):
            return [name]
        found = {
            address
            for known, addresses in self.recipients.names.items()
            if known.casefold() == name.casefold() and not known.startswith("@")
            for address in addresses
        }
        if name in self.recipients.ids:
            found = {self.recipients.ids[name]}
        group = name.removeprefix("@").casefold()
        groups = [f"@{group}"] if self.names.in_book(group) else []
        return groups if name.startswith("@") else [*sorted(found), *groups]


@dataclass(slots=True)
class _Amount:
    amount: str
    asset: str | None
    period: str | None
    is_joined: bool = False


@dataclass(slots=True)
class _Clause:
    """Operations with the amounts that they share; a text with several gives several grants."""

    verbs: dict[str, None] = field(default_factory=dict)
    amounts: list[_Amount] = field(default_factory=list)
    asks: list[_Amount] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    via: list[str] = field(default_factory=list)
    into: list[str] = field(default_factory=list)
    named: list[str] = field(default_factory=list)


def readings(text: str, words: Vocabulary) -> list[list[dict[str, Any]]]:
    """Return every meaning of a text; each is a list of grants' documents.

    Args:
        text: a sentence, at most `MAX_SENTENCE` characters.

    Raises:
        InvalidRequest: the text has no meaning, or more than `MAX_READINGS`; names the words that
            are not understood, or what is missing.
    """
    text = " ".join(text.split())
    if len(text) > MAX_SENTENCE:
        raise InvalidRequest(f"A sentence of at most {MAX_SENTENCE:,} characters is expected")
    try:
        return [[read_sentence(text)]]
    except InvalidRequest:
        pass
    found: list[list[dict[str, Any]]] = []
    wrong: list[InvalidRequest] = []
    plans: list[tuple[int, ...]] = [()]
    for plan in plans:
        reader = _Reader(text, words, plan)
        try:
            document = reader.read()
        except InvalidRequest as error:
            wrong.append(error)
        else:
            if document not in found:
                found.append(document)
        # Each choice behind the planned ones is tried with its other options.
        for at in range(len(plan), len(reader.options)):
            chosen = (*plan, *[0] * (at - len(plan)))
            plans += [(*chosen, other) for other in range(1, reader.options[at])]
        if len(found) > MAX_READINGS or len(plans) > 4 * MAX_READINGS:
            raise InvalidRequest("The sentence has too many meanings; write it more precisely")
    if not found:
        raise wrong[0]
    return found


class _Reader:
    """Reads a text once, with a plan that says which option each choice takes."""

    def __init__(self, text: str, words: Vocabulary, plan: Sequence[int]) -> None:
        self.text = text
        self.words = words
        self.options: list[int] = []
        self._plan = plan
        self._at = 0
        self._who: str | None = None
        # The sentence's own period, as in "each day scout may send".
        self._period: str | None = None
        self._clauses = [_Clause()]
        self._shared: dict[str, Any] = {}
        self._bounds: dict[str, int] = {}
        # A period that was read just before its amount.
        self._pending: str | None = None
        self._is_first = True
        self._is_listed = False
        self._last: Callable[[], bool] | None = None
        # Where the last amount ended.
        self._end = 0

    def read(self) -> list[dict[str, Any]]:
        """Return the grants' documents; raises `InvalidRequest`."""
        self._period = self._period_at()
        # A part that another one could take for its own stands before it.
        parts = (
            *(self._principal, self._refuse_new, self._ask_new, self._ask, self._rate, self._costs),
            *(self._bound, self._hours, self._until, self._amount, self._standing_period),
            *(self._requests, self._recipients, self._wallet, self._via, self._into),
            *(self._verb, self._filler),
        )
        while self._skip_separators():
            read = next((part for part in parts if self._try_part(part)), None)
            if read is None:
                self._raise_unclear()
            self._is_first, self._last = False, read
        if self._who is None:
            raise InvalidRequest(
                'The sentence lacks whom it is for, such as "Agent scout may send 5 USDC a day to '
                'alice"'
            )
        return self._documents()

    def _try_part(self, part: Callable[[], bool]) -> bool:
        """Read a part, or stay where it would have begun."""
        at, options = self._at, len(self.options)
        if part():
            return True
        self._at = at
        del self.options[options:]
        return False

    @property
    def _clause(self) -> _Clause:
        return self._clauses[-1]

    def _skip_separators(self) -> str:
        """Skip separators and return what is left to read."""
        match = terms.SEPARATORS.match(self.text, self._at)
        assert match is not None
        self._at = match.end()
        return self.text[self._at :]

    def _read_pattern(self, pattern: re.Pattern[str]) -> re.Match[str] | None:
        start = self._at
        self._skip_separators()
        match = pattern.match(self.text, self._at)
        self._at = start if match is None else match.end()
        return match

    def _choose(self, found: Sequence[str]) -> str:
        """Return one of several meanings; the plan says which."""
        if len(found) == 1:
            return found[0]
        at = len(self.options)
        self.options.append(len(found))
        return found[self._plan[at] if at < len(self._plan) else 0]

    def _set_once(self, name: str, value: object) -> None:
        if self._shared.setdefault(name, value) != value:
            raise InvalidRequest(f"The sentence says {name} twice, with different values")

    def _raise_unclear(self) -> NoReturn:
        rest = self.text[self._at :]
        word = rest.split(" ")[0].rstrip(".,;:")[:60]
        near = difflib.get_close_matches(word.lower(), terms.HINTS, 1, 0.8)
        if near and near[0] != word.lower():
            advice = f"did you mean {quoted(near[0])}?"
        elif self._who is None:
            advice = (
                "no agent, key, wallet, schedule, plugin or skill has this name, or it needs quotes"
            )
        else:
            known = ", ".join(each[1] for each in terms.EXAMPLES.values())
            advice = f"write such as: {known}"
        raise InvalidRequest(f"{quoted(word)} is not understood, in {quoted(rest[:60])}; {advice}")

    def _principal(self) -> bool:
        """Read whom the grant is for, which mostly begins the sentence."""
        if self._who is not None or any(each.verbs for each in self._clauses):
            return False
        match = self._read_pattern(terms.WHO_FIRST if self._is_first else terms.WHO)
        name = None if match is None else match["name"] or match["bare"]
        is_gift = match is not None and terms.GIVEN.match(match[0]) is not None
        if match is None or name is None or not _is_name(name) or is_gift:
            return False
        word = match["kind"] or match["behind"]
        kind = None if word is None else terms.KINDS[word.lower()]
        if kind == "site":
            found = [f"{SITE}{read_site(name, 'site')}"]
        else:
            found = self.words.principals(kind, _unquoted(name))
        if not found and kind is None:
            return False
        if not found:
            raise InvalidRequest(f"No {kind} is called {quoted(_unquoted(name)[:60])}")
        self._who = self._choose(found)
        return True

    def _verb(self) -> bool:
        match = self._read_pattern(terms.VERB)
        if match is None:
            return False
        if any(each.verbs for each in self._clauses):
            before = self.text[: match.start()]
            if match[0].lower().endswith("s") or terms.JOINED.search(before) is None:
                raise InvalidRequest(
                    f"{quoted(match[0])} may be another operation or none; write a sentence for "
                    "each operation"
                )
        if self._clause.amounts and self._clause.verbs:
            self._clauses.append(_Clause())
        word = match["verb"].lower()
        # "make" stands before paid requests only.
        verb = str(terms.VERBS.get(word, "pay"))
        if verb == "buy" and self._read_pattern(terms.PAID_REQUESTS) is not None:
            verb = _PAID_REQUEST
        elif verb == "buy":
            # Grants limit what leaves, so an amount that is bought limits nothing.
            into = self._list(self._asset_at)
            if not into:
                raise InvalidRequest(
                    'After "buy" an asset is expected, such as "buy USDC with up to 1 SOL a day": '
                    "a grant limits what is paid, not what is bought"
                )
            self._clause.into += into
            self._read_pattern(terms.WITH)
            verb = Operation.SWAP.value
        if verb == APPROVE and self._read_pattern(terms.HELD) is None:
            raise InvalidRequest('After "approve" stands what is held, such as "approve holds"')
        self._clause.verbs[verb] = None
        self._read_pattern(terms.OBJECT)
        self._named_asset()
        return True

    def _named_asset(self) -> None:
        """Read the asset behind a verb that has no amount there, as in "send USDC to alice"."""
        start = self._at
        self._read_pattern(terms.SOME)
        asset = self._asset_at()
        end = self._at
        if asset in (None, terms.USD) or self._number() is not None:
            self._at = start
        elif self.words.addresses(self.text[start:end].split()[-1]):
            raise InvalidRequest(
                f"{asset} is an asset and a recipient; write an amount, or the recipient in quotes"
            )
        else:
            self._at = end
            self._clause.named.append(str(asset))

    def _filler(self) -> bool:
        return self._read_pattern(terms.FILLER) is not None

    def _asset_at(self) -> str | None:
        """Read an asset's symbol or mint; `terms.USD` for the word dollars."""
        start = self._at
        match = self._read_pattern(terms.ASSET)
        if match is not None:
            if match[0].lower() in terms.DOLLARS:
                return terms.USD
            found = self.words.asset(match[0])
            if found is not None:
                return found
        self._at = start
        return None

    def _list(self, item: Callable[[], str | None]) -> list[str]:
        """Read a list of items, each by `item`, which stays where it reads none."""
        found: list[str] = []
        end = self._at
        while (one := item()) is not None:
            found.append(one)
            end = self._at
            if not self._list_separator():
                break
            self._is_listed = True
        self._at, self._is_listed = end, False
        return found

    def _list_separator(self) -> bool:
        """Read what stands between two items of a list."""
        match = terms.NEXT.match(self.text, self._at)
        if match is not None:
            self._at = match.end()
        return match is not None

    def _amount_without_period(self, *, unit: bool = True) -> _Amount | None:
        """Read a number with its asset, on either side of it, without a period."""
        start = self._at
        if self._read_pattern(terms.DOLLAR_SIGN) is not None:
            number, asset = self._number(), terms.USD
            behind = self._at
            token = self._asset_at() if number else None
            if token in terms.DOLLAR_TOKENS:
                asset = str(token)
            else:
                self._at = behind
        else:
            asset_before = self._asset_at()
            number = self._number()
            asset = asset_before or (self._asset_at() if number else None) or ""
        if number is None or (unit and not asset):
            self._at = start
            return None
        return _Amount(number, asset or None, None)

    def _number(self) -> str | None:
        match = self._read_pattern(terms.ONE_NUMBER)
        if match is None:
            return None
        number = _digits(match["number"].lower())
        if "," in number:
            # A thousand, or one with three decimals.
            number = self._choose([number.replace(",", ""), number.partition(",")[0]])
        return f"{Decimal(number) * 1_000:f}" if match["thousand"] else number

    def _dollars_asset(self) -> str | None:
        """Read the asset that an amount in dollars is of; None if the text does not say it."""
        if self._read_pattern(terms.ANY_ASSET) is not None:
            return ANY_ASSET
        start = self._at
        if self._read_pattern(terms.OF) is not None:
            asset = self._asset_at()
            if asset in terms.DOLLAR_TOKENS:
                return asset
            self._at = start
        return None

    def _meant_dollars(self) -> str:
        """Return the asset that dollars mean if the text does not say it."""
        usdc = self.words.asset("USDC")
        limits = {each.asset for clause in self._clauses for each in clause.amounts}
        known = [each for each in (usdc, ANY_ASSET) if each is not None]
        said = [each for each in known if each in limits]
        if len(said) > 1:
            raise InvalidRequest(
                "The sentence does not say whether an amount in dollars is of USDC"
            )
        return self._choose(said or known)

    def _period_at(self) -> str | None:
        match = self._read_pattern(terms.PERIOD)
        if match is None:
            return None
        if match["once"]:
            return terms.AT_ONCE
        if match["adverb"]:
            return terms.ADVERBS[match["adverb"].lower()]
        if match["unit"]:
            return terms.UNITS[match["unit"].lower()]
        count, unit = int(_digits(match["count"].lower())), match["units"].lower()[0]
        if unit == "w":
            count, unit = 7 * count, "d"
        return "24h" if (count, unit) == (1, "d") else f"{count}{unit}"

    def _amount(self) -> bool:
        start = self._at
        self._read_pattern(terms.LIMIT)
        before = None if self._read_pattern(terms.PERIODS_LIMIT) is None else self._period_at()
        self._read_pattern(terms.LIMIT)
        amount = self._amount_without_period() or self._amount_without_period(unit=False)
        if amount is None:
            return False
        said = self._dollars_asset() if amount.asset == terms.USD else None
        self._limit_behind()
        period = self._period_behind()
        if sum(each is not None for each in (before, period, self._pending)) > 1:
            raise InvalidRequest("The sentence has two periods for one amount")
        amount.period, self._pending = period or before or self._pending, None
        self._limit_behind()
        limit = self.text[start : self._at]
        if amount.period is None and terms.FOR_EVER.match(limit) is not None:
            raise InvalidRequest(
                'A grant has no limit for ever; write a period, such as "5 USDC in 30 days"'
            )
        if amount.asset == terms.USD:
            amount.asset = said or self._dollars_asset() or self._meant_dollars()
        if amount.asset is None:
            units = {*(each.asset for each in self._clause.amounts), *self._clause.named}
            if amount.period is None or not units:
                return False
            if self._clause.into:
                units |= set(self._clause.into)
            if len(units) > 1:
                raise InvalidRequest(f"The sentence does not say of which asset {amount.amount} is")
            (amount.asset,) = units
        between = self.text[self._end : start]
        amount.is_joined = (
            bool(self._clause.amounts) and terms.ONLY_AND.fullmatch(between) is not None
        )
        if (
            self._last == self._amount
            and terms.SEPARATE.search(self.text[self._end : self._at]) is None
        ):
            raise InvalidRequest('The sentence has two amounts without "and" between them')
        self._clause.amounts.append(amount)
        self._end = self._at
        return True

    def _limit_behind(self) -> None:
        """Read "max" or "at most" behind an amount; behind a comma it is the next amount's."""
        match = terms.LIMIT_BEHIND.match(self.text, self._at)
        self._at = self._at if match is None else match.end()

    def _is_before_amount(self) -> bool:
        """Return whether an amount follows that a period just read belongs to."""
        at, options = self._at, len(self.options)
        is_amount = False
        if terms.PREFIX.match(self.text, at) is not None:
            self._read_pattern(terms.LIMIT)
            is_amount = self._amount_without_period() is not None
        self._at = at
        del self.options[options:]
        return is_amount

    def _standing_period(self) -> bool:
        """Read a period that stands before or behind its amounts."""
        period = self._period_at()
        if period is None:
            return False
        if self._is_before_amount():
            if self._pending is not None:
                raise InvalidRequest("The sentence has two periods for one amount")
            self._pending = period
            return True
        asks = (terms.ASK_THEN_ABOVE, terms.ABOVE_THEN_ASK, terms.ASK_ALWAYS, terms.ASK_NEW)
        rest = self._skip_separators()
        if self._last in (
            *(self._rate, self._costs, self._bound, self._hours, self._until, self._ask),
            self._ask_new,
        ) or any(each.match(rest) is not None for each in asks):
            raise InvalidRequest("The sentence has a period without an amount")
        without = [each for each in self._clause.amounts if each.period is None]
        for each in without:
            each.period = period
        if not without:
            if self._clause.amounts or self._period is not None:
                raise InvalidRequest(
                    "The sentence has a period without an amount; write each amount with its "
                    'period, such as "5 USDC a day"'
                )
            self._period = period
        return True

    def _period_behind(self) -> str | None:
        """Read the period of the amount just read; one after a comma is another amount's."""
        start = self._at
        if re.match(r" ?[,;:.]", self.text[start:]):
            return None
        period = self._period_at()
        if period is not None and self._is_before_amount():
            raise InvalidRequest("Write each amount before its period, such as 5 USDC a day")
        return period

    def _ask(self) -> bool:
        amounts: list[_Amount | None]
        if self._read_pattern(terms.ASK_THEN_ABOVE) is not None:
            amounts = [self._amount_without_period(unit=False)]
        elif self._read_pattern(terms.ABOVE_THEN_ASK) is not None:
            amounts = [self._amount_without_period(unit=False)]
            while self._read_pattern(terms.OR):
                amounts.append(self._amount_without_period(unit=False))
            if self._read_pattern(terms.ASKS) is None:
                amounts = [None]
        elif self._read_pattern(terms.ASK_ALWAYS) is not None:
            amounts = [_Amount("0", None, None)]
        else:
            return False
        asks = [each for each in amounts if each is not None]
        if len(asks) < len(amounts):
            return False
        for ask in asks:
            if ask.asset == terms.USD:
                ask.asset = self._dollars_asset() or self._meant_dollars()
        self._clause.asks += asks
        if terms.AFTER_ASK.match(self.text, self._at) is not None:
            raise InvalidRequest(
                "A person is asked above an amount of one transaction; the sentence has a period or"
                " another amount behind it"
            )
        return True

    def _ask_new(self) -> bool:
        if self._read_pattern(terms.ASK_NEW) is None:
            return False
        self._set_once("new", NewRecipient.HOLD.value)
        return True

    def _refuse_new(self) -> bool:
        if self._read_pattern(terms.REFUSE_NEW) is None:
            return False
        self._set_once("new", NewRecipient.REFUSE.value)
        return True

    def _rate(self) -> bool:
        match = self._read_pattern(terms.RATE)
        period = None if match is None else self._period_at()
        if match is None or period in (None, terms.AT_ONCE):
            return False
        word = (match["word"] or match["count"]).lower()
        count = {"once": "1", "twice": "2"}.get(word) or _digits(word)
        if not count.isdigit() or len(count) > 9:
            raise InvalidRequest(f"A whole number of transactions is expected, not {count}")
        rates = self._shared.setdefault("rate", {})
        if rates.setdefault(period, int(count)) != int(count):
            raise InvalidRequest("The sentence limits the transactions of one period twice")
        return True

    def _costs(self) -> bool:
        match = self._read_pattern(terms.COSTS[0]) or self._read_pattern(terms.COSTS[1])
        if match is None:
            return False
        if self._period_at() != "24h":
            raise InvalidRequest('Fees are limited in a day, such as "fees up to 0.01 SOL a day"')
        self._set_once("costs", _digits(match["amount"]))
        return True

    def _bound(self) -> bool:
        match = self._read_pattern(terms.BOUND)
        if match is None:
            return False
        number, unit, what = (
            match[each] or match[f"_{each}"] for each in ("number", "unit", "what")
        )
        bps = Decimal(number) * (1 if unit.lower() == "bps" else 100)
        if bps != int(bps) or bps > 10_000:
            raise InvalidRequest("A percentage with at most two decimals is expected")
        name = "slippageBps" if what.lower() == "slippage" else "impactBps"
        if self._bounds.setdefault(name, int(bps)) != int(bps):
            raise InvalidRequest(f"The sentence limits the {what} twice")
        return True

    def _hours(self) -> bool:
        match = self._read_pattern(terms.HOURS)
        if match is None:
            return False
        first, second = (
            [each and each.lower() for each in match.groups()[at : at + 3]] for at in (0, 3)
        )
        if not (match["zone"] or any((*first[1:], *second[1:]))):
            return False
        if not match["zone"]:
            raise InvalidRequest(
                f"{quoted(match[0].strip())} has no time zone; hours are in UTC, such as "
                '"from 9:00 to 17:00 UTC"'
            )
        self._set_once("hours", _hours_text(first, second))
        return True

    def _until(self) -> bool:
        match = self._read_pattern(terms.UNTIL)
        if match is None:
            return False
        text = match["time"]
        if "T" not in text[10:11]:
            text = _end_of(text, is_whole=terms.INCLUSIVE.match(match["how"]) is not None)
        self._set_once("until", text)
        return True

    def _requests(self) -> bool:
        paying = {"pay", "spend"} & set(self._clause.verbs)
        if not paying or self._read_pattern(terms.PAID_REQUESTS) is None:
            return False
        for each in paying:
            del self._clause.verbs[each]
        self._clause.verbs[_PAID_REQUEST] = None
        return True

    def _wallet(self) -> bool:
        match = self._read_pattern(terms.FROM)
        found: list[str] = []
        if match is not None and _is_name(match["name"]):
            found = self.words.principals("wallet", _unquoted(match["name"]))
        if not found:
            return False
        self._set_once("wallet", self._choose(found).partition(":")[2])
        return True

    def _via(self) -> bool:
        found = self._list(self._site)
        self._extend_once(self._clause.via, found, "sites")
        return bool(found)

    def _site(self) -> str | None:
        """Read a site, with a preposition unless it stands right behind the verb or in a list."""
        start = self._at
        match = self._read_pattern(terms.VIA)
        if match is not None:
            site = match["site"].rstrip(".").lower()
            is_named = (
                match["how"] or self._is_listed or not (self._clause.amounts or self._clause.to)
            )
            # A word without a dot is a name that nobody has.
            if is_named and "." in site and not terms.NUMBER_ONLY.fullmatch(site):
                return f"{SITE}{read_site(site, 'site')}"
        self._at = start
        return None

    def _recipients(self) -> bool:
        start = self._at
        is_said = self._read_pattern(terms.TO) is not None
        if not is_said and self._clause.amounts:
            return False
        if Operation.SWAP.value in self._clause.verbs or not (is_said or self._clause.verbs):
            return False
        found = self._list(self._recipient)
        if not found and is_said and not self._is_site(start):
            name = self._read_pattern(terms.RECIPIENT)
            if name is not None:
                raise InvalidRequest(
                    f"No contact, group or wallet is called {quoted(name['name'][:60])}; a name "
                    "that is a word of grants needs quotes"
                )
        self._extend_once(self._clause.to, found, "recipients")
        if found and not self._clause.amounts and not self._clause.named:
            self._named_asset()
        return bool(found)

    def _extend_once(self, known: list[str], found: Sequence[str], what: str) -> None:
        """Add the items of a list, which the text may have once: otherwise the first list's limits
        would hold for the second list too."""
        if known and found:
            raise InvalidRequest(
                f"The sentence names {what} twice; write a sentence for each, or one list"
            )
        known += found

    def _is_site(self, at: int) -> bool:
        match = terms.VIA.match(self.text, at)
        return match is not None and "." in match["site"].rstrip(".")

    def _recipient(self) -> str | None:
        start = self._at
        meanings: list[str] = []
        for pattern, meaning in ((terms.ANYBODY, ANYBODY), (terms.OWN, OWN)):
            if self._read_pattern(pattern) is not None:
                meanings = [meaning]
                break
        else:
            match = self._read_pattern(terms.RECIPIENT)
            name = "" if match is None else match["name"]
            is_asset = self.words.asset(name) is not None and not is_address(name)
            if match is not None and _is_name(name) and not is_asset:
                meanings = self.words.addresses(_unquoted(name))
                kind = (match["kind"] or match["behind"] or "").lower()
                kind = {"members of": "group"}.get(kind, kind)
                if kind in terms.RECIPIENT_KINDS:
                    meanings = [
                        each for each in meanings if self.words.recipient_kind(each) == kind
                    ]
        if not meanings:
            self._at = start
            return None
        return self._choose(meanings)

    def _into(self) -> bool:
        if Operation.SWAP.value not in self._clause.verbs or self._read_pattern(terms.INTO) is None:
            return False
        found = self._list(self._asset_at)
        if not found or terms.USD in found:
            return False
        self._extend_once(self._clause.into, found, "assets to buy")
        return True

    def _documents(self) -> list[dict[str, Any]]:
        clauses = self._clauses
        for clause in clauses:
            self._check_clause(clause)
        self._share_questions()
        amounts = [each for clause in clauses for each in clause.amounts]
        if self._pending or (self._period and all(each.period for each in amounts)):
            raise InvalidRequest("The sentence has a period without an amount")
        if len(clauses) > 1 and {"rate", "costs"} & set(self._shared):
            raise InvalidRequest(
                "A limit of transactions or fees holds for each grant; write a sentence for each "
                "operation"
            )
        to = next((each.to for each in clauses if each.to), [])
        for clause in clauses:
            clause.to = clause.to or list(to)
            self._share_periods(clause.amounts)
        return [self._document(each) for each in clauses]

    def _check_clause(self, clause: _Clause) -> None:
        """Refuse limits that would hold for no operation, or not for each of several grants."""
        if not clause.verbs:
            raise InvalidRequest(
                f"The sentence lacks what may be done: {', '.join(terms.VERBS)} are known"
            )
        if APPROVE in clause.verbs and (
            len(clause.verbs) > 1
            or any((clause.amounts, clause.to, clause.asks, clause.named, clause.via, clause.into))
            or {"rate", "costs", "new"} & set(self._shared)
        ):
            raise InvalidRequest(
                'Nothing but a wallet, hours and an end limits approvals; write "key payroll may '
                'approve holds", and another sentence for the rest'
            )
        if clause.to and not {*SENT, "pay", "spend", _PAID_REQUEST} & set(clause.verbs):
            raise InvalidRequest("Recipients limit transfers and payments only")
        if self._bounds and Operation.SWAP.value not in clause.verbs:
            raise InvalidRequest(
                "Slippage and price impact limit swaps; write a sentence for these"
            )
        several = Counter(each.asset for each in clause.amounts)
        rest = [each for each in self._clauses if each is not clause]
        others = [each.verbs for each in rest]
        elsewhere = {amount.asset for each in rest for amount in each.amounts}
        if (len(clause.verbs) > 1 and (clause.named or clause.into)) or (
            rest
            and (
                clause.into
                or clause.via
                or self._bounds
                or max(several.values(), default=0) > 1
                or any(
                    _sending_operations(verbs) & _sending_operations(clause.verbs)
                    for verbs in others
                )
                or any(each.asset in elsewhere for each in clause.amounts[1:])
                or (ANY_ASSET in several and any(each.asks for each in self._clauses))
            )
        ):
            raise InvalidRequest(
                "It is not clear which limit is of which operation; write a sentence for each "
                "operation alone"
            )

    def _share_questions(self) -> None:
        """Let a person be asked by each grant that limits the asset."""
        asks = [each for clause in self._clauses for each in clause.asks]
        if len(self._clauses) == 1 or not asks:
            return
        limited = {each.asset for clause in self._clauses for each in clause.amounts}
        for each in asks:
            if each.asset not in limited and (each.asset is not None or each.amount != "0"):
                raise InvalidRequest(
                    "The sentence asks a person above an amount; write of which of its assets, "
                    'such as "ask me above 2 USDC"'
                )
        for clause in self._clauses:
            own = {None, *(each.asset for each in clause.amounts)}
            clause.asks = [each for each in asks if each.asset in own]

    def _share_periods(self, amounts: Sequence[_Amount]) -> None:
        """Give amounts without a period that of the sentence or of the next amount, or choose."""
        following: str | None = None
        for each in reversed(amounts):
            if each.period is None:
                each.period = self._period or following
            elif each.period != terms.AT_ONCE:
                following = each.period
            if not each.is_joined:
                following = None
        missing = [each for each in amounts if each.period is None]
        if missing:
            period = self._choose(["24h", "7d", "30d"])
            for each in missing:
                each.period = period

    def _document(self, clause: _Clause) -> dict[str, Any]:
        document: dict[str, Any] = {"who": self._who, "may": self._operations(clause)}
        assets = _limits(clause.amounts)
        moves = set(document["may"]) - {APPROVE, Operation.LAUNCH.value}
        if moves and not assets:
            raise InvalidRequest(
                'The sentence lacks an amount and a period, such as "up to 5 USDC a day"'
            )
        if clause.named and not assets:
            raise InvalidRequest(
                f"The sentence names {' and '.join(clause.named)} without an amount"
            )
        if clause.named and set(assets) - set(clause.named):
            raise InvalidRequest(
                f"The sentence is about {' and '.join(clause.named)}, and has an amount of another "
                "asset; a grant limits what leaves, not what is bought"
            )
        if clause.asks and not assets:
            raise InvalidRequest(
                "A person is asked above an amount of an asset, and the sentence limits none"
            )
        for ask in clause.asks:
            _add_ask(assets, ask)
        if assets:
            document["assets"] = {
                name: {"usd": limit} if name == ANY_ASSET else limit
                for name, limit in assets.items()
            }
        if clause.to and SENT.intersection(document["may"]):
            document["to"] = list(dict.fromkeys(clause.to))
        if clause.via:
            document["via"] = clause.via
        document |= self._shared
        swap: dict[str, Any] = dict(self._bounds)
        if clause.into:
            swap["into"] = list(dict.fromkeys(clause.into))
        if swap:
            document["swap"] = swap
        if document.get("to") == [ANYBODY]:
            del document["to"]
        return document

    def _operations(self, clause: _Clause) -> list[str]:
        found: dict[str, None] = {}
        for verb in clause.verbs:
            if verb == _PAID_REQUEST or (verb == "pay" and clause.via):
                meanings = [Operation.PAY.value]
            elif verb == "pay" and clause.to and clause.to != [ANYBODY]:
                meanings = [Operation.TRANSFER.value]
            elif verb in ("pay", "spend"):
                meanings = [Operation.TRANSFER.value, Operation.PAY.value]
            else:
                meanings = [verb]
            found[self._choose(meanings)] = None
        return list(found)


def _limits(amounts: Iterable[_Amount]) -> dict[str, dict[str, Any]]:
    assets: dict[str, dict[str, Any]] = {}
    for each in amounts:
        assert each.asset is not None
        assert each.period is not None
        limit = assets.setdefault(each.asset, {"per": {}})
        once = each.period == terms.AT_ONCE
        into, key = (limit, "perTx") if once else (limit["per"], each.period)
        if key in into:
            raise InvalidRequest(f"The sentence has two amounts of {each.asset} for one period")
        into[key] = each.amount
    for asset, limit in assets.items():
        if not limit["per"]:
            raise InvalidRequest(
                f"The sentence limits {asset} in one transaction only; add how much in a period, "
                'such as "and 20 a day"'
            )
    return assets


def _add_ask(assets: Mapping[str, dict[str, Any]], ask: _Amount) -> None:
    """Add the amount above which a person is asked, to its asset or to the only asset."""
    found = list(assets) if ask.asset is None else [ask.asset]
    if ask.amount == "0":
        found = list(assets)
    elif len(found) != 1 or found[0] not in assets:
        raise InvalidRequest(
            "The sentence asks a person above an amount of an asset that it does not limit, or "
            'does not say of which; write such as "ask me above 2 USDC"'
        )
    for each in found:
        if assets[each].setdefault("hold", ask.amount) != ask.amount:
            raise InvalidRequest(f"The sentence asks a person above two amounts of {each}")


def _hours_text(first: Sequence[str | None], second: Sequence[str | None]) -> str:
    """Return hours of a grant; raises `InvalidRequest` if 9 to 5 could be 9 to 17 o'clock."""
    halves = {each[2] for each in (first, second)} & {"am", "pm"}
    are_clear = any(not 0 < int(each[0] or 0) <= 12 for each in (first, second))
    minutes = [_minute_of_day(*each) for each in (first, second)]
    if (halves and not all(each[2] for each in (first, second))) or (
        not halves and not are_clear and minutes[0] >= minutes[1]
    ):
        raise InvalidRequest('Write both times with am or pm, or as "9:00 to 17:00 UTC"')
    start, end = (f"{each // 60:02d}:{each % 60:02d}" for each in minutes)
    return f"{start}-{end} UTC"


def _minute_of_day(hour: str | None, minute: str | None, half: str | None) -> int:
    at = int(hour or 0)
    if half in ("am", "pm"):
        if not 1 <= at <= 12:
            raise InvalidRequest(f"{hour} {half} is no time of day")
        at = at % 12 + (12 if half == "pm" else 0)
    return at * 60 + int(minute or 0)


def _end_of(text: str, *, is_whole: bool) -> str:
    """Return when a grant ends that ends on a day or with a year: as the day begins, or ends."""
    if len(text) == 4:
        if not is_whole:
            raise InvalidRequest(f'Write "until the end of {text}", or a date')
        return f"{int(text) + 1}-01-01T00:00:00Z"
    for each in terms.DATES:
        try:
            day = datetime.strptime(text.replace(",", ""), each) + timedelta(days=is_whole)
        except (ValueError, OverflowError):
            continue
        return f"{day.date().isoformat()}T00:00:00Z"
    raise InvalidRequest(f"{quoted(text)} is no date such as 2026-12-31")


def _digits(count: str) -> str:
    """Return a number in digits that may be written as a word."""
    if count.startswith("half"):
        return "0.5"
    return str(terms.COUNTS.index(count) + 1) if count in terms.COUNTS else count


def _unquoted(name: str) -> str:
    """Return a name without its quotes."""
    if not name.startswith('"'):
        return name
    try:
        return str(json.loads(name))
    except ValueError:
        raise InvalidRequest(f"{name[:60]} is no name in quotes, with escapes as in JSON") from None


def _is_name(text: str) -> bool:
    """Return whether a text may be a name: unquoted, no word of a grant and no site."""
    plain = text.removeprefix("@").lower()
    return text.startswith('"') or not (plain in terms.RESERVED or "." in plain)


def _sending_operations(verbs: Iterable[str]) -> set[str]:
    """Return operations, with transfer for the verbs that may mean it."""
    return {Operation.TRANSFER.value if each in ("pay", "spend") else each for each in verbs}
