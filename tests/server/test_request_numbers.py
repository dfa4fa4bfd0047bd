"""Every number of every money route: what no ledger can hold is 400, named, and leaves nothing."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass
from typing import Any

import pytest
import pytest_asyncio
from sqlalchemy import func, select
from tests.promises import promise
from tests.support.services import STRANGER, Api, serving_api

from solward.database.tables import attempts, reservations, transactions
from solward.types.skill import Effects

# One service for all: nothing here changes what another test sees.
pytestmark = pytest.mark.asyncio(loop_scope="module")

MINT = "the wallet's own mint"
# No number of Solana's: not even a type of JSON's that is one.
NEVER = ("-1", "-0.5", "-1e-30", "true", "false", '"1"', '"NaN"', '""', "[1]", '{"amount": 1}',
         "1e400", "-1e999999999", "1e999999999")  # fmt: skip
NO_JSON = ("NaN", "Infinity", "-Infinity", "1.", ".5", "+1", "0x10", "1_000")
# An amount is positive; with 9 decimals and with 6 these have one too many, or pass 2^64 - 1 units.
AMOUNT = ("0", "0.0", "0e5", "-0", "1e-400", "1e-999999999", "0.12345678901", "1e-10",
          "18446744073.709551616", "18446744073709551616",
          "340282366920938463463374607431768211456")  # fmt: skip
WHOLE = ("0.5", "1.000000001", "1e-1", "18446744073709551616")


@dataclass(frozen=True)
class Number:
    """One number field: where it is sent, with what beside it, and what it may not be."""

    path: str
    skill: str
    field: str
    beside: Mapping[str, Any]
    never: tuple[str, ...]

    @property
    def id(self) -> str:
        return f"{self.path}.{self.field}"


SELL = {"inputToken": "SOL", "outputToken": "USDC"}
NAMED = {"name": "Coin", "symbol": "COIN"}
NUMBERS = (
    Number("transfer", "transfer", "amount", {"to": STRANGER}, AMOUNT),
    Number("swap", "swap", "amount", SELL, AMOUNT),
    Number("swap", "swap", "slippageBps", {**SELL, "amount": 1}, (*WHOLE, "10001")),
    Number("airdrop", "airdrop", "amount", {}, (*AMOUNT, "2.000000001")),
    Number("launch-token", "launch_token", "decimals", NAMED, (*WHOLE, "10", "255", "256")),
    Number("launch-token", "launch_token", "initialSupply", NAMED, AMOUNT),
    Number("mint-supply", "mint_supply", "amount", {"mint": MINT}, AMOUNT),
    Number("mint-supply", "mint_supply", "decimals", {"mint": MINT, "amount": 1},
           (*WHOLE, "0", "7", "256")),
    Number("token-transfer", "transfer_token", "amount", {"mint": MINT, "to": STRANGER}, AMOUNT),
    Number("burn", "burn_tokens", "amount", {"mint": MINT}, AMOUNT),
    Number("stake", "stake_sol", "amount", {}, AMOUNT),
    Number("wrap-sol", "wrap_sol", "amount", {}, AMOUNT),
)  # fmt: skip


@dataclass(frozen=True)
class Desk:
    """A service and a wallet that has what each operation needs."""

    api: Api
    wallet: str
    mint: str

    async def kept(self) -> tuple[int, ...]:
        """How much is stored of what was asked for."""
        async with self.api.service.database.read() as connection:
            return tuple([
                (await connection.execute(select(func.count()).select_from(table))).scalar_one()
                for table in (transactions, reservations, attempts)
            ])  # fmt: skip

    async def post(self, path: str, number: Number, value: str) -> tuple[int, str]:
        beside = {name: self.mint if given == MINT else given for name, given in
                  number.beside.items()}  # fmt: skip
        body = json.dumps(beside)[:-1] + (", " if beside else "") + f'"{number.field}": {value}}}'
        answer = await self.api.post(f"/wallets/{self.wallet}/{path}", data=body.encode())
        return answer.status, answer.error if answer.status != 200 else ""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def desk(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Desk]:
    home = tmp_path_factory.mktemp("numbers") / "home"
    async with serving_api(home, max_transactions_per_minute=100_000) as api:
        wallet = await api.wallet(2)
        body = {**NAMED, "decimals": 6, "initialSupply": 1000}
        made = await api.post(f"/wallets/{wallet}/launch-token", body)
        assert made.status == 200, made.text
        yield Desk(api, wallet, made.json["mint"])


@promise("amounts-exact-to-lamport")
@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.id)
async def test_what_is_no_amount_is_refused_by_name_and_leaves_nothing(
    desk: Desk, number: Number
) -> None:
    before = await desk.kept()
    for value in dict.fromkeys((*NEVER, *number.never)):
        for path in (number.path, f"{number.path}?dryRun=true", f"skills/{number.skill}"):
            status, error = await desk.post(path, number, value)
            told = (path, number.field, value, status, error)
            assert status == 400, told
            assert number.field in error.split(" ", 1)[0].rstrip(":") or (
                path.startswith("skills/") and number.field in error
            ), told
    assert await desk.kept() == before


@pytest.mark.parametrize("number", NUMBERS, ids=lambda number: number.id)
async def test_what_is_no_json_number_is_refused_and_leaves_nothing(
    desk: Desk, number: Number
) -> None:
    before = await desk.kept()
    for value in NO_JSON:
        for path in (number.path, f"skills/{number.skill}"):
            refused = (400, "The request body must be valid JSON")
            assert await desk.post(path, number, value) == refused, value
    assert await desk.kept() == before


async def test_no_number_of_a_spending_skill_is_left_out(desk: Desk) -> None:
    tried = {(number.skill, number.field) for number in NUMBERS}
    for skill in desk.api.service.live.registry.skills.values():
        if skill.spec.effects is Effects.SPEND:
            for name, schema in skill.spec.parameters["properties"].items():
                if schema.get("type") in ("number", "integer"):
                    assert (skill.spec.name, name) in tried
