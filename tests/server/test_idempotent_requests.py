"""One Idempotency-Key is one payment and one answer."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import update
from tests.promises import promise
from tests.support.services import SECRET, STRANGER, Api, serving_api
from werkzeug.datastructures import Headers

from solward.database.tables import idempotency
from solward.types.record import KEY_FORM
from solward_server.resources import PREFIX

ONE = {"Idempotency-Key": "one"}
BODY = {"to": STRANGER, "amount": 0.1}


async def forget_answer(api: Api) -> None:
    """As if the process had ended between the payment and its answer."""
    async with api.service.database.write() as connection:
        await connection.execute(update(idempotency).values(status_code=None, body=None))


def counted(records: list[Any], kind: str) -> int:
    return sum(record["type"] == kind for record in records)


async def test_two_keys_are_refused(api: Api) -> None:
    """The first of them alone would count, and in another order it would be another payment."""
    wallet = await api.wallet(2)
    headers = Headers([("Authorization", f"Bearer {SECRET}"), *[("Idempotency-Key", "one")] * 2])
    client = api.app.test_client()
    answer = await client.post(f"{PREFIX}/wallets/{wallet}/transfer", json=BODY, headers=headers)
    assert answer.status_code == 400
    assert await answer.get_json() == {"error": "Idempotency-Key must be given once"}
    assert counted(await api.records(wallet), "transfer") == 0


@promise("idempotency-key-everywhere", "same-key-same-answer")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_the_same_request_is_answered_the_same_and_paid_once(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    url = f"/wallets/{wallet}/{path}"
    first = await api.post(url, BODY, headers=ONE)
    assert first.status == 200, first.text
    assert "Idempotent-Replayed" not in first.headers
    again = await api.post(url, BODY, headers=ONE)
    assert (again.status, again.text) == (200, first.text)
    assert again.headers["Idempotent-Replayed"] == "true"
    assert again.headers["Content-Type"] == first.headers["Content-Type"]
    assert counted(await api.records(wallet), "transfer") == 1
    # The order of fields and the way a number is written are not another body.
    reordered = b'{"amount": 0.1, "to": "%s"}' % STRANGER.encode()
    assert (await api.post(url, data=reordered, headers=ONE)).text == first.text
    mismatch = await api.post(url, BODY | {"amount": 0.2}, headers=ONE)
    assert mismatch.status == 422
    assert "Idempotency-Key" in mismatch.error
    other = await api.post(url, BODY, headers={"Idempotency-Key": "two"})
    assert other.status == 200
    assert counted(await api.records(wallet), "transfer") == 2


@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_lost_answer_is_given_without_paying_again(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    url = f"/wallets/{wallet}/{path}"
    first = await api.post(url, BODY, headers=ONE)
    await forget_answer(api)
    again = await api.post(url, BODY, headers=ONE)
    assert (again.status, again.text) == (200, first.text)
    assert counted(await api.records(wallet), "transfer") == 1
    assert (await api.post(url, BODY | {"amount": 0.2}, headers=ONE)).status == 422


@promise("same-key-same-answer")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_refusal_is_replayed_too(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    url = f"/wallets/{wallet}/{path}"
    body = BODY | {"amount": 3}
    first = await api.post(url, body, headers=ONE)
    assert first.status == 500
    assert "max_per_tx" in first.error
    again = await api.post(url, body, headers=ONE)
    assert (again.status, again.text) == (500, first.text)
    await forget_answer(api)
    rebuilt = await api.post(url, body, headers=ONE)
    assert (rebuilt.status, rebuilt.text) == (500, first.text)
    assert counted(await api.records(wallet), "transfer") == 1


@promise("other-body-is-422")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_many_at_once_are_one_payment(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    url = f"/wallets/{wallet}/{path}"
    answers = await asyncio.gather(*(api.post(url, BODY, headers=ONE) for _ in range(10)))
    assert {answer.status for answer in answers} <= {200, 409}
    assert len({answer.text for answer in answers if answer.status == 200}) == 1
    for answer in answers:
        if answer.status == 409:
            assert answer.headers["Retry-After"] == "1"
            assert "in progress" in answer.error
    assert counted(await api.records(wallet), "transfer") == 1


@promise("unjudged-leaves-key-free")
@pytest.mark.parametrize("path", ["transfer", "skills/transfer"])
async def test_a_bad_request_uses_up_no_key(api: Api, path: str) -> None:
    wallet = await api.wallet(2)
    url = f"/wallets/{wallet}/{path}"
    assert (await api.post(url, {"to": STRANGER, "amount": -1}, headers=ONE)).status == 400
    assert (await api.post(url, BODY, headers=ONE)).status == 200


@pytest.mark.parametrize("key", ["", "x" * 256, "käse", "a\x7fb", " ", " a", "a "])
async def test_a_key_that_is_not_visible_ascii_is_400(api: Api, key: str) -> None:
    wallet = await api.wallet(1)
    headers = {"Idempotency-Key": key}
    for path in ("transfer", "skills/transfer"):
        answer = await api.post(f"/wallets/{wallet}/{path}", BODY, headers=headers)
        assert (answer.status, answer.error) == (
            400,
            f"Idempotency-Key must be {KEY_FORM}",
        )
    assert counted(await api.records(wallet), "transfer") == 0


@promise("key-claimed-with-reservation")
async def test_a_key_belongs_to_its_principal_and_its_path(api: Api) -> None:
    wallet, second = await api.wallet(1), await api.wallet(1)
    token, _ = await api.key()
    for where, who in ((wallet, {}), (wallet, {"token": token}), (second, {})):
        answer = await api.post(f"/wallets/{where}/transfer", BODY, headers=ONE, **who)
        assert answer.status == 200
        assert "Idempotent-Replayed" not in answer.headers
    assert counted(await api.records(wallet), "transfer") == 2


@pytest.mark.more
async def test_a_replay_takes_nothing_from_the_keys_rate(api: Api) -> None:
    wallet = await api.wallet(1)
    token, _ = await api.key(rateLimit=1)
    url = f"/wallets/{wallet}/transfer"
    for _ in range(3):
        assert (await api.post(url, BODY, headers=ONE, token=token)).status == 200
    assert (await api.post(url, BODY, token=token)).status == 429


@promise("keys-are-never-deleted")
async def test_keys_outlive_the_process(tmp_path: Path) -> None:
    async with serving_api(tmp_path / "home") as api:
        wallet = await api.wallet(1)
        first = await api.post(f"/wallets/{wallet}/transfer", BODY, headers=ONE)
    async with serving_api(tmp_path / "home") as api:
        again = await api.post(f"/wallets/{wallet}/transfer", BODY, headers=ONE)
        assert (again.status, again.text) == (200, first.text)
        assert counted(await api.records(wallet), "transfer") == 1
