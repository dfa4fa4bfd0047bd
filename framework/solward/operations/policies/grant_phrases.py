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
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any, Final

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
_NOT_CLEAR: Final = (
    "It is not clear which limit is of which operation, or holds for each grant; write a sentence "
    "for each operation alone"
)
_NO_AMOUNT: Final = (
    "The sentence has a period without an amount; write each amount with its period, such as "
    '"5 USDC a day"'
)
_ONE_TRANSACTION: Final = (
    "A person is asked above an amount of one transaction; the sentence has a period or another "
    "amount behind it"
)


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
        return [
            f"{each}:{own_id}"
            for each, rows in kinds.items()
            for own_id, called in rows.items()
            if name == own_id or name.casefold() == called.casefold()
        ]

    def recipients_called(self, name: str, kind: str) -> list[str]:
        """Return what a name may mean: addresses, and `@name` for a group.

        Args:
            kind: `contact`, `wallet` (of the service) or `group`; empty for any.
        """
        if is_address(name):
            found = [name]
        elif name in self.recipients.ids:
            found = [self.recipients.ids[name]]
        else:
            names = self.recipients.names.items()
            same = [to for each, to in names if each.casefold() == name.casefold()]
            found = [] if name.startswith("@") else sorted({each for to in same for each in to})
        own = self.recipients.ids.values()
        found = [each for each in found if kind in ("", "wallet" if each in own else "contact")]
        group = name.removeprefix("@").casefold()
        is_group = kind in ("", "group") and self.names.in_book(group)
        return [*found, *([f"@{group}"] if is_group else [])]


@dataclass(slots=True)
class _Amount:
    """An amount, and where it ends in the text."""

    number: str
    asset: str | None
    end: int
    period: str | None = None
    # Whether only "and" or a comma is between it and the amount before it.
    is_joined: bool = False


@dataclass(slots=True)
class _Clause:
    """Operations with the amounts that they share; a text with several gives several grants."""

    verbs: dict[str, None] = field(default_factory=dict)
    amounts: list[_Amount] = field(default_factory=list)
    named: list[str] = field(default_factory=list)
    to: list[str] = field(default_factory=list)
    via: list[str] = field(default_factory=list)
    into: list[str] = field(default_factory=list)
    is_for_requests: bool = False

    @property
    def swaps(self) -> bool:
        """True if the clause has no recipients, because "to" names what is bought."""
        return bool({Operation.SWAP.value, "buy"} & {*self.verbs})

    @property
    def operations(self) -> set[str]:
        """All operations that its verbs may mean."""
        return {each for verb in self.verbs for each in self.meanings(verb)}

    def meanings(self, verb: str) -> list[str]:
        """Return the operations that a verb may mean."""
        if verb == "buy":
            return [Operation.SWAP.value]
        if verb not in ("pay", "spend"):
            return [verb]
        if self.is_for_requests or (verb == "pay" and self.via):
            return [Operation.PAY.value]
        if verb == "pay" and self.to not in ([], [ANYBODY]):
            return [Operation.TRANSFER.value]
        return [Operation.TRANSFER.value, Operation.PAY.value]


def readings(text: str, words: Vocabulary) -> list[list[dict[str, Any]]]:
    """Return every meaning of a text; each is a list of grants' documents.

    Args:
        text: a sentence, at most `MAX_SENTENCE` characters.

    Raises:
        InvalidRequest: the text has no meaning, or more than `MAX_READINGS`; names the words that
            are not understood, or what is missing.
    """
    text = " ".join(text.split())
    _refuse_if(
        len(text) > MAX_SENTENCE, f"A sentence of at most {MAX_SENTENCE:,} characters is expected"
    )
    with suppress(InvalidRequest):
        return [[read_sentence(text)]]
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
            found += [] if document in found else [document]
        # Each choice behind the planned ones is tried with its other options.
        for at in range(len(plan), len(reader.options)):
            chosen = (*plan, *[0] * (at - len(plan)))
            plans += [(*chosen, other) for other in range(1, reader.options[at])]
        _refuse_if(
            len(found) > MAX_READINGS or len(plans) > 4 * MAX_READINGS,
            "The sentence has too many meanings; write it more precisely",
        )
    if not found:
        raise wrong[0]
    return found


