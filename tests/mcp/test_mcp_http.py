"""`POST /mcp`: who may call it, from which pages, and the wire without a client's help."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.services import SECRET, STRANGER, Answer, Api, serving_api
from werkzeug.datastructures import Headers

from solward.resources.schema import JSON
from solward.support import jsontext

BUILT_IN = {
    "get_limits",
    "get_history",
    "get_transaction",
    "quote_swap",
    "quote_payment",
    "dry_run",
    "pay",
}
KEY_REQUIRED = "Unauthorized — API key required"
ACCEPT = {"Accept": "application/json, text/event-stream", "Content-Type": "application/json"}


async def post(
    api: Api,
    method: str = "tools/list",
    params: dict[str, Any] | None = None,
    *,
    token: str | None = SECRET,
    data: bytes | None = None,
    **headers: str,
) -> Answer:
    """One JSON-RPC request to `/mcp`, as a client of the protocol before 2026 sends it."""
    message = {"jsonrpc": "2.0", "id": 7, "method": method, "params": params or {}}
    sent = ACCEPT | {name.replace("_", "-"): value for name, value in headers.items()}
    if token is not None:
        sent["Authorization"] = f"Bearer {token}"
    response = await api.app.test_client().open(
        "/mcp",
        method="POST",
        headers=sent,
        data=jsontext.dumps(message).encode() if data is None else data,
    )
    return Answer(response.status_code, response.headers, (await response.get_data()).decode())


async def tool(api: Api, name: str, arguments: dict[str, Any], **options: Any) -> tuple[bool, str]:
    """Call a tool: whether it failed, and its text."""
    answer = await post(api, "tools/call", {"name": name, "arguments": arguments}, **options)
    result = answer.json["result"]
    return result["isError"], result["content"][0]["text"]


async def read(api: Api, uri: str, **options: Any) -> Any:
    answer = await post(api, "resources/read", {"uri": uri}, **options)
    assert "result" in answer.json, answer.text
    [content] = answer.json["result"]["contents"]
    assert content["mimeType"] == "application/json"
    return jsontext.loads(content["text"])


async def refused(api: Api, uri: str, **options: Any) -> tuple[int, str]:
    """The code and text of a resource that cannot be read."""
    error = (await post(api, "resources/read", {"uri": uri}, **options)).json["error"]
    return error["code"], error["message"]


@pytest.mark.asyncio(loop_scope="module")
async def test_the_tools_are_the_skills(shared_api: Api) -> None:
    answer = await post(shared_api)
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "application/json"
    assert "Mcp-Session-Id" not in answer.headers
    assert answer.json["id"] == 7
    listed = {found["name"]: found for found in answer.json["result"]["tools"]}
    skills = {found["name"]: found for found in (await shared_api.get("/skills")).json["skills"]}
    # In its place stands `pay`, which does the same.
    del skills["pay_request"]
    assert listed.keys() - skills.keys() == BUILT_IN
    for name, skill in skills.items():
        schema = dict(listed[name]["inputSchema"])
        assert schema["required"] == ["wallet", *skill["parameters"].get("required", [])]
        assert listed[name]["description"] == skill["description"]
        assert listed[name]["annotations"]["readOnlyHint"] is (skill["effects"] == "read")


@promise("mcp-over-http-negotiates")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("accept", "status"),
    [
        ([], 200),
        ([""], 200),
        (["*/*"], 200),
        (["application/*;q=0.5"], 200),
        (["text/event-stream", "application/json"], 200),
        (["text/html"], 406),
        (["text/event-stream"], 406),
    ],
)
async def test_a_client_that_says_nothing_of_what_it_accepts_takes_json(
    shared_api: Api, accept: list[str], status: int
) -> None:
    headers = Headers([("Authorization", f"Bearer {SECRET}"), ("Content-Type", JSON)])
    for value in accept:
        headers.add("Accept", value)
    for params in ({}, envelope("2026-07-28")):
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": params}
        answer = await shared_api.app.test_client().open(
            "/mcp", method="POST", headers=headers, data=jsontext.dumps(message).encode()
        )
        assert answer.status_code == status
        headers["MCP-Protocol-Version"] = "2026-07-28"
        headers["Mcp-Method"] = "tools/list"


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("given", "status"),
    [
        ("Application/JSON", 200),
        ("APPLICATION/JSON; Charset=UTF-8", 200),
        ("application/json;charset=utf-8", 200),
        ("text/plain", 415),
        ("application/json-patch+json", 415),
        ("application/jsonx", 415),
        ("text/plain, application/json", 415),
        ("", 415),
    ],
)
async def test_a_message_is_of_the_type_of_json(shared_api: Api, given: str, status: int) -> None:
    answer = await post(shared_api, Content_Type=given)
    assert answer.status == status, answer.text
    assert status == 200 or "Content-Type must be application/json" in answer.error


@promise("error-class-under-both")
async def test_a_tool_that_is_refused_says_the_same_whatever_statuses_are_set(
    tmp_path: Path,
) -> None:
    told = []
    for statuses in ("contract", "semantic"):
        async with serving_api(tmp_path / statuses, error_status=statuses) as api:
            wallet = await api.wallet(1)
            sent = {"wallet": wallet, "to": STRANGER}
            calls = [("transfer", sent | {"amount": amount}) for amount in (5, 5, 1.5)]
            found = [await tool(api, name, arguments) for name, arguments in calls]
            found.append(await tool(api, "burn_tokens", {"wallet": wallet, "mint": "USDC",
                                                         "amount": 1}))  # fmt: skip
            # Each call that was refused is over: the same one again is another transaction.
            records = await api.records(wallet)
            told.append((found, [each["status"] for each in records]))
            again = await api.post(f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 5})
            assert again.status == (403 if statuses == "semantic" else 500)
    by_contract, semantic = told
    assert semantic == by_contract
    assert semantic[1] == ["failed", "blocked", "blocked", "confirmed"]
    assert [failed for failed, _ in semantic[0]] == [True] * 4
    blocked, twice, failed, few = (text for _, text in semantic[0])
    assert blocked == twice
    assert blocked.startswith("Transaction blocked by guardrail max_per_tx: 5 SOL is more than")
    assert "insufficient balance" in failed
    assert "the wallet has no token account of" in few


@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_as_a_task_is_answered_as_one_without(shared_api: Api) -> None:
    wallet = await shared_api.wallet(1)
    call = {"name": "check_balance", "arguments": {"wallet": wallet}}
    plain = await post(shared_api, "tools/call", call)
    as_task = await post(shared_api, "tools/call", call | {"task": {"ttl": 60_000}})
    assert as_task.json["result"] == plain.json["result"]


@promise("no-bounds-in-query")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("where", ["query", "Idempotency-Key", "x-idempotency_key"])
async def test_what_binds_elsewhere_binds_no_call_and_nothing_is_done(
    shared_api: Api, where: str
) -> None:
    wallet = await shared_api.wallet(1)
    headers = Headers([("Authorization", f"Bearer {SECRET}"), ("Content-Type", JSON)])
    if where != "query":
        headers[where] = "once"
    arguments = {"to": str(Keypair().pubkey()), "amount": 0.1, "wallet": wallet}
    call = {"name": "transfer", "arguments": arguments}
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call}
    answer = await shared_api.app.test_client().open(
        "/mcp?dryRun=true" if where == "query" else "/mcp",
        method="POST",
        headers=headers,
        data=jsontext.dumps(message).encode(),
    )
    assert answer.status_code == 400
    assert "Nothing was done" in (await answer.get_data(as_text=True))
    assert [each["type"] for each in await shared_api.records(wallet)] == ["airdrop"]


def envelope(version: str) -> dict[str, Any]:
    """Parameters as the protocol of 2026 has them."""
    prefix = "io.modelcontextprotocol"
    return {"_meta": {f"{prefix}/protocolVersion": version, f"{prefix}/clientCapabilities": {}}}


LATER = ("2026-07-29", "2099-01-01")


@promise("mcp-over-http-negotiates")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("version", [*LATER, "2026-07-28", "x"])
async def test_the_handshake_negotiates_whatever_version_the_client_has(
    shared_api: Api, version: str
) -> None:
    client = {"capabilities": {}, "clientInfo": {"name": "later", "version": "1"}}
    for headers in ({}, {"MCP_Protocol_Version": version}):
        params = client | {"protocolVersion": version}
        answer = await post(shared_api, "initialize", params, **headers)
        assert answer.status == 200, answer.text
        assert answer.json["result"]["protocolVersion"] == "2025-11-25"


@promise("mcp-over-http-negotiates")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_later_version_of_a_message_is_read_as_one_that_is_known(shared_api: Api) -> None:
    for version in LATER:
        assert "result" in (await post(shared_api, MCP_Protocol_Version=version)).json
        named = {"MCP_Protocol_Version": version, "Mcp_Method": "tools/list"}
        answer = await post(shared_api, params=envelope(version), **named)
        # By this the client of such a version chooses another.
        assert (answer.status, answer.json["error"]["data"]["supported"]) == (400, ["2026-07-28"])
    for version in ("2020-01-01", "x"):
        assert (await post(shared_api, MCP_Protocol_Version=version)).status == 400
    for data in (b"{", b"[]", b'{"params": 1}', b'{"params": {"_meta": []}}'):
        answer = await post(shared_api, data=data, MCP_Protocol_Version=LATER[0])
        assert answer.status == 400


@promise("mcp-host-within-its-token")
@pytest.mark.asyncio(loop_scope="module")
async def test_credentials_are_those_of_the_rest_api(shared_api: Api) -> None:
    key, _ = await shared_api.key()
    gone, gone_id = await shared_api.key()
    await shared_api.call("DELETE", f"/keys/{gone_id}")
    for token in (None, ""):
        answer = await post(shared_api, token=token)
        assert (answer.status, answer.error) == (401, KEY_REQUIRED)
        assert answer.headers["WWW-Authenticate"] == "Bearer"
    for token in ("sk-" + "0" * 32, gone, SECRET + "x"):
        assert (await post(shared_api, token=token)).error == "Invalid API key"
    for token in (key, SECRET):
        assert (await post(shared_api, token=token)).status == 200


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", ["GET", "DELETE", "PUT"])
async def test_there_is_no_session_to_listen_to_or_to_end(shared_api: Api, method: str) -> None:
    headers = {"Authorization": f"Bearer {SECRET}"}
    answer = await shared_api.app.test_client().open("/mcp", method=method, headers=headers)
    assert answer.status_code == 405
    assert "POST" in answer.headers["Allow"]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "origin", ["https://evil.example", "http://localhost:9", "null", "http://evil.example:3000"]
)
async def test_a_foreign_page_is_refused(shared_api: Api, origin: str) -> None:
    answer = await post(shared_api, Origin=origin, Host="127.0.0.1:3001")
    assert answer.status == 403
    assert "CORS_ORIGINS" in answer.error


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:3001", "", "127.0.0.1.evil.example"]
)
async def test_a_name_that_was_rebound_to_this_machine_is_refused(
    shared_api: Api, host: str
) -> None:
    own = await post(shared_api, Host=host, Origin=f"http://{host}")
    assert own.status == 421
    assert (await post(shared_api, Host=host)).status == 421
    assert "CORS_ORIGINS" in own.error


@pytest.mark.asyncio(loop_scope="module")
async def test_the_dashboard_and_own_pages_may_call(shared_api: Api) -> None:
    for host in ("127.0.0.1:3001", "localhost:3001", "[::1]:3001"):
        assert (await post(shared_api, Host=host)).status == 200
        assert (await post(shared_api, Host=host, Origin=f"http://{host}")).status == 200
        dashboard = await post(shared_api, Host=host, Origin="http://localhost:3000")
        assert dashboard.status == 200
        assert dashboard.headers["Access-Control-Allow-Origin"] == "http://localhost:3000"


async def test_a_proxys_own_name_is_accepted_where_it_is_configured(tmp_path: Any) -> None:
    origin = "https://wallets.example"
    async with serving_api(tmp_path / "home", cors_origins=origin) as api:
        assert (await post(api, Host="wallets.example", Origin=origin)).status == 200
        assert (
            await post(api, Host="wallets.example", Origin="https://evil.example")
        ).status == 403


async def test_on_an_open_address_any_host_but_no_foreign_page_may_call(tmp_path: Any) -> None:
    async with serving_api(tmp_path / "home", api_host="0.0.0.0") as api:
        assert (await post(api, Host="wallets.lan:3001")).status == 200
        rebound = await post(api, Host="evil.example", Origin="http://evil.example")
        assert rebound.status == 403


@pytest.mark.asyncio(loop_scope="module")
async def test_the_headers_of_the_protocol_pass_a_preflight(shared_api: Api) -> None:
    asked = "authorization,content-type,mcp-protocol-version,mcp-method,mcp-name,mcp-session-id"
    answer = await shared_api.app.test_client().open(
        "/mcp",
        method="OPTIONS",
        headers={
            "Origin": "http://localhost:3000",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": asked,
        },
    )
    assert answer.status_code == 204
    allowed = answer.headers["Access-Control-Allow-Headers"].lower()
    assert {part.strip() for part in allowed.split(",")} == set(asked.split(","))


@pytest.mark.asyncio(loop_scope="module")
async def test_a_body_over_the_limit_is_not_read(shared_api: Api) -> None:
    answer = await post(shared_api, data=b"{" + b" " * 65_536)
    assert answer.status == 413
    assert "64 KiB" in answer.error


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("data", "code"), [(b"{nonsense", -32700), (b"", -32700), (b"[1]", -32600), (b"{}", -32600)]
)
async def test_what_is_no_message_is_an_error_of_the_protocol(
    shared_api: Api, data: bytes, code: int
) -> None:
    answer = await post(shared_api, data=data)
    assert answer.status == 400
    assert answer.json["error"]["code"] == code


@promise("mcp-over-http-negotiates")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize("method", ["tools/list", "tools/call", "", "../../../etc/passwd"])
async def test_a_message_without_an_id_is_a_notification_or_refused(
    shared_api: Api, method: str
) -> None:
    """It was taken without an answer, whatever it asked for."""
    for version in ({}, {"MCP_Protocol_Version": "2026-07-28", "Mcp_Method": method}):
        message = {"jsonrpc": "2.0", "method": method, "params": {}}
        answer = await post(shared_api, data=jsontext.dumps(message).encode(), **version)
        assert (answer.status, "id" in answer.json) == (400, False)
        assert answer.json["error"]["code"] == -32600
        message["method"] = "notifications/initialized"
        told = await post(shared_api, data=jsontext.dumps(message).encode(), **version)
        assert (told.status, told.text) == (202, "")


@pytest.mark.asyncio(loop_scope="module")
async def test_a_call_names_its_wallet_by_id_name_or_address(shared_api: Api) -> None:
    made = (await shared_api.post("/wallets", {"name": "pocket"})).json
    for wallet in (made["walletId"], "pocket", made["address"]):
        failed, text = await tool(shared_api, "check_balance", {"wallet": wallet})
        assert not failed
        assert made["address"] in text


async def test_a_call_without_a_wallet_says_which_there_are(api: Api) -> None:
    assert await tool(api, "check_balance", {}) == (
        True,
        "wallet is required, and there is none yet: create one first",
    )
    await api.post("/wallets", {"name": "pocket"})
    failed, text = await tool(api, "check_balance", {})
    assert failed
    assert text == "wallet is required: the name or id of a wallet, one of pocket"
    failed, text = await tool(api, "check_balance", {"wallet": 7})
    assert (failed, text) == (True, "wallet must be a string: the name or id of a wallet")


@pytest.mark.asyncio(loop_scope="module")
async def test_what_the_service_refuses_is_told_in_its_words(shared_api: Api) -> None:
    wallet = await shared_api.wallet()
    assert await tool(shared_api, "check_balance", {"wallet": "nobody"}) == (
        True,
        "No wallet is named 'nobody', and none has this id",
    )
    for name, arguments in (
        ("transfer", {"to": "no address", "amount": 0.1}),
        ("transfer", {"amount": 0.1}),
        ("transfer", {"to": "x", "amount": 0.1, "more": 1}),
        ("check_balance", {"verbose": True}),
        ("airdrop", {"amount": 3}),
        ("transfer", {"to": 1.1111111111111112e31, "amount": 0.1}),
    ):
        rest = await shared_api.post(f"/wallets/{wallet}/skills/{name}", arguments)
        assert rest.status in (400, 500)
        assert await tool(shared_api, name, {"wallet": wallet} | arguments) == (True, rest.error)


@pytest.mark.asyncio(loop_scope="module")
async def test_an_unknown_tool_is_an_error_of_the_protocol(shared_api: Api) -> None:
    answer = await post(shared_api, "tools/call", {"name": "steal", "arguments": {}})
    assert answer.json["error"] == {"code": -32602, "message": "Unknown tool: steal"}


@pytest.mark.asyncio(loop_scope="module")
async def test_money_moves_exactly_and_once_for_a_key(shared_api: Api) -> None:
    wallet, to = await shared_api.wallet(2), await shared_api.wallet()
    address = (await shared_api.get(f"/wallets/{to}")).json["publicKey"]
    arguments = {"wallet": wallet, "to": address, "amount": 0.123456789}
    meta = {"solward/idempotencyKey": "invoice-1"}
    first = await post(
        shared_api, "tools/call", {"name": "transfer", "arguments": arguments, "_meta": meta}
    )
    again = await post(
        shared_api, "tools/call", {"name": "transfer", "arguments": arguments, "_meta": meta}
    )
    assert first.json["result"]["isError"] is False, first.text
    assert again.json["result"] == first.json["result"]
    balance = (await shared_api.get(f"/wallets/{to}/balance")).text
    assert jsontext.loads(balance)["sol"] == jsontext.loads("0.123456789")
    other = await post(
        shared_api,
        "tools/call",
        {"name": "transfer", "arguments": arguments | {"amount": 0.2}, "_meta": meta},
    )
    assert other.json["result"]["isError"] is True


@promise("mcp-cancelled-call-pays-once")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("cancelled", "payments"), [(7, 1), ("7", 1), (8, 2), (None, 2), ([7], 2), (7.0, 2)]
)
async def test_a_call_whose_answer_was_dropped_goes_on(
    shared_api: Api, cancelled: Any, payments: int
) -> None:
    wallet = await shared_api.wallet(2)
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 0.25}
    first = await tool(shared_api, "transfer", arguments)
    params = {"requestId": cancelled, "reason": "timeout"}
    message = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
    told = await post(shared_api, data=jsontext.dumps(message).encode())
    assert told.status in (202, 400)
    again = await tool(shared_api, "transfer", arguments)
    assert len({first, again}) == payments
    assert (
        len([each for each in await shared_api.records(wallet) if each["type"] == "transfer"])
        == payments
    )


@pytest.mark.asyncio(loop_scope="module")
async def test_an_amount_whose_digits_may_be_lost_is_not_paid(shared_api: Api) -> None:
    wallet = await shared_api.wallet(2)
    arguments = {"wallet": wallet, "to": STRANGER, "amount": 1.12345678901234567}
    failed, text = await tool(shared_api, "transfer", arguments)
    assert failed
    assert "amount must have at most 15 digits" in text
    assert [record["type"] for record in await shared_api.records(wallet)] == ["airdrop"]


@promise("refused-is-never-signed")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_guardrails_refusal_is_an_error_that_names_it(shared_api: Api) -> None:
    wallet, to = await shared_api.wallet(2), await shared_api.wallet()
    address = (await shared_api.get(f"/wallets/{to}")).json["publicKey"]
    failed, text = await tool(
        shared_api, "transfer", {"wallet": wallet, "to": address, "amount": 2.5}
    )
    assert failed
    assert "max_per_tx" in text
    records = await shared_api.records(wallet)
    assert records[0]["status"] == "blocked"
    assert (await shared_api.get(f"/wallets/{to}/balance")).json["sol"] == 0


@pytest.mark.asyncio(loop_scope="module")
async def test_a_keys_rate_limit_counts_tool_calls(shared_api: Api) -> None:
    wallet = await shared_api.wallet(1)
    key, _ = await shared_api.key(rateLimit=1)
    assert (await tool(shared_api, "airdrop", {"wallet": wallet, "amount": 1}, token=key))[
        0
    ] is False
    failed, text = await tool(shared_api, "airdrop", {"wallet": wallet, "amount": 1}, token=key)
    assert failed
    assert "may make 1 transaction requests and chats a minute" in text


async def test_resources_are_the_rest_api_in_json(api: Api) -> None:
    wallet = await api.wallet(1)
    rest = (await api.get(f"/wallets/{wallet}")).json | {"createdBy": "admin"}
    balance = (await api.get(f"/wallets/{wallet}/balance")).json
    listed = (await api.get("/transactions?fees=true")).json
    assert await read(api, "solward://wallets") == {"wallets": [rest | {"balance": balance}]}
    assert await read(api, "solward://transactions") == listed
    one = await read(api, f"solward://wallets/{wallet}")
    limits = (await api.get(f"/wallets/{wallet}/limits")).json
    assert one == rest | {"balance": balance, "limits": limits}
    assert await read(api, f"solward://wallets/{wallet}/transactions") == listed


@pytest.mark.asyncio(loop_scope="module")
async def test_a_wallets_name_is_quoted_in_its_address(shared_api: Api) -> None:
    made = (await shared_api.post("/wallets", {"name": "my savings/2"})).json
    found = await read(shared_api, "solward://wallets/my%20savings%2F2")
    assert found["id"] == made["walletId"]


async def test_listed_resources_can_be_read(api: Api) -> None:
    wallet = await api.wallet()
    listed = (await post(api, "resources/list")).json["result"]["resources"]
    uris = [resource["uri"] for resource in listed]
    assert uris == [
        "solward://wallets",
        "solward://transactions",
        f"solward://wallets/{wallet}",
    ]
    for uri in uris:
        await read(api, uri)
    templates = (await post(api, "resources/templates/list")).json["result"]["resourceTemplates"]
    assert [template["uriTemplate"] for template in templates] == [
        "solward://wallets/{id}",
        "solward://wallets/{id}/transactions",
    ]


@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    "uri",
    [
        "solward://wallets/nobody",
        "solward://wallets/nobody/transactions",
        "solward://wallets/",
        "solward://keys",
        "solward://wallets/a/b/c",
        "http://wallets",
        "wallets",
        "solward://",
    ],
)
async def test_an_unknown_resource_is_invalid_params(shared_api: Api, uri: str) -> None:
    code, text = await refused(shared_api, uri)
    assert code == -32602
    assert "nobody" in text or "Unknown resource" in text


@promise("mcp-host-within-its-token")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_confined_key_sees_and_moves_its_own_wallet_only(shared_api: Api) -> None:
    mine, other = await shared_api.wallet(1), await shared_api.wallet(1)
    key, _ = await shared_api.key(walletId=mine)
    schema = (await post(shared_api, token=key)).json["result"]["tools"][0]["inputSchema"]
    assert "wallet" not in schema.get("required", [])
    assert (await tool(shared_api, "check_balance", {}, token=key))[0] is False
    assert (await tool(shared_api, "check_balance", {"wallet": mine}, token=key))[0] is False
    failed, text = await tool(shared_api, "check_balance", {"wallet": other}, token=key)
    assert failed
    assert "alone" in text
    wallets = await read(shared_api, "solward://wallets", token=key)
    assert [wallet["id"] for wallet in wallets["wallets"]] == [mine]
    records = await read(shared_api, "solward://transactions", token=key)
    assert {record["walletId"] for record in records["transactions"]} == {mine}
    code, _ = await refused(shared_api, f"solward://wallets/{other}", token=key)
    assert code == -32602


@pytest.mark.asyncio(loop_scope="module")
async def test_a_crash_says_nothing_of_the_inside(
    shared_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    from solward_mcp import tools

    async def crash(*_: object) -> None:
        raise RuntimeError("the innermost secret")

    monkeypatch.setattr(tools, "list_tools", crash)
    answer = await post(shared_api)
    assert answer.json["error"] == {"code": -32603, "message": "Internal error"}
