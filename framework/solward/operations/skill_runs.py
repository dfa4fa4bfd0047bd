"""Runs of skills on wallets: the context of a run, and its money calls."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

import structlog
from solders.instruction import Instruction

from solward.context import (
    AgentView,
    Build,
    Lifetime,
    MoneyRequest,
    OperationRequest,
    PocketRequest,
    SkillContext,
    TransactRequest,
    WalletView,
)
from solward.database.database import Database
from solward.operations.payments.pay import Payments
from solward.operations.perform import Operations
from solward.operations.plugin_draft import plain
from solward.operations.staking import recorded_stakes
from solward.plugins import Registry, run_skill
from solward.plugins.folders.layout import canonical
from solward.plugins.folders.storage import ensure_storage
from solward.plugins.hooks import run_contained
from solward.plugins.loaded import LoadedSkill
from solward.plugins.state import PluginState
from solward.settings import Settings
from solward.solana.token_list import TokenList
from solward.telemetry.scrub import concealed
from solward.types.entries import Put
from solward.types.errors import SkillError, SolwardError
from solward.types.events import EventBus
from solward.types.ledger import ReadLedger
from solward.types.manifest import Terms
from solward.types.payment import PaidAnswer, PayRequest, max_parts
from solward.types.record import TransactionRecord
from solward.types.skill import Effects
from solward.types.venue import Quote
from solward.vault.custody import Wallet, Wallets
from solward.vault.money.request import Actor


@dataclass(frozen=True, slots=True, kw_only=True)
class SkillRuns:
    """Runs the skills that are loaded.

    Attributes:
        registry: the plugins that are in use now.
    """

    settings: Settings
    database: Database
    ledger: ReadLedger
    tokens: TokenList
    wallets: Wallets
    operations: Operations
    payments: Payments
    plugin_state: PluginState
    registry: Callable[[], Registry]
    events: EventBus

    async def run(
        self,
        name: str,
        params: Any,
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        """Run a skill on a wallet, with validated parameters and a time limit; return its text.

        Raises:
            SkillNotFound: no loaded skill has this name.
            WalletNotFound: no such wallet.
            InvalidRequest: the parameters do not fit the skill's schema.
            SkillError, TransactionError: the skill or the engine refused.
        """
        skill = self.registry().skill(name)
        wallet = await self.wallets.get(wallet_id)
        settings = await self.plugin_state.settings_of(skill)
        called = replace(actor, call=skill.parameters.validate(params))
        context = self.context(skill, wallet, called, agent, settings)
        # Models read the text, so secret settings are removed from it, even those of other skills,
        # because skills of one distribution share a process.
        try:
            return concealed(await run_skill(skill, params, context, emit=self.events.publish))
        except SolwardError as error:
            error.args = tuple(
                concealed(each) if isinstance(each, str) else each for each in error.args
            )
            if isinstance(error, SkillError):
                error.code = concealed(error.code)
            raise

    def context(
        self,
        skill: LoadedSkill,
        wallet: Wallet,
        actor: Actor,
        agent: AgentView | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> SkillContext:
        """Return a skill's context for one run on a wallet.

        Its secrets and folder are for skills in this process; plugin hosts make their own context.
        """
        spec = skill.spec
        via = (f"skill:{spec.name}", f"plugin:{canonical(skill.distribution)}")
        actor = replace(actor, via=(*actor.via, *via))
        return SkillContext(
            wallet=WalletView(wallet.id, wallet.name, wallet.address),
            agent=agent,
            ledger=recorded_stakes(self.ledger, self.database, wallet.id),
            tokens=self.tokens,
            calls=SkillCalls(self.operations, self.payments, wallet.id, actor, spec.effects),
            log=structlog.get_logger(f"solward.skill.{spec.name}"),
            secrets={
                env: self.settings.plugin_secret(env) for env in Terms(spec.manifest).secrets()
            },
            storage=ensure_storage(self.settings.solward_home, spec.manifest, skill.distribution),
            settings=settings,
        )


@dataclass(frozen=True, slots=True)
class SkillCalls:
    """The money calls of one skill run, limited by the actor's rights and the skill's effects.

    This is the service's side of a context: if a skill changes its context's objects, the wallet,
    actor and lifetime used here stay the same.
    """

    operations: Operations
    payments: Payments
    wallet_id: str
    actor: Actor
    effects: Effects
    lifetime: Lifetime = field(default_factory=Lifetime)

    async def money(
        self, asked: MoneyRequest, ordinal: int, remember: Sequence[Put] = ()
    ) -> TransactionRecord | PaidAnswer:
        """Perform a request as money call number `ordinal` of the run."""
        actor, wallet = self._numbered_actor(ordinal, remember), self.wallet_id
        match asked:
            case OperationRequest():
                params = plain(asked.params)
                return await self.operations.perform(asked.operation, wallet, actor, params)
            case TransactRequest():
                return await self.operations.transact(
                    wallet, actor, asked.intent, asked.instructions, asked.wire
                )
            case PocketRequest():
                contained_build = partial(self._run_build, asked.build)
                return await self.operations.use_pocket(
                    wallet, actor, replace(asked, build=contained_build)
                )
            case PayRequest():
                # Only the operator may omit `max`, and a skill never acts as the operator.
                max_parts(asked.max)
                return await self.payments.pay(wallet, actor, asked)

    async def _run_build(self, build: Build, address: str) -> bytes | Sequence[Instruction]:
        # `build` is the skill's own code, which must not run after the call has ended.
        self.lifetime.check()
        return await run_contained(build(address))

    async def quote(self, params: Mapping[str, Any]) -> Quote:
        """Quote a swap; also allowed for a skill that declares READ."""
        self.lifetime.check()
        return await self.operations.quote(plain(params))

    async def keep(self, what: str, **asked: Any) -> Any:
        """Call the plugin's store or history; a skill with READ effects may write to the store."""
        return await self.operations.entries.keep(what, self.wallet_id, self._run_actor(), **asked)

    def _run_actor(self) -> Actor:
        """Return the actor of a call that moves no money, with the checks of a money call."""
        self.lifetime.check()
        # The reservation checks the lifetime again, because the run may end before that.
        return replace(self.actor, checks=(*self.actor.checks, self.lifetime.check))

    def _numbered_actor(self, ordinal: int, remember: Sequence[Put]) -> Actor:
        """Return a money call's actor, whose number prevents a second payment by a repeat."""
        self.lifetime.check()
        if self.effects is not Effects.SPEND:
            raise SkillError("read_only", "This skill declares READ and may not transact")
        self.operations.entries.bounds.check_values(remember)
        actor = replace(self._run_actor(), remember=tuple(remember))
        if actor.action_key is None:
            return actor
        return replace(actor, action_key=f"{actor.action_key}:{ordinal}")
