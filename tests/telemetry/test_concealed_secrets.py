"""Secrets a process was given are taken out by what they are, not only by how they look."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.promises import promise
from tests.support.clock import processor_cost

from solward.settings import Settings
from solward.settings.access import DEVELOPMENT_SECRET
from solward.telemetry.scrub import (
    REDACTED,
    concealed,
    scrub,
    scrub_start,
    scrub_text,
    secrets_of_database_url,
    secrets_of_url,
)
from solward.types.provider import ProviderSpec


def settings(home: Path, **given: str) -> Settings:
    return Settings(_env_file=None, solward_home=home, **given)


@promise("settings-secrets-scrubbed")
@pytest.mark.parametrize(
    ("name", "value", "secret"),
    [
        ("api_secret", "an api secret of this very test", "an api secret of this very test"),
        ("keystore_passphrase", "correct horse battery 41", "correct horse battery 41"),
        ("gemini_api_key", "looks-like-nothing-42", "looks-like-nothing-42"),
        ("jupiter_api_key", "jup.key.of.test.43", "jup.key.of.test.43"),
        ("solana_rpc_url", "https://rpc.test/?api-key=abcdef-44", "abcdef-44"),
        ("solana_rpc_url", "https://rpc.test/v2/a-long-path-key-45", "a-long-path-key-45"),
        ("solana_rpc_url", "https://user:pass-word-46@rpc.test", "pass-word-46"),
        ("solana_rpc_url", "https://a.test/?key=b,https://b.test/?key=other-49", "other-49"),
        ("database_url", "postgresql://solward:db-word-47@db.test/solward", "db-word-47"),
    ],
)
def test_every_secret_setting_is_concealed(
    tmp_path: Path, name: str, value: str, secret: str
) -> None:
    assert secret in concealed(f"it is {secret}")
    settings(tmp_path, **{name: value})
    assert concealed(f"it is {secret}") == f"it is {REDACTED}"
    assert scrub({"event": [f"x{secret}y"]}) == {"event": [f"x{REDACTED}y"]}


def test_a_third_partys_key_is_concealed_once_it_is_lent(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ORACLE_API_KEY", "oracle-key-48")
    spec = ProviderSpec("oracle", "m", {"type": "object"}, secret_env="ORACLE_API_KEY")
    assert settings(tmp_path).provider_context(spec).secret == "oracle-key-48"
    assert concealed("401 for oracle-key-48") == f"401 for {REDACTED}"


def test_what_is_no_secret_stays(tmp_path: Path) -> None:
    settings(tmp_path, gemini_api_key="short")
    assert concealed(f"short {DEVELOPMENT_SECRET}") == f"short {DEVELOPMENT_SECRET}"
    assert secrets_of_url("http://127.0.0.1:8899/v1") == []


@pytest.mark.parametrize("key", ["sk-ant-api03-" + "a" * 20, "xai-" + "b" * 80, "AIza" + "c" * 35])
def test_keys_of_the_vendors_are_known_by_their_look(key: str) -> None:
    assert scrub_text(f"401 for {key}") == f"401 for {REDACTED}"


def test_of_a_databases_address_only_passwords_are_secret() -> None:
    url = "postgresql://postgres:p%40ss-word-9@db.example.com/solward?sslpassword=of-the-key"
    found = secrets_of_database_url(url)
    assert sorted(found) == ["of-the-key", "p%40ss-word-9", "p@ss-word-9"]
    assert secrets_of_database_url("sqlite:///solward.db") == []
    assert secrets_of_database_url("postgresql+psycopg://postgres:@/name?host=/run") == []


@pytest.mark.parametrize(
    "text", ["a." * 16_000 + "://", "https://" * 4_000, "://a" * 8_000, "bearer" + " " * 30_000]
)
def test_no_text_takes_long(text: str) -> None:
    assert processor_cost(lambda: scrub_text(text)) < 10


@pytest.mark.parametrize("at", [*range(1_960, 2_001, 8), *range(3_000, 3_040, 8)])
@pytest.mark.parametrize(
    "secret", ["https://user:pass-word-46@h.test", "[" + ", ".join(["177"] * 64) + "]"]
)
def test_a_long_text_is_cut_but_no_secret_in_it(at: int, secret: str) -> None:
    # What is taken out before it brings what follows forward.
    many = (secret + " ") * 8
    for text in ("x " * (at // 2), many + "x " * ((at - len(many)) // 2)):
        start = scrub_start(text + secret + " y" * 3_000, 2_000)
        assert len(start) <= 2_000
        assert scrub_text(text + secret + " y" * 3_000).startswith(start)
        assert "pass" not in start
        assert "177" not in start


def test_a_long_known_secret_is_not_cut(tmp_path: Path) -> None:
    secret = "long-secret-" * 300
    settings(tmp_path, gemini_api_key=secret)
    assert scrub_start("x " * 990 + secret + "y" * 9_000, 2_000) == "x " * 990 + REDACTED + "y" * 10
    assert "secret" not in scrub_start("x " * 990 + "y" + "z" * 2_000 + secret * 2, 2_000)


@promise("credentials-stored-hashed")
def test_an_admin_credential_is_shown_nowhere() -> None:
    secret = "sa-" + "0f4c1d2e9a8b" * 4
    assert scrub_text(f"key {secret}, of a visa-free sa-word") == (
        f"key {REDACTED}, of a visa-free sa-word"
    )
