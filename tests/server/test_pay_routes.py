"""The routes of payments: what they answer, once and again, to whom, and after a restart."""

from __future__ import annotations

import asyncio
import tracemalloc
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from tests.promises import promise
from tests.support.market import USDC
from tests.support.payments import OWNER, PRICE, Shop, open_shop, reopened
from tests.support.sellers import Asked, Reply, receipt
from tests.support.services import NOBODY

from solward.database.tables import payments
from solward.operations.payments import pay
from solward.service.retention import delete_old_rows
from solward.support.clock import now_ms
from solward.support.durations import DAY_MS
from solward_server.http.body import MAX_PAY_BYTES


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "home") as opened:
        yield opened


async def test_the_answer_and_its_payment(shop: Shop) -> None:
    answer = await shop.post()
    assert answer.status == 200, answer.text
    response, payment = answer.json["response"], answer.json["payment"]
    assert (response["status"], response["body"]) == (200, '{"weather": "sunny"}')
    assert response["truncated"] is False
    assert "payment-response" in response["headers"]
    identifier, timestamp = payment.pop("id"), payment.pop("timestamp")
    assert payment == {
        "walletId": shop.wallet,
        "status": "confirmed",
        "state": "landed",
        "served": "yes",
        "protocol": "x402",
        "mode": "sponsored",
        "site": shop.seller.site,
        "url": shop.url,
        "method": "GET",
        "asset": USDC,
        "symbol": "USDC",
        "amount": payment["amount"],
        "payTo": str(OWNER.pubkey()),
        "signature": shop.settled[0],
    }
    assert str(payment["amount"]) == "0.01"
    listed = (await shop.api.get(f"/payments?walletId={shop.wallet}")).json["payments"]
    assert listed == [payment | {"id": identifier, "timestamp": timestamp}]
    stored = await shop.api.get(f"/payments/{identifier}")
    assert stored.json == answer.json | {"payment": listed[0]}


async def test_a_request_that_needs_no_payment_is_passed_on(shop: Shop) -> None:
    shop.seller.says(Reply(418, (("X-A", "1"), ("x-a", "2"), ("Set-Cookie", "s=1")), b"\xff\x00"))
    answer = await shop.post("free")
    assert answer.json["payment"] is None
    headers = answer.json["response"]["headers"]
    assert (headers["x-a"], "set-cookie" in headers) == ("1, 2", False)
    assert (answer.json["response"]["status"], answer.json["response"]["bodyBase64"]) == (
        418,
        "/wA=",
    )
    # Nothing was made of the key, so it asks again.
    assert (await shop.post("free")).headers.get("Idempotent-Replayed") is None
    assert len(shop.seller.asked) == 2


async def test_the_same_key_pays_once_and_answers_the_same(shop: Shop) -> None:
    first = await shop.post("weather-1")
    again = await shop.post("weather-1")
    assert (again.status, again.json) == (200, first.json)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert (len(shop.seller.paid), await shop.earned()) == (1, PRICE)
    other = await shop.post("weather-1", max="0.06 USDC")
    assert other.status == 422


@promise("key-pays-once-over-restarts")
async def test_requests_at_once_with_one_key_are_one_payment(shop: Shop) -> None:
    answers = await asyncio.gather(*(shop.post("at-once") for _ in range(6)))
    assert sorted({each.status for each in answers}) == [200, 409]
    assert (len(shop.seller.paid), await shop.earned()) == (1, PRICE)
    assert (await shop.post("at-once")).status == 200


async def test_while_the_seller_is_being_shown_a_payment_it_is_shown_no_second_time(
    shop: Shop,
) -> None:
    shown, may_answer = asyncio.Event(), asyncio.Event()

    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks()
        shown.set()
        await may_answer.wait()
        return Reply(200, (receipt(await shop.settle(asked)),), b"late")

    shop.seller.answer = sells
    first = asyncio.create_task(shop.post("slow"))
    await shown.wait()
    assert (await shop.post("slow")).status == 409
    may_answer.set()
    assert (await first).json["response"]["body"] == "late"
    assert len(shop.seller.paid) == 1


