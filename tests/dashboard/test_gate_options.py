"""Where the dashboard may listen, and what its options tell."""

from __future__ import annotations

import pytest

from solward.settings import Settings
from solward.types.errors import ConfigError
from solward_dashboard.options import Options


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.5", "::", "example.org"])
def test_a_host_others_reach_needs_a_password(host: str) -> None:
    with pytest.raises(ConfigError, match="DASHBOARD_PASSWORD"):
        Options.from_settings(Settings(_env_file=None), host, 3000)
    open_to_all = Options.from_settings(
        Settings(_env_file=None, dashboard_password="a password long enough"), host, 3000
    )
    assert open_to_all.hosts is None


def test_a_proxy_that_others_reach_needs_a_password() -> None:
    public = {"dashboard_url": "https://wallets.example.com", "api_secret": "s" * 32}
    with pytest.raises(ConfigError, match=r"serve the dashboard on wallets\.example\.com"):
        Options.from_settings(Settings(_env_file=None, **public), "127.0.0.1", 3000)
    own = Settings(_env_file=None, dashboard_url="http://localhost:8080")
    assert Options.from_settings(own, "127.0.0.1", 3000).password is None


@pytest.mark.parametrize("password", ["too short", "correct horse battery staple"])
def test_a_password_that_is_soon_guessed_is_refused(password: str) -> None:
    with pytest.raises(ConfigError, match="DASHBOARD_PASSWORD must") as refused:
        Options.from_settings(
            Settings(_env_file=None, dashboard_password=password), "127.0.0.1", 3000
        )
    assert password not in str(refused.value)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "::1"])
def test_this_machine_needs_none(host: str) -> None:
    options = Options.from_settings(Settings(_env_file=None), host, 3000)
    assert options.password is None
    assert options.hosts == ("127.0.0.1:3000", "localhost:3000", "[::1]:3000")


def test_no_secret_is_in_its_repr() -> None:
    settings = Settings(
        _env_file=None, api_secret="canary-of-the-api", dashboard_password="canary of the pages"
    )
    shown = repr(Options.from_settings(settings, "127.0.0.1", 3000))
    assert "canary" not in shown
