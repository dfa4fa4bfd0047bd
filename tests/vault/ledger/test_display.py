"""Shared reads for display: how many calls they take, what ends them, and how old they may be."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.engine import Bench
from tests.support.tokens import TokenBench, tokens
from tests.vault.ledger.test_failover import Clock, clock

from solward.service.holdings import BEHIND_S, LISTED_S, Display
from solward.solana.programs import TOKEN_PROGRAM
from solward.solana.protocol import UNMEASURED_SLOT_MS
from solward.testing.stand import open_stand
from solward.types.errors import LedgerRejected, LedgerUnavailable
from solward.types.ledger import ReadLedger
from solward.types.record import TransactionStatus
from solward.vault.ledger.patience import within

__all__ = ["clock", "tokens"]

SOL = 1_000_000_000
FRESH_S = UNMEASURED_SLOT_MS / 1000
USDC = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
# A token account of nobody's.
LISTED = "7UX2i7SucgLMQcfZ75s3VXmZZY4YRUyJN9X1RgfMoDUi"
ACCOUNTS, LISTS = "getMultipleAccounts", "getTokenAccountsByOwner"


@pytest.fixture
async def display(bench: Bench, clock: Clock) -> AsyncIterator[Display]:
    opened = Display(bench.ledger, "localnet", clock=clock)
    yield opened
    await opened.close()


class Gate:
    """Holds a method's answers, which are read from the ledger before, until it is opened."""

    def __init__(self, bench: Bench, method: str) -> None:
        self.opened, self.reached = asyncio.Event(), asyncio.Event()
        self._bench = bench
        bench.wire.faults[method] = self._hold

    async def _hold(self, method: str, params: Sequence[Any]) -> Any:
        answer = await self._bench.wire.direct(method, params)
        self.reached.set()
        await self.opened.wait()
        return answer


@promise("many-callers-one-read")
async def test_a_hundred_callers_of_one_wallet_are_one_read(bench: Bench, display: Display) -> None:
    address = bench.wallet.address
    bench.wire.calls.clear()
    found = await asyncio.gather(*(display.wallet(address) for _ in range(100)))
    assert {each.lamports for each in found} == {10 * SOL}
    assert bench.wire.calls == {ACCOUNTS: 1, LISTS: 2}
    await display.wallet(address)
    assert bench.wire.calls.total() == 3


async def test_wallets_that_are_observed_together_are_one_call_a_hundred_accounts(
    bench: Bench, display: Display, clock: Clock
) -> None:
    addresses = [bench.wallet.address, *(str(Keypair().pubkey()) for _ in range(249))]

    async def observe() -> list[int]:
        bench.wire.calls.clear()
        found = await asyncio.gather(*map(display.observed, addresses))
        return [each.lamports for each in found]

    assert await observe() == [10 * SOL, *[0] * 249]
    assert bench.wire.calls == {ACCOUNTS: 3, LISTS: 500}
    clock.now += 2 * FRESH_S
    assert await observe() == [10 * SOL, *[0] * 249]
    assert bench.wire.calls == {ACCOUNTS: 3}
    clock.now += LISTED_S
    await observe()
    assert bench.wire.calls == {ACCOUNTS: 3, LISTS: 500}


@promise("observed-anew")
async def test_what_is_observed_is_read_anew_each_time(bench: Bench, display: Display) -> None:
    # Another process may have confirmed the agent's own transaction since.
    address = bench.recipient
    for number in range(3):
        assert (await display.observed(address)).lamports == number * SOL
        bench.wire.calls.clear()
        await bench.localnet.call("requestAirdrop", [address, SOL])
        assert bench.wire.calls == {}


@promise("token-accounts-listed-again")
async def test_token_accounts_are_listed_again_for_who_knows_of_another_transaction(
    tokens: TokenBench, clock: Clock
) -> None:
    display = Display(tokens.bench.ledger, "localnet", clock=clock)
    mint = await tokens.mint(units=5, ours=False)

    async def accounts(mark: str) -> set[str]:
        found = await display.observed(tokens.address, mark)
        return {each.account for each in found.holdings}

    before = await accounts("a")
    another = await tokens.another_account(mint)
    assert await accounts("a") == before
    assert await accounts("b") == before | {another}
    await display.close()


async def test_who_asks_while_another_wallet_is_read_begins_a_read(
    bench: Bench, display: Display
) -> None:
    gate = Gate(bench, ACCOUNTS)
    first = asyncio.create_task(display.wallet(bench.recipient))
    await gate.reached.wait()
    del bench.wire.faults[ACCOUNTS]
    assert (await display.wallet(bench.wallet.address)).lamports == 10 * SOL
    gate.opened.set()
    assert (await first).lamports == 0


