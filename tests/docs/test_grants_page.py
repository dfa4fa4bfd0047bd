"""Each example of grants is its file and answers as its table says; the fields are all there."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pytest
from tests.support.repository import DOCS, ROOT, TESTS

from solward.operations.policies.grant_documents import (
    FIELDS,
    GrantPolicy,
    grant_sentence,
    policy_json,
    read_policy,
)
from solward.operations.policies.grant_sentences import read_only_sentence
from solward.settings import Settings
from solward.solana.programs import LOCALNET_USDC_MINT, TOKEN_PROGRAM
from solward.solana.token_list import token_list
from solward.solana.tokens import associated_address
from solward.support import jsontext
from solward.types.guardrail import COSTS, SOL, Line, Operation
from solward.types.money import to_units
from solward.vault.grants.decide import compile_grants, decide, needed
from solward.vault.grants.model import RATE, Case, SwapTerms
from solward.vault.grants.sentences import finding_sentence, reason_sentence
from solward.vault.grants.spelling import Names

PAGE = (DOCS / "reference/grants.md").read_text()
HOW_TO = (DOCS / "how-to/grant-what-may-leave.md").read_text()
# Answers that the page leaves out.
MORE = (TESTS / "docs/grant_answers.md").read_text()
EXAMPLE = re.compile(
    r"^\[(?P<name>[\w-]+\.json)\]\((?:\.\./)+examples/grants/(?P<link>\S+)\):\n\n"
    r"```json\n(?P<text>.*?)^```\n\n(?P<sentences>(?:(?:> [^\n]+\n)+\n)+)"
    r"\| who \| transaction \| answer \|\n\|[-|]+\|\n(?P<rows>(?:\| [^\n]+\|\n)+)",
    re.MULTILINE | re.DOTALL,
)
ROW = re.compile(r"^\| (.+?) \| (.+?) \| (.+) \|$", re.MULTILINE)
EXAMPLES = ROOT / "examples" / "grants"
# 2026-11-23T12:00:00Z.
NOON_MS = 1_795_435_200_000
MINUTE_MS = 60_000
FEE = 5_000
ADDRESSES = {
    "the bakery": "AWpkmHGPb7QEWkhR4mNwttxQd4LSy4hGACcV195pxcS5",
    "the host": "Fb73vWgaqFqrgQhw8siHhR5txdYdMaMnSQVMfvyES5YV",
    "Ada": "5HsU4UXXD4SEwJV2X91YfcVNqnmdkmXH5jNC4QDitJWV",
    "Grace": "8rZva8FwL931HTKpNwTRQkgFXEVpo4hg7Ry1cs8qfcUH",
    "a stranger": "2FduZzV11a6cvRtFMv3fHL8jsMWjYDCYPyV6ZzzSoMb4",
    "another wallet": "8hC6vGUk9tYmqaYhkWGkd8X2ZGBHXtvNoxRzPMc3HKBs",
}
"""Who receives on the page."""
NEW = frozenset({"a stranger", "Grace"})
"""Whom no wallet of the page has paid."""
DOLLARS = {"SOL": Decimal(150), "USDC": Decimal(1), "BONK": Decimal("0.00002")}

TRANSACTION = re.compile(
    r"(?P<operation>transfer|fund|pay|swap|stake|burn|launch|unstake)"
    r"(?: (?P<amount>[\d.]+) (?P<asset>\w+))?(?: into (?P<into>\w+))?(?: to (?P<to>[\w ]+?))?"
    r"(?: through (?P<site>[\w.:]+))?(?: from (?P<wallet>\w+))?"
    r"(?: with (?P<slippage>[\d.]+)% slippage)?"
    r"(?: that costs (?P<costs>[\d.]+) SOL)?"
    r"(?:, after (?P<used>[\d.]+) (?P<unit>\w+))?(?:, at (?P<hour>\d\d):(?P<minute>\d\d))?"
)


# The service of the page: every principal's id is its name.
_PRINCIPALS = {
    "agent": ["scout"],
    "key": ["auditor", "cashier", "payroll", "boss"],
    "wallet": ["pocket", "till", "treasury"],
}
NAMES = Names(
    token_list("localnet"),
    {kind: {each: each for each in ids} for kind, ids in _PRINCIPALS.items()},
)


def read_example(text: str) -> GrantPolicy:
    """The policy of an example's text."""
    return read_policy(jsontext.read(text), NAMES)


def sentences(policy: GrantPolicy) -> list[str]:
    """Of each grant, in their order, then of who may only read."""
    said = [grant_sentence(each, NAMES) for grants in policy.sets.values() for each in grants]
    return said + [read_only_sentence(who, NAMES) for who, has in policy.sets.items() if not has]


def answer(policy: GrantPolicy, who: str, text: str) -> str:
    """`allowed`, `held: ` or `refused: ` with the sentences, to `who`'s transaction in words."""
    sets = {principal: compile_grants(grants) for principal, grants in policy.sets.items()}
    case, used = _case(policy, who, text)
    sums = {need: used.get(need[1], 0) for need in needed(sets, case)}
    decision = decide(sets, case, sums)
    if decision.refused is not None:
        return f"refused: {finding_sentence(decision.refused, NAMES)}"
    if decision.held:
        return f"held: {' '.join(reason_sentence(each, NAMES) for each in decision.held)}"
    return "allowed"


