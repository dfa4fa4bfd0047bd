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


def _any_of(*words: str) -> str:
    """Return a pattern of any number of these words, in any order."""
    return rf"(?:(?:{'|'.join(words)})(?![A-Za-z0-9_-]),?(?![0-9]) ?)*"


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, FLAGS)


SEPARATORS: Final = re.compile(r"(?:[\s;:!]|,(?![0-9])|\.(?=\s|$))*")

# Numbers and amounts.
COUNTS: Final = (
    *("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"),
    *("eleven", "twelve"),
)
# `1,000` is a thousand or one, depending on the country; its two meanings are asked back.
NUMBER: Final = (
    rf"(?:[0-9]{{1,3}},[0-9]{{3}}(?:\.[0-9]+)?(?![0-9.,]*[0-9])"
    rf"|[0-9]*(?:\.?[0-9]+)(?![0-9.,]*[0-9])|(?:half an?|{'|'.join(COUNTS)})\b)"
)
ONE_NUMBER: Final = _compiled(rf"(?P<number>{NUMBER})(?P<thousand>k\b)?")
DOLLAR_SIGN: Final = re.compile(r"\$ ?")
USD: Final = "USD"
DOLLARS: Final = frozenset({"dollar", "dollars", "usd"})
DOLLAR_TOKENS: Final = frozenset({"USDC", "USDT"})
ASSET: Final = re.compile(r"[A-Za-z0-9]+")
SOME: Final = _compiled(r"(?:some|any|of|its|my)\b")
OF: Final = _compiled(r"(?:worth )?(?:of|in) ")
ANY_ASSET: Final = _compiled(
    r"(?:worth )?(?:of|in) (?:any (?:other )?(?:asset|token|coin)s?|anything)\b"
)
_NOUN: Final = r"(?:limit|cap|max(?:imum)?|ceiling)"
_UP_TO: Final = _any_of(
    *("up to", "at most", "(?:no|not|never|never with) (?:more|higher|greater|larger) than"),
    *("not exceeding", "as much as", "not to exceed", "limited to", "capped at", "subject to"),
    *("as long as", "it's", "it is", "the", "must be", "with", "and", "of", "an?", "is", "only"),
    *("spending", "total of", _NOUN),
)
LIMIT: Final = _compiled(_UP_TO)
# Between two amounts of one period, and between any two amounts.
ONLY_AND: Final = _compiled(r"[ ,]*(?:and )?")
SEPARATE: Final = _compiled(r"[,;:.]|\b(?:and|but|with)\b")
# Behind a period that stands before its amount.
PREFIX: Final = _compiled(r" ?:| (?!(?:and|with|subject)\b)")
LIMIT_BEHIND: Final = _compiled(rf" ?(?:{_NOUN} only|{_NOUN}|only|at most|or less)\b")

# Periods.
AT_ONCE: Final = "at once"
UNITS: Final = {"minute": "1m", "hour": "1h", "day": "24h", "week": "7d", "month": "30d"} | {
    "wk": "7d",
    "hr": "1h",
    "min": "1m",
}
ADVERBS: Final = {"hourly": "1h", "daily": "24h", "weekly": "7d", "monthly": "30d"}
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
# Its groups have names of their own, since it is part of other patterns.
_ANY_PERIOD: Final = rf"(?:{PERIOD.pattern.replace('?P<', '?P<_')})"
PERIODS_LIMIT: Final = _compiled(rf"(?={_ANY_PERIOD} (?:{_NOUN}|total)\b)")
# A limit for ever is no limit of a grant.
FOR_EVER: Final = _compiled(r".*\btotal\b")

