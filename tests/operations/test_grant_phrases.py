"""Grants as people write them: what is understood, what is asked back, and what is refused."""

from __future__ import annotations

import re
from dataclasses import dataclass

import pytest
from tests.promises import promise

from solward.operations.policies.grant_documents import grant_sentence, read_grants
from solward.operations.policies.grant_phrases import Vocabulary, readings
from solward.operations.policies.grant_words import EXAMPLES
from solward.resources.policy import MAX_SENTENCE
from solward.solana.token_list import token_list
from solward.types.address_book import AddressBook, KnownAddress
from solward.types.errors import InvalidRequest
from solward.vault.grants.spelling import Names

ALICE = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
SAVINGS = "5HsU4UXXD4SEwJV2X91YfcVNqnmdkmXH5jNC4QDitJWV"
CAROL = "2FduZzV11a6cvRtFMv3fHL8jsMWjYDCYPyV6ZzzSoMb4"
BOB = "FAe4sisG95oZ42w7buUn5qEE4TAnfTTFPiguZUHmhiF"
NAMES = Names(
    token_list("localnet"),
    {
        "agent": {"a1": "scout", "a2": "Bob the agent", "a3": "twin", "a4": "Always"},
        "key": {"k1": "payroll", "k2": "twin"},
        "wallet": {"w1": "treasury"},
        "schedule": {},
        "plugin": {},
        "skill": {},
    },
    {},
    frozenset({"vendors", "both"}),
)


@dataclass(frozen=True)
class Savings:
    """A wallet of the service."""

    id: str = "w2"
    name: str = "savings"
    address: str = SAVINGS
    created_by: str | None = None


CONTACTS = [
    KnownAddress(ALICE, "alice"),
    KnownAddress(BOB, "Bob"),
    KnownAddress(BOB, "both"),
    KnownAddress(CAROL, "always"),
]
WORDS = Vocabulary(NAMES, AddressBook.from_lists([Savings()], CONTACTS))
FIVE = f"Agent scout may transfer up to 5 USDC a day, to {ALICE}"


def said(text: str) -> list[str]:
    """Return each reading as its canonical sentences."""
    return [
        " ".join(grant_sentence(each, NAMES) for each in read_grants(found, "grants", NAMES))
        for found in readings(text, WORDS)
    ]


