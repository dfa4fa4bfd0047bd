"""A service whose only node is 20 slots behind the ledger on which its sellers settle: what it pays
is found, and nothing is called dead before it is."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Thread
from typing import Any

import httpx
import pytest
from tests.e2e.payments.buyers import Buyer, beside, may_pay
from tests.e2e.payments.settling_seller import SettlingSeller
from tests.e2e.payments.stage import Ledger, payment_stage
from tests.promises import promise
from tests.support.rpc import FaultyProvider

from solward_localnet.jsonrpc import RpcError

pytestmark = [pytest.mark.more, pytest.mark.timeout(300)]

BEHIND = 20
PRICE = 50_000


@dataclass(frozen=True)
class Remote:
    """A ledger behind its RPC."""

    rpc: str
    http: httpx.AsyncClient

    async def call(self, method: str, params: Sequence[Any] = ()) -> Any:
        body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": list(params)}
        answer = (await self.http.post(self.rpc, json=body)).json()
        if "error" in answer:
            error = answer["error"]
            raise RpcError(error["code"], error["message"], error.get("data"))
        return answer["result"]


@contextmanager
def lagging(rpc: str) -> Iterator[str]:
    """Where a node serves whose heights, blockhash, statuses and histories are of some slots ago;
    accounts are of now, because the other node keeps no state of before."""
    loop, url, stop = asyncio.new_event_loop(), [""], asyncio.Event()
    ready = asyncio.Event()

    async def serve() -> None:
        async with httpx.AsyncClient(timeout=20) as http:
            node = FaultyProvider(Remote(rpc, http), lag_slots=BEHIND)
            node.chances = {"lag_height": 1.0}
            async with node.serving():
                url[0] = node.url
                ready.set()
                await stop.wait()

    thread = Thread(target=loop.run_until_complete, args=(serve(),))
    thread.start()
    try:
        asyncio.run_coroutine_threadsafe(ready.wait(), loop).result(20)
        yield url[0]
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join()
        loop.close()


@dataclass(frozen=True)
class Place:
    ledger: Ledger
    seller: SettlingSeller
    buyer: Buyer

    @property
    def height(self) -> int:
        """Of the ledger, which the service's node has not reached."""
        return int(self.ledger.call("getBlockHeight"))


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    seller = SettlingSeller()
    with (
        payment_stage(tmp_path) as stage,
        seller.on(stage.ledger),
        lagging(stage.ledger.rpc) as url,
    ):
        service = beside(tmp_path / "service" / "home", Ledger(url), seller.site)
        service.home.parent.mkdir()
        service.start()
        try:
            grant = may_pay(seller.site, per_day="1")
            yield Place(stage.ledger, seller, Buyer.made(service, stage.ledger, grant))
        finally:
            service.stop()
    assert seller.problems == []


@promise("lagging-node-loses-none")
def test_what_is_settled_at_once_is_found_each_time(place: Place) -> None:
    buyer, seller = place.buyer, place.seller
    for number in (1, 2, 3):
        ended = buyer.ended(buyer.paid(seller.url)["payment"]["id"])
        assert (ended["state"], ended["served"]) == ("landed", "yes")
        assert buyer.spent() == buyer.counted() == seller.took == number * PRICE


@promise("lagging-node-loses-none")
def test_what_is_settled_late_is_found_and_what_never_is_ends_once_it_cannot(place: Place) -> None:
    buyer, seller = place.buyer, place.seller
    seller.act = seller.keeps
    late, never = (buyer.paid(seller.url)["payment"] for _ in range(2))
    handed = {each["id"]: shown for each, shown in zip((late, never), seller.handed, strict=True)}
    at = place.height
    while place.height < at + 70:
        time.sleep(0.05)
    assert {buyer.payment(each["id"])["status"] for each in (late, never)} == {"pending"}
    seller.settle(handed[late["id"]])
    assert buyer.ended(late["id"])["state"] == "landed"
    ended = buyer.ended(never["id"], within_s=120)
    assert (ended["status"], ended["state"]) == ("failed", "expired")
    seller.settle(handed[never["id"]])
    at = place.height
    while place.height < at + 10:
        time.sleep(0.05)
    # By one node's word that is somebody else's nothing is given back.
    assert (buyer.spent(), seller.took, buyer.counted()) == (PRICE, PRICE, 2 * PRICE)
