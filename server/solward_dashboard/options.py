"""Options that the dashboard is started with."""

from __future__ import annotations

from dataclasses import dataclass, field
from urllib.parse import urlsplit

from solward.settings import Settings
from solward.settings.addresses import is_loopback
from solward.settings.secrecy import weaknesses
from solward.types.errors import ConfigError

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Options:
    """The dashboard's address, the API that it calls, and the password that opens it.

    Attributes:
        api_url: the service's address.
        api_secret: its admin secret; never leaves this process.
        host, port: address on which the dashboard listens.
        password: password of the login page; None is no login.
    """

    api_url: str
    api_secret: str = field(repr=False)
    host: str
    port: int
    password: str | None = field(default=None, repr=False)

    @classmethod
    def from_settings(
        cls, settings: Settings, host: str, port: int, *, api_url: str | None = None
    ) -> Options:
        """Return the options from the settings; `api_url` overrides the API's address in them.

        Raises:
            ConfigError: others can reach the host, and there is no password; the password is too
                short or well known; a `.env` names the service, but its secret is from elsewhere.
        """
        password = settings.dashboard_password
        # If DASHBOARD_URL is of another machine, a proxy passes other people's requests on.
        name = urlsplit(settings.dashboard_url or "").hostname or host
        reached = next((each for each in (host, name) if not is_loopback(each)), None)
        if reached is not None and password is None:
            raise ConfigError(
                f"DASHBOARD_PASSWORD must be set to serve the dashboard on {reached}:"
                " whoever opens it can spend"
            )
        if password is not None:
            weak = next(weaknesses({"DASHBOARD_PASSWORD": password.get_secret_value()}), None)
            if weak is not None:
                raise ConfigError(weak)
        return cls(
            settings.dashboard_target[0] if api_url is None else api_url,
            settings.dashboard_api_secret,
            host,
            port,
            None if password is None else password.get_secret_value(),
        )

    @property
    def url(self) -> str:
        """The dashboard's address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """Allowed values of the Host header; None allows any, because there is a login."""
        if self.password is not None:
            return None
        hosts = tuple(f"{name}:{self.port}" for name in LOOPBACK)
        # Browsers leave port 80 out of the Host.
        return hosts + LOOPBACK if self.port == 80 else hosts
