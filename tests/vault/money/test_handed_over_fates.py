"""What becomes of a payment that was handed over: the ledger says it, and nobody else."""

from __future__ import annotations

import asyncio
import random
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from solders.message import to_bytes_versioned
from solders.pubkey import Pubkey
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
)
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import UNLIMITED
from tests.support.rpc import RpcNode, answers_of, listening
from tests.vault.money.handed_payments import (
    FUNDS,
    PRICE,
    Shop,
    another_signature,
    foreign_signature,
    open_shop,
)

from solward.types.errors import LedgerRejected
from solward.types.payment import Served
from solward.types.record import TransactionStatus
from solward.vault.guardrails.rules import Policy
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import FailoverTransport, Node
from solward.vault.ledger.transport import HttpTransport
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, HandedOverPayment
from solward.vault.money.send.polling import PATIENCE_BLOCKS


@promise("named-signature-first")
async def test_one_that_is_sent_late_is_found_without_a_word_of_the_seller(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        await shop.expire(100)
        await shop.spam(3)
        signature = await shop.settle(handed)
        record = await shop.ended(handed)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert await shop.state(handed) == "landed_ok"


@promise("payment-dead-needs-proof")
async def test_one_that_is_never_sent_gives_everything_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        await shop.answer(handed, served=Served.NO)
        await shop.expire(100)
        assert (
            await shop.bench.engine.wait_until_settled(handed.record.id, 0.3)
        ).status == "pending"
        assert await shop.counted() == PRICE
        await shop.expire()
        record = await shop.ended(handed)
        assert record.status is TransactionStatus.FAILED
        assert (
            record.error == "The transaction expired without reaching the ledger; nothing was paid"
        )
        assert record.signature is None
        assert await shop.counted() == 0
        assert await shop.state(handed) == "dead"


@promise("sent-twice-lands-once")
async def test_bytes_that_are_sent_twice_land_once(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        signature = await shop.settle(handed)
        # The network takes a message once, by whatever signature of the sponsor's.
        await shop.send(shop.signed(handed.wire), preflight=False)
        await shop.answer(handed, signature)
        assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED
        assert await shop.received() == PRICE


@promise("payment-back-by-two-hosts")
async def test_one_that_failed_on_the_ledger_gives_everything_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        first, second = await shop.hand_over(FUNDS), await shop.hand_over(FUNDS, memo="b" * 8)
        await shop.answer(first, await shop.settle(first))
        assert (await shop.ended(first)).status is TransactionStatus.CONFIRMED
        # The seller calls it paid.
        signature = await shop.send(shop.signed(second.wire), preflight=False)
        await shop.answer(second, signature)
        record = await shop.ended(second)
        assert record.status is TransactionStatus.FAILED
        assert record.error is not None
        assert "failed on the ledger" in record.error
        assert (record.signature, record.fee_lamports) == (signature, 0)
        assert await shop.counted() == FUNDS
        assert await shop.state(second) == "landed_err"


@promise("sponsored-payment-identified")
async def test_a_changed_byte_makes_the_wallets_signature_worthless(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        assert handed.wire is not None
        wire = bytearray(handed.wire)
        at = bytes(wire).index(PRICE.to_bytes(8, "little"))
        wire[at : at + 8] = (2 * PRICE).to_bytes(8, "little")
        changed = VersionedTransaction.from_bytes(bytes(wire))
        mine = shop.sponsor.sign_message(bytes(to_bytes_versioned(changed.message)))
        changed = VersionedTransaction.populate(changed.message, [mine, *changed.signatures[1:]])
        with pytest.raises(Exception, match=r"ignature"):
            await shop.send(changed)
        await shop.answer(handed, str(mine))
        await shop.expire()
        assert (await shop.ended(handed)).status is TransactionStatus.FAILED
        assert await shop.received() == 0


@promise("sponsored-payment-identified")
@pytest.mark.parametrize("served", [Served.YES, Served.NO])
async def test_a_signature_of_nobodys_ends_nothing(tmp_path: Path, served: Served) -> None:
    """As a seller that says `success` where nothing was sent."""
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        await shop.answer(handed, foreign_signature(), served)
        assert (
            await shop.bench.engine.wait_until_settled(handed.record.id, 0.3)
        ).status == "pending"
        assert await shop.counted() == PRICE
        signature = await shop.settle(handed)
        assert (await shop.ended(handed)).signature == signature


@promise("sponsored-payment-identified")
async def test_somebody_elses_landed_payment_pays_for_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        first, second = await shop.hand_over(), await shop.hand_over()
        signature = await shop.settle(first)
        await shop.answer(first, signature)
        assert (await shop.ended(first)).status is TransactionStatus.CONFIRMED
        await shop.answer(second, signature)
        assert (
            await shop.bench.engine.wait_until_settled(second.record.id, 0.3)
        ).status == "pending"
        await shop.expire()
        record = await shop.ended(second)
        assert (record.status, record.signature) == (TransactionStatus.FAILED, None)
        assert await shop.counted() == PRICE


@promise("mentions-hide-nothing")
async def test_a_history_full_of_strangers_hides_no_payment(tmp_path: Path) -> None:
    """1,001 rows are more than a node shows at once."""
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        dead = await shop.hand_over()
        # What landed is beneath a page of others before anybody looks.
        shop.bench.wire.away("getSignaturesForAddress")
        signature = await shop.settle(handed)
        await shop.spam(1_001)
        await shop.expire()
        shop.bench.wire.faults.clear()
        record = await shop.ended(handed, 60)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert (await shop.ended(dead, 60)).status is TransactionStatus.FAILED
        assert await shop.counted() == PRICE


@promise("mentions-hide-nothing")
@pytest.mark.parametrize(
    "forgets",
    [
        "where the page before ended",
        pytest.param("all but a hundred of a page", marks=pytest.mark.more),
    ],
)
async def test_a_history_that_breaks_off_within_a_payments_life_proves_nothing(
    tmp_path: Path, forgets: str
) -> None:
    """As of hosts of several nodes, of which one has not the signature that the last page ended at:
    Agave answers an empty page then. What was paid has come back from elsewhere meanwhile."""
    async with open_shop(tmp_path) as shop:
        wire = shop.bench.wire
        wire.away("getSignaturesForAddress")
        handed = await shop.hand_over()
        await shop.settle(handed)
        await shop.tokens.fund(shop.mint, PRICE)
        await shop.spam(1_001)

        async def forgetful(method: str, params: Sequence[Any]) -> Any:
            if forgets.startswith("where"):
                return [] if "before" in params[1] else None
            found = await wire.direct(method, [params[0], params[1] | {"limit": 100}])
            return found if "before" not in params[1] else []

        wire.faults["getSignaturesForAddress"] = forgetful
        await shop.expire()
        before = wire.calls["getSignaturesForAddress"]

        async def asked() -> bool:
            return wire.calls["getSignaturesForAddress"] > before + 5

        await until(asked)
        assert (await shop.bench.history())[0].status is TransactionStatus.PENDING
        assert await shop.counted() == PRICE
        wire.faults.clear()
        assert (await shop.ended(handed, 60)).status is TransactionStatus.CONFIRMED


@promise("memo-needs-every-host")
@pytest.mark.parametrize("memo", ["order \u2116 7", "order\x1f 7", "7\ud7ff", "a\nb"], ids=range(4))
async def test_a_memo_that_a_host_shows_in_other_letters_hides_no_payment(
    tmp_path: Path, memo: str
) -> None:
    """A seller chooses the memo. What was paid has come back from elsewhere meanwhile."""
    async with open_shop(tmp_path) as shop:
        wire = shop.bench.wire

        async def plain(method: str, params: Sequence[Any]) -> Any:
            rows = await wire.direct(method, list(params))
            letters = {
                each: "".join(x if x.isascii() and x.isprintable() else "?" for x in each)
                for each in (row["memo"] for row in rows)
                if each is not None
            }
            return [row | {"memo": letters.get(row["memo"])} for row in rows]

        wire.faults["getSignaturesForAddress"] = plain
        handed = await shop.hand_over(memo=memo)
        signature = await shop.settle(handed)
        await shop.tokens.fund(shop.mint, PRICE)
        await shop.expire()
        record = await shop.ended(handed)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)


@promise("named-signature-first")
async def test_many_payments_of_one_account_are_found_by_one_look_at_a_time(
    tmp_path: Path,
) -> None:
    async with open_shop(tmp_path) as shop:
        handed = [await shop.hand_over(100, memo=f"{at:032x}") for at in range(50)]
        shop.bench.wire.calls.clear()
        for each in handed:
            await shop.settle(each)
        for each in handed:
            assert (await shop.ended(each)).status is TransactionStatus.CONFIRMED
        calls = shop.bench.wire.calls
        # Of rows without a memo, those that made the token; again in each look of a busy machine.
        assert calls["getTransaction"] < len(handed) / 2
        assert calls["getSignaturesForAddress"] < 25
        assert await shop.received() == 50 * 100


@promise("emptied-account-stays-pending")
async def test_an_account_with_less_than_is_explained_keeps_its_payment_counted(
    tmp_path: Path,
) -> None:
    """Every node says that it never landed, and the money is gone."""
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()

        async def hidden(_method: str, _params: Sequence[Any]) -> Any:
            return []

        shop.bench.wire.faults["getSignaturesForAddress"] = hidden
        await shop.settle(handed)
        await shop.expire()

        async def unknown() -> bool:
            return await shop.state(handed) == "unknown"

        await until(unknown)
        assert (await shop.bench.history())[0].status is TransactionStatus.PENDING
        assert await shop.counted() == PRICE
        shop.bench.wire.faults.clear()
        assert (await shop.ended(handed)).status is TransactionStatus.CONFIRMED


@promise("missing-history-holds-own-only")
@pytest.mark.parametrize("fault", ["an error", "an end that is none"])
async def test_an_account_whose_history_no_node_gives_keeps_no_other_ones_money(
    tmp_path: Path, fault: str
) -> None:
    async with open_shop(tmp_path) as shop:
        other = await shop.bench.wallets.create("other")
        at, owner = Pubkey.from_string(shop.mint), Pubkey.from_string(other.address)
        payer = shop.tokens.stranger.pubkey()
        await shop.tokens.land([create_idempotent_associated_token_account(payer, owner, at)])
        account = str(get_associated_token_address(owner, at))
        await shop.tokens.fund(shop.mint, FUNDS, account=account)
        wire = shop.bench.wire

        async def poisoned(method: str, params: Sequence[Any]) -> Any:
            if params[0] != account:
                return None
            if fault == "an error":
                raise LedgerRejected(-32_019, "too many signatures")
            rows = await wire.direct(method, [params[0], params[1]])
            return [] if "before" in params[1] else [row | {"slot": 2**40} for row in rows]

        wire.faults["getSignaturesForAddress"] = poisoned
        draft = shop.draft(wallet=other.address)
        stuck = await shop.bench.engine.hand_over(other.id, ADMIN, draft)
        dead = await shop.hand_over()
        await shop.expire()
        assert (await shop.ended(dead, 5)).status is TransactionStatus.FAILED
        assert await shop.counted() == 0
        assert (
            await shop.bench.engine.wait_until_settled(stuck.record.id, 0.1)
        ).status == "pending"
        wire.faults.clear()
        assert (await shop.ended(stuck, 30)).status is TransactionStatus.FAILED


@promise("payment-dead-needs-proof")
async def test_a_history_that_begins_later_proves_nothing(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        await shop.expire()
        slot = await shop.bench.ledger.slot()

        async def begins_late(_method: str, _params: Sequence[Any]) -> Any:
            return slot

        shop.bench.wire.faults["getFirstAvailableBlock"] = begins_late

        async def unknown() -> bool:
            return await shop.state(handed) == "unknown"

        await until(unknown)
        assert await shop.counted() == PRICE
        shop.bench.wire.faults.clear()
        assert (await shop.ended(handed)).status is TransactionStatus.FAILED


@promise("payment-dead-needs-proof")
async def test_a_height_of_its_own_that_is_not_finalized_past_it_proves_nothing(
    tmp_path: Path,
) -> None:
    """As a node whose finalized blocks are 20 slots behind the expiry."""
    async with open_shop(tmp_path) as shop:
        handed = await shop.hand_over()
        tip = await shop.bench.wire.direct("getEpochInfo", [])
        behind = dict(tip, blockHeight=tip["blockHeight"] + 140)

        async def lags(_method: str, params: Sequence[Any]) -> Any:
            return behind if params[0]["commitment"] == "finalized" else None

        shop.bench.wire.faults["getEpochInfo"] = lags
        await shop.expire()
        before = shop.bench.wire.calls["getEpochInfo"]

        async def asked() -> bool:
            return shop.bench.wire.calls["getEpochInfo"] > before + 2

        await until(asked)
        assert await shop.state(handed) == "signed"
        shop.bench.wire.faults.clear()
        assert (await shop.ended(handed)).status is TransactionStatus.FAILED


# Remote nodes.


async def hides(_method: str, _params: Sequence[Any]) -> Any:
    """A history without anything."""
    return []


async def rich(shop: Shop) -> Any:
    """An answer of accounts as they were before the payment."""
    account = shop.tokens.account(shop.mint)
    options = {"encoding": "base64", "commitment": "confirmed"}
    return await shop.bench.wire.direct("getMultipleAccounts", [[account], options])


@promise("payment-back-by-two-hosts")
async def test_one_remote_node_that_lies_gives_no_budget_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shop.bench.wire.origin = "rpc.example"
        before = await rich(shop)

        async def as_before(_method: str, params: Sequence[Any]) -> Any:
            return before if params[1]["commitment"] == "finalized" else None

        handed = await shop.hand_over()
        shop.bench.wire.faults |= {
            "getSignaturesForAddress": hides,
            "getMultipleAccounts": as_before,
        }
        await shop.settle(handed)
        await shop.expire()
        record = await shop.ended(handed)
        assert record.status is TransactionStatus.FAILED
        assert record.error is not None
        assert "according to one RPC node only" in record.error
        assert await shop.counted() == PRICE
        assert await shop.state(handed) == "presumed_dead"


@promise("payment-back-by-two-hosts")
async def test_one_remote_node_that_calls_it_failed_gives_no_budget_back(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shop.bench.wire.origin = "rpc.example"
        handed = await shop.hand_over()

        async def failed(_method: str, params: Sequence[Any]) -> Any:
            status = {"slot": 1, "err": "AccountInUse", "confirmationStatus": "finalized"}
            return {"context": {"slot": 2**40}, "value": [status] * len(params[0])}

        async def unseen(_method: str, _params: Sequence[Any]) -> Any:
            return []

        shop.bench.wire.faults["getSignatureStatuses"] = failed
        # A look into the history must not be sooner than the seller's word.
        shop.bench.wire.faults["getSignaturesForAddress"] = unseen
        await shop.answer(handed, await shop.settle(handed))
        record = await shop.ended(handed)
        assert record.status is TransactionStatus.FAILED
        assert await shop.counted() == PRICE


class Pair:
    """An engine on two nodes of different hosts."""

    def __init__(self, shop: Shop, engine: Engine, one: RpcNode, other: RpcNode) -> None:
        self.shop, self.engine, self.one, self.other = shop, engine, one, other


@asynccontextmanager
async def pair(tmp_path: Path) -> AsyncIterator[Pair]:
    async with (
        open_shop(tmp_path) as shop,
        listening(answers_of(shop.bench.localnet), answers_of(shop.bench.localnet)) as (one, other),
    ):
        nodes = []
        for node, host in ((one, "one.example"), (other, "two.example")):
            transport = HttpTransport(node.url, 5, retries=0)
            transport.origin = host
            nodes.append(Node(node.url, transport, lambda _hash: None))
        failover = FailoverTransport(nodes)
        options = EngineOptions(Policy(), UNLIMITED, close_wait_s=0.1)
        bench = shop.bench
        engine = Engine(Ledger(failover), bench.database, bench.wallets, options)
        engine.watcher.pace = 0.02
        engine.start()
        whole, bench.engine = bench.engine, engine
        try:
            yield Pair(shop, engine, one, other)
        finally:
            bench.engine = whole
            await engine.close()
            await failover.close()


@promise("payment-back-by-two-hosts")
async def test_two_hosts_that_have_it_not_give_it_back(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        handed = await nodes.shop.hand_over()
        await nodes.shop.expire()
        assert (await nodes.shop.ended(handed)).status is TransactionStatus.FAILED
        assert await nodes.shop.state(handed) == "dead"
        assert await nodes.shop.counted() == 0


@promise("payment-back-by-two-hosts")
async def test_of_two_hosts_that_disagree_the_one_that_has_it_is_believed(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        handed = await nodes.shop.hand_over()
        # One hides it, the other is away until the expiry.
        nodes.one.faults["getSignaturesForAddress"] = hides
        nodes.other.faults["getSignaturesForAddress"] = 500
        signature = await nodes.shop.settle(handed)
        await nodes.shop.expire()
        await asyncio.sleep(0.3)
        assert await nodes.shop.counted() == PRICE
        assert (await nodes.shop.bench.history())[0].status is TransactionStatus.PENDING
        nodes.other.faults.clear()
        record = await nodes.shop.ended(handed, 40)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert await nodes.shop.state(handed) == "landed_ok"


@promise("lowest-slot-starts-history")
async def test_a_host_that_dates_the_blockhash_later_hides_nothing_in_the_other_ones_history(
    tmp_path: Path,
) -> None:
    """It calls a slot to come the blockhash's, so that what lands before it looks older than the
    bytes. What was paid has come back from elsewhere meanwhile."""
    async with pair(tmp_path) as nodes:

        async def ahead(method: str, params: Sequence[Any]) -> Any:
            known = [
                {name: value for name, value in each.items() if name != "minContextSlot"}
                if isinstance(each, dict)
                else each
                for each in params
            ]
            found = await nodes.shop.bench.localnet.call(method, known)
            if isinstance(found, dict) and "context" in found:
                found = found | {"context": {"slot": found["context"]["slot"] + 300}}
            return found

        nodes.one.faults |= {"*": ahead, "getSignaturesForAddress": hides}
        handed = await nodes.shop.hand_over()
        # The other one is away until the expiry.
        nodes.other.faults["getSignaturesForAddress"] = 500
        signature = await nodes.shop.settle(handed)
        await nodes.shop.tokens.fund(nodes.shop.mint, PRICE)
        await nodes.shop.expire(700)
        nodes.other.faults.clear()
        record = await nodes.shop.ended(handed, 40)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, signature)
        assert await nodes.shop.state(handed) == "landed_ok"
        assert await nodes.shop.counted() == PRICE


@promise("payment-back-by-two-hosts")
async def test_another_host_is_waited_for_and_then_done_without(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        handed = await nodes.shop.hand_over()
        nodes.other.faults["*"] = 500
        await nodes.shop.expire()
        await asyncio.sleep(0.3)
        assert (await nodes.shop.bench.history())[0].status is TransactionStatus.PENDING
        await nodes.shop.expire(PATIENCE_BLOCKS)
        record = await nodes.shop.ended(handed, 40)
        assert record.status is TransactionStatus.FAILED
        assert await nodes.shop.state(handed) == "presumed_dead"
        assert await nodes.shop.counted() == PRICE


@promise("sellers-ledger-is-the-count")
async def test_after_the_expiry_what_counts_is_what_the_seller_has(tmp_path: Path) -> None:
    """Whenever each is sent, with a word of the seller or without, while blocks go by."""
    dice = random.Random(18)
    async with open_shop(tmp_path) as shop:
        handed = [await shop.hand_over(1_000 + at) for at in range(60)]

        async def serve(each: HandedOverPayment) -> None:
            for _ in range(dice.randrange(40)):
                await asyncio.sleep(0.005)
            kind = dice.randrange(5)
            signature = foreign_signature()
            if kind:
                with suppress(LedgerRejected):
                    signature = await shop.settle(each)
            if kind < 3:
                await shop.answer(each, signature)

        async def go_by() -> None:
            for _ in range(80):
                await shop.expire(4)
                await asyncio.sleep(0.005)

        await asyncio.gather(go_by(), *(serve(each) for each in handed))
        await shop.expire()
        ended = [await shop.ended(each) for each in handed]
        assert {await shop.state(each) for each in handed} == {"landed_ok", "dead"}
        paid = [1_000 + at for at, r in enumerate(ended) if r.status is TransactionStatus.CONFIRMED]
        assert 0 < len(paid) < len(handed)
        assert await shop.received() == sum(paid) == await shop.counted()


@promise("payment-dead-needs-proof")
async def test_what_the_wallets_other_records_took_is_explained(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        dead, paid = await shop.hand_over(), await shop.hand_over(7 * PRICE)
        await shop.answer(paid, await shop.settle(paid))
        assert (await shop.ended(paid)).status is TransactionStatus.CONFIRMED
        await shop.expire()
        assert (await shop.ended(dead)).status is TransactionStatus.FAILED
        assert await shop.counted() == 7 * PRICE


@promise("payment-dead-needs-proof")
async def test_a_name_that_one_host_calls_failed_hides_no_other_signature_of_the_bytes(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as nodes:
        shop = nodes.shop
        handed = await shop.hand_over()
        unsigned = VersionedTransaction.from_bytes(handed.wire)
        message = bytes(to_bytes_versioned(unsigned.message))
        named = str(shop.sponsor.sign_message(message))
        landing = another_signature(shop.sponsor, message, nonce=12_345)

        async def failed(_method: str, params: Sequence[Any]) -> Any:
            row = {"slot": 1, "err": "AccountInUse", "confirmationStatus": "finalized"}
            said = [row if each == named else None for each in params[0]]
            return {"context": {"slot": 2**40}, "value": said}

        nodes.other.faults["getSignatureStatuses"] = failed
        nodes.other.faults["getSignaturesForAddress"] = hides
        nodes.engine.watcher.note_answer(handed.record.id, named)
        await shop.send(
            VersionedTransaction.populate(unsigned.message, [landing, *unsigned.signatures[1:]])
        )
        await shop.expire()
        record = await shop.ended(handed)
        assert (record.status, record.signature) == (TransactionStatus.CONFIRMED, str(landing))
