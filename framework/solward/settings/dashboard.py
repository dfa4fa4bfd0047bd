"""Where the dashboard listens and what it calls.

Each field is the environment variable of the same name in capitals; the two `NEXT_PUBLIC_` ones
are the contract's.
"""

from __future__ import annotations

from pydantic import Field, SecretStr, field_validator

from solward.settings.access import AccessSettings, service_address


class DashboardSettings(AccessSettings):
    """The dashboard's address, its login, and the service it is a client of."""

    next_public_api_url: str | None = None
    next_public_api_secret: SecretStr | None = None
    dashboard_host: str = "127.0.0.1"
    dashboard_port: int = Field(3000, ge=0, le=65535)
    dashboard_password: SecretStr | None = None

    @field_validator("next_public_api_url")
    @classmethod
    def _service(cls, value: str | None) -> str | None:
        return None if value is None else service_address(value)

    @property
    def dashboard_api_url(self) -> str:
        """NEXT_PUBLIC_API_URL, else where the service is by its own settings.

        Raises:
            ConfigError: neither says it.
        """
        return self.next_public_api_url or self.client_url

    @property
    def dashboard_api_secret(self) -> str:
        """NEXT_PUBLIC_API_SECRET, else API_SECRET. Stays in the dashboard's process."""
        secret = self.next_public_api_secret or self.api_secret
        return secret.get_secret_value()
