"""Keys that operators put into addresses: calls that fail there show none, in logs and answers."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from tests.promises import promise
from tests.support import rpc as rpc_nodes
from tests.support.processes import written_log
from tests.support.services import STRANGER, serving_api, settings

from solward.database.database import Database
from solward.service import holdings
from solward.service.cluster import GENESIS, open_cluster
from solward.types.errors import StoreError
from solward.types.guardrail import SOL
from solward.vault.money.judge.prices import Prices
from solward_cli.doctor import ledger
from solward_cli.doctor.subject import Subject, format_check
from solward_localnet.market import genesis_accounts
from solward_localnet.node import Localnet
from solward_localnet.options import LocalnetOptions

MARK = "m4rk-9e7b4f1d0c-of-a-vendors-key"
# Less than 16 characters, so that it is no known secret anywhere.
SHORT = "k3y-of-an-op"


def marked(url: str) -> str:
    """An address of this machine with keys in every part that may have one."""
    host = url.partition("://")[2].rstrip("/")
    return f"http://user:{MARK}@{host}/{SHORT}/{MARK}?api-key={MARK}"


@dataclass
class Receiver:
    """Refuses every request and quotes all of it, as a careless vendor does."""

    asked: Counter[str] = field(default_factory=Counter)
    cuts: bool = False

    async def refuse(self, request: web.Request) -> web.Response:
        self.asked[request.match_info["receiver"]] += 1
        if self.cuts:
            assert request.transport is not None
            request.transport.abort()
        return web.json_response({"error": f"no such key: {request.url}"}, status=401)


@asynccontextmanager
async def receiving() -> AsyncIterator[tuple[Receiver, str]]:
    """A receiver and its address."""
    receiver = Receiver()
    app = web.Application()
    app.router.add_route("*", "/{receiver}/{rest:.*}", receiver.refuse)
    server = TestServer(app)
    # The log is the service's own.
    await server.start_server(access_log=None)
    try:
        yield receiver, str(server.make_url("/"))
    finally:
        await server.close()


@promise("only-local-paths-shown", "addresses-hide-vendor-keys")
@pytest.mark.more
@pytest.mark.parametrize("cuts", [False, True], ids=["refused", "cut"])
async def test_of_a_service_whose_vendors_all_fail(
    tmp_path: Path, cuts: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    # How long is waited for a node says nothing of what is told.
    monkeypatch.setattr(holdings, "READ_WAIT_S", 0.5)
    said: list[str] = []
    async with receiving() as (receiver, url):
        receiver.cuts = cuts
        options = LocalnetOptions(genesis=genesis_accounts)
        localnet = await Localnet.open(tmp_path / "ledger.db", options)
        async with rpc_nodes.listening(rpc_nodes.answers_of(localnet)) as (node,):
            given = {
                "solana_rpc_url": marked(node.url),
                "solana_network": "localnet",
                "jupiter_api_url": marked(f"{url}venue"),
                "openai_base_url": marked(f"{url}model"),
                "openai_api_key": "sk-of-no-vendor-0123456789",
                "approval_webhook_url": marked(f"{url}approvals"),
                "approval_webhook_secret": "of-the-approvals-7c1e9a5b3d2f4068",
                "alert_webhook_url": marked(f"{url}alerts"),
                "alert_webhook_secret": "of-the-alerts-7c1e9a5b3d2f4068ab",
            }
            with written_log() as log:
                async with serving_api(tmp_path / "home", **given) as api:
                    wallet = await api.wallet(1)
                    payment = {"to": STRANGER, "amount": 0.01}
                    swap = {"inputToken": "SOL", "outputToken": "USDC", "amount": 0.01}
                    sol = {"perTx": "1", "per": {"24h": "1"}, "hold": "0.001"}
                    asks = {"may": ["transfer"], "to": ["any"], "assets": {"SOL": sol}}
                    token, _ = await api.key(grants=[asks])
                    for path, body, by in (
                        (f"/wallets/{wallet}/swap", swap, {}),
                        (f"/wallets/{wallet}/transfer", payment, {"token": token}),
                        ("/freeze", {"reason": "a test"}, {}),
                        ("/unfreeze", {}, {}),
                    ):
                        answer = await api.post(path, body, **by)
                        said.append(f"{answer.headers} {answer.text}")
                    async with asyncio.timeout(30):
                        while receiver.asked.keys() < {"venue", "approvals", "alerts"}:
                            await asyncio.sleep(0.05)
                    node.faults["*"] = "cut" if cuts else 401
                    for path in ("/health", "/settings", "/plugins", f"/wallets/{wallet}/balance"):
                        answer = await api.get(path)
                        said.append(f"{answer.headers} {answer.text}")
                    if not cuts:
                        # A payment waits long for a node that cuts.
                        answer = await api.post(f"/wallets/{wallet}/transfer", payment)
                        said.append(f"{answer.headers} {answer.text}")
                async with Subject(settings(tmp_path / "home", **given)) as subject:
                    for check in (ledger.rpc, ledger.venue, ledger.models):
                        said.append(format_check("check", await check(subject)))
        await localnet.close()
    written = log.getvalue()
    for failure in ("webhook_failed", "request_failed"):
        assert failure in written
    for told in (*said, written):
        assert MARK not in told
        assert SHORT not in told


async def _mainnet(method: str, _params: Sequence[Any]) -> Any:
    """The answers that prices need of a node."""
    epoch = {"epoch": 1, "slotIndex": 1, "slotsInEpoch": 432_000, "absoluteSlot": 9}
    answers = {"getGenesisHash": GENESIS["mainnet-beta"], "getSlot": 9}
    return answers.get(method, epoch | {"blockHeight": 8})


@promise("only-local-paths-shown", "addresses-hide-vendor-keys")
@pytest.mark.parametrize("cuts", [False, True], ids=["refused", "cut"])
async def test_of_price_sources_that_fail(tmp_path: Path, cuts: bool) -> None:
    async with receiving() as (receiver, url), rpc_nodes.listening(_mainnet) as (node,):
        receiver.cuts = cuts
        given = settings(
            tmp_path,
            solana_network="mainnet-beta",
            solana_rpc_url=marked(node.url),
            price_sources="jupiter,coingecko",
            jupiter_api_url=marked(f"{url}jupiter"),
            coingecko_api_url=marked(f"{url}coingecko"),
        )
        with written_log() as log:
            async with open_cluster(given) as cluster:
                prices = Prices(cluster.price_sources)
                found = await prices.prices([SOL])
            async with Subject(given) as subject:
                lines = format_check("check", await ledger.prices(subject))
    assert receiver.asked.keys() == {"jupiter", "coingecko"}
    assert "price_source_failed" in log.getvalue()
    for told in (log.getvalue(), repr(found), lines):
        assert MARK not in told
        assert SHORT not in told


@promise("addresses-hide-vendor-keys")
@pytest.mark.parametrize(
    "url",
    [
        f"postgresql://user:{MARK}@127.0.0.1:9/name",
        f"postgresql://user@127.0.0.1:9/name?password={MARK}",
        f"postgresql://user@127.0.0.1:9/{MARK}",
    ],
)
async def test_of_a_database_that_does_not_answer(tmp_path: Path, url: str) -> None:
    with written_log() as log, pytest.raises(StoreError) as caught:
        await Database.open(url, tmp_path)
    for told in (str(caught.value), log.getvalue()):
        assert MARK not in told
