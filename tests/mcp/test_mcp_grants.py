"""What a person decides, and what a session may do: over `POST /mcp`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from tests.mcp.test_mcp_http import BUILT_IN, post
from tests.support.grants import grant, limit
from tests.support.services import STRANGER, Api

from solward.client import Transaction, Trial
from solward.client.wallets import SKILL_ROUTES
from solward.operations.declared import OPERATIONS, SWAP
from solward.operations.policies.changes import replace_set
from solward.resources.declare import answer_schema
from solward.support import jsontext
from solward_mcp.protocol import IDEMPOTENCY_META
from solward_mcp.tools import built_in_tools

SOL = 10**9


async def call(api: Api, name: str, arguments: dict[str, Any], **options: Any) -> dict[str, Any]:
    """The whole result of a tool's call."""
    answer = await post(api, "tools/call", {"name": name, "arguments": arguments}, **options)
    result: dict[str, Any] = answer.json["result"]
    return result


async def asking(api: Api) -> tuple[str, str]:
    """A funded wallet, and a key for which a person is asked above 0.1 SOL."""
    wallet = await api.wallet(2)
    token, key = await api.key()
    most = limit("SOL", SOL, hold=SOL // 10)
    who = f"key:{key}"
    await replace_set(api.service.database, who, [grant(who, SOL=most)])
    return wallet, token


async def records(api: Api, wallet: str) -> list[Any]:
    return [each for each in await api.records(wallet) if each["type"] == "transfer"]


@pytest.mark.more
async def test_a_held_call_is_no_error_and_the_same_call_goes_on(api: Api) -> None:
    wallet, token = await asking(api)
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
    first = await call(api, "transfer", arguments, token=token)
    [hold] = await api.service.approvals.listed()
    told = first["structuredContent"]
    assert first["isError"] is False
    assert told == {
        "status": "held",
        "holdId": hold.id,
        "sentence": hold.sentence,
        "approveAt": f"http://127.0.0.1:3000/holds/{hold.id}",
        "expiresAt": hold.to_json()["expiresAt"],
    }
    assert hold.sentence in first["content"][0]["text"]
    assert token not in jsontext.dumps(first)
    # Still held, it is no second payment, whatever the order of its arguments.
    again = await call(api, "transfer", dict(reversed(arguments.items())), token=token)
    assert again["structuredContent"] == told
    assert len(await api.service.approvals.listed()) == 1

    await api.service.approvals.approve(hold.id, "admin")
    done = await call(api, "transfer", arguments, token=token)
    assert done["isError"] is False
    assert "Sent 0.25 SOL" in done["content"][0]["text"]
    assert [each["status"] for each in await records(api, wallet)] == ["confirmed"]
    # Its end was told: now it is another payment, and a person is asked about it.
    other = await call(api, "transfer", arguments, token=token)
    assert other["structuredContent"]["holdId"] != hold.id


async def test_a_denied_call_is_told_once_and_pays_nothing(api: Api) -> None:
    wallet, token = await asking(api)
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
    held = await call(api, "transfer", arguments, token=token)
    await api.service.approvals.deny(held["structuredContent"]["holdId"], "admin", "not today")
    told = await call(api, "transfer", arguments, token=token)
    assert told["isError"] is True
    assert "not today" in told["content"][0]["text"]
    assert [each["status"] for each in await records(api, wallet)] == ["blocked"]


async def test_callers_do_not_go_on_with_the_calls_of_others(api: Api) -> None:
    wallet, token = await asking(api)
    other, key = await api.key()
    who = f"key:{key}"
    await replace_set(
        api.service.database, who, [grant(who, SOL=limit("SOL", SOL, hold=SOL // 10))]
    )
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
    first = await call(api, "transfer", arguments, token=token)
    second = await call(api, "transfer", arguments, token=other)
    held = {each["structuredContent"]["holdId"] for each in (first, second)}
    assert held == {hold.id for hold in await api.service.approvals.listed()}
    assert len(held) == 2


async def test_the_key_of_a_held_call_goes_on_in_any_process(api: Api) -> None:
    wallet, token = await asking(api)
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
    held = await call(api, "transfer", arguments, token=token)
    from solward_mcp import http

    known = http._HELD
    http._HELD = type(known)()  # another process
    try:
        meta = {IDEMPOTENCY_META: held["_meta"][IDEMPOTENCY_META]}
        params = {"name": "transfer", "arguments": arguments, "_meta": meta}
        again = (await post(api, "tools/call", params, token=token)).json["result"]
    finally:
        http._HELD = known
    assert again["structuredContent"] == held["structuredContent"]


async def test_limits_are_those_of_the_rest_api_with_the_sentences_of_grants(api: Api) -> None:
    wallet, token = await asking(api)
    result = await call(api, "get_limits", {"wallet": wallet}, token=token)
    rest = (await api.get(f"/wallets/{wallet}/limits", token=token)).json
    own = (await api.get("/keys/self", token=token)).json["key"]
    bounds = ("rateLimit", "spendingLimitSol", "maxCostsSolPerDay", "expiresAt")
    assert jsontext.loads(result["content"][0]["text"]) == {
        **rest,
        "key": {each: own[each] for each in bounds},
    }
    [grants] = result["structuredContent"]["grants"]
    assert "above 0.1 SOL a person is asked" in grants["grants"][0]["sentence"]
    assert result["structuredContent"]["canLeave"]["assets"]["SOL"] == {"most": "1"}


async def test_limits_have_those_of_the_sessions_key_and_what_is_left_of_them(api: Api) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key(walletId=wallet, spendingLimitSol=Decimal("0.3"))
    await call(api, "transfer", {"to": STRANGER, "amount": 0.1}, token=token)
    shown = (await call(api, "get_limits", {}, token=token))["structuredContent"]
    bound = shown["key"]["spendingLimitSol"]
    assert (bound["limit"], bound["left"]) == (Decimal("0.3"), Decimal("0.2"))
    uri = f"solward://wallets/{wallet}"
    answer = await post(api, "resources/read", {"uri": uri}, token=token)
    [content] = answer.json["result"]["contents"]
    assert jsontext.loads(content["text"])["limits"].keys() == shown.keys()
    # The operator has no key's limits.
    assert "key" not in (await call(api, "get_limits", {"wallet": wallet}))["structuredContent"]


async def test_history_and_one_transaction(api: Api) -> None:
    wallet, other = await api.wallet(1), await api.wallet(1)
    await call(api, "transfer", {"wallet": wallet, "to": STRANGER, "amount": 0.1})
    await call(api, "transfer", {"wallet": wallet, "to": STRANGER, "amount": 50})
    listed = await call(api, "get_history", {"wallet": wallet})
    found = listed["structuredContent"]["transactions"]
    assert [each["status"] for each in found] == ["blocked", "confirmed", "confirmed"]
    page = await call(api, "get_history", {"wallet": wallet, "limit": 1, "before": found[0]["id"]})
    assert [each["id"] for each in page["structuredContent"]["transactions"]] == [found[1]["id"]]
    for name in (found[1]["id"], found[1]["signature"]):
        one = await call(api, "get_transaction", {"wallet": wallet, "id": name})
        assert one["structuredContent"] == found[1]
    # Another wallet's is not there.
    missing = await call(api, "get_transaction", {"wallet": other, "id": found[1]["id"]})
    assert missing["isError"] is True
    for arguments in ({"limit": 0}, {"limit": 501}, {"limit": "5"}, {"more": 1}):
        wrong = await call(api, "get_history", {"wallet": wallet, **arguments})
        assert wrong["isError"] is True
        assert next(iter(arguments)) in wrong["content"][0]["text"]


async def test_a_quote_and_dry_runs_send_nothing(api: Api) -> None:
    wallet, token = await asking(api)
    before = (await api.get("/transactions")).text
    swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.1}
    quote = (await call(api, "quote_swap", {"wallet": wallet, **swap}))["structuredContent"]
    assert quote["inputUnits"] == str(SOL // 10)
    assert 0 < int(quote["minimumUnits"]) <= int(quote["outputUnits"])
    trials = {}
    for amount in (0.05, 0.25, 1.5, 50):
        tried = {"tool": "transfer", "arguments": {"to": STRANGER, "amount": amount}}
        trial = await call(api, "dry_run", {"wallet": wallet, **tried}, token=token)
        assert trial["isError"] is False
        trials[amount] = trial["structuredContent"]
    assert trials[0.05]["allowed"] is True
    assert (trials[0.25]["allowed"], trials[0.25]["held"]) == (False, True)
    assert (trials[1.5]["rule"], trials[50]["rule"]) == ("grants", "max_per_tx")
    swapped = await call(api, "dry_run", {"wallet": wallet, "tool": "swap", "arguments": swap})
    assert swapped["structuredContent"]["allowed"] is True
    assert (await api.get("/transactions")).text == before
    assert await api.service.approvals.listed() == []
    for arguments in ({"tool": "check_balance"}, {"tool": "transfer", "arguments": []}):
        wrong = await call(api, "dry_run", {"wallet": wallet, **arguments})
        assert wrong["isError"] is True


async def test_every_skill_that_spends_can_be_tried(api: Api) -> None:
    skills = (await api.get("/skills")).json["skills"]
    spending = {each["name"] for each in skills if each["effects"] == "spend"}
    # What `pay` would do, `quote_payment` says.
    assert SKILL_ROUTES.keys() == spending - {"pay_request"}
    # Rent comes back by an operation that is no skill.
    declared = {each.path for each in OPERATIONS.values()} - {"reclaim-rent"}
    assert set(SKILL_ROUTES.values()) == declared


@pytest.mark.parametrize("one_wallet", [True, False])
def test_built_in_tools_say_what_they_take_and_that_they_only_read_but_pay(
    one_wallet: bool,
) -> None:
    tools = built_in_tools(one_wallet=one_wallet)
    assert {tool["name"] for tool in tools} == BUILT_IN
    for tool in tools:
        Draft202012Validator.check_schema(tool["inputSchema"])
        Draft202012Validator.check_schema(tool["outputSchema"])
        assert ("wallet" in tool["inputSchema"]["required"]) is not one_wallet
        assert ("wallet" in tool["inputSchema"]["properties"]) is not one_wallet
        assert tool["annotations"]["readOnlyHint"] is (tool["name"] != "pay")
        assert tool["annotations"]["destructiveHint"] is (tool["name"] == "pay")
        assert ("dry_run" in tool["inputSchema"]["properties"]) is (tool["name"] == "pay")


def test_built_in_tools_take_and_answer_what_is_declared() -> None:
    """The schemas were written by hand, so that `slippageBps` had no bound and a record three
    fields."""
    tools = {tool["name"]: tool for tool in built_in_tools(one_wallet=True)}
    swap = tools["quote_swap"]["inputSchema"]["properties"]
    assert swap == {each.json: each.schema() for each in SWAP.fields}
    record = tools["get_transaction"]["outputSchema"]
    assert record["properties"].keys() == answer_schema(Transaction)["properties"].keys()
    assert tools["get_history"]["outputSchema"]["properties"]["transactions"]["items"] == record
    tried = tools["dry_run"]["outputSchema"]["properties"].keys()
    assert tried == answer_schema(Trial)["properties"].keys()
    assert tools["pay"]["outputSchema"]["properties"].keys() > tried
    # A newer service may answer with more fields, and no tool has components.
    text = jsontext.dumps(tools)
    assert '"$ref"' not in text
    assert '"additionalProperties":false' not in jsontext.dumps(record)


async def test_a_tool_that_spends_can_be_tried_by_itself(api: Api) -> None:
    wallet, token = await asking(api)
    before = (await api.get("/transactions")).text
    for amount, rule, held in ((0.05, None, False), (0.25, None, True), (1.5, "grants", False)):
        arguments = {"wallet": wallet, "to": STRANGER, "amount": amount}
        tried = await call(api, "transfer", {**arguments, "dry_run": True}, token=token)
        told = tried["structuredContent"]
        assert (tried["isError"], told["status"]) == (False, "dry_run")
        assert (told.get("rule"), told.get("held", False)) == (rule, held)
        assert told["allowed"] is (rule is None and not held)
    assert (await api.get("/transactions")).text == before
    assert await api.service.approvals.listed() == []
    wrong = await call(api, "transfer", {**arguments, "dry_run": "yes"}, token=token)
    assert "dry_run must be true or false" in wrong["content"][0]["text"]
    arguments |= {"amount": 0.05, "dry_run": False}
    done = (await call(api, "transfer", arguments, token=token))["structuredContent"]
    assert done["status"] == "done"
    assert "Sent 0.05 SOL" in done["text"]


@pytest.mark.more
async def test_every_answer_fits_the_output_schema_of_its_tool(api: Api) -> None:
    wallet, token = await asking(api)
    schemas = {
        tool["name"]: tool["outputSchema"]
        for tool in (await post(api, token=token)).json["result"]["tools"]
    }
    swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.01}
    pay = {"to": STRANGER, "amount": 0.05}
    called = [
        ("transfer", pay),
        ("transfer", {**pay, "amount": 0.25}),
        ("transfer", {**pay, "dry_run": True}),
        ("transfer", {**pay, "amount": 50, "dry_run": True}),
        ("swap", {**swap, "dry_run": True}),
        ("check_balance", {}),
        ("get_limits", {}),
        ("get_history", {}),
        ("get_transaction", {"id": (await api.records(wallet))[0]["id"]}),
        ("quote_swap", swap),
        ("dry_run", {"tool": "transfer", "arguments": pay}),
    ]
    for name, arguments in called:
        result = await call(api, name, {"wallet": wallet, **arguments}, token=token)
        assert result["isError"] is False, result
        Draft202012Validator(schemas[name]).validate(result["structuredContent"])
