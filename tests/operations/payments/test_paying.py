"""Payments from 402 to answer, with a seller over real HTTP and the ledger's real programs."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Collection
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.transaction import VersionedTransaction
from sqlalchemy.ext.asyncio import AsyncConnection
from tests.promises import promise
from tests.support.clock import until
from tests.support.payments import OWNER, PRICE, SPONSOR, Shop, charge, mpp, open_shop
from tests.support.sellers import Asked, Reply, fake_seller, receipt

from solward.operations.payments import pay
from solward.operations.payments.requests import MAX_ANSWER_BYTES
from solward.solana.programs import MEMO_PROGRAM
from solward.types.errors import InvalidRequest, TransactionError
from solward.types.payment import (
    HttpAnswer,
    PaymentMode,
    PaymentOffer,
    PaymentProof,
    PaymentReceipt,
    PaymentSpec,
    PaymentState,
    PayRequest,
    Served,
)
from solward.types.record import TransactionStatus
from solward.vault.money.request import ADMIN, Actor
from solward.vault.store import recipients

# A signature that nobody made.
FOREIGN = "5" * 87


@pytest.fixture
async def shop(tmp_path: Path) -> AsyncIterator[Shop]:
    async with open_shop(tmp_path / "home") as opened:
        yield opened


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ledger is not waited for: what is handed over stays open."""
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)


def charged_by(asked: Asked) -> bytes:
    """The transaction that a payment of an mpp charge shows."""
    kind, _, text = (asked.payment or "").partition(" ")
    assert kind == "Payment"
    shown = json.loads(base64.urlsafe_b64decode(text + "=" * (-len(text) % 4)))
    return base64.b64decode(shown["payload"]["transaction"])


async def send(shop: Shop, wire: bytes) -> str:
    """Send it as the seller of an unsponsored charge does; the signature."""
    options = {"encoding": "base64", "preflightCommitment": "processed"}
    return str(await shop.call("sendTransaction", base64.b64encode(wire).decode(), options))


async def status_of(shop: Shop, wanted: str) -> bool:
    return bool((await shop.payments())[0]["status"] == wanted)


async def lands(shop: Shop) -> dict[str, Any]:
    """The newest payment, once it is confirmed."""
    await until(lambda: status_of(shop, "confirmed"))
    found: dict[str, Any] = (await shop.payments())[0]
    return found


@pytest.mark.parametrize("version", [1, 2])
async def test_a_request_is_paid_once_and_its_answer_given(shop: Shop, version: int) -> None:
    shop.version = version
    lamports = (await shop.call("getBalance", shop.address))["value"]
    found = await shop.buys()
    assert (found.status, found.body) == (200, b'{"weather": "sunny"}')
    payment = found.payment
    assert payment is not None
    assert (payment.status, payment.state, payment.served, payment.mode) == (
        TransactionStatus.CONFIRMED,
        PaymentState.LANDED,
        Served.YES,
        PaymentMode.SPONSORED,
    )
    assert (str(payment.amount), payment.symbol, payment.site) == ("0.01", "USDC", shop.seller.site)
    assert [payment.signature] == shop.settled
    assert await shop.earned() == PRICE
    # The sponsor paid the fee.
    assert (await shop.call("getBalance", shop.address))["value"] == lamports
    assert [each.paid for each in shop.seller.asked] == [False, True]
    (record,) = await shop.records()
    assert (record["status"], record["signature"]) == ("confirmed", payment.signature)
    assert record["details"]["site"] == shop.seller.site