async def test_an_answer_that_did_not_serve_is_kept_while_its_payment_is_open(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)
    shop.seller.says(shop.asks())
    first = await shop.post("not-served")
    assert (first.json["response"]["status"], first.json["payment"]["served"]) == (402, "no")
    again = await shop.post("not-served")
    assert (again.json, again.headers["Idempotent-Replayed"]) == (first.json, "true")
    assert len(shop.seller.paid) == 1


async def test_what_is_refused_before_it_is_judged_leaves_the_key_unused(shop: Shop) -> None:
    answer = await shop.post("too-much", max="0.001 USDC")
    assert answer.status == 400
    assert answer.error == (
        f"{shop.seller.site} makes no offer that may be paid: x402: it asks 0.01 USDC, and max is"
        " 0.001 USDC (price_above_max)"
    )
    assert (await shop.post("too-much")).status == 200


@promise("key-pays-once-over-restarts")
async def test_the_answer_is_kept_over_a_restart(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with open_shop(home) as shop:
        first = await shop.post("kept")
        async with reopened(shop, home) as later:
            again = await later.post("kept")
            assert (again.json, again.headers["Idempotent-Replayed"]) == (first.json, "true")
            assert len(later.seller.paid) == 1


@pytest.mark.more
@promise("key-pays-once-over-restarts")
async def test_what_was_handed_over_before_a_stop_is_shown_again_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pay, "ANSWER_WAIT_S", 0.3)
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)
    home = tmp_path / "home"
    never = asyncio.Event()
    async with open_shop(home) as shop:
        slow = Reply(before=never.wait)
        shop.seller.answer = lambda asked: slow if asked.paid else shop.asks()
        first = await shop.post("stopped")
        assert (first.json["response"], first.json["payment"]["served"]) == (None, "unknown")
        monkeypatch.setattr(pay, "ANSWER_WAIT_S", 20.0)
        monkeypatch.setattr(pay, "SETTLE_WAIT_S", 5.0)
        async with reopened(shop, home) as later:
            shop.seller.answer = later.sells
            again = await later.post("stopped")
            assert again.json["response"]["body"] == '{"weather": "sunny"}'
            assert again.json["payment"]["id"] == first.json["payment"]["id"]
            one, two = shop.seller.paid
            assert one.payment == two.payment
            assert len(await later.payments()) == 1
    never.set()


async def test_a_dry_run_asks_the_seller_and_pays_nothing(shop: Shop) -> None:
    for answer in (
        await shop.post(dryRun=True),
        await shop.api.post(
            f"/wallets/{shop.wallet}/pay?dryRun=true", {"url": shop.url, "max": "1 USDC"}
        ),
    ):
        assert answer.status == 200, answer.text
        assert (answer.json["dryRun"], answer.json["allowed"]) == (True, True)
        assert answer.json["status"] == 402
        offer = answer.json["offer"]
        assert (offer["protocol"], str(offer["amount"]), offer["symbol"], offer["site"]) == (
            "x402",
            "0.01",
            "USDC",
            shop.seller.site,
        )
        assert offer["description"] == "weather"
    assert shop.seller.paid == []
    assert await shop.records() == []
    shop.seller.says(Reply(200))
    free = await shop.post(dryRun=True)
    assert free.json == {
        "dryRun": True, "allowed": True, "guardrailsApplied": [], "offer": None, "status": 200
    }  # fmt: skip


async def test_a_body_has_its_own_bound(shop: Shop) -> None:
    shop.seller.says(Reply(200))
    large = await shop.post(method="POST", body="x" * (1 << 20))
    assert large.status == 200
    assert len(shop.seller.asked[0].body) == 1 << 20
    beyond = await shop.post(method="POST", body="x" * ((1 << 20) + 1))
    assert (beyond.status, beyond.error) == (400, "body must not be larger than 1 MiB")
    assert (await shop.post(body="x" * MAX_PAY_BYTES)).status == 413


