"""Rent and fees leave a wallet too: whoever asks, in whatever way, takes one ceiling a day."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from solders.keypair import Keypair
from tests.operations.matrix.stand import Stand, new_stand
from tests.promises import promise
from tests.support.agents import Scripted, agent_body, calls
from tests.support.localnet import rent
from tests.support.services import Answer, serving_api

from solward.agents import store as agent_store
from solward.agents.cycle import run_cycle
from solward.types.provider import Completion, CompletionRequest

CEILING = 50_000_000  # MAX_COSTS_SOL_PER_DAY by default
RENT, FEE = rent(165), 5_000


def stranger() -> str:
    return str(Keypair().pubkey())


@asynccontextmanager
async def wallet_with_tokens(tmp_path: Path, **given: Any) -> AsyncIterator[tuple[Stand, str]]:
    """5 SOL, and a token of its own, which cost it something already; no rate in the way."""
    opened = {"max_transactions_per_minute": 10_000, **given}
    async with serving_api(tmp_path / "home", **opened) as api:
        stand = await new_stand(api)
        yield stand, await stand.launched(1_000_000)


async def until_refused(ask: Callable[[], Awaitable[Answer]]) -> tuple[int, Answer]:
    """How often it was done, and the refusal."""
    for done in range(100):
        answer = await ask()
        if answer.status != 200:
            return done, answer
    raise AssertionError("nothing refused it")


@pytest.mark.more
@promise("costs-limits", "daily-costs-capped")
async def test_tokens_to_fresh_addresses_drain_one_ceiling_of_rent(tmp_path: Path) -> None:
    async with wallet_with_tokens(tmp_path) as (stand, mint):
        api, path = stand.api, f"/wallets/{stand.id}/token-transfer"
        before = 5 * 10**9

        async def pay() -> Answer:
            return await api.post(path, {"mint": mint, "to": stranger(), "amount": Decimal("0.01")})

        done, answer = await until_refused(pay)
        assert "costs_limit" in answer.error
        assert "MAX_COSTS_SOL_PER_DAY" in answer.error
        lost = before - await stand.lamports()
        # As much as fits is allowed, and not a lamport more.
        assert CEILING - 2 * (RENT + FEE) < lost <= CEILING
        assert done > 20
        # Where nobody's account is opened only the fee is due: of that, too, only what is left.
        answer = await api.post(f"/wallets/{stand.id}/transfer", {"to": stranger(), "amount": 1})
        assert answer.status == 200


@promise("key-within-its-limits", "zero-key-signs-nothing")
async def test_a_key_with_a_limit_of_0_takes_no_rent_and_no_fee(tmp_path: Path) -> None:
    async with wallet_with_tokens(tmp_path) as (stand, mint):
        api = stand.api
        key, _ = await api.key(spendingLimitSol=0)
        before = await stand.lamports()
        wallet = f"/wallets/{stand.id}"
        for path, body in (
            ("token-transfer", {"mint": mint, "to": stranger(), "amount": Decimal("0.01")}),
            ("launch-token", {"name": "Drain", "symbol": "DR"}),
            ("burn", {"mint": mint, "amount": 1}),
            ("mint-supply", {"mint": mint, "amount": 1}),
            ("revoke-authority", {"mint": mint}),
            ("skills/burn_tokens", {"mint": mint, "amount": 1}),
        ):
            answer = await api.post(f"{wallet}/{path}", body, token=key)
            assert answer.status == 500, path
            assert "limit of the API key" in answer.error, path
        assert await stand.lamports() == before
        # What no key pays for stays allowed.
        asked = {"mint": mint, "to": stranger(), "amount": 1}
        answer = await api.post(f"{wallet}/token-transfer?dryRun=true", asked, token=key)
        assert (answer.status, answer.json["allowed"]) == (200, False)
        assert (await api.get(f"{wallet}/balance", token=key)).status == 200
        assert (await api.post(f"{wallet}/airdrop", {"amount": 1}, token=key)).status == 200


@promise("costs-limits")
async def test_a_keys_own_ceiling_holds_over_all_its_wallets(tmp_path: Path) -> None:
    async with wallet_with_tokens(tmp_path) as (stand, _mint):
        api = stand.api
        key, _ = await api.key(maxCostsSolPerDay=0.02, rateLimit=10_000)
        wallets = [await new_stand(api) for _ in range(3)]
        turn = iter(range(10**6))

        async def launch() -> Answer:
            wallet = wallets[next(turn) % 3]
            body = {"name": "Drain", "symbol": "DR", "decimals": 0, "initialSupply": 1}
            return await api.post(f"/wallets/{wallet.id}/launch-token", body, token=key)

        done, answer = await until_refused(launch)
        assert "costs_limit" in answer.error
        lost = sum([5 * 10**9 - await each.lamports() for each in wallets])
        assert done >= 2
        assert 0 < lost <= 20_000_000


@pytest.mark.more
@promise("costs-limits")
async def test_an_agent_that_launches_tokens_takes_one_ceiling(tmp_path: Path) -> None:
    given: dict[str, Any] = {"max_costs_sol_per_day": 10, "demo": True}
    async with wallet_with_tokens(tmp_path, **given) as (stand, _mint):
        service, before = stand.api.service, await stand.lamports()
        guardrails = {"maxCostsSolPerDay": Decimal("0.05"), "maxTransactionsPerMinute": 10_000}
        agent = await service.agents.create(agent_body(stand.id, guardrails=guardrails))
        async with service.database.write() as connection:
            await agent_store.update_agent(connection, agent.id, {"desired_state": "running"})
        body = {"name": "Drain", "symbol": "DR", "decimals": 0, "initialSupply": 1}

        def provider(_agent: object) -> Callable[[CompletionRequest], Awaitable[Completion]]:
            return Scripted(calls("launch_token", body)).complete

        parts = replace(service.agents.parts, provider=provider)
        for cycle in range(1, 15):
            await run_cycle(agent.id, cycle, parts)
        decisions = await service.agents.decisions(agent.id)
        refused = ["costs_limit" in each.outcome for each in decisions]
        launched = refused.count(False)
        # Newest first: once refused, it stays so.
        assert refused == [True] * (14 - launched) + [False] * launched
        assert launched > 4
        assert 0 < before - await stand.lamports() <= CEILING
        assert "limit of the agent" in decisions[0].outcome