async def test_a_sponsor_is_asked_about_in_each_reservation_and_once_before_it(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[list[str]] = []
    own_addresses = recipients.own_addresses

    async def noted(connection: AsyncConnection, addresses: Collection[str]) -> frozenset[str]:
        asked.append(list(addresses))
        return await own_addresses(connection, addresses)

    monkeypatch.setattr(recipients, "own_addresses", noted)
    await shop.buys()
    await shop.buys()
    assert asked == [[str(SPONSOR.pubkey())]] * 3


async def test_a_memo_that_the_seller_asks_for_is_the_only_one(shop: Shop) -> None:
    shop.entry = {"memo": "order-7"}
    assert (await shop.buys()).status == 200
    message = VersionedTransaction.from_bytes(shop.seller.paid[0].transaction).message
    programs = [str(message.account_keys[each.program_id_index]) for each in message.instructions]
    assert programs.count(MEMO_PROGRAM) == 1
    memo = message.instructions[programs.index(MEMO_PROGRAM)]
    assert bytes(memo.data) == b"order-7"


@promise("no-second-payment")
@pytest.mark.usefixtures("impatient")
async def test_a_second_402_ends_it(shop: Shop) -> None:
    """The seller has what it needs to take the money, and asks for more for ever."""
    shop.seller.says(shop.asks())
    found = await shop.buys()
    assert found.status == 402
    assert found.payment is not None
    assert (found.payment.served, found.payment.status) == (Served.NO, TransactionStatus.PENDING)
    assert found.payment.state is PaymentState.HANDED_OVER
    assert len(shop.seller.paid) == 1
    assert await shop.earned() == 0


@promise("no-second-payment")
@pytest.mark.usefixtures("impatient")
async def test_a_seller_that_fails_may_take_the_money_all_the_same(shop: Shop) -> None:
    shop.seller.answer = lambda asked: Reply(500, (), b"oops") if asked.paid else shop.asks()
    found = await shop.buys()
    assert found.payment is not None
    assert (found.status, found.payment.served) == (500, Served.NO)
    assert found.payment.status is TransactionStatus.PENDING
    # Its amount counts meanwhile, and the ledger alone ends it.
    signature = await shop.settle(shop.seller.paid[0])
    landed = await lands(shop)
    assert (landed["served"], landed["signature"]) == ("no", signature)
    assert await shop.earned() == PRICE


@promise("no-second-payment")
@pytest.mark.usefixtures("impatient")
async def test_a_receipt_is_not_believed(shop: Shop) -> None:
    async def sells(asked: Asked) -> Reply:
        return Reply(200, (receipt(FOREIGN),), b"ok") if asked.paid else shop.asks()

    shop.seller.answer = sells
    found = await shop.buys()
    assert found.payment is not None
    assert (found.payment.served, found.payment.status) == (Served.YES, TransactionStatus.PENDING)
    assert found.payment.signature is None


@promise("resource-of-its-host")
@pytest.mark.parametrize("version", [1, 2])
async def test_a_seller_that_names_another_scheme_or_a_path_is_paid(
    shop: Shop, version: int
) -> None:
    """As one behind a TLS proxy does, which is called by http itself."""
    shop.version = version
    for number, named in enumerate((f"https://{shop.seller.site}/weather", "/weather"), 1):
        asks = shop.asks(resource=named)
        shop.seller.answer = lambda asked, asks=asks: shop.sells(asked) if asked.paid else asks
        assert (await shop.buys()).status == 200
        assert await shop.earned() == number * PRICE


@promise("payment-shown-to-its-site")
@pytest.mark.usefixtures("impatient")
async def test_a_payment_is_shown_to_nobody_by_a_redirect(shop: Shop) -> None:
    async with fake_seller() as thief:
        to = Reply(307, (("Location", thief.url("/steal")),), b"")
        shop.seller.answer = lambda asked: to if asked.paid else shop.asks()
        found = await shop.buys()
        assert found.payment is not None
        assert (found.status, found.payment.served) == (307, Served.NO)
        assert thief.asked == []
        assert [each.path for each in shop.seller.asked] == ["/weather", "/weather"]


async def test_an_answer_is_kept_up_to_its_bound(shop: Shop) -> None:
    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks()
        return Reply(200, (receipt(await shop.settle(asked)),), b"x" * (MAX_ANSWER_BYTES + 9))

    shop.seller.answer = sells
    found = await shop.buys()
    assert (len(found.body), found.truncated) == (MAX_ANSWER_BYTES, True)
    assert found.payment is not None
    assert found.payment.served is Served.YES
    kept = await shop.service.payments.answer(found.payment.id)
    assert (kept.body, kept.truncated) == (found.body, True)


async def test_an_answer_that_breaks_off_is_kept_as_far_as_it_came(shop: Shop) -> None:
    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks()
        return Reply(200, (receipt(await shop.settle(asked)),), b"0123456789", cut=4)

    shop.seller.answer = sells
    found = await shop.buys()
    assert (found.status, found.body, found.truncated) == (200, b"0123", True)
    assert found.payment is not None
    assert found.payment.served is Served.UNKNOWN


@promise("strangers-text-is-seen")
async def test_headers_of_an_answer_hold_nothing_that_a_terminal_obeys(shop: Shop) -> None:
    shop.seller.says(Reply(200, (("x-words", "a\x1b[2J\x9bb\xadc\td"),), b"sunny"))
    found = await shop.buys(Actor("admin"))
    assert dict(found.headers)["x-words"] == "a\ufffd[2J\ufffdb\ufffdc\td"


@promise("key-pays-once-over-restarts")
async def test_no_answer_is_no_word_and_the_same_payment_is_shown_again(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pay, "ANSWER_WAIT_S", 0.3)
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)
    never = asyncio.Event()
    slow = Reply(before=never.wait)
    shop.seller.answer = lambda asked: slow if asked.paid else shop.asks()
    actor = Actor("admin", action_key="once")
    found = await shop.buys(actor)
    assert (found.status, found.headers, found.body) == (0, (), b"")
    assert found.payment is not None
    assert (found.payment.served, found.payment.state) == (Served.UNKNOWN, PaymentState.HANDED_OVER)
    shop.seller.answer = shop.sells
    monkeypatch.setattr(pay, "ANSWER_WAIT_S", 10.0)
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 5.0)
    again = await shop.buys(actor)
    assert again.payment is not None
    assert (again.status, again.payment.id) == (200, found.payment.id)
    first, second = shop.seller.paid
    assert first.payment == second.payment
    assert await shop.earned() == PRICE
    # It asked for no second offer.
    assert [each.paid for each in shop.seller.asked] == [False, True, True]
    third = await shop.buys(actor)
    assert (third.body, len(shop.seller.asked)) == (again.body, 3)
    never.set()