UNDERSTOOD = {
    "agent SCOUT may SEND alice 5 usdc A DAY": f"{FIVE}.",
    "let scout send up to USDC 5 daily to Alice. Ask me above 2 USDC.": (
        f"{FIVE}; above 2 USDC a person is asked."
    ),
    "scout may pay alice 5 USDC per day, ask me above 2": (
        f"{FIVE}; above 2 USDC a person is asked."
    ),
    "scout can send alice five USDC every 24 hours; anything over 2 needs my approval": (
        f"{FIVE}; above 2 USDC a person is asked."
    ),
    "I want scout to be able to send 5USDC/day to alice only": f"{FIVE}.",
    "each day scout may send 5 USDC to alice": f"{FIVE}.",
    "give scout permission to transfer $5 of USDC per day to alice": f"{FIVE}.",
    f"scout may send 5 USDC a day to {ALICE}": f"{FIVE}.",
    "scout may send alice 5 USDC a day, always ask me": (
        f"{FIVE}; above 0 USDC a person is asked."
    ),
    "scout may send max 5 USDC per transaction and 20 a day to vendors": (
        "Agent scout may transfer up to 5 USDC at once and 20 a day, to @vendors."
    ),
    "scout may send $5 a day of any asset to alice": (
        f"Agent scout may transfer up to $5 a day of any asset, to {ALICE}."
    ),
    "scout may send 5 USDC and 1 SOL a day to alice and Bob": (
        f"Agent scout may transfer up to 1 SOL a day, and up to 5 USDC a day, to {ALICE} and {BOB}."
    ),
    "each week scout may send 5 USDC, and 1 SOL a day to alice": (
        f"Agent scout may transfer up to 1 SOL a day, and up to 5 USDC a week, to {ALICE}."
    ),
    "scout may send 5 USDC a day to alice and stake 1 SOL a week": (
        f"{FIVE}. Agent scout may stake up to 1 SOL a week."
    ),
    "scout may send 5 USDC a day to alice from treasury, 3 times a day, 9am to 5pm UTC": (
        f"Agent scout may transfer from treasury up to 5 USDC a day, to {ALICE}; at most 3"
        " transactions a day; from 09:00 to 17:00 UTC."
    ),
    "scout may send alice 5 USDC a day until 31 December 2026, fees up to 0.005 SOL a day": (
        f"{FIVE}; fees and rent up to 0.005 SOL a day; until 2026-12-31T00:00:00Z."
    ),
    "scout may send alice 5 USDC a day, at most 0.005 SOL of fees a day": (
        f"{FIVE}; fees and rent up to 0.005 SOL a day."
    ),
    "scout may send 5 USDC a day to anybody, ask me for new recipients": (
        "Agent scout may transfer up to 5 USDC a day, to anybody; to somebody new a person is"
        " asked."
    ),
    "scout may send 5 USDC a day, nothing to new recipients": (
        "Agent scout may transfer up to 5 USDC a day, to anybody; nothing to somebody new."
    ),
    "scout may buy USDC with up to 1 SOL a day, slippage at most 0.5%": (
        "Agent scout may swap up to 1 SOL a day; swaps only into USDC; slippage at most 0.5%."
    ),
    "scout may swap SOL into USDC or BONK, up to 1 SOL a day": (
        "Agent scout may swap up to 1 SOL a day; swaps only into USDC or BONK."
    ),
    "scout may pay up to 1 USDC a day for requests to api.example.com": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through api.example.com."
    ),
    "scout may pay api.a.com or api.b.com 1 USDC a day": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through api.a.com or api.b.com."
    ),
    "scout may pay 1 USDC a day through api.a.com or api.b.com": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through api.a.com or api.b.com."
    ),
    '"Bob the agent" may send 5 USDC a day to my wallets': (
        'Agent "Bob the agent" (a2) may transfer up to 5 USDC a day, to own wallets.'
    ),
    "Please let my scout agent send USDC to alice, with a daily cap of 5": f"{FIVE}.",
    "scout: pay alice, max 5 USDC/day, ask me if > 2 USDC": (
        f"{FIVE}; above 2 USDC a person is asked."
    ),
    "payroll key sends usdc to anyone in the vendors group, 100 max each time and 1k weekly": (
        "Key payroll may transfer up to 100 USDC at once and 1000 a week, to @vendors."
    ),
    "The agent scout is permitted to exchange half a SOL per day for USDC, slippage 50 bps": (
        "Agent scout may swap up to 0.5 SOL a day; swaps only into USDC; slippage at most 0.5%."
    ),
    "Allow agent scout to make paid x402 requests to https://api.example.com, 1 USDC daily": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through api.example.com."
    ),
    "Until the end of 2030, scout is allowed to give alice five USDC a day at most": (
        f"{FIVE}; until 2031-01-01T00:00:00Z."
    ),
    "Please allow scout to spend up to 1 USDC daily on requests to api.example.com, valid through"
    " December 31, 2030": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through api.example.com; until"
        " 2031-01-01T00:00:00Z."
    ),
    "With a maximum slippage of 1%, scout may change up to two SOL into USDC every day": (
        "Agent scout may swap up to 2 SOL a day; swaps only into USDC; slippage at most 1%."
    ),
    "Each day scout may send 1 USDC, each month 10 SOL to alice": (
        f"Agent scout may transfer up to 10 SOL in 30 days, and up to 1 USDC a day, to {ALICE}."
    ),
    "scout may send alice per month USDC 100, each hour: 1 SOL": (
        f"Agent scout may transfer up to 1 SOL an hour, and up to 100 USDC in 30 days, to {ALICE}."
    ),
    "scout may send alice 5 USDC a day, ask me above 2, 3 transactions a day": (
        f"{FIVE}; above 2 USDC a person is asked; at most 3 transactions a day."
    ),
    "scout may send 10 SOL to alice every month and up to 5 USDC every hour": (
        f"Agent scout may transfer up to 10 SOL in 30 days, and up to 5 USDC an hour, to {ALICE}."
    ),
    "scout may send 5 USDC a day to wallet savings": (
        f"Agent scout may transfer up to 5 USDC a day, to {SAVINGS}."
    ),
    "scout may pay forbes.com 1 USDC a day": (
        "Agent scout may pay up to 1 USDC a day, to anybody, through forbes.com."
    ),
    "scout may send 10 SOL to alice monthly, 5 USDC daily": (
        f"Agent scout may transfer up to 10 SOL in 30 days, and up to 5 USDC a day, to {ALICE}."
    ),
    "scout may send 5 USDC a day to alice and stake 1 SOL a week, always ask me": (
        f"{FIVE}; above 0 USDC a person is asked. Agent scout may stake up to 1 SOL a week; above 0"
        " SOL a person is asked."
    ),
    "scout may send alice 5 USDC a day, 22:00 to 6:00 UTC": f"{FIVE}; from 22:00 to 06:00 UTC.",
    'scout may send 5 USDC a day to "always"': (
        f"Agent scout may transfer up to 5 USDC a day, to {CAROL}."
    ),
    "key payroll may approve holds": "Key payroll may approve what is held.",
    "scout may send alice USDC 9:00 to 17:00 UTC, 5 a day": f"{FIVE}; from 09:00 to 17:00 UTC.",
}

