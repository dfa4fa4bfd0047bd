"""Which wallets are shown, and what is asked for them."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from typing import Any

import httpx
import pytest

from solward.client import ApiError, Balance, SolwardClient, TokenBalance, Wallet
from solward_dashboard import api as shared
from solward_dashboard.pages.wallets import (
    fetch_balance,
    find_wallets,
    raise_if_all,
    tokens_text,
)

WRAPPED_SOL = "So11111111111111111111111111111111111111112"


def _wallet(number: int, name: str = "", *tags: str) -> dict[str, Any]:
    return {
        "id": f"id-{number}",
        "name": name or f"wallet {number}",
        "publicKey": f"{number:04d}CcA3mULJeBWBF1q5zxDzEx44XT1yJZtf1JxJpW",
        "tags": [*tags],
        "createdAt": "2026-11-21T12:00:00.000Z",
    }


class Service(httpx.AsyncBaseTransport):
    """A service with many wallets that counts what is asked for, and how much of it at once."""

    def __init__(self, wallets: int) -> None:
        self.wallets = [_wallet(number) for number in range(wallets)]
        self.asked: list[str] = []
        self.unread: set[str] = set()
        self.most = 0
        self._now = 0

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        path = request.url.path.removeprefix("/api/v1")
        if path == "/wallets":
            return httpx.Response(200, json={"wallets": self.wallets})
        self._now += 1
        self.most = max(self.most, self._now)
        await asyncio.sleep(0)
        self._now -= 1
        found = re.fullmatch(r"/wallets/(id-\d+)/(balance|limits)", path)
        assert found is not None
        self.asked.append(found[1])
        if found[1] in self.unread:
            return httpx.Response(503, json={"error": "too many tokens"})
        if found[2] == "balance":
            return httpx.Response(200, json={"sol": 1.5, "tokens": []})
        bounds = {asset: {"most": "1"} for asset in ("SOL", "COSTS", "*")}
        frozen = found[1] == "id-1"
        return httpx.Response(200, json={"frozen": frozen, "canLeave": {"assets": bounds}})


@pytest.fixture
async def service(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Service]:
    """Three hundred wallets behind the client that the pages share."""
    service = Service(300)
    async with SolwardClient("http://127.0.0.1:1", "token", transport=service) as client:
        monkeypatch.setattr(shared, "_client", [client])
        yield service


async def test_a_wallet_that_cannot_be_read_hides_no_other(service: Service) -> None:
    service.unread = {"id-1"}
    balances = await shared.fetch_each(("id-0", "id-1", "id-2"), fetch_balance)
    assert str(balances["id-1"]) == "too many tokens"
    assert [isinstance(each, Balance) for each in balances.values()] == [True, False, True]
    assert 1 < service.most <= 6
    raise_if_all([*balances.values()])
    service.unread = {"id-0", "id-1"}
    with pytest.raises(ApiError, match="too many tokens"):
        raise_if_all([await fetch_balance("id-0"), await fetch_balance("id-1")])


def test_every_word_of_a_search_is_looked_for_in_name_tags_and_address() -> None:
    wallets = [
        Wallet.of(raw)
        for raw in (_wallet(1, "Till north", "shop"), _wallet(2, "Till south"), _wallet(3, "Safe"))
    ]

    def names(search: str) -> list[str]:
        return [each.name for each in find_wallets(wallets, search)]

    assert names("") == ["Till north", "Till south", "Safe"]
    assert names("TILL") == ["Till north", "Till south"]
    assert names("till shop") == ["Till north"]
    assert names("0003cca3") == ["Safe"]
    assert names("z") == []


def test_tokens_are_told_by_symbol_and_wrapped_sol_from_sol() -> None:
    def token(mint: str, symbol: str | None, amount: str) -> TokenBalance:
        return TokenBalance(
            mint=mint, symbol=symbol, amount=Decimal(amount), units=0, decimals=0, raw={}
        )

    assert tokens_text([]) == "no tokens"
    assert tokens_text([token("m", "USDC", "1234.5"), token(WRAPPED_SOL, "SOL", "0.05")]) == (
        "1,234.5 USDC, 0.05 wSOL"
    )
    many = [token(f"{number}" * 40, None, "1") for number in range(6)]
    assert tokens_text(many) == "1 0000…0000, 1 1111…1111, 1 2222…2222, 1 3333…3333 and 2 more"
