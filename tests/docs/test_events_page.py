"""docs/reference/events.md lists every kind of event, with the fields it has."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest
from tests.docs.events_page import DECISION, HOLD, TRANSACTION
from tests.promises import promise
from tests.support.agents import agent_body
from tests.support.database import AuditLog, hold_row
from tests.support.repository import DOCS
from tests.support.services import SECRET, STRANGER, Api, serving_api

from solward.agents.remember import record_status
from solward.audit.alerts import BLOCKS
from solward.database import outbox
from solward.notify.webhook import SentDecision
from solward.operations.policies.changes import replace_set
from solward.plugins import acts as plugin_acts
from solward.plugins.acts import PluginAct
from solward.resources.agents import AgentStatus
from solward.service import token_refresh
from solward.service.retention import delete_old_rows
from solward.settings import Settings
from solward.solana.token_list import KnownToken
from solward.support.clock import now_ms
from solward.types.errors import DecisionRefused
from solward.types.events import EventKind
from solward.types.payment import PaymentMode, PaymentState
from solward.types.record import HoldState
from solward.vault.custody import KeySource
from solward.vault.custody.export import export_wallet, newest_keystore
from solward.vault.custody.service import KEY_FILE
from solward.vault.money.request import Actor
from solward.vault.store import holds, payments, transactions
from solward_server.resources.events import HEARTBEAT_S, RETRY_MS

PAGE = (DOCS / "reference/events.md").read_text()
ROWS = re.findall(r"^\| `(\w+:\w+)` \| .+ \| (.+) \|$", PAGE, re.MULTILINE)


def test_every_kind_is_documented_in_order_and_no_other() -> None:
    assert [kind for kind, _ in ROWS] == list(EventKind)


def test_the_streams_numbers_are_the_codes() -> None:
    assert f"every {HEARTBEAT_S:.0f} seconds" in PAGE
    assert f"`retry: {RETRY_MS}`" in PAGE


def a_payment(transaction_id: str, wallet_id: str) -> payments.PaymentRow:
    return payments.PaymentRow(
        transaction_id=transaction_id,
        wallet_id=wallet_id,
        protocol="x402",
        mode=PaymentMode.SPONSORED,
        site="api.example.com",
        url="https://api.example.com/forecast",
        method="GET",
        fingerprint="0" * 64,
        offer={},
        asset="SOL",
        units=1,
        decimals=9,
        pay_to=STRANGER,
        source=STRANGER,
        source_units=1,
        memo=None,
        message_sha256="0" * 64,
        signer_index=1,
        created_ms=now_ms(),
    )


async def a_schedule(api: Api, wallet: str) -> None:
    """Made, run, changed, paused, resumed, deleted."""
    with api.service.events.subscribe() as events:
        path = f"/wallets/{wallet}/schedules"
        body = {"name": "look", "skill": "check_balance", "every": "30d"}
        made = await api.post(path, body)
        assert (await api.post(f"{path}/{made.json['id']}/run")).status == 200
        async with asyncio.timeout(30):
            while (event := await events.next()) is None or event.event != "schedule:run":
                pass
    path += f"/{made.json['id']}"
    await api.call("PATCH", path, {"every": "1h"})
    for act in ("pause", "resume"):
        assert (await api.post(f"{path}/{act}")).status == 200
    await api.call("DELETE", path)


async def everything(api: Api) -> None:
    """Make each kind happen."""
    wallet = await api.wallet(2)
    home, database = api.service.settings.solward_home, api.service.database
    await export_wallet(
        database,
        KeySource(file=home / KEY_FILE),
        await newest_keystore(database),
        await api.service.wallets.get(wallet),
        home / "exported.json",
    )
    await api.call("PATCH", f"/wallets/{wallet}", {"tags": ["till"]})
    await api.service.wallets.rotate(KeySource(file=home / KEY_FILE))
    paths = {"transfer": {"to": STRANGER, "amount": 1}}
    for path, body in paths.items():
        for amount in (1, 2, *[3] * BLOCKS):
            await api.post(f"/wallets/{wallet}/{path}", body | {"amount": amount})
    await replace_set(database, "agent:none", ())
    for path in ("freeze", "unfreeze"):
        await api.post(f"/{path}", {"walletId": wallet})
    _, key = await api.key()
    await api.post(f"/keys/{key}/rotate")
    await api.call("DELETE", f"/keys/{key}")
    for name in ("Landlord", "The landlord"):
        await api.post("/contacts", {"address": STRANGER, "name": name})
    made = await api.post("/admins", {"name": "ana", "role": "read"})
    await api.call("DELETE", f"/admins/{made.json['id']}")
    body = agent_body(wallet)
    agent = (await api.post("/agents", body)).json["id"]
    with api.service.events.subscribe() as events:
        await api.post(f"/agents/{agent}/start")
        async with asyncio.timeout(30):
            while (event := await events.next()) is None or event.event != "agent:decision":
                pass
    for path in ("pause", "stop"):
        await api.post(f"/agents/{agent}/{path}")
    await a_schedule(api, wallet)
    await api.call("PATCH", f"/agents/{agent}", {"loopIntervalMs": 5000})
    other = (await api.post("/agents", body)).json["id"]
    await api.call("DELETE", f"/agents/{other}")
    await api.service.plugin_state.settings.put("acme", "tells", "token", "x" * 8, secret=True)
    actor = Actor("admin", via=("skill:tells", "plugin:acme"))
    await api.service.operations.entries.keep("put", wallet, actor, key="last", value=1)
    assert await api.service.plugin_state.delete_entry("acme", wallet, "last")
    assert await api.service.plugin_state.purge("acme")
    assert api.service.webhook is not None
    with pytest.raises(DecisionRefused):
        await api.service.webhook.check(SentDecision("a-hold", "1", "", "v1=", b"{}"))
    async with api.service.database.write() as connection:
        was = AgentStatus.RUNNING
        record_status(connection, agent, "Ada", was, AgentStatus.ERROR, "The provider is away")
        for state in HoldState:
            if not state.is_open:
                row = hold_row(wallet, now_ms())
                await holds.add(connection, row)
                for each in (HoldState.APPROVED, state):
                    await holds.move(connection, row.hold.id, HoldState, each, by="admin")
        record = (await transactions.history(connection, wallet, 1, None))[0]
        paid = a_payment(record.id, wallet)
        payments.record_handed_over(connection, record, paid, None)
        payments.record_answered(connection, record, paid, PaymentState.HANDED_OVER)
        given = [KnownToken("ACME", STRANGER, 6)]
        await token_refresh.write_list(connection, "localnet", given, database.audit_key, now_ms())
        await plugin_acts.store(connection, [PluginAct("1", "acme", 0, "1.0", "d", True)])
        old = [("wallet:old", "x", None)] * 2
        await outbox.append_many(connection, 1, old, database.audit_key)
    await delete_old_rows(database, Settings(_env_file=None, event_retention_days=1), now_ms())


@promise("list-in-backups")
async def test_every_kind_has_the_fields_that_are_documented(tmp_path: Path) -> None:
    given = {"approval_webhook_url": "http://127.0.0.1:9/", "approval_webhook_secret": SECRET}
    async with serving_api(tmp_path / "home", demo=True, **given) as api:
        await everything(api)
        entries = [entry.to_json() for entry in await AuditLog(api.service.database).latest(500)]
        records = (await api.get("/transactions")).json["transactions"]
        agent = (await api.get("/agents")).json["agents"][0]["id"]
        decisions = (await api.get(f"/agents/{agent}/decisions")).json["decisions"]
    told: dict[str, list[Any]] = {}
    for entry in entries:
        told.setdefault(entry["event"], []).append(entry["data"])
    assert SECRET not in str(entries)
    for kind, fields in ROWS:
        for data in told[kind]:
            if fields == TRANSACTION:
                (record,) = [record for record in records if record["id"] == data["id"]]
                pending = kind == "transaction:pending"
                assert data["status"] == kind.removeprefix("transaction:")
                assert pending or data == record
            elif fields == DECISION:
                assert data in decisions
            elif fields == HOLD:
                state = kind.removeprefix("hold:").replace("created", "held")
                assert (data["state"], data["asked"]) == (state, "key:k1")
                assert {"id", "walletId", "sentence", "lines", "expiresAt", "principal"} < {*data}
            else:
                optional = {"signature", "error"} if kind.startswith("payment:") else set()
                assert [each for each in data if each not in optional] == sorted(
                    re.findall(r"`(\w+)`", fields)
                ), kind