# Whom a grant is for, and what it allows.
VERBS: Final[Mapping[str, Operation | str]] = {
    "send": Operation.TRANSFER,
    "transfer": Operation.TRANSFER,
    "give": Operation.TRANSFER,
    "move": Operation.TRANSFER,
    "remit": Operation.TRANSFER,
    "make transfers": Operation.TRANSFER,
    "fund": Operation.FUND,
    "swap": Operation.SWAP,
    "trade": Operation.SWAP,
    "exchange": Operation.SWAP,
    "convert": Operation.SWAP,
    "change": Operation.SWAP,
    "turn": Operation.SWAP,
    "sell": Operation.SWAP,
    "stake": Operation.STAKE,
    "wrap": Operation.WRAP,
    "burn": Operation.BURN,
    "launch": Operation.LAUNCH,
    "approve": APPROVE,
    "buy": "buy",
    "make payments": "pay",
    "pay": "pay",
    "spend": "spend",
}
_REQUESTS: Final = (
    r"(?:paid |http |api |x402 )*(?:requests|reqs|calls|apis|websites|web pages)\b(?: made)?"
)
_VERB: Final = rf"(?P<verb>make(?= {_REQUESTS})|{'|'.join(VERBS)})(?:e?s)?"
VERB: Final = _compiled(rf"{_any_of('permission', 'to', 'be able to')}{_VERB}(?![A-Za-z])")
# The object of a verb, if it limits nothing.
OBJECT: Final = _compiled(r"(?:money|funds|tokens?|a token|out|it)\b")
HELD: Final = _compiled(r"(?:what is held|held (?:transactions|payments)|holds)\b")
PAID_REQUESTS: Final = _compiled(rf"(?:for |on )?(?:the |its |their )?{_REQUESTS}")
_FOR_REQUESTS: Final = r"(?: (?:requests|calls))?"
KINDS: Final = {"api key": "key"} | {
    each: each for each in ("agent", "key", "wallet", "schedule", "plugin", "skill", "site")
}
QUOTED: Final = r'"(?:[^"\\]|\\.)*"'
NAME: Final = rf"(?:{QUOTED}|@?{ID_PATTERN})"
_KIND: Final = "|".join(KINDS)
_LEADS: Final = _any_of(
    *("could", "can", "would", "you", "please", "i", "we", "want", "would like", "i'd like"),
    *("let", "allow", "permit", "authorize", "give", "it's", "it is", "fine", "ok", "for", "my"),
    *("our", "the"),
)
_MODALS: Final = _any_of(
    *("may", "can", "could", "should", "shall", "is", "be", "able", "allowed", "permitted"),
    *("authorized", "to", "permission", "the right", "only"),
)
_SUBJECT: Final = (
    rf"{_LEADS}(?:(?P<kind>{_KIND}) (?P<name>{NAME})|(?P<bare>{NAME})(?: (?P<behind>{_KIND})\b)?)"
)
WHO: Final = _compiled(rf"{_SUBJECT}(?::| (?=(?:may|can|could|should|shall|is)\b){_MODALS}(?=\S))")
# Only at its beginning a sentence needs no "may".
WHO_FIRST: Final = _compiled(rf"{_SUBJECT}(?::| {_MODALS}(?=\S))")
# "Give scout 5 USDC" names a recipient, "give scout permission to" a principal.
GIVEN: Final = _compiled(r"(?=.*\bgive\b)(?!.*\b(?:permission|the right)\b)")
# Before a second operation.
JOINED: Final = _compiled(r"(?:\b(?:and|or|also|only|but|please)|[,;:.])\s*$")
FROM: Final = _compiled(
    rf"(?:from|out of|using|use) (?:my |the )?(?:wallet )?(?P<name>{NAME})(?: wallet)?"
)
VIA: Final = _compiled(
    r"(?P<how>(?:through|via|from|at|on|for|to) )?(?:the )?(?:site |website )?(?:https://)?"
    rf"(?P<site>{SITE_PATTERN})/?(?=[\s,;]|\.?$){_FOR_REQUESTS}"
)
NUMBER_ONLY: Final = re.compile(r"[0-9.]+")
TO: Final = _compiled(r"(?:and |but (?=only ))?(?:only )?to (?:only )?")
NEXT: Final = _compiled(r" ?(?:,? ?\b(?:and|or)|,)(?: to)? ")
ANYBODY: Final = _compiled(
    r"(?:anybody|anyone|everybody|everyone|any (?:address|recipient))\b(?! in\b)"
)
OWN: Final = _compiled(
    r"(?:(?:any|one) of )?(?:my own|my|our own|our|own) (?:other )?wallets\b"
    r"|wallets (?:of this service|owned by me|of mine|i own)\b"
)
RECIPIENT_KINDS: Final = frozenset({"contact", "wallet", "group"})
RECIPIENT: Final = _compiled(
    r"(?:(?:anyone|anybody|everybody|everyone|members?) (?:in|of) )?(?:my |the )?"
    rf"(?:(?P<kind>contact|recipient|wallet|group|members of) )?(?P<name>{NAME})"
    r"(?: (?P<behind>wallet|group)\b)?"
)
WITH: Final = _compiled(r"(?:with|for|using|from)\b")
INTO: Final = _compiled(r"(?:only )?(?:into|for|to|->) (?:only )?")

