"""Settings that are URLs: a key in the path, the query or the user of one is shown nowhere."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import SecretStr
from tests.promises import promise
from tests.support.repository import ROOT

from solward.resources.service import Setting
from solward.settings import Settings
from solward.settings.addresses import address_fields, origin_of, shown_address
from solward.telemetry.scrub import scrub_text
from solward.types.errors import ConfigError

MARK = "m4rk-9e7b4f1d0c-of-a-vendors-key"
PLACES = {
    "user": f"https://{MARK}@vendor.example:8443/v1",
    "password": f"https://user:{MARK}@vendor.example:8443/v1",
    "path": f"https://vendor.example:8443/v1/{MARK}",
    "only path": f"https://vendor.example:8443/{MARK}/",
    "query": f"https://vendor.example:8443/v1?api-key={MARK}",
    "query without a name": f"https://vendor.example:8443/v1?{MARK}",
    "fragment": f"https://vendor.example:8443/v1#{MARK}",
    "port": f"https://vendor.example:{MARK}/v1",
    "this machine": f"http://user:{MARK}@127.0.0.1:8443/v1?key={MARK}#{MARK}",
}
FIELDS = address_fields(Settings)
ROW = re.compile(r"^\| `([A-Z_]+)` \| .+ \| (.+) \| `(.+)` \|$", re.MULTILINE)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


def given(name: str, url: str) -> dict[str, Any]:
    """Settings with an address in one of them."""
    if name == "database_url":
        url = url.replace("https:", "postgresql:").replace("http:", "postgresql:")
    return {name: [url] if name == "cors_origins" else url}


def of(values: dict[str, Any]) -> Settings | ConfigError:
    """The settings, or why there are none."""
    try:
        return Settings(**values)
    except ConfigError as error:
        return error


def test_every_setting_that_is_a_url_is_declared_as_one() -> None:
    """By its name, its default and its documented example, so that a new one is not forgotten."""
    page = (ROOT / "docs" / "reference/settings.md").read_text()
    documented = {
        name.lower() for name, default, example in ROW.findall(page) if "://" in default + example
    }
    named = {
        name
        for name, field in Settings.model_fields.items()
        if re.search(r"_(url|uri|base|origins?|endpoints?)$", name) or "://" in str(field.default)
    }
    assert FIELDS.keys() == documented | named
    assert len(FIELDS) > 10


@promise("address-secrets-hidden", "addresses-hide-vendor-keys")
@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("name", sorted(FIELDS))
def test_no_part_that_may_be_a_key_is_shown(name: str, place: str) -> None:
    made = of(given(name, PLACES[place]))
    if isinstance(made, ConfigError):
        # Where such a part cannot be; and no refusal quotes it.
        assert MARK not in str(made)
        return
    settings = made
    shown = next(each for each in map(Setting.of, settings.report()) if each.name == name.upper())
    assert MARK not in f"{shown} {settings.masked()}"
    assert shown.set
    scheme = "postgresql" if name == "database_url" else PLACES[place].partition(":")[0]
    host = "127.0.0.1" if place == "this machine" else "vendor.example"
    port = "" if place == "port" else ":8443"
    expected = f"{scheme}://{host}{port}/…"
    assert settings.masked()[name.upper()] == expected
    assert shown.value == (None if shown.secret else expected)


# What a database's has beside passwords are ordinary words; the others are no vendors'.
@promise("addresses-hide-vendor-keys")
@pytest.mark.parametrize("place", ["user", "password", "path", "only path", "query", "fragment"])
@pytest.mark.parametrize("name", sorted(FIELDS.keys() - {"database_url"}))
def test_no_such_part_is_logged(name: str, place: str) -> None:
    # A part of its own: what one setting conceals is concealed of all.
    mark = f"{MARK}-{name}-{place}".replace(" ", "-")
    if isinstance(of(given(name, PLACES[place].replace(MARK, mark))), ConfigError):
        return
    assert mark not in scrub_text(f"no answer of {mark} at last")


@pytest.mark.parametrize(
    "url", ["https://rpc.test/?k=a%2Fb%20of-a-key", "https://a%2Fb%20of-a-key@rpc.test"]
)
def test_a_key_is_concealed_as_written_and_as_decoded(url: str) -> None:
    Settings(jupiter_api_url=url)
    assert "of-a-key" not in scrub_text("tried a/b of-a-key and a%2Fb%20of-a-key")


def test_what_an_address_shows() -> None:
    assert {url: shown_address(url) for url in SHOWN} == SHOWN
    assert origin_of("http://127.0.0.1:8080/v1") == "http://127.0.0.1:8080/…"


SHOWN = {
    "https://a.example": "https://a.example",
    "https://a.example/": "https://a.example",
    "https://a.example:8443/v1": "https://a.example:8443/…",
    "http://[fd00::1]:80/v1": "http://[fd00::1]:80/…",
    "http://127.0.0.1:8080/v1": "http://127.0.0.1:8080/v1",
    "http://[::1]:8080/v1/": "http://[::1]:8080/v1/",
    "http://localhost:8080/v1?key=1": "http://localhost:8080/…",
    "http://u@localhost:8080/v1": "http://localhost:8080/…",
    "http://localhost.example/v1": "http://localhost.example/…",
    "postgresql://u:p@a:5432,b:5432/name": "postgresql://a/…",
    "sqlite:////var/lib/solward.db": "…",
    "/var/lib/solward.db": "…",
    "http://[": "…",
}


def test_a_default_is_public_and_shown_as_it_is() -> None:
    found = {each.name: each for each in map(Setting.of, Settings().report())}
    assert found["COINGECKO_API_URL"].value == "https://api.coingecko.com/api/v3"
    assert found["CORS_ORIGINS"].value == "http://localhost:3000,http://127.0.0.1:3000"
    changed = Settings(coingecko_api_url="https://pro-api.coingecko.com/api/v3")
    shown = next(
        each for each in map(Setting.of, changed.report()) if each.name == "COINGECKO_API_URL"
    )
    assert shown.value == "https://pro-api.coingecko.com/…"
    assert shown.default == "https://api.coingecko.com/api/v3"


def test_an_address_that_is_secret_shows_no_path_of_this_machine_either() -> None:
    url = "http://127.0.0.1:8899/v1"
    assert Settings(solana_rpc_url=SecretStr(url)).masked()["SOLANA_RPC_URL"] == (
        "http://127.0.0.1:8899/…"
    )
    assert Settings(jupiter_api_url=url).masked()["JUPITER_API_URL"] == url
