"""Where the API is, and by which secret: for the service that serves it and for its clients.

Each field is the environment variable of the same name in capitals; together with the rest they
are `solward.settings.settings.Settings`.
"""

from __future__ import annotations

import ipaddress
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, field_validator
from pydantic_settings import BaseSettings

from solward.errors import ConfigError
from solward.settings.vendors import http_address

# Known to everybody who read this line, hence good for a loopback address and play money only.
DEVELOPMENT_SECRET = "solward-development-secret-change-me"  # noqa: S105 - it is meant to be known

_EVERY_ADDRESS = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104 - where to call, not to listen


class AccessSettings(BaseSettings):
    """The service's address and admin secret, and what clients use in their place."""

    api_host: str = "127.0.0.1"
    api_port: int = Field(3001, ge=0, le=65535)
    api_secret: SecretStr = SecretStr(DEVELOPMENT_SECRET)
    solward_api_url: str | None = None
    solward_api_key: SecretStr | None = None

    @field_validator("solward_api_url")
    @classmethod
    def _service_address(cls, value: str | None) -> str | None:
        return None if value is None else service_address(value)

    @property
    def client_url(self) -> str:
        """Where clients find the service: SOLWARD_API_URL, else what API_HOST and API_PORT say.

        Raises:
            ConfigError: neither says it, because API_PORT is 0.
        """
        if self.solward_api_url is not None:
            return self.solward_api_url.rstrip("/")
        if self.api_port == 0:
            raise ConfigError("SOLWARD_API_URL must be set where API_PORT is 0")
        return reached(self.api_host.strip("[]"), self.api_port)

    @property
    def client_token(self) -> str:
        """What clients show it: SOLWARD_API_KEY, else API_SECRET. A secret."""
        secret = self.api_secret if self.solward_api_key is None else self.solward_api_key
        return secret.get_secret_value()

    @property
    def loopback(self) -> bool:
        """Whether only this machine can reach API_HOST."""
        if self.api_host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.api_host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def development_secret(self) -> bool:
        """Whether API_SECRET is the one everybody knows."""
        return self.api_secret.get_secret_value() == DEVELOPMENT_SECRET


def reached(host: str, port: int) -> str:
    """The address at which this machine calls what listens on `host` and `port`."""
    host = _EVERY_ADDRESS.get(host, host)
    return f"http://{f'[{host}]' if ':' in host else host}:{port}"


def service_address(value: str) -> str:
    """The address of a service as a setting gives it; raises `ValueError`."""
    parts = urlsplit(http_address(value))
    # It is shown by errors, and no place for a credential.
    if parts.username is not None or parts.query or parts.fragment:
        raise ValueError("expected an address without credentials and without a query")
    return value