# Persons who are asked.
_CONSENT: Final = r"(?:approval|permission|confirmation|consent|ok)"
_ASKS: Final = (
    "(?:it )?(?:(?:must|has to|have to|needs? to|should) )?(?:ask (?:me|us|a person|the operator|"
    "for (?:my )?CONSENT)|(?:check|confirm) with (?:me|us)|get (?:my|our) CONSENT)",
    "a person is asked",
    "i am asked",
    "(?:i want|i would like|i'd like) to be asked",
    "(?:it )?(?:needs?|requires?|requiring|waits? for) (?:my |our |a person's |manual )?CONSENT",
    "(?:with )?(?:my )?CONSENT(?: is)? (?:needed|required)",
    "with my CONSENT",
    "hold it",
    "i (?:must |have to |want to )?(?:approve|confirm)(?: it)?",
    "(?:must|(?:has|have|needs?) to) be (?:approved|confirmed)(?: by me)?",
)
_ASKED: Final = (
    rf"{_any_of('just', 'always', 'then', 'please')}(?:{'|'.join(_ASKS)})(?: first| before)?"
).replace("CONSENT", _CONSENT)
_ABOVE: Final = _any_of(
    *("for", "if", "when", "it", "is", "it's", "its", "that", "that's", "are", "an?", "any"),
    *("each", "every", "all", "anything", "everything", "something", "amounts?", "payments?"),
    *("transfers?", "transactions?", "of", "about"),
) + (r"(?:(?:above|over|beyond|exceeding|(?:more|bigger|greater|larger|higher) than)\b|>)")
ASK_THEN_ABOVE: Final = _compiled(rf"{_ASKED} {_ABOVE} ?")
ABOVE_THEN_ASK: Final = _compiled(rf"{_ABOVE} ?")
ASKS: Final = _compiled(rf"{_ASKED}(?=[,;.!\s]|$)")
ASK_ALWAYS: Final = _compiled(
    rf"{_ASKED}(?: (?:(?:each|every) (?:time|payment)|always))?(?=[,;.!]|$)"
)
OR: Final = _compiled(r"or ")
# A period, or another amount: neither is of the question.
AFTER_ASK: Final = _compiled(
    rf"[ ,.]*{_ANY_PERIOD}"
    rf"|[ ,]*(?:(?:and|or) )?(?:\$ ?{NUMBER}|(?:[A-Za-z]+ )?{NUMBER} ?"
    r"(?!(?:am|pm|h|o'clock|to|and|until|till|times|transactions?|transfers?|payments?|swaps?|txs?)"
    r"\b)[A-Za-z])|[ ,]*(?:(?:and|or) )?[A-Za-z]{2,} [0-9]"
)
_NEW: Final = _any_of("for", "about", "before", "paying", "to", "if", "it is", "any") + (
    r"(?:(?:new|unknown) (?:recipients?|address(?:es)?|people|payees?)"
    r"|(?:somebody|someone|anybody|anyone) new)"
)
ASK_NEW: Final = _compiled(rf"{_ASKED} {_NEW}\b|{_NEW},? {_ASKED}(?=[,;.]|$)")
REFUSE_NEW: Final = _compiled(rf"(?:nothing|never|not|no payments?) {_NEW}\b|no new recipients\b")