def _case(policy: GrantPolicy, who: str, text: str) -> tuple[Case, dict[str, int]]:
    """The transaction, and what all its grants have counted before."""
    said = TRANSACTION.fullmatch(text)
    assert said, text
    now = NOON_MS
    if said["hour"]:
        now += (int(said["hour"]) * 60 + int(said["minute"]) - 12 * 60) * MINUTE_MS
    wallet = said["wallet"] or {"cashier": "till", "payroll": "treasury"}.get(
        who.partition(" ")[2], "pocket"
    )
    line = _line(said)
    is_swap = line is not None and line.operation is Operation.SWAP
    used = {}
    if said["used"]:
        asset, decimals = _asset(said["unit"])
        used[asset] = to_units(Decimal(said["used"]), decimals, "used")
    dollars: tuple[int | str, ...] = ()
    if line is not None and said["asset"]:
        dollars = (math.ceil(Decimal(said["amount"]) * DOLLARS[said["asset"]] * 10**6),)
    return Case(
        wallet_id=wallet,
        chain=(
            f"wallet:{wallet}",
            who.replace(" ", ":"),
            *([f"site:{said['site']}"] if said["site"] else ()),
        ),
        lines=() if line is None else (line,),
        costs_lamports=to_units(Decimal(said["costs"]), 9, "costs") if said["costs"] else FEE,
        now_ms=(now, now),
        swap=(
            SwapTerms(int(Decimal(said["slippage"] or "0.5") * 100), 10, _asset(said["into"])[0])
            if is_swap
            else None
        ),
        own=frozenset({ADDRESSES["another wallet"]}),
        paid=frozenset(address for whom, address in ADDRESSES.items() if whom not in NEW),
        book={name: frozenset(addresses) for name, addresses in policy.book.items()},
        dollars=dollars,
    ), used


def _asset(word: str) -> tuple[str, int]:
    if word in ("transaction", "transactions"):
        return RATE, 0
    if word == "dollars":
        return "USD", 6
    return {"SOL": (SOL, 9), "USDC": (LOCALNET_USDC_MINT, 6), "costs": (COSTS, 9)}.get(word) or (
        NAMES.tokens.resolve(word, "asset"),
        5,
    )


def _line(said: re.Match[str]) -> Line | None:
    words: dict[str, Any] = said.groupdict()
    if words["operation"] == "unstake":
        return None
    operation = Operation(words["operation"])
    if operation is Operation.LAUNCH:
        return Line(operation, ADDRESSES["the host"], 0)
    asset, decimals = _asset(words["asset"])
    units = to_units(Decimal(words["amount"]), decimals, "amount")
    program = None if asset == SOL else TOKEN_PROGRAM
    account = owner = None
    if operation is Operation.SWAP:
        account = "venue:demo"
    elif operation is Operation.STAKE:
        account = ADDRESSES["the host"]
    elif words["to"]:
        account = owner = ADDRESSES[words["to"]]
        if program is not None:
            account = associated_address(owner, asset, program)
    return Line(operation, asset, units, account, owner, decimals, program)


SHOWN = {found["name"]: found for found in EXAMPLE.finditer(HOW_TO)}


def test_the_examples_are_the_files_of_their_folder() -> None:
    files = sorted(EXAMPLES.iterdir())
    assert list(SHOWN) == [file.name for file in files]
    assert len(files) == 11
    for file in files:
        assert SHOWN[file.name]["link"] == file.name
        assert SHOWN[file.name]["text"] == file.read_text()


@pytest.mark.parametrize("name", SHOWN)
def test_an_example_reads_and_has_the_sentences_below_it(name: str) -> None:
    policy = read_example(SHOWN[name]["text"])
    shown = SHOWN[name]["sentences"].strip().split("\n\n")
    assert sentences(policy) == [each.removeprefix("> ").replace("\n> ", " ") for each in shown]
    assert read_policy(policy_json(policy, NAMES), NAMES) == policy


ROWS = [(name, *row) for name, found in SHOWN.items() for row in ROW.findall(found["rows"])]
MORE_ROWS = [
    (name, *row)
    for name, text in re.findall(r"^## (\S+)\n(.*?)(?=^## |\Z)", MORE, re.MULTILINE | re.DOTALL)
    for row in ROW.findall(text)[1:]
]


@pytest.mark.parametrize(("name", "who", "transaction", "expected"), [*ROWS, *MORE_ROWS])
def test_an_example_answers_as_its_table_says(
    name: str, who: str, transaction: str, expected: str
) -> None:
    assert answer(read_example(SHOWN[name]["text"]), who, transaction) == expected


def test_every_example_refuses_something_and_some_hold() -> None:
    answers = {name: [row[3] for row in ROWS if row[0] == name] for name in SHOWN}
    for name, said in answers.items():
        assert any(each.startswith("refused: ") for each in said), name
    assert {each.partition(":")[0] for said in answers.values() for each in said} == {
        "allowed",
        "held",
        "refused",
    }


def test_the_shortest_grant_has_the_sentence_below_it() -> None:
    shown = re.search(r"```json\n(.+)\n```\n\n> (.+)\n", PAGE)
    assert shown is not None
    assert sentences(read_example(f'{{"grants": [{shown[1]}]}}')) == [shown[2]]


def test_every_field_of_a_grant_is_explained() -> None:
    table = PAGE.partition("\n## Fields\n")[2].partition("\n- ")[0]
    assert set(re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)) == set(FIELDS)
    for operation in Operation:
        assert f"`{operation.value}`" in table


def test_every_setting_that_bounds_money_has_its_place_beside_grants() -> None:
    table = PAGE.partition("\n## Limits beside grants\n")[2].partition("\n## ")[0]
    named = set(re.findall(r"`([A-Z_]{5,})`", table))
    assert named <= {each.upper() for each in Settings.model_fields}
    limits = (DOCS / "reference/settings.md").read_text().partition("\n## Limits\n")[2]
    bounding = re.findall(r"^\| `([A-Z_]+)` \|", limits.partition("\n## ")[0], re.MULTILINE)
    assert set(bounding) - {"HOLD_EXPIRES_S"} == named
