"""What all keys that may use a wallet let leave it, however many there are."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
from tests.support.grants import grant, limit
from tests.support.services import serving_api

from solward.credentials.credentials import Credential
from solward.operations.key_callers import limits_of
from solward.operations.policies.changes import replace_policy
from solward.operations.policies.grant_report import wallet_grants
from solward.service.limits import wallet_limits
from solward.settings import Settings
from solward.vault.grants.model import Grant

SOL = 10**9


def key(number: int, wallet: str | None, sol: int, costs: int = 5) -> Credential:
    return Credential(
        id=f"k{number}",
        hash=f"{number:064}",
        name=f"key {number}",
        created_by="admin",
        wallet_id=wallet,
        permissions=("read",),
        rate_limit=10,
        spending_limit_lamports=sol,
        max_costs_lamports=costs,
        created_ms=number,
    )


@pytest.fixture
def ceilings() -> Settings:
    # So high that the sum over the keys is what bounds it.
    return Settings(_env_file=None, daily_spending_limit_sol="1000000", max_costs_sol_per_day="900")


@pytest.mark.parametrize("seed", range(4))
async def test_keys_that_are_counted_together_let_leave_what_each_lets(
    tmp_path: Path, ceilings: Settings, seed: int
) -> None:
    draw = random.Random(seed)
    async with serving_api(tmp_path) as api:
        service, wallet, other = api.service, await api.wallet(0), await api.wallet(0)
        policy: dict[str, list[Grant]] = {}
        for number in range(40):
            made = key(
                number,
                draw.choice([None, None, wallet, other]),
                draw.choice([0, SOL, SOL, 3 * SOL]),
                draw.choice([5, 7, 7]),
            )
            await service.credentials.add(made)
            if draw.random() < 0.3:
                lends = grant(made.principal, SOL=limit("SOL", draw.randint(1, 9)))
                policy[made.principal] = draw.choice([[], [lends]])
        await replace_policy(service.database, policy, {})
        each = [
            (k.principal, limits_of(k))
            for k in await service.credentials.keys()
            if k.wallet_id in (None, wallet)
        ]
        found = await service.keys.keys_of_wallet(wallet)
        assert {who for who, _ in found.single} == policy.keys() & {who for who, _ in each}
        assert len(found.alike) <= 6
        assert sum(each.keys for each in found.alike) == len(each) - len(found.single)
        given = service.database, service.tokens, wallet, wallet_limits(ceilings)
        whole = await wallet_grants(*given, each)
        grouped = await wallet_grants(*given, found.single, None, found.alike)
        # A group of keys is named by one of them.
        for each in (whole, grouped):
            each["canLeave"]["sentence"] = each["canLeave"]["sentence"].partition(" operator.")[0]
        assert {*grouped["canLeave"].pop("through")} <= {*whole["canLeave"].pop("through")}
        assert grouped == whole
        assert whole["canLeave"]["assets"]["SOL"]["most"] != "0"
