"""One process: its parts opened in order, and what all its interfaces call.

Home lock, plugins, database, keys, ledger, reconciliation; only then may anything be served.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import (
    AsyncIterator,
    Collection,
    Hashable,
    Mapping,
    Sequence,
)
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import MappingProxyType
from typing import Any

from solward.support.extras import needs

with needs(__name__, "up"):
    import structlog
    from solders.account import Account
    from solders.pubkey import Pubkey

from solward.agents.cycle import PhaseHook
from solward.agents.service import AgentService
from solward.audit.log import AuditLog
from solward.context import AgentView, SkillContext, WalletView
from solward.credentials.credentials import Credentials
from solward.credentials.rates import Limiter, limiter
from solward.database.database import Database
from solward.database.ledger_network import bind_network, check_network
from solward.hosts.models import ModelHosts
from solward.hosts.plugins import plugin_hosts, shared_zygote
from solward.notify import deliveries as webhook_store
from solward.notify.alert_watch import Watch
from solward.notify.alert_webhook import AlertWebhook
from solward.notify.webhook import Webhook
from solward.operations.approvals import Approvals, swept
from solward.operations.key_callers import KeyCallers
from solward.operations.payments.pay import Payments
from solward.operations.payments.sites import Sites
from solward.operations.perform import Operations, SkillCalls
from solward.operations.policies.changes import may_approve
from solward.operations.policies.documents import Policies
from solward.operations.policies.grant_report import (
    limits_report,
    wallet_grants,
)
from solward.operations.swap import SwapLimits
from solward.plugins import Registry, run_skill
from solward.plugins.discovery import canonical
from solward.plugins.folders.layout import in_use
from solward.plugins.folders.storage import make_storage, storage_folder
from solward.plugins.loaded import LoadedSkill
from solward.plugins.state import PluginSettings, PluginState
from solward.resources.schedules import ScheduleStatus
from solward.runs.runner import no_hook as no_run_hook
from solward.schedules.journal import Now, ScheduleHook, actor_of, spends
from solward.schedules.service import ScheduleService
from solward.service.cluster import Localnet, open_cluster
from solward.service.display_reads import Display, Shown
from solward.service.history import History
from solward.service.live_plugins import LivePlugins
from solward.service.retention import MB, hourly_retention
from solward.service.token_refresh import read_list
from solward.service.venue_clients import VenueClients
from solward.settings import Settings
from solward.settings.home import Home
from solward.settings.settings import MAINNET
from solward.solana.balances import Balances, balances_of
from solward.solana.stakes import RecordedStakes, Stake, read_stakes
from solward.solana.token_list import TokenList, know_decimals, token_list
from solward.support.tasks import in_background
from solward.telemetry.scrub import concealed
from solward.types.errors import (
    ConfigError,
    InvalidRequest,
    LedgerError,
    LedgerUnavailable,
    NotFound,
    SkillError,
    SkillNotFound,
    SolwardError,
)
from solward.types.events import EventBus
from solward.types.guardrail import SOL
from solward.types.manifest import Terms
from solward.types.money import SOL_DECIMALS
from solward.types.record import ACTION, TransactionRecord
from solward.types.roles import key_principal
from solward.vault.custody import Wallet, Wallets
from solward.vault.grants.dollars import Worth, worth
from solward.vault.guardrails import Policy, ScopeLimits
from solward.vault.ledger.client import Ledger
from solward.vault.ledger.patience import READ_WAIT_S, within
from solward.vault.money.engine import Engine, EngineOptions
from solward.vault.money.judge.prices import Prices, PriceSource
from solward.vault.money.ledger_time import ledger_time_read
from solward.vault.money.request import Actor
from solward.vault.money.send.lease import Process, registered
from solward.vault.money.steps import StepHook, no_hook
from solward.vault.store import spending
from solward.vault.store import transactions as transaction_store
from solward.vault.store.plugin_entries import StoreBounds
from solward.vault.store.spending import FrozenSwitch

# Long enough for a ledger that answers to settle everything, short enough to start without one.
RECONCILE_WAIT_S = 5.0
# Between two looks of event streams for what other processes did: half of what docs/events.md says.
EVENTS_POLL_S = 0.25
# The health route answers within a second, ledger or not.
HEALTH_WAIT_S = 0.7

_log = structlog.get_logger(__name__)


@dataclass(slots=True, kw_only=True)
class Solward:
    """The parts of one process. Open it with `Solward.open`.

    Attributes:
        live: the plugins that are in use, and what third parties' run in.
        models: the processes in which built-in language model providers run.
        keys: API keys, where this process serves requests with them: without, what keys asked for
            and a person approved is carried out by a process that does.
    """

    settings: Settings
    network: str
    database: Database
    ledger: Ledger
    tokens: TokenList
    wallets: Wallets
    engine: Engine
    operations: Operations
    payments: Payments
    live: LivePlugins
    events: EventBus
    audit: AuditLog
    localnet: Localnet | None
    prices: Prices
    models: ModelHosts
    webhook: Webhook | None = None
    alert_webhook: AlertWebhook | None = None
    phase_hook: PhaseHook = no_run_hook
    step_hook: StepHook = no_hook
    schedule_hook: ScheduleHook = no_run_hook
    credentials: Credentials = field(init=False)
    limiter: Limiter = field(init=False)
    keys: KeyCallers = field(init=False)
    agents: AgentService = field(init=False)
    schedules: ScheduleService = field(init=False)
    plugin_state: PluginState = field(init=False)
    display: Display = field(init=False)
    approvals: Approvals = field(init=False)
    policies: Policies = field(init=False)
    history: History = field(init=False)

    def __post_init__(self) -> None:
        self.credentials = Credentials(self.database)
        self.limiter = limiter(self.database)
        self.keys = KeyCallers(self.credentials, self.limiter)
        self.policies = Policies(
            self.database, self.tokens, self.ledger, lambda: self.registry, self.keys.names
        )
        self.display = Display(self.ledger)
        self.history = History(self.database)
        settings = PluginSettings(self.database)
        self.plugin_state = PluginState(lambda: self.registry, self.wallets, settings)
        self.agents = AgentService(
            settings=self.settings,
            network=self.network,
            database=self.database,
            wallets=self.wallets,
            tokens=self.tokens,
            policies=self.policies,
            registry=lambda: self.registry,
            ceilings=wallet_limits(self.settings),
            balances=self.observed_balances,
            run_skill=self.run_skill,
            hook=self.phase_hook,
        )
        self.schedules = self.schedules_due_by(None)
        self.approvals = Approvals(
            database=self.database,
            operations=self.operations,
            actor=self.actor,
            wallet_of_key=self.keys.wallet_of,
            process_id=self.engine.process.id,
            may_approve=partial(may_approve, self.database),
            hook=self.step_hook,
        )

    @classmethod
    @asynccontextmanager
    async def open(
        cls,
        settings: Settings,
        *,
        kind: str = "api",
        demo: bool = False,
        step_hook: StepHook = no_hook,
        phase_hook: PhaseHook = no_run_hook,
        schedule_hook: ScheduleHook = no_run_hook,
        price_sources: Sequence[PriceSource] | None = None,
        genesis: Mapping[Pubkey, Account] = MappingProxyType({}),
    ) -> AsyncIterator[Solward]:
        """Open every part, reconcile, resume the agents; close all of it at the end.

        Args:
            kind: the process's kind in the database: `api` or `worker`.
            demo: load demo providers too.
            step_hook: called at each point of the money path (tests kill the process there).
            phase_hook: called after each phase of an agent's cycle (likewise).
            schedule_hook: called after each phase of a schedule's run (likewise).
            price_sources: who says what assets are worth; None for those of the network.
            genesis: what a new embedded ledger holds beside its market (tests).

        Raises:
            ConfigError, HomeLocked, KeystoreError, StoreError: a part cannot be opened.
            PluginError: a built-in plugin is broken.
        """
        async with AsyncExitStack() as stack:
            home = stack.enter_context(
                Home.opened(settings.solward_home, shared=settings.shared_database)
            )
            stack.enter_context(in_use(home.path))
            zygote = await stack.enter_async_context(shared_zygote())
            plugins = await stack.enter_async_context(
                plugin_hosts(
                    settings.solward_plugins_unconfined,
                    secret=settings.plugin_secret,
                    home=home.path,
                    zygote=zygote,
                )
            )
            models = ModelHosts(
                settings.model_processes,
                settings.models_folder,
                unconfined=settings.solward_plugins_unconfined,
                zygote=zygote,
            )
            stack.push_async_callback(models.close)
            database = await Database.open(settings.database_url, home.path)
            stack.push_async_callback(database.close)
            bound = await check_network(database, settings.solana_network)
            events = EventBus()
            stack.callback(events.close)
            database.on_committed = events.publish_stored
            if database.shared:
                work = _told_by_others(events)
                await stack.enter_async_context(in_background(work, "solward-events"))
            wallets = await Wallets.open(database, settings, home.path)
            process = Process.new(kind)
            live = LivePlugins(
                settings, home.path, database, process.id, plugins, models, demo=demo
            )
            registry = await live.load()
            cluster = await stack.enter_async_context(open_cluster(settings, genesis))

            async def verify_network() -> None:
                await cluster.verify()
                await bind_network(database, settings.solana_network)

            if bound is None:
                # A ledger that is away is verified, and binds it, before the first transaction.
                with contextlib.suppress(LedgerUnavailable):
                    await verify_network()
            await stack.enter_async_context(ledger_time_read(cluster.ledger, database))
            tokens = await listed_tokens(database, cluster.network)
            prices = Prices(
                cluster.price_sources if price_sources is None else price_sources,
                max_age_ms=settings.price_max_age_s * 1000,
                # The localnet's market is one source, which nothing is compared with.
                max_spread_bps=settings.price_max_spread_bps,
            )
            stack.push_async_callback(prices.close)
            engine = Engine(
                cluster.ledger, database, wallets,
                _engine_options(settings, registry, prices, tokens, cluster.network),
                verify_cluster=verify_network, hook=step_hook, process=process,
            )  # fmt: skip
            await stack.enter_async_context(registered(database, engine.process, engine.reconcile))
            stack.push_async_callback(engine.close)
            venues = await stack.enter_async_context(VenueClients(settings, cluster))
            payments = Payments(
                engine=engine,
                database=database,
                wallets=wallets,
                ledger=cluster.ledger,
                tokens=tokens,
                network=cluster.network,
                sites=Sites(settings.payments_private_sites),
                answers_max_bytes=settings.payment_answers_max_mb * MB,
                localnet_as=settings.payments_localnet_as,
                resource_sites=settings.payments_resource_sites,
            )
            stack.push_async_callback(payments.close)
            payments.use_protocols(registry.payments)
            service = cls(
                settings=settings,
                network=cluster.network,
                database=database,
                ledger=cluster.ledger,
                tokens=tokens,
                wallets=wallets,
                engine=engine,
                operations=Operations(
                    engine=engine,
                    wallets=wallets,
                    ledger=cluster.ledger,
                    tokens=tokens,
                    network=cluster.network,
                    venues=venues.venues(registry),
                    swap_limits=SwapLimits(settings.max_slippage_bps),
                    swap_venue=settings.swap_venue,
                ),
                payments=payments,
                live=live,
                events=events,
                audit=AuditLog(database),
                localnet=cluster.localnet,
                prices=prices,
                models=models,
                webhook=Webhook.of(database, settings),
                alert_webhook=AlertWebhook.of(database, settings),
                phase_hook=phase_hook,
                schedule_hook=schedule_hook,
                step_hook=step_hook,
            )
            if settings.api_key_store == "memory":
                # Before anything runs for one of them.
                for key in await service.credentials.keys():
                    await service.revoke_key(key.id)
            plugins.on_problem = live.add_problem
            if service.webhook is not None:
                # Before anything can be held.
                await stack.enter_async_context(service.webhook.delivering())
            if service.alert_webhook is not None:
                await stack.enter_async_context(service.alert_webhook.delivering())
            stack.push_async_callback(service.display.close)
            engine.sender.start()
            # On a shared database other processes serve already, so this start need not wait.
            await engine.reconcile(0 if database.shared else RECONCILE_WAIT_S)
            stack.push_async_callback(service.agents.close)
            await service.agents.resume()
            await stack.enter_async_context(swept(service.approvals))
            await stack.enter_async_context(hourly_retention(database, settings))

            def use_plugins(registry: Registry) -> None:
                engine.use_guardrails(registry.guardrails)
                service.operations.use_venues(venues.venues(registry))
                payments.use_protocols(registry.payments)
                skills, problems = len(registry.skills), len(registry.problems)
                _log.info("plugins_loaded", skills=skills, problems=problems)

            live.on_change = use_plugins
            await stack.enter_async_context(live.watched())
            models.warm(await service.agents.providers_in_use())
            # Skills may be any plugin's, so what is due waits for all of the above.
            stack.push_async_callback(service.schedules.runner.close)
            service.schedules.runner.start()
            if service.alert_webhook is not None:
                watch = Watch(
                    database,
                    service.alert_webhook,
                    service.ledger_health,
                    lambda: live.registry.problems,
                    plugins.crashes,
                    cluster.nodes_away,
                )
                await stack.enter_async_context(watch.watching())
            yield service

    def schedules_due_by(self, now: Now | None) -> ScheduleService:
        """The schedules, due by a clock; see `ScheduleService`."""
        return ScheduleService(
            database=self.database,
            wallets=self.wallets,
            policies=self.policies,
            registry=lambda: self.registry,
            keys=self.keys,
            run_skill=self.run_skill,
            me=self.engine.process.id,
            hook=self.schedule_hook,
            now=now,
        )

    @property
    def registry(self) -> Registry:
        """The plugins that are in use now."""
        return self.live.registry

    async def run_skill(
        self,
        name: str,
        params: Any,
        wallet_id: str,
        actor: Actor,
        agent: AgentView | None = None,
    ) -> str:
        """Run a skill on a wallet, parameters validated and time limited; returns its text.

        Raises:
            SkillNotFound: no loaded skill has this name.
            WalletNotFound: no such wallet.
            InvalidRequest: the parameters do not fit the skill's schema.
            SkillError, TransactionError: the skill's or the engine's refusal.
        """
        skill = self.registry.skills.get(name)
        if skill is None:
            raise SkillNotFound(name, sorted(self.registry.skills))
        wallet = await self.wallets.get(wallet_id)
        settings = await self.plugin_state.settings_of(skill)
        called = replace(actor, call=skill.validate(params))
        context = self.skill_context(skill, wallet, called, agent, settings)
        # Models read what it says: no secret that a skill was given by its settings goes there, and
        # skills of one distribution share a process.
        try:
            return concealed(await run_skill(skill, params, context, emit=self.events.publish))
        except SolwardError as error:
            error.args = tuple(
                concealed(each) if isinstance(each, str) else each for each in error.args
            )
            if isinstance(error, SkillError):
                error.code = concealed(error.code)
            raise

    def skill_context(
        self,
        skill: LoadedSkill,
        wallet: Wallet,
        actor: Actor,
        agent: AgentView | None = None,
        settings: Mapping[str, Any] = MappingProxyType({}),
    ) -> SkillContext:
        """A skill's context for one run on a wallet.

        Its secrets and its folder are for a skill that runs in this process; a plugin host has a
        context of its own.
        """
        spec, storage = skill.spec, None
        via = (f"skill:{spec.name}", f"plugin:{canonical(skill.distribution)}")
        actor = replace(actor, via=(*actor.via, *via))
        if spec.manifest is not None and spec.manifest.storage_mb:
            storage = storage_folder(self.settings.solward_home, canonical(skill.distribution))
            if storage is not None:
                make_storage(storage)
        return SkillContext(
            wallet=WalletView(wallet.id, wallet.name, wallet.address),
            agent=agent,
            ledger=self._recorded_stakes(wallet.id),
            tokens=self.tokens,
            calls=SkillCalls(self.operations, self.payments, wallet.id, actor, spec.effects),
            log=structlog.get_logger(f"solward.types.skill.{spec.name}"),
            secrets={
                env: self.settings.plugin_secret(env) for env in Terms(spec.manifest).secrets()
            },
            storage=storage,
            settings=settings,
        )

    async def balances(self, wallet_id: str, *, empty: bool = False) -> Balances:
        """A wallet's SOL and tokens; `empty` includes token accounts that hold nothing.

        Raises:
            WalletNotFound, LedgerError.
        """
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.wallet(wallet.address), empty=empty)

    async def observed_balances(self, wallet_id: str, mark: Hashable) -> Balances:
        """As `balances`, for an agent's cycle; see `Display.observed`."""
        wallet = await self.wallets.get(wallet_id)
        with within(READ_WAIT_S):
            return self._balances(await self.display.observed(wallet.address, mark))

    def _balances(self, shown: Shown, *, empty: bool = False) -> Balances:
        return balances_of(shown.lamports, shown.holdings, self.tokens, empty=empty)

    async def worth(self, balances: Balances) -> Worth:
        """What a wallet holds, in dollars, as far as the price sources know."""
        holdings = {SOL: (balances.lamports, SOL_DECIMALS)} | {
            token.mint: (token.units, token.decimals) for token in balances.tokens
        }
        return worth(holdings, await self.prices.prices(holdings))

    async def stakes(self, wallet_id: str) -> tuple[tuple[Stake, ...], bool]:
        """A wallet's stake accounts, and whether these are all: where no RPC provider lists them,
        they are those that the wallet's records name and the ledger has.

        Raises:
            WalletNotFound, LedgerError.
        """
        wallet = await self.wallets.get(wallet_id)
        ledger = self._recorded_stakes(wallet_id)
        with within(READ_WAIT_S):
            return await read_stakes(ledger, wallet.address), ledger.complete

    def _recorded_stakes(self, wallet_id: str) -> RecordedStakes:
        async def recorded() -> Sequence[str]:
            async with self.database.read() as connection:
                return await transaction_store.stake_accounts(connection, wallet_id)

        return RecordedStakes(self.ledger, recorded)

    async def record_of(self, name: str) -> TransactionRecord:
        """The record that an Idempotency-Key stands for: a transaction's id, or `Hold.action`.

        Raises:
            Held: it is a hold that is open.
            NotFound: there is none.
        """
        if not name.startswith(ACTION):
            return await self.history.record(name)
        record = await self.engine.end_of_hold(name.removeprefix(ACTION))
        if record is None:
            raise NotFound("Transaction not found")
        return record

    async def payment_of(self, name: str) -> str | None:
        """The payment that an Idempotency-Key stands for, by its transaction's id; None where a
        person approved it and its caller is to ask again.

        Raises:
            Held: it is a hold that is open.
        """
        if not name.startswith(ACTION):
            return name
        record = await self.engine.end_of_hold(name.removeprefix(ACTION))
        return None if record is None else record.id

    async def actor(self, principal: str) -> Actor | None:
        """An agent, API key or schedule as it would ask for a transaction now, outside of any
        request or run.

        None for any other kind of caller.

        Raises:
            AgentNotFound, KeyRevoked, NotFound: it is gone.
        """
        kind, _, name = principal.partition(":")
        if kind == "agent":
            agent = await self.agents.get(name)
            return Actor(principal, agent_id=agent.id, limits=((principal, agent.limits),))
        if kind == "key":
            return await self.keys.actor(name)
        if kind == "schedule":
            return await actor_of(await self.schedules.get(name), self.keys)
        return None

    async def revoke_key(self, key_id: str) -> None:
        """Delete an API key at once, with its grants and its count of requests; raises
        `NotFound`."""
        await self.credentials.revoke(key_id, is_admins=False)
        await self.limiter.forget(key_id)
        # Last: it is never there without its grants.
        await self.policies.forget(key_principal(key_id))

    async def ledger_health(self) -> dict[str, Any]:
        """`{healthy, network, slot}` of the ledger, within `HEALTH_WAIT_S`."""
        slot = None
        with contextlib.suppress(LedgerError, TimeoutError):
            async with asyncio.timeout(HEALTH_WAIT_S):
                slot = await self.display.slot()
        return {"healthy": slot is not None, "network": self.network, "slot": slot or 0}

    async def webhooks_health(self) -> dict[str, str]:
        """Of each webhook that is set: `ok`, or `failing` while its receiver does not take what it
        is told.

        Raises:
            StoreError: the database cannot be asked.
        """
        senders = [each for each in (self.webhook, self.alert_webhook) if each is not None]
        if not senders:
            return {}
        async with self.database.read() as connection:
            waiting = await webhook_store.waiting(connection)
        failing = {channel for channel, (_, failed) in waiting.items() if failed}
        return {each.channel: "failing" if each.channel in failing else "ok" for each in senders}

    async def wallet_limits(
        self, wallet_id: str, shown: Collection[str] | None = None
    ) -> dict[str, Any]:
        """A wallet's limits, spent and reserved amounts of each, and whether it is frozen; what
        grants leave room for, and the most that can leave it in a day.

        Args:
            shown: the principals whose grants, and whose schedules', are told; None for the wallet
                and all who may use it.
        """
        wallet = await self.wallets.get(wallet_id)
        scope = f"wallet:{wallet.id}"
        async with self.database.read() as connection:
            frozen = await spending.freeze_reason(connection, wallet.id) is not None
        ceilings = wallet_limits(self.settings)
        report = await limits_report(self.database, scope, ceilings)
        callers = [
            (f"agent:{agent.id}", agent.limits) for agent in await self.agents.list(wallet.id)
        ]
        # Those that only read move nothing.
        schedules = [
            each
            for each in await self.schedules.list(wallet.id)
            if each.status is not ScheduleStatus.ENDED
            and spends(self.registry.skills.get(each.skill))
        ]
        callers += [(each.principal, ScopeLimits()) for each in schedules if each.key_id is None]
        of_keys = [each for each in schedules if each.key_id is not None]
        if shown is not None:
            shown = {*shown, *(each.principal for each in of_keys if each.made_by in shown)}
        keys = await self.keys.of_wallet(wallet.id)
        grants = await wallet_grants(
            self.database,
            self.tokens,
            wallet.id,
            ceilings,
            [*callers, *keys.single],
            shown,
            keys.alike,
            [each.principal for each in of_keys],
        )
        return {"walletId": wallet.id, "frozen": frozen} | report | grants

    async def freeze(self, wallet_id: str | None, reason: str | None = None) -> None:
        """Stop every new transaction of one wallet, or of all; takes effect at once."""
        await self._switch(wallet_id, True, reason)

    async def thaw(self, wallet_id: str | None) -> None:
        """Allow transactions again."""
        await self._switch(wallet_id, False, None)

    async def frozen(
        self, at_most: int
    ) -> tuple[FrozenSwitch | None, tuple[FrozenSwitch, ...], int]:
        """See `spending.frozen_switches`."""
        async with self.database.read() as connection:
            return await spending.frozen_switches(connection, at_most)

    async def _switch(self, wallet_id: str | None, frozen: bool, reason: str | None) -> None:
        scope = spending.SERVICE_SCOPE
        if wallet_id is not None:
            scope = f"wallet:{(await self.wallets.get(wallet_id)).id}"
        async with self.database.write() as connection:
            await spending.set_frozen(connection, scope, frozen, reason)


