"""What a refusal says in headers beside its one text: the rule, the transaction, when to retry."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.services import STRANGER, Api, serving_api

RULE, TRANSACTION, RETRY = "Solward-Rule", "Solward-Transaction", "Retry-After"
HEADERS = (RULE, TRANSACTION, RETRY)


@pytest.fixture
async def api(tmp_path: Path) -> AsyncIterator[Api]:
    async with serving_api(tmp_path / "home", max_transactions_per_minute=2) as made:
        yield made


def told(answer: Any) -> tuple[str | None, ...]:
    return tuple(answer.headers.get(name) for name in HEADERS)


async def refused(api: Api, path: str, body: Any, **options: Any) -> tuple[Any, Any]:
    """The answer and the newest record of the wallet it names."""
    answer = await api.post(path, body, **options)
    assert answer.status == 500, answer.text
    assert answer.error
    return answer, (await api.records(path.split("/")[2]))[0]


@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_block_names_its_rule_and_its_record(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    answer, record = await refused(
        api, f"/wallets/{wallet}/{path}", {"to": STRANGER, "amount": 100}
    )
    assert told(answer) == ("max_per_tx", record["id"], None)
    assert record["status"] == "blocked"


async def test_a_failure_names_its_record_and_no_rule(api: Api) -> None:
    wallet = await api.wallet(1)
    answer, record = await refused(
        api, f"/wallets/{wallet}/transfer", {"to": STRANGER, "amount": 1.5}
    )
    assert told(answer) == (None, record["id"], None)
    assert record["status"] == "failed"


async def test_a_rate_limit_says_when_the_next_may_start(api: Api) -> None:
    wallet = await api.wallet(2)
    body = {"to": STRANGER, "amount": 0.1}
    for _ in range(2):
        assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 200
    answer, record = await refused(api, f"/wallets/{wallet}/transfer", body)
    rule, transaction, seconds = told(answer)
    assert (rule, transaction) == ("rate_limit", record["id"])
    assert answer.error.endswith(f"possible in {seconds} s (limit of the wallet)")
    assert 1 <= int(seconds or 0) <= 60


@pytest.mark.parametrize("amount", [100, 0.1])
async def test_a_replay_names_them_again_and_no_time(api: Api, amount: float) -> None:
    wallet = await api.wallet(2)
    body, key = {"to": STRANGER, "amount": amount}, {"Idempotency-Key": "once"}
    for _ in range(2 if amount < 1 else 0):
        assert (await api.post(f"/wallets/{wallet}/transfer", body)).status == 200
    path = f"/wallets/{wallet}/transfer"
    first, record = await refused(api, path, body, headers=key)
    again, _ = await refused(api, path, body, headers=key)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.text == first.text
    assert told(again) == (first.headers[RULE], record["id"], None)
    assert len(await api.records(wallet)) == (2 if amount > 1 else 4)


async def test_what_is_no_transaction_has_none_of_them(api: Api) -> None:
    wallet = await api.wallet(1)
    for path, body in (("transfer", {"to": "nobody", "amount": 1}), ("skills/transfer", {})):
        answer = await api.post(f"/wallets/{wallet}/{path}", body)
        assert (answer.status, told(answer)) == (400, (None, None, None))
    answer = await api.post(f"/wallets/{wallet}/transfer?dryRun=true", {"to": STRANGER,
                                                                       "amount": 100})  # fmt: skip
    assert (answer.status, told(answer)) == (200, (None, None, None))
