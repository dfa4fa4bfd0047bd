"""Skills as MCP tools: their schemas, their hints, and arguments that stay exact."""

from __future__ import annotations

import re
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.support.repository import DOCS

from solward.client import Skill
from solward_mcp import handlers
from solward_mcp.conversion import (
    IDEMPOTENCY_META,
    BadArgument,
    exact,
    idempotency_key,
    title_of,
    tool_of,
    wallet_parameter,
)
from solward_mcp.tools import is_triable


def skill(effects: str = "spend", **schema: Any) -> Skill:
    parameters = {
        "type": "object",
        "properties": {"amount": {"type": "number", "exclusiveMinimum": Decimal("0.5")}},
        "required": ["amount"],
        "additionalProperties": False,
    } | schema
    return Skill(
        name="tip",
        description="Tips.",
        parameters=parameters,
        effects=effects,
        distribution="tips",
        version="1.2",
        manifest=None,
        raw={},
    )


def test_a_tool_asks_for_the_wallet_beside_the_skills_own_parameters() -> None:
    tool = tool_of(skill(), one_wallet=False)
    assert (tool["name"], tool["description"]) == ("tip", "Tips.")
    assert list(tool["inputSchema"]["properties"]) == ["wallet", "amount"]
    assert tool["inputSchema"]["required"] == ["wallet", "amount"]
    assert tool["inputSchema"]["additionalProperties"] is False


def test_a_session_for_one_wallet_does_not_name_it() -> None:
    tool = tool_of(skill(), one_wallet=True)
    assert list(tool["inputSchema"]["properties"]) == ["amount"]
    assert tool["inputSchema"]["required"] == ["amount"]


def test_a_tool_that_can_be_tried_takes_dry_run_as_its_last() -> None:
    tool = tool_of(skill(), one_wallet=True, triable=True)
    assert list(tool["inputSchema"]["properties"]) == ["amount", "dry_run"]
    assert tool["inputSchema"]["required"] == ["amount"]
    assert "dry_run" in tool["outputSchema"]["properties"]["status"]["enum"]


@pytest.mark.parametrize(
    ("own", "triable"),
    [
        (skill(), False),
        (replace(skill(), name="transfer"), True),
        (replace(skill("read"), name="transfer"), False),
        (replace(skill(properties={"dry_run": {"type": "string"}}), name="transfer"), False),
    ],
    ids=["unknown", "money route", "reads", "its own parameter"],
)
def test_what_has_a_money_route_of_its_name_can_be_tried(own: Skill, triable: bool) -> None:
    assert is_triable(own) is triable


@pytest.mark.parametrize(
    ("name", "title"),
    [("transfer_token", "Transfer token"), ("stake_sol", "Stake SOL"), ("tip", "Tip")],
)
def test_a_title_is_the_name_for_people(name: str, title: str) -> None:
    tool = tool_of(replace(skill(), name=name), one_wallet=False)
    assert tool["title"] == tool["annotations"]["title"] == title_of(name) == title


def test_what_a_tool_answers_fits_its_output_schema() -> None:
    for effects, told in (
        ("read", {"text": "1 SOL"}),
        ("spend", {"status": "done", "text": "Sent."}),
        ("spend", {"status": "held", "holdId": "h", "sentence": "s"}),
    ):
        schema = tool_of(skill(effects), one_wallet=False)["outputSchema"]
        Draft202012Validator.check_schema(schema)
        assert Draft202012Validator(schema).is_valid(told)
        assert not Draft202012Validator(schema).is_valid({"more": 1})


def test_a_skill_without_parameters_still_takes_a_wallet() -> None:
    bare = skill(properties={}, required=[])
    assert tool_of(bare, one_wallet=False)["inputSchema"]["required"] == ["wallet"]


def test_a_skills_own_wallet_parameter_keeps_its_name() -> None:
    own = skill(properties={"wallet": {"type": "integer"}}, required=["wallet"])
    tool = tool_of(own, one_wallet=False)
    assert wallet_parameter(own) == "solward_wallet"
    assert tool["inputSchema"]["properties"]["wallet"] == {"type": "integer"}
    assert tool["inputSchema"]["required"] == ["solward_wallet", "wallet"]


