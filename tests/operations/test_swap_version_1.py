"""Swaps in one transaction of version 1: every account in its bytes, and its bound to the unit."""

from __future__ import annotations

import base64
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from solders.account import Account
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, MessageV1
from solders.pubkey import Pubkey
from structlog.testing import capture_logs
from tests.operations.test_pocket_swap import only_pocket_is_empty, somebody_buys, wire_of_last
from tests.operations.test_swap import plan
from tests.promises import promise
from tests.support.engine import front_run
from tests.support.programs import ROUTES, hostile_accounts
from tests.support.swaps import (
    FEE,
    MAKER,
    RENT,
    SOL,
    USDC_POOL,
    SwapBench,
    market_and_makers,
    open_swaps,
    pay,
)

from solward.operations.swap import PocketSwap
from solward.solana.message import decode_transaction, fee_terms, lookup_tables
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import TOKEN_ACCOUNT_RENT
from solward.types.errors import LedgerRejected, TransactionFailed
from solward.types.guardrail import Intent
from solward.types.record import TransactionRecord, TransactionStatus
from solward.types.venue import SwapInstructions
from solward.vault.custody import Pocket
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.money.judge.building import (
    LARGEST,
    TooLarge,
    bytes_with_margin,
    compile_instructions,
    with_margin,
)
from solward.vault.money.pocket.instructions import PocketToken
from solward.vault.money.request import Draft, PocketUse

# What Solward's own instructions name beside a venue's, where SOL is sold: the wallet, System, the
# associated token program and the two mints.
OWN = 5
# The router, the market's eight accounts and its program.
ROUTED = 10
MOST = 64
FURTHER = [Keypair().pubkey() for _ in range(64)]
TABLE = Keypair().pubkey()
BLOCKHASH = str(Hash.default())


def _genesis() -> dict[Pubkey, Account]:
    state = ((1).to_bytes(4, "little") + b"\xff" * 8).ljust(56, b"\0")
    owner = Pubkey.from_string("AddressLookupTab1e1111111111111111111111111")
    table = Account(10**8, state + b"".join(map(bytes, FURTHER)), owner)
    return {**market_and_makers(), **hostile_accounts(), TABLE: table}


@asynccontextmanager
async def open_routes(tmp_path: Path, **options: Any) -> AsyncIterator[SwapBench]:
    async with open_swaps(tmp_path, genesis=_genesis, **options) as opened:
        yield opened


@pytest.fixture
async def swaps(tmp_path: Path) -> AsyncIterator[SwapBench]:
    async with open_routes(tmp_path) as opened:
        yield opened


def widened(swaps: SwapBench, route: int, shortest: int = 0, *, in_table: bool = True) -> None:
    """Have the venue's instruction name `route` accounts, its program among them; where it is asked
    for fewer, `shortest`, 0 for the same. The further ones are in a lookup table of its."""

    async def remake(made: SwapInstructions, _taker: str, _to: str) -> SwapInstructions:
        shorter = shortest and swaps.plugin.asked_accounts[-1] is not None
        more = FURTHER[: (shortest if shorter else route) - ROUTED]
        named = [*made.swap.accounts, AccountMeta(made.swap.program_id, False, False)]
        named += [AccountMeta(each, False, False) for each in more]
        tables = {str(TABLE): tuple(map(str, FURTHER))} if in_table else {}
        return replace(made, swap=ROUTES.call(made.swap.data, named), tables=tables)

    swaps.plugin.remake = remake


async def sold(swaps: SwapBench) -> TransactionRecord:
    """A sale of a SOL, which costs to the lamport what its bytes say, and leaves nothing."""
    before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    record = await swaps.swap("SOL", "USDC", 1)
    message = (await wire_of_last(swaps)).message
    bound = worst_case(message, swaps.address)
    assert (bound.lamports, bound.fee_lamports, bound.tokens) == (SOL, FEE, {})
    # Of the highest rent there may be. The pocket's account is closed again, the wallet's stays.
    assert bound.rent_lamports == 2 * TOKEN_ACCOUNT_RENT
    assert before - await swaps.lamports() == SOL + FEE + RENT
    assert await swaps.units(USDC_POOL.mint) > units
    assert record.status is TransactionStatus.CONFIRMED
    await only_pocket_is_empty(swaps)
    return record