class _Reader:
    """Reads a text once, with a plan that says which option each choice takes.

    `read` takes one phrase after the other. Each kind of phrase has a pattern in `_PHRASES` and a
    function, which stores what the phrase says and returns where it ends, or None if the words
    mean something else here.
    """

    def __init__(self, text: str, words: Vocabulary, plan: Sequence[int]) -> None:
        self.text = text
        self.words = words
        self.options: list[int] = []
        self._plan = plan
        # The kind of the last phrase, fillers apart, and where it ended.
        self._last = ""
        self._end = 0
        self._who: str | None = None
        # The sentence's own period, as in "each day scout may send".
        self._period: str | None = None
        self._clauses = [_Clause()]
        self._asks: list[_Amount] = []
        # Limits that hold for each grant, as in its document.
        self._shared: dict[str, Any] = {}

    def read(self) -> list[dict[str, Any]]:
        """Return the grants' documents; raises `InvalidRequest`."""
        at = self._skip(0)
        while at < len(self.text):
            kind, at = self._read_phrase(at)
            if kind != "filler":
                self._last, self._end = kind, at
            at = self._skip(at)
        _refuse_if(
            self._who is None,
            'The sentence lacks whom it is for, such as "Agent scout may send 5 USDC a day"',
        )
        return self._documents()

    def _read_phrase(self, at: int) -> tuple[str, int]:
        """Return the kind of the phrase that begins here, and where it ends."""
        options = len(self.options)
        for kind, (pattern, read) in _PHRASES.items():
            match = pattern.match(self.text, at)
            end = None if match is None else read(self, match)
            if end is not None:
                is_late = self._last == "period" and kind in ("ask", "new")
                _refuse_if(is_late, _NO_AMOUNT)
                return kind, end
            del self.options[options:]
        raise self._unclear(at)

    def _skip(self, at: int) -> int:
        """Return where the separators from here end."""
        match = terms.SEPARATORS.match(self.text, at)
        return at if match is None else match.end()

    def _choose(self, found: Sequence[str]) -> str:
        """Return one of several meanings; the plan says which."""
        if len(found) == 1:
            return found[0]
        at = len(self.options)
        self.options.append(len(found))
        return found[self._plan[at] if at < len(self._plan) else 0]

    def _set_once(self, what: str, value: object, *path: str) -> None:
        """Set a limit of all grants, which the text may not have with two values."""
        at = self._shared
        for each in path[:-1]:
            at = at.setdefault(each, {})
        _refuse_if(
            at.setdefault(path[-1], value) != value,
            f"The sentence says {what} twice, with different values",
        )

    def _unclear(self, at: int) -> InvalidRequest:
        rest = self.text[at:]
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
        return InvalidRequest(f"{quoted(word)} is not understood, in {quoted(rest[:60])}; {advice}")

    @property
    def _clause(self) -> _Clause:
        return self._clauses[-1]

    def _subject(self, match: re.Match[str]) -> int | None:
        """Read whom the grant is for, which begins the sentence, unless "may" is behind it."""
        name, word = match["name"] or match["bare"], match["kind"] or match["behind"]
        is_first = self._last in ("", "period") and self._skip(self._end) == match.start()
        if (
            not (is_first or match["may"])
            or self._who is not None
            or self._clause.verbs
            or not _is_name(name)
            or terms.GIVEN.match(match[0])
        ):
            return None
        kind = None if word is None else terms.KINDS[word.lower()]
        if kind == "site":
            found = [f"{SITE}{read_site(name, 'site')}"]
        else:
            found = self.words.principals(kind, _unquoted(name))
        _refuse_if(kind and not found, f"No {kind} is called {quoted(_unquoted(name)[:60])}")
        if not found:
            return None
        self._who = self._choose(found)
        return match.end()

    def _verb(self, match: re.Match[str]) -> int:
        """Read an operation, which begins a clause if the amounts of another one precede it."""
        is_joined = terms.JOINED.search(self.text[: match.start()]) is not None
        _refuse_if(
            self._clauses[0].verbs and (match["third"] or not is_joined),
            f"{quoted(match[0])} may be another operation or none; write a sentence for each "
            "operation",
        )
        if self._clause.amounts and self._clause.verbs:
            self._clauses.append(_Clause())
        verb = "pay" if match["requests"] else terms.VERBS[match["verb"].lower()]
        _refuse_if(
            verb == APPROVE and not match["held"],
            'After "approve" stands what is held, such as "approve holds"',
        )
        self._clause.verbs[verb] = None
        return match.end()

    def _requests(self, match: re.Match[str]) -> int | None:
        """Read that paid requests are what is paid for."""
        if not {"pay", "spend"} & {*self._clause.verbs}:
            return None
        self._clause.is_for_requests = True
        return match.end()

    def _named(self, match: re.Match[str]) -> int | None:
        """Read the asset behind a verb or recipients, as in "send USDC to alice"."""
        clause, asset = self._clause, self._asset(match["item"])
        is_behind = self._last == "verb" or (
            self._last == "to" and not clause.amounts and not clause.named
        )
        is_next = self._skip(self._end) == match.start()
        if not is_behind or not is_next or asset in (None, terms.USD):
            return None
        _refuse_if(
            self.words.recipients_called(match["item"], ""),
            f"{asset} is an asset and a recipient; write an amount, or the recipient in quotes",
        )
        clause.named.append(str(asset))
        return match.end()

    def _filler(self, match: re.Match[str]) -> int:
        return match.end()

    def _asset(self, word: str | None) -> str | None:
        """Return an asset's symbol or mint; `terms.USD` for the word dollars."""
        if word is None:
            return None
        return terms.USD if word.lower() in terms.DOLLARS else self.words.asset(word)

    def _money(self, at: int) -> _Amount | None:
        """Read a number, with its asset if one is said."""
        match = terms.MONEY.match(self.text, self._skip(at))
        if match is None:
            return None
        number = _digits(match["number"].lower())
        if "," in number:
            # A thousand, or one with three decimals.
            number = self._choose([number.replace(",", ""), number.partition(",")[0]])
        if match["thousand"]:
            number = f"{Decimal(number) * 1_000:f}"
        asset = terms.USD if match["sign"] else self._asset(match["before"])
        if match["before"] and asset is None:
            return None
        amount = _Amount(number, asset, match.end("figure"))
        behind = self._asset(match["behind"])
        if behind and (behind in terms.DOLLAR_TOKENS if match["sign"] else asset is None):
            amount.asset, amount.end = behind, match.end()
        self._read_of(amount)
        return amount

    def _read_of(self, amount: _Amount) -> None:
        """Read which asset an amount in dollars is of, if it is said here."""
        match = terms.OF_ASSET.match(self.text, amount.end)
        if match is None or amount.asset != terms.USD:
            return
        asset = ANY_ASSET if match["any"] else self._asset(match["token"])
        if asset in (ANY_ASSET, *terms.DOLLAR_TOKENS):
            amount.asset, amount.end = asset, match.end()

    def _amount(self, match: re.Match[str]) -> int | None:
        """Read an amount with its period, which one of three places may say."""
        amount, clause = self._money(match.end()), self._clause
        if amount is None:
            return None
        before = self.text[self._end : match.end()]
        behind = terms.AMOUNT_BEHIND.match(self.text, amount.end)
        assert behind is not None
        periods = [each for each in (match["first"], match["inner"], behind["period"]) if each]
        if amount.asset is None:
            units = {*(each.asset for each in clause.amounts), *clause.named}
            if not periods or not units:
                return None
            _refuse_if(
                len(units | {*clause.into}) > 1,
                f"The sentence does not say of which asset {amount.number} is",
            )
            (amount.asset,) = units
        _refuse_if(len(periods) > 1, "The sentence has two periods for one amount")
        _refuse_if(
            not periods and re.search(r"\btotal\b", before.lower()),
            'A grant has no limit for ever; write a period, such as "5 USDC in 30 days"',
        )
        _refuse_if(
            self._last == "amount" and not terms.SEPARATE.search(before),
            'The sentence has two amounts without "and" between them',
        )
        _refuse_if(
            self._last == "ask" and (match["first"] or terms.ONLY_AND.fullmatch(before)),
            _ONE_TRANSACTION,
        )
        amount.period = _period_of(periods[0]) if periods else None
        between = terms.ONLY_AND.fullmatch(self.text, self._end, match.start())
        amount.is_joined = self._last == "amount" and between is not None
        amount.end = behind.end()
        self._read_of(amount)
        clause.amounts.append(amount)
        return amount.end

    def _standing_period(self, match: re.Match[str]) -> int:
        """Read a period that does not stand at its amount: of amounts before it, or of all."""
        _refuse_if(self._last == "ask", _ONE_TRANSACTION)
        others = ("new", "rate", "costs", "bound", "hours", "until")
        _refuse_if(self._last in others, _NO_AMOUNT)
        period = _period_of(match[0])
        without = [each for each in self._clause.amounts if each.period is None]
        for each in without:
            each.period = period
        if not without:
            _refuse_if(self._clause.amounts or self._period is not None, _NO_AMOUNT)
            self._period = period
        return match.end()

    def _ask(self, match: re.Match[str]) -> int | None:
        """Read that a person is asked, always or above amounts, which stand on either side."""
        if match["always"]:
            self._asks.append(_Amount("0", None, match.end()))
            return match.end()
        asks: list[_Amount] = []
        at: int | None = match.end()
        while at is not None:
            amount = self._money(at)
            if amount is None:
                return None
            asks.append(amount)
            more = terms.OR.match(self.text, amount.end)
            at = None if more is None else more.end()
        end = self._skip(asks[-1].end)
        asked = terms.ASKED.match(self.text, end)
        if match["asked"] is None and asked is None:
            return None
        self._asks += asks
        return asks[-1].end if match["asked"] or asked is None else asked.end()

    def _new(self, match: re.Match[str]) -> int:
        new = NewRecipient.REFUSE if match["refused"] else NewRecipient.HOLD
        self._set_once("new", new.value, "new")
        return match.end()

    def _rate(self, match: re.Match[str]) -> int | None:
        often, period = match["often"], _period_of(match["period"])
        count = terms.OFTEN[often.lower()] if often else _digits(match["count"].lower())
        if period == terms.AT_ONCE:
            return None
        _refuse_if(
            not count.isdigit() or len(count) > 9,
            f"A whole number of transactions is expected, not {count}",
        )
        self._set_once("the transactions of one period", int(count), "rate", period)
        return match.end()

    def _costs(self, match: re.Match[str]) -> int:
        _refuse_if(
            not match["period"] or _period_of(match["period"]) != "24h",
            'Fees are limited in a day, such as "fees up to 0.01 SOL a day"',
        )
        self._set_once("costs", _digits(match["amount"].lower()), "costs")
        return match.end()

    def _bound(self, match: re.Match[str]) -> int:
        number, unit, what = (
            match[each] or match[f"_{each}"] for each in ("number", "unit", "what")
        )
        bps = Decimal(number) * (1 if unit.lower() == "bps" else 100)
        _refuse_if(
            bps != int(bps) or bps > 10_000, "A percentage with at most two decimals is expected"
        )
        name = "slippageBps" if what.lower() == "slippage" else "impactBps"
        self._set_once(what, int(bps), "swap", name)
        return match.end()

    def _hours(self, match: re.Match[str]) -> int | None:
        first, second = (
            [each and each.lower() for each in match.groups()[at : at + 3]] for at in (0, 3)
        )
        if not (match["zone"] or any((*first[1:], *second[1:]))):
            return None
        _refuse_if(
            not match["zone"],
            f"{quoted(match[0].strip())} has no time zone; hours are in UTC, such as "
            '"from 9:00 to 17:00 UTC"',
        )
        self._set_once("hours", _hours_text([first, second]), "hours")
        return match.end()

    def _until(self, match: re.Match[str]) -> int:
        text = match["time"]
        if "T" not in text[10:11]:
            text = _end_of(text, is_whole=match["whole"] is not None)
        self._set_once("until", text, "until")
        return match.end()

    def _wallet(self, match: re.Match[str]) -> int | None:
        name = match["name"]
        found = self.words.principals("wallet", _unquoted(name)) if _is_name(name) else []
        if not found:
            return None
        self._set_once("wallet", self._choose(found).partition(":")[2], "wallet")
        return match.end()

    def _via(self, match: re.Match[str]) -> int | None:
        """Read a site, with a preposition unless it stands right behind the verb."""
        site = match["site"].rstrip(".").lower()
        # A word without a dot is a name that nobody has.
        if "." not in site or terms.NUMBER_ONLY.fullmatch(site):
            return None
        is_late = bool(self._clause.amounts or self._clause.to)
        found = [f"{SITE}{read_site(site, 'site')}"]
        return self._add("via", match, found, is_late=is_late)

    def _to(self, match: re.Match[str]) -> int | None:
        """Read a recipient, with "to" unless it stands right behind the verb."""
        if self._clause.swaps:
            return None
        is_late = bool(self._clause.amounts or not self._clause.verbs)
        name = match["name"] or ""
        if match["anybody"] or match["own"]:
            found = [ANYBODY if match["anybody"] else OWN]
        elif not _is_name(name) or (self._asset(name) and not is_address(name)):
            found = []
        else:
            kind = "group" if match["group"] else (match["kind"] or match["behind"] or "").lower()
            found = self.words.recipients_called(_unquoted(name), kind)
        _refuse_if(
            match["to"] and not found,
            f"No contact, group or wallet is called {quoted(name[:60])}; a name that is a word of "
            "grants needs quotes",
        )
        return self._add("to", match, found, is_late=is_late)

    def _into(self, match: re.Match[str]) -> int | None:
        """Read an asset to buy, with "into" unless it stands behind "buy"."""
        asset = self._asset(match["item"])
        if not self._clause.swaps or asset in (None, terms.USD):
            return None
        is_late = self._last != "verb" or "buy" not in self._clause.verbs
        return self._add("into", match, [str(asset)], is_late=is_late)

    def _add(
        self, kind: str, match: re.Match[str], found: Sequence[str], *, is_late: bool
    ) -> int | None:
        """Add an item to a list, which the text may have once: otherwise the first list's limits
        would hold for the second list too.

        Args:
            is_late: whether the list begins with a word such as "to"; "or" never begins it.
        """
        between = terms.NEXT.fullmatch(self.text, self._end, match.start("item"))
        is_listed = self._last == kind and between is not None
        begins = match["join"].lower() != "or " and (match["to"] or not is_late)
        if not found or not (is_listed or begins):
            return None
        known: list[str] = getattr(self._clause, kind)
        _refuse_if(
            known and not is_listed,
            f"The sentence names {_LISTS[kind]} twice; write a sentence for each, or one list",
        )
        known.append(self._choose(found))
        return match.end()

    def _documents(self) -> list[dict[str, Any]]:
        amounts = [each for clause in self._clauses for each in clause.amounts]
        for clause in self._clauses:
            self._check_clause(clause)
        if len(self._clauses) > 1:
            self._check_several()
        _refuse_if(self._period and all(each.period for each in amounts), _NO_AMOUNT)
        self._share_dollars(amounts)
        to = next((each.to for each in self._clauses if each.to), [])
        limits: list[dict[str, Any]] = []
        for clause in self._clauses:
            clause.to = clause.to or to
            self._share_periods(clause.amounts)
            limits.append(_limits(clause.amounts))
        _add_asks(limits, self._asks)
        both = zip(self._clauses, limits, strict=True)
        return [self._document(clause, assets) for clause, assets in both]

    def _check_clause(self, clause: _Clause) -> None:
        """Refuse limits that would hold for no operation."""
        limits = (clause.amounts, clause.named, clause.to, clause.via, clause.into)
        _refuse_if(
            not clause.verbs,
            f"The sentence lacks what may be done: {', '.join(terms.VERBS)} are known",
        )
        _refuse_if(
            APPROVE in clause.verbs
            and (
                len(clause.verbs) > 1 or any(limits) or {"rate", "costs", "new"} & {*self._shared}
            ),
            'Nothing but a wallet, hours and an end limits approvals; write "key payroll may '
            'approve holds", and another sentence for the rest',
        )
        _refuse_if(
            clause.to and not SENT & clause.operations,
            "Recipients limit transfers and payments only",
        )
        _refuse_if(
            "swap" in self._shared and not clause.swaps,
            "Slippage and price impact limit swaps; write a sentence for these",
        )
        _refuse_if(
            "buy" in clause.verbs and not clause.into,
            'After "buy" an asset is expected, such as "buy USDC with up to 1 SOL a day": a grant '
            "limits what is paid, not what is bought",
        )
        _refuse_if(len(clause.verbs) > 1 and (clause.named or clause.into), _NOT_CLEAR)

    def _check_several(self) -> None:
        """Refuse limits of which it is not clear for which of several grants they hold."""
        clauses = self._clauses
        operations = [each.operations for each in clauses]
        has_any = any(each.asset == ANY_ASSET for clause in clauses for each in clause.amounts)
        _refuse_if(
            {"swap", "rate", "costs"} & {*self._shared}
            or len(set.union(*operations)) < sum(map(len, operations))
            or any(each.into or each.via or len(each.amounts) > 1 for each in clauses)
            or (self._asks and has_any),
            _NOT_CLEAR,
        )

    def _share_dollars(self, amounts: Sequence[_Amount]) -> None:
        """Choose USDC or any asset for amounts in dollars; a question is of the one limited."""
        known = [each for each in (self.words.asset("USDC"), ANY_ASSET) if each is not None]
        bare = [each for each in amounts if each.asset == terms.USD]
        asset = self._choose(known) if bare else None
        for each in bare:
            each.asset = asset
        limited = {each.asset for each in amounts}.intersection(known)
        for ask in self._asks:
            if ask.asset == terms.USD:
                _refuse_if(
                    len(limited) != 1,
                    "The sentence does not say whether an amount in dollars is of USDC",
                )
                (ask.asset,) = limited

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

    def _document(self, clause: _Clause, assets: dict[str, Any]) -> dict[str, Any]:
        may = list(dict.fromkeys(self._choose(clause.meanings(each)) for each in clause.verbs))
        _refuse_if(
            {*may} - {APPROVE, Operation.LAUNCH.value} and not assets,
            'The sentence lacks an amount and a period, such as "up to 5 USDC a day"',
        )
        named = " and ".join(clause.named)
        _refuse_if(
            named and (not assets or {*assets} - {*clause.named}),
            f"The sentence names {named} without an amount of it; a grant limits what leaves, not "
            "what is bought",
        )
        document: dict[str, Any] = {"who": self._who, "may": may, **self._shared}
        if assets:
            document["assets"] = {
                name: {"usd": limit} if name == ANY_ASSET else limit
                for name, limit in assets.items()
            }
        if clause.to not in ([], [ANYBODY]) and SENT.intersection(may):
            document["to"] = list(dict.fromkeys(clause.to))
        if clause.via:
            document["via"] = clause.via
        if clause.into:
            document["swap"] = {
                **document.get("swap", {}),
                "into": list(dict.fromkeys(clause.into)),
            }
        return document


