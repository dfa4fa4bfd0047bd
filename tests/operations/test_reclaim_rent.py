"""Rent that comes back: exactly the excess, every empty account, and nothing of what is odd."""

from __future__ import annotations

import base64
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from solders.transaction import VersionedTransaction
from spl.token.instructions import (
    AuthorityType,
    freeze_account,
    get_associated_token_address,
    set_authority,
    transfer_checked,
)
from spl.token.models import FreezeAccountParams, SetAuthorityParams, TransferCheckedParams
from tests.operations.test_token_transfer import mint_with
from tests.promises import promise
from tests.support.approvals import KEY, Desk, guardrails
from tests.support.engine import by_hand
from tests.support.grants import grant, limit
from tests.support.tokens import (
    FEE,
    RENT,
    RENT_2022,
    SOL,
    TOKEN,
    TOKEN_2022,
    TokenBench,
    open_tokens,
    tokens,
)
from tests.vault.money.test_closed_accounts import in_window, open_own, wrap
from tests.vault.money.test_reconcile import Died, die_at, restarted

from solward.client.wallets import until_done
from solward.operations import sol
from solward.operations.declared import MOST_AT_ONCE
from solward.operations.policies.changes import replace_set
from solward.operations.sol import ReclaimableRent, read_reclaimable
from solward.solana.programs import WRAPPED_SOL_MINT
from solward.solana.protocol import LOCALNET_RENT_PER_BYTE, MOST_RENT_PER_BYTE, rent_of
from solward.support.durations import DAY_MS
from solward.types.errors import GuardrailBlocked, Held
from solward.types.guardrail import Hold as Ask
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.money import lamports_to_sol
from solward.types.record import HoldState, TransactionRecord, TransactionStatus
from solward.vault.grants.model import NewRecipient, Window
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.ledger.client import Ledger
from solward.vault.money.request import ADMIN, Actor
from solward.vault.money.steps import Step, no_hook

__all__ = ["tokens"]

# Of an account of 165 bytes, while it was the most.
RENT_BEFORE = rent_of(165, MOST_RENT_PER_BYTE)


async def reclaim_rent(
    tokens: TokenBench, actor: Actor = ADMIN, **params: Any
) -> TransactionRecord:
    return await tokens.operations.perform("reclaim_rent", tokens.wallet, actor, params)


async def there(tokens: TokenBench) -> ReclaimableRent:
    return await read_reclaimable(tokens.bench.ledger, tokens.address)


async def gift(tokens: TokenBench, account: str, lamports: int) -> None:
    """A stranger sends SOL to a token account."""
    to = Pubkey.from_string(account)
    given = TransferParams(from_pubkey=tokens.stranger.pubkey(), to_pubkey=to, lamports=lamports)
    await tokens.land([transfer(given)])


async def set_rent(tokens: TokenBench, per_byte: int) -> None:
    await tokens.bench.localnet.set_rent(per_byte)


@promise("reclaim-gives-the-excess")
async def test_ten_accounts_of_a_higher_rent_give_back_exactly_the_excess(
    tokens: TokenBench,
) -> None:
    await set_rent(tokens, MOST_RENT_PER_BYTE)
    mints = [await tokens.mint(units=5) for _ in range(10)]
    await set_rent(tokens, LOCALNET_RENT_PER_BYTE)
    before, excess = await tokens.lamports(), 10 * (RENT_BEFORE - RENT)
    assert (await there(tokens)).to_json()["reclaimable"] == lamports_to_sol(excess)
    record = await reclaim_rent(tokens)
    assert (record.type, record.status) == ("reclaim_rent", TransactionStatus.CONFIRMED)
    assert record.details == {
        "reclaimed": lamports_to_sol(excess), "closed": 0, "reduced": 10, "left": 0,
    }  # fmt: skip
    assert await tokens.lamports() == before + excess - (record.fee_lamports or 0)
    for mint in mints:
        assert await tokens.bench.lamports(tokens.account(mint)) == RENT
        assert await tokens.units(mint) == 5
    assert await in_window(tokens.bench) == record.fee_lamports
    # The second time there is nothing, and nothing is sent.
    assert await there(tokens) == ReclaimableRent((), ())
    await tokens.refuses(reclaim_rent(tokens), "^There is no rent to reclaim$")


