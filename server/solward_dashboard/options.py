"""What the dashboard is started with."""

from __future__ import annotations

from dataclasses import dataclass, field

from solward.errors import ConfigError
from solward.settings import Settings

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")


@dataclass(frozen=True, slots=True)
class Options:
    """Where the dashboard listens, whom it calls, and who may see it.

    Attributes:
        api_url: the service's address.
        api_secret: its admin secret; never leaves this process.
        host, port: where the dashboard listens.
        password: asked for by a login page; None asks nobody.
    """

    api_url: str
    api_secret: str = field(repr=False)
    host: str
    port: int
    password: str | None = field(default=None, repr=False)

    @classmethod
    def of(cls, settings: Settings, host: str, port: int, *, api_url: str | None = None) -> Options:
        """From the settings; `api_url` is for who knows better where the service listens.

        Raises:
            ConfigError: others can reach the host, and there is no password.
        """
        password = settings.dashboard_password
        if host not in ("127.0.0.1", "localhost", "::1") and password is None:
            raise ConfigError(
                f"DASHBOARD_PASSWORD must be set to serve the dashboard on {host}:"
                " whoever opens it can spend"
            )
        return cls(
            settings.dashboard_api_url if api_url is None else api_url,
            settings.dashboard_api_secret,
            host,
            port,
            None if password is None else password.get_secret_value(),
        )

    @property
    def url(self) -> str:
        """Its own address."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"http://{host}:{self.port}"

    @property
    def hosts(self) -> tuple[str, ...] | None:
        """What a request's Host may say; None is anything (there is a login)."""
        if self.password is not None:
            return None
        named = tuple(f"{name}:{self.port}" for name in LOOPBACK)
        # Browsers leave out the port that is HTTP's own.
        return named + LOOPBACK if self.port == 80 else named
