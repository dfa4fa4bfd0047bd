"""Approvals on a real VM and a real database, with a plugin's guardrail that asks a person."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

from tests.support.engine import LIMITS, Bench, open_bench

from solward.operations.approvals import Approvals
from solward.operations.perform import Operations
from solward.plugins.load import ThreadedRule
from solward.plugins.loaded import LoadedGuardrail
from solward.types.errors import Held, KeyRevoked
from solward.types.guardrail import Hold as Ask
from solward.types.guardrail import Intent, TransactionEffects
from solward.types.record import Hold, TransactionRecord
from solward.vault.guardrails.rules import PluginGuardrail
from solward.vault.money.judge.building import PriorityFee
from solward.vault.money.request import Actor
from solward.vault.store import holds as store

KEY = Actor("key:k1", limits=(("key:k1", LIMITS),))
ASKS = "more than a person lets pass"


def asks(_intent: Intent, effects: TransactionEffects) -> Ask | None:
    """Asks a person of whatever leaves."""
    return Ask(ASKS) if effects.outflow is not None and effects.outflow.lines else None


def guardrails(*checks: Callable[..., Any]) -> tuple[PluginGuardrail, ...]:
    return tuple(
        LoadedGuardrail(check.__name__, "rules", "1.0", ThreadedRule(check)) for check in checks
    )


@dataclass(slots=True)
class Desk:
    """A bench, its operations, who asks, and who decides.

    Attributes:
        actors: principal -> as it asks now; a missing one was revoked.
        wallets_of_keys: key id -> the only wallet it may use.
        approvers: principals of keys that were granted to approve.
    """

    bench: Bench
    operations: Operations
    actors: dict[str, Actor] = field(default_factory=lambda: {KEY.principal: KEY})
    wallets_of_keys: dict[str, str] = field(default_factory=dict)
    approvers: set[str] = field(default_factory=set)
    approvals: Approvals = field(init=False)

    def __post_init__(self) -> None:
        self.approvals = self.process("me")

    def process(self, process_id: str, operations: Operations | None = None) -> Approvals:
        """The approvals of a process."""

        async def granted(_connection: Any, principal: str, _wallet_id: str | None) -> bool:
            return principal in self.approvers

        return Approvals(
            database=self.bench.database,
            operations=operations or self.operations,
            actors={kind: partial(self.actor, kind) for kind in ("agent", "key", "schedule")},
            wallet_of_key=self.wallet_of_key,
            process_id=process_id,
            may_approve=granted,
        )

    async def actor(self, kind: str, own_id: str) -> Actor:
        if (principal := f"{kind}:{own_id}") not in self.actors:
            raise KeyRevoked
        return self.actors[principal]

    async def wallet_of_key(self, key_id: str) -> str | None:
        return self.wallets_of_keys.get(key_id)

    async def ask(
        self, amount: Any = 1, actor: Actor = KEY, to: str | None = None, **more: Any
    ) -> TransactionRecord:
        params = {"to": to or self.bench.recipient, "amount": amount}
        actor = replace(actor, **more)
        return await self.operations.perform("transfer", self.bench.wallet.id, actor, params)

    async def held(self, amount: Any = 1, actor: Actor = KEY, **more: Any) -> Hold:
        """Ask for a transfer, which is held."""
        try:
            record = await self.ask(amount, actor, **more)
        except Held as held:
            return held.hold
        raise AssertionError(f"not held: {record}")

    async def paid(self) -> int:
        """Lamports that the recipient has."""
        return await self.bench.lamports(self.bench.recipient)

    async def all(self) -> list[Hold]:
        """Every hold, as stored."""
        async with self.bench.database.read() as connection:
            return await store.list_holds(connection, limit=100)


@asynccontextmanager
async def open_desk(
    tmp_path: Path,
    *,
    rules: Sequence[Callable[..., Any]] = (asks,),
    operations: Mapping[str, Any] | None = None,
    priority_fee: PriorityFee = "auto",
    **options: Any,
) -> AsyncIterator[Desk]:
    """Open everything; the wallet holds 10 SOL, and the price of compute units only rises."""
    rules_of = guardrails(*rules)
    async with open_bench(
        tmp_path, plugin_guardrails=rules_of, priority_fee=priority_fee, **options
    ) as bench:
        price = 10_000

        async def dearer(_method: str, _params: Sequence[Any]) -> Any:
            nonlocal price
            price += price // 3
            return [{"slot": 1, "prioritizationFee": price}]

        bench.wire.faults["getRecentPrioritizationFees"] = dearer
        desk = Desk(bench, bench.operations(**(operations or {})))
        yield desk
        await desk.approvals.close()