async def _told_by_others(events: EventBus) -> None:
    """Have event streams read the log again and again: other processes write it, too."""
    while True:
        await asyncio.sleep(EVENTS_POLL_S)
        events.wake()


def wallet_limits(settings: Settings) -> ScopeLimits:
    """The service's limits for each wallet."""
    return ScopeLimits(
        max_lamports_per_tx=settings.max_lamports_per_transaction,
        max_tx_per_minute=settings.max_transactions_per_minute,
        daily_lamports=settings.daily_spending_limit_lamports,
        daily_tokens=settings.token_limits,
        daily_costs_lamports=settings.max_costs_lamports_per_day,
    )


async def listed_tokens(database: Database, network: str) -> TokenList:
    """The symbols of a network: those built in, and the operator's list, whose decimals are known
    from now on. The keystore must be open.

    Raises:
        StoreError: somebody changed the operator's list.
    """
    async with database.read() as connection:
        stored = await read_list(connection, network, database.audit_key)
    if stored is None:
        return token_list(network)
    know_decimals(stored.tokens)
    return token_list(network, stored.tokens)


def regulated_mints(settings: Settings, tokens: TokenList) -> frozenset[str]:
    """The mints of REGULATED_MINTS; raises `ConfigError` for what is neither mint nor symbol."""
    try:
        return frozenset(
            tokens.resolve(text, "REGULATED_MINTS: each") for text in settings.regulated_mints
        )
    except InvalidRequest as error:
        raise ConfigError(str(error)) from None


def _engine_options(
    settings: Settings, registry: Registry, prices: Prices, tokens: TokenList, network: str
) -> EngineOptions:
    return EngineOptions(
        prices=prices,
        tokens=tokens,
        # Elsewhere tokens are worth nothing, and those of the demo's market are made anew.
        listed=frozenset(each.mint for each in tokens) if network == MAINNET else None,
        policy=Policy(
            blocked_addresses=settings.blocked_addresses,
            regulated_mints=regulated_mints(settings, tokens),
            max_price_impact_bps=settings.max_price_impact_bps,
            max_fee_lamports=settings.max_network_fee_lamports,
        ),
        priority_fee=settings.priority_fee,
        transaction_version=settings.transaction_version,
        store_bounds=StoreBounds(
            keys=settings.plugin_store_max_keys,
            value_bytes=settings.plugin_store_max_value_bytes,
            total_bytes=settings.plugin_store_max_bytes,
            writes_a_minute=settings.plugin_store_writes_per_minute,
        ),
        wallet_limits=wallet_limits(settings),
        plugin_guardrails=registry.guardrails,
        hold_ms=settings.hold_expires_s * 1000,
    )
