"""Random callers on one wallet at once, over every interface: by the ledger no more leaves than
`canLeave` said before.

Keys call routes, skills and MCP tools, agents run cycles of a model that does as it likes, and
people chat with them. Each sequence has a wallet, callers and grants of its own.
"""

from __future__ import annotations

import asyncio
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import Any

import pytest
import pytest_asyncio
from solders.keypair import Keypair
from tests.promises import promise
from tests.support.agents import Scripted, agent_body, calls
from tests.support.examples import examples
from tests.support.services import Api, serving_api

from solward.agents import store as agent_store
from solward.agents.cycle import run_cycle
from solward.service.service import Solward
from solward.support import jsontext
from solward.vault.money.request import ADMIN
from solward.vault.store import spending

pytestmark = pytest.mark.asyncio(loop_scope="module")

DECIMALS = {"SOL": 9, "USDC": 6, "BONK": 5}
STRANGERS = tuple(str(Keypair().pubkey()) for _ in range(4))
CALLS = 24
LIMITS: dict[str, Any] = {
    "max_sol_per_transaction": Decimal(5),
    "max_transactions_per_minute": 10_000,
    "daily_spending_limit_sol": Decimal(3),
    "requests_per_minute": 1_000_000,
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def api(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    async with _service(tmp_path_factory) as made:
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def api_of_part(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Api]:
    """A service of its own, so that no part waits for the records of those before."""
    async with _service(tmp_path_factory) as made:
        yield made


def _service(folders: pytest.TempPathFactory) -> AbstractAsyncContextManager[Api]:
    return serving_api(folders.mktemp("sequences") / "home", demo=True, **LIMITS)


@dataclass
class Sequence:
    """One wallet with its callers.

    Attributes:
        favourite: an asset that every grant has and most calls are for, so that callers compete.
        bounds: asset -> the most that may leave, in smallest units, as the API said before.
    """

    api: Api
    chance: random.Random
    favourite: str = ""
    wallet: str = ""
    address: str = ""
    keys: list[str] = field(default_factory=list)
    agents: list[str] = field(default_factory=list)
    mints: dict[str, str] = field(default_factory=dict)
    bounds: dict[str, int] = field(default_factory=dict)

    @property
    def service(self) -> Solward:
        return self.api.service

    async def prepare(self) -> None:
        self.favourite = self.chance.choice(sorted(DECIMALS))
        made = await self.service.wallets.create("sequence")
        self.wallet, self.address = made.id, made.address
        for _ in range(3):
            await self._as_admin("airdrop", amount=2)
        for token, amount in (("USDC", "1"), ("BONK", "0.5")):
            await self._as_admin(
                "swap", inputToken="SOL", outputToken=token, amount=Decimal(amount)
            )
            self.mints[token] = self.service.tokens.resolve(token, "mint")
        ids = []
        for number in range(2):
            secret, own_id = await self.api.key(
                name=f"key {number}",
                walletId=self.wallet,
                rateLimit=1_000_000,
                spendingLimitSol=self.chance.choice((0, 2, 2, 2, 2)),
            )
            self.keys.append(secret)
            ids.append(f"key:{own_id}")
        for number in range(2):
            agent = await self.service.agents.create(agent_body(self.wallet, name=f"a{number}"))
            self.agents.append(agent.id)
            ids.append(f"agent:{agent.id}")
            async with self.service.database.write() as connection:
                fields = {"desired_state": "running", "status": "running"}
                await agent_store.update_agent(connection, agent.id, fields)
        # What was sold for the tokens stays out of the windows of what is judged below.
        for who in (*ids, *([f"wallet:{self.wallet}"] if self.chance.random() < 0.2 else [])):
            grants = [self._grant() for _ in range(self.chance.choice((1, 1, 2)))]
            unique = list({jsontext.dumps(each): each for each in grants}.values())
            answer = await self.api.call("PUT", f"/policy/{who}", {"grants": unique})
            assert answer.status == 200, answer.text
        limits = (await self.api.get(f"/wallets/{self.wallet}/limits")).json
        leaving = limits["canLeave"]["assets"]
        for asset in ("SOL", "COSTS", "USDC", "BONK"):
            said = leaving.get(asset)
            # An asset that no grant names may not leave at all.
            most = "0" if said is None else said["most"]
            assert most is not None, leaving
            self.bounds[asset] = int(Decimal(most).scaleb(DECIMALS.get(asset, 9)))

    async def _as_admin(self, operation: str, **params: Any) -> None:
        await self.service.operations.perform(operation, self.wallet, ADMIN, params)

    def _grant(self) -> dict[str, Any]:
        chance = self.chance
        assets = {}
        named = {self.favourite, *chance.sample(sorted(DECIMALS), chance.randint(1, 2))}
        # Else two that say the same may differ as text.
        for asset in sorted(named):
            most = {"SOL": "0.5", "USDC": "10", "BONK": "50000"}[asset]
            limit: dict[str, Any] = {"per": {"24h": most}}
            if chance.random() < 0.5:
                limit["perTx"] = most
            assets[asset] = limit
        may = {"transfer", *chance.sample(["swap", "burn", "wrap"], chance.randint(1, 3))}
        grant: dict[str, Any] = {"may": sorted(may), "assets": assets}
        if chance.random() < 0.1:
            grant["to"] = list(STRANGERS[:2])
        return grant

    def call(self) -> Awaitable[object]:
        """Some call of some caller."""
        ways: list[Callable[[str, dict[str, Any]], Awaitable[object]]] = [
            self._by_route,
            self._by_skill,
            self._by_mcp,
            self._by_model,
            self._by_chat,
        ]
        (way,) = self.chance.choices(ways, (3, 3, 3, 3, 1))
        return way(*self._order())

    def _order(self) -> tuple[str, dict[str, Any]]:
        chance = self.chance
        token = chance.choice(("USDC", "BONK"))
        if self.favourite != "SOL" and chance.random() < 0.7:
            token = self.favourite
        units = 1 if token == "USDC" else 5_000
        amount = Decimal(chance.choice(("0.1", "3", "6", "9", "20"))) * units
        sol = Decimal(chance.choice(("0.05", "0.2", "0.4", "0.6")))
        to = chance.choice(STRANGERS)
        if chance.random() < 0.6:
            if self.favourite == "SOL":
                return "transfer", {"to": to, "amount": sol}
            return "transfer_token", {"mint": token, "to": to, "amount": amount}
        return chance.choice(
            [
                ("transfer", {"to": to, "amount": sol}),
                ("transfer_token", {"mint": token, "to": to, "amount": amount}),
                ("transfer_token", {"mint": token, "to": to, "amount": amount}),
                ("burn_tokens", {"mint": token, "amount": amount}),
                ("swap", {"inputToken": token, "outputToken": "SOL", "amount": amount}),
                ("swap", {"inputToken": "SOL", "outputToken": token, "amount": sol}),
                ("wrap_sol", {"amount": sol}),
                ("unwrap_sol", {}),
            ]
        )

    async def _by_route(self, skill: str, params: dict[str, Any]) -> object:
        paths = {"transfer_token": "token-transfer", "burn_tokens": "burn"}
        path = paths.get(skill, skill.replace("_", "-"))
        token = self.chance.choice(self.keys)
        return await self.api.post(f"/wallets/{self.wallet}/{path}", params, token=token)

    async def _by_skill(self, skill: str, params: dict[str, Any]) -> object:
        token = self.chance.choice(self.keys)
        return await self.api.post(f"/wallets/{self.wallet}/skills/{skill}", params, token=token)

    async def _by_mcp(self, skill: str, params: dict[str, Any]) -> object:
        message = {
            "jsonrpc": "2.0",
            "id": 1,
            "method": "tools/call",
            "params": {"name": skill, "arguments": params},
        }
        answer = await self.api.app.test_client().open(
            "/mcp",
            method="POST",
            headers={
                "Accept": "application/json, text/event-stream",
                "Content-Type": "application/json",
                "Authorization": f"Bearer {self.chance.choice(self.keys)}",
            },
            data=jsontext.dumps(message).encode(),
        )
        assert answer.status_code == 200
        return answer

    async def _by_model(self, skill: str, params: dict[str, Any]) -> object:
        own_id = self.chance.choice(self.agents)
        scripted = Scripted(calls(skill, params))
        parts = replace(self.service.agents.parts, provider=lambda _agent: scripted.complete)
        agent = await self.service.agents.get(own_id)
        return await run_cycle(own_id, agent.cycle_no, parts)

    async def _by_chat(self, skill: str, params: dict[str, Any]) -> object:
        own_id, token = self.chance.choice(self.agents), self.chance.choice(self.keys)
        message = f"Call {skill} with {params} at once."
        return await self.api.post(f"/agents/{own_id}/chat", {"message": message}, token=token)

    async def left(self) -> Counter[str]:
        """asset -> units that left, by what the ledger kept of each transaction, gross."""
        found: Counter[str] = Counter()
        for record in await self.service.history.newest(self.wallet, limit=500):
            if record.signature is None or record.principal == "admin":
                continue
            landed = await self.service.ledger.transaction(record.signature)
            if landed is not None:
                found.update(self._lost(landed))
        return found

    def _lost(self, landed: dict[str, Any]) -> Counter[str]:
        meta, lost = landed["meta"], Counter[str]()
        addresses = landed["transaction"]["message"]["accountKeys"]
        loaded = meta.get("loadedAddresses") or {}
        addresses = [*addresses, *loaded.get("writable", ()), *loaded.get("readonly", ())]
        own = {addresses.index(self.address)}
        tokens: Counter[str] = Counter()
        for sign, entries in ((1, meta["preTokenBalances"]), (-1, meta["postTokenBalances"])):
            for entry in entries:
                if entry["owner"] == self.address:
                    own.add(entry["accountIndex"])
                    tokens[entry["mint"]] += sign * int(entry["uiTokenAmount"]["amount"])
        lamports = sum(meta["preBalances"][at] - meta["postBalances"][at] for at in own)
        lost["SOL"] = max(0, lamports)
        for symbol, mint in self.mints.items():
            lost[symbol] = max(0, tokens[mint])
        return lost

    async def beyond(self) -> dict[str, tuple[int, int]]:
        """asset -> what left and what may, of each of which more left than may."""
        left = await self.left()
        most = self.bounds | {"SOL": self.bounds["SOL"] + self.bounds["COSTS"]}
        return {asset: (units, most[asset]) for asset, units in left.items() if units > most[asset]}


async def play(api: Api, seed: int) -> tuple[Sequence, dict[str, tuple[int, int]]]:
    sequence = Sequence(api, random.Random(seed))
    await sequence.prepare()
    for _ in range(2):
        await asyncio.gather(*(sequence.call() for _ in range(CALLS // 2)))
    return sequence, await sequence.beyond()


async def check(api: Api, seeds: range) -> None:
    moved = Counter[str]()
    for seed in seeds:
        sequence, beyond = await play(api, seed)
        assert not beyond, (seed, beyond)
        moved.update(asset for asset, units in (await sequence.left()).items() if units)
    # Otherwise nothing was tried.
    assert {"SOL", "USDC", "BONK"} <= moved.keys()


@pytest.mark.more
@promise("hold-routes-beyond")
@pytest.mark.property
async def test_no_asset_leaves_beyond_what_was_said_before(api: Api) -> None:
    await check(api, range(examples(8, least=2)))


@pytest.mark.long
@pytest.mark.parametrize("part", range(5))
async def test_no_asset_leaves_beyond_it_in_150_sequences(api_of_part: Api, part: int) -> None:
    await check(api_of_part, range(100 + 30 * part, 130 + 30 * part))


@promise("no-call-sequence-exceeds")
@pytest.mark.long
@pytest.mark.parametrize("part", range(100))
async def test_no_asset_leaves_beyond_it_in_10000_sequences(api_of_part: Api, part: int) -> None:
    await check(api_of_part, range(10_000 + 100 * part, 10_100 + 100 * part))


@pytest.mark.more
@promise("no-call-sequence-exceeds")
async def test_with_the_reservation_apart_from_the_check_more_leaves(
    api: Api, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The check of the check: charges that are stored after the verdict's transaction."""
    reserve = spending.reserve
    late: list[asyncio.Task[None]] = []

    async def apart(connection: Any, transaction_id: str, *args: Any) -> None:
        async def later() -> None:
            await asyncio.sleep(0.2)
            async with api.service.database.write() as own:
                await reserve(own, transaction_id, *args)

        late.append(asyncio.create_task(later()))

    monkeypatch.setattr(spending, "reserve", apart)
    seed = 0
    while not (beyond := (await play(api, seed))[1]) and seed < 40:
        seed += 1
    await asyncio.gather(*late)
    assert beyond