@promise("swap-in-version-1", "swap-of-64-accounts")
@pytest.mark.parametrize("route", [ROUTED, 16, 24, 40, 56, MOST - OWN])
async def test_a_route_of_up_to_59_accounts_costs_what_its_bytes_say(
    swaps: SwapBench, route: int
) -> None:
    widened(swaps, route)
    await sold(swaps)
    transaction = await wire_of_last(swaps)
    message = transaction.message
    assert isinstance(message, MessageV1)
    assert len(message.account_keys) == route + OWN
    assert len(bytes(transaction)) <= 2_800
    assert all(transaction.verify_with_results())
    assert swaps.plugin.asked_accounts == [None]


@promise("swap-in-version-1", "long-route-shortened")
async def test_a_route_of_more_accounts_is_asked_for_over_fewer(swaps: SwapBench) -> None:
    widened(swaps, MOST - OWN + 1, shortest=40)
    await sold(swaps)
    message = (await wire_of_last(swaps)).message
    assert isinstance(message, MessageV1)
    assert len(message.account_keys) == 40 + OWN
    assert swaps.plugin.asked_accounts == [None, 40]


@promise("version-0-said")
async def test_a_route_that_is_too_long_falls_back_to_version_0_and_says_so(
    swaps: SwapBench,
) -> None:
    # A ledger locks no more than 64 accounts in any version, so that it fails there, too.
    widened(swaps, MOST - OWN + 1)
    with capture_logs() as logs, pytest.raises(TransactionFailed, match="TooManyAccountLocks"):
        await swaps.swap("SOL", "USDC", 1)
    said = [each for each in logs if each["event"] == "swap_in_version_0"]
    assert [(each["venue"], each["accounts"]) for each in said] == [("jupiter", MOST - OWN + 1)]
    assert swaps.plugin.asked_accounts == [None, 40, 30, 20]
    draft = await plan(swaps)
    assert draft.version == 0
    assert lookup_tables(compile_instructions(draft, BLOCKHASH, None, LARGEST).message) == (
        str(TABLE),
    )


@promise("version-0-said", "swap-minimum-asserted")
async def test_what_arrives_while_the_venue_is_asked_again_counts_for_no_swap(
    swaps: SwapBench,
) -> None:
    """The first answer is taken after all: what the wallet holds is read again before."""
    widened(swaps, MOST)
    wide = swaps.plugin.remake
    gift = pay(USDC_POOL.mint, 6, MAKER.pubkey(), swaps.user, 5_000_000)

    async def give(made: SwapInstructions, taker: str, to: str) -> SwapInstructions:
        if swaps.plugin.asked_accounts[-1] == 20:
            await swaps.bench.land([gift], MAKER)
        assert wide is not None
        return await wide(made, taker, to)

    swaps.plugin.remake = None
    await swaps.swap("SOL", "USDC", 1)
    held = await swaps.units(USDC_POOL.mint)
    swaps.plugin.remake = give
    draft = await plan(swaps)
    assert draft.version == 0
    assert draft.pocket.asserted[1] == held + 5_000_000 == await swaps.units(USDC_POOL.mint)


@promise("swap-minimum-asserted", "swap-in-version-1")
async def test_what_the_market_gives_less_when_it_lands_costs_the_fee_alone(
    swaps: SwapBench,
) -> None:
    await swaps.swap("SOL", "USDC", 1)
    widened(swaps, 56)
    before, units = await swaps.lamports(), await swaps.units(USDC_POOL.mint)
    async with front_run(swaps.bench, lambda: somebody_buys(swaps)):
        with pytest.raises(TransactionFailed, match="failed on the ledger"):
            await swaps.swap("SOL", "USDC", 1)
    assert isinstance((await wire_of_last(swaps)).message, MessageV1)
    assert await swaps.lamports() == before - FEE
    assert await swaps.units(USDC_POOL.mint) == units


@promise("version-by-setting")
async def test_version_0_and_version_1_are_built_where_they_are_set(tmp_path: Path) -> None:
    for version, kind in ((0, MessageV0), (1, MessageV1)):
        home = tmp_path / str(version)
        home.mkdir()
        async with open_routes(home, transaction_version=version) as swaps:
            widened(swaps, 24)
            await sold(swaps)
            assert isinstance((await wire_of_last(swaps)).message, kind)
            # Nothing had to be asked: the swap's own two.
            assert swaps.bench.wire.calls["simulateTransaction"] == (2 if version else 1)
    async with open_routes(tmp_path, transaction_version=1) as swaps:
        widened(swaps, MOST)
        with pytest.raises(TransactionFailed, match="does not fit into a transaction"):
            await swaps.swap("SOL", "USDC", 1)


