"""One process of the service: its parts are opened in order and closed in reverse order.

The order is home lock, plugins, database, keys, ledger, reconciliation; serving starts after that.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType

from solward.support.extras import needs

with needs(__name__, "up"):
    import structlog
    from solders.account import Account
    from solders.pubkey import Pubkey

from solward.agents.cycle import PhaseHook
from solward.agents.service import AgentService
from solward.credentials.credentials import Credentials
from solward.credentials.rates import Limiter, limiter
from solward.database.database import Database
from solward.database.ledger_network import bind_network, check_network
from solward.hosts.models import ModelHosts
from solward.hosts.plugins import plugin_hosts, shared_zygote
from solward.notify.alerts import AlertWebhook, Watch
from solward.notify.chats import HoldMessages, chats_of
from solward.notify.deliveries import Pace
from solward.notify.webhook import Webhook
from solward.operations.approvals import Approvals, sweeping
from solward.operations.key_callers import KeyCallers
from solward.operations.payments.pay import Payments
from solward.operations.payments.requests import Sites
from solward.operations.perform import Operations
from solward.operations.policies.changes import may_approve
from solward.operations.policies.documents import Policies
from solward.operations.skill_runs import SkillRuns
from solward.operations.swap import SwapLimits
from solward.plugins import Registry
from solward.plugins.folders.layout import keep_folders
from solward.plugins.state import PluginSettings, PluginState
from solward.runner import no_hook as no_run_hook
from solward.schedules.runs import ScheduleHook
from solward.schedules.service import ScheduleService
from solward.service.cluster import Localnet, open_cluster
from solward.service.history import History
from solward.service.holdings import Display, Holdings
from solward.service.limits import FreezeSwitches, engine_options, wallet_limits
from solward.service.live_plugins import LivePlugins
from solward.service.retention import MB, hourly_retention
from solward.service.token_refresh import listed_tokens
from solward.service.totals import Totals
from solward.service.venue_clients import VenueClients
from solward.settings import Settings
from solward.settings.home import Home
from solward.solana.programs import CLOCK_SYSVAR
from solward.solana.stakes import unix_time
from solward.solana.token_list import TokenList
from solward.support.tasks import in_background
from solward.types.errors import LedgerError, LedgerUnavailable
from solward.types.events import EventBus
from solward.vault.custody import Wallets
from solward.vault.ledger.client import Ledger
from solward.vault.money.engine import Engine
from solward.vault.money.judge.prices import Prices, PriceSource
from solward.vault.money.send.takeover import Process, hold_lease
from solward.vault.money.steps import StepHook, no_hook

# Long enough to settle everything if the ledger answers; short enough to start without a ledger.
RECONCILE_WAIT_S = 5.0
# The pause between two reads of other processes' events: half the delay that
# docs/reference/events.md states.
EVENTS_POLL_S = 0.25

# The pause between two reads of the ledger's time while it does not answer.
LEDGER_TIME_RETRY_S = 5.0

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Solward:
    """The parts of one process. Open it with `Solward.open`.

    Attributes:
        live: the plugins in use, and the hosts of third parties' plugins.
        keys: API keys, for work that is done for them outside of their requests.
    """

    settings: Settings
    network: str
    database: Database
    ledger: Ledger
    tokens: TokenList
    prices: Prices
    wallets: Wallets
    engine: Engine
    operations: Operations
    payments: Payments
    live: LivePlugins
    plugin_state: PluginState
    skill_runs: SkillRuns
    events: EventBus
    history: History
    display: Display
    holdings: Holdings
    totals: Totals
    switches: FreezeSwitches
    credentials: Credentials
    limiter: Limiter
    keys: KeyCallers
    policies: Policies
    approvals: Approvals
    agents: AgentService
    schedules: ScheduleService
    localnet: Localnet | None
    webhook: Webhook | None
    alert_webhook: AlertWebhook | None
    hold_messages: Sequence[HoldMessages]

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
        """Open every part, reconcile, and resume the agents; close every part at the end.

        Args:
            kind: the process's kind in the database: `api` or `worker`.
            demo: whether to load demo providers too.
            step_hook: called at each point of the money path (tests kill the process there).
            phase_hook: called after each phase of an agent's cycle (for tests too).
            schedule_hook: called after each phase of a schedule's run (for tests too).
            price_sources: the sources of asset prices; None for the network's sources.
            genesis: the contents of a new embedded ledger in addition to its market (tests).

        Raises:
            ConfigError, HomeLocked, KeystoreError, StoreError: a part cannot be opened.
            PluginError: a built-in plugin is broken.
        """
        async with AsyncExitStack() as stack:
            home = stack.enter_context(
                Home.opened(settings.solward_home, shared=settings.shared_database)
            )
            stack.enter_context(keep_folders(home.path))
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
                work = _poll_event_log(events)
                await stack.enter_async_context(in_background(work, "solward-events"))
            wallets = await Wallets.open(database, settings, home.path)
            process = Process.new(kind)
            live = LivePlugins(
                settings, home.path, database, process.id, plugins, models, demo=demo
            )
            await live.load()

            def registry() -> Registry:
                return live.registry

            cluster = await stack.enter_async_context(open_cluster(settings, genesis))
            ledger, network = cluster.ledger, cluster.network

            async def verify_network() -> None:
                await cluster.verify()
                await bind_network(database, settings.solana_network)

            if bound is None:
                # A ledger without an answer is verified and bound before the first transaction.
                with contextlib.suppress(LedgerUnavailable):
                    await verify_network()
            await stack.enter_async_context(
                in_background(_read_ledger_time(ledger, database), "solward-ledger-time")
            )
            tokens = await listed_tokens(database, network)
            webhook = Webhook.from_settings(database, settings)
            url = settings.dashboard_address if settings.dashboard_url else ""
            messages = [
                HoldMessages(database, chat, tokens, url, Pace()) for chat in chats_of(settings)
            ]
            alert_webhook = AlertWebhook.from_settings(database, settings)
            # They start before the first hold can be made, and end after the engine, whose last
            # transactions are still told.
            for sender in (webhook, *messages, alert_webhook):
                if sender is not None:
                    await stack.enter_async_context(sender.delivering())
            prices = Prices(
                cluster.price_sources if price_sources is None else price_sources,
                max_age_ms=settings.price_max_age_s * 1000,
                # The localnet's market is the only source, so its prices cannot be compared.
                max_spread_bps=settings.price_max_spread_bps,
            )
            stack.push_async_callback(prices.close)
            engine = Engine(
                ledger, database, wallets,
                engine_options(settings, registry(), prices, tokens, network),
                verify_cluster=verify_network, hook=step_hook, process=process,
            )  # fmt: skip
            await stack.enter_async_context(hold_lease(database, engine.process, engine.reconcile))
            stack.push_async_callback(engine.close)
            venues = VenueClients(settings, cluster)
            stack.push_async_callback(venues.close)
            payments = Payments(
                engine=engine,
                database=database,
                wallets=wallets,
                ledger=ledger,
                tokens=tokens,
                network=network,
                sites=Sites(settings.payments_private_sites),
                answers_max_bytes=settings.payment_answers_max_mb * MB,
                localnet_as=settings.payments_localnet_as,
                resource_sites=settings.payments_resource_sites,
            )
            stack.push_async_callback(payments.close)
            payments.use_protocols(registry().payments)
            operations = Operations(
                engine=engine,
                wallets=wallets,
                ledger=ledger,
                tokens=tokens,
                network=network,
                venues=venues.venues(registry()),
                swap_limits=SwapLimits(settings.max_slippage_bps),
                swap_venue=settings.swap_venue,
            )
            credentials = Credentials(database)
            requests = limiter(database)
            policies = Policies(database, tokens, ledger, registry, credentials.names)
            keys = KeyCallers(credentials, requests, policies)
            display = Display(ledger, network)
            holdings = Holdings(
                database=database,
                ledger=ledger,
                display=display,
                wallets=wallets,
                tokens=tokens,
                prices=prices,
            )
            plugin_state = PluginState(registry, wallets, PluginSettings(database))
            skill_runs = SkillRuns(
                settings=settings,
                database=database,
                ledger=ledger,
                tokens=tokens,
                wallets=wallets,
                operations=operations,
                payments=payments,
                plugin_state=plugin_state,
                registry=registry,
                events=events,
            )
            agents = AgentService(
                settings=settings,
                network=network,
                database=database,
                wallets=wallets,
                tokens=tokens,
                policies=policies,
                registry=registry,
                ceilings=wallet_limits(settings),
                balances=holdings.observed,
                run_skill=skill_runs.run,
                hook=phase_hook,
            )
            schedules = ScheduleService(
                database=database,
                wallets=wallets,
                policies=policies,
                registry=registry,
                keys=keys,
                run_skill=skill_runs.run,
                me=process.id,
                hook=schedule_hook,
            )
            approvals = Approvals(
                database=database,
                operations=operations,
                actors={"agent": agents.actor, "key": keys.actor, "schedule": schedules.actor},
                wallet_of_key=keys.wallet_of,
                process_id=process.id,
                may_approve=partial(may_approve, database),
                hook=step_hook,
            )
            if settings.api_key_store == "memory":
                # All API keys end here, before anything can run for one of them.
                for key in await credentials.keys():
                    await keys.revoke(key.id)
            plugins.on_problem = live.add_problem
            stack.push_async_callback(display.close)
            engine.start()
            # On a shared database other processes serve already, so this start need not wait.
            await engine.reconcile(0 if database.shared else RECONCILE_WAIT_S)
            stack.push_async_callback(agents.close)
            await agents.resume()
            await stack.enter_async_context(sweeping(approvals))
            await stack.enter_async_context(hourly_retention(database, settings))

            def use_plugins(registry: Registry) -> None:
                engine.use_guardrails(registry.guardrails)
                operations.use_venues(venues.venues(registry))
                payments.use_protocols(registry.payments)
                skills, problems = len(registry.skills), len(registry.problems)
                _log.info("plugins_loaded", skills=skills, problems=problems)

            live.on_change = use_plugins
            await stack.enter_async_context(live.reloading())
            models.warm(await agents.providers_in_use())
            # Schedules start after all of the above, because their skills may belong to any plugin.
            stack.push_async_callback(schedules.runner.close)
            schedules.runner.start()
            if alert_webhook is not None:
                watch = Watch(
                    database,
                    alert_webhook,
                    display.health,
                    lambda: registry().problems,
                    plugins.crashes,
                    cluster.nodes_away,
                )
                await stack.enter_async_context(watch.watching())
            yield cls(
                settings=settings,
                network=network,
                database=database,
                ledger=ledger,
                tokens=tokens,
                prices=prices,
                wallets=wallets,
                engine=engine,
                operations=operations,
                payments=payments,
                live=live,
                plugin_state=plugin_state,
                skill_runs=skill_runs,
                events=events,
                history=History(database),
                display=display,
                holdings=holdings,
                totals=Totals(database, holdings),
                switches=FreezeSwitches(database, wallets),
                credentials=credentials,
                limiter=requests,
                keys=keys,
                policies=policies,
                approvals=approvals,
                agents=agents,
                schedules=schedules,
                localnet=cluster.localnet,
                webhook=webhook,
                alert_webhook=alert_webhook,
                hold_messages=messages,
            )


async def _poll_event_log(events: EventBus) -> None:
    """Wake event streams regularly, because other processes write events to the log too."""
    while True:
        await asyncio.sleep(EVENTS_POLL_S)
        events.wake()


async def _read_ledger_time(ledger: Ledger, database: Database) -> None:
    """Read the ledger's time once, as soon as the ledger answers, for the windows of limits.

    Later, every judged transaction brings it. Without this read, a service that was stopped for a
    while would report limits and budgets with amounts that have left their windows.
    """
    while True:
        try:
            clock = await ledger.account(CLOCK_SYSVAR)
            database.windows.observe(unix_time(clock) * 1000)
            return
        except LedgerError:
            await asyncio.sleep(LEDGER_TIME_RETRY_S)
