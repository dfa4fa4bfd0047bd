"""API keys: what they may do, what is kept of them, and their end."""

from __future__ import annotations

import asyncio
import re
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.promises import promise
from tests.support.database import AuditLog
from tests.support.services import NOBODY, STRANGER, Api, serving_api

from solward.database import tables
from solward.database.database import clock
from solward.support.clock import iso, ms_of, now_ms
from solward.vault.ledger.client import Ledger
from solward_server.http.auth import KEY_INVALID

HOUR_MS = 3_600_000


@promise("key-shown-once")
async def test_a_key_is_shown_once_and_listed_without_its_value(api: Api) -> None:
    answer = await api.post("/keys", {"name": "bot"})
    assert answer.headers["Cache-Control"] == "no-store"
    made = answer.json
    assert sorted(made) == ["apiKey", "id", "name"]
    assert re.fullmatch(r"sk-[0-9a-f]{32}", made["apiKey"])
    listed = await api.get("/keys")
    assert made["apiKey"] not in listed.text
    (record,) = listed.json["keys"]
    assert sorted(record) == sorted(
        ["id", "name", "walletId", "permissions", "createdAt", "lastUsedAt"]
    )
    assert record["permissions"] == ["read", "write"]
    assert record["walletId"] is None
    assert record["lastUsedAt"] is None


@promise("key-unused-is-null")
async def test_using_a_key_is_recorded(api: Api) -> None:
    key, _ = await api.key()
    await api.get("/wallets", token=key)
    (record,) = (await api.get("/keys")).json["keys"]
    assert record["lastUsedAt"] >= record["createdAt"]


@promise("404-texts", "deleted-key-ends")
async def test_a_revoked_key_ends_at_once(api: Api) -> None:
    key, key_id = await api.key()
    assert (await api.get("/wallets", token=key)).status == 200
    assert (await api.call("DELETE", f"/keys/{key_id}")).json == {"id": key_id, "revoked": True}
    answer = await api.get("/wallets", token=key)
    assert (answer.status, answer.error) == (401, "Invalid API key")
    again = await api.call("DELETE", f"/keys/{key_id}")
    assert (again.status, again.error) == (404, "API key not found")


async def expire(api: Api, key_id: str) -> None:
    """Let a key's expiry lie in the past, by the database's clock."""
    async with api.service.database.write() as connection:
        ended = update(tables.credentials).where(tables.credentials.c.id == key_id)
        await connection.execute(ended.values(expires_ms=await clock(connection)))


@promise("revoked-ends-what-began")
@pytest.mark.parametrize("by", ["route", "skill"])
@pytest.mark.parametrize("end", ["revoked", "rotated", "expired"])
async def test_a_revoked_key_ends_what_it_had_begun(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, by: str, end: str
) -> None:
    async with serving_api(tmp_path) as api:
        wallet = await api.wallet(1)
        key, key_id = await api.key(expiresAt=iso(now_ms() + HOUR_MS))
        reached, go = asyncio.Event(), asyncio.Event()
        simulate = Ledger.simulate

        async def held(self: Ledger, *given: Any, **named: Any) -> Any:
            reached.set()
            await go.wait()
            return await simulate(self, *given, **named)

        monkeypatch.setattr(Ledger, "simulate", held)
        path = "transfer" if by == "route" else "skills/transfer"
        body = {"to": STRANGER, "amount": 0.5}
        paying = asyncio.create_task(api.post(f"/wallets/{wallet}/{path}", body, token=key))
        await reached.wait()
        if end == "revoked":
            assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200
        elif end == "rotated":
            ended = await api.post(f"/keys/{key_id}/rotate", {"overlapSeconds": 0})
            assert ended.json["previousSecretUntil"] is None
        else:
            await expire(api, key_id)
        go.set()
        answer = await paying
        assert (answer.status, answer.error) == (401, KEY_INVALID)
        assert [each["type"] for each in await api.records(wallet)] == ["airdrop"]


