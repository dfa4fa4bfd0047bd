import asyncio
import base64
import os
import signal
import sqlite3
import subprocess
import sys
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest
from solders.account import Account
from solders.pubkey import Pubkey
from solders.sysvar import RENT
from tests.support.localnet import FEE, PAYER_LAMPORTS, SOL, Chain, StillClock, key, pay

from solward.solana.protocol import (
    MAX_LOCALNET_RENT_PER_BYTE,
    MOST_RENT_PER_BYTE,
    rent_of,
)
from solward_localnet.jsonrpc import RpcError
from solward_localnet.ledger import CEILING_SLOTS, Commit
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions
from solward_localnet.storage import LedgerLocked, LedgerMismatch, Storage, reset


def still(clock: StillClock, **more: object) -> LocalnetOptions:
    return LocalnetOptions(clock=clock, ticker=False, **more)


async def test_a_ledger_is_the_same_after_it_was_closed(tmp_path: Path, clock: StillClock) -> None:
    path = tmp_path / "ledger.db"
    node = await Localnet.open(path, still(clock))
    chain = await Chain.with_payer(node, clock)
    to = key()
    signature = await chain.do(pay(chain.payer.pubkey(), to, SOL))
    genesis, stored = await chain.call("getGenesisHash"), await chain.transaction(signature)
    slot, blockhash = await chain.call("getSlot"), await chain.blockhash()
    await node.close()

    node = await Localnet.open(path, still(clock))
    chain = Chain(node, clock, chain.payer)
    assert await chain.call("getGenesisHash") == genesis
    assert (await chain.call("getSlot"), await chain.blockhash()) == (slot, blockhash)
    assert await chain.balance(to) == SOL
    assert await chain.transaction(signature) == stored
    assert await chain.call("getTransactionCount") == 2
    again = await chain.transfer(to, SOL)
    assert (await chain.refused(again)).data["err"] == "AlreadyProcessed"
    await node.close()


async def test_two_ledgers_are_not_the_same(clock: StillClock) -> None:
    nodes = [await Localnet.open(None, still(clock)) for _ in range(2)]
    assert len({await node.call("getGenesisHash") for node in nodes}) == 2
    for node in nodes:
        await node.close()


CHILD = """
import asyncio, sys
from pathlib import Path
from solders.pubkey import Pubkey
from solward_localnet.node import Localnet

async def main() -> None:
    node = await Localnet.open(Path(sys.argv[1]))
    print("open", flush=True)
    while True:
        to = str(Pubkey.new_unique())
        drops = [node.call("requestAirdrop", [to, 10**9 + i]) for i in range(5)]
        for signature in await asyncio.gather(*drops):
            print(to, signature, flush=True)

asyncio.run(main())
"""


def run_child(path: Path) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-c", CHILD, str(path)], stdout=subprocess.PIPE, text=True
    )


@pytest.mark.parametrize("answers", [7, pytest.param(203, marks=pytest.mark.more)])
async def test_nothing_answered_is_lost_when_the_process_is_killed(
    tmp_path: Path, answers: int
) -> None:
    path = tmp_path / "ledger.db"
    child = run_child(path)
    assert child.stdout is not None
    assert child.stdout.readline() == "open\n"
    lines = [child.stdout.readline() for _ in range(answers)]
    os.kill(child.pid, signal.SIGKILL)
    lines += child.stdout.read().splitlines(keepends=True)
    child.stdout.close()
    child.wait()
    told = [line.split() for line in lines if line.endswith("\n")]

    node = await Localnet.open(path)
    signatures = [signature for _, signature in told]
    for start in range(0, len(signatures), 256):
        asked = [signatures[start : start + 256], {"searchTransactionHistory": True}]
        statuses = (await node.call("getSignatureStatuses", asked))["value"]
        assert all(status is not None and status["err"] is None for status in statuses)
    addresses = {to for to, _ in told}
    for to in addresses:
        history = await node.call("getSignaturesForAddress", [to])
        landed = (await node.call("getBalance", [to]))["value"] // SOL
        assert landed == len(history) >= sum(1 for address, _ in told if address == to)
    await node.close()


