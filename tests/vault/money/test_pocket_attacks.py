"""Attacks on a pocket used in steps: one lying node, bytes that outlive their call, blocked
receivers, sweeps that cost more than the ceiling."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from solders.hash import Hash
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.message import MessageV0, to_bytes_versioned
from solders.pubkey import Pubkey
from solders.signature import Signature
from solders.system_program import AdvanceNonceAccountParams, advance_nonce_account
from solders.transaction import VersionedTransaction
from spl.token.constants import TOKEN_PROGRAM_ID
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    get_associated_token_address,
    transfer_checked,
)
from spl.token.models import TransferCheckedParams
from sqlalchemy import delete, insert
from tests.promises import promise
from tests.support.engine import UNLIMITED, Bench, open_bench
from tests.support.swaps import MAKER, USDC_POOL, ata, open_swaps, pay, pay_sol
from tests.support.tokens import RENT, open_tokens
from tests.vault.money.test_locks_postgres import KEY
from tests.vault.money.test_pocket_run import LAMPORTS, paying, row_of, use

from solward.database.tables import credentials
from solward.support.clock import now_ms
from solward.types.errors import SkillError, TransactionError, TransactionFailed
from solward.types.guardrail import Intent
from solward.vault.guardrails.rules import Policy, ScopeLimits
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.request import ADMIN, Actor
from solward.vault.store import spending
from solward.vault.store.pockets import PocketState


@promise("dead-funding-stays-counted")
async def test_one_node_that_calls_a_funding_dead_gives_nothing_back(bench: Bench) -> None:
    bench.wire.origin = "node.example"
    sent: list[Any] = []

    async def swallow(_method: str, params: Sequence[Any]) -> Any:
        sent.append(params)
        return "1" * 64

    async def far_ahead(method: str, params: Sequence[Any]) -> Any:
        answer = await bench.wire.direct(method, params)
        if sent and isinstance(answer, dict):
            answer["blockHeight"] += 1_000
        elif sent:
            answer += 1_000
        return answer

    bench.wire.faults["sendTransaction"] = swallow
    bench.wire.faults["getEpochInfo"] = far_ahead
    bench.wire.faults["getBlockHeight"] = far_ahead
    with pytest.raises(TransactionFailed, match="according to one RPC node only"):
        await use(bench, paying(Pubkey.from_string(bench.recipient), 1_000_000))
    assert await bench.reserved_units() == LAMPORTS
    row = await row_of(bench)
    # It may land yet, so somebody must look.
    assert row.state is PocketState.OPEN


@promise("blocked-address-found")
async def test_a_call_pays_no_blocked_address(tmp_path: Path) -> None:
    blocked = str(Keypair().pubkey())
    async with open_bench(tmp_path, blocked=frozenset({blocked})) as bench:
        with pytest.raises(TransactionFailed, match=f"address {blocked} is blocked"):
            await use(bench, paying(Pubkey.from_string(blocked), 1_000_000))
        assert await bench.lamports(blocked) == 0


async def test_a_call_pays_no_token_account_of_a_blocked_address(tmp_path: Path) -> None:
    blocked = str(MAKER.pubkey())
    async with open_swaps(tmp_path, blocked=frozenset({blocked})) as swaps:
        account = ata(MAKER.pubkey(), USDC_POOL.mint)
        with pytest.raises(TransactionFailed, match=f"address {blocked} is blocked"):
            await use(swaps.bench, paying(account, 1_000_000))


@promise("arrivals-are-the-wallets")
@pytest.mark.parametrize("right", ["owner", "delegate", "close"])
async def test_what_a_call_brings_must_be_nobody_elses_to_take(tmp_path: Path, right: str) -> None:
    """The thief pays the pocket 5 units and gets a right over its account in the same bytes."""
    async with open_tokens(tmp_path) as tokens:
        mint = Pubkey.from_string(await tokens.mint(ours=False))
        thief = tokens.stranger
        source = get_associated_token_address(thief.pubkey(), mint)
        opening = create_idempotent_associated_token_account(thief.pubkey(), thief.pubkey(), mint)
        await tokens.land([opening])
        await tokens.fund(str(mint), 5, account=str(source))

        async def build(address: str) -> bytes:
            pocket = Pubkey.from_string(address)
            account = get_associated_token_address(pocket, mint)
            sent = TransferCheckedParams(
                program_id=TOKEN_PROGRAM_ID, source=source, mint=mint, dest=account,
                owner=thief.pubkey(), amount=5, decimals=6,
            )  # fmt: skip
            rights = {
                "owner": b"\x06\x02\x01" + bytes(thief.pubkey()),
                "close": b"\x06\x03\x01" + bytes(thief.pubkey()),
                "delegate": b"\x04" + (2**60).to_bytes(8, "little"),
            }
            named = [AccountMeta(account, False, True), AccountMeta(pocket, True, False)]
            if right == "delegate":
                named.insert(1, AccountMeta(thief.pubkey(), False, False))
            instructions = [
                create_idempotent_associated_token_account(pocket, pocket, mint),
                transfer_checked(sent),
                Instruction(TOKEN_PROGRAM_ID, rights[right], named),
            ]
            latest = await tokens.bench.ledger.latest_blockhash()
            blockhash = Hash.from_string(latest.blockhash)
            message = MessageV0.try_compile(pocket, instructions, [], blockhash)
            signature = thief.sign_message(to_bytes_versioned(message))
            return bytes(VersionedTransaction.populate(message, [Signature.default(), signature]))

        with pytest.raises(TransactionFailed, match="would bring 0 units"):
            await use(tokens.bench, build, returns={str(mint): 5})


async def test_a_call_never_outlives_its_blockhash(bench: Bench) -> None:
    """Kept back and sent later, it would take what the position holds then."""
    nonce, stranger = Keypair().pubkey(), Keypair()

    async def build(address: str) -> Sequence[Instruction]:
        advance = advance_nonce_account(
            AdvanceNonceAccountParams(
                nonce_pubkey=nonce, authorized_pubkey=Pubkey.from_string(address)
            )
        )
        return [advance, pay_sol(Pubkey.from_string(address), stranger.pubkey(), 1_000_000)]

    with pytest.raises(TransactionFailed, match="durable nonce"):
        await use(bench, build)


@promise("freeze-lets-pockets-home")
async def test_a_key_that_is_revoked_after_the_funding_makes_no_call(bench: Bench) -> None:
    async with bench.database.write() as connection:
        await connection.execute(insert(credentials).values(KEY))
    sent: list[int] = []

    async def build(address: str) -> Sequence[Instruction]:
        async with bench.database.write() as connection:
            assert (await connection.execute(delete(credentials))).rowcount == 1
        sent.append(bench.wire.calls["sendTransaction"])
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

    with pytest.raises(TransactionFailed, match="Invalid API key"):
        await use(bench, build, Actor("key:k", api_key=KEY["hash"]))
    # The funding before it, and what brings it home after it.
    assert sent == [1]
    assert bench.wire.calls["sendTransaction"] == 2
    assert await bench.reserved_units() == 0


@promise("freeze-lets-pockets-home")
async def test_a_skill_whose_call_has_ended_makes_no_call(bench: Bench) -> None:
    ended = False

    def check() -> None:
        if ended:
            raise SkillError("over", "The skill's call is over")

    async def build(address: str) -> Sequence[Instruction]:
        nonlocal ended
        ended = True
        return [pay_sol(Pubkey.from_string(address), Keypair().pubkey(), 1_000_000)]

    with pytest.raises(TransactionFailed, match="The skill's call is over"):
        await use(bench, build, Actor("admin", checks=(check,)))
    assert await bench.reserved_units() == 0


async def test_a_service_that_dies_before_it_signs_a_sweep_still_knows_the_pocket(
    bench: Bench,
) -> None:

    async def build(_address: str) -> Sequence[Instruction]:
        bench.wire.away("simulateTransaction")
        raise RuntimeError

    with pytest.raises(TransactionFailed):
        await use(bench, build)
    row = await row_of(bench)
    assert row.state is PocketState.OPEN
    bench.wire.faults.clear()
    intent = Intent(type="other", wallet=bench.wallet.address)
    record = bench.engine._new_record(bench.wallet, ADMIN, intent)
    await bench.engine._runs.begin_sweep(record, ADMIN, row.address)
    options = EngineOptions(Policy(), UNLIMITED)
    later = Engine(bench.ledger, bench.database, bench.wallets, options)
    assert (await later.reconcile()).released == 1
    await later.close()
    row = await row_of(bench)
    assert row.state is PocketState.OPEN
    await bench.engine.sweep_pocket(bench.wallet.id, ADMIN, row.address)
    assert await bench.lamports(row.address) == 0


async def test_rent_that_a_call_pays_out_of_the_funding_counts(tmp_path: Path) -> None:
    """Into accounts of the wallet's own, for mints that a stranger may freeze: they keep it."""
    async with open_tokens(tmp_path) as tokens:
        bench = tokens.bench
        mints = [Pubkey.from_string(await tokens.mint(ours=False)) for _ in range(3)]

        async def build(address: str) -> Sequence[Instruction]:
            pocket = Pubkey.from_string(address)
            return [
                create_idempotent_associated_token_account(pocket, tokens.owner, mint)
                for mint in mints
            ]

        before = await tokens.lamports()
        await use(bench, build)
        left = before - await tokens.lamports()
        assert left > 3 * RENT
        async with bench.database.read() as connection:
            scope = f"wallet:{bench.wallet.id}"
            used = (await spending.usage(connection, [scope], [], now_ms()))[scope].units_last_day
        assert used[spending.SOL_ASSET] + used[spending.COSTS_ASSET] == left