async def test_a_key_must_say_the_most_and_is_confined_to_its_wallet(shop: Shop) -> None:
    token, _ = await shop.api.key()
    answer = await shop.post(max=None, token=token)
    assert (answer.status, answer.error[:21]) == (400, "max must be an amount")
    paid = (await shop.post()).json["payment"]
    other = await shop.api.wallet()
    confined, _ = await shop.api.key(walletId=other)
    assert (await shop.api.get("/payments", token=confined)).json == {"payments": []}
    hidden = await shop.api.get(f"/payments/{paid['id']}", token=confined)
    assert (hidden.status, hidden.error) == (404, "Payment not found")
    assert (await shop.post(token=confined)).status == 404
    asked = f"/payments?walletId={shop.wallet}"
    assert (await shop.api.get(asked, token=confined)).status == 404


async def test_lists_are_paged(shop: Shop) -> None:
    for _ in range(3):
        assert (await shop.post()).status == 200
    ids = [each["id"] for each in await shop.payments()]
    newest = (await shop.api.get("/payments?limit=2")).json["payments"]
    assert [each["id"] for each in newest] == ids[:2]
    older = (await shop.api.get(f"/payments?before={ids[1]}")).json["payments"]
    assert [each["id"] for each in older] == ids[2:]
    wrong = await shop.api.get(f"/payments?before={NOBODY}")
    assert (wrong.status, wrong.error) == (400, "before must be the id of a payment")


@pytest.mark.more
@promise("payment-dry-run-counted")
async def test_a_dry_run_is_a_request_of_its_keys_rate(shop: Shop) -> None:
    """The seller is asked, whoever it is."""
    token, _ = await shop.api.key(rateLimit=2)
    answers = [await shop.post(token=token, dryRun=True) for _ in range(4)]
    assert [each.status for each in answers] == [200, 200, 429, 429]
    assert len(shop.seller.asked) == 2


@promise("list-reads-no-answers")
async def test_a_list_of_payments_reads_no_answers(shop: Shop) -> None:
    for _ in range(3):
        await shop.post()
    large = update(payments).values(answer_body=bytes(8 << 20))
    async with shop.service.database.write() as connection:
        await connection.execute(large)
    tracemalloc.start()
    try:
        assert len(await shop.payments()) == 3
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()


@promise("lost-answer-not-repaid")
async def test_a_request_whose_answer_is_no_longer_kept_is_not_paid_again(shop: Shop) -> None:
    first = await shop.post("weather-1")
    assert first.json["response"]["truncated"] is False
    in_time = now_ms() + 31 * DAY_MS
    retained = await delete_old_rows(shop.service.database, shop.service.settings, in_time)
    assert retained.answers == 1
    for _ in range(2):
        again = await shop.post("weather-1")
        assert (again.status, again.json["payment"]) == (200, first.json["payment"])
        assert again.json["response"] == {
            "status": 200,
            "headers": {},
            "body": "",
            "truncated": True,
        }
    assert (len(shop.seller.asked), len(shop.seller.paid), await shop.earned()) == (2, 1, PRICE)


@promise("one-principals-answers")
async def test_answers_to_one_key_make_room_for_its_own_newer_ones_alone(shop: Shop) -> None:
    shop.service.payments.answers_max_bytes = 1_000_000
    size = 40_000

    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks()
        padding = ("X-Padding", "p" * 5_000)
        return Reply(200, (receipt(await shop.settle(asked)), padding), bytes(size))

    async def kept() -> list[int]:
        async with shop.service.database.read() as connection:
            rows = await connection.execute(
                select(payments.c.answer_body, payments.c.answer_status, payments.c.offer).order_by(
                    payments.c.seq
                )
            )
            found = rows.all()
        # What is forgotten has no offer either.
        assert [body is None for body, _, _ in found] == [offer == "{}" for _, _, offer in found]
        return [len(body or b"") for body, status, _ in found if status == 200]

    shop.seller.answer = sells
    operators = await shop.post("operators")
    may_pay = {"may": ["pay"], "assets": {"USDC": {"per": {"24h": "1"}}}, "to": ["any"]}
    token, _ = await shop.api.key(rateLimit=100, grants=[may_pay])
    answers = [await shop.post(f"key-{number}", token=token) for number in range(4)]
    # Each was given whole as it came; two of 45 kB, with their offers, fit into a tenth.
    assert [each.json["response"]["truncated"] for each in (operators, *answers)] == [False] * 5
    assert await kept() == [size, 0, 0, size, size]
    size = 200_000
    assert (await shop.post("key-4", token=token)).json["response"]["truncated"] is False
    assert await kept() == [40_000, 0, 0, 0, 0, size]
    again = await shop.post("key-0", token=token)
    assert (again.json["payment"], again.json["response"]["truncated"]) == (
        answers[0].json["payment"],
        True,
    )
    assert len(shop.seller.paid) == 6