# Further limits.
RATE: Final = _compiled(
    rf"(?:in )?{_UP_TO}(?:(?P<count>{NUMBER}) ?(?:transactions?|times|transfers?|payments?|swaps?|"
    r"txs?)|(?P<word>once|twice)) ?"
)
_FEES: Final = r"(?:network )?(?:fees(?: and rent)?|costs)"
COSTS: Final = (
    _compiled(rf"{_FEES} {_UP_TO}(?P<amount>{NUMBER}) ?SOL\b"),
    _compiled(rf"{_UP_TO}(?P<amount>{NUMBER}) ?SOL (?:of|for|in) {_FEES}"),
)
_HOUR: Final = r"([01]?[0-9]|2[0-3])(?::([0-5][0-9]))? ?(am|pm|h|o'clock)?"
HOURS: Final = _compiled(
    _any_of("only", "exclusively", "from", "between", "during", "time window", "the", "hours", "of")
    + rf"{_HOUR} ?(?:to|and|until|till|-|\u2013) ?{_HOUR}(?P<zone> ?(?:UTC|GMT))?"
    r"(?: (?:only|daily|every day|each day))?(?![0-9A-Za-z])"
)
UNTIL: Final = _compiled(
    r"(?:valid )?(?P<how>(?:until|till|through) the end of(?: the year)?|up to and including|"
    r"through|until|till|before|(?:ends?|ending|expires?)(?: on)?) (?P<time>"
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}(?:T[0-9:.]+(?:Z|[+-][0-9:]+))?"
    r"|[0-9]{1,2}\.? [A-Za-z]{3,9} [0-9]{4}|[A-Za-z]{3,9} [0-9]{1,2},? [0-9]{4}"
    r"|[0-9]{4})(?![0-9A-Za-z-])"
)
# The last day counts.
INCLUSIVE: Final = _compiled(r"through|.* end of|.* including")
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
_PATTERNS: Final = [*filter(lambda each: isinstance(each, re.Pattern), globals().values()), *COSTS]
_IN_PATTERNS: Final = re.findall(
    r"[a-z]{2,}|\b[aik]\b",
    re.sub(r"\?P<\w+>|\\[bwsS]", " ", " ".join(each.pattern for each in _PATTERNS)).lower(),
)
RESERVED: Final = frozenset(
    (
        *("nobody", "none", "neither", "it", "they", "he", "she", "do", "does", "will", "never"),
        *("except", "unless", "without", "yes", "alone", "deny", "block", "rule", "today"),
        *("tomorrow", "weekday", "weekdays", "weekend", "weekends", "monday", "tuesday"),
        *("wednesday", "thursday", "friday", "saturday", "sunday"),
        *("maximum", *_IN_PATTERNS, *(each.removesuffix("s") for each in _IN_PATTERNS)),
    )
)
HINTS: Final = tuple(
    dict.fromkeys(re.findall(r"[a-z]{3,}", f"{' '.join(VERBS)} {PERIOD.pattern} {_ASKED}"))
)
EXAMPLES: Final = {
    "who": (
        "{} send 5 USDC a day to alice",
        "scout may",
        "agent scout can",
        "let scout",
        "I want scout to",
        "key payroll is allowed to",
    ),
    "operation": (
        "scout may {} 5 USDC a day",
        "send",
        "transfer",
        "swap",
        "buy USDC with",
        "stake",
        "burn",
        "launch",
        "pay for requests",
    ),
    "amount": (
        "scout may send {} a day to alice",
        "5 USDC",
        "USDC 5",
        "up to five USDC",
        "at most 5 USDC",
        "max 5USDC",
        "$5 of USDC",
        "$5 of any asset",
    ),
    "period": (
        "scout may send 5 USDC {} to alice",
        "a day",
        "per day",
        "daily",
        "/day",
        "every 24 hours",
        "a week",
        "in 30 days",
    ),
    "in one transaction": (
        "scout may send 5 USDC a day, {}",
        "2 USDC at once",
        "2 per transaction",
        "at most 2 each time",
    ),
    "recipients": (
        "scout may send 5 USDC a day {}",
        "to alice",
        "to alice and @vendors",
        "only to my wallets",
        "to anybody",
    ),
    "site": (
        "scout may pay 5 USDC a day {}",
        "through api.example.com",
        "for requests to api.example.com",
    ),
    "wallet": ("scout may send 5 USDC a day {}", "from treasury"),
    "ask a person": (
        "scout may send 5 USDC a day, {}",
        "ask me above 2",
        "anything over 2 needs my approval",
        "always ask me",
    ),
    "new recipients": (
        "scout may send 5 USDC a day; {}",
        "ask me for new recipients",
        "nothing to new recipients",
    ),
    "transactions": (
        "scout may send 5 USDC a day, {}",
        "at most 10 transactions a day",
        "twice a day",
    ),
    "fees": ("scout may send 5 USDC a day, {}", "fees up to 0.005 SOL a day"),
    "hours": ("scout may send 5 USDC a day {}", "from 9:00 to 17:00 UTC", "9am to 5pm UTC"),
    "end": ("scout may send 5 USDC a day {}", "until 2030-12-31", "until 31 December 2030"),
    "swaps": (
        "scout may swap 1 SOL a day, {}",
        "into USDC or BONK",
        "slippage at most 1%",
        "price impact at most 2%",
    ),
}
"""Part of a sentence -> a sentence that lacks it, and then ways to write it."""