@promise("reclaim-gives-the-excess")
@pytest.mark.parametrize("step", [Step.RESERVED, Step.SIGNED, Step.WRITTEN_AHEAD, Step.SENT])
async def test_a_kill_between_two_of_its_transactions_loses_nothing(
    tokens: TokenBench, step: Step, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sol, "MOST_AT_ONCE", 2)
    await set_rent(tokens, MOST_RENT_PER_BYTE)
    mints = [await tokens.mint(units=1) for _ in range(5)]
    await set_rent(tokens, LOCALNET_RENT_PER_BYTE)
    bench, before = tokens.bench, await tokens.lamports()
    assert (await reclaim_rent(tokens)).details["left"] == 3
    draft = await sol.plan_reclaim_rent(tokens.address, ledger=bench.ledger, take="all")
    parts = (bench.engine, bench.engine._signing, bench.engine.sender)
    for part in parts:
        part._hook = die_at(step)
    with pytest.raises(Died):
        await bench.engine.execute(bench.wallet.id, ADMIN, draft)
    for part in parts:
        part._hook = no_hook
    await restarted(bench)
    while (await there(tokens)).accounts:
        await reclaim_rent(tokens)
    records = await bench.history()
    fees = sum(each.fee_lamports or 0 for each in records if each.status == "confirmed")
    assert await tokens.lamports() == before + 5 * (RENT_BEFORE - RENT) - fees
    assert [each.status for each in records].count(TransactionStatus.CONFIRMED) == 3
    assert {await bench.lamports(tokens.account(mint)) for mint in mints} == {RENT}


@promise("reclaim-gives-the-excess")
async def test_both_programs_accounts_fit_one_transaction_and_give_the_most_first(
    tokens: TokenBench,
) -> None:
    half = MOST_AT_ONCE // 2
    for number in range(half + 1):
        await tokens.fund(await tokens.mint(), 0)
        mint = await tokens.mint(TOKEN_2022, units=1)
        await gift(tokens, tokens.account(mint, TOKEN_2022), 10_000 + number)
    before = await tokens.lamports()
    first = await reclaim_rent(tokens)
    assert {name: first.details[name] for name in ("closed", "reduced", "left")} == {
        "closed": half + 1, "reduced": half - 1, "left": 2,
    }  # fmt: skip
    second = await reclaim_rent(tokens)
    assert (second.details["reclaimed"], second.details["left"]) == (Decimal("0.000020001"), 0)
    gained = (half + 1) * RENT + sum(10_000 + number for number in range(half + 1))
    fees = (first.fee_lamports or 0) + (second.fee_lamports or 0)
    assert await tokens.lamports() == before + gained - fees


@promise("reclaim-leaves-what-is-odd")
async def test_an_odd_account_stops_no_other_and_is_named(tokens: TokenBench) -> None:
    plain, foreign, frozen = [await tokens.mint(ours=False) for _ in range(3)]
    for mint in (plain, foreign, frozen):
        await tokens.fund(mint, 0)
    at = {mint: Pubkey.from_string(tokens.account(mint)) for mint in (plain, foreign, frozen)}
    thief = tokens.stranger.pubkey()
    closer = SetAuthorityParams(
        program_id=TOKEN, account=at[foreign], authority=AuthorityType.CLOSE_ACCOUNT,
        current_authority=tokens.owner, new_authority=thief,
    )  # fmt: skip
    await by_hand(tokens.bench, set_authority(closer))
    freeze = FreezeAccountParams(
        program_id=TOKEN, account=at[frozen], mint=Pubkey.from_string(frozen), authority=thief
    )
    await tokens.land([freeze_account(freeze)])
    taxed, withheld = await withheld_fee(tokens)
    released = await released_account(tokens)
    await wrap(tokens)
    await gift(tokens, str(at[foreign]), 7_000)
    found = await there(tokens)
    assert {each.account: (each.lamports, each.closes) for each in found.accounts} == {
        str(at[plain]): (RENT, True),
        str(at[frozen]): (RENT, True),
        str(at[foreign]): (7_000, False),
    }
    reasons = {each.account: each.reason for each in found.kept}
    assert reasons == {
        str(at[foreign]): f"only {thief} may close the account",
        withheld: "the account holds transfer fees that were withheld for the mint",
        released: "its mint freezes every new account, and this account was thawed",
    }
    before = await tokens.lamports()
    record = await reclaim_rent(tokens)
    assert record.status is TransactionStatus.CONFIRMED
    assert await tokens.lamports() == before + 2 * RENT + 7_000 - (record.fee_lamports or 0)
    assert taxed
    text = "^There is no rent to reclaim; .* stays: "
    await tokens.refuses(reclaim_rent(tokens), text)


