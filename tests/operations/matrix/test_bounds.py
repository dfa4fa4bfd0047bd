"""Whatever a skill or a route signs is bounded by its bytes, and the bound is reserved."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any

import pytest
import pytest_asyncio
from solders.transaction import VersionedTransaction
from sqlalchemy import select
from tests.operations.matrix.cases import ROWS
from tests.operations.matrix.row import Params, Route, Spends
from tests.operations.matrix.stand import SOL, Stand, by_rest, by_skill, new_stand
from tests.promises import promise
from tests.support.services import Api, serving_api

from solward.database.tables import attempts
from solward.operations.declared import OPERATIONS
from solward.solana.programs import TOKEN_PROGRAM, WRAPPED_SOL_MINT
from solward.solana.tokens import associated_address
from solward.types.guardrail import Line, Operation
from solward.types.record import TransactionType
from solward.vault.guardrails.worst_case import worst_case
from solward.vault.money.reserve import reservation
from solward.vault.store import pockets
from solward.vault.store.spending import COSTS_ASSET, SOL_ASSET

pytestmark = pytest.mark.asyncio(loop_scope="module")


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    home = tmp_path_factory.mktemp("bounds") / "home"
    async with serving_api(home, demo=True, max_sol_per_transaction=5) as made:
        yield made


SPENDING: dict[str, Any] = {
    skill: (row.ready, row.route.path)
    for skill, row in ROWS.items()
    if isinstance(row.does, Spends) and isinstance(row.route, Route)
}


def reserved_of(patch: pytest.MonkeyPatch) -> dict[str, Mapping[str, int]]:
    """Units by record as they are reserved, before anything is given back."""
    seen: dict[str, Mapping[str, int]] = {}
    reserve = reservation.Reserver.reserve

    async def noted(self: Any, *args: Any, **named: Any) -> reservation.Reservation:
        made = await reserve(self, *args, **named)
        seen[made.record.id] = made.units
        return made

    patch.setattr(reservation.Reserver, "reserve", noted)
    return seen


async def sign_with(stand: Stand, record_id: str) -> list[VersionedTransaction]:
    query = select(attempts.c.wire).where(attempts.c.transaction_id == record_id)
    async with stand.api.service.database.read() as connection:
        wires = (await connection.execute(query)).scalars().all()
    return [VersionedTransaction.from_bytes(bytes(wire)) for wire in wires]


async def lines_of(asked: str, stand: Stand, params: Params, record: Any) -> list[Line]:
    """What each operation takes, in the words of grants; what is not here takes nothing."""
    details, wallet = record["details"], stand.address
    if asked == "transfer":
        return [Line(Operation.TRANSFER, SOL_ASSET, SOL // 4, params["to"], decimals=9)]
    if asked == "swap":
        async with stand.api.service.database.read() as connection:
            (pocket,) = await pockets.of_wallet(connection, stand.id)
        account = associated_address(pocket.address, WRAPPED_SOL_MINT, TOKEN_PROGRAM)
        to = account, pocket.address
        return [Line(Operation.TRANSFER, SOL_ASSET, SOL // 2, *to, decimals=9)]
    if asked == "wrap_sol":
        account = details["account"]
        return [Line(Operation.WRAP, SOL_ASSET, SOL // 2, account, wallet, decimals=9)]
    if asked == "stake_sol":
        account = details["stakeAccount"]
        return [Line(Operation.STAKE, SOL_ASSET, 5 * SOL // 4, account, decimals=9)]
    if asked in ("launch_token", "mint_supply", "revoke_mint_authority"):
        return [Line(Operation.LAUNCH, details["mint"], 0)]
    if asked in ("burn_tokens", "transfer_token"):
        mint = details["mint"]
        program = (await stand.mint(mint)).program
        if asked == "burn_tokens":
            return [Line(Operation.BURN, mint, 2_000, decimals=2, program=program)]
        to = details["account"], params["to"]
        return [Line(Operation.TRANSFER, mint, 500, *to, decimals=2, program=program)]
    return []


CELLS = [
    (asked, way)
    for asked in SPENDING
    for way in ("rest", "skill")
    if asked in ROWS or way == "rest"
]


@promise("signed-is-bounded")
@pytest.mark.parametrize(("asked", "way"), CELLS)
async def test_what_is_signed_is_bounded_and_its_bound_is_reserved(
    api: Api, monkeypatch: pytest.MonkeyPatch, asked: str, way: str
) -> None:
    ready, path = SPENDING[asked]
    stand = await new_stand(api)
    params = await ready(stand)
    reserved = reserved_of(monkeypatch)
    before = await stand.lamports()

    said = await (
        by_rest(stand, "POST", path, params) if way == "rest" else by_skill(stand, asked, params)
    )

    assert said.answer is not None
    assert said.answer.status == 200, said.text
    record = (await stand.records())[0]
    assert record["status"] == "confirmed"
    signed = await sign_with(stand, record["id"])
    if record["type"] == TransactionType.AIRDROP:
        # The faucet signs; nothing of the wallet's can leave.
        assert signed == []
        assert not any(reserved[record["id"]].values())
        return
    [transaction] = signed
    bound = worst_case(transaction.message, stand.address)
    counted = {asset: units for asset, units in reserved[record["id"]].items() if units}
    assert counted == {
        asset: units
        for asset, units in {
            SOL_ASSET: bound.lamports,
            COSTS_ASSET: bound.fee_lamports + bound.rent_lamports,
            **bound.tokens,
        }.items()
        if units
    }
    assert list(bound.lines) == await lines_of(asked, stand, params, record)
    left = before - await stand.lamports()
    assert left <= bound.lamports + bound.fee_lamports + bound.rent_lamports


async def test_every_spending_skill_and_every_declared_operation_is_here(api: Api) -> None:
    types = {ROWS[skill].does.type for skill in SPENDING if skill in ROWS}  # type: ignore[union-attr]
    declared = {operation.type for operation in OPERATIONS.values()}
    # Rent comes back by an operation that is no skill.
    assert declared - types == {TransactionType.RECLAIM_RENT}
    assert types <= declared
    assert len(ROWS) == 18
