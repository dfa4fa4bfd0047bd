"""What waits for a person, over REST: who is told of it, who decides, and what the caller sees."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from tests.promises import promise
from tests.support.services import NOBODY, Answer, Api, serving_api

from solward.types.errors import LedgerUnavailable
from solward.vault.money.judge.assess import Assessor

USDC = "7ijRzGx7S7c7RY9DM65CjqwtrmCJyKi6V5dFwFMbeciZ"
ASKS = {"may": ["transfer"], "assets": {"SOL": {"per": {"24h": "2"}, "hold": "0.1"}}}
APPROVES = [{"may": ["approve"]}]


@dataclass(frozen=True)
class Desk:
    """A wallet with 2 SOL, a key that asks above 0.1 SOL, and somebody who is paid."""

    api: Api
    wallet: str
    other: str
    recipient: str
    asker: str
    asker_id: str

    async def ask(self, sol: str = "0.5", token: str | None = None, **headers: str) -> Answer:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        body = {"to": self.recipient, "amount": Decimal(sol)}
        path = f"/wallets/{self.wallet}/transfer"
        return await self.api.post(path, body, token=token or self.asker, headers=named)

    async def held(self, sol: str = "0.5", **headers: str) -> str:
        answer = await self.ask(sol, **headers)
        assert answer.status == 202, answer.text
        return str(answer.json["holdId"])

    async def decide(self, hold: str, way: str = "approve", **options: Any) -> Answer:
        return await self.api.post(f"/holds/{hold}/{way}", options.pop("body", {}), **options)

    async def state(self, hold: str) -> str:
        return str((await self.api.get(f"/holds/{hold}")).json["state"])

    async def paid(self) -> Any:
        return (await self.api.get(f"/wallets/{self.other}/balance")).json["sol"]


@pytest.fixture
async def desk(api: Api) -> Desk:
    wallet, other = await api.wallet(2), await api.wallet()
    recipient = (await api.get(f"/wallets/{other}")).json["publicKey"]
    asker, asker_id = await api.key(name="asker", grants=[ASKS], rateLimit=100)
    return Desk(api, wallet, other, recipient, asker, asker_id)


@promise("key-stands-for-hold")
@pytest.mark.parametrize("fails", [False, True])
async def test_a_slow_try_is_not_paid_beside_the_one_that_was_held_and_approved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    arrived, go_on = asyncio.Event(), asyncio.Event()
    assess = Assessor.assess_any

    async def slow(*arguments: Any) -> Any:
        assessed = await assess(*arguments)
        if not arrived.is_set():
            arrived.set()
            await go_on.wait()
            if fails:
                raise LedgerUnavailable("the node timed out")
        return assessed

    monkeypatch.setattr(Assessor, "assess_any", slow)
    first = asyncio.create_task(desk.ask(Idempotency_Key="invoice-9"))
    await arrived.wait()
    hold = await desk.held(Idempotency_Key="invoice-9")
    if fails:
        # Its failure is not the key's answer, which is what becomes of the hold.
        go_on.set()
        assert (await first).status == 500
        assert (await desk.ask(Idempotency_Key="invoice-9")).json["holdId"] == hold
    approved = (await desk.decide(hold)).json
    go_on.set()
    assert fails or (await first).status == 409
    again = await desk.ask(Idempotency_Key="invoice-9")
    assert (again.status, again.json["id"]) == (200, approved["transactionId"])
    assert await desk.paid() == Decimal("0.5")


@promise("success-is-200", "transactions-refusal-beats-hold")
async def test_what_a_grant_holds_is_202_and_paid_once_when_it_is_approved(desk: Desk) -> None:
    answer = await desk.ask()
    assert answer.status == 202
    told = answer.json
    assert (told["status"], await desk.paid()) == ("held", 0)
    assert f"0.5 SOL to {desk.recipient}" in told["sentence"]
    assert told["sentence"].endswith(
        "0.5 SOL is more than the 0.1 SOL above which grant 1 of key asker asks a person."
    )
    listed = (await desk.api.get("/holds")).json["holds"]
    (hold,) = listed
    assert (hold["id"], hold["state"], hold["principal"]) == (
        told["holdId"], "held", f"key:{desk.asker_id}",
    )  # fmt: skip
    assert hold["lines"][0]["account"] == desk.recipient
    assert [each["type"] for each in await desk.api.records(desk.wallet)] == ["airdrop"]
    # Asked again it is the same.
    assert (await desk.ask()).json["holdId"] == told["holdId"]
    decided = await desk.decide(told["holdId"], body={"note": "as agreed"})
    assert (decided.status, decided.json["state"]) == (200, "executed")
    assert (decided.json["decidedBy"], decided.json["note"]) == ("admin", "as agreed")
    assert await desk.paid() == Decimal("0.5")
    again = await desk.decide(told["holdId"])
    assert (again.status, again.json["state"]) == (200, "executed")
    assert await desk.paid() == Decimal("0.5")
    record = (await desk.api.records(desk.wallet))[0]
    assert (record["id"], record["status"]) == (decided.json["transactionId"], "confirmed")


async def test_two_approvals_at_once_pay_once(desk: Desk) -> None:
    hold = await desk.held()
    answers = await asyncio.gather(*(desk.decide(hold) for _ in range(2)))
    assert [each.status for each in answers] == [200, 200]
    assert await desk.paid() == Decimal("0.5")
    assert await desk.state(hold) == "executed"


@pytest.mark.more
@promise("hold-routes-beyond")
async def test_what_is_denied_is_told_to_its_caller_and_never_paid(desk: Desk) -> None:
    hold = await desk.held(Idempotency_Key="pay-1")
    decided = await desk.decide(hold, "deny", body={"note": "who is that?"})
    assert (decided.status, decided.json["state"]) == (200, "denied")
    late = await desk.decide(hold)
    assert (late.status, "denied" in late.error) == (409, True)
    answer = await desk.ask(Idempotency_Key="pay-1")
    assert (answer.status, "who is that?" in answer.error) == (500, True)
    assert await desk.paid() == 0
    assert (await desk.api.records(desk.wallet))[0]["status"] == "blocked"


@promise("approval-used-once")
async def test_only_who_was_granted_it_and_asks_for_nothing_approves(desk: Desk) -> None:
    hold = await desk.held()
    approver, approver_id = await desk.api.key(name="approver", grants=APPROVES)
    confined, _ = await desk.api.key(name="c", walletId=desk.wallet, grants=APPROVES)
    stranger, _ = await desk.api.key(name="stranger")
    elsewhere, _ = await desk.api.key(name="e", grants=[{**APPROVES[0], "wallet": desk.other}])
    ended = [{**APPROVES[0], "until": "2020-01-01T00:00:00Z"}]
    late, _ = await desk.api.key(name="late", grants=ended)
    mine = f"/policy/key:{desk.asker_id}"
    both = {"grants": [ASKS, *APPROVES]}
    assert (await desk.api.call("PUT", mine, both)).status == 200
    for token in (desk.asker, confined, stranger, elsewhere, late):
        for way in ("approve", "deny"):
            answer = await desk.decide(hold, way, token=token)
            assert (answer.status, await desk.state(hold)) == (403, "held"), answer.text
    assert await desk.paid() == 0
    answer = await desk.decide(hold, token=approver)
    assert (answer.status, answer.json["decidedBy"]) == (200, f"key:{approver_id}")
    assert await desk.paid() == Decimal("0.5")


async def test_an_approvers_grant_ends_with_it(desk: Desk) -> None:
    hold = await desk.held()
    approver, approver_id = await desk.api.key(name="approver", grants=APPROVES)
    taken = await desk.api.call("PUT", f"/policy/key:{approver_id}", {"grants": []})
    assert taken.status == 200
    assert (await desk.decide(hold, token=approver)).status == 403
    assert (await desk.api.get("/holds", token=approver)).json["holds"] == []


async def test_who_is_told_of_which_hold(desk: Desk) -> None:
    hold = await desk.held()
    approver, _ = await desk.api.key(name="approver", grants=APPROVES)
    confined, _ = await desk.api.key(name="c", walletId=desk.other, grants=APPROVES)
    same_wallet, _ = await desk.api.key(name="s", walletId=desk.wallet, grants=APPROVES)
    stranger, _ = await desk.api.key(name="stranger")
    for token in (None, desk.asker, approver):
        options = {} if token is None else {"token": token}
        listed = (await desk.api.get("/holds", **options)).json["holds"]
        assert [each["id"] for each in listed] == [hold]
        assert (await desk.api.get(f"/holds/{hold}", **options)).json["id"] == hold
    for token in (confined, same_wallet, stranger):
        assert (await desk.api.get("/holds", token=token)).json["holds"] == []
        answer = await desk.api.get(f"/holds/{hold}", token=token)
        assert (answer.status, answer.error) == (404, "Hold not found")
    answer = await desk.api.get(f"/holds?walletId={desk.wallet}", token=confined)
    assert (answer.status, answer.error) == (404, "Wallet not found")


@promise("hold-routes-beyond")
async def test_holds_are_listed_by_wallet_state_and_page(desk: Desk) -> None:
    holds = [await desk.held(sol) for sol in ("0.2", "0.3", "0.4")]

    async def listed(query: str) -> list[str]:
        answer = await desk.api.get(f"/holds?{query}")
        assert answer.status == 200, answer.text
        return [each["id"] for each in answer.json["holds"]]

    assert await listed("") == holds[::-1]
    assert await listed("limit=1") == holds[2:]
    assert await listed(f"before={holds[2]}") == [holds[1], holds[0]]
    await desk.decide(holds[1], "deny")
    assert await listed("open=true") == [holds[2], holds[0]]
    assert await listed("open=false") == [holds[1]]
    assert await listed(f"walletId={desk.other}") == []
    assert len(await listed(f"walletId={desk.wallet}")) == 3
    for query, text in (
        ("before=x", "before must be the id of a hold"),
        ("open=maybe", "open must be true or false"),
        ("limit=0", "limit must be a whole number from 1 to 500"),
        (f"walletId={NOBODY}", "Wallet not found"),
    ):
        answer = await desk.api.get(f"/holds?{query}")
        assert (answer.status, answer.error) == (404 if "Wallet" in text else 400, text)


async def test_keys_in_memory_ask_and_approve_too(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home", api_key_store="memory") as api:
        wallet, other = await api.wallet(2), await api.wallet()
        recipient = (await api.get(f"/wallets/{other}")).json["publicKey"]
        asker, asker_id = await api.key(name="asker", grants=[ASKS])
        approver, _ = await api.key(name="approver", grants=APPROVES)
        desk = Desk(api, wallet, other, recipient, asker, asker_id)
        hold = await desk.held()
        assert (await desk.decide(hold, token=asker)).status == 403
        assert (await desk.decide(hold, token=approver)).json["state"] == "executed"
        assert await desk.paid() == Decimal("0.5")


@promise("same-request-same-hold")
async def test_a_token_by_its_symbol_or_its_mint_waits_once(desk: Desk) -> None:
    api, wallet = desk.api, desk.wallet
    swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 1}
    assert (await api.post(f"/wallets/{wallet}/swap", swap)).status == 200
    asks = {"may": ["transfer"], "assets": {"USDC": {"per": {"24h": "50"}, "hold": "0"}}}
    asker, _ = await api.key(name="tokens", grants=[asks], rateLimit=100)
    holds = set()
    for token in ("USDC", "usdc", USDC):
        body = {"to": desk.recipient, "amount": 1, "mint": token}
        answer = await api.post(f"/wallets/{wallet}/token-transfer", body, token=asker)
        assert answer.status == 202, answer.text
        holds.add(answer.json["holdId"])
    assert len(holds) == 1


@promise("same-request-same-hold")
async def test_a_swap_into_another_token_is_another_hold(desk: Desk) -> None:
    grant = {"may": ["swap"], "assets": {"SOL": {"per": {"24h": "2"}, "hold": "0"}}}
    asker, _ = await desk.api.key(name="trader", grants=[grant], rateLimit=100)
    holds = {}
    for source, target in (("SOL", "USDC"), ("sol", "usdc"), ("SOL", USDC), ("SOL", "BONK")):
        body = {"inputToken": source, "outputToken": target, "amount": Decimal("0.2")}
        answer = await desk.api.post(f"/wallets/{desk.wallet}/swap", body, token=asker)
        assert answer.status == 202, answer.text
        holds[source, target] = answer.json["holdId"]
    assert len(set(holds.values())) == 2
    assert holds["SOL", "BONK"] != holds["SOL", "USDC"]