@promise("key-expires", "rotated-key-resets-nothing")
async def test_an_expired_key_is_refused_as_a_revoked_one_is(tmp_path: Path) -> None:
    async with serving_api(tmp_path) as api:
        expiry = iso(now_ms() + HOUR_MS)
        key, key_id = await api.key(expiresAt=expiry)
        other, _ = await api.key()
        (record, _) = (await api.get("/keys?details=true")).json["keys"]
        assert record["expiresAt"] == expiry
        assert (await api.get("/wallets", token=key)).status == 200
        await expire(api, key_id)
        for path in ("/wallets", "/agents", f"/wallets/{NOBODY}"):
            answer = await api.get(path, token=key)
            assert (answer.status, answer.error) == (401, KEY_INVALID)
        assert (await api.get("/wallets", token=other)).status == 200
        # It is still listed, and a new secret would not work either.
        assert len((await api.get("/keys")).json["keys"]) == 2
        answer = await api.post(f"/keys/{key_id}/rotate")
        assert (answer.status, "expired" in answer.error) == (400, True)
        assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200


@pytest.mark.parametrize(
    "expiry", ["tomorrow", "2030-01-01", "2030-01-01T00:00:00", "2020-01-01T00:00:00Z", "", 7]
)
async def test_an_expiry_is_a_time_with_a_zone_in_the_future(api: Api, expiry: object) -> None:
    answer = await api.post("/keys", {"name": "k", "expiresAt": expiry})
    assert answer.status == 400
    assert answer.error.startswith("expiresAt must be ")
    offset = await api.post("/keys", {"name": "k", "expiresAt": "2100-01-01T02:00:00+02:00"})
    assert offset.status == 200
    (record,) = (await api.get("/keys?details=true")).json["keys"]
    assert record["expiresAt"] == "2100-01-01T00:00:00.000Z"


@promise("key-rotates-with-overlap", "rotated-key-resets-nothing")
async def test_a_new_secret_overlaps_with_the_one_before_and_resets_nothing(tmp_path: Path) -> None:
    async with serving_api(tmp_path) as api:
        wallet, stranger = await api.wallet(1), await api.wallet()
        old, key_id = await api.key(spendingLimitSol=0.5, rateLimit=3, walletId=wallet)
        path, body = f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.4}
        assert (await api.post(path, body, token=old)).status == 200
        rotated = await api.post(f"/keys/{key_id}/rotate")
        new = rotated.json["apiKey"]
        assert (rotated.json["id"], rotated.json["name"]) == (key_id, "test")
        assert rotated.headers["Cache-Control"] == "no-store"
        assert new != old
        # Both are the one key: its limits, its counters, its wallet.
        for secret in (old, new):
            assert "spending_limit_check" in (await api.post(path, body, token=secret)).error
            assert (await api.get(f"/wallets/{stranger}", token=secret)).status == 404
        assert (await api.post(path, body, token=new)).status == 429
        records = await api.records(wallet)
        assert {each["principal"] for each in records} == {"admin", f"key:{key_id}"}
        (record,) = (await api.get("/keys?details=true")).json["keys"]
        assert record["rateLimit"] == {"limit": 3, "used": 3, "left": 0}
        assert record["spendingLimitSol"] == {
            "limit": Decimal("0.5"),
            "spent": Decimal("0.4"),
            "reserved": 0,
            "left": Decimal("0.1"),
        }
        assert record["maxCostsSolPerDay"]["spent"] == Decimal("0.000005")
        until = record["previousSecretUntil"]
        assert until == rotated.json["previousSecretUntil"]
        overlap = ms_of(until) - ms_of(record["rotatedAt"])
        assert overlap == 3600 * 1000

        # The overlap ends by the database's clock.
        async with api.service.database.write() as connection:
            ended = update(tables.credentials).values(previous_until_ms=await clock(connection))
            await connection.execute(ended)
        assert (await api.get("/wallets", token=old)).error == KEY_INVALID
        assert (await api.get("/wallets", token=new)).status == 200