async def withheld_fee(tokens: TokenBench) -> tuple[str, str]:
    """A mint with a fee, and the wallet's account of it with nothing but a withheld fee."""
    fee = b"\x1a\x00" + bytes(2) + (1_000).to_bytes(2, "little") + (10**9).to_bytes(8, "little")
    mint = await mint_with(tokens, (fee, 108))
    at, theirs = Pubkey.from_string(mint), tokens.stranger.pubkey()
    source = get_associated_token_address(theirs, at, TOKEN_2022)
    opened = tokens.account(mint, TOKEN_2022)
    await tokens.fund(mint, 0, TOKEN_2022)
    await tokens.operations.perform(
        "mint_supply", tokens.wallet, ADMIN, {"mint": mint, "amount": Decimal("0.0001")}
    )
    body = {"mint": mint, "to": str(theirs), "amount": Decimal("0.0001")}
    await tokens.operations.perform("transfer_token", tokens.wallet, ADMIN, body)
    back = TransferCheckedParams(
        program_id=TOKEN_2022, source=source, mint=at, dest=Pubkey.from_string(opened),
        owner=theirs, amount=50, decimals=6,
    )  # fmt: skip
    await tokens.land([transfer_checked(back)])
    burned = {"mint": mint, "amount": Decimal("0.000045")}
    await tokens.operations.perform("burn", tokens.wallet, ADMIN, burned)
    return mint, opened


async def released_account(tokens: TokenBench) -> str:
    """Of a mint whose new accounts are frozen, one that its issuer released."""
    mint = await tokens.mint(TOKEN_2022, ours=False, space=166 + 5, extensions=[b"\x1c\x00\x02"])
    await tokens.fund(mint, 0, TOKEN_2022)
    account = tokens.account(mint, TOKEN_2022)
    metas = [
        AccountMeta(Pubkey.from_string(account), False, True),
        AccountMeta(Pubkey.from_string(mint), False, False),
        AccountMeta(tokens.stranger.pubkey(), True, False),
    ]
    await tokens.land([Instruction(TOKEN_2022, b"\x0b", metas)])
    return account


@promise("reclaim-leaves-what-is-odd")
async def test_wrapped_sol_keeps_its_rent_until_it_is_unwrapped(tokens: TokenBench) -> None:
    await set_rent(tokens, MOST_RENT_PER_BYTE)
    await wrap(tokens)
    account = tokens.account(WRAPPED_SOL_MINT)
    await set_rent(tokens, LOCALNET_RENT_PER_BYTE)
    found = await there(tokens)
    assert found.accounts == ()
    assert [(each.account, each.reason) for each in found.kept] == [
        (account, "wrapped SOL gives its rent back when it is unwrapped")
    ]
    await tokens.refuses(reclaim_rent(tokens), "wrapped SOL gives its rent back")


@promise("reclaim-gives-the-excess")
async def test_empty_accounts_of_wrapped_sol_and_with_a_delegate_are_closed(
    tokens: TokenBench,
) -> None:
    await open_own(tokens, WRAPPED_SOL_MINT)
    # Sent to it, and never synced: it is the wallet's with the rest.
    await gift(tokens, tokens.account(WRAPPED_SOL_MINT), 5_000_000)
    lent = await tokens.mint(ours=False)
    await tokens.fund(lent, 0)
    metas = [
        AccountMeta(Pubkey.from_string(tokens.account(lent)), False, True),
        AccountMeta(tokens.stranger.pubkey(), False, False),
        AccountMeta(tokens.owner, True, False),
    ]
    approve = Instruction(TOKEN, b"\x04" + (7).to_bytes(8, "little"), metas)
    await by_hand(tokens.bench, approve)
    before, record = await tokens.lamports(), await reclaim_rent(tokens)
    assert record.details["closed"] == 2
    assert await tokens.lamports() == before + 2 * RENT + 5_000_000 - (record.fee_lamports or 0)


