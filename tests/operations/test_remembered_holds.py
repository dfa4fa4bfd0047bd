"""What a held money call remembers: nothing while it waits, everything where it is carried out."""

from __future__ import annotations

from dataclasses import replace
from decimal import Decimal

import pytest
from solders.pubkey import Pubkey
from solders.system_program import TransferParams, transfer
from tests.promises import promise
from tests.support.approvals import KEY, Desk

from solward import LAMPORTS_PER_SOL, Intent, Put, TransactionStatus
from solward.types.errors import Held
from solward.types.record import HoldState
from solward.vault.money.request import Actor, Draft

PLUGIN = replace(KEY, via=("skill:buy", "plugin:acme"))


def remembering(*puts: Put, actor: Actor = PLUGIN) -> Actor:
    return replace(actor, remember=puts)


async def kept(desk: Desk) -> list[tuple[str, object, str | None]]:
    """Key, value and status of each entry."""
    entries = await desk.operations.entries.keep(
        "list", desk.bench.wallet.id, PLUGIN, prefix="", after=None, limit=100
    )
    return [(each.key, each.value, each.status and each.status.value) for each in entries]


@promise("approved-is-remembered")
async def test_it_is_remembered_when_it_is_carried_out(desk: Desk) -> None:
    value = {"period": 3, "price": Decimal("1.50")}
    hold = await desk.held(1, remembering(Put("bought", value, version=0)))
    assert await kept(desk) == []
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.EXECUTED
    assert await kept(desk) == [("bought", value, "confirmed")]
    history = await desk.operations.entries.keep("history", desk.bench.wallet.id, PLUGIN)
    assert [each.id for each in history] == [after.transaction_id]


async def test_asked_again_while_it_waits_it_is_the_same_hold(desk: Desk) -> None:
    first = await desk.held(1, remembering(Put("bought", {"at": 1}, version=0)))
    again = await desk.held(1, remembering(Put("bought", {"at": 2}, version=0)))
    assert again.id == first.id
    await desk.approvals.approve(first.id, "admin")
    assert await kept(desk) == [("bought", {"at": 1}, "confirmed")]


@promise("approved-is-remembered")
async def test_denied_it_is_not_remembered_and_is_in_the_history(desk: Desk) -> None:
    hold = await desk.held(1, remembering(Put("bought", 1)))
    await desk.approvals.deny(hold.id, "admin")
    assert await kept(desk) == []
    history = await desk.operations.entries.keep("history", desk.bench.wallet.id, PLUGIN)
    assert [each.status for each in history] == [TransactionStatus.BLOCKED]


@promise("approved-is-remembered")
async def test_what_was_bought_meanwhile_is_not_bought_by_an_approval(desk: Desk) -> None:
    hold = await desk.held(1, remembering(Put("bought", 1, version=0)))
    await desk.operations.entries.keep("put", desk.bench.wallet.id, PLUGIN, key="bought", value=2)
    after = await desk.approvals.approve(hold.id, "admin")
    assert after.state is HoldState.REFUSED
    assert await kept(desk) == [("bought", 2, None)]
    assert await desk.paid() == 0


async def test_what_only_its_caller_can_make_is_remembered_when_he_asks_again(desk: Desk) -> None:
    actor = remembering(Put("bought", 1, version=0))
    wallet = Pubkey.from_string(desk.bench.wallet.address)
    to = Pubkey.from_string(desk.bench.recipient)
    intent = Intent(
        type="transfer",
        wallet=str(wallet),
        lamports_out=LAMPORTS_PER_SOL,
        destinations=frozenset({str(to)}),
    )
    params = TransferParams(from_pubkey=wallet, to_pubkey=to, lamports=LAMPORTS_PER_SOL)
    draft = Draft(intent, (transfer(params),))
    with pytest.raises(Held) as held:
        await desk.bench.engine.execute(desk.bench.wallet.id, actor, draft)
    assert held.value.hold.repeats
    await desk.approvals.approve(held.value.hold.id, "admin")
    assert await kept(desk) == []
    await desk.bench.engine.execute(desk.bench.wallet.id, actor, draft)
    assert await kept(desk) == [("bought", 1, "confirmed")]
    assert await desk.paid() == LAMPORTS_PER_SOL