@promise("rotated-key-resets-nothing")
async def test_a_further_secret_ends_the_older_one_and_none_overlaps_with_0_seconds(
    tmp_path: Path,
) -> None:
    async with serving_api(tmp_path) as api:
        first, key_id = await api.key()
        path = f"/keys/{key_id}/rotate"
        second = (await api.post(path, {"overlapSeconds": 86400})).json["apiKey"]
        third = (await api.post(path, {"overlapSeconds": 1000})).json["apiKey"]

        async def works(secret: str) -> bool:
            return (await api.get("/wallets", token=secret)).status == 200

        assert [await works(each) for each in (first, second, third)] == [False, True, True]
        fourth = (await api.post(path, {"overlapSeconds": 0})).json["apiKey"]
        assert [await works(each) for each in (second, third, fourth)] == [False, False, True]
        # Two at once: both new secrets are told, and the later has the earlier as its former one.
        both = await asyncio.gather(api.post(path), api.post(path))
        assert sorted([await works(each.json["apiKey"]) for each in both]) == [True, True]
        assert not await works(fourth)
        for overlap in (-1, 86401, 1.5, "60", True):
            refused = await api.post(path, {"overlapSeconds": overlap})
            assert (refused.status, refused.error[:19]) == (400, "overlapSeconds must")
        assert (await api.post(path, token=fourth)).status == 401
        assert (await api.post(f"/keys/{NOBODY}/rotate")).error == "API key not found"
        assert (await api.call("DELETE", f"/keys/{key_id}")).status == 200
        assert [await works(each.json["apiKey"]) for each in both] == [False, False]


@pytest.mark.more
@promise("confined-key-one-wallet")
async def test_a_confined_key_sees_only_its_wallet(api: Api) -> None:
    mine, other = await api.wallet(1), await api.wallet(1)
    key, _ = await api.key(walletId=mine)
    assert [w["id"] for w in (await api.get("/wallets", token=key)).json["wallets"]] == [mine]
    shown = (await api.get("/transactions", token=key)).json["transactions"]
    assert {record["walletId"] for record in shown} == {mine}
    for path in ("", "/balance", "/transactions", "/limits"):
        assert (await api.get(f"/wallets/{mine}{path}", token=key)).status == 200
        answer = await api.get(f"/wallets/{other}{path}", token=key)
        assert (answer.status, answer.error) == (404, "Wallet not found")
    body = {"to": STRANGER, "amount": 0.1}
    assert (await api.post(f"/wallets/{mine}/transfer", body, token=key)).status == 200
    for path, sent in (
        ("transfer", body),
        ("airdrop", {}),
        ("swap", {}),
        ("skills/transfer", body),
    ):
        answer = await api.post(f"/wallets/{other}/{path}", sent, token=key)
        assert (answer.status, answer.error) == (404, "Wallet not found")
    assert (await api.post("/wallets", {}, token=key)).status == 403


async def test_whoever_has_a_key_is_told_what_it_may_do(api: Api) -> None:
    wallet = await api.wallet()
    secret, _ = await api.key(walletId=wallet, spendingLimitSol=1)
    await api.key()
    (listed, _) = (await api.get("/keys?details=true")).json["keys"]
    own = await api.get("/keys/self", token=secret)
    assert own.json == {"key": {**listed, "lastUsedAt": own.json["key"]["lastUsedAt"]}}
    assert own.json["key"]["walletId"] == wallet
    assert secret not in own.text
    assert (await api.get("/keys/self")).json == {"key": None}
    assert (await api.get("/keys/self", token="sk-" + "0" * 32)).status == 401


async def test_a_key_for_an_unknown_wallet_is_refused(api: Api) -> None:
    answer = await api.post("/keys", {"name": "k", "walletId": NOBODY})
    assert (answer.status, answer.error) == (404, "Wallet not found")


@promise("key-limit-is-guardrail", "key-within-its-limits")
async def test_a_keys_spending_limit_is_a_guardrail(api: Api) -> None:
    wallet = await api.wallet(2)
    key, _ = await api.key(spendingLimitSol=0.5)
    path = f"/wallets/{wallet}/transfer"
    assert (await api.post(path, {"to": STRANGER, "amount": 0.5}, token=key)).status == 200
    answer = await api.post(path, {"to": STRANGER, "amount": 0.1}, token=key)
    assert answer.status == 500
    assert "spending_limit_check" in answer.error
    newest = (await api.records(wallet))[0]
    assert (newest["status"], newest["guardrailsApplied"][-1]) == (
        "blocked",
        "spending_limit_check",
    )
    # The limit is the key's, not the wallet's.
    assert (await api.post(path, {"to": STRANGER, "amount": 0.1})).status == 200


