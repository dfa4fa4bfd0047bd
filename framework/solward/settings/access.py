"""Addresses and secrets of the API and the dashboard, for the servers and their clients.

Each field is set by the environment variable of the same name in capitals.
`solward.settings.settings.Settings` has all settings.
"""

from __future__ import annotations

from pydantic import Field, SecretStr
from pydantic_settings import BaseSettings

from solward.settings.addresses import ServiceAddress, is_loopback
from solward.types.errors import ConfigError

# It is public, because it is in this source: only for loopback addresses and test networks.
DEVELOPMENT_SECRET = "solward-development-secret-change-me"  # noqa: S105 - it is meant to be known

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to call, not to listen


class AccessSettings(BaseSettings):
    """Addresses of the API and the dashboard, for servers and clients, and their secrets."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(3001, ge=0, le=65535)
    api_secret: SecretStr = SecretStr(DEVELOPMENT_SECRET)
    solward_api_url: ServiceAddress = None
    solward_api_key: SecretStr | None = None

    next_public_api_url: ServiceAddress = None
    next_public_api_secret: SecretStr | None = None
    dashboard_host: str = "127.0.0.1"
    dashboard_port: int = Field(3000, ge=0, le=65535)
    dashboard_password: SecretStr | None = None
    dashboard_url: ServiceAddress = None

    @property
    def client_url(self) -> str:
        """The URL of the service for clients: SOLWARD_API_URL, else API_HOST and API_PORT.

        Raises:
            ConfigError: SOLWARD_API_URL is not set and API_PORT is 0.
        """
        if self.solward_api_url is not None:
            return self.solward_api_url.rstrip("/")
        if self.api_port == 0:
            raise ConfigError("SOLWARD_API_URL must be set if API_PORT is 0")
        return local_url(self.api_host.strip("[]"), self.api_port)

    @property
    def client_token(self) -> str:
        """The clients' secret token: SOLWARD_API_KEY, else API_SECRET."""
        secret = self.api_secret if self.solward_api_key is None else self.solward_api_key
        return secret.get_secret_value()

    @property
    def dashboard_address(self) -> str:
        """The URL of the dashboard for people: DASHBOARD_URL, else its host and port."""
        if self.dashboard_url is not None:
            return self.dashboard_url.rstrip("/")
        return local_url(self.dashboard_host.strip("[]"), self.dashboard_port)

    @property
    def dashboard_api_secret(self) -> str:
        """NEXT_PUBLIC_API_SECRET, else API_SECRET. It never leaves the dashboard's process."""
        secret = self.next_public_api_secret or self.api_secret
        return secret.get_secret_value()

    @property
    def loopback(self) -> bool:
        """True if only this machine can reach API_HOST."""
        return is_loopback(self.api_host)

    @property
    def development_secret(self) -> bool:
        """True if API_SECRET is the public `DEVELOPMENT_SECRET`."""
        return self.api_secret.get_secret_value() == DEVELOPMENT_SECRET


def local_url(host: str, port: int) -> str:
    """Return the URL by which this machine calls a server that listens on `host` and `port`."""
    host = _EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"
