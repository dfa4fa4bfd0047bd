"""Every change that somebody asked for is in the audit log: who, what was before, what is now."""

from __future__ import annotations

from contextvars import copy_context
from decimal import Decimal
from pathlib import Path
from typing import Any

from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.database import AuditLog
from tests.support.services import SECRET, Api, serving_api

from solward.audit.acts import act_as, change_data, principal
from solward.credentials.credentials import hash_of

_CHANGES = ("principal", "before", "after")


async def told(api: Api, most: int = 1) -> list[tuple[str, dict[str, Any]]]:
    """The newest entries, newest first: kind, and who and what."""
    entries = [entry.to_json() for entry in await AuditLog(api.service.database).latest(most)]
    assert SECRET not in str(entries)
    return [
        (
            each["event"],
            {name: each["data"][name] for name in _CHANGES if name in (each["data"] or {})},
        )
        for each in entries
    ]


@promise("changes-are-logged")
async def test_an_agents_limits_tell_what_they_were_and_who_changed_them(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", demo=True) as api:
        wallet = await api.wallet()
        body = agent_body(wallet, strategy="always do wait", loopIntervalMs=3_600_000)
        path = f"/agents/{(await api.post('/agents', body)).json['id']}"
        ((kind, made),) = await told(api)
        assert (kind, made["principal"], "before" in made) == ("agent:created", "admin", False)
        assert (made["after"]["walletId"], made["after"]["strategy"]) == (wallet, "always do wait")
        was = made["after"]["guardrails"]["dailySpendingLimitSol"]

        change = {"guardrails": {"dailySpendingLimitSol": 7}, "loopIntervalMs": 6_000_000}
        before = {"guardrails": {"dailySpendingLimitSol": was}, "loopIntervalMs": 3_600_000}
        entry = ("agent:changed", {"principal": "admin", "before": before, "after": change})
        # The second changes nothing, and is not told.
        for _ in range(2):
            assert (await api.call("PATCH", path, change)).status == 200
            assert await told(api) == [entry]

        for command in ("start", "pause", "stop"):
            assert (await api.post(f"{path}/{command}")).status == 200
        assert (await api.call("DELETE", path)).status == 200
        steps = [(kind, data) for kind, data in await told(api, 10) if "before" in data][3::-1]
        assert [
            (kind, data["principal"], data["before"], data.get("after")) for kind, data in steps[:3]
        ] == [
            ("agent:started", "admin", {"status": "idle"}, {"status": "running"}),
            ("agent:paused", "admin", {"status": "running"}, {"status": "paused"}),
            ("agent:stopped", "admin", {"status": "paused"}, {"status": "stopped"}),
        ]
        kind, gone = steps[3]
        assert (kind, gone["principal"], "after" in gone) == ("agent:deleted", "admin", False)
        assert gone["before"]["guardrails"]["dailySpendingLimitSol"] == 7


async def test_a_wallets_tags_tell_which_key_changed_them(api: Api) -> None:
    key, key_id = await api.key()
    made = await api.post("/wallets", {"name": "till", "tags": ["new"]}, token=key)
    by = f"key:{key_id}"
    after = {"tags": ["new"], "imported": False}
    assert await told(api) == [("wallet:created", {"principal": by, "after": after})]
    path = f"/wallets/{made.json['walletId']}"
    assert (await api.call("PATCH", path, {"tags": ["new", "old"]})).status == 200
    change = {
        "principal": "admin", "before": {"tags": ["new"]}, "after": {"tags": ["new", "old"]}
    }  # fmt: skip
    assert await told(api) == [("wallet:changed", change)]
    assert (await api.call("PATCH", path, {"tags": ["new", "old"]}, token=key)).status == 200
    assert await told(api) == [("wallet:changed", change)]


async def test_a_new_secret_is_told_and_never_shown(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        key, key_id = await api.key()
        new = (await api.post(f"/keys/{key_id}/rotate", {"overlapSeconds": 60})).json
        [(kind, data)] = await told(api)
        assert (kind, data["principal"]) == ("key:changed", "admin")
        assert data["before"] == {"rotatedAt": None, "previousSecretUntil": None}
        until = new["previousSecretUntil"]
        assert data["after"]["previousSecretUntil"] == until > data["after"]["rotatedAt"]
        entries = str(await AuditLog(api.service.database).latest(9))
        for secret in (key, new["apiKey"]):
            assert secret not in entries
            assert hash_of(secret) not in entries


async def test_a_keys_terms_are_told_at_its_begin_and_its_end(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        key, key_id = await api.key(spendingLimitSol=0.5, rateLimit=3)
        await api.call("DELETE", f"/keys/{key_id}")
        terms = {
            "walletId": None,
            "permissions": ["read", "write"],
            "rateLimit": 3,
            "spendingLimitSol": Decimal("0.5"),
            "maxCostsSolPerDay": Decimal("0.05"),
            "expiresAt": None,
            "rotatedAt": None,
            "previousSecretUntil": None,
            "readOnly": False,
        }
        assert await told(api, 2) == [
            ("key:revoked", {"principal": "admin", "before": terms}),
            ("key:created", {"principal": "admin", "after": terms}),
        ]
        assert key not in str(await AuditLog(api.service.database).latest(2))


@promise("changes-are-logged")
async def test_a_freeze_tells_what_the_switch_was(api: Api) -> None:
    wallet = await api.wallet()
    for reason in ("theft", "still theft"):
        await api.post("/freeze", {"walletId": wallet, "reason": reason})
    await api.post("/unfreeze", {"walletId": wallet})
    still = {"frozen": True, "reason": "still theft"}
    assert await told(api, 3) == [
        (
            "switch:thawed",
            {"principal": "admin", "before": still, "after": {"frozen": False, "reason": None}},
        ),
        (
            "switch:frozen",
            {
                "principal": "admin",
                "before": {"reason": "theft"},
                "after": {"reason": "still theft"},
            },
        ),
        (
            "switch:frozen",
            {
                "principal": "admin",
                "before": {"frozen": False, "reason": None},
                "after": {"frozen": True, "reason": "theft"},
            },
        ),
    ]


async def test_wallets_made_at_once_by_several_are_each_told_by_its_own(api: Api) -> None:
    """They share a commit."""
    import asyncio

    keys = [await api.key() for _ in range(3)]
    made = await asyncio.gather(
        *(api.post("/wallets", {"name": f"of key:{i}"}, token=k) for k, i in keys)
    )
    assert all(each.status == 200 for each in made)
    entries = [entry.to_json()["data"] for entry in await AuditLog(api.service.database).latest(3)]
    assert {each["principal"] for each in entries} == {f"key:{key_id}" for _, key_id in keys}
    assert all(f"of {each['principal']}" == each["name"] for each in entries)


def test_what_nobody_asked_for_is_the_services_own() -> None:
    def acts() -> None:
        act_as("admin")
        assert change_data(
            {"walletId": "w"}, {"a": 1, "b": {"c": 1, "d": 2}}, {"a": 1, "b": {"c": 2}}
        ) == {
            "walletId": "w",
            "principal": "admin",
            "before": {"b": {"c": 1, "d": 2}},
            "after": {"b": {"c": 2}},
        }

    copy_context().run(acts)
    assert principal() == "service"
