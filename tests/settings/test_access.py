"""Where clients find the service, and what they show it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from solward.settings import Settings
from solward.settings.access import DEVELOPMENT_SECRET
from solward.types.errors import ConfigError


def settings(home: Path, **given: Any) -> Settings:
    return Settings(_env_file=None, solward_home=home, **given)


@pytest.mark.parametrize(
    ("given", "url"),
    [
        ({}, "http://127.0.0.1:3001"),
        ({"api_port": 8080}, "http://127.0.0.1:8080"),
        ({"api_host": "0.0.0.0"}, "http://127.0.0.1:3001"),
        ({"api_host": "::"}, "http://[::1]:3001"),
        ({"api_host": "[::1]"}, "http://[::1]:3001"),
        ({"api_host": "box.local"}, "http://box.local:3001"),
        ({"solward_api_url": "https://far.example/", "api_port": 0}, "https://far.example"),
    ],
)
def test_clients_call_the_address_the_service_has(
    tmp_path: Path, given: dict[str, Any], url: str
) -> None:
    assert settings(tmp_path, **given).client_url == url


def test_a_port_nobody_knows_must_be_told(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="SOLWARD_API_URL must be set"):
        _ = settings(tmp_path, api_port=0).client_url


@pytest.mark.parametrize(
    "url", ["far.example", "ftp://far.example", "http://u:p@h", "http://h?a=1"]
)
def test_an_address_that_is_none_is_named(tmp_path: Path, url: str) -> None:
    with pytest.raises(ConfigError, match="SOLWARD_API_URL: expected an"):
        settings(tmp_path, solward_api_url=url)


def test_clients_show_their_key_or_the_admin_secret(tmp_path: Path) -> None:
    assert settings(tmp_path).client_token == DEVELOPMENT_SECRET
    assert settings(tmp_path, api_secret="the-admins").client_token == "the-admins"
    made = settings(tmp_path, api_secret="the-admins", solward_api_key="sk-of-the-client")
    assert made.client_token == "sk-of-the-client"
    assert made.masked()["SOLWARD_API_KEY"] == "********"
    assert "sk-of-the-client" not in repr(made)
