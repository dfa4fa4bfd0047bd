"""The table of sentences: a grant and back, why not, what is left, and names that forge nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.promises import promise
from tests.support.examples import examples
from tests.vault.grants.names import (
    BONK,
    PEPE,
    POCKET,
    SCOUT,
    STRANGER,
    USDC,
    VENDOR,
    documents,
    known_names,
)

from solward.operations.declared import OPERATIONS
from solward.operations.policies.grant_documents import grant_sentence, read_grant
from solward.operations.policies.grant_sentences import (
    can_leave_sentence,
    read_only_sentence,
    read_sentence,
    unlimited_sentence,
)
from solward.types.errors import InvalidRequest
from solward.types.guardrail import COSTS, SOL, Intent, Line, Operation
from solward.vault.grants.model import ANY_ASSET, RATE, USD, Finding, Grant, Reason, Window
from solward.vault.grants.sentences import (
    finding_refusal,
    finding_sentence,
    fixed_details,
    hold_sentence,
    left_sentence,
    reason_sentence,
)
from solward.vault.grants.spelling import Names

KNOWN = known_names()
HOUR, DAY = 3_600_000, 86_400_000
# 2026-11-22T14:04:30Z: room is said by the minute, rounded up.
ROOM = 1_795_356_270_000

PAY_USDC = Line(Operation.TRANSFER, USDC, 3_000_000, "account", VENDOR, 6)
SENDS = Intent("transfer", "w")
BURN_BONK = Line(Operation.BURN, BONK, 250_000, decimals=5)


def read(document: object, names: Names = KNOWN) -> Grant:
    return read_grant(document, "grant", names)


SENTENCES: dict[str, dict[str, Any]] = {
    "Agent scout may transfer from pocket up to 5 USDC at once, 8 an hour and 20 a day, to "
    "@vendors; above 2 USDC, or to somebody new, a person is asked.": {
        "who": "agent:scout",
        "wallet": "pocket",
        "may": ["transfer"],
        "assets": {"USDC": {"perTx": "5", "per": {"1h": "8", "24h": "20"}, "hold": "2"}},
        "to": ["@vendors"],
        "new": "hold",
    },
    "Agent scout may swap and burn up to 1.5 SOL a day, and up to 3 "
    f"{PEPE} in 36 hours and 4 a week, and up to $1 at once and $3 in 30 days of any other asset; "
    "swaps only into SOL or USDC; slippage at most 1.5%; price impact at most 0.02%.": {
        "who": "agent:scout",
        "may": ["swap", "burn"],
        "assets": {
            "SOL": {"per": {"24h": "1.5"}},
            PEPE: {"per": {"36h": "3", "7d": "4"}},
            "*": {"usd": {"perTx": "1", "per": {"30d": "3"}}},
        },
        "swap": {"into": ["SOL", "USDC"], "slippageBps": 150, "impactBps": 2},
    },
    'Wallet "till" (w2) may transfer and fund up to $1 a minute of any asset, to own wallets, '
    f"@staff and {VENDOR}; above $0.5 a person is asked; fees and rent up to 0 SOL a day; at most "
    "1 transaction a minute and 20 in 2 hours; from 22:00 to 06:00 UTC; "
    "until 2026-12-31T00:00:00.250Z.": {
        "who": "wallet:w2",
        "may": ["transfer", "fund"],
        "assets": {"*": {"usd": {"per": {"1m": "1"}, "hold": "0.5"}}},
        "to": ["own", "@staff", VENDOR],
        "costs": "0",
        "rate": {"1m": 1, "2h": 20},
        "hours": "22:00-06:00 UTC",
        "until": "2026-12-31T00:00:00.25Z",
    },
    "Key ci may launch and approve what is held.": {
        "who": "key:ci",
        "may": ["launch", "approve"],
    },
    "Plugin solward-weather may stake up to 1 SOL a day; nothing to somebody new.": {
        "who": "plugin:solward-weather",
        "may": ["stake"],
        "assets": {"SOL": {"per": {"24h": "1"}}},
        "new": "refuse",
    },
    "Skill transfer may transfer up to 1 SOL a day, to anybody; to somebody new a person is "
    "asked.": {
        "who": "skill:transfer",
        "may": ["transfer"],
        "assets": {"SOL": {"per": {"24h": "1"}}},
        "new": "hold",
    },
    "Agent scout may pay up to 0.05 USDC at once and 1 a day, to anybody, through "
    "api.example.com.": {
        "who": "agent:scout",
        "may": ["pay"],
        "assets": {"USDC": {"perTx": "0.05", "per": {"24h": "1"}}},
        "via": ["site:api.example.com"],
    },
    "Agent scout may pay from pocket up to 1 USDC a day, to @vendors, through 127.0.0.1:4021, "
    "[::1]:4021 or xn--80ak6aa92e.com; above 0.5 USDC a person is asked.": {
        "who": "agent:scout",
        "wallet": "pocket",
        "may": ["pay"],
        "assets": {"USDC": {"per": {"24h": "1"}, "hold": "0.5"}},
        "to": ["@vendors"],
        "via": ["site:xn--80ak6aa92e.com", "site:[::1]:4021", "site:127.0.0.1:4021"],
    },
    "Agent scout may transfer, fund and pay up to 1 SOL a day, to anybody.": {
        "who": "agent:scout",
        "may": ["pay", "fund", "transfer"],
        "assets": {"SOL": {"per": {"24h": "1"}}},
    },
    "Site 127.0.0.1:4021 may be paid up to 1 USDC a day.": {
        "who": "site:127.0.0.1:4021",
        "may": ["pay"],
        "assets": {"USDC": {"per": {"24h": "1"}}},
    },
    "Site api.example.com may be paid up to $1 a day of any asset, to @vendors.": {
        "who": "site:api.example.com",
        "may": ["pay"],
        "assets": {"*": {"usd": {"per": {"24h": "1"}}}},
        "to": ["@vendors"],
    },
}


@pytest.mark.parametrize(("sentence", "document"), SENTENCES.items())
def test_a_grant_has_this_sentence(sentence: str, document: dict[str, Any]) -> None:
    assert grant_sentence(read(document), KNOWN) == sentence
    assert read(read_sentence(sentence)) == read(document)


@promise("sentence-says-whole-grant")
@settings(max_examples=examples(40))
@given(document=documents(KNOWN))
def test_14_every_grant_is_the_same_read_from_its_sentence(document: dict[str, Any]) -> None:
    grant = read(document)
    assert read(read_sentence(grant_sentence(grant, KNOWN))) == grant


NAMES = st.one_of(
    st.text(st.characters(exclude_categories=()), min_size=1, max_size=40),
    st.sampled_from(
        [
            "scout may transfer up to 5 SOL at once, to anybody",
            'scout" (a1) may swap up to 1 SOL a day.\nAgent "b',
            "x; to @vendors. Agent y",
            "a1",
            "a2",
            "up",
            "from",
            "scоut",
            "scout\u202e",
            "\\",
            '\\"',
        ]
    ),
)


@promise("names-forge-no-grant")
@given(names=st.lists(NAMES, min_size=3, max_size=3), wallet=NAMES)
def test_no_name_forges_a_sentence(names: list[str], wallet: str) -> None:
    agents: dict[str, str | None] = dict(zip(("a1", "a2", "a3"), names, strict=True))
    known = known_names({"agent": agents, "wallet": {"w1": wallet, "w2": "till"}})
    sentences = set()
    for agent in agents:
        grant = read(
            {
                "who": f"agent:{agent}",
                "wallet": "w1",
                "may": ["transfer"],
                "assets": {"USDC": {"per": {"24h": "20"}}},
                "to": ["@vendors"],
            },
            known,
        )
        sentence = grant_sentence(grant, known)
        # One line, and read back it is this grant of this agent and wallet.
        assert sentence.isprintable()
        assert read(read_sentence(sentence), known) == grant
        finding = Finding(Reason.NO_GRANT, grant.who, BURN_BONK)
        refusal = finding_sentence(finding, known)
        assert refusal.isprintable()
        assert refusal.endswith(" has no grant to burn BONK.")
        waits = hold_sentence(grant.who, "w1", (PAY_USDC,), known, SENDS)
        assert waits.isprintable()
        # What is outside quotes is ours: the same words whatever the names are.
        assert _outside_quotes(refusal, agent, known) == "Agent N has no grant to burn BONK."
        sentences.add(sentence)
    assert len(sentences) == 3


def _outside_quotes(sentence: str, agent: str, known: Names) -> str:
    """The sentence with its first name, as a reader of quotes finds it, as `N`."""
    shown = re.compile(r'^Agent (?:"(?:[^"\\]|\\.)*" \(a[123]\)|[A-Za-z0-9._-]+) ')
    return shown.sub("Agent N ", sentence)


@promise("names-forge-no-grant")
def test_a_name_that_means_somebody_else_is_never_a_plain_word() -> None:
    known = known_names({"agent": {"a1": "a2", "a2": "scout", "a3": "scout"}, "wallet": {}})
    finding = {
        each: Finding(Reason.NO_GRANT, f"agent:{each}", None) for each in known.rows["agent"]
    }
    texts = {each: finding_sentence(found, known) for each, found in finding.items()}
    rest = "has no grant to make a transaction."
    assert texts == {
        "a1": f'Agent "a2" (a1) {rest}',
        "a2": f'Agent "scout" (a2) {rest}',
        "a3": f'Agent "scout" (a3) {rest}',
    }


def test_a_principal_without_grants_only_reads() -> None:
    assert read_only_sentence("key:k1", KNOWN) == "Key ci may only read."


def test_a_site_without_grants_is_not_paid() -> None:
    said = read_only_sentence("site:127.0.0.1:4021", KNOWN)
    assert said == "Site 127.0.0.1:4021 may not be paid."


@pytest.mark.parametrize(
    "text",
    [
        "Agent scout may be paid up to 1 USDC a day, to anybody.",
        "Site api.example.com may pay up to 1 USDC a day.",
        "Site api.example.com may be paid and transfer up to 1 USDC a day.",
        "Site API.example.com may be paid up to 1 USDC a day.",
        'Site "api.example.com" may be paid up to 1 USDC a day.',
    ],
)
def test_a_site_is_paid_and_nobody_else_is(text: str) -> None:
    with pytest.raises(InvalidRequest):
        read_sentence(text)


PAY_SELLER = replace(PAY_USDC, operation=Operation.PAY, owner=VENDOR)
FINDINGS: dict[str, Finding] = {
    "Grant 1 lets agent scout pay through api.example.com only.": Finding(
        Reason.VIA, SCOUT, PAY_SELLER, 1, detail="api.example.com"
    ),
    "Agent scout has no grant to pay USDC.": Finding(Reason.NO_GRANT, SCOUT, PAY_SELLER),
    "Site 127.0.0.1:4021 has no grant to be paid USDC.": Finding(
        Reason.NO_GRANT, "site:127.0.0.1:4021", PAY_SELLER
    ),
    f"Grant 2 does not let site a.example be paid USDC to {VENDOR}.": Finding(
        Reason.RECIPIENT, "site:a.example", PAY_SELLER, 2
    ),
    "3 USDC is more than the 2 USDC at once that grant 1 gives site a.example.": Finding(
        Reason.PER_TX,
        "site:a.example",
        PAY_SELLER,
        1,
        limit=2_000_000,
        requested=3_000_000,
        decimals=6,
    ),
    "Agent scout has no grant to burn BONK.": Finding(Reason.NO_GRANT, SCOUT, BURN_BONK),
    "Agent scout has no grant to make a transaction.": Finding(Reason.NO_GRANT, SCOUT),
    "Agent scout has no grant to transfer USDC.": Finding(Reason.DEFAULT, SCOUT, PAY_USDC),
    "Agent scout has no grant to launch a token.": Finding(
        Reason.NO_GRANT, SCOUT, Line(Operation.LAUNCH, PEPE, 0)
    ),
    "Agent scout has no grant to fund an own wallet with SOL.": Finding(
        Reason.NO_GRANT, SCOUT, Line(Operation.FUND, SOL, 1, VENDOR, VENDOR, 9)
    ),
    "Grant 3 of agent scout is for wallet pocket only.": Finding(
        Reason.WALLET, SCOUT, PAY_USDC, 3, detail=POCKET
    ),
    f"Grant 3 does not let agent scout transfer USDC to {VENDOR}.": Finding(
        Reason.RECIPIENT, SCOUT, PAY_USDC, 3
    ),
    "Grant 1 does not let agent scout swap USDC at jupiter.": Finding(
        Reason.RECIPIENT, SCOUT, Line(Operation.SWAP, USDC, 1, "venue:jupiter", decimals=6), 1
    ),
    f"{VENDOR} was never paid from this wallet; grant 3 of agent scout pays no new "
    "recipient.": Finding(Reason.NEW_RECIPIENT, SCOUT, PAY_USDC, 3),
    f"{VENDOR} was never paid from this wallet, though it looks like {STRANGER}, which was; grant "
    "3 of agent scout pays no new recipient.": Finding(
        Reason.NEW_RECIPIENT, SCOUT, PAY_USDC, 3, detail=STRANGER
    ),
    "Grant 3 of agent scout applies at 07:00-22:00 UTC only.": Finding(
        Reason.HOURS, SCOUT, PAY_USDC, 3, detail="07:00-22:00 UTC"
    ),
    "Grant 3 of agent scout ended at 2026-12-31T00:00:00Z.": Finding(
        Reason.ENDED, SCOUT, PAY_USDC, 3, detail="2026-12-31T00:00:00Z"
    ),
    "6 USDC is more than the 5 USDC at once that grant 3 gives agent scout.": Finding(
        Reason.PER_TX, SCOUT, PAY_USDC, 3, limit=5_000_000, requested=6_000_000, decimals=6
    ),
    "$1.2 of BONK is more than the $1 at once that grant 3 gives agent scout.": Finding(
        *(Reason.PER_TX, SCOUT, BURN_BONK, 3),
        limit=1_000_000,
        requested=1_200_000,
        decimals=6,
        counted_as=USD,
    ),
    "Grant 3 of agent scout has 1.2 of 20 USDC left in 24 hours; 3 are requested; more at 14:05 "
    "UTC.": Finding(
        *(Reason.WINDOW, SCOUT, PAY_USDC, 3, 20_000_000, 18_800_000, 3_000_000, 6, DAY, ROOM),
        counted_as=USDC,
        now_ms=ROOM - HOUR,
    ),
    "Grant 3 of agent scout has 0 of 20 USDC left in 24 hours; 1 is requested; more at 2026-11-22 "
    "14:05 UTC.": Finding(
        *(Reason.WINDOW, SCOUT, PAY_USDC, 3, 20_000_000, 20_000_000, 1_000_000, 6, DAY, ROOM),
        now_ms=ROOM - DAY,
    ),
    "Grant 3 of agent scout has 0 of 20 USDC left in 7 days; 1 is requested; more at 2026-11-22 "
    "14:05 UTC.": Finding(
        Reason.WINDOW,
        SCOUT,
        PAY_USDC,
        3,
        20_000_000,
        20_000_000,
        1_000_000,
        6,
        7 * DAY,
        ROOM,
        now_ms=ROOM - 6 * DAY,
    ),
    "Grant 3 of agent scout has $0.5 of $3 left in 36 hours; $0.600001 of BONK is "
    "requested.": Finding(
        *(Reason.WINDOW, SCOUT, BURN_BONK, 3, 3_000_000, 2_500_000, 600_001, 6, 36 * HOUR),
        counted_as=USD,
    ),
    "21 USDC is more than the 20 USDC in 24 hours that grant 3 gives agent scout.": Finding(
        Reason.WINDOW, SCOUT, PAY_USDC, 3, 20_000_000, 20_000_000, 21_000_000, 6, DAY, ROOM
    ),
    "0.02 SOL of fees and rent is more than the 0.01 SOL of fees and rent in 24 hours that grant 3 "
    "gives agent scout.": Finding(
        *(Reason.COSTS, SCOUT, None, 3, 10_000_000, 0, 20_000_000, 9, DAY),
        counted_as=COSTS,
    ),
    "Grant 3 of agent scout allows 5 transactions in a minute; 5 were made; more at 14:05 "
    "UTC.": Finding(
        *(Reason.RATE, SCOUT, None, 3, 5, 5, 1, 0, 60_000, ROOM), counted_as=RATE, now_ms=ROOM - 1
    ),
    "Grant 3 of agent scout allows 1 transaction in an hour; 1 was made.": Finding(
        Reason.RATE, SCOUT, None, 3, 1, 1, 1, 0, HOUR, counted_as=RATE
    ),
    "Grant 3 of agent scout has 0.001 of 0.01 SOL of fees and rent left in 24 hours; 0.002 is "
    "requested.": Finding(
        *(Reason.COSTS, SCOUT, None, 3, 10_000_000, 9_000_000, 2_000_000, 9, DAY),
        counted_as=COSTS,
    ),
    "Grant 3 of agent scout pays no network fee and no rent.": Finding(
        Reason.COSTS, SCOUT, None, 3, 0, 0, 5_000, 9, counted_as=COSTS
    ),
    "2.5% slippage is more than the 1% that grant 3 gives agent scout.": Finding(
        Reason.SLIPPAGE, SCOUT, None, 3, limit=100, requested=250
    ),
    "The price impact is not known; grant 3 of agent scout allows at most 1%.": Finding(
        Reason.IMPACT, SCOUT, None, 3, limit=100
    ),
    f"Grant 3 does not let agent scout swap into {PEPE}.": Finding(
        Reason.INTO, SCOUT, None, 3, detail=PEPE
    ),
    "Agent scout has no grant to swap into BONK.": Finding(Reason.INTO, SCOUT, None, detail=BONK),
    "The transaction states 9 decimals for USDC; grant 3 of agent scout was written for "
    "6.": Finding(Reason.DECIMALS, SCOUT, PAY_USDC, 3, limit=6, requested=9),
    "The transaction states no decimals for USDC; grant 3 of agent scout was written for "
    "6.": Finding(Reason.DECIMALS, SCOUT, PAY_USDC, 3, limit=6),
    "The price of BONK is not known, and grant 3 of agent scout counts in dollars: no source "
    "\\n has it.": Finding(Reason.PRICE, SCOUT, BURN_BONK, 3, detail="no source \n has it"),
    "3 USDC is more than the 2 USDC above which grant 3 of agent scout asks a person.": Finding(
        Reason.ABOVE_HOLD, SCOUT, PAY_USDC, 3, limit=2_000_000, requested=3_000_000, decimals=6
    ),
}


@pytest.mark.parametrize(("sentence", "finding"), FINDINGS.items())
def test_15_a_refusal_says_what_was_asked_what_is_allowed_and_what_is_left(
    sentence: str, finding: Finding
) -> None:
    assert finding_sentence(finding, KNOWN) == sentence


def test_a_refusal_for_decimals_has_them_as_its_numbers() -> None:
    for requested in (9, None):
        finding = Finding(Reason.DECIMALS, SCOUT, PAY_USDC, 3, limit=6, requested=requested)
        numbers = finding_refusal(finding, KNOWN).numbers
        assert numbers is not None
        asked = {} if requested is None else {"asked": "9"}
        assert numbers.to_json() == {**asked, "limit": "6", "unit": "decimals"}


def test_every_reason_has_its_sentence() -> None:
    assert {finding.why for finding in FINDINGS.values()} == set(Reason)


@pytest.mark.parametrize("why", Reason)
def test_a_finding_of_which_little_is_known_has_a_sentence_too(why: Reason) -> None:
    for finding in (
        Finding(why, SCOUT),
        Finding(why, "plugin:solward-weather", PAY_USDC),
        Finding(why, "wallet:w2", Line(Operation.TRANSFER, PEPE, 5), 1),
    ):
        text = finding_sentence(finding, KNOWN)
        assert text.endswith(".")
        assert "None" not in text


def held(lines: Sequence[Line], intent: Intent = SENDS, **more: Any) -> str:
    return hold_sentence(SCOUT, POCKET, lines, KNOWN, intent, **more)


def test_what_waits_for_a_person_says_who_asks_what_to_whom_and_why() -> None:
    above = Finding(
        Reason.ABOVE_HOLD, SCOUT, PAY_USDC, 3, limit=2_000_000, requested=3_000_000, decimals=6
    )
    unknown = Line(Operation.TRANSFER, PEPE, 12, STRANGER)
    assert held((PAY_USDC, BURN_BONK, unknown)) == (
        f"Agent scout asks to transfer 3 USDC to {VENDOR}, burn 2.5 BONK and transfer 12 smallest "
        f"units of {PEPE} to {STRANGER}, from wallet pocket."
    )
    assert reason_sentence(above, KNOWN) == (
        "3 USDC is more than the 2 USDC above which grant 3 of agent scout asks a person."
    )
    alike = Finding(Reason.NEW_RECIPIENT, SCOUT, PAY_USDC, 3, detail=STRANGER)
    assert reason_sentence(alike, KNOWN) == (
        f"{VENDOR} was never paid from this wallet, though it looks like {STRANGER}, which was;"
        " grant 3 of agent scout asks a person first."
    )
    assert held((PAY_SELLER,), sites=["site:127.0.0.1:4021"]) == (
        f"Agent scout asks to pay 3 USDC to {VENDOR}, from wallet pocket, through 127.0.0.1:4021."
    )
    funding = Line(Operation.FUND, SOL, 250_000_000, VENDOR)
    for own, wallet in (
        ({VENDOR: "w2"}, 'your wallet "till" (w2)'),
        ({VENDOR: POCKET}, "your wallet pocket"),
        ({}, "an own wallet"),
    ):
        assert held((funding,), own=own) == (
            f"Agent scout asks to fund {wallet} with 0.25 SOL to {VENDOR}, from wallet pocket."
        )
    assert hold_sentence("key:k1", "w2", (), KNOWN, SENDS) == (
        'Key ci asks to make a transaction that takes only fees and rent, from wallet "till" (w2).'
    )


# Of these types the lines of the bytes say what is done, to whom.
SAID_BY_LINES = {"transfer", "token_transfer", "swap", "burn"}


def asked(type_: str, details: Mapping[str, Any], **more: Any) -> str:
    intent = Intent(type_, "w", details=details, **more)
    return held((), intent, digest="ab" * 32)


@promise("acts-read-differently")
def test_no_two_operations_read_the_same_to_who_approves_them() -> None:
    said = set()
    for operation in OPERATIONS.values():
        if operation.type in SAID_BY_LINES:
            continue
        fixed = fixed_details(operation.type)
        assert fixed, f"{operation.name} says nothing of what it does"
        details = {name: operation.answer[name] for name in operation.answer}
        text = asked(operation.type, details)
        assert text not in said
        said.add(text)
        for name in fixed:
            value = details[name]
            other = value + 1 if isinstance(value, int | float) else f"{value[:-1]}x"
            changed = asked(operation.type, {**details, name: other})
            assert changed != text, f"{operation.name}: {name} may change unseen"
    paid = {"method": "GET", "url": "https://a.example/x"}
    assert asked("payment", paid) != asked("payment", {**paid, "url": "https://a.example/y"})


@promise("acts-read-differently")
def test_a_plugins_own_transaction_is_told_by_its_bytes_and_its_words_as_its_own() -> None:
    intent = Intent("other", "w", details={"pluginDetails": {"to": "a friend", "amount": 1}})
    text = held((PAY_USDC,), intent, digest="ab" * 32)
    assert text == (
        f"Agent scout asks to transfer 3 USDC to {VENDOR} (request abababababab), from wallet"
        ' pocket. Unchecked description by the plugin: "{\\"amount\\":1,\\"to\\":\\"a friend\\"}".'
    )
    closing = asked("other", {}, may_close=frozenset({STRANGER}))
    assert f"takes only fees and rent, which may close {STRANGER}" in closing
    one, two = (held((), intent, digest=each * 32) for each in ("ab", "cd"))
    assert one != two


def test_what_must_arrive_is_said() -> None:
    least = (Line(Operation.SWAP, SOL, 2_000_000_000), Line(Operation.SWAP, PEPE, 7))
    text = held((PAY_USDC,), arrives=least)
    assert f" for at least 2 SOL and 7 smallest units of {PEPE}, from wallet pocket." in text


def test_what_is_left_of_a_limit() -> None:
    def left(asset: str, decimals: int, most: int, used: int, room_ms: int | None = None) -> str:
        return left_sentence(asset, decimals, Window(DAY, most), used, KNOWN, room_ms, ROOM - HOUR)

    assert left(USDC, 6, 20_000_000, 18_800_000, ROOM) == (
        "1.2 of 20 USDC left in 24 hours; more at 14:05 UTC"
    )
    # The first minute of the next day, though the second before is of this one.
    midnight = ROOM - ROOM % DAY + DAY
    assert left(USDC, 6, 20_000_000, 18_800_000, midnight - 1_000) == (
        "1.2 of 20 USDC left in 24 hours; more at 2026-11-23 00:00 UTC"
    )
    assert left(USD, 6, 3_000_000, 0) == "$3 of $3 left in 24 hours"
    assert left(COSTS, 9, 10_000_000, 20_000_000) == (
        "0 of 0.01 SOL of fees and rent left in 24 hours"
    )
    assert left(RATE, 0, 5, 3) == "2 of 5 transactions left in 24 hours"


def test_what_can_leave_a_wallet_today() -> None:
    assert (
        can_leave_sentence(POCKET, {}, KNOWN)
        == "Nothing can leave wallet pocket today by anybody but the operator."
    )
    assert can_leave_sentence(POCKET, {USDC: (0, 6)}, KNOWN) == (
        "Nothing can leave wallet pocket today by anybody but the operator."
    )
    amounts = {
        ANY_ASSET: (3_000_000, 6),
        COSTS: (50_000_000, 9),
        USDC: (20_500_000, 6),
        SOL: (2_000_000_000, 9),
    }
    assert can_leave_sentence(POCKET, amounts, KNOWN) == (
        "At most 2 SOL, 20.5 USDC, $3 of any other asset and 0.05 SOL of fees and rent can leave "
        "wallet pocket today by anybody but the operator."
    )
    assert can_leave_sentence("w2", {ANY_ASSET: None}, KNOWN) == (
        'Any amount of any asset can leave wallet "till" (w2) today by anybody but the operator.'
    )


def test_whoever_nothing_limits_is_said() -> None:
    end = (
        "so nothing limits how much of a token can be swapped; limit it with `solward policy grant"
        " add`."
    )
    scout, till = SCOUT, "wallet:w2"
    for through, others, said in (
        ([scout], 0, "Agent scout has no grants"),
        ([scout, till], 0, 'Agent scout and wallet "till" (w2) have no grants'),
        ([scout], 1, "Agent scout and another have no grants"),
        ([scout] * 5, 2, "Agent scout, agent scout, agent scout and 4 others have no grants"),
        ([], 1, "One principal has no grants"),
        ([], 1_200, "1,200 principals have no grants"),
    ):
        assert unlimited_sentence(through, others, KNOWN) == f"{said}, {end}"


START = "Agent scout may transfer up to 5 USDC a day, to @vendors"


@pytest.mark.parametrize(
    ("sentence", "error"),
    [
        ("", "A sentence such as"),
        (START, "A sentence such as"),
        ("Scout may do anything.", "A sentence such as"),
        ("Agent scout may steal up to 5 USDC a day.", 'is expected, not "steal"'),
        ("Agent scout may transfer for 5 USDC.", 'is expected, not "transfer for 5 USDC"'),
        ("Agent scout may transfer up to five USDC a day.", '"five USDC a day" is not understood'),
        ("Agent scout may transfer up to 5 USDC a year.", '"5 USDC a year" is not understood'),
        ("Agent scout may transfer up to 5 USDC a day and 6 a day.", "6 a day is given"),
        ("Agent scout may burn up to 5 USDC a day, and up to 6 USDC an hour.", "USDC stands twi"),
        (f"{START}; whatever.", '"whatever" is not understood'),
        (
            "Agent scout may transfer up to 5 USDC at onc.",
            'understood: "onc", did you mean "once"?',
        ),
        ("Agent scout may transfer up to 5 USDC a dy.", 'understood: "dy", did you mean "day"?'),
        ("Agent scout may transfer up to five USDC a day.", 'understood: "five"'),
        (
            "Agent scout may swap up to 1 SOL a day, too anybody.",
            'understood: "too", did you mean "to"?',
        ),
        (
            "Agnt scout may transfer.",
            'Schedule, Plugin, Skill, Site is expected first, not "Agnt"',
        ),
        ("Agent scout can transfer.", '" may " is missing'),
        ("Agent scout 2 may transfer.", '"Agent scout 2" is no agent\'s name'),
        (f"{START}", "it has no full stop at its end"),
        (
            f"{START}; above 2 BONK a person is asked.",
            "above 2 BONK, but BONK has no limit",
        ),
        (f"{START}; above 2 USDC and 3 USDC a person is asked.", "not understood"),
        (f"{START}; above 2 USDC or 3 USDC a person is asked.", "two amounts of USDC"),
        (f"{START}; nothing to somebody new; to somebody new a person is asked.", "stands twice"),
        (f"{START}; at most 5 a minute and 6 a minute.", "6 a minute is given in addition"),
        (
            f"{START}; until 2027-01-01T00:00:00Z; until 2028-01-01T00:00:00Z.",
            "is given in addition",
        ),
        (f"{START}; slippage at most 1.005%.", "too many digits"),
        (f"{START}; at most {'9' * 5000} a minute.", "is not understood"),
    ],
)
def test_a_sentence_that_is_none_is_refused_by_its_words(sentence: str, error: str) -> None:
    with pytest.raises(InvalidRequest) as refused:
        read_sentence(sentence)
    assert error in str(refused.value)
    assert str(refused.value).isprintable()


WORDS = st.sampled_from(
    [
        *(
            "Agent ",
            "scout",
            " may ",
            "transfer",
            " and ",
            ", ",
            " up to ",
            "5 USDC",
            " a day",
            ";",
        ),
        *(" or ", "above ", " a person is asked", "at most ", "$1", " of any asset", "in 3 days"),
        *("to @vendors", "until ", "swaps only into ", "slippage at most ", "1%", ".", '"', "\\"),
        *("from ", " UTC", "fees and rent up to ", " SOL a day", "; ", ", and up to ", "9" * 30),
    ]
)


@given(words=st.lists(WORDS), text=st.text())
def test_any_text_is_a_grants_sentence_or_is_refused(words: list[str], text: str) -> None:
    for each in (f"Agent scout may {''.join(words)}.", "".join(words), text):
        try:
            document = read_sentence(each)
        except InvalidRequest:
            continue
        assert document["who"].startswith("agent:")