# A phrase that another one could take for its own stands before it.
_PHRASES: Final[
    Mapping[str, tuple[re.Pattern[str], Callable[[_Reader, re.Match[str]], int | None]]]
] = {
    "subject": (terms.SUBJECT, _Reader._subject),
    "new": (terms.NEW, _Reader._new),
    "ask": (terms.ASK, _Reader._ask),
    "rate": (terms.RATE, _Reader._rate),
    "costs": (terms.COSTS, _Reader._costs),
    "bound": (terms.BOUND, _Reader._bound),
    "hours": (terms.HOURS, _Reader._hours),
    "until": (terms.UNTIL, _Reader._until),
    "into": (terms.INTO, _Reader._into),
    "amount": (terms.AMOUNT, _Reader._amount),
    "period": (terms.PERIOD, _Reader._standing_period),
    "requests": (terms.REQUESTS, _Reader._requests),
    "named": (terms.NAMED, _Reader._named),
    "via": (terms.SITE, _Reader._via),
    "to": (terms.RECIPIENT, _Reader._to),
    "wallet": (terms.WALLET, _Reader._wallet),
    "verb": (terms.VERB, _Reader._verb),
    "filler": (terms.FILLER, _Reader._filler),
}
_LISTS: Final = {"to": "recipients", "via": "sites", "into": "assets to buy"}