@promise("keys-stored-as-hashes")
async def test_with_keys_in_memory_a_start_deletes_the_keys_and_no_admin_credential(
    tmp_path: Path,
) -> None:
    options = {"api_key_store": "memory"}
    async with serving_api(tmp_path / "home", **options) as first:
        wallet = await first.wallet(1)
        key, key_id = await first.key(grants=[])
        spent, spent_id = await first.key()
        paid = await first.post(
            f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 0.1}, token=spent
        )
        assert paid.status == 200
        admin = (await first.post("/admins", {"name": "ana", "role": "read"})).json["adminSecret"]
    async with serving_api(tmp_path / "home", **options) as second:
        for token in (key, spent):
            assert (await second.get("/wallets", token=token)).error == "Invalid API key"
        assert (await second.get("/keys", token=admin)).json == {"keys": []}
        # What they did stays on record, and their grants are gone with them.
        told = [entry.to_json() for entry in await AuditLog(second.service.database).latest(500)]
        revoked = {each["data"]["keyId"] for each in told if each["event"] == "key:revoked"}
        assert revoked == {key_id, spent_id}
        assert (await second.records(wallet))[0]["principal"] == f"key:{spent_id}"
        assert (await second.get("/policy")).json["policy"]["readOnly"] == []
        await AuditLog(second.service.database).verify()


@pytest.mark.more
@promise("keys-stored-as-hashes", "credentials-stored-hashed")
async def test_keys_in_the_database_outlive_it_as_hashes(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as first:
        key, key_id = await first.key(rateLimit=7, permissions=["read"])
        assert (await first.get("/keys")).json["keys"][0]["lastUsedAt"] is None
        assert (await first.get("/wallets", token=key)).status == 200
    files = [each for each in (tmp_path / "home").rglob("*") if each.is_file()]
    assert files
    for file in files:
        assert key.encode() not in file.read_bytes()
    async with serving_api(tmp_path / "home") as second:
        (record,) = (await second.get("/keys")).json["keys"]
        assert record["lastUsedAt"] is not None
        assert record["permissions"] == ["read"]
        assert (await second.get("/wallets", token=key)).status == 200
        assert (await second.call("DELETE", f"/keys/{key_id}")).status == 200
        assert (await second.get("/wallets", token=key)).error == "Invalid API key"
        assert (await second.call("DELETE", f"/keys/{key_id}")).status == 404


@pytest.mark.sqlite("where processes share a database, it counts a key's requests for them all")
async def test_a_use_is_not_a_write_of_its_own(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        key, _ = await api.key()
        kinds: list[str] = []
        api.service.database.on_transaction = kinds.append
        for _ in range(5):
            await api.get("/skills", token=key)
        assert kinds == ["read"] * 5


@promise("asker-is-recorded")
async def test_a_record_its_events_and_its_audit_entries_say_which_key_asked(api: Api) -> None:
    wallet = await api.wallet(1)
    key, key_id = await api.key()
    body = {"to": STRANGER, "amount": 0.1}
    paid = await api.post(f"/wallets/{wallet}/transfer", body, token=key)
    assert paid.json["principal"] == f"key:{key_id}"
    await api.post(f"/wallets/{wallet}/transfer", body | {"amount": 99}, token=key)
    await api.post(f"/wallets/{wallet}/transfer", body)
    records = (await api.get(f"/wallets/{wallet}/transactions?limit=3")).json["transactions"]
    asked = [(each["status"], each["principal"]) for each in records]
    assert asked == [
        ("confirmed", "admin"),
        ("blocked", f"key:{key_id}"),
        ("confirmed", f"key:{key_id}"),
    ]
    entries = (await api.get("/audit?limit=500")).json["entries"]
    for record in records:
        told = [each["data"] for each in entries if each["data"].get("id") == record["id"]]
        assert {each["principal"] for each in told} == {record["principal"]}