async def test_only_the_excess_or_only_empty_accounts_are_taken(tokens: TokenBench) -> None:
    empty, held = await tokens.mint(), await tokens.mint(units=1)
    await tokens.fund(empty, 0)
    await gift(tokens, tokens.account(held), 9_000)
    assert (await reclaim_rent(tokens, take="excess")).details["reclaimed"] == Decimal("0.000009")
    await tokens.refuses(reclaim_rent(tokens, take="excess"), "^There is no rent to reclaim$")
    assert (await reclaim_rent(tokens, take="empty")).details["closed"] == 1
    await tokens.refuses(
        reclaim_rent(tokens, take="none"), "^take must be one of all, excess, empty"
    )


@promise("reclaim-gives-the-excess")
async def test_a_record_says_what_came_whatever_a_node_says_of_the_rent(
    tokens: TokenBench,
) -> None:
    mint = await tokens.mint(units=1)
    await gift(tokens, tokens.account(mint), 9_000)

    async def lower(_method: str, _params: Sequence[Any]) -> int:
        return 1

    tokens.bench.wire.faults["getMinimumBalanceForRentExemption"] = lower
    tokens.bench.ledger = Ledger(tokens.bench.wire)
    assert (await there(tokens)).accounts[0].lamports == RENT + 9_000 - 1
    before, record = await tokens.lamports(), await reclaim_rent(tokens)
    assert record.details["reclaimed"] == Decimal("0.000009")
    assert await tokens.lamports() == before + 9_000 - (record.fee_lamports or 0)


async def test_where_the_first_token_program_knows_no_excess_the_rest_comes_back(
    tokens: TokenBench,
) -> None:
    empty, held = await tokens.mint(), await tokens.mint(units=1)
    await tokens.fund(empty, 0)
    await gift(tokens, tokens.account(held), 9_000)
    wire = tokens.bench.wire

    async def older(method: str, params: Sequence[Any]) -> Any:
        answer = await wire.direct(method, params)
        sent = VersionedTransaction.from_bytes(base64.b64decode(params[0]))
        if any(bytes(each.data) == b"\x26" for each in sent.message.instructions):
            answer["value"] |= {"err": {"InstructionError": [0, {"Custom": 12}]}, "logs": []}
        return answer

    wire.faults["simulateTransaction"] = older
    record = await reclaim_rent(tokens)
    assert {name: record.details[name] for name in ("closed", "reduced", "left")} == {
        "closed": 1, "reduced": 0, "left": 0,
    }  # fmt: skip
    assert record.details["reclaimed"] == lamports_to_sol(RENT)


async def test_no_more_than_the_fee_is_not_worth_it(tokens: TokenBench) -> None:
    mint = await tokens.mint(units=1)
    await gift(tokens, tokens.account(mint), FEE)
    await tokens.refuses(reclaim_rent(tokens), "beyond the network's fee, only 5000 lamports")


@promise("close-credited-once", "reclaim-is-an-operation")
async def test_what_it_closes_is_credited_and_its_limits_hold(tmp_path: Path) -> None:
    async with open_tokens(tmp_path, limits=ScopeLimits(max_tx_per_minute=2)) as opened:
        await open_own(opened, await opened.mint())
        assert await in_window(opened.bench) == FEE + RENT
        once = replace(ADMIN, action_key="k")
        first = await reclaim_rent(opened, once)
        assert (await reclaim_rent(opened, once)).id == first.id
        assert await in_window(opened.bench) == 2 * FEE
        await opened.fund(await opened.mint(TOKEN_2022), 0, TOKEN_2022)
        with pytest.raises(GuardrailBlocked, match="2 of the 2 allowed"):
            await reclaim_rent(opened)
        assert (await there(opened)).accounts[0].lamports == RENT_2022


