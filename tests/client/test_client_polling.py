"""Who asks for the same again is sent only what is another."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator
from functools import partial

import httpx
import pytest
from tests.client.conftest import URL
from tests.promises import promise
from tests.support.services import SECRET, Carrier

from solward.client import SolwardClient, Unauthorized
from solward.client import http as module


class Counting(httpx.AsyncBaseTransport):
    """Counts answers by status, and the bytes of their bodies.

    Attributes:
        again: requests that say what they have wait for it.
        waiting: such a request came.
    """

    def __init__(self, carrier: Carrier) -> None:
        self._carrier = carrier
        self.statuses: Counter[int] = Counter()
        self.again = asyncio.Event()
        self.again.set()
        self.waiting = asyncio.Event()

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        if "If-None-Match" in request.headers:
            self.waiting.set()
            await self.again.wait()
        response = await self._carrier.handle_async_request(request)
        self.statuses[response.status_code] += 1
        if response.status_code == 304:
            assert await response.aread() == b""
        return response


@pytest.fixture
def counting(carrier: Carrier) -> Counting:
    return Counting(carrier)


@pytest.fixture
async def client(counting: Counting) -> AsyncIterator[SolwardClient]:
    async with SolwardClient(URL, SECRET, transport=counting, timeout_s=30) as made:
        yield made


@promise("rereads-are-304")
async def test_what_did_not_change_is_not_sent_again(
    client: SolwardClient, counting: Counting
) -> None:
    wallet = await client.wallets.create("polled")
    await client.wallets.airdrop(wallet.id, amount=2)
    counting.statuses.clear()
    first = [await client.wallets.transactions(wallet.id), await client.wallets.balance(wallet.id)]
    for _ in range(4):
        again = await client.wallets.transactions(wallet.id)
        assert [again, await client.wallets.balance(wallet.id)] == first
    assert counting.statuses == {200: 2, 304: 8}
    # What is read of an answer is a caller's own.
    first[0][0].details["changed"] = True
    assert "changed" not in (await client.wallets.transactions(wallet.id))[0].details


async def test_reads_at_once_do_not_take_each_others_answers(
    client: SolwardClient, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_MOST_KEPT", 2)
    wallet = (await client.wallets.create("polled")).id
    await client.wallets.airdrop(wallet, amount=2)
    read = partial(client.wallets.transactions, wallet)
    first = await read(limit=1)
    counting.statuses.clear()
    counting.again.clear()
    again = asyncio.create_task(read(limit=1))
    await counting.waiting.wait()
    # What it has is displaced by others while it is asked for again.
    for limit in range(2, 6):
        await read(limit=limit)
    counting.again.set()
    assert await again == first
    assert counting.statuses == {200: 4, 304: 1}


async def test_a_change_is_sent_and_known_from_then_on(
    client: SolwardClient, counting: Counting
) -> None:
    wallet = await client.wallets.create("polled")
    assert (await client.wallets.balance(wallet.id)).sol == 0
    await client.wallets.airdrop(wallet.id, amount=2)
    counting.statuses.clear()
    for _ in range(3):
        assert (await client.wallets.balance(wallet.id)).sol == 2
    assert counting.statuses == {200: 1, 304: 2}


@pytest.mark.more
async def test_another_page_is_another_answer(client: SolwardClient, counting: Counting) -> None:
    wallet = await client.wallets.create("polled")
    for _ in range(2):
        await client.wallets.airdrop(wallet.id, amount=1)
    counting.statuses.clear()
    newest = await client.wallets.transactions(wallet.id, limit=1)
    older = await client.wallets.transactions(wallet.id, limit=1, before=newest[0].id)
    assert newest != older
    assert await client.wallets.transactions(wallet.id, limit=1) == newest
    assert counting.statuses == {200: 2, 304: 1}


async def test_a_refused_credential_is_shown_nothing_that_was_kept(
    client: SolwardClient, counting: Counting
) -> None:
    wallet = await client.wallets.create("polled")
    made = await client.keys.create(name="poller")
    async with SolwardClient(URL, made.api_key, transport=counting, timeout_s=30) as poller:
        for _ in range(2):
            await poller.wallets.balance(wallet.id)
        await client.keys.revoke(made.id)
        with pytest.raises(Unauthorized):
            await poller.wallets.balance(wallet.id)


async def test_no_more_is_kept_than_a_few_answers_that_are_small(
    client: SolwardClient, counting: Counting, monkeypatch: pytest.MonkeyPatch
) -> None:
    wallets = [await client.wallets.create(f"w{number}") for number in range(4)]
    monkeypatch.setattr(module, "_MOST_KEPT", 3)
    counting.statuses.clear()
    for _ in range(2):
        for wallet in wallets:
            await client.wallets.balance(wallet.id)
    assert counting.statuses == {200: 8}
    monkeypatch.setattr(module, "_MOST_KEPT_BYTES", 10)
    for _ in range(2):
        await client.wallets.balance(wallets[0].id)
    assert counting.statuses == {200: 10}