def _refuse_if(is_wrong: object, why: str) -> None:
    """Raise `InvalidRequest` with the reason if something is wrong."""
    if is_wrong:
        raise InvalidRequest(why)


def _period_of(text: str) -> str:
    """Return a period as in a document, or `terms.AT_ONCE`."""
    match = terms.PERIOD.fullmatch(text)
    assert match is not None
    if match["once"]:
        return terms.AT_ONCE
    if match["adverb"] or match["unit"]:
        words = terms.ADVERBS | terms.UNITS
        return words[(match["adverb"] or match["unit"]).lower()]
    count, unit = int(_digits(match["count"].lower())), match["units"].lower()[0]
    if unit == "w":
        count, unit = 7 * count, "d"
    return "24h" if (count, unit) == (1, "d") else f"{count}{unit}"


def _limits(amounts: Iterable[_Amount]) -> dict[str, dict[str, Any]]:
    """Return assets with their limits, as in a document."""
    assets: dict[str, dict[str, Any]] = {}
    for each in amounts:
        assert each.asset is not None
        assert each.period is not None
        limit = assets.setdefault(each.asset, {"per": {}})
        once = each.period == terms.AT_ONCE
        into, key = (limit, "perTx") if once else (limit["per"], each.period)
        _refuse_if(key in into, f"The sentence has two amounts of {each.asset} for one period")
        into[key] = each.number
    for asset, limit in assets.items():
        _refuse_if(
            not limit["per"],
            f"The sentence limits {asset} in one transaction only; add how much in a period, "
            'such as "and 20 a day"',
        )
    return assets


