"""A process for agents without a ledger: a real store, a provider and a skill as a test says."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Hashable, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

from sqlalchemy import insert, select
from tests.support.agents import ADDRESS, agent_body

from solward.agents.cycle import no_hook
from solward.context import AgentView
from solward.database.database import Database
from solward.database.tables import wallets
from solward.plugins.parameters import Parameters
from solward.solana.balances import Balances
from solward.solana.token_list import TokenList
from solward.types.errors import WalletNotFound
from solward.types.events import Event
from solward.types.provider import (
    Completion,
    CompletionRequest,
    ModelPrice,
    ProviderContext,
    ProviderSpec,
    Usage,
)
from solward.types.skill import Effects
from solward.vault.money.request import Actor

OPTIONS = {
    "type": "object",
    "properties": {"effort": {"type": "string"}},
    "additionalProperties": False,
}
BODY = agent_body("w1", "scripted", strategy="Whatever the script says.")


class Host:
    """A process with a real store; its provider and its one skill do as the test says."""

    def __init__(self, database: Database) -> None:
        self.database = database
        self.network = "localnet"
        self.settings = SimpleNamespace(
            max_lamports_per_transaction=2 * 10**9,
            max_transactions_per_minute=5,
            daily_spending_limit_lamports=10 * 10**9,
            default_llm_provider="scripted",
            default_llm_model="model-2",
            provider_context=lambda spec: self.lent,
            configured=lambda spec: (
                spec.secret_env is None
                or self.lent.secret is not None
                or self.lent.base_url is not None
            ),
        )
        self.lent = ProviderContext("key")
        self.phase_hook = no_hook
        self.published: list[tuple[str, Any]] = []
        database.on_committed = self._tell
        self.wallets = SimpleNamespace(get=self._wallet, create=self._create_wallet)
        self.requests: list[CompletionRequest] = []
        self.asked: list[tuple[dict[str, Any], ProviderContext]] = []
        self.answer: Callable[[], Any] = lambda: Completion("Waiting.")
        self.price: ModelPrice | Exception | None = None
        self.pay: Callable[[], Any] = lambda: "Paid."
        self.paid: list[str | None] = []
        self.decided = asyncio.Semaphore(0)
        provider = SimpleNamespace(
            spec=ProviderSpec("scripted", "model-1", {"type": "object"}, "SCRIPTED_KEY"),
            complete=self._complete,
            stream=self._stream,
            price=self._price,
            validate_options=Parameters(OPTIONS).validate,
        )
        self.tokens = TokenList(())
        self.registry = SimpleNamespace(
            providers={"scripted": provider},
            skills={"pay": SimpleNamespace(spec=SimpleNamespace(effects=Effects.SPEND))},
            tools=lambda: (),
        )

    def _tell(self, events: Sequence[Event]) -> None:
        for event in events:
            self.published.append((event.event, event.data))
            if event.event == "agent:decision":
                self.decided.release()

    async def _price(self, model: str, options: Any) -> ModelPrice | None:
        if isinstance(self.price, Exception):
            raise self.price
        return self.price

    def think_for_ever(self) -> asyncio.Event:
        """Let the provider never answer; the event is set once it is called."""
        thinking = asyncio.Event()

        async def think() -> Completion:
            thinking.set()
            await asyncio.Event().wait()
            raise AssertionError

        self.answer = think
        return thinking

    def hold_payment(self) -> tuple[asyncio.Event, asyncio.Event]:
        """Let the skill wait: the first event is set once it runs, the second lets it go on."""
        paying, go = asyncio.Event(), asyncio.Event()

        async def pay() -> str:
            paying.set()
            await go.wait()
            return "Paid."

        self.pay = pay
        return paying, go

    async def decisions(self, number: int) -> None:
        """Wait until `number` more cycles have been remembered."""
        async with asyncio.timeout(10):
            for _ in range(number):
                await self.decided.acquire()

    async def _wallet(self, wallet_id: str) -> Any:
        async with self.database.read() as connection:
            row = (
                await connection.execute(select(wallets).where(wallets.c.id == wallet_id))
            ).first()
        if row is None:
            raise WalletNotFound
        return SimpleNamespace(id=row.id, name=row.name, address=row.public_key)

    async def _create_wallet(self, name: str) -> Any:
        await agents_wallet(self.database, f"id-of-{name}", name, f"{ADDRESS}{name}")
        return await self._wallet(f"id-of-{name}")

    async def _stream(self, *asked: Any, **lent: Any) -> AsyncIterator[str | Usage]:
        completion = await self._complete(*asked, **lent)
        for word in (completion.text or "").split():
            yield word
        if completion.usage is not None:
            yield completion.usage

    async def _complete(
        self, request: CompletionRequest, options: Any, context: ProviderContext
    ) -> Completion:
        self.requests.append(request)
        self.asked.append((dict(options), context))
        answer = self.answer()
        if asyncio.iscoroutine(answer):
            answer = await answer
        if isinstance(answer, Exception):
            raise answer
        return answer  # type: ignore[no-any-return]

    async def observed_balances(self, wallet_id: str, mark: Hashable) -> Balances:
        return Balances(10**9, ())

    async def run_skill(
        self,
        name: str,
        params: Mapping[str, Any],
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        self.paid.append(actor.action_key)
        outcome = self.pay()
        return str(await outcome if asyncio.iscoroutine(outcome) else outcome)


async def agents_wallet(
    database: Database, wallet_id: str = "w1", name: str = "demo", address: str = ADDRESS
) -> None:
    """A wallet's row; without its id that of the wallet `BODY` names."""
    async with database.write() as connection:
        await connection.execute(
            insert(wallets).values(
                id=wallet_id, name=name, public_key=address, tags=[], created_ms=0, kek_version=1,
                wrapped_data_key=b"", sealed_key=b"",
            )
        )  # fmt: skip