async def test_a_second_process_is_kept_out(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    child = run_child(path)
    assert child.stdout is not None
    child.stdout.readline()
    try:
        with pytest.raises(LedgerLocked, match="open in another localnet"):
            await Localnet.open(path)
        with pytest.raises(LedgerLocked):
            reset(path)
    finally:
        child.kill()
        child.wait()
        child.stdout.close()
    await (await Localnet.open(path)).close()


async def test_a_second_opening_in_one_process_is_kept_out(tmp_path: Path) -> None:
    node = await Localnet.open(tmp_path / "ledger.db")
    with pytest.raises(LedgerLocked):
        await Localnet.open(tmp_path / "ledger.db")
    await node.close()


async def test_slots_do_not_come_back_after_a_kill_and_a_clock_set_back(
    tmp_path: Path, clock: StillClock
) -> None:
    path = tmp_path / "ledger.db"
    node = await Localnet.open(path, still(clock))
    clock.slots(1_000)
    told = await node.call("getSlot")
    # What a kill leaves behind: the file as it is, without the last words of `close`.
    copy = tmp_path / "copy.db"
    for suffix in ("", "-wal"):
        source = path.with_name(path.name + suffix)
        copy.with_name(copy.name + suffix).write_bytes(source.read_bytes())
    await node.close()
    clock.slots(-5_000)
    node = await Localnet.open(copy, still(clock))
    assert told < await node.call("getSlot") <= told + CEILING_SLOTS
    await node.close()


async def test_reset_leaves_a_new_ledger(tmp_path: Path, clock: StillClock) -> None:
    path = tmp_path / "ledger.db"
    reset(path)
    node = await Localnet.open(path, still(clock))
    genesis = await node.call("getGenesisHash")
    await node.close()
    reset(path)
    assert list(tmp_path.iterdir()) == []
    node = await Localnet.open(path, still(clock))
    assert await node.call("getGenesisHash") != genesis
    await node.close()


async def test_a_file_that_is_no_ledger_is_left_alone(tmp_path: Path) -> None:
    text = tmp_path / "notes.txt"
    text.write_text("not a database, and longer than a header of one hundred bytes " * 4)
    with pytest.raises(LedgerMismatch, match="not a ledger"):
        await Localnet.open(text)
    assert text.read_text().startswith("not a database")
    other = tmp_path / "other.db"
    with sqlite3.connect(other) as connection:
        connection.execute("CREATE TABLE t (x)")
    connection.close()
    with pytest.raises(LedgerMismatch, match="the file has application id"):
        await Localnet.open(other)


async def test_an_unknown_method_is_not_found(chain: Chain) -> None:
    error = await chain.error("getMoon")
    assert (error.code, error.message) == (-32601, "Method not found")


async def test_time_control_is_not_callable_unless_enabled(clock: StillClock) -> None:
    node = await Localnet.open(None, still(clock))
    slot = await node.call("getSlot")
    with pytest.raises(RpcError) as caught:
        await node.call("solward_advanceSlots", [5])
    assert caught.value.code == -32601
    await node.advance_slots(5)
    assert await node.call("getSlot") == slot + 5
    await node.close()


async def test_time_control_is_callable_where_enabled(chain: Chain) -> None:
    slot = await chain.call("getSlot")
    assert await chain.call("solward_advanceSlots", 5) == slot + 5
    assert await chain.call("solward_advanceEpochs", 2) == 64
    assert (await chain.error("solward_advanceSlots", 10**18)).code == -32602


async def test_rent_is_that_of_genesis_until_it_is_set_and_survives_a_kill(
    clock: StillClock, tmp_path: Path
) -> None:
    async def asked(node: Localnet) -> tuple[int, int]:
        sysvar = await node.call("getAccountInfo", [str(RENT), {"encoding": "base64"}])
        data = base64.b64decode(sysvar["value"]["data"][0])
        least: int = await node.call("getMinimumBalanceForRentExemption", [165])
        return int.from_bytes(data[:8], "little"), least

    path = tmp_path / "ledger.db"
    node = await Localnet.open(path, replace(still(clock), rent_per_byte=2_575))
    assert await asked(node) == (2_575, rent_of(165, 2_575))
    await node.close()
    node = await Localnet.open(path, still(clock))
    assert await asked(node) == (2_575, rent_of(165, 2_575))
    await node.set_rent(696)
    await node.close()
    node = await Localnet.open(path, still(clock))
    assert await asked(node) == (696, rent_of(165, 696))
    await node.close()
    # One from before rent was kept.
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("DELETE FROM meta WHERE name = 'rent_per_byte'")
        connection.commit()
    node = await Localnet.open(path, still(clock))
    assert await asked(node) == (MOST_RENT_PER_BYTE, rent_of(165, MOST_RENT_PER_BYTE))
    await node.close()


async def test_rent_can_be_set_where_control_is_enabled_and_in_its_bounds(chain: Chain) -> None:
    assert await chain.call("solward_setRent", 696) == 696
    assert await chain.call("getMinimumBalanceForRentExemption", 0) == rent_of(0, 696)
    for per_byte in (0, MAX_LOCALNET_RENT_PER_BYTE + 1):
        assert (await chain.error("solward_setRent", per_byte)).code == -32602


async def test_calls_made_together_are_executed_in_order(chain: Chain) -> None:
    to = key()
    txs = [await chain.transfer(to, SOL + i) for i in range(20)]
    signatures = await asyncio.gather(*(chain.post(tx) for tx in txs))
    listed = await chain.call("getSignaturesForAddress", str(to))
    assert [entry["signature"] for entry in listed] == list(signatures)[::-1]
    assert await chain.balance(to) == sum(SOL + i for i in range(20))


async def test_listeners_hear_of_a_commit_before_the_answer(chain: Chain) -> None:
    heard: list[Commit] = []
    unsubscribe = chain.node.subscribe(heard.append)
    to = key()
    signature = await chain.do(pay(chain.payer.pubkey(), to, SOL))
    (commit,) = heard
    assert [tx.signature for tx in commit.transactions] == [signature]
    assert set(commit.accounts) == {to, chain.payer.pubkey()}
    assert commit.accounts[to] == Account(SOL, b"", Pubkey.default())
    assert commit.previous_slot == commit.slot == await chain.call("getSlot")
    chain.clock.slots(3)
    await chain.call("getHealth")
    assert (heard[-1].previous_slot, heard[-1].slot) == (commit.slot, commit.slot + 3)
    unsubscribe()
    unsubscribe()
    await chain.do(pay(chain.payer.pubkey(), to, SOL + 1))
    assert len(heard) == 2


async def test_a_listener_that_fails_harms_nobody(
    chain: Chain, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(_commit: Commit) -> None:
        raise ValueError("no")

    heard: list[Commit] = []
    chain.node.subscribe(fail)
    chain.node.subscribe(heard.append)
    await chain.do(pay(chain.payer.pubkey(), key(), SOL))
    assert len(heard) == 1
    assert "a listener of the localnet failed" in caplog.text


async def test_listeners_see_slots_pass_while_nobody_calls() -> None:
    node = await Localnet.open(None, LocalnetOptions(slot_ms=10))
    slots: asyncio.Queue[int] = asyncio.Queue()
    unsubscribe = node.subscribe(lambda commit: slots.put_nowait(commit.slot))
    seen = [await asyncio.wait_for(slots.get(), 10) for _ in range(3)]
    assert seen == sorted(set(seen))
    unsubscribe()
    await node.close()


async def test_a_closed_localnet_says_so(clock: StillClock) -> None:
    node = await Localnet.open(None, still(clock))
    await node.close()
    await node.close()
    with pytest.raises(RpcError, match="closed"):
        await node.call("getSlot")


async def test_a_batch_that_cannot_be_stored_is_rolled_back(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:

        def full(_storage: Storage) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        patch.setattr(Storage, "commit", full)
        tx = await chain.transfer(key(), SOL)
        error = await chain.refused(tx)
        assert (error.code, error.message) == (-32603, "Internal error")
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    assert await chain.status(str(tx.signatures[0])) is None
    await chain.post(tx)
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS - SOL - FEE


async def test_an_executed_transaction_that_cannot_be_recorded_is_undone(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    tx = await chain.transfer(key(), SOL)
    with monkeypatch.context() as patch:

        def broken(*_args: object, **_named: object) -> None:
            raise OverflowError("too large")

        patch.setattr(Storage, "put_accounts", broken)
        assert (await chain.refused(tx)).code == -32603
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    await chain.post(tx)


async def test_a_panic_in_a_call_leaves_the_node_serving(
    chain: Chain, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Panic(BaseException):
        pass

    def panic(*_args: object, **_named: object) -> None:
        raise Panic("index out of bounds")

    with monkeypatch.context() as patch:
        patch.setattr("solward_localnet.methods.transactions.read_transaction", panic)
        error = await chain.refused(await chain.transfer(key(), SOL))
        assert error.code == -32603
    with monkeypatch.context() as patch:
        patch.setattr("solward_localnet.vm.LiteSVM.send_transaction", panic)
        error = await chain.refused(await chain.transfer(key(), SOL))
        assert (error.code, error.message) == (-32603, "Internal error: the transaction panicked")
    assert await chain.balance(chain.payer.pubkey()) == PAYER_LAMPORTS
    await chain.do(pay(chain.payer.pubkey(), key(), SOL))


async def test_genesis_takes_accounts_of_the_caller(tmp_path: Path, clock: StillClock) -> None:
    address = key()
    account = Account(7 * SOL, b"hello", Pubkey.default())
    options = still(clock, genesis=lambda: {address: account})
    path = tmp_path / "ledger.db"
    for _ in range(2):
        node = await Localnet.open(path, options)
        found = (await node.call("getAccountInfo", [str(address), {"encoding": "base64"}]))["value"]
        assert (found["lamports"], found["data"]) == (7 * SOL, ["aGVsbG8=", "base64"])
        await node.close()


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("slot_ms", 0),
        ("rent_per_byte", 0),
        ("slots_per_epoch", 31),
        ("faucet_lamports", 0),
        ("max_airdrop_lamports", -1),
        ("validator_stake_lamports", 2**63),
    ],
)
def test_options_out_of_range_are_named(name: str, value: int) -> None:
    with pytest.raises(ValueError, match=name):
        LocalnetOptions(**{name: value})
