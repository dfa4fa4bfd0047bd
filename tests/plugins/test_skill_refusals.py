"""What the built-in skills refuse for what they were given, before anything is stored."""

from __future__ import annotations

from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import pytest
import pytest_asyncio
from solders.keypair import Keypair
from tests.plugins.skills import SkillBench, open_skills
from tests.support.localnet import rent

from solward.types.errors import InvalidRequest
from solward.types.money import format_sol

pytestmark = pytest.mark.asyncio(loop_scope="module")

STRANGER = str(Keypair().pubkey())
LEAST_STAKE = format_sol(10**9 + rent(200))
LAUNCH = {"name": "Demo coin", "symbol": "DEMO", "decimals": 6, "initialSupply": Decimal("10.5")}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def skills(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[SkillBench]:
    """One wallet for all of them: nothing that is refused leaves anything behind."""
    async with open_skills(tmp_path_factory.mktemp("skills")) as opened:
        yield opened


@pytest.mark.parametrize(
    ("name", "params", "text"),
    [
        ("transfer", {"to": "0" * 40, "amount": 1}, "to must be a base58 Solana address"),
        ("transfer", {"to": "short", "amount": 1}, "to must be a base58 Solana address"),
        ("stake_sol", {}, "amount"),
        ("stake_sol", {"amount": 1}, f"^amount must be at least {LEAST_STAKE} SOL"),
        ("stake_sol", {"amount": 2, "validator": "me"}, r"^validator: "),
        ("stake_sol", {"amount": 2, "validator": STRANGER}, r"^validator must be a validator"),
        ("stake_sol", {"amount": 2, "to": "me"}, "to"),
        ("unstake_sol", {}, "stakeAccount"),
        ("unstake_sol", {"stakeAccount": 5}, r"^stakeAccount: "),
        ("unstake_sol", {"stakeAccount": STRANGER}, r"^stakeAccount must be a stake account"),
        ("withdraw_stake", {}, "stakeAccount"),
        ("withdraw_stake", {"stakeAccount": "0" * 32}, r"^stakeAccount must be a base58 Solana"),
        ("withdraw_stake", {"stakeAccount": STRANGER, "amount": 1}, "amount"),
        ("list_stakes", {"state": "active"}, "state"),
        ("wrap_sol", {}, "amount"),
        ("wrap_sol", {"amount": 1, "to": "me"}, "to"),
        ("unwrap_sol", {"amount": 1}, "amount"),
        ("unwrap_sol", {}, r"^There is nothing to unwrap: the wallet has no wrapped SOL account"),
        ("launch_token", LAUNCH | {"name": "n" * 33}, "^name: "),
        ("launch_token", LAUNCH | {"symbol": ""}, "^symbol: "),
        ("launch_token", {"name": "n"}, "symbol"),
        ("burn_tokens", {"mint": "DEMO", "amount": 1}, "^mint must be a mint address or"),
        ("revoke_mint_authority", {"mint": "SOL", "authorityType": "close"}, "^authorityType: "),
        ("close_token_account", {}, "mint"),
        ("close_token_account", {"mint": "", "to": "me"}, "to"),
    ],
)
async def test_what_cannot_be_meant_is_refused_and_not_stored(
    skills: SkillBench, name: str, params: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidRequest, match=text):
        await skills.run(name, **params)
    assert await skills.bench.history() == []