async def test_a_state_is_shown_for_a_slot(bench: Bench, display: Display, clock: Clock) -> None:
    address = bench.wallet.address
    await display.wallet(address)
    await bench.localnet.call("requestAirdrop", [address, SOL])
    clock.now += FRESH_S - 0.001
    assert (await display.wallet(address)).lamports == 10 * SOL
    clock.now += 0.002
    assert (await display.wallet(address)).lamports == 11 * SOL


@promise("confirmed-means-fresh-read")
async def test_who_was_told_that_a_transfer_is_confirmed_sees_no_state_before_it(
    bench: Bench, display: Display
) -> None:
    source, target = bench.wallet.address, bench.recipient
    for number in range(1, 4):
        before = (await display.wallet(source)).lamports, (await display.observed(target)).lamports
        record = await bench.transfer(Decimal("0.5"))
        assert record.status is TransactionStatus.CONFIRMED
        now = (await display.wallet(source)).lamports, (await display.observed(target)).lamports
        assert now == (10 * SOL - number * (SOL // 2 + 5_000), number * SOL // 2)
        assert now != before


async def test_a_read_from_before_the_confirmation_is_joined_by_nobody_after_it(
    bench: Bench, display: Display
) -> None:
    address = bench.wallet.address
    gate = Gate(bench, LISTS)
    early = asyncio.create_task(display.wallet(address))
    await gate.reached.wait()
    del bench.wire.faults[LISTS]
    await bench.transfer(Decimal(1))
    late = await display.wallet(address)
    assert late.lamports == 9 * SOL - 5_000
    gate.opened.set()
    await early
    # Nor does what it found come back.
    assert await display.wallet(address) == late


async def test_a_failure_is_told_to_those_who_wait_and_kept_for_nobody(
    bench: Bench, display: Display
) -> None:
    address = bench.wallet.address
    bench.wire.away(ACCOUNTS)
    bench.wire.calls.clear()
    answers = await asyncio.gather(
        *(display.wallet(address) for _ in range(10)), return_exceptions=True
    )
    assert {type(each) for each in answers} == {LedgerUnavailable}
    assert bench.wire.calls[ACCOUNTS] == 1
    del bench.wire.faults[ACCOUNTS]
    assert (await display.wallet(address)).lamports == 10 * SOL


async def test_the_failure_of_one_wallet_is_not_the_others(bench: Bench, display: Display) -> None:
    address, other = bench.wallet.address, str(Keypair().pubkey())

    async def fault(method: str, params: Sequence[Any]) -> Any:
        if params[0] == other:
            raise LedgerUnavailable("away")
        return await bench.wire.direct(method, params)

    bench.wire.faults[LISTS] = fault
    answers = await asyncio.gather(
        display.observed(address), display.observed(other), return_exceptions=True
    )
    assert not isinstance(answers[0], BaseException)
    assert answers[0].lamports == 10 * SOL
    assert isinstance(answers[1], LedgerUnavailable)


def listed(account: str, **changed: Any) -> dict[str, Any]:
    """An answer that lists a token account, in the RPC's form."""
    amount = {"amount": "5", "decimals": 6} | changed
    info = {"mint": USDC, "tokenAmount": amount} | changed
    item = {"pubkey": account, "account": {"data": {"parsed": {"info": info}}}}
    return {"context": {"slot": 1}, "value": [item]}


class Hostile:
    """A node that says what it likes of the token accounts of `other`, and what is so of all else:
    `lists` in place of what they are, and what is at each in place of that."""

    def __init__(self, bench: Bench, lists: Any, account: Any = None) -> None:
        self.other = str(Keypair().pubkey())
        self._bench, self._lists, self._account = bench, lists, account
        bench.wire.faults[LISTS] = self._list
        bench.wire.faults[ACCOUNTS] = self._read

    async def _list(self, _method: str, params: Sequence[Any]) -> Any:
        if params[0] == self.other and params[1]["programId"] == TOKEN_PROGRAM:
            return self._lists
        return None

    async def _read(self, method: str, params: Sequence[Any]) -> Any:
        if isinstance(self._account, LedgerRejected) and LISTED in params[0]:
            raise self._account
        answer = await self._bench.wire.direct(method, params)
        if self._account is not None and LISTED in params[0]:
            answer["value"][params[0].index(LISTED)] = self._account
        return answer

    async def observe(self, display: Display) -> list[int | BaseException]:
        """What is shown of the bench's wallet, of one that has nothing, and of `other`."""
        addresses = [self._bench.wallet.address, self._bench.recipient, self.other]
        found = await asyncio.gather(*map(display.observed, addresses), return_exceptions=True)
        return [each if isinstance(each, BaseException) else each.lamports for each in found]


NO_ACCOUNTS = {
    "no address": listed("not an address"),
    "a byte more": listed(LISTED + "1"),
    "no mint": listed(LISTED, mint="x"),
    "mint none": listed(LISTED, mint=None),
    "negative": listed(LISTED, amount="-1"),
    "2^64": listed(LISTED, amount=str(1 << 64)),
    "decimals": listed(LISTED, decimals=256),
    "decimals as text": listed(LISTED, decimals="6.5"),
}


async def test_a_token_account_that_cannot_be_is_not_asked_for_with_others(
    bench: Bench, display: Display, clock: Clock
) -> None:
    for why, lists in NO_ACCOUNTS.items():
        node = Hostile(bench, lists)
        for _ in range(2):
            mine, strangers, other = await node.observe(display)
            assert (mine, strangers) == (10 * SOL, 0), why
            assert isinstance(other, LedgerUnavailable), why
            clock.now += 2 * FRESH_S
        bench.wire.faults.clear()
        assert await node.observe(display) == [10 * SOL, 0, 0], why


NO_STATES: dict[str, Any] = {
    "refused": LedgerRejected(-32602, "Invalid param"),
    "no data": {"lamports": 1, "owner": TOKEN_PROGRAM},
    "negative": {"lamports": -1, "owner": TOKEN_PROGRAM, "data": ["", "base64"]},
    "2^64": {"lamports": 1 << 64, "owner": TOKEN_PROGRAM, "data": ["", "base64"]},
    "no base64": {"lamports": 1, "owner": TOKEN_PROGRAM, "data": ["!", "base64"]},
    "no object": "x",
}


async def test_what_a_node_says_of_one_account_fails_no_other_wallet_and_is_asked_anew(
    bench: Bench, display: Display, clock: Clock
) -> None:
    for why, account in NO_STATES.items():
        node = Hostile(bench, listed(LISTED), account)
        # Listed, and not read yet.
        assert await node.observe(display) == [10 * SOL, 0, 0], why
        clock.now += 2 * FRESH_S
        mine, strangers, other = await node.observe(display)
        assert (mine, strangers) == (10 * SOL, 0), why
        assert isinstance(other, (LedgerRejected, LedgerUnavailable)), why
        # No listing of before, whose time is not over, keeps it failing.
        assert await node.observe(display) == [10 * SOL, 0, 0], why


async def test_a_wallet_with_more_token_accounts_than_a_call_reads_keeps_no_other_waiting(
    bench: Bench, display: Display, clock: Clock
) -> None:
    lists = listed(LISTED)
    lists["value"] = [lists["value"][0] | {"pubkey": str(Keypair().pubkey())} for _ in range(101)]
    node = Hostile(bench, lists)
    await node.observe(display)
    clock.now += 2 * FRESH_S
    bench.wire.calls.clear()
    await node.observe(display)
    assert bench.wire.calls == {ACCOUNTS: 1, LISTS: 2}


@pytest.mark.parametrize("leaver", range(3))
async def test_who_leaves_stops_nothing_for_the_others(
    bench: Bench, display: Display, leaver: int
) -> None:
    gate = Gate(bench, ACCOUNTS)
    callers = [asyncio.create_task(display.wallet(bench.wallet.address)) for _ in range(3)]
    await gate.reached.wait()
    callers.pop(leaver).cancel()
    gate.opened.set()
    assert [each.lamports for each in await asyncio.gather(*callers)] == [10 * SOL] * 2
    assert bench.wire.calls[ACCOUNTS] == 1


async def test_a_caller_waits_no_longer_than_its_own_deadline(
    bench: Bench, display: Display
) -> None:
    gate = Gate(bench, ACCOUNTS)

    async def in_a_hurry() -> None:
        with within(0.02):
            await display.wallet(bench.wallet.address)

    patient = asyncio.create_task(display.wallet(bench.wallet.address))
    with pytest.raises(LedgerUnavailable, match="in time"):
        await in_a_hurry()
    gate.opened.set()
    assert (await patient).lamports == 10 * SOL


async def test_closing_tells_those_who_wait(bench: Bench, display: Display) -> None:
    gate = Gate(bench, ACCOUNTS)
    caller = asyncio.create_task(display.wallet(bench.wallet.address))
    await gate.reached.wait()
    await display.close()
    with pytest.raises(LedgerUnavailable, match="is stopping"):
        await caller


async def test_closing_before_a_read_begins_tells_those_who_wait(display: Display) -> None:
    callers = [asyncio.create_task(display.observed(str(Keypair().pubkey()))) for _ in range(3)]
    while not display._wanted:
        await asyncio.sleep(0)
    await display.close()
    for answer in await asyncio.gather(*callers, return_exceptions=True):
        assert isinstance(answer, LedgerUnavailable)


async def test_a_node_that_is_behind_does_not_take_back_what_was_shown(
    bench: Bench, display: Display, clock: Clock
) -> None:
    states = [(50, 7), (49, 5), (51, 9), (40, 5)]

    async def fault(_method: str, params: Sequence[Any]) -> Any:
        slot, lamports = states.pop(0)
        account = {"lamports": lamports, "owner": "1" * 32, "data": ["", "base64"]}
        return {"context": {"slot": slot}, "value": [account] * len(params[0])}

    bench.wire.faults[ACCOUNTS] = fault
    shown = []
    for pause in (0, 1, 1, BEHIND_S + 1):
        clock.now += pause
        shown.append((await display.wallet(bench.wallet.address)).lamports)
    # At the end, what was shown may have been a lie.
    assert shown == [7, 7, 9, 5]


@promise("token-units-of-now")
async def test_token_accounts_show_with_the_units_of_now(tokens: TokenBench, clock: Clock) -> None:
    bench, display = tokens.bench, Display(tokens.bench.ledger, "localnet", clock=clock)

    async def observed() -> dict[str, int]:
        clock.now += 2 * FRESH_S
        found = (await display.observed(tokens.address)).holdings
        assert sorted(map(repr, found)) == sorted(map(repr, await exact()))
        return {each.account: each.units for each in found}

    async def exact() -> Sequence[Any]:
        return (await display.wallet(tokens.address)).holdings

    mint = await tokens.mint(units=5, ours=False)
    assert await observed() == {tokens.account(mint): 5}
    await tokens.fund(mint, 2)
    bench.wire.calls.clear()
    clock.now += 2 * FRESH_S
    assert [each.units for each in (await display.observed(tokens.address)).holdings] == [7]
    assert bench.wire.calls == {ACCOUNTS: 1}
    # One that somebody else pays for, late; with anything the wallet pays for, at once.
    another = await tokens.another_account(mint)
    clock.now += 2 * FRESH_S
    assert len((await display.observed(tokens.address)).holdings) == 1
    await bench.transfer(Decimal(1))
    assert await observed() == {tokens.account(mint): 7, another: 0}
    late = await tokens.another_account(mint)
    clock.now += LISTED_S
    assert (await observed())[late] == 0
    await display.close()


async def test_the_slot_is_one_call_for_all_and_kept_for_a_slot(
    bench: Bench, display: Display, clock: Clock
) -> None:
    bench.wire.calls.clear()
    slots = set(await asyncio.gather(*(display.slot() for _ in range(100))))
    assert bench.wire.calls == {"getSlot": 1}
    await bench.localnet.advance_slots(5)
    assert {await display.slot()} == slots
    clock.now += FRESH_S + 0.001
    assert await display.slot() >= max(slots) + 5
    clock.now += FRESH_S + 0.001
    bench.wire.away("getSlot")
    with pytest.raises(LedgerUnavailable):
        await display.slot()
    del bench.wire.faults["getSlot"]
    await display.slot()


async def test_on_the_embedded_ledger_a_change_by_anybody_ends_what_is_shown(
    tmp_path: Any, clock: Clock
) -> None:
    async with open_stand(tmp_path) as stand:
        service = stand.service
        wallet = await service.wallets.create("shown")
        display = Display(service.ledger, "localnet", clock=clock)
        holdings = replace(service.holdings, display=display)
        for number in range(3):
            assert (await holdings.balances(wallet.id)).lamports == number * SOL
            assert (await holdings.observed(wallet.id, None)).lamports == number * SOL
            assert service.localnet is not None
            await service.localnet.call("requestAirdrop", [wallet.address, SOL])
        await display.close()


def test_what_decides_over_money_cannot_take_it() -> None:
    reads = {name for name in vars(ReadLedger) if not name.startswith("_")}
    assert reads - {"slot"}
    assert not reads & set(dir(Display)) - {"slot"}
