"""Answers that are lost, late or not the service's: money moves once, and the caller is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from decimal import Decimal
from typing import Any

import httpx
import pytest
from tests.client.conftest import URL
from tests.support.services import SECRET, Carrier, away, cut, times

from solward.client import (
    BadAnswer,
    ClientError,
    Conflict,
    RateLimited,
    Refused,
    ServerError,
    SolwardClient,
    Unreachable,
)
from solward.support.jsontext import MAX_DEPTH
from solward.types.errors import InvalidRequest

STRANGER = "9B5XszUGdMaxCZ7uSQhPzdks5ZQSmWxrmzCSvtJ6Ns6g"
FEE = Decimal("0.000005")


@pytest.fixture
async def wallet(client: SolwardClient, carrier: Carrier) -> str:
    made = await client.wallets.create(name="payer")
    await client.wallets.airdrop(made.id, amount=2)
    carrier.requests.clear()
    return made.id


def impatient(carrier: Carrier, timeout_s: float) -> SolwardClient:
    return SolwardClient(URL, SECRET, transport=carrier, timeout_s=timeout_s)


async def test_a_lost_answer_is_asked_for_again_and_paid_once(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(3, cut)
    sent = await client.wallets.transfer(wallet, to=STRANGER, amount=1)
    assert sent.status == "confirmed"
    assert len(carrier.keys) == 4
    assert len(set(carrier.keys)) == 1
    assert carrier.keys[0]
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE
    records = await client.wallets.transactions(wallet)
    assert [record.type for record in records] == ["transfer", "airdrop"]


async def test_two_calls_are_two_payments(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    for _ in range(2):
        await client.wallets.transfer(wallet, to=STRANGER, amount="0.5")
    assert len(set(carrier.keys)) == 2
    assert (await client.wallets.balance(wallet)).sol == 1 - 2 * FEE


async def test_a_refusal_whose_answer_was_lost_is_told(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(1, cut)
    with pytest.raises(Refused, match="max_per_tx"):
        await client.wallets.transfer(wallet, to=STRANGER, amount=5)
    assert len(await client.wallets.transactions(wallet)) == 2


async def test_a_payment_without_any_answer_gives_its_key_which_tells_its_fate(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(100, cut)
    async with impatient(carrier, 1.5) as client_of_a_bad_line:
        with pytest.raises(Unreachable, match="whether the transaction was made") as lost:
            await client_of_a_bad_line.wallets.transfer(wallet, to=STRANGER, amount=1)
    carrier.after = lambda _request: None
    key = lost.value.idempotency_key
    assert key in str(lost.value)
    sent = await client.wallets.transfer(wallet, to=STRANGER, amount=1, idempotency_key=key)
    assert sent.status == "confirmed"
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE


async def test_a_skill_that_pays_is_asked_again_under_its_key(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(2, cut)
    text = await client.wallets.run_skill(wallet, "transfer", {"to": STRANGER, "amount": 1})
    assert "1 SOL" in text
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE


async def test_what_never_reached_the_service_has_no_fate_to_ask_for(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.before = times(100, away)
    with pytest.raises(Unreachable, match="solward up") as gone:
        await client.wallets.transfer(wallet, to=STRANGER, amount=1)
    assert gone.value.idempotency_key is None
    carrier.before = lambda _request: None
    assert (await client.wallets.balance(wallet)).sol == 2


async def test_a_service_that_starts_late_is_paid_through(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.before = times(2, away)
    assert (await client.wallets.transfer(wallet, to=STRANGER, amount=1)).status == "confirmed"


async def test_reading_is_asked_again_and_other_changes_are_not(
    client: SolwardClient, carrier: Carrier
) -> None:
    carrier.after = times(2, cut)
    assert await client.wallets.list() == ()
    carrier.after = times(1, cut)
    with pytest.raises(Unreachable):
        await client.wallets.create(name="once")
    assert [wallet.name for wallet in await client.wallets.list()] == ["once"]
    creations = [request for request in carrier.requests if request.method == "POST"]
    assert len(creations) == 1


async def test_a_call_waits_for_its_own_first_request(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    calls = (
        client.wallets.transfer(wallet, to=STRANGER, amount=1, idempotency_key="both")
        for _ in range(2)
    )
    one, other = await asyncio.gather(*calls)
    assert one.id == other.id
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE


async def test_a_request_in_flight_is_waited_for_no_longer_than_the_timeout(
    carrier: Carrier, wallet: str
) -> None:
    def in_flight(_request: httpx.Request) -> httpx.Response:
        return httpx.Response(
            409, json={"error": "still in progress"}, headers={"Retry-After": "1"}
        )

    carrier.before = times(100, in_flight)
    async with impatient(carrier, 1.5) as client:
        with pytest.raises(Conflict, match="still in progress") as conflict:
            await client.wallets.transfer(wallet, to=STRANGER, amount=1, idempotency_key="mine")
    assert conflict.value.idempotency_key == "mine"
    assert len(carrier.requests) == 2


async def test_a_proxys_error_leaves_a_payment_open_and_gives_its_key(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(1, lambda _request: httpx.Response(502, text="<h1>Bad gateway</h1>"))
    with pytest.raises(ServerError, match="status 502") as lost:
        await client.wallets.transfer(wallet, to=STRANGER, amount=1)
    key = lost.value.idempotency_key
    assert key is not None
    await client.wallets.transfer(wallet, to=STRANGER, amount=1, idempotency_key=key)
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE


HELD = (
    b'{"status": "held", "holdId": "h", "sentence": "s", "approveAt": "http://a",'
    b' "expiresAt": "2026-12-31T00:00:00.000Z", "repeats": false}'
)
# What a gateway puts in the place of the service's answer.
FOREIGN = [
    (504, b"<html>"),
    (502, b'{"error": "upstream"}'),
    (500, b"<html>"),
    (500, b'{"error": "\\ud800"}'),
    (200, b"<html>"),
    (200, b'{"id": "x", "id": "y"}'),
    (200, b'{"result": 5}'),
    (200, b"null"),
    (202, b"{}"),
    (204, b""),
    (302, b""),
    (403, b"<html>"),
    (408, b""),
    (408, b'{"error": "timeout"}'),
    (409, b"<html>"),
    # In the form of the service's own.
    *((status, b'{"error": "no"}') for status in (400, 401, 403, 404, 405, 413, 422, 429, 500)),
    (200, b'{"result": "ok"}'),
    (202, HELD),
]


@pytest.mark.parametrize(("status", "content"), FOREIGN)
@pytest.mark.parametrize("call", ["transfer", "skill"])
async def test_an_answer_that_is_not_the_services_leaves_a_payment_open(
    client: SolwardClient, carrier: Carrier, wallet: str, status: int, content: bytes, call: str
) -> None:
    def pay(key: str | None) -> Awaitable[Any]:
        if call == "transfer":
            return client.wallets.transfer(wallet, to=STRANGER, amount=1, idempotency_key=key)
        params = {"to": STRANGER, "amount": 1}
        return client.wallets.run_skill(wallet, "transfer", params, idempotency_key=key)

    carrier.after = times(1, lambda _request: httpx.Response(status, content=content))
    with pytest.raises(ClientError, match="whether the transaction was made is not known") as lost:
        await pay(None)
    key = lost.value.idempotency_key
    assert key == carrier.keys[0]
    assert f"idempotency key {key} returns" in str(lost.value)
    await pay(key)
    assert (await client.wallets.balance(wallet)).sol == 1 - FEE


@pytest.mark.parametrize(("status", "content"), FOREIGN)
async def test_a_schedules_run_and_a_paid_request_are_left_open_likewise(
    client: SolwardClient, carrier: Carrier, status: int, content: bytes
) -> None:
    carrier.before = lambda _request: httpx.Response(status, content=content)
    site = "https://api.example.com"
    for call in (client.schedules.run("w", "s"), client.wallets.pay("w", url=site, max="1 USDC")):
        with pytest.raises(ClientError, match="is not known") as lost:
            await call
        assert lost.value.idempotency_key == carrier.keys[-1]


async def test_a_refusal_after_a_lost_answer_says_nothing_of_the_first_try(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    limited = httpx.Response(429, json={"error": "Rate limit exceeded"})
    carrier.after = times(1, cut)
    carrier.before = lambda _request: limited if len(carrier.requests) == 2 else None
    with pytest.raises(RateLimited, match="is not known") as lost:
        await client.wallets.transfer(wallet, to=STRANGER, amount=1)
    assert lost.value.idempotency_key == carrier.keys[0]


async def test_a_key_with_spaces_is_told_as_a_shell_word(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.after = times(1, lambda _request: httpx.Response(504))
    with pytest.raises(ServerError, match="idempotency key 'rent  2026-12' returns"):
        await client.wallets.transfer(
            wallet, to=STRANGER, amount=1, idempotency_key="rent  2026-12"
        )


async def test_a_request_that_http_cannot_send_is_not_tried_again(
    client: SolwardClient, carrier: Carrier, wallet: str
) -> None:
    carrier.before = lambda _request: httpx.LocalProtocolError("Illegal header value")
    with pytest.raises(InvalidRequest, match="nothing was sent"):
        await client.wallets.transfer(wallet, to=STRANGER, amount=1)
    assert len(carrier.requests) == 1


async def test_an_answer_with_nul_or_as_deep_as_a_request_may_be_is_read(
    client: SolwardClient, carrier: Carrier
) -> None:
    deep = b'{"limits": ' + b"[" * MAX_DEPTH + b'"\\u0000"' + b"]" * MAX_DEPTH + b"}"
    carrier.before = lambda _request: httpx.Response(200, content=deep)
    assert "limits" in await client.wallets.limits("w")


@pytest.mark.parametrize(
    "answer",
    [
        httpx.Response(200, text="<html>hello</html>"),
        httpx.Response(200, content=b'{"wallets": [], "wallets": []}'),
        httpx.Response(200, content=b'{"wallets": [], "a": "\\ud800"}'),
        httpx.Response(200, json={"wallets": [{"id": "w"}]}),
        httpx.Response(200, json=[]),
        httpx.Response(200, json={"wallets": None}),
        httpx.Response(302, headers={"Location": "https://elsewhere.example"}),
        httpx.Response(404, text="no such page"),
    ],
)
async def test_what_is_no_solward_service_is_told_as_such(
    client: SolwardClient, carrier: Carrier, answer: httpx.Response
) -> None:
    carrier.before = lambda _request: answer
    with pytest.raises(BadAnswer, match=r"http://solward\.test"):
        await client.wallets.list()
    assert len(carrier.requests) == 1