@promise("one-principals-answers")
@pytest.mark.parametrize("note", ["n" * 8_000, "\U0001f642" * 600], ids=["ascii", "of four bytes"])
async def test_offers_of_a_seller_who_never_answers_make_room_for_their_payers_newer_ones(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.0)
    shop.service.payments.answers_max_bytes = 200_000

    async def takes(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks(shop.offer() | {"note": note})
        await shop.settle(asked)
        return Reply(raw=b"")

    shop.seller.answer = takes
    actions = [f"taken-{number}" for number in range(5)]
    for action in actions:
        assert (await shop.post(action)).json["response"] is None
    async with shop.service.database.read() as connection:
        rows = await connection.execute(select(payments.c.offer).order_by(payments.c.seq))
        kept = [offer != "{}" for offer in rows.scalars()]
    assert kept == [False, False, False, True, True]
    # It is shown no more, and paid no second time.
    asked = len(shop.seller.asked)
    again = await shop.post(actions[0])
    assert (again.json["response"], len(shop.seller.asked)) == (None, asked)


@promise("one-principals-answers")
async def test_an_answer_is_given_whole_though_newer_ones_took_its_room_meanwhile(
    shop: Shop,
) -> None:
    shop.service.payments.answers_max_bytes = 1
    answers = await asyncio.gather(*(shop.post(f"at-once-{number}") for number in range(3)))
    assert [each.json["response"]["body"] for each in answers] == ['{"weather": "sunny"}'] * 3


@promise("key-stands-for-hold")
@pytest.mark.parametrize("route", ["pay", "skill"])
async def test_what_fails_of_an_approved_payment_meanwhile_ends_neither_its_hold_nor_its_key(
    shop: Shop, route: str
) -> None:
    may_pay = {"may": ["pay"], "assets": {"USDC": {"per": {"24h": "1"}}}, "to": ["any"]}
    token, _ = await shop.api.key(rateLimit=100, grants=[may_pay])
    assert (await shop.post("one", token=token)).status == 200

    async def asks(price: int) -> Any:
        shop.entry = {"amount": price}
        if route == "pay":
            return await shop.post("two", token=token)
        params = {"url": shop.url, "max": "0.05 USDC"}
        path, key = f"/wallets/{shop.wallet}/skills/pay_request", {"Idempotency-Key": "two"}
        return await shop.api.post(path, params, token=token, headers=key)

    held = await asks(2 * PRICE)
    assert held.status == 202, held.text
    await shop.api.post(f"/holds/{held.json['holdId']}/approve", {})
    await shop.api.post("/freeze", {})
    assert (await asks(2 * PRICE)).status == 500
    await shop.api.post("/unfreeze", {})
    risen = await asks(3 * PRICE)
    assert (risen.status, "not the transaction that a person" in risen.error) == (409, True)
    assert (await shop.api.get(f"/holds/{held.json['holdId']}")).json["state"] == "approved"
    paid = await asks(2 * PRICE)
    assert paid.status == 200, paid.text
    again = await asks(2 * PRICE)
    assert (again.json, again.headers["Idempotent-Replayed"]) == (paid.json, "true")
    assert await shop.earned() == 3 * PRICE


@promise("same-request-same-hold")
async def test_a_paid_request_is_one_hold_by_whichever_route(shop: Shop) -> None:
    may_pay = {"may": ["pay"], "assets": {"USDC": {"per": {"24h": "1"}}}, "to": ["any"]}
    token, _ = await shop.api.key(rateLimit=100, grants=[may_pay])
    assert (await shop.post("one", token=token)).status == 200
    shop.entry = {"amount": 2 * PRICE}
    held = await shop.post(token=token)
    assert held.status == 202, held.text
    params = {"url": shop.url, "max": "0.05 USDC"}
    path = f"/wallets/{shop.wallet}/skills/pay_request"
    again = await shop.api.post(path, params, token=token)
    assert (again.status, again.json["holdId"]) == (202, held.json["holdId"])
    other = await shop.api.post(path, params | {"method": "POST"}, token=token)
    assert other.json["holdId"] != held.json["holdId"]
    assert len(shop.seller.paid) == 1


@pytest.mark.more
async def test_a_frozen_wallet_pays_nobody(shop: Shop) -> None:
    await shop.api.post("/freeze", {"walletId": shop.wallet, "reason": "incident 7"})
    answer = await shop.post("frozen")
    assert (answer.status, answer.error) == (
        500,
        "Transaction blocked by guardrail freeze: transactions are frozen: incident 7",
    )
    assert shop.seller.paid == []
    again = await shop.post("frozen")
    assert (again.status, again.headers["Idempotent-Replayed"]) == (500, "true")


@promise("frozen-shows-no-payment")
@pytest.mark.parametrize("whole", [True, False], ids=["service", "wallet"])
async def test_what_was_handed_over_before_a_freeze_is_shown_to_nobody_until_it_is_lifted(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, whole: bool
) -> None:
    """The first showing was lost on its way."""
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)
    shop.seller.answer = lambda asked: Reply(raw=b"") if asked.paid else shop.asks()
    first = await shop.post("lost")
    assert (first.json["response"], first.json["payment"]["state"]) == (None, "handed_over")
    of = {} if whole else {"walletId": shop.wallet}
    await shop.api.post("/freeze", {"reason": "incident 7"} | of)
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 5.0)
    shop.seller.answer = shop.sells
    again = await shop.post("lost")
    assert (again.status, again.json["response"]) == (200, None)
    assert again.json["payment"]["status"] == "pending"
    assert len(shop.seller.paid) == 1
    assert await shop.earned() == 0
    await shop.api.post("/unfreeze", of)
    assert (await shop.post("lost")).json["response"]["status"] == 200
    assert await shop.earned() == PRICE