async def test_the_same_action_is_not_another_request(shop: Shop) -> None:
    actor = Actor("admin", action_key="one")
    await shop.buys(actor)
    with pytest.raises(InvalidRequest, match="not those of the request that this action paid for"):
        await shop.buys(actor, url=shop.seller.url("/other"))
    assert len(shop.seller.paid) == 1


async def test_a_caller_that_goes_away_cancels_nothing_that_was_signed(shop: Shop) -> None:
    shown, may_answer = asyncio.Event(), asyncio.Event()

    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return shop.asks()
        shown.set()
        await may_answer.wait()
        return Reply(200, (receipt(await shop.settle(asked)),), b"late")

    shop.seller.answer = sells
    actor = Actor("admin", action_key="gone")
    asking = asyncio.create_task(shop.buys(actor))
    await shown.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    may_answer.set()
    landed = await lands(shop)
    assert landed["served"] == "yes"
    assert (await shop.buys(actor)).body == b"late"
    assert len(shop.seller.paid) == 1


async def test_what_can_never_land_failed_and_its_amount_is_given_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path / "home", localnet_slot_ms=4) as shop:
        shop.seller.answer = lambda asked: Reply(raw=b"") if asked.paid else shop.asks()
        actor = Actor("admin", action_key="dies")
        found = await shop.buys(actor)
        assert found.status == 0
        await until(lambda: status_of(shop, "failed"))
        (payment,) = await shop.payments()
        assert (payment["state"], payment["served"]) == ("expired", "unknown")
        with pytest.raises(TransactionError):
            await shop.buys(actor)
        shown = len(shop.seller.paid)
        # What it was signed for can be paid anew, under another name.
        shop.seller.answer = shop.sells
        assert (await shop.buys()).status == 200
        assert len(shop.seller.paid) == shown + 1


async def test_a_charge_of_mpp_is_handed_over_whole_where_nobody_sponsors_it(shop: Shop) -> None:
    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return mpp(charge())
        wire = charged_by(asked)
        assert str(VersionedTransaction.from_bytes(wire).message.account_keys[0]) == shop.address
        shop.settled.append(await send(shop, wire))
        return Reply(200, (), b"charged")

    shop.seller.answer = sells
    found = await shop.buys()
    assert found.payment is not None
    assert (found.status, found.payment.mode) == (200, PaymentMode.UNSPONSORED)
    assert (await lands(shop))["signature"] == shop.settled[0]
    assert await shop.earned() == PRICE


