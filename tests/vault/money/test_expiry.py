"""The height until which bytes can land: never too low, whichever node says what."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.pubkey import Pubkey
from sqlalchemy import select
from tests.promises import promise
from tests.support.clock import until
from tests.support.engine import Bench, bench, fast_slots
from tests.vault.money.test_fates import HALF_LAMPORTS, pair, swallows

from solward.database.tables import attempts
from solward.types.errors import LedgerRejected, TransactionFailed
from solward.types.record import TransactionRecord, TransactionStatus
from solward.vault.ledger.patience import within
from solward.vault.money.judge.blockhash import MAX_APART_BLOCKS, MAX_VALID_BLOCKS
from solward.vault.money.judge.building import compile_instructions
from solward.vault.money.outcomes import explain
from solward.vault.money.request import ADMIN, Draft

__all__ = ["bench"]

HALF = Decimal("0.5")
LAG = 100
FAR = 2_000


async def expiry(bench: Bench) -> int:
    """What is stored of the only attempt."""
    async with bench.database.read() as connection:
        return (await connection.execute(select(attempts.c.last_valid_block_height))).scalar_one()


async def elsewhere(bench: Bench) -> Draft:
    """Bytes that somebody else made, on the newest blockhash there is."""
    draft = bench.draft(HALF)
    latest = (await bench.wire.direct("getLatestBlockhash", []))["value"]["blockhash"]
    wire = bytes(compile_instructions(draft, latest, None))
    return replace(draft, instructions=(), wire=wire)


def lagging(bench: Bench, by: int = LAG) -> dict[str, Any]:
    """Faults of a node that says it is `by` blocks behind."""

    async def behind(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        if method == "getEpochInfo":
            for name in ("absoluteSlot", "blockHeight"):
                answer[name] = max(0, answer[name] - by)
        elif method == "getLatestBlockhash":
            answer["value"]["lastValidBlockHeight"] -= by
            answer["context"]["slot"] = max(0, answer["context"]["slot"] - by)
        else:
            answer = max(0, answer - by)
        return answer

    return dict.fromkeys(("getEpochInfo", "getLatestBlockhash", "getBlockHeight"), behind)


def sending(bench: Bench, draft: Draft) -> asyncio.Task[TransactionRecord]:
    return asyncio.create_task(bench.engine.execute(bench.wallet.id, ADMIN, draft))


async def sent(bench: Bench) -> None:
    async def is_sent() -> bool:
        return bench.wire.calls["sendTransaction"] > 0

    await until(is_sent)


@promise("foreign-bytes-expiry", "lagging-node-kills-nothing")
async def test_bytes_made_elsewhere_are_not_dead_while_they_live(bench: Bench) -> None:
    """Our node is behind whoever made them."""
    sender = bench.engine.sender
    sender.pace = 0.05
    await bench.localnet.advance_slots(2 * LAG)
    bench.wire.faults |= lagging(bench) | {"sendTransaction": swallows}
    paying = sending(bench, await elsewhere(bench))
    await sent(bench)
    for name in lagging(bench):
        del bench.wire.faults[name]
    # Past the expiry by the height that the node said, and not by the ledger's.
    await bench.localnet.advance_slots(MAX_VALID_BLOCKS - LAG + 10)
    asked = bench.wire.calls["getBlockHeight"]

    async def looked_at() -> bool:
        return bench.wire.calls["getBlockHeight"] > asked + 3

    await until(looked_at)
    [record] = await bench.history()
    assert record.status is TransactionStatus.PENDING
    del bench.wire.faults["sendTransaction"]
    assert (await paying).status is TransactionStatus.CONFIRMED
    assert await bench.lamports(bench.recipient) == HALF_LAMPORTS


@promise("low-expiry-not-signed", "lagging-node-kills-nothing")
@pytest.mark.parametrize("made_here", [True, False])
async def test_of_several_nodes_the_highest_height_counts(tmp_path: Path, made_here: bool) -> None:
    async with pair(tmp_path) as nodes:
        bench = nodes.bench
        await bench.localnet.advance_slots(2 * LAG)
        height = await bench.ledger.block_height()
        nodes.knows.faults |= lagging(bench)
        draft = bench.draft(HALF) if made_here else await elsewhere(bench)
        record = await nodes.engine.execute(bench.wallet.id, ADMIN, draft)
        assert record.status is TransactionStatus.CONFIRMED
        assert await expiry(bench) >= height + MAX_VALID_BLOCKS


@promise("low-expiry-not-signed")
async def test_a_node_that_claims_an_early_expiry_is_not_followed(bench: Bench) -> None:
    async def early(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        answer["value"]["lastValidBlockHeight"] -= 140
        return answer

    bench.wire.faults["getLatestBlockhash"] = early
    height = await bench.ledger.block_height()
    await bench.transfer(HALF)
    assert await expiry(bench) >= height + MAX_VALID_BLOCKS


@promise("no-build-on-lagging-node")
async def test_no_transaction_is_built_on_a_node_that_is_far_behind(tmp_path: Path) -> None:
    async with pair(tmp_path) as nodes:
        await nodes.bench.localnet.advance_slots(FAR)
        height = await nodes.bench.ledger.block_height()
        assert FAR > MAX_APART_BLOCKS
        nodes.knows.faults |= lagging(nodes.bench, FAR)
        nodes.ignorant.faults["getLatestBlockhash"] = 500
        with within(0.5), pytest.raises(TransactionFailed, match=r"blocks apart|HTTP 500"):
            await nodes.paying()
        assert await nodes.bench.reserved_units() == 0
        nodes.ignorant.faults.clear()
        # By the other one, which is not behind.
        await nodes.paying()
        assert await expiry(nodes.bench) >= height + MAX_VALID_BLOCKS


@promise("false-heights-build-nothing")
@pytest.mark.parametrize("claims", ["height", "slot"])
async def test_a_node_that_claims_to_be_far_ahead_holds_no_money(
    tmp_path: Path, claims: str
) -> None:
    """What never lands would be held until a block that never comes."""
    async with pair(tmp_path) as nodes:
        bench = nodes.bench

        async def ahead(method: str, params: Sequence[Any]) -> Any:
            answer = await bench.wire.direct(method, params)
            if method == "getEpochInfo" and claims == "height":
                answer["blockHeight"] += 10**12
            elif method == "getLatestBlockhash":
                answer["value"]["lastValidBlockHeight"] += 10**12
                answer["context"]["slot"] += 10**12 if claims == "slot" else 0
            return answer

        nodes.knows.faults |= dict.fromkeys(("getEpochInfo", "getLatestBlockhash"), ahead)
        # Whichever is asked first.
        for _ in range(2):
            if claims == "height":
                with within(0.5), pytest.raises(TransactionFailed, match="blocks apart"):
                    await nodes.paying()
                assert await bench.reserved_units() == 0
            else:
                nodes.engine._assessor.blockhashes.forget()
                assert (await nodes.paying()).status is TransactionStatus.CONFIRMED
        async with bench.database.read() as connection:
            stored = await connection.execute(select(attempts.c.last_valid_block_height))
            assert all(each < 10**6 for each in stored.scalars())


async def test_a_node_that_hangs_beside_the_one_in_use_holds_up_no_payment(
    tmp_path: Path,
) -> None:
    async with pair(tmp_path) as nodes:
        nodes.ignorant.faults["getEpochInfo"] = "hang"
        async with asyncio.timeout(4):
            assert (await nodes.paying()).status is TransactionStatus.CONFIRMED


# Reads and simulation.


@promise("reads-not-before-blockhash")
async def test_reads_and_simulation_are_not_of_before_the_blockhash(bench: Bench) -> None:
    wanted: list[Any] = []

    async def note(method: str, params: Sequence[Any]) -> Any:
        wanted.append(params[1].get("minContextSlot"))

    bench.wire.faults |= dict.fromkeys(("getMultipleAccounts", "simulateTransaction"), note)
    slot = await bench.ledger.slot()
    await bench.transfer(HALF)
    assert len(wanted) == 2
    assert all(each >= slot for each in wanted)


@promise("reads-not-before-blockhash")
@pytest.mark.parametrize("times", [1, 100])
async def test_nodes_some_blocks_apart_fail_no_transaction(bench: Bench, times: int) -> None:
    """Behind one address, the one that simulates has not reached the blockhash's slot."""
    fast_slots(bench.ledger)

    async def behind(_method: str, params: Sequence[Any]) -> Any:
        if "minContextSlot" in params[1] and bench.wire.calls["simulateTransaction"] <= times:
            raise LedgerRejected(-32016, "Minimum context slot has not been reached")

    bench.wire.faults["simulateTransaction"] = behind
    assert (await bench.transfer(HALF)).status is TransactionStatus.CONFIRMED
    assert bench.wire.calls["simulateTransaction"] == min(times + 1, 4)