@promise("reclaim-is-an-operation")
async def test_a_key_that_may_spend_nothing_reclaims_nothing(tokens: TokenBench) -> None:
    await tokens.fund(await tokens.mint(), 0)
    nothing = Actor("key:k", limits=(("key:k", ScopeLimits(daily_lamports=0)),))
    with pytest.raises(GuardrailBlocked, match="cannot sign a transaction"):
        await reclaim_rent(tokens, nothing)
    assert tokens.sent() == 0


@promise("reclaim-is-an-operation")
@pytest.mark.parametrize("changes", [False, True])
async def test_a_guardrail_holds_it_and_it_goes_on_as_it_was_shown(
    tmp_path: Path, changes: bool
) -> None:
    def asks(_intent: Intent, _effects: TransactionEffects) -> Ask:
        return Ask("somebody is to look")

    async with open_tokens(tmp_path, plugin_guardrails=guardrails(asks)) as opened:
        await opened.fund(await opened.mint(), 0)
        desk = Desk(opened.bench, opened.operations)
        with pytest.raises(Held) as held:
            await reclaim_rent(opened, KEY)
        hold = held.value.hold
        assert "take back 0.00148844 SOL of rent, by closing 1 empty token acc" in hold.sentence
        assert hold.sentence.endswith("somebody is to look")
        assert opened.sent() == 0
        if changes:
            await opened.fund(await opened.mint(), 0)
        before = await opened.lamports()
        after = await desk.approvals.approve(hold.id, "admin")
        [record] = await opened.bench.history()
        assert after.transaction_id == record.id
        if changes:
            assert (after.state, opened.sent()) == (HoldState.REFUSED, 0)
            assert "reclaimed is 0.00297688 now, and 0.00148844 was shown" in str(record.error)
            return
        assert (after.state, record.status) == (HoldState.EXECUTED, TransactionStatus.CONFIRMED)
        assert await opened.lamports() == before + RENT - FEE
        assert (await there(opened)).accounts == ()


@promise("no-takings-still-costs")
async def test_no_grant_holds_what_takes_no_asset_and_pays_nobody(tokens: TokenBench) -> None:
    """However little a person is to be asked about: its costs and its slot count all the same."""
    mint = await tokens.mint()
    await tokens.fund(mint, 0)
    asks = grant(
        KEY.principal,
        **{asset: limit(asset, 2 * SOL, hold=0) for asset in ("SOL", mint)},
        new=NewRecipient.HOLD,
        costs=FEE,
        rates=(Window(DAY_MS, 1),),
    )
    await replace_set(tokens.bench.database, KEY.principal, [asks])
    with pytest.raises(Held):
        await tokens.operations.perform(
            "transfer", tokens.wallet, KEY, {"to": tokens.bench.recipient, "amount": 1}
        )
    assert (await reclaim_rent(tokens, KEY)).status is TransactionStatus.CONFIRMED
    await tokens.fund(await tokens.mint(), 0)
    with pytest.raises(GuardrailBlocked, match="transaction"):
        await reclaim_rent(tokens, KEY)


async def test_it_is_repeated_only_while_less_is_left() -> None:
    """A node that lists another number of accounts each time has no fee paid for ever."""
    left = iter([3, 2, 3, 2])

    async def call(_wallet: str, **_fields: Any) -> Any:
        return SimpleNamespace(status="confirmed", details={"left": next(left)})

    assert [each.details["left"] for each in await until_done(call, "w")] == [3, 2, 3]


async def test_no_bid_costs_more_than_what_comes_back(tmp_path: Path) -> None:
    async with open_tokens(tmp_path, priority_fee="auto") as opened:
        await gift(opened, opened.account(await opened.mint(units=5)), 6_000)

        async def dear(_method: str, _params: Sequence[Any]) -> Any:
            return [{"slot": slot, "prioritizationFee": 10**12} for slot in range(150)]

        opened.bench.wire.faults["getRecentPrioritizationFees"] = dear
        assert (await reclaim_rent(opened)).fee_lamports == FEE