async def test_a_key_without_grants_pays_no_tokens(shop: Shop) -> None:
    token, _ = await shop.api.key()
    answer = await shop.post(token=token)
    assert (answer.status, answer.error) == (
        500,
        "Transaction blocked by guardrail grants: Key test has no grant to pay USDC.",
    )
    assert shop.seller.paid == []


async def test_a_key_that_may_spend_nothing_pays_nothing(shop: Shop) -> None:
    token, _ = await shop.api.key(spendingLimitSol=0)
    answer = await shop.post(token=token)
    assert answer.status == 500
    assert shop.seller.paid == []


@pytest.mark.more
async def test_the_feed_tells_of_payments(shop: Shop) -> None:
    paid = (await shop.post()).json["payment"]
    entries = (await shop.api.get("/audit?limit=20")).json["entries"]
    of_payments = [each for each in entries if each["event"].startswith("payment:")]
    # Who pays from another wallet does not wait for this one's chain.
    assert {each["chain"] for each in of_payments} == {f"wallet:{shop.wallet}"}
    told = {each["event"]: each["data"] for each in of_payments}
    assert set(told) == {"payment:handed_over", "payment:answered"}
    assert told["payment:handed_over"]["state"] == "handed_over"
    assert told["payment:answered"]["served"] == "yes"
    assert {each["id"] for each in told.values()} == {paid["id"]}


@promise("headers-never-stored")
async def test_nothing_of_a_header_or_a_query_is_kept_or_told(
    shop: Shop, caplog: pytest.LogCaptureFixture
) -> None:
    secret = "sk-very-secret-value"
    url = shop.seller.url(f"/weather?key={secret}")

    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks(resource=shop.url)
        return Reply(200, (receipt(await shop.settle(asked)),), b"ok")

    shop.seller.answer = sells
    answer = await shop.post(url=url, headers={"X-Api-Key": secret})
    assert answer.status == 200, answer.text
    assert secret not in answer.text
    for path in (
        "/payments",
        "/transactions",
        "/audit?limit=50",
        f"/payments/{answer.json['payment']['id']}",
    ):
        assert secret not in (await shop.api.get(path)).text, path
    assert secret not in caplog.text
