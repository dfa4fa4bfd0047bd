"""What became of an expired transaction: one node's whole word, or nothing is called dead; and
two hosts' word, or no money comes back."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog
from sqlalchemy import select
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import UNLIMITED, Bench, open_bench
from tests.support.rpc import RpcNode, answers_of, listening

from solward.database.tables import attempts
from solward.types.errors import LedgerRejected, LedgerUnavailable, TransactionFailed
from solward.types.money import LAMPORTS_PER_SOL
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.guardrails.rules import Policy
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.failover import FailoverTransport, Node
from solward.vault.ledger.patience import within
from solward.vault.ledger.transport import HttpTransport
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.judge.blockhash import BlockhashSource
from solward.vault.money.request import ADMIN
from solward.vault.money.send.polling import PATIENCE_BLOCKS, find_fates
from solward.vault.store.attempts import last_landed_slot

HALF = Decimal("0.5")
HALF_LAMPORTS = LAMPORTS_PER_SOL // 2
EXPIRED_SLOTS = 200
NO_HISTORY = -32011


@dataclass(slots=True)
class Pair:
    """An engine on two nodes, of which the second one knows no transaction at all."""

    bench: Bench
    engine: Engine
    ledger: Ledger
    knows: RpcNode
    ignorant: RpcNode

    def paying(self) -> asyncio.Task[TransactionRecord]:
        """A payment on its way."""
        work = self.engine.execute(self.bench.wallet.id, ADMIN, self.bench.draft(HALF))
        return asyncio.create_task(work)

    async def landed(self) -> None:
        """Wait until the recipient has the money: by the ledger, whatever the nodes say."""
        bench = self.bench

        async def paid() -> bool:
            return await bench.lamports(bench.recipient) == HALF_LAMPORTS

        await until(paid)

    async def asked(self, node: RpcNode, method: str, more: int = 3) -> None:
        """Wait until a node was asked for something a few times more."""
        wanted = node.calls[method] + more

        async def often() -> bool:
            return node.calls[method] >= wanted

        await until(often)

    async def record(self) -> TransactionRecord:
        [record] = await self.bench.history()
        return record


@dataclass(frozen=True, slots=True)
class Expired:
    """A transaction that has expired by every node."""

    signature: str
    last_valid_block_height: int = 0
    context_slot: int = 0

    @property
    def name(self) -> str:
        return self.signature


async def knows_nothing(_method: str, params: Sequence[Any]) -> Any:
    """The statuses of a node that is far ahead and has none of them."""
    return {"context": {"slot": 2**40}, "value": [None] * len(params[0])}


def an_hour_apart() -> Any:
    """A clock by which no failed node is still resting when it is looked at again."""
    return itertools.count(step=3_600).__next__


def of_host(node: RpcNode, host: str) -> HttpTransport:
    """A node on loopback that counts as one of `host`."""
    transport = HttpTransport(node.url, 5, retries=0)
    transport.origin = host
    return transport


async def swallows(_method: str, _params: Sequence[Any]) -> Any:
    """A node that sends nothing on."""
    return "1" * 64


@asynccontextmanager
async def pair(
    tmp_path: Path, hosts: tuple[str, str] = ("one.example", "two.example")
) -> AsyncIterator[Pair]:
    """The two listen on loopback, and count as nodes of `hosts`."""
    async with (
        open_bench(tmp_path) as bench,
        listening(answers_of(bench.localnet), answers_of(bench.localnet)) as nodes,
    ):
        transport = FailoverTransport(
            [
                Node(node.url, of_host(node, host), lambda _hash: None, an_hour_apart())
                for node, host in zip(nodes, hosts, strict=True)
            ]
        )
        options = EngineOptions(Policy(), UNLIMITED, close_wait_s=0.1)
        ledger = Ledger(transport)
        engine = Engine(ledger, bench.database, bench.wallets, options)
        engine.sender.pace = 0.05
        engine.start()
        knows, ignorant = nodes
        ignorant.faults["getSignatureStatuses"] = knows_nothing
        try:
            yield Pair(bench, engine, ledger, knows, ignorant)
        finally:
            await engine.close()
            await transport.close()


async def test_a_node_that_lags_does_not_make_dead_what_landed(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        tip = await nodes.bench.wire.direct("getEpochInfo", [])

        async def behind(method: str, params: Sequence[Any]) -> Any:
            if method == "getSignatureStatuses":
                return {
                    "context": {"slot": tip["absoluteSlot"]},
                    "value": [None] * len(params[0]),
                }
            return {"getBlockHeight": tip["blockHeight"], "getEpochInfo": tip}[method]

        lagging = nodes.ignorant
        lagging.faults |= dict.fromkeys(
            ("getSignatureStatuses", "getBlockHeight", "getEpochInfo"), behind
        )
        # The height comes from the node that is ahead, its history from neither.
        lagging.faults["getBlockHeight"] = 500
        nodes.knows.faults["getSignatureStatuses"] = 500
        paying = nodes.paying()
        await nodes.landed()
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        await nodes.asked(lagging, "getEpochInfo")
        assert (await nodes.record()).status is TransactionStatus.PENDING
        nodes.knows.faults.clear()
        assert (await paying).status is TransactionStatus.CONFIRMED


@promise("dead-needs-proof")
async def test_a_null_of_a_node_that_fell_behind_itself_is_no_proof(bench: Bench) -> None:
    """As behind one address that is answered by now this node and now that one."""
    slot = await bench.ledger.slot()

    async def lagging(_method: str, params: Sequence[Any]) -> Any:
        return {"context": {"slot": slot}, "value": [None] * len(params[0])}

    bench.wire.faults["getSignatureStatuses"] = lagging
    bench.engine.sender.pace = 0.05
    paying = asyncio.create_task(bench.transfer(HALF))

    async def paid() -> bool:
        return await bench.lamports(bench.recipient) == HALF_LAMPORTS

    await until(paid)
    await bench.localnet.advance_slots(EXPIRED_SLOTS)

    async def asked() -> bool:
        return bench.wire.calls["getEpochInfo"] >= 3

    await until(asked)
    assert (await bench.history())[0].status is TransactionStatus.PENDING
    bench.wire.faults.clear()
    assert (await paying).status is TransactionStatus.CONFIRMED


@promise("no-proof-from-two-nodes")
async def test_the_null_of_one_node_and_the_history_of_another_are_no_proof(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as nodes:
        # It is ahead and has nothing; that its blocks begin too late only it can say.
        nodes.ignorant.faults["getFirstAvailableBlock"] = 500
        nodes.knows.faults["getSignatureStatuses"] = 500
        paying = nodes.paying()
        await nodes.landed()
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        await nodes.asked(nodes.ignorant, "getFirstAvailableBlock")
        assert (await nodes.record()).status is TransactionStatus.PENDING
        nodes.knows.faults.clear()
        assert (await paying).status is TransactionStatus.CONFIRMED


@promise("dead-needs-proof")
async def test_a_node_whose_blocks_begin_later_cannot_call_it_dead(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:

        async def begins_late(_method: str, _params: Sequence[Any]) -> Any:
            return await nodes.bench.ledger.slot()

        nodes.ignorant.faults["getFirstAvailableBlock"] = begins_late
        nodes.knows.faults["getSignatureStatuses"] = 500
        paying = nodes.paying()
        await nodes.landed()
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        await until_state(nodes.bench, "unknown")
        assert await nodes.bench.reserved_units() == HALF_LAMPORTS
        nodes.knows.faults.clear()
        assert (await paying).status is TransactionStatus.CONFIRMED


@promise("no-proof-from-two-nodes", "single-lying-node-is-said")
async def test_one_node_that_has_it_counts_more_than_another_that_has_not(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:

        async def only_in_history(method: str, params: Sequence[Any]) -> Any:
            if not params[1]["searchTransactionHistory"]:
                return await knows_nothing(method, params)
            return await nodes.bench.wire.direct(method, params)

        nodes.knows.faults["getSignatureStatuses"] = only_in_history
        paying = nodes.paying()
        await nodes.landed()
        nodes.knows.faults["getBlockHeight"] = 500
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        assert (await paying).status is TransactionStatus.CONFIRMED
        signature = (await nodes.record()).signature
        assert signature is not None
        async with nodes.bench.database.read() as connection:
            assert await last_landed_slot(connection, nodes.bench.wallet.id, 0) > 0
        # They take turns, so that each of them is asked first once.
        for _ in range(2):
            fates = await find_fates(nodes.ledger, [Expired(signature)])
            fate = fates.ended[signature]
            assert fate.status is not None
            assert fate.status.err is None
        assert nodes.ignorant.calls["getFirstAvailableBlock"] >= 1


@promise("money-back-by-two-hosts", "two-hosts-give-back", "failed-gives-back")
@pytest.mark.parametrize(
    ("hosts", "said", "left"),
    [
        (("one.example", "two.example"), "nothing was paid$", 0),
        # Two addresses of one host, or of this machine, are one witness.
        (("one.example", "one.example"), "according to one RPC node only", HALF_LAMPORTS),
    ],
)
async def test_money_comes_back_at_once_only_by_the_word_of_two_hosts(
    tmp_path: Path, hosts: tuple[str, str], said: str, left: int
) -> None:
    async with pair(tmp_path, hosts) as nodes:
        nodes.ignorant.faults.clear()
        for node in (nodes.knows, nodes.ignorant):
            node.faults["sendTransaction"] = swallows
        paying = nodes.paying()
        await nodes.asked(nodes.knows, "sendTransaction", 1)
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        with pytest.raises(TransactionFailed, match=said):
            await paying
        assert await nodes.bench.reserved_units() == left
        await until_state(nodes.bench, "presumed_dead" if left else "dead")


@promise("other-hosts-awaited")
async def test_another_host_is_waited_for_and_then_done_without(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        for node in (nodes.knows, nodes.ignorant):
            node.faults["sendTransaction"] = swallows
        nodes.knows.faults["getEpochInfo"] = 500
        paying = nodes.paying()
        await nodes.asked(nodes.knows, "sendTransaction", 1)
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        await nodes.asked(nodes.ignorant, "getFirstAvailableBlock")
        assert (await nodes.record()).status is TransactionStatus.PENDING
        await nodes.bench.localnet.advance_slots(PATIENCE_BLOCKS)
        with pytest.raises(TransactionFailed, match="according to one RPC node only"):
            await paying
        assert await nodes.bench.reserved_units() == HALF_LAMPORTS


@promise("other-hosts-awaited")
async def test_a_host_that_comes_back_in_time_says_what_landed(tmp_path: Path) -> None:
    """The other one lies: it calls dead what has landed."""
    async with pair(tmp_path) as nodes:
        nodes.knows.faults |= {"getSignatureStatuses": 500, "getEpochInfo": 500}
        paying = nodes.paying()
        await nodes.landed()
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        await nodes.asked(nodes.ignorant, "getFirstAvailableBlock")
        nodes.knows.faults.clear()
        assert (await paying).status is TransactionStatus.CONFIRMED
        assert await nodes.bench.reserved_units() == HALF_LAMPORTS


@promise(
    "one-host-gives-nothing-back",
    "single-lying-node-is-said",
    "node-lowers-nothing",
    "two-hosts-give-back",
    "failed-gives-back",
    "one-host-presumed-failed",
)
async def test_one_remote_node_that_lies_gives_no_budget_back(bench: Bench) -> None:
    """It calls dead what has landed: the caller is not told that nothing was paid."""
    bench.wire.origin = "rpc.example"
    bench.engine.sender.pace = 0.05
    bench.wire.faults["getSignatureStatuses"] = knows_nothing
    paying = asyncio.create_task(bench.transfer(HALF))

    async def paid() -> bool:
        return await bench.lamports(bench.recipient) == HALF_LAMPORTS

    await until(paid)
    await bench.localnet.advance_slots(EXPIRED_SLOTS)
    with pytest.raises(TransactionFailed, match="look up the signature") as caught:
        await paying
    assert "nothing was paid" not in str(caught.value)
    assert caught.value.record.signature is not None
    assert await bench.reserved_units() == HALF_LAMPORTS
    await until_state(bench, "presumed_dead")


async def says_failed(_method: str, params: Sequence[Any]) -> Any:
    """The statuses of a node by which everything landed with an error."""
    status = {"slot": 1, "err": "AccountInUse", "confirmationStatus": "finalized"}
    return {"context": {"slot": 2**40}, "value": [status] * len(params[0])}


@promise("one-host-gives-nothing-back")
async def test_one_remote_node_that_calls_a_payment_failed_gives_no_budget_back(
    bench: Bench,
) -> None:
    bench.wire.origin = "rpc.example"
    bench.wire.faults["getSignatureStatuses"] = says_failed
    with pytest.raises(TransactionFailed, match="according to one RPC node only"):
        await bench.transfer(HALF)
    assert await bench.lamports(bench.recipient) == HALF_LAMPORTS
    assert await bench.reserved_units() == HALF_LAMPORTS


@promise("other-hosts-awaited")
async def test_of_two_hosts_the_one_by_which_it_landed_well_is_believed(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        # The one in use lies.
        nodes.ignorant.faults.clear()
        nodes.knows.faults["getSignatureStatuses"] = says_failed
        assert (await nodes.paying()).status is TransactionStatus.CONFIRMED
        assert await nodes.bench.reserved_units() == HALF_LAMPORTS


@promise("money-back-by-two-hosts")
async def test_two_hosts_that_call_it_failed_give_the_amount_back(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        nodes.ignorant.faults["getSignatureStatuses"] = says_failed
        nodes.knows.faults["getSignatureStatuses"] = says_failed
        with pytest.raises(TransactionFailed, match=r"AccountInUse$"):
            await nodes.paying()
        assert await nodes.bench.reserved_units() == 0


@promise("blockhash-and-height-one-node")
async def test_a_blockhash_and_its_height_are_of_one_node(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        tip = await nodes.bench.wire.direct("getEpochInfo", [])
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)

        async def behind(_method: str, _params: Sequence[Any]) -> Any:
            return tip

        # Of two nodes this would be an impossible expiry.
        nodes.ignorant.faults["getEpochInfo"] = behind
        nodes.ignorant.faults["getLatestBlockhash"] = 500
        nodes.knows.faults["getEpochInfo"] = 500
        with within(0.5), pytest.raises(TransactionFailed) as caught:
            await nodes.paying()
        assert "impossible" not in str(caught.value)
        # Of its own call, or of one beside it that the node failed.
        assert re.search("did not answer|failed while other calls waited", str(caught.value))
        nodes.knows.faults.clear()
        assert (await nodes.paying()).status is TransactionStatus.CONFIRMED


async def until_state(bench: Bench, wanted: str) -> None:
    """Wait for the only attempt to be in a state."""

    async def reached() -> bool:
        async with bench.database.read() as connection:
            states = (await connection.execute(select(attempts.c.state))).scalars().all()
        return list(states) == [wanted]

    await until(reached)


@promise("unknown-stays-reserved", "transactions-unknown-stays-reserved")
async def test_where_no_history_can_be_had_the_money_stays_held_and_it_is_said_once(
    bench: Bench,
) -> None:
    sender = bench.engine.sender
    sender.pace = 0.05

    async def without_history(_method: str, params: Sequence[Any]) -> Any:
        if params[1]["searchTransactionHistory"]:
            raise LedgerRejected(NO_HISTORY, "Transaction history is not available")
        return await knows_nothing("", params)

    bench.wire.faults["getSignatureStatuses"] = without_history
    with structlog.testing.capture_logs() as logs:
        paying = asyncio.create_task(bench.transfer(HALF))

        async def sent() -> bool:
            return bench.wire.calls["sendTransaction"] > 0

        await until(sent)
        await bench.localnet.advance_slots(EXPIRED_SLOTS)
        await until_state(bench, "unknown")
        asked = bench.wire.calls["getEpochInfo"]

        async def asked_again() -> bool:
            return bench.wire.calls["getEpochInfo"] > asked + 2

        await until(asked_again)
    [record] = await bench.history()
    assert record.status is TransactionStatus.PENDING
    assert await bench.reserved_units() == HALF_LAMPORTS
    assert [entry for entry in logs if entry["event"] == "attempt_unknown"] == [
        {
            "event": "attempt_unknown",
            "log_level": "error",
            "signature": record.signature,
            "transaction_id": record.id,
        }
    ]
    bench.wire.faults.clear()
    assert (await paying).status is TransactionStatus.CONFIRMED
    await until_state(bench, "landed_ok")
    assert await bench.lamports(bench.recipient) == HALF_LAMPORTS


@promise("transactions-unknown-stays-reserved")
async def test_an_unknown_one_is_taken_up_by_the_next_start(tmp_path: Path) -> None:
    async with open_bench(tmp_path, confirm_wait_s=0.01) as bench:
        bench.wire.away("getSignatureStatuses")
        assert (await bench.transfer(HALF)).status is TransactionStatus.PENDING
        await bench.engine.sender.close()
        await bench.localnet.advance_slots(EXPIRED_SLOTS)

        async def refused(_method: str, params: Sequence[Any]) -> Any:
            if params[1]["searchTransactionHistory"]:
                raise LedgerRejected(NO_HISTORY, "Transaction history is not available")
            return await knows_nothing("", params)

        bench.wire.faults["getSignatureStatuses"] = refused
        options = bench.engine._options
        engine = Engine(bench.ledger, bench.database, bench.wallets, options)
        engine.sender.pace = 0.05
        engine.start()
        await engine.reconcile(0.01)
        await until_state(bench, "unknown")
        await engine.close()
        bench.wire.faults.clear()
        engine = Engine(bench.ledger, bench.database, bench.wallets, options)
        engine.start()
        await engine.reconcile(10)
        await engine.close()
        await until_state(bench, "landed_ok")


@promise("unpaid-is-not-the-end")
@pytest.mark.parametrize("liar", [0, 1])
async def test_that_no_fee_was_taken_is_not_believed_where_a_host_says_otherwise(
    tmp_path: Path, liar: int
) -> None:
    def says(err: Any) -> Any:
        async def answer(_method: str, params: Sequence[Any]) -> Any:
            row = {"slot": 1, "err": err, "confirmationStatus": "finalized"}
            return {"context": {"slot": 2**40}, "value": [row] * len(params[0])}

        return answer

    failed = {"InstructionError": [0, {"Custom": 1}]}
    async with pair(tmp_path) as nodes:
        both = (nodes.knows, nodes.ignorant)
        both[liar].faults["getSignatureStatuses"] = says("AccountNotFound")
        both[1 - liar].faults["getSignatureStatuses"] = says(failed)
        await nodes.bench.localnet.advance_slots(EXPIRED_SLOTS)
        fates = await find_fates(nodes.ledger, [Expired("1" * 64)])
        fate = fates.ended["1" * 64]
        assert fate.status is not None
        assert (fate.status.err, fate.sure) == (failed, True)


@promise("no-proof-from-two-nodes")
@pytest.mark.parametrize("lie", [0, 2**40])
async def test_no_node_alone_says_from_which_slot_a_payment_may_have_landed(
    bench: Bench, lie: int
) -> None:
    """From slot 0 on no node has a history, so what was never sent would stay open for ever."""
    async with listening(*[answers_of(bench.localnet)] * 3) as nodes:

        async def other_slot(method: str, params: Sequence[Any]) -> Any:
            answer = await bench.wire.direct(method, params)
            if method == "getEpochInfo":
                return answer | {"absoluteSlot": lie}
            return answer | {"context": {"slot": lie}}

        nodes[2].faults |= dict.fromkeys(("getEpochInfo", "getLatestBlockhash"), other_slot)
        hosts = ("one.example", "two.example", "three.example")
        transport = FailoverTransport(
            [Node(n.url, of_host(n, h), lambda _: None) for n, h in zip(nodes, hosts, strict=True)]
        )
        try:
            source = BlockhashSource(Ledger(transport))
            await bench.localnet.advance_slots(50)
            for _ in range(3):
                with suppress(LedgerUnavailable):
                    found = await source.newest()
                    assert 50 <= found.earliest_landing_slot < 2**40
            assert found.earliest_landing_slot
        finally:
            await transport.close()