@promise("bid-leaves-room")
@pytest.mark.parametrize("left", ["0.000006", "0.0000075", "0.00000935"])
async def test_the_bid_of_a_payment_is_lowered_to_the_costs_that_are_left(
    tmp_path: Path, left: str
) -> None:
    async with open_shop(tmp_path / "home", priority_fee=3_000_000) as shop:

        async def sells(asked: Asked) -> Reply:
            if not asked.paid:
                return mpp(charge(currency="sol", amount="2000000", details={"decimals": 9}))
            await send(shop, charged_by(asked))
            return Reply(200, (), b"charged")

        shop.seller.answer = sells
        terms = {"spendingLimitSol": 1, "maxCostsSolPerDay": Decimal(left)}
        key, _ = await shop.api.key(**terms)
        answer = await shop.post(token=key, max="0.002 SOL")
        assert answer.status == 200, answer.text
        [record] = await shop.records()
        listed = await shop.api.get(f"/wallets/{shop.wallet}/transactions?fees=true")
        fees = {each["id"]: each["fee"] for each in listed.json["transactions"] if "fee" in each}
        paid = fees[record["id"]]["lamports"]
        assert 5_000 < paid <= int(Decimal(left) * 10**9)


async def test_sol_is_paid_as_sol(shop: Shop) -> None:
    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return mpp(charge(currency="sol", amount="2000000", details={"decimals": 9}))
        await send(shop, charged_by(asked))
        return Reply(200, (), b"charged")

    shop.seller.answer = sells
    before = (await shop.call("getBalance", str(OWNER.pubkey())))["value"]
    found = await shop.buys(max="0.002 SOL")
    assert found.payment is not None
    assert (found.payment.asset, found.payment.symbol, str(found.payment.amount)) == (
        "SOL",
        "SOL",
        "0.002",
    )
    await lands(shop)
    assert (await shop.call("getBalance", str(OWNER.pubkey())))["value"] == before + 2_000_000


async def test_sol_is_paid_by_a_sponsored_charge_and_found_in_the_wallets_own_history(
    shop: Shop,
) -> None:
    details = {"decimals": 9, "feePayer": True, "feePayerKey": str(SPONSOR.pubkey())}

    async def sells(asked: Asked) -> Reply:
        if not asked.paid:
            return mpp(charge(currency="sol", amount="2000000", details=details))
        await shop.settle(charged_by(asked))
        return Reply(200, (), b"charged, without a receipt")

    shop.seller.answer = sells
    before = (await shop.call("getBalance", shop.address))["value"]
    found = await shop.buys(max="0.002 SOL")
    assert found.payment is not None
    assert (found.payment.asset, found.payment.mode) == ("SOL", PaymentMode.SPONSORED)
    assert (await lands(shop))["signature"] == shop.settled[0]
    assert (await shop.call("getBalance", shop.address))["value"] == before - 2_000_000


async def test_the_cheapest_way_is_the_sponsors(shop: Shop) -> None:
    """A seller that offers both protocols is paid by the one whose fee another pays."""
    both = shop.asks().headers + mpp(charge()).headers
    shop.seller.says(Reply(402, both, b""))
    quote = await shop.service.payments.quote(
        shop.wallet, ADMIN, PayRequest(shop.url, max="1 USDC")
    )
    assert quote.payment is not None
    assert (quote.payment.protocol, quote.payment.fee_payer) == ("x402", str(SPONSOR.pubkey()))
    other = await shop.service.payments.quote(
        shop.wallet, ADMIN, PayRequest(shop.url, protocol="mpp")
    )
    assert other.payment is not None
    assert (other.payment.protocol, other.payment.fee_payer) == ("mpp", None)
    assert shop.seller.paid == []
    assert await shop.records() == []


class Push:
    """A protocol whose sellers take a signature of what has landed, and nothing else."""

    spec = PaymentSpec("push")

    async def offers(self, answer: HttpAnswer) -> tuple[PaymentOffer, ...]:
        offer = PaymentOffer("localnet", "SOL", 2_000_000, str(OWNER.pubkey()), (PaymentMode.PUSH,))
        return (offer,) if answer.header("X-Price") else ()

    async def headers(self, offer: PaymentOffer, proof: PaymentProof) -> dict[str, str]:
        assert (proof.wire, proof.mode) == (None, PaymentMode.PUSH)
        return {"X-Payment": str(proof.signature)}

    async def receipt(self, offer: PaymentOffer, answer: HttpAnswer) -> PaymentReceipt | None:
        return None


