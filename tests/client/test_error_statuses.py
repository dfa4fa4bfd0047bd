"""A refusal is of the same class, and says the same, under both values of `ERROR_STATUS`."""

from __future__ import annotations

import copy
import pickle
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
from tests.client.conftest import URL
from tests.promises import promise
from tests.support.services import STRANGER, Api, Carrier, serving_api

from solward.client import (
    BadRequest,
    Forbidden,
    RateLimited,
    Refused,
    ServerError,
    SolwardClient,
)

pytestmark = promise("error-class-under-both")


@pytest.fixture(params=("contract", "semantic"))
def statuses(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def api(tmp_path: Path, statuses: str) -> AsyncIterator[Api]:
    async with serving_api(
        tmp_path / "home", error_status=statuses, max_transactions_per_minute=2
    ) as made:
        yield made


@pytest.fixture
async def wallet(client: SolwardClient) -> str:
    made = await client.wallets.create()
    await client.wallets.airdrop(made.id)
    return made.id


@pytest.fixture
def moved(statuses: str) -> Callable[[int], int]:
    """The status of an answer that has this one where statuses are semantic, and 500 otherwise."""
    return lambda semantic: semantic if statuses == "semantic" else 500


async def test_what_a_guardrail_blocked_is_refused_the_second_time_too(
    client: SolwardClient, wallet: str, moved: Callable[[int], int]
) -> None:
    for number in range(2):
        with pytest.raises(Refused, match="blocked by guardrail max_per_tx") as blocked:
            await client.wallets.transfer(wallet, to=STRANGER, amount=5, idempotency_key="one")
        told = blocked.value
        assert (told.status, told.rule) == (moved(403), "max_per_tx"), number
        assert (told.transaction_id is None, told.idempotency_key) == (False, None)
    skill = {"to": STRANGER, "amount": 5}
    for _ in range(2):
        with pytest.raises(Refused) as refused:
            await client.wallets.run_skill(wallet, "transfer", skill, idempotency_key="two")
        assert refused.value.status == moved(403)


async def test_too_little_money_is_refused(
    client: SolwardClient, wallet: str, moved: Callable[[int], int]
) -> None:
    with pytest.raises(Refused, match="insufficient") as failed:
        await client.wallets.transfer(wallet, to=STRANGER, amount="1.5")
    assert (failed.value.status, failed.value.rule) == (moved(422), None)
    launched = await client.wallets.launch_token(wallet, name="Coin", symbol="CN")
    too_many = {"mint": launched.details["mint"], "amount": 10**7}
    with pytest.raises(BadRequest, match="amount is more than the"):
        await client.wallets.burn(wallet, **too_many)
    for _ in range(2):
        with pytest.raises(BadRequest, match="amount is more than the"):
            await client.wallets.run_skill(wallet, "burn_tokens", too_many, idempotency_key="burn")


async def test_a_rate_of_transactions_is_refused_and_one_of_requests_limited(
    client: SolwardClient, carrier: Carrier, wallet: str, moved: Callable[[int], int]
) -> None:
    for _ in range(2):
        await client.wallets.transfer(wallet, to=STRANGER, amount="0.1")
    with pytest.raises(Refused) as rated:
        await client.wallets.transfer(wallet, to=STRANGER, amount="0.1")
    told = rated.value
    assert (told.status, told.rule) == (moved(429), "rate_limit")
    for error in (told, copy.copy(told), pickle.loads(pickle.dumps(told))):
        assert error.retry_after_s is not None
        assert 0 < error.retry_after_s <= 60
    key = await client.keys.create(name="slow", rate_limit=1)
    async with SolwardClient(URL, key.api_key, transport=carrier) as slow:
        await slow.wallets.airdrop(wallet)
        with pytest.raises(RateLimited) as limited:
            await slow.wallets.airdrop(wallet)
    for error in (limited.value, pickle.loads(pickle.dumps(limited.value))):
        assert (error.status, error.retry_after_s is None) == (429, False)


async def test_a_key_with_as_many_wallets_as_may_be_has_the_same_error(
    client: SolwardClient, carrier: Carrier, moved: Callable[[int], int]
) -> None:
    key = await client.keys.create(name="many", rate_limit=1000)
    async with SolwardClient(URL, key.api_key, transport=carrier) as many:
        for _ in range(100):
            await many.wallets.create()
        with pytest.raises(ServerError, match="the most that a key may create") as refused:
            await many.wallets.create()
    assert refused.value.status == moved(403)


async def test_a_key_that_may_not_is_forbidden_and_not_refused(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    key = await client.keys.create(name="reads", read_only=True)
    async with SolwardClient(URL, key.api_key, transport=carrier) as reads:
        with pytest.raises(Forbidden, match="read-only") as refused:
            await reads.wallets.transfer(wallet, to=STRANGER, amount="0.1")
    assert refused.value.status == 403
