"""A key with `readOnly` changes nothing; permissions that are not enforced say so."""

from __future__ import annotations

import re
from typing import Any

import pytest
from click.testing import CliRunner
from solders.keypair import Keypair
from tests.promises import promise
from tests.server.test_field_names import READING, changes
from tests.support.services import Api

from solward_cli import main
from solward_server.http.auth import Access, ReadOnlyKey, rule_of
from solward_server.resources import skills

REFUSED = str(ReadOnlyKey())
WARNING = "Solward-Warning"


@promise("read-only-key-changes-nothing")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_read_only_key_calls_nothing_that_changes_something(shared_api: Api) -> None:
    wallet = await shared_api.wallet(1)
    token, key = await shared_api.key(readOnly=True)
    before = await changes(shared_api)
    tried = set()
    for rule in shared_api.app.url_map.iter_rules():
        view = shared_api.app.view_functions[rule.endpoint]
        for method in (rule.methods or set()) - READING:
            if rule_of(view).access is not Access.KEY:
                continue
            path = rule.rule.removeprefix("/api/v1").replace("<wallet_id>", wallet)
            path = re.sub("<[^>]+>", "transfer", path)
            answer = await shared_api.call(method, path, {}, token=token)
            if answer.status != 403:
                tried.add(rule.rule.removeprefix("/api/v1"))
                continue
            assert answer.error == REFUSED
    # What is asked for there changes nothing.
    # What MCP calls it calls with the same key.
    assert tried == {"/quote", "/mcp"}
    pays = {"to": str(Keypair().pubkey()), "amount": 0.1}
    for path, body in (
        ("transfer", pays),
        ("transfer?dryRun=true", pays),
        ("airdrop", {}),
        ("skills/transfer", pays),
    ):
        refused = await shared_api.post(f"/wallets/{wallet}/{path}", body, token=token)
        assert (refused.status, refused.error) == (403, REFUSED), path
    assert (await shared_api.post("/wallets", {}, token=token)).status == 403
    assert await changes(shared_api) == before
    # It reads.
    for path in ("/wallets", f"/wallets/{wallet}/balance", "/keys/self", "/transactions"):
        assert (await shared_api.get(path, token=token)).status == 200
    read = await shared_api.post(f"/wallets/{wallet}/skills/check_balance", {}, token=token)
    assert read.status == 200, read.text
    details = (await shared_api.get("/keys/self", token=token)).json["key"]
    assert (details["id"], details["readOnly"]) == (key, True)
    assert (details["spendingLimitSol"]["limit"], details["maxCostsSolPerDay"]["limit"]) == (0, 0)


@promise("read-only-key-changes-nothing")
@pytest.mark.asyncio(loop_scope="module")
async def test_a_plugins_skill_that_declares_read_may_write_its_state_and_is_refused(
    shared_api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallet = await shared_api.wallet()
    token, _ = await shared_api.key(readOnly=True)
    # As if another distribution had brought it.
    monkeypatch.setattr(skills, "BUILT_IN", "another")
    answer = await shared_api.post(f"/wallets/{wallet}/skills/check_balance", {}, token=token)
    assert (answer.status, answer.error) == (403, REFUSED)


@promise("read-only-key-changes-nothing")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("more", "error"),
    [
        ({"readOnly": "true"}, "readOnly must be true or false"),
        ({"readOnly": 1}, "readOnly must be true or false"),
        ({"readOnly": True, "spendingLimitSol": 1}, "spendingLimitSol must be absent where"),
        ({"readOnly": True, "maxCostsSolPerDay": 0.1}, "maxCostsSolPerDay must be absent where"),
        ({"readOnly": True, "grants": ["transfer 1 SOL a day"]}, "grants must be absent where"),
    ],
)
async def test_what_contradicts_it_makes_no_key(
    shared_api: Api, more: dict[str, Any], error: str
) -> None:
    before = (await shared_api.get("/keys")).json
    answer = await shared_api.post("/keys", {"name": "k"} | more)
    assert (answer.status, str(answer.error).startswith(error)) == (400, True)
    assert (await shared_api.get("/keys")).json == before


@promise("permissions-bind-nothing-is-said")
@pytest.mark.asyncio(loop_scope="module")
@pytest.mark.parametrize(
    ("more", "is_told"),
    [
        ({}, False),
        ({"permissions": ["read", "write"]}, False),
        ({"permissions": ["read"]}, True),
        ({"permissions": []}, True),
        ({"permissions": ["read"], "readOnly": True}, False),
    ],
)
async def test_permissions_that_bind_nothing_are_said_to(
    shared_api: Api, more: dict[str, Any], is_told: bool
) -> None:
    answer = await shared_api.post("/keys", {"name": "k"} | more)
    assert answer.status == 200
    assert ("are not enforced" in answer.headers.get(WARNING, "")) is is_told
    rotated = await shared_api.post(f"/keys/{answer.json['id']}/rotate", {})
    assert rotated.headers.get(WARNING) == answer.headers.get(WARNING)


def test_the_command_makes_one() -> None:
    shown = CliRunner().invoke(main, ["key", "create", "--help"])
    assert "--read-only" in shown.output
