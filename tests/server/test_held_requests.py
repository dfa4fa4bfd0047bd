"""Requests that wait for a person: 202 while they do, then what became of them, once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.support.services import STRANGER, Api, serving_api

from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import HoldState

PAY = {"to": STRANGER, "amount": 1}


@pytest.fixture
async def api(tmp_path: Path, asking: None) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home") as opened:
        yield opened


async def paid(api: Api) -> int:
    return await api.service.ledger.balance(STRANGER)


async def test_the_key_answers_202_and_then_the_record_byte_for_byte(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key()
    path, again = f"/wallets/{wallet}/transfer", {"Idempotency-Key": "invoice-7"}
    first = await api.post(path, PAY, token=token, headers=again)
    assert first.status == 202, first.text
    [hold] = await api.service.approvals.listed()
    more = {name: first.json[name] for name in ("expiresAt", "approveAt")}
    assert first.json == hold.answer() | more
    assert first.json["approveAt"].endswith(f"/holds/{hold.id}")
    assert (first.json["status"], first.json["holdId"]) == ("held", hold.id)
    waiting = await api.post(path, PAY, token=token, headers=again)
    assert (waiting.status, waiting.text) == (202, first.text)
    assert len(await api.service.approvals.listed()) == 1

    for query, body in (("?dryRun=true", None), ("", {"dryRun": True}), ("", {"dry_run": True})):
        tried = await api.post(f"/holds/{hold.id}/approve{query}", body)
        assert tried.status == 400
        assert tried.error.startswith("dry")
    assert await paid(api) == 0

    await api.service.approvals.approve(hold.id, "admin")
    answer = await api.post(path, PAY, token=token, headers=again)
    assert (answer.status, answer.json["status"]) == (200, "confirmed")
    replayed = await api.post(path, PAY, token=token, headers=again)
    assert replayed.text == answer.text
    assert replayed.headers["Idempotent-Replayed"] == "true"
    other = await api.post(path, PAY | {"amount": 2}, token=token, headers=again)
    assert other.status == 422
    assert await paid(api) == LAMPORTS_PER_SOL


async def test_a_dry_run_says_that_it_would_be_held_and_holds_nothing(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key()
    answer = await api.post(f"/wallets/{wallet}/transfer?dryRun=true", PAY, token=token)
    assert (answer.status, answer.json["allowed"]) == (200, False)
    assert answer.json["held"] is True
    assert "asks:" in answer.json["reason"]
    assert await api.service.approvals.listed() == []


async def test_a_skill_with_a_key_is_held_and_then_answers_with_its_payment(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key()
    path, again = f"/wallets/{wallet}/skills/transfer", {"Idempotency-Key": "k"}
    body = {"to": STRANGER, "amount": 1}
    assert (await api.post(path, body, token=token, headers=again)).status == 202
    assert (await api.post(path, body, token=token, headers=again)).status == 202
    [hold] = await api.service.approvals.listed()
    assert hold.chain[2:] == ("skill:transfer", "plugin:solward")
    after = await api.service.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.EXECUTED
    answer = await api.post(path, body, token=token, headers=again)
    assert answer.status == 200, answer.text
    assert await paid(api) == LAMPORTS_PER_SOL


async def test_the_backlog_is_measured(api: Api) -> None:
    wallet = await api.wallet(2)
    token, _ = await api.key()
    await api.post(f"/wallets/{wallet}/transfer", PAY, token=token)
    shown = (await api.get("/metrics", prefix="")).text
    assert 'solward_holds_open{state="held"} 1.0' in shown
    assert 'solward_holds_open{state="approved"} 0.0' in shown
