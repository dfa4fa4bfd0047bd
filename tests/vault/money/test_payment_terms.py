"""What a payment may be: its transfers and its memo, of a mint that nobody can take from, and no
more than the price of before without a person."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from solders.instruction import AccountMeta, Instruction
from solders.keypair import Keypair
from solders.pubkey import Pubkey
from spl.token.instructions import (
    create_idempotent_associated_token_account,
    freeze_account,
    get_associated_token_address,
)
from spl.token.models import FreezeAccountParams
from tests.promises import promise
from tests.support.tokens import TOKEN, TOKEN_2022
from tests.vault.money.handed_payments import FUNDS, PRICE, Shop, memo_of, open_shop

from solward.operations.sol import plan_transfer
from solward.support.clock import now_ms
from solward.types.errors import GuardrailBlocked, Held, InvalidRequest, TransactionFailed
from solward.types.payment import PaymentMode
from solward.types.record import HoldState, TransactionStatus, TransactionType
from solward.vault.guardrails.rules import ScopeLimits
from solward.vault.money.request import Actor, Draft
from solward.vault.store import holds, pockets
from solward.vault.store.pockets import PocketRow, PocketState

AGENT = Actor("admin-like")


async def refused_as_bad(shop: Shop, draft: Draft, text: str) -> None:
    with pytest.raises(InvalidRequest, match=text):
        await shop.bench.engine.hand_over(shop.bench.wallet.id, AGENT, draft)
    assert await shop.bench.history() == []


OTHER_TERMS: tuple[tuple[dict[str, Any], str], ...] = (
    ({"units": 2 * PRICE}, "move 10000 units, not 20000"),
    ({"units": 0}, "units of a payment must be"),
    ({"decimals": 9}, "must not have 6 decimals"),
    ({"source": str(Pubkey.default())}, "the payment's account and mint"),
    ({"asset": str(Pubkey.default())}, "the payment's account and mint"),
    ({"memo": "an order"}, "one memo instruction"),
    ({"fee_payer": None}, "a sponsored payment must have"),
    ({"fee_payer": "nobody"}, "feePayer must be a base58"),
    ({"mode": PaymentMode.UNSPONSORED}, "a sponsored payment must have"),
    ({"most_compute_units": 0}, "most_compute_units"),
    ({"most_unit_price": 0}, "most_unit_price"),
    ({"fingerprint": "no digest"}, "fingerprint"),
)


@promise("payment-matches-offer")
async def test_a_draft_that_is_not_its_payment_is_refused(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        draft = shop.draft()
        assert draft.payment is not None
        for changed, text in OTHER_TERMS:
            payment = replace(draft.payment, **changed)
            await refused_as_bad(shop, replace(draft, payment=payment), text)


@promise("payment-matches-offer")
async def test_a_payment_binds_the_wallet_to_nothing_but_its_transfer(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        draft = shop.draft()
        wallet, sponsor = shop.bench.wallet.address, shop.sponsor.pubkey()
        owner = Pubkey.from_string(wallet)
        [sol] = plan_transfer(wallet, to=str(sponsor), amount=1).instructions
        account = Pubkey.from_string(shop.tokens.account(shop.mint))
        approve = Instruction(
            TOKEN,
            b"\x04" + (5).to_bytes(8, "little"),
            [
                AccountMeta(account, False, True),
                AccountMeta(shop.seller.pubkey(), False, False),
                AccountMeta(owner, True, False),
            ],
        )
        opening = create_idempotent_associated_token_account(
            owner, shop.seller.pubkey(), Pubkey.from_string(shop.mint)
        )
        for more, text in (
            (sol, "sponsor's account"),
            (approve, "TransferChecked alone"),
            (opening, "no instruction of program"),
            (memo_of("x"), "the payment's memo alone"),
            (draft.instructions[0], "move 20000 units"),
        ):
            changed = replace(draft, instructions=(*draft.instructions, more))
            await refused_as_bad(shop, changed, text)
        [sol] = plan_transfer(wallet, to=str(Keypair().pubkey()), amount=1).instructions
        changed = replace(draft, instructions=(*draft.instructions, sol))
        await refused_as_bad(shop, changed, "no instruction of program")


@promise("own-wallet-never-sponsor", "sponsor-is-an-outsider")
async def test_the_sponsor_is_nobody_of_ours(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        with pytest.raises(InvalidRequest, match="must not be the wallet itself"):
            await shop.hand_over(fee_payer=shop.bench.wallet.address)
        other = await shop.bench.wallets.create("other")
        await shop.bench.localnet.call("requestAirdrop", [other.address, 10**9])
        with pytest.raises(GuardrailBlocked, match="is a wallet of this service") as caught:
            await shop.hand_over(fee_payer=other.address)
        assert caught.value.record.type == TransactionType.PAYMENT
        # A pocket's key is derived from a wallet's, and signs for that wallet alone.
        async with shop.bench.wallets.new_pocket(other.id) as pocket:
            row = PocketRow(
                other.id, pocket.counter, pocket.address, None, None, None, (), None,
                PocketState.OPEN, now_ms(),
            )  # fmt: skip
            async with shop.bench.database.write() as connection:
                await pockets.add(connection, row)
        await shop.bench.localnet.call("requestAirdrop", [pocket.address, 10**9])
        with pytest.raises(GuardrailBlocked, match="or a pocket of one"):
            await shop.hand_over(fee_payer=pocket.address)
        assert await shop.counted() == 0


@promise("sponsor-is-an-outsider")
async def test_a_sponsor_without_sol_is_named(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        with pytest.raises(TransactionFailed, match=r"the sponsor \w+ has too little SOL"):
            await shop.hand_over(fee_payer=str(Keypair().pubkey()))


@promise("risky-mint-pays-nothing")
async def test_a_seller_without_an_account_is_not_paid(tmp_path: Path) -> None:
    async with open_shop(tmp_path, seller_has_account=False) as shop:
        with pytest.raises(TransactionFailed, match="the payment does not open"):
            await shop.hand_over()
        assert await shop.counted() == 0


@promise("risky-mint-pays-nothing")
async def test_a_frozen_account_is_named(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        mint, stranger = Pubkey.from_string(shop.mint), shop.tokens.stranger.pubkey()
        at = get_associated_token_address(shop.seller.pubkey(), mint)
        params = FreezeAccountParams(
            program_id=TOKEN, account=at, mint=mint, authority=stranger, multi_signers=[]
        )
        await shop.tokens.land([freeze_account(params)])
        with pytest.raises(TransactionFailed, match=r"seller's token account .* is frozen"):
            await shop.hand_over()


# Instructions that come before a mint is initialised: a fee of 1% and of nothing, a delegate over
# every account, a hook without a program, and confidential transfers.
_KEY = bytes(Keypair().pubkey())
_EXTENSIONS = {
    "a transfer fee": (
        278,
        b"\x1a\x00" + b"\x01" + _KEY + b"\x01" + _KEY + (0).to_bytes(2, "little") + b"\xff" * 8,
    ),
    "a permanent delegate": (202, b"\x23" + _KEY),
    "a transfer hook": (234, b"\x24\x00" + _KEY + bytes(32)),
    "confidential transfers": (235, b"\x1b\x00" + _KEY + b"\x01" + bytes(32)),
}


@promise("risky-mint-pays-nothing")
@pytest.mark.parametrize("name", sorted(_EXTENSIONS))
async def test_a_mint_with_rights_over_what_others_hold_does_not_pay(
    tmp_path: Path, name: str
) -> None:
    space, data = _EXTENSIONS[name]
    async with open_shop(tmp_path) as shop:
        tokens = shop.tokens
        shop.mint = await tokens.mint(
            TOKEN_2022, units=FUNDS, ours=False, space=space, extensions=[data]
        )
        at = Pubkey.from_string(shop.mint)
        opening = create_idempotent_associated_token_account(
            tokens.stranger.pubkey(), shop.seller.pubkey(), at, TOKEN_2022
        )
        await tokens.land([opening])
        with pytest.raises((GuardrailBlocked, TransactionFailed), match=name):
            await shop.hand_over(program=TOKEN_2022)
        assert await shop.counted() == 0


@promise("zero-key-pays-none")
async def test_a_key_that_may_spend_nothing_signs_no_sponsored_payment_either(
    tmp_path: Path,
) -> None:
    actor = Actor("admin", limits=(("key:k", ScopeLimits(daily_lamports=0)),))
    async with open_shop(tmp_path) as shop:
        with pytest.raises(GuardrailBlocked, match="may spend 0 SOL cannot sign a transaction"):
            await shop.hand_over(actor=actor)


@promise("transactions-price-rise-asks-person")
async def test_a_price_that_rises_by_more_than_a_fifth_waits_for_a_person(tmp_path: Path) -> None:
    agent = Actor("wallet-owner")
    async with open_shop(tmp_path) as shop:
        await shop.hand_over(1_000, actor=agent)
        await shop.hand_over(1_200, actor=agent)
        # Another address, and the operator, are asked nothing.
        await shop.hand_over(5_000, actor=agent, url="https://api.example.com/other")
        with pytest.raises(Held, match="more than 20% above") as caught:
            await shop.hand_over(1_441, actor=agent)
        with pytest.raises(Held) as again:
            await shop.hand_over(1_441, actor=agent)
        assert again.value.hold.id == caught.value.hold.id
        assert await shop.counted() == 1_000 + 1_200 + 5_000
        async with shop.bench.database.write() as connection:
            moved = await holds.move(
                connection, caught.value.hold.id, (HoldState.HELD,), HoldState.APPROVED, by="admin"
            )
            assert moved is not None
        handed = await shop.hand_over(1_441, actor=agent)
        assert handed.record.status is TransactionStatus.PENDING
        # It is the last price now.
        await shop.hand_over(1_700, actor=agent)
        await shop.hand_over(9_000)


@promise("known-shape-one-simulation")
async def test_a_known_shape_costs_one_simulation_and_no_call_beside(tmp_path: Path) -> None:
    async with open_shop(tmp_path) as shop:
        shop.bench.engine.watcher.pace = 100
        await shop.hand_over(memo="a" * 32)
        shop.bench.wire.calls.clear()
        counted: list[str] = []
        shop.bench.database.on_transaction = counted.append
        await shop.hand_over(memo="b" * 32)
        assert dict(shop.bench.wire.calls) == {"getMultipleAccounts": 1, "simulateTransaction": 1}
        assert len(counted) <= 2, counted