def test_the_schema_on_the_wire_has_numbers_where_the_skill_has_them() -> None:
    tool = tool_of(skill(), one_wallet=False)
    least = tool["inputSchema"]["properties"]["amount"]["exclusiveMinimum"]
    assert (least, type(least)) == (0.5, float)
    Draft202012Validator.check_schema(tool["inputSchema"])


def test_counting_keywords_do_not_count_the_wallet() -> None:
    counted = skill(maxProperties=1, minProperties=1, propertyNames={"enum": ["amount"]})
    schema = tool_of(counted, one_wallet=False)["inputSchema"]
    assert Draft202012Validator(schema).is_valid({"wallet": "w", "amount": 1})


def test_hints_tell_readers_from_spenders() -> None:
    spend = tool_of(skill("spend"), one_wallet=False)["annotations"]
    read = tool_of(skill("read"), one_wallet=False)["annotations"]
    assert (spend["readOnlyHint"], spend["destructiveHint"]) == (False, True)
    assert (read["readOnlyHint"], read["destructiveHint"]) == (True, False)
    assert (spend["idempotentHint"], read["idempotentHint"]) == (False, True)
    assert spend["openWorldHint"] is True


def test_fractions_arrive_as_they_were_written() -> None:
    given = {"amount": 0.1, "deep": [{"x": 1e-9}], "whole": 7, "text": "0.1", "flag": True}
    assert exact(given, "", money=True) == {
        "amount": Decimal("0.1"),
        "deep": [{"x": Decimal("1e-9")}],
        "whole": 7,
        "text": "0.1",
        "flag": True,
    }
    largest = exact({"amount": 999999.999999999}, "", money=True)
    assert largest == {"amount": Decimal("999999.999999999")}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_what_is_no_number_is_refused_by_name(value: float) -> None:
    with pytest.raises(BadArgument, match=r"deep\.amounts\[1\] must be a finite number"):
        exact({"deep": {"amounts": [1, value]}}, "", money=False)


def test_an_amount_with_more_digits_than_a_float_keeps_is_refused() -> None:
    with pytest.raises(BadArgument, match="amount must have at most 15 digits"):
        exact({"amount": 123456789.123456789}, "", money=True)
    assert exact({"bearing": 0.1 + 0.2}, "", money=False) == {
        "bearing": Decimal("0.30000000000000004")
    }


def test_a_caller_may_bring_the_key_of_its_call() -> None:
    assert idempotency_key(None) is None
    assert idempotency_key({"other": 1}) is None
    assert idempotency_key({IDEMPOTENCY_META: "order 7"}) == "order 7"


@pytest.mark.parametrize("key", ["", "x" * 256, "ünï", "a\nb", " ", " kx", "kx ", 7, ["k"]])
def test_a_key_no_header_could_carry_is_refused(key: object) -> None:
    with pytest.raises(BadArgument, match=IDEMPOTENCY_META):
        idempotency_key({IDEMPOTENCY_META: key})


async def test_the_documentation_lists_the_hints_and_the_addresses_as_they_are() -> None:
    page = (DOCS / "how-to/mcp.md").read_text()
    for name in ("readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint"):
        read, spend = (
            str(tool_of(skill(effects), one_wallet=False)["annotations"][name]).lower()
            for effects in ("read", "spend")
        )
        assert f"| `{name}` | {read} | {spend} |" in page
    templates = (await handlers.list_templates())["resourceTemplates"]
    patterns = [each["uriTemplate"] for each in templates]
    documented = re.findall(r"^\| `(solward://[^`]+)` \|", page, re.MULTILINE)
    assert sorted(documented) == sorted([handlers.WALLETS, handlers.TRANSACTIONS, *patterns])
    assert f"at most {handlers.MAX_WALLETS}" in page
    assert f"newest {handlers.RECORDS}" in page
    assert IDEMPOTENCY_META in page