@promise("version-by-setting")
async def test_a_transfer_stays_in_version_0(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)
    await swaps.bench.transfer(1)
    assert isinstance((await wire_of_last(swaps)).message, MessageV0)


@promise("version-by-setting")
async def test_a_cluster_before_version_1_gets_version_0_and_is_asked_once(
    tmp_path: Path,
) -> None:
    async with open_routes(tmp_path, takes_version_1=False) as swaps:
        widened(swaps, 24)
        calls = swaps.bench.wire.calls
        with capture_logs() as logs:
            await sold(swaps)
            asked = calls["simulateTransaction"]
            await swaps.swap("SOL", "USDC", 1)
        assert (asked, calls["simulateTransaction"]) == (2, 3)
        assert isinstance((await wire_of_last(swaps)).message, MessageV0)
        said = [each for each in logs if each["event"] == "transaction_version_found"]
        assert [each["version"] for each in said] == [0]


@promise("version-by-setting")
@pytest.mark.parametrize("how", ["error", "result"])
async def test_a_node_that_refuses_version_1_after_all_gets_version_0(
    swaps: SwapBench, how: str
) -> None:
    widened(swaps, 24)
    await sold(swaps)

    async def refuse(_method: str, params: Sequence[Any]) -> Any:
        if base64.b64decode(params[0])[0] != 0x81:
            return None
        if how == "error":
            raise LedgerRejected(-32602, "failed to deserialize the transaction")
        slot = await swaps.bench.ledger.slot()
        return {"context": {"slot": slot}, "value": {"err": "UnsupportedVersion"}}

    swaps.bench.wire.faults["simulateTransaction"] = refuse
    for bought, amount in (("USDC", 1), ("USDC", 2)):
        record = await swaps.swap("SOL", bought, amount)
        assert record.status is TransactionStatus.CONFIRMED
        assert isinstance((await wire_of_last(swaps)).message, MessageV0)
    # Remembered: the second one was not tried in version 1.
    assert await swaps.bench.engine.versions.for_swaps(swaps.address) == 0
    # It has no room there: nothing is sent, and the next request is planned for version 0.
    swaps.bench.engine.versions._cache_support(True, 60)
    widened(swaps, 56, shortest=12, in_table=False)
    sent = await swaps.sent()
    with pytest.raises(TransactionFailed, match="ask again for a transaction that fits"):
        await swaps.swap("SOL", "USDC", 3)
    assert await swaps.sent() == sent
    record = await swaps.swap("SOL", "USDC", 3)
    assert record.status is TransactionStatus.CONFIRMED


@promise("version-by-setting")
async def test_where_version_1_is_set_a_node_that_refuses_it_gets_no_other(
    tmp_path: Path,
) -> None:
    async with open_routes(tmp_path, takes_version_1=False, transaction_version=1) as swaps:
        with pytest.raises(TransactionFailed, match="refuses transactions of version 1"):
            await swaps.swap("SOL", "USDC", 1)
        assert await swaps.sent() == 0


@promise("version-1-limits")
async def test_limits_are_those_of_the_simulation_with_their_margins(swaps: SwapBench) -> None:
    widened(swaps, 24)
    record = await sold(swaps)
    message = (await wire_of_last(swaps)).message
    assert isinstance(message, MessageV1)
    assert record.compute_units is not None
    config = message.config
    assert config.compute_unit_limit == with_margin(record.compute_units)
    assert config.priority_fee is None
    wire = base64.b64encode(bytes(await wire_of_last(swaps))).decode()
    options = {"encoding": "base64", "sigVerify": False, "replaceRecentBlockhash": True}
    found = await swaps.bench.wire.direct("simulateTransaction", [wire, options])
    loaded = found["value"]["loadedAccountsDataSize"]
    # Accounts that it made are there now.
    assert 0 < loaded - 2 * (64 + 165) < config.loaded_accounts_data_size_limit
    assert config.loaded_accounts_data_size_limit < bytes_with_margin(loaded)
    assert loaded > 100_000


@promise("version-1-limits", "priority-fee-is-capped")
@pytest.mark.parametrize("most", [20_000, 1_000_000])
async def test_the_fee_is_a_total_that_the_bound_bounds(tmp_path: Path, most: int) -> None:
    policy = Policy(max_fee_lamports=most)
    async with open_routes(tmp_path, priority_fee=10**12, policy=policy) as swaps:
        widened(swaps, 24)
        before = await swaps.lamports()
        record = await swaps.swap("SOL", "USDC", 1)
        message = (await wire_of_last(swaps)).message
        assert isinstance(message, MessageV1)
        terms = fee_terms(message)
        assert most - 1 <= terms.lamports <= most
        assert message.config.priority_fee == terms.lamports - FEE == terms.bid_lamports
        assert record.fee_lamports == terms.lamports
        assert before - await swaps.lamports() == SOL + terms.lamports + RENT