def _add_asks(limits: Sequence[Mapping[str, dict[str, Any]]], asks: Sequence[_Amount]) -> None:
    """Add the amounts above which a person is asked, in all grants: each to its asset, or to the
    only one; 0 to all."""
    _refuse_if(
        asks and not all(limits),
        "A person is asked above an amount of an asset, and the sentence limits none",
    )
    every = [(asset, limit) for assets in limits for asset, limit in assets.items()]
    for ask in asks:
        found = [each for each in every if ask.number == "0" or ask.asset in (None, each[0])]
        _refuse_if(
            not found or (ask.asset is None and ask.number != "0" and len(found) > 1),
            "The sentence asks a person above an amount of an asset that it does not limit, or "
            'does not say of which of its assets; write such as "ask me above 2 USDC"',
        )
        for asset, limit in found:
            _refuse_if(
                limit.setdefault("hold", ask.number) != ask.number,
                f"The sentence asks a person above two amounts of {asset}",
            )


def _hours_text(times: Sequence[Sequence[str | None]]) -> str:
    """Return hours of a grant; raises `InvalidRequest` if 9 to 5 could be 9 to 17 o'clock."""
    halves = [each[2] in ("am", "pm") for each in times]
    are_clear = all(halves) or any(not 0 < int(each[0] or 0) <= 12 for each in times)
    start, end = (_time_of_day(*each) for each in times)
    _refuse_if(
        any(halves) != all(halves) or (not are_clear and start >= end),
        'Write both times with am or pm, or as "9:00 to 17:00 UTC"',
    )
    return f"{start}-{end} UTC"


def _time_of_day(hour: str | None, minute: str | None, half: str | None) -> str:
    at = int(hour or 0)
    if half in ("am", "pm"):
        _refuse_if(not 1 <= at <= 12, f"{hour} {half} is no time of day")
        at = at % 12 + (12 if half == "pm" else 0)
    return f"{at:02d}:{minute or '00'}"


def _end_of(text: str, *, is_whole: bool) -> str:
    """Return when a grant ends that ends on a day or with a year: as the day begins, or ends."""
    if len(text) == 4:
        _refuse_if(not is_whole, f'Write "until the end of {text}", or a date')
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
    return terms.COUNTS.get(count, count)


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
