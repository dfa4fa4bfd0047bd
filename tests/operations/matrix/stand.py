"""One fresh wallet on the whole service, and the three ways to ask something of it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import pytest
from msgspec import structs
from solders.keypair import Keypair
from tests.support.agents import Scripted, agent_body, calls
from tests.support.services import Answer, Api

from solward.agents import store as agent_store
from solward.agents.agent import Decision
from solward.agents.cycle import run_cycle
from solward.operations.perform import Operations
from solward.operations.policies.changes import replace_set
from solward.solana.token_list import known_decimals
from solward.solana.tokens import Mint, read_mint
from solward.support.durations import DAY_MS
from solward.types.errors import LedgerUnavailable
from solward.types.guardrail import Operation
from solward.types.provider import Completion, CompletionRequest
from solward.vault.grants.model import AssetLimit, Grant, Window, grant_id
from solward.vault.ledger.transport import InProcessTransport
from solward.vault.money.request import ADMIN

SOL = 10**9
FUNDS = 5 * SOL
# MAX_TRANSACTIONS_PER_MINUTE of the service: what a case prepares, and the case itself, fit.
PER_MINUTE = 4

Unplug = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Said:
    """What came back: an HTTP answer, or an agent's decision."""

    text: str
    answer: Answer | None = None
    decision: Decision | None = None


@dataclass(frozen=True, slots=True)
class Stand:
    """A wallet with 5 SOL and no records; what a case prepares goes through `operations`."""

    api: Api
    id: str
    address: str

    @property
    def operations(self) -> Operations:
        return self.api.service.operations

    async def records(self) -> list[Any]:
        """Newest first, as the REST route shows them."""
        return await self.api.records(self.id)

    async def lamports(self, address: str | None = None) -> int:
        return await self.api.service.ledger.balance(address or self.address)

    async def rent(self, size: int) -> int:
        """Lamports of rent that the cluster asks now for an account of `size` bytes."""
        return await self.api.service.ledger.rent_exempt_minimum(size)

    async def units(self, mint: str) -> int:
        """All the wallet holds of a mint."""
        held = await self.api.service.ledger.holdings(self.address)
        return sum(each.units for each in held if each.mint == mint)

    async def accounts(self, mint: str) -> list[str]:
        """The wallet's token accounts of a mint."""
        held = await self.api.service.ledger.holdings(self.address)
        return [each.account for each in held if each.mint == mint]

    async def mint(self, address: str) -> Mint:
        return await read_mint(self.api.service.ledger, address)

    async def launched(self, supply: int = 500) -> str:
        """A token of the wallet's own with 2 decimals; it holds the whole supply."""
        record = await self.operations.perform(
            "launch_token",
            self.id,
            ADMIN,
            {"name": "Case", "symbol": "CASE", "decimals": 2, "initialSupply": supply},
        )
        return str(record.details["mint"])

    async def fill_the_minute(self) -> None:
        """Use every transaction the wallet may still make this minute, and every airdrop."""
        for cents in range(1, 1 + PER_MINUTE - len(await self.records())):
            body = {"to": str(Keypair().pubkey()), "amount": Decimal(cents) / 100}
            await self.operations.perform("transfer", self.id, ADMIN, body)
        for _ in range(PER_MINUTE):
            await self.operations.perform("airdrop", self.id, ADMIN, {"amount": 1})


async def new_stand(api: Api) -> Stand:
    """A wallet funded past the service, so that nothing counts against its limits."""
    wallet = await api.service.wallets.create("case")
    localnet = api.service.localnet
    assert localnet is not None
    await localnet.call("requestAirdrop", [wallet.address, FUNDS])
    return Stand(api, wallet.id, wallet.address)


def stranger() -> str:
    """An address nobody has used."""
    return str(Keypair().pubkey())


@contextmanager
def unplugged() -> Iterator[Unplug]:
    """Gives a function that leaves every ledger call unanswered until the block ends."""

    async def away(_self: object, method: str, _params: Sequence[Any]) -> Any:
        raise LedgerUnavailable(f"The ledger did not answer {method}")

    with pytest.MonkeyPatch.context() as patch:
        yield lambda: patch.setattr(InProcessTransport, "call", away)


@dataclass(slots=True)
class Glitch:
    """Leaves one ledger call unanswered, the one after `answered` others; `method` is its name."""

    answered: int
    method: str | None = None

    @contextmanager
    def on(self) -> Iterator[None]:
        call, left = InProcessTransport.call, self.answered

        async def counted(transport: InProcessTransport, method: str, params: Sequence[Any]) -> Any:
            nonlocal left
            # What is handed over again takes seconds, and the engine's own tests cut that off.
            if method == "sendTransaction":
                return await call(transport, method, params)
            left -= 1
            if left == -1:
                self.method = method
                raise LedgerUnavailable(f"The ledger did not answer {method}")
            return await call(transport, method, params)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(InProcessTransport, "call", counted)
            yield


def connected() -> None:
    """Leave the ledger as it is."""


async def by_rest(
    stand: Stand, method: str, path: str, params: Mapping[str, Any], unplug: Unplug = connected
) -> Said:
    """Through the route of the contract."""
    unplug()
    body = None if method == "GET" else dict(params)
    answer = await stand.api.call(method, f"/wallets/{stand.id}{path}", body)
    return Said(answer.text if answer.status == 200 else answer.error, answer)


async def by_skill(
    stand: Stand, skill: str, params: Mapping[str, Any], unplug: Unplug = connected
) -> Said:
    """Through `POST /wallets/:id/skills/:name`."""
    unplug()
    answer = await stand.api.post(f"/wallets/{stand.id}/skills/{skill}", dict(params))
    return Said(str(answer.json["result"]) if answer.status == 200 else answer.error, answer)


async def _grant_transfers(stand: Stand, agent_id: str, mint: str) -> None:
    """Without a grant an agent transfers no token."""
    decimals = known_decimals(mint)
    if decimals is None:
        decimals = (await stand.mint(mint)).decimals
    day = AssetLimit(mint, decimals, (Window(DAY_MS, 10**12),))
    who = f"agent:{agent_id}"
    grant = Grant("", who, frozenset({Operation.TRANSFER}), assets={mint: day})
    grant = structs.replace(grant, id=grant_id(grant))
    await replace_set(stand.api.service.database, who, [grant])


async def by_agent(
    stand: Stand, skill: str, params: Mapping[str, Any], unplug: Unplug = connected
) -> Said:
    """Through one cycle of an agent whose model calls the skill; what is unplugged goes away
    while the model thinks, for without a ledger there would be nothing to think about."""
    service = stand.api.service
    agent = await service.agents.create(agent_body(stand.id))
    if skill == "transfer_token" and "mint" in params:
        await _grant_transfers(stand, agent.id, params["mint"])
    async with service.database.write() as connection:
        await agent_store.update_agent(connection, agent.id, {"desired_state": "running"})
    scripted = Scripted(calls(skill, dict(params)))

    async def complete(request: CompletionRequest) -> Completion:
        assert skill in {tool.name for tool in request.tools}
        unplug()
        return await scripted.complete(request)

    def provider(_agent: object) -> Callable[[CompletionRequest], Awaitable[Completion]]:
        return complete

    await run_cycle(agent.id, 1, replace(service.agents.parts, provider=provider))
    [decision] = await service.agents.decisions(agent.id)
    assert (decision.action or "").startswith(f"{skill}(")
    # What a skill says is the cycle's outcome and never the cycle's failure.
    assert (await service.agents.get(agent.id)).failures == 0
    return Said(decision.outcome, decision=decision)
