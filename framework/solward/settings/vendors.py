"""Keys and addresses of language model vendors, under the names that the vendors' tools use.

Each field is set by the environment variable of the same name in capitals.
`solward.settings.settings.Settings` has all settings.
"""

from __future__ import annotations

import os
from pathlib import Path

from pydantic import SecretStr
from pydantic_settings import BaseSettings

from solward.settings.addresses import HttpAddress, parts_of, service_address
from solward.settings.variables import env_file_values
from solward.support.base58 import is_address
from solward.telemetry.scrub import conceal
from solward.types.errors import ConfigError
from solward.types.manifest import Terms
from solward.types.provider import ProviderContext, ProviderSpec
from solward.types.venue import VenueSpec

ADDRESS_ENDINGS = ("_BASE_URL", "_API_BASE", "_URL")
"""The endings of third parties' variables for addresses."""
POOLS_ENDING = "_POOLS"
"""The ending of variables for a venue's pools."""


class VendorSettings(BaseSettings):
    """Secrets and addresses of language model providers; each provider gets only its own."""

    openai_api_key: SecretStr | None = None
    openai_base_url: HttpAddress = None
    anthropic_api_key: SecretStr | None = None
    anthropic_api_base: HttpAddress = None
    xai_api_key: SecretStr | None = None
    xai_api_base: HttpAddress = None
    gemini_api_key: SecretStr | None = None
    gemini_api_base: HttpAddress = None

    def provider_context(self, spec: ProviderSpec) -> ProviderContext:
        """Return the values of the secret and the address that a provider declares.

        Raises:
            ConfigError: the value for a third-party provider is not an address.
        """
        base_url = self.address_of(spec)
        return ProviderContext(
            None if spec.secret_env is None else self.plugin_secret(spec.secret_env),
            None if base_url is None else base_url.rstrip("/"),
        )

    def plugin_secret(self, name: str) -> str | None:
        """Return the value of a secret that a plugin declares, None if it is not set. It is read
        from the service's environment, or from the `.env` of its settings."""
        secret = self._read_variable(name)
        if secret is not None:
            conceal([secret])
        return secret

    def address_of(self, spec: ProviderSpec | VenueSpec) -> str | None:
        """Return the address that is configured for a provider or a venue, or None.

        Raises:
            ConfigError: the value of a third party's variable is not an address.
        """
        address = self._read_variable(spec.base_url_env)
        if address is None or str(spec.base_url_env).lower() in VendorSettings.model_fields:
            return address
        # A plugin host gets the value in clear, so no other variable may be read.
        try:
            return service_address(address)
        except ValueError:
            raise ConfigError(
                f"{spec.base_url_env} must be an http:// or https:// address, without credentials"
                " and query"
            ) from None

    def venue_pools(self, spec: VenueSpec) -> tuple[str, ...]:
        """Return the pools that a venue trades with, in their written order.

        Raises:
            ConfigError: a pool is not an address, or appears twice.
        """
        pools = parts_of(self._read_variable(spec.pools_env) or "")
        # A plugin host gets the values in clear, so no other variable may be read or quoted.
        if len(set(pools)) < len(pools) or not all(map(is_address, pools)):
            raise ConfigError(
                f"{spec.pools_env} must be addresses of pools, separated by commas, each once"
            )
        return pools

    def unset(self, terms: Terms) -> tuple[str, ...]:
        """Return the variables of declared secrets that are not set."""
        return tuple(each for each in terms.secrets() if self.plugin_secret(each) is None)

    def configured(self, spec: ProviderSpec) -> bool:
        """Return whether a provider has its key, or needs none."""
        try:
            context = self.provider_context(spec)
        except ConfigError:
            return False
        # A self-hosted model server may need no key.
        return spec.secret_env is None or context.secret is not None or context.base_url is not None

    def _read_variable(self, name: str | None) -> str | None:
        if name is None:
            return None
        field = name.lower()
        if field not in type(self).model_fields:
            # This is a third-party provider's variable (see `allowed_for_providers`).
            return os.environ.get(name) or env_file_values(Path(".env")).get(name) or None
        value = getattr(self, field)
        return value.get_secret_value() if isinstance(value, SecretStr) else value