ASKED_BACK = {
    "scout may send 5 USDC to alice": 3,
    "scout may send $5 a day to alice": 2,
    "scout may send 100 USDC to alice, and 0.1 SOL per minute": 3,
    "scout may spend 5 USDC a day": 2,
    "scout may pay 5 USDC a day": 2,
    "scout may send 1,000 USDC a day": 2,
    "twin may send 5 USDC a day to alice": 2,
    "scout may send 5 USDC a day to both": 2,
    "scout may send 5 USDC to alice and stake 1 SOL a day": 3,
    "scout may send $5 a day and 10 USDC a week": 2,
}

REFUSED = {
    "scout may not send USDC": '"not" is not understood',
    "scout may send 5 USDC a day to alice except on Sundays": '"except" is not understood',
    "scout may send less than 5 USDC a day": '"less" is not understood',
    "scout may send more than 5 USDC a day": '"more" is not understood',
    "scout may send 5 USDC or 1 SOL a day": '"or" is not understood',
    "scout may send 5 USDC for a week": '"for" is not understood',
    "scout may send 1,00 USDC a day": '"1,00" is not understood',
    "scout may send 5m USDC a day": '"5m" is not understood',
    "scout may send -5 USDC a day": '"-5" is not understood',
    "scout may send 5 USDC a day to alice and bob may send 10 USDC": '"may" is not understood',
    "scout may pay https://api.example.com/cheap 1 USDC a day": "is not understood",
    "scout may tranfer 5 USDC a day": 'did you mean "transfer"?',
    "scout may send 5 USDC a day to carol": 'No contact, group or wallet is called "carol"',
    "carol may send 5 USDC a day": "no agent, key, wallet, schedule, plugin or skill has this name",
    "send 5 USDC a day to alice": "lacks whom it is for",
    "agent payroll may send 5 USDC a day": 'No agent is called "payroll"',
    "scout may send USDC": "lacks an amount",
    "scout may send to alice": "lacks an amount and a period",
    "scout may 5 USDC a day": "lacks what may be done",
    "scout may send 5 USDC per transaction": "add how much in a period",
    "scout may send 5 USDC a day and 3 USDC a day": "two amounts of USDC",
    "scout may send 5 USDC a day to alice and 2 SOL a week to bob": "recipients twice",
    "scout may pay api.a.com 1 USDC a day and api.b.com 2 USDC a week": "not understood",
    "scout may swap 1 SOL a day into USDC and 5 USDC a week into BONK": "assets to buy twice",
    "scout may swap SOL into USDC, up to 5 USDC a day": "not what is bought",
    "scout may buy 5 USDC a day": "a grant limits what is paid",
    "scout may send 5 USDC a day from 9:00 to 17:00": "hours are in UTC",
    "scout may send 5 USDC a day until 31 Foo 2026": "is no date",
    r'"a\q" may send 5 USDC a day': "escapes as in JSON",
    "scout may, with at most 1 USDC a day, send 20 USDC a day to alice": "two amounts of USDC",
    "scout may approve swaps": 'After "approve" stands what is held',
    "scout may stake 1 SOL a day to alice": "Recipients limit transfers",
    "scout may send 5 USDC a day and swap 1 SOL a day into USDC": "alone",
    "scout may send 5 USDC a day and swap 1 SOL a day, slippage 1%": "limit swaps",
    "scout may send 5 USDC a day and pay api.a.com 1 SOL a day": "alone",
    "scout may send 5 USDC a day and stake 1 SOL a day, ask me above 2": "of which of its assets",
    "scout may launch tokens, always ask me": "limits none",
    "scout may send 5 USDC in total": '"in" is not understood',
    "scout may send 10 SOL in total and 5 USDC a day": '"in" is not understood',
    "scout may pay anybody but evil.com 1 USDC a day": '"but" is not understood',
    "scout may send $5 a day of any asset but 1 SOL a day": '"but" is not understood',
    "scout may pay 1 USDC a day from tresury.": '"from" is not understood',
    "scout may pay 1 USDC a day to carol.": 'is called "carol',
    "key payroll may send and approve holds up to 5 USDC a day": "limits approvals",
    "key payroll may approve holds up to 5 USDC a day": "limits approvals",
    "scout may launch BONK": "without an amount",
    "scout may send 5 USDC and 5 SOL a day to alice, at most 2 at once": "of which asset",
    "scout may send 5 USDC and $10 of any asset a day, ask me above $2": "in dollars is of USDC",
    "scout may send 5 USDC a day, ask me above 2 USDC and 1 SOL": "of one transaction",
    "each week scout may send 2 SOL per transaction and 10 SOL a month": "without an amount",
    "scout may send 5 SOL a day to alice and stake 5 SOL a day, 6 SOL a week": "not clear which",
    "scout may send 100 USDC a month to alice, transfers up to 10 USDC a day": "another operation",
    "scout may send 5 USDC a day, fees up to 1 SOL": "Fees are limited in a day",
    "scout may send 5 USDC a day until 31 December 203015": "is not understood",
    "nobody may send 5 USDC a day": "is not understood",
    "Can scout send 5 USDC a day to alice?": "is not understood",
    "scout may send a total of 5 USDC to alice": "no limit for ever",
    "scout may send with a daily limit of 5 USDC a week": "two periods for one amount",
    "scout may swap 1 SOL a day, slippage 1%, slippage 5%": "slippage twice",
    "scout may send 5 USDC a day, 9 to 5 UTC": "with am or pm",
    "scout may send 5 USDC a day, 1 to 5pm UTC": "with am or pm",
    "scout may send 5 USDC a day to group alice": 'is called "alice"',
    "scout may send 5 USDC a day to my wallet alice": 'is called "alice"',
    "fund scout with 5 USDC a day": '"scout" is not understood',
    "scout may pay 1 USDC a day, weekdays.": '"weekdays" is not understood',
    "scout may send alice ,25 SOL a day": '",25" is not understood',
    "scout may send 5 SOL to alice and 3 payments a week, a minute": "a period without an amount",
    "scout may send 5 USDC a day, 9:00 to 5:00 UTC": "with am or pm",
    "Each month scout may send 5 USDC a day": "a period without an amount",
    "scout may send 5 USDC a day to always": 'is called "always"',
    "Always may send 5 USDC a day": "it needs quotes",
    "scout may send 5 USDC a day until 2026": 'Write "until the end of 2026"',
    "scout may send 5 USDC a day, 13pm to 5pm UTC": "is no time of day",
    "scout may send 5 USDC and 1 SOL a day, ask me above 2": "does not say of which",
    "scout may send 5 USDC a day, ask me above 2, ask me above 3": "two amounts",
    "scout may send 5 USDC a day, ask me above 2 a day": "of one transaction",
    "scout may send 5 USDC a day, 2 times a day, 3 times a day": "one period twice",
    "scout may send 5 USDC a day, 1.5 times a day": "whole number of transactions",
    "scout may send 5 USDC a day, fees up to 1 SOL a week": "Fees are limited in a day",
    "scout may send 5 USDC a day and stake 1 SOL a day, 3 times a day": "for each grant",
    "scout may swap 1 SOL a day, slippage 0.555%": "at most two decimals",
    "scout may send alice per transaction 5 USDC a day": "two periods for one amount",
    "scout may send alice each week 2 SOL per transaction, and 50 SOL a month": "two periods",
    "scout may send 100 USDC to alice, each hour not exceeding 1 SOL a day": "two periods",
    "scout may send 100 USDC to alice total and 5 SOL a day": '"total" is not understood',
    "scout may send alice only ,25 SOL a day": '",25" is not understood',
    "scout may stake with funds from treasury 5 SOL a day": "another operation or none",
    "scout may give alice change of 5 USDC a day": "another operation or none",
    "scout may stake, swaps need my approval, 5 SOL a day": "another operation or none",
    "Give treasury 5 USDC a day and stake 3 SOL a day": '"treasury" is not understood',
    "scout may send 5 USDC a day, ask me above 2 USDC and SOL 1 a day": "of one transaction",
    "scout may send 5 USDC to alice, ask me above 2 USDC/day": "of one transaction",
    "scout may send 100 USDC to alice, always ask me, each hour": "of one transaction",
    "scout may send 100 USDC. Every minute ask me above 5": "a period without an amount",
    "scout may pay 100 USDC a month and send 10 USDC a day to alice": "not clear which limit",
    "scout may send 5 SOL a day and swap 3 USDC a day, at most 6 SOL a week": "not clear",
    "scout may send $5 of any asset a day and stake 5 SOL a day, ask me above 2 SOL": "not clear",
    "scout may stake SOL and send USDC to alice, up to 5 SOL and 100 USDC a day": "not clear",
    "scout may pay for websites but from evil.com 1 USDC a day": '"but" is not understood',
    "scout may swap 1 SOL a day but to BONK": '"but" is not understood',
    "scout may send 5 USDC a day through 9999-12-31": "is no date",
    "scout may swap SOL to USDC, 100 a day": "of which asset",
    "scout may send 5 USDC a day, slippage at most 1%": "limit swaps",
    "scout may send and swap 5 USDC a day to SOL": "not clear",
    "scout may send 5 SOL at most 2 USDC a day": 'without "and" between',
    "scout may send 5 USDC a day until 2026-12-31, until 2027-12-31": "until twice",
    "x" * (MAX_SENTENCE + 1): "at most 500 characters",
}