async def test_what_the_wallet_sends_is_shown_once_it_has_landed(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    shop.service.payments.use_protocols({"push": Push()})

    async def sells(asked: Asked) -> Reply:
        if asked.payment is None:
            return Reply(402, (("X-Price", "2000000"),), b"")
        [status] = (await shop.call("getSignatureStatuses", [asked.payment]))["value"]
        return Reply(200 if status and status["err"] is None else 500, (), b"pushed")

    shop.seller.answer = sells
    actor = Actor("admin", action_key="push")
    found = await shop.buys(actor, max="0.002 SOL")
    assert found.payment is not None
    assert (found.status, found.payment.mode, found.payment.status) == (
        200,
        PaymentMode.PUSH,
        TransactionStatus.CONFIRMED,
    )
    assert [each.payment for each in shop.seller.paid] == [found.payment.signature]
    assert (await shop.buys(actor, max="0.002 SOL")).body == b"pushed"
    assert len(shop.seller.paid) == 1
    # Where no answer came, what has landed is shown again, however long ago.
    monkeypatch.setattr(pay, "ANSWER_WAIT_S", 0.2)
    never = asyncio.Event()
    slow = Reply(before=never.wait)
    asks = Reply(402, (("X-Price", "2000000"),), b"")
    shop.seller.answer = lambda asked: slow if asked.paid else asks
    other = Actor("admin", action_key="push-2")
    assert (await shop.buys(other, max="0.002 SOL")).status == 0
    monkeypatch.setattr(pay, "ANSWER_WAIT_S", 10.0)
    shop.seller.answer = sells
    assert (await shop.buys(other, max="0.002 SOL")).body == b"pushed"
    assert len(await shop.payments()) == 2
    never.set()


@promise("asked-again-not-resigned")
@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("mode", ["sponsored", "push"])
async def test_an_action_whose_caller_left_shows_its_payment_for_its_own_request_alone(
    shop: Shop, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Asked for again before the first is reserved, for another request at another site."""
    shop.seller.answer = lambda asked: Reply(200, (), b"sunny") if asked.paid else shop.asks()
    if mode == "push":
        shop.seller.answer = lambda asked: (
            Reply(200, (), b"sunny") if "authorization" in asked.headers else mpp(charge())
        )
    whole, gates = shop.service.engine._assessor.assess_any, [asyncio.Event(), asyncio.Event()]
    reached: list[asyncio.Event] = []

    async def held(*args: Any, **options: Any) -> Any:
        found = await whole(*args, **options)
        reached.append(gates[len(reached)])
        await reached[-1].wait()
        return found

    monkeypatch.setattr(shop.service.engine._assessor, "assess_any", held)
    who = replace(ADMIN, action_key="cycle-1")
    async with fake_seller() as other:
        payments = shop.service.payments
        payments.sites._private |= {other.site}
        other.answer = lambda asked: (
            Reply(200, (), b"stolen")
            if asked.paid or "authorization" in asked.headers
            else (mpp(charge()) if mode == "push" else shop.asks(resource=other.url("/")))
        )
        first = asyncio.create_task(shop.buys(who))
        await until(lambda: _is(len(reached) == 1))
        first.cancel()
        second = asyncio.create_task(shop.buys(who, url=other.url("/")))
        await until(lambda: _is(len(reached) == 2))
        gates[0].set()
        await until(lambda: _served(shop))
        gates[1].set()
        with pytest.raises(InvalidRequest, match="not those of the request"):
            await second
        assert [each for each in other.asked if each.paid or "authorization" in each.headers] == []
    (payment,) = await shop.payments()
    assert (payment["url"], payment["served"]) == (shop.url, "yes")


async def _is(holds: bool) -> bool:
    return holds


async def _served(shop: Shop) -> bool:
    return [each["served"] for each in await shop.payments()] == ["yes"]


@promise("no-second-payment")
async def test_a_payment_of_another_is_no_receipt(
    shop: Shop, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = await shop.buys()
    assert other.payment is not None
    said = str(other.payment.signature)
    monkeypatch.setattr(pay, "SETTLE_WAIT_S", 0.1)

    async def sells(asked: Asked) -> Reply:
        return Reply(200, (receipt(said),), b"ok") if asked.paid else shop.asks()

    shop.seller.answer = sells
    found = await shop.buys()
    assert found.payment is not None
    assert found.payment.status is TransactionStatus.PENDING
    assert found.payment.signature is None