def _calls(*sizes: int, data: int = 0) -> tuple[Instruction, ...]:
    """An instruction for each of `sizes`, which names one account so often."""
    named = AccountMeta(MAKER.pubkey(), False, True)
    return tuple(Instruction(USDC_POOL.mint, b"x" * data, [named] * size) for size in sizes)


@promise("swap-of-64-accounts")
@pytest.mark.parametrize(
    ("instructions", "text"),
    [
        (_calls(256), "more than 255 accounts"),
        (_calls(*[1] * 65), "more than 64 instructions"),
        (_calls(1, data=4_096), "do not fit into 4096 bytes"),
        (_calls(1, data=70_000), "do not fit into 4096 bytes"),
        (
            tuple(Instruction(each, b"", [AccountMeta(each, False, True)]) for each in FURTHER),
            "more than 64 accounts",
        ),
    ],
)
def test_what_version_1_has_no_room_for_is_too_large(
    instructions: tuple[Instruction, ...], text: str
) -> None:
    """A count beyond its byte would be cut, and the bytes those of another message."""
    draft = Draft(Intent(type="swap", wallet=str(TABLE)), instructions, version=1)
    with pytest.raises(TooLarge, match=text):
        compile_instructions(draft, BLOCKHASH, None)


@promise("swap-of-64-accounts")
@pytest.mark.parametrize("route", range(4, 60))
def test_a_route_of_4_to_59_accounts_fits_beside_a_sale_of_sol(route: int) -> None:
    """With as much data as a route over many pools has, and twice that."""
    wallet, pocket, program, mint = (str(each) for each in FURTHER[-4:])
    source = PocketToken(WRAPPED_SOL_MINT, TOKEN_PROGRAM, 9)
    target = PocketToken(mint, TOKEN_PROGRAM, 6)
    made = PocketSwap(wallet, pocket, source, target, amount=SOL, minimum=1, held=0)
    # Any route names these: the token program, who signs, and the two accounts.
    named = [TOKEN_PROGRAM, pocket, source.account(pocket), made.destination]
    metas = [AccountMeta(Pubkey.from_string(each), False, True) for each in named[: route - 1]]
    metas += [AccountMeta(each, False, True) for each in FURTHER[: route - 1 - len(metas)]]
    swap = Instruction(Pubkey.from_string(program), b"x" * 600, metas)
    pocket_use = PocketUse(Pocket("w", 1, pocket))
    draft = Draft(
        Intent(type="swap", wallet=wallet),
        made.instructions(swap, None),
        pocket=pocket_use,
        version=1,
    )
    transaction = compile_instructions(draft, BLOCKHASH, None, LARGEST)
    assert len(transaction.message.account_keys) == max(route, 5) + OWN
    assert len(bytes(transaction)) < 3_400
    assert decode_transaction(bytes(transaction)) == transaction


@promise("version-1-limits")
async def test_a_bid_is_lowered_to_what_the_ceiling_of_costs_leaves(tmp_path: Path) -> None:
    limits = ScopeLimits(daily_costs_lamports=2 * TOKEN_ACCOUNT_RENT + FEE + 5_000)
    async with open_routes(tmp_path, priority_fee=10**12, limits=limits) as swaps:
        widened(swaps, 24)
        record = await swaps.swap("SOL", "USDC", 1)
        assert record.status is TransactionStatus.CONFIRMED
        message = (await wire_of_last(swaps)).message
        assert isinstance(message, MessageV1)
        assert 4_999 <= (message.config.priority_fee or 0) <= 5_000


@promise("version-by-setting")
async def test_a_swap_for_version_0_stays_so_however_it_is_made_again(swaps: SwapBench) -> None:
    await swaps.swap("SOL", "USDC", 1)
    widened(swaps, 24)
    draft: Draft = await plan(swaps, input_token="USDC", output_token="BONK", amount=10)
    assert draft.version == 1
    plain = draft.in_version_0()
    assert plain.otherwise is not None
    for each in (plain, plain.otherwise):
        assert each.based_on is not None
        made = each.based_on(7)
        assert (each.version, made.version) == (0, 0)
        assert made.pocket is not None
        assert made.pocket.asserted == (draft.pocket.asserted[0], 7)