class _Nothing(int):
    """Units that are neither more nor less than any other."""

    def __lt__(self, _other: object) -> bool:
        return False

    __gt__ = __lt__


class _Changing(Mapping[str, int]):
    """Amounts that are another thing each time they are read."""

    def __init__(self, mint: str, *units: int) -> None:
        self._mint, self._units = mint, list(units)

    def __getitem__(self, _mint: str) -> int:
        return self._units.pop(0) if len(self._units) > 1 else self._units[0]

    def __iter__(self) -> Iterator[str]:
        return iter([self._mint])

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize("units", [(1_000, 1_000, _Nothing()), (1, 1_000)])
async def test_amounts_that_answer_as_they_like_are_held_to_the_limit(
    tmp_path: Path, units: tuple[int, ...]
) -> None:
    async with open_tokens(tmp_path) as tokens:
        mint = await tokens.mint(units=1_000)
        bench, thief, at = tokens.bench, tokens.stranger.pubkey(), Pubkey.from_string(mint)
        await tokens.land([create_idempotent_associated_token_account(thief, thief, at)])

        async def build(address: str) -> Sequence[Instruction]:
            return [pay(at, 6, Pubkey.from_string(address), thief, 1_000)]

        limits = (("key:a", ScopeLimits(daily_tokens={mint: 1})),)
        with suppress(TransactionError):
            await use(bench, build, Actor("key:a", limits=limits), tokens=_Changing(mint, *units))
        assert await tokens.units(mint) == 1_000