async def test_state_and_simulation_of_different_slots_are_told_apart(bench: Bench) -> None:
    assessor = bench.engine._assessor
    assert (await assessor.assess(bench.draft(HALF), "one")).effects.tied

    async def ahead(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        answer["context"]["slot"] += 30
        return answer

    bench.wire.faults["simulateTransaction"] = ahead
    assert not (await assessor.assess(bench.draft(HALF), "two")).effects.tied
    assert (await bench.transfer(HALF)).status is TransactionStatus.CONFIRMED


@promise("undeclared-effects-refused")
async def test_a_node_that_reads_an_older_state_than_it_simulates_refuses_nothing(
    bench: Bench,
) -> None:
    """What landed in between looks like this transaction's; its bytes say what it can take."""
    fast_slots(bench.ledger)
    older: dict[str, Any] = {}

    async def behind(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        if bench.wallet.address not in params[0]:
            return answer
        old = older.setdefault(str(params[0]), answer)
        return old | {"context": {"slot": answer["context"]["slot"] + 30}}

    to = str(Pubkey.new_unique())
    bench.wire.faults["getMultipleAccounts"] = behind
    for _ in range(3):
        assert (await bench.transfer(HALF, to=to)).status is TransactionStatus.CONFIRMED
    assert await bench.lamports(to) == 3 * HALF_LAMPORTS


async def test_bytes_on_a_block_the_node_has_not_seen_yet_are_tried_again(
    bench: Bench,
) -> None:
    fast_slots(bench.ledger)

    async def unseen(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        if bench.wire.calls["simulateTransaction"] == 1:
            answer["value"] |= {"err": "BlockhashNotFound", "accounts": None}
        return answer

    bench.wire.faults["simulateTransaction"] = unseen
    record = await bench.engine.execute(bench.wallet.id, ADMIN, await elsewhere(bench))
    assert record.status is TransactionStatus.CONFIRMED


@promise("reads-after-own-landing")
@pytest.mark.parametrize("failure", ["BlockhashNotFound", "AccountNotFound"])
async def test_a_node_that_is_behind_is_waited_for_while_the_caller_waits(
    bench: Bench, failure: str
) -> None:
    """More often than any count of tries: behind one address most nodes may lag."""
    fast_slots(bench.ledger)
    await bench.transfer(HALF)
    slot = bench.engine._assessor._ledger.newest_landed_slot
    assert slot > 0
    lagging_tries = 10

    async def behind(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        if bench.wire.calls["simulateTransaction"] <= 1 + lagging_tries:
            answer["value"] |= {"err": failure, "accounts": None}
            answer["context"]["slot"] = slot - 1
        return answer

    bench.wire.faults["simulateTransaction"] = behind
    assert (await bench.transfer(HALF)).status is TransactionStatus.CONFIRMED
    assert bench.wire.calls["simulateTransaction"] == 2 + lagging_tries
    # One that is not behind is believed at once.
    bench.wire.calls.clear()

    async def fails(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        answer["value"] |= {"err": "AccountNotFound", "accounts": None}
        return answer

    bench.wire.faults["simulateTransaction"] = fails
    with pytest.raises(TransactionFailed, match="too little SOL"):
        await bench.transfer(HALF)
    assert bench.wire.calls["simulateTransaction"] == 1


async def test_an_answer_that_no_reader_gets_to_the_end_of_loses_no_payment(
    tmp_path: Path,
) -> None:
    """It was sent and answered with an error, so that whoever asked would pay again."""
    async with pair(tmp_path) as nodes:
        for node in (nodes.knows, nodes.ignorant):
            node.faults["sendTransaction"] = "deep"
        async with asyncio.timeout(8):
            assert (await nodes.paying()).status is TransactionStatus.CONFIRMED
        assert await nodes.bench.lamports(nodes.bench.recipient) == HALF_LAMPORTS
        [record] = await nodes.bench.history()
        assert record.status is TransactionStatus.CONFIRMED


@pytest.mark.parametrize("error", [5, [1], [1, {}], {"0": 1}])
def test_an_error_of_any_shape_has_words(error: Any) -> None:
    """A node that lies about a failure would otherwise keep others' from being settled."""
    assert explain({"InstructionError": error}, ())
    assert explain({"InstructionError": [2, {"Custom": 6}]}, ()) == "instruction 2 failed: Custom 6"
    assert explain({"InstructionError": [0, "X"]}, ()) == "instruction 0 failed: X"


NODES_OWN = "http://user:password99@rpc.test/v2/k?api-key=QUERYSECRET777"


@pytest.mark.parametrize(
    ("err", "logs"),
    [
        (f"odd {NODES_OWN}", ()),
        ({"InstructionError": [0, f"odd {NODES_OWN}"]}, ()),
        ({"InstructionError": [0, {"Custom": 1}]}, (f"Program log: error {NODES_OWN}",)),
        ({f"odd {NODES_OWN}": 1}, ()),
    ],
)
def test_what_a_node_says_of_a_failure_hides_its_address_and_can_be_stored(
    err: Any, logs: tuple[str, ...]
) -> None:
    told = explain(err, logs)
    assert "odd" in told or "error" in told
    assert "QUERYSECRET777" not in told
    assert "password99" not in told
    odd = explain({"InstructionError": [0, "a\x00\x1b[31m\ud800" + "x" * 10**6]}, ())
    assert len(odd) <= 500
    assert odd.startswith("instruction 0 failed: a\ufffd\ufffd[31m\ufffd")