@pytest.mark.parametrize("text", UNDERSTOOD)
def test_a_person_is_understood(text: str) -> None:
    assert said(text) == [UNDERSTOOD[text]]
    # What is shown is what is stored: it means itself.
    assert all(said(each) == [each] for each in re.findall(r"[A-Z].*?\.(?= |$)", UNDERSTOOD[text]))


@pytest.mark.parametrize("text", ASKED_BACK)
def test_several_meanings_are_asked_back(text: str) -> None:
    found = said(text)
    assert len(found) == len(set(found)) == ASKED_BACK[text]


@promise("unknown-word-is-refused")
@pytest.mark.parametrize("text", REFUSED)
def test_what_is_not_understood_is_refused(text: str) -> None:
    with pytest.raises(InvalidRequest, match=re.escape(REFUSED[text])):
        readings(text, WORDS)


@promise("unknown-word-is-refused")
@pytest.mark.parametrize(
    "word", ["not", "never", "except", "without", "unless", "sometimes", "0.5"]
)
@pytest.mark.parametrize("text", UNDERSTOOD)
def test_no_word_is_passed_over(text: str, word: str) -> None:
    """Wherever a word stands that could narrow the grant, the sentence is not taken as if it did
    not stand there."""
    words = text.split(" ")
    for at in range(1, len(words) + 1):
        with_word = " ".join([*words[:at], word, *words[at:]])
        try:
            found = said(with_word)
        except InvalidRequest:
            continue
        assert UNDERSTOOD[text] not in found, with_word


