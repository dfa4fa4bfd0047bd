"""What the checks look at: the settings, and the parts of the product opened from them, once."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from solward.types.errors import StoreError

if TYPE_CHECKING:
    from types import TracebackType

    from solward.database.database import Database
    from solward.operations.venues import Venue
    from solward.plugins import Registry
    from solward.service.cluster import Cluster
    from solward.settings import Settings


class EmptyDatabase(StoreError):
    """No service made the database's tables yet."""


@dataclass(slots=True)
class Subject:
    """The service that these settings describe; nothing of it is written, and it may be running.

    Attributes:
        spends: whether language models may be asked, which costs tokens.
        real: an address of the settings -> the one that it stands for (see `recording`).
    """

    settings: Settings
    spends: bool = False
    real: Mapping[str, str] = field(default_factory=dict, repr=False)
    _stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    _database: Database | None = None
    _cluster: Cluster | None = None
    _registry: Registry | None = None
    _venues: list[Venue] | None = None

    async def __aenter__(self) -> Subject:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self._stack.aclose()

    def real_url(self, url: str) -> str:
        """The address that is asked in the end; may hold a key."""
        return self.real.get(url.rstrip("/"), url)

    @property
    def is_embedded(self) -> bool:
        """Whether the ledger is the service's own, which nobody else can ask."""
        return not self.settings.rpc_urls

    async def database(self) -> Database:
        """The service's database, for reading.

        Raises:
            ConfigError, StoreError: there is none, or it cannot be read.
            EmptyDatabase: no service made its tables yet.
            OtherSchema: another version made them.
        """
        from solward.database.database import Database
        from solward.database.schema import has_schema

        if self._database is None:
            opened = Database.inspect(self.settings.database_url, self.settings.solward_home)
            self._stack.push_async_callback(opened.close)
            async with opened.read() as connection:
                if not await has_schema(connection):
                    raise EmptyDatabase("the database is empty")
            self._database = opened
        return self._database

    async def wallets(self) -> list[dict[str, Any]]:
        """The rows of the service's wallets, oldest first; none where there is no database yet."""
        from solward.vault.store.wallets import list_wallets

        try:
            async with (await self.database()).read() as connection:
                return list(await list_wallets(connection))
        except StoreError:
            return []

    async def agents(self) -> list[dict[str, Any]]:
        """The rows of the service's agents, oldest first; none where there is no database yet."""
        from solward.agents.store.agents import list_agents

        try:
            async with (await self.database()).read() as connection:
                return await list_agents(connection)
        except StoreError:
            return []

    async def cluster(self) -> Cluster:
        """The cluster behind SOLANA_RPC_URL, opened as the service opens it.

        Raises:
            ConfigError: it is not the network of the settings.
        """
        from solward.service.cluster import open_cluster

        if self._cluster is None:
            self._cluster = await self._stack.enter_async_context(open_cluster(self.settings))
        return self._cluster

    async def venues(self) -> list[Venue]:
        """The venues, each with the client and the address that the service gives it.

        Raises:
            ConfigError, PluginError: as `cluster` and `registry`.
        """
        from solward.service.venue_clients import VenueClients

        if self._venues is None:
            clients = VenueClients(self.settings, await self.cluster())
            await self._stack.enter_async_context(clients)
            self._venues = clients.venues(await self.registry())
        return self._venues

    async def registry(self) -> Registry:
        """The plugins, loaded as the service loads them: third parties' in plugin hosts.

        Raises:
            PluginError: a built-in plugin is broken.
        """
        from solward.hosts.models import ModelHosts
        from solward.hosts.plugins import plugin_hosts, shared_zygote
        from solward.plugins import open_registry

        if self._registry is None:
            settings = self.settings
            unconfined = settings.solward_plugins_unconfined
            zygote = await self._stack.enter_async_context(shared_zygote())
            hosts = await self._stack.enter_async_context(
                plugin_hosts(
                    unconfined,
                    secret=settings.plugin_secret,
                    home=settings.solward_home,
                    zygote=zygote,
                )
            )
            models = ModelHosts(1, settings.models_folder, unconfined=unconfined, zygote=zygote)
            self._stack.push_async_callback(models.close)
            self._registry = await open_registry(
                settings.plugins, hosts=hosts, models=models, home=settings.solward_home
            )
        return self._registry
