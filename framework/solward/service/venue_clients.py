"""The context of each venue plugin: its own client, its secrets, its pools."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, field

import httpx

from solward.operations.venues import Venue
from solward.plugins import Registry
from solward.plugins.folders.storage import ensure_storage
from solward.plugins.loaded import LoadedVenue
from solward.service.cluster import DEMO_POOLS, Cluster, jupiter_headers, jupiter_url
from solward.settings import Settings
from solward.settings.addresses import is_protected
from solward.support.tls import tls_context
from solward.types.errors import ConfigError
from solward.types.ledger import ReadOnlyLedger
from solward.types.manifest import Terms
from solward.types.venue import VenueContext

_JUPITER_ADDRESS = "JUPITER_API_URL"
# The built-in venue that trades only with the pools of a localnet.
_DEMO_MARKET = "demo_market"
_TIMEOUT_S = 15.0


@dataclass(slots=True)
class VenueClients:
    """The HTTP clients of the venues, by plugin and address."""

    settings: Settings
    cluster: Cluster
    _clients: dict[str, httpx.AsyncClient] = field(default_factory=dict)

    async def close(self) -> None:
        """Close every connection, even if closing one of them fails."""
        async with AsyncExitStack() as stack:
            for client in self._clients.values():
                stack.push_async_callback(client.aclose)

    def venues(self, registry: Registry) -> list[Venue]:
        """Return the registry's venues of this network, each with its context.

        Raises:
            ConfigError: a `.env` has the address of Jupiter's API, but not the key.
        """
        others = () if self._is_localnet else (_DEMO_MARKET,)
        return [self._venue(each) for name, each in registry.venues.items() if name not in others]

    @property
    def _is_localnet(self) -> bool:
        return self.cluster.network == "localnet"

    def _venue(self, plugin: LoadedVenue) -> Venue:
        spec, lacks = plugin.spec, None
        pools: tuple[str, ...] = ()
        address = spec.base_url
        headers: Mapping[str, str] = {}
        options: Mapping[str, str] = {}
        is_jupiter = spec.base_url_env == _JUPITER_ADDRESS
        if is_jupiter:
            address, headers = jupiter_url(self.settings), jupiter_headers(self.settings)
            options = {"JUPITER_API": self.settings.jupiter_api}
            if self._is_localnet and self.settings.jupiter_api_url is None:
                lacks = f"set {_JUPITER_ADDRESS}; Jupiter's public API does not serve a localnet"
        try:
            if not is_jupiter:
                address = self._venue_address(plugin)
            pools = self.settings.venue_pools(spec)
            if spec.pools_env is not None and not pools:
                lacks = f"set {spec.pools_env} to the addresses of its pools"
        except ConfigError as error:
            lacks = str(error)
        storage = ensure_storage(self.settings.solward_home, spec.manifest, plugin.distribution)
        # This context is for a venue in this process; a plugin host makes its own context.
        secrets = {env: self.settings.plugin_secret(env) for env in Terms.from_spec(spec).secrets()}
        if spec.name == _DEMO_MARKET:
            pools = DEMO_POOLS
        http = self._client(plugin, address, headers)
        ledger = ReadOnlyLedger(self.cluster.ledger, lambda: None)
        context = VenueContext(http, secrets, storage, ledger, pools, options)
        return Venue(plugin, context, lacks)

    def _venue_address(self, plugin: LoadedVenue) -> str | None:
        spec = plugin.spec
        address = self.settings.address_of(spec)
        if address is None:
            return spec.base_url
        if self.settings.mainnet and not is_protected(address):
            raise ConfigError(
                f"{spec.base_url_env} must be https:// on mainnet, except for a loopback address"
            )
        return address

    def _client(
        self, plugin: LoadedVenue, address: str | None, headers: Mapping[str, str]
    ) -> httpx.AsyncClient:
        """Return a client for each plugin and address: plugins must not share connections."""
        key = f"{plugin.distribution}/{plugin.spec.name} {address}"
        if key not in self._clients:
            client = httpx.AsyncClient(
                base_url=address or "",
                headers=dict(headers),
                timeout=_TIMEOUT_S,
                verify=tls_context(),
            )
            self._clients[key] = client
        return self._clients[key]