PHRASES = [(part, each) for part, (_, *phrases) in EXAMPLES.items() for each in phrases]


@pytest.mark.parametrize(("part", "phrase"), PHRASES)
def test_each_example_is_understood_and_says_something(part: str, phrase: str) -> None:
    frame = EXAMPLES[part][0]
    (found,) = said(frame.format(phrase))
    if part not in ("who", "operation", "amount", "period") and phrase != "to anybody":
        without = said(frame.format("").replace("may pay", "may pay for requests"))
        assert found not in without


def test_an_asset_that_is_a_contact_too_is_not_guessed() -> None:
    words = Vocabulary(NAMES, AddressBook.from_lists([], [KnownAddress(CAROL, "usdc")]))
    with pytest.raises(InvalidRequest, match="USDC is an asset and a recipient"):
        readings("scout may send usdc, up to 5 a day", words)


def test_letters_of_other_scripts_are_no_letters() -> None:
    # The long s is an s in another case, and the Kelvin sign a k.
    for text in ("\u017fcout may send 5 USDC a day", "scout may send 5 U\u017fDC a day"):
        with pytest.raises(InvalidRequest):
            readings(text, WORDS)


def test_too_many_meanings_are_refused() -> None:
    text = "twin may spend 1,000 USDC and 2,000 SOL to both"
    with pytest.raises(InvalidRequest, match="too many meanings"):
        readings(text, WORDS)
