"""The words that people use in grants, as patterns that `grant_phrases` reads in turn.

Patterns list words that add nothing (`please`, `a limit of`), so that every other word must mean
something or is refused.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from solward.types.guardrail import Operation
from solward.types.site import SITE_PATTERN
from solward.vault.grants.spelling import APPROVE, ID_PATTERN

# ASCII: without it, letters of other scripts would match the same letter in another case.
FLAGS: Final = re.IGNORECASE | re.ASCII


def _any_of(words: str) -> str:
    """Return a pattern of any number of these words, in any order."""
    return rf"(?:(?:{words})(?![A-Za-z0-9_-]),?(?![0-9]) ?)*"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


SEPARATORS: Final = re.compile(r"(?:[\s;:!]|,(?![0-9])|\.(?=\s|$))*")

# Periods.
AT_ONCE: Final = "at once"
UNITS: Final = {
    **{"minute": "1m", "min": "1m", "hour": "1h", "hr": "1h", "day": "24h"},
    **{"week": "7d", "wk": "7d", "month": "30d"},
}
ADVERBS: Final = {"hourly": "1h", "daily": "24h", "weekly": "7d", "monthly": "30d"}
COUNTS: Final = {
    **{"one": "1", "two": "2", "three": "3", "four": "4", "five": "5", "six": "6"},
    **{"seven": "7", "eight": "8", "nine": "9", "ten": "10", "eleven": "11", "twelve": "12"},
}
OFTEN: Final = {"once": "1", "twice": "2"}
_TRANSACTION: Final = r"(?:transaction|transfer|payment|swap|tx)"
PERIOD: Final = _compiled(
    r"(?P<once>at once|at a time|(?:each|every) time|in one go"
    rf"|(?:per|an?|in an?|in one|in a single|in any|(?:in )?(?:each|every))[ -]{_TRANSACTION}"
    rf"|/ ?{_TRANSACTION})\b"
    rf"|(?P<adverb>{'|'.join(ADVERBS)})\b"
    r"|(?:an?|per|each|every|in an?|in any|over an?|within an?|/)[ -]?"
    rf"(?P<unit>{'|'.join(UNITS)})\b"
    r"|(?:per|in|each|every|within|in any|over|/) ?(?P<count>[0-9]{1,4}|"
    rf"{'|'.join(COUNTS)}) ?(?P<units>minute|min|hour|hr|h|day|d|week|wk)s?\b"
)
_PERIOD: Final = rf"(?:{re.sub('[?]P<[a-z]+>', '?:', PERIOD.pattern)})"

# Numbers and amounts.
# `1,000` is a thousand or one, depending on the country; both meanings are asked back.
NUMBER: Final = (
    rf"(?:[0-9]{{1,3}},[0-9]{{3}}(?:\.[0-9]+)?(?![0-9.,:]*[0-9])"
    rf"|[0-9]*(?:\.?[0-9]+)(?![0-9.,:]*[0-9])|(?:half an?|{'|'.join(COUNTS)})\b)"
)
USD: Final = "USD"
DOLLARS: Final = frozenset({"dollar", "dollars", "usd"})
DOLLAR_TOKENS: Final = frozenset({"USDC", "USDT"})
WORD: Final = "[A-Za-z0-9]+"
# A number with its asset on either side; a word there that spells no asset is left. It is no part
# of an address.
MONEY: Final = _compiled(
    rf"(?:(?P<sign>\$) ?|(?P<before>{WORD})[: ] ?)?(?!{WORD}(?<={WORD[:-1]}{{32}}))"
    rf"(?P<figure>(?P<number>{NUMBER})(?P<thousand>k\b)?)(?: ?(?P<behind>{WORD}))?"
)
OF_ASSET: Final = _compiled(
    r" ?(?:worth )?(?:of|in) (?:(?P<any>(?:any (?:other )?(?:asset|token|coin)s?|anything)\b)"
    rf"|(?P<token>{WORD}))"
)
_NOUN: Final = r"(?:limit|cap|max(?:imum)?|ceiling)"
_UP_TO: Final = _any_of(
    "up to|at most|(?:no|not|never|never with) (?:more|higher|greater|larger) than"
    "|not exceeding|as much as|not to exceed|limited to|capped at|subject to"
    "|as long as|it's|it is|the|must be|with|and|of|an?|is|only"
    rf"|spending|total of|{_NOUN}"
)
# Before an amount stands at most one of two periods: "each hour: 5 SOL", "a daily limit of 5 SOL".
AMOUNT: Final = _compiled(
    rf"(?:(?P<first>{_PERIOD})(?: ?: ?| (?!(?:and|with|subject)\b)))?{_UP_TO}"
    rf"(?:(?P<inner>{_PERIOD}) (?=(?:{_NOUN}|total)\b))?{_UP_TO}"
)
# Behind a comma, a limit or a period is the next amount's.
_LIMIT_BEHIND: Final = rf"(?: ?(?:{_NOUN} only|{_NOUN}|only|at most|or less)\b)?"
AMOUNT_BEHIND: Final = _compiled(rf"{_LIMIT_BEHIND}(?: ?(?P<period>{_PERIOD}))?{_LIMIT_BEHIND}")
# Between two amounts of one period, and between any two amounts.
ONLY_AND: Final = _compiled(r"[ ,]*(?:(?:and|or) )?")
SEPARATE: Final = _compiled(r"[,;:.]|\b(?:and|but|with)\b")

# Whom a grant is for, and what it allows.
_OPERATIONS: Final[Mapping[Operation | str, str]] = {
    Operation.TRANSFER: "send,transfer,give,move,remit,make transfers",
    Operation.FUND: "fund",
    Operation.SWAP: "swap,trade,exchange,convert,change,turn,sell",
    Operation.STAKE: "stake",
    Operation.WRAP: "wrap",
    Operation.BURN: "burn",
    Operation.LAUNCH: "launch",
    APPROVE: "approve",
    "buy": "buy",
    "pay": "make payments,pay",
    "spend": "spend",
}
VERBS: Final = {
    verb: str(operation) for operation, verbs in _OPERATIONS.items() for verb in verbs.split(",")
}
_REQUESTS: Final = (
    r"(?:for |on )?(?:the |its |their )?"
    r"(?:paid |http |api |x402 )*(?:requests|reqs|calls|apis|websites|web pages)\b(?: made)?"
)
REQUESTS: Final = _compiled(_REQUESTS)
NEXT: Final = _compiled(r" ?(?:,? ?\b(?:and|or)|,)(?: to)? ")
# Its object limits nothing.
VERB: Final = _compiled(
    rf"{_any_of('permission|to|be able to')}"
    rf"(?:(?P<requests>(?:make|buy)(?= {_REQUESTS}))|(?P<verb>{'|'.join(VERBS)}))"
    r"(?P<third>e?s)?(?![A-Za-z])"
    r"(?P<held> (?:what is held|held (?:transactions|payments)|holds)\b)?"
    r"(?: (?:money|funds|tokens?|a token|out|it)\b)?"
)
# Before a second operation.
JOINED: Final = _compiled(r"(?:\b(?:and|or|also|only|but|please)|[,;:.])\s*$")
# An asset that the amounts are of.
NAMED: Final = _compiled(rf"(?:(?:some|any|of|its|my) )?(?P<item>{WORD})\b")
KINDS: Final = {"api key": "key"} | {
    each: each for each in ("agent", "key", "wallet", "schedule", "plugin", "skill", "site")
}
_KIND: Final = "|".join(KINDS)
NAME: Final = rf'(?:"(?:[^"\\]|\\.)*"|@?{ID_PATTERN})'
_LEADS: Final = _any_of(
    "could|can|would|you|please|i|we|want|would like|i'd like"
    "|let|allow|permit|authorize|give|it's|it is|fine|ok|for|my|our|the"
)
_MODALS: Final = _any_of(
    "may|can|could|should|shall|is|be|able|allowed|permitted|authorized|to|permission|the right"
    "|only"
)
# Only at its beginning a sentence needs no "may" behind the name.
SUBJECT: Final = _compiled(
    rf"{_LEADS}(?:(?P<kind>{_KIND}) (?P<name>{NAME})|(?P<bare>{NAME})(?: (?P<behind>{_KIND})\b)?)"
    rf"(?:(?P<may>:| (?=(?:may|can|could|should|shall|is)\b))| ){_MODALS}(?=\s?\S)"
)
# "Give scout 5 USDC" names a recipient, "give scout permission to" a principal.
GIVEN: Final = _compiled(r"(?=.*\bgive\b)(?!.*\b(?:permission|the right)\b)")
WALLET: Final = _compiled(
    rf"(?:from|out of|using|use) (?:my |the )?(?:wallet )?(?P<name>{NAME})(?: wallet)?"
)

# Lists: of sites, of recipients, and of assets to buy.
_JOIN: Final = r"(?P<join>(?:(?:and|or|but(?= only)) )?)"
SITE: Final = _compiled(
    rf"{_JOIN}(?P<item>(?P<to>(?:through|via|from|at|on|for|to) )?(?:the )?(?:site |website )?"
    rf"(?:https://)?(?P<site>{SITE_PATTERN})/?)(?=[\s,;]|\.?$)(?: (?:requests|calls))?"
)
NUMBER_ONLY: Final = re.compile(r"[0-9.]+")
RECIPIENT: Final = _compiled(
    rf"{_JOIN}(?:only )?(?P<to>to (?:only )?)?(?P<item>"
    r"(?P<anybody>(?:anybody|anyone|everybody|everyone|any (?:address|recipient))\b(?! in\b))"
    r"|(?P<own>(?:(?:any|one) of )?(?:my own|my|our own|our|own) (?:other )?wallets\b"
    r"|wallets (?:of this service|owned by me|of mine|i own)\b)"
    r"|(?:(?:anyone|anybody|everybody|everyone|members?) (?:in|of) )?(?:my |the )?"
    rf"(?:(?:(?P<kind>contact|wallet|group)|recipient|(?P<group>members of)) )?(?P<name>{NAME})"
    r"(?: (?P<behind>wallet|group)\b)?)"
)
INTO: Final = _compiled(
    rf"{_JOIN}(?:only )?(?P<to>(?:into|for|to|->) (?:only )?)?(?P<item>{WORD})\b"
    rf"(?: (?:with|for|using|from)(?= {_UP_TO}[$]?{NUMBER}))?"
)

# Persons who are asked.
_CONSENT: Final = r"(?:approval|permission|confirmation|consent|ok)"
_ASKED: Final = _any_of("just|always|then|please") + (
    r"(?:(?:it )?(?:(?:must|has to|have to|needs? to|should) )?(?:ask (?:me|us|a person"
    rf"|the operator|for (?:my )?{_CONSENT})|(?:check|confirm) with (?:me|us)"
    rf"|get (?:my|our) {_CONSENT})"
    r"|a person is asked|i am asked|(?:i want|i would like|i'd like) to be asked"
    r"|(?:it )?(?:needs?|requires?|requiring|waits? for) (?:my |our |a person's |manual )?"
    rf"{_CONSENT}|(?:with )?(?:my )?{_CONSENT}(?: is)? (?:needed|required)|with my {_CONSENT}"
    r"|hold it|i (?:must |have to |want to )?(?:approve|confirm)(?: it)?"
    r"|(?:must|(?:has|have|needs?) to) be (?:approved|confirmed)(?: by me)?)(?: first| before)?"
)
_ABOVE: Final = _any_of(
    "for|if|when|it|is|it's|its|that|that's|are|an?|any|each|every|all|anything|everything"
    "|something|amounts?|payments?|transfers?|transactions?|of|about"
) + (r"(?:(?:above|over|beyond|exceeding|(?:more|bigger|greater|larger|higher) than)\b|>)")
ASK: Final = _compiled(
    rf"(?P<asked>{_ASKED} )?{_ABOVE} ?|(?P<always>{_ASKED})"
    r"(?: (?:(?:each|every) (?:time|payment)|always))?(?=[,;.!]|$)"
)
OR: Final = _compiled(r" or ")
ASKED: Final = _compiled(rf"{_ASKED}(?=[,;.!\s]|$)")
_NEW: Final = _any_of("for|about|before|paying|to|if|it is|any") + (
    r"(?:(?:new|unknown) (?:recipients?|address(?:es)?|people|payees?)"
    r"|(?:somebody|someone|anybody|anyone) new)"
)
NEW: Final = _compiled(
    rf"(?P<refused>(?:nothing|never|not|no payments?) {_NEW}\b|no new recipients\b)"
    rf"|{_ASKED} {_NEW}\b|{_NEW},? {_ASKED}(?=[,;.]|$)"
)

# Further limits.
RATE: Final = _compiled(
    rf"(?:in )?{_UP_TO}(?:(?P<often>{'|'.join(OFTEN)})|(?P<count>{NUMBER}) ?(?:"
    r"transactions?|times|transfers?|payments?|swaps?|txs?)) ?"
    rf"(?P<period>{_PERIOD})"
)
_FEES: Final = r"(?:network )?(?:fees(?: and rent)?|costs)"
COSTS: Final = _compiled(
    rf"(?:{_FEES} {_UP_TO}|(?P<first>{_UP_TO}(?={NUMBER} ?SOL (?:of|for|in) {_FEES})))"
    rf"(?P<amount>{NUMBER}) ?SOL\b(?(first) (?:of|for|in) {_FEES}) ?(?P<period>{_PERIOD})?"
)
_HOUR: Final = r"([01]?[0-9]|2[0-3])(?::([0-5][0-9]))? ?(am|pm|h|o'clock)?"
HOURS: Final = _compiled(
    _any_of("only|exclusively|from|between|during|time window|the|hours|of")
    + rf"{_HOUR} ?(?:to|and|until|till|-|\u2013) ?{_HOUR}(?P<zone> ?(?:UTC|GMT))?"
    r"(?: (?:only|daily|every day|each day))?(?![0-9A-Za-z])"
)
UNTIL: Final = _compiled(
    r"(?:valid )?(?:(?P<whole>(?:until|till|through) the end of(?: the year)?|up to and including|"
    r"through)|until|till|before|(?:ends?|ending|expires?)(?: on)?) (?P<time>"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+(?:Z|[+-][0-9:]+))?"
    r"|[0-9]{1,2}\.? [A-Za-z]{3,9} [0-9]{4}|[A-Za-z]{3,9} [0-9]{1,2},? [0-9]{4}"
    r"|[0-9]{4})(?![0-9A-Za-z-])"
)
DATES: Final = ("%Y-%m-%d", "%d %B %Y", "%d %b %Y", "%d. %B %Y", "%B %d %Y", "%b %d %Y")
_PERCENT: Final = r"(?P<{0}number>[0-9]+(?:\.[0-9]+)?) ?(?P<{0}unit>%|percent\b|bps\b)"
_BOUND: Final = r"(?P<{0}what>slippage|price impact)(?: tolerance)?"
BOUND: Final = _compiled(
    rf"(?:at )?{_UP_TO}(?:{_PERCENT.format('')} (?:of )?{_BOUND.format('')}(?: or less)?"
    rf"|{_BOUND.format('_')} ?{_UP_TO}{_PERCENT.format('_')})"
)
# `or` joins operations here, never amounts: both amounts could leave. A second `may` could belong
# to somebody else.
FILLER: Final = _compiled(
    r"(?:(?:and|also|please|just|only|with|an?|the|thanks|thank you"
    r"|but(?= (?:and|only|also|please|always|ask|with|no|not|until|for (?:more|any|every))\b)"
    rf"|or (?=(?:to )?(?:{'|'.join(VERBS)})\b))\b(?: |,(?![0-9]))*)+"
)
# Unquoted, these are no names: whoever names a contact or an agent changes no other sentence.
_IN_PATTERNS: Final = re.findall(
    r"[a-z]{2,}|\b[aik]\b",
    re.sub(
        r"\?P<\w+>|\\[bwsS]",
        " ",
        " ".join(each.pattern for each in globals().values() if isinstance(each, re.Pattern)),
    ).lower(),
)
_NO_NAMES: Final = (
    "nobody none neither it they he she do does will never except unless without yes alone deny"
    " block rule today tomorrow weekday weekdays weekend weekends monday tuesday wednesday thursday"
    " friday saturday sunday maximum"
)
RESERVED: Final = frozenset(
    (*_NO_NAMES.split(), *_IN_PATTERNS, *(each.removesuffix("s") for each in _IN_PATTERNS))
)
HINTS: Final = tuple(
    dict.fromkeys(re.findall(r"[a-z]{3,}", f"{' '.join(VERBS)} {PERIOD.pattern} {_ASKED}"))
)
_EXAMPLES: Final = {
    "who": (
        "{} send 5 USDC a day to alice",
        "scout may | agent scout can | let scout | I want scout to | key payroll is allowed to",
    ),
    "operation": (
        "scout may {} 5 USDC a day",
        "send | transfer | swap | buy USDC with | stake | burn | launch | pay for requests",
    ),
    "amount": (
        "scout may send {} a day to alice",
        "5 USDC | USDC 5 | up to five USDC | at most 5 USDC | max 5USDC | $5 of USDC"
        " | $5 of any asset",
    ),
    "period": (
        "scout may send 5 USDC {} to alice",
        "a day | per day | daily | /day | every 24 hours | a week | in 30 days",
    ),
    "in one transaction": (
        "scout may send 5 USDC a day, {}",
        "2 USDC at once | 2 per transaction | at most 2 each time",
    ),
    "recipients": (
        "scout may send 5 USDC a day {}",
        "to alice | to alice and @vendors | only to my wallets | to anybody",
    ),
    "site": (
        "scout may pay 5 USDC a day {}",
        "through api.example.com | for requests to api.example.com",
    ),
    "wallet": ("scout may send 5 USDC a day {}", "from treasury"),
    "ask a person": (
        "scout may send 5 USDC a day, {}",
        "ask me above 2 | anything over 2 needs my approval | always ask me",
    ),
    "new recipients": (
        "scout may send 5 USDC a day; {}",
        "ask me for new recipients | nothing to new recipients",
    ),
    "transactions": (
        "scout may send 5 USDC a day, {}",
        "at most 10 transactions a day | twice a day",
    ),
    "fees": ("scout may send 5 USDC a day, {}", "fees up to 0.005 SOL a day"),
    "hours": ("scout may send 5 USDC a day {}", "from 9:00 to 17:00 UTC | 9am to 5pm UTC"),
    "end": ("scout may send 5 USDC a day {}", "until 2030-12-31 | until 31 December 2030"),
    "swaps": (
        "scout may swap 1 SOL a day, {}",
        "into USDC or BONK | slippage at most 1% | price impact at most 2%",
    ),
}
EXAMPLES: Final = {
    part: (frame, *phrases.split(" | ")) for part, (frame, phrases) in _EXAMPLES.items()
}
"""Part of a sentence -> a sentence that lacks it, and then ways to write it."""
