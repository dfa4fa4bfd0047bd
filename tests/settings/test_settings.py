"""Settings: what is read, what is refused, and that secrets stay secret."""

from __future__ import annotations

import base64
import random
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
import structlog
from tests.promises import promise
from tests.support.examples import examples

from solward.database.database import database_file
from solward.settings import Settings, default_home
from solward.settings.access import DEVELOPMENT_SECRET
from solward.settings.secrecy import forget_secrets, weaknesses
from solward.settings.settings import allowed_for_providers
from solward.types.errors import ConfigError
from solward.types.provider import ProviderContext, ProviderSpec

CANARY = "canary-4f1d0c9e7b-do-not-show-me-anywhere"
MINT = "EPjFWdd5AufqSSqeM2qN1xzybapC8G4wEGGkZwyTDt1v"
ADDRESS = "11111111111111111111111111111112"


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no `.env` of the machine the tests run on."""
    for name in Settings.model_fields:
        monkeypatch.delenv(name.upper(), raising=False)
    monkeypatch.chdir(tmp_path)


@promise("routes-under-api-v1", "listens-locally")
def test_nothing_set_gives_the_documented_defaults() -> None:
    settings = Settings()
    assert (settings.api_host, settings.api_port) == ("127.0.0.1", 3001)
    assert settings.solana_network == "localnet"
    assert settings.max_lamports_per_transaction == 2_000_000_000
    assert settings.max_transactions_per_minute == 5
    assert settings.daily_spending_limit_lamports == 10_000_000_000
    assert settings.cors_origins == ("http://localhost:3000", "http://127.0.0.1:3000")
    assert settings.plugins == ("*",)
    assert settings.solward_home == default_home()
    assert settings.localnet_path == default_home() / "localnet.db"
    settings.check_serving()


def test_values_come_from_the_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    given = {
        "API_PORT": "0",
        "CORS_ORIGINS": "https://a.example, http://b.example:8080",
        "SOLANA_RPC_URL": "https://rpc.example/?api-key=1",
        "SOLWARD_HOME": str(tmp_path / "home"),
        "MAX_SOL_PER_TRANSACTION": "0.5",
        "BLOCKED_ADDRESSES": f"{ADDRESS},{MINT}",
        "TOKEN_LIMITS": f"{MINT}=1000000",
        "SOLWARD_PLUGINS": "solward,other",
        "SOLWARD_PLUGINS_UNCONFINED": "other, another",
        "KEYSTORE_KEY_FILE": "",
    }
    for name, value in given.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    assert settings.api_port == 0
    assert settings.cors_origins == ("https://a.example", "http://b.example:8080")
    assert settings.solana_network == "devnet"
    assert settings.max_sol_per_transaction == Decimal("0.5")
    assert settings.max_lamports_per_transaction == 500_000_000
    assert settings.blocked_addresses == {ADDRESS, MINT}
    assert settings.token_limits == {MINT: 1_000_000}
    assert settings.plugins == ("solward", "other")
    assert settings.solward_plugins_unconfined == ("other", "another")
    assert settings.keystore_key_file is None


def test_a_dotenv_file_is_read_and_the_environment_wins(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / ".env").write_text("API_PORT=4001\nAPI_HOST=localhost\nUNRELATED=1\n")
    monkeypatch.setenv("API_PORT", "4002")
    assert (Settings().api_port, Settings().api_host) == (4002, "localhost")


@promise("env-file-lines-are-checked")
@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ("API_PORT=1\n# c\nAPI_PORT=1", "line 3: API_PORT is in line 1 too"),
        ("max_sol_per_transaction=1\nexport MAX_SOL_PER_TRANSACTION=", "line 2: MAX_SOL_PER_TRAN"),
        (
            "MAX_SOL_PER_TRANSACTON=1",
            "not a setting, so it has no effect; MAX_SOL_PER_TRANSACTION is",
        ),
        ("MAXSOL_PER_TRANSACTION=1", "MAX_SOL_PER_TRANSACTION is one"),
        ("MAX_SOL_TRANSACTION=1", "MAX_SOL_PER_TRANSACTION is one"),
        ("DAILY_LIMIT=1", "DAILY_SPENDING_LIMIT_SOL is one"),
        ("SPENDING_LIMIT_SOL=1", "DAILY_SPENDING_LIMIT_SOL is one"),
        ("TOKEN_LIMIT=1", "TOKEN_LIMITS is one"),
        ("BLOCKED_ADRESSES=1", "BLOCKED_ADDRESSES is one"),
        ("API_PROT=1", "API_PORT is one"),
        ("MAX_SOL_PER_TRANSACTION: 1", "line 1: MAX_SOL_PER_TRANSACTION is not valid"),
    ],
)
def test_a_line_that_would_set_nothing_stops_the_start(
    tmp_path: Path, lines: str, told: str
) -> None:
    (tmp_path / ".env").write_text(lines)
    with pytest.raises(ConfigError) as refused:
        Settings()
    assert f"{tmp_path / '.env'}, line " in str(refused.value)
    assert told in str(refused.value)


@promise("env-file-lines-are-checked")
def test_other_programs_lines_are_left_to_them(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    names = (
        "POSTGRES_PASSWORD COMPOSE_PROFILES GROQ_API_KEY AI_API_KEY MISTRAL_API_KEY OPENAI_API_BASE"
        " NEXT_PUBLIC_APP_URL DATABASE_PASSWORD APP_PORT APP_HOST PORT HELIUS_API_KEY REDIS_URL"
        " OPENROUTER_API_KEY ANTHROPIC_BASE_URL LOG_LEVEL PATH SOLANA_KEYPAIR"
    )
    lines = [f"{name}={n}" for n in (1, 2) for name in names.split()]
    (tmp_path / ".env").write_text("\n".join([*lines, "MAX_SOL=", "no line"]))
    Settings()
    # The environment holds other programs' variables: it is told, and not refused.
    monkeypatch.setenv("MAX_SOL_PER_TRANSACTON", "1")
    with structlog.testing.capture_logs() as logs:
        Settings().check_serving()
    assert [each for each in logs if each["name"] == "MAX_SOL_PER_TRANSACTON"] == [
        {
            "event": "unknown_setting",
            "log_level": "warning",
            "name": "MAX_SOL_PER_TRANSACTON",
            "meant": "MAX_SOL_PER_TRANSACTION",
        }
    ]


@promise("webhook-address-is-fixed")
@pytest.mark.parametrize(
    ("name", "value", "expected"),
    [
        ("API_PORT", "http", "API_PORT: Input should be a valid integer"),
        ("API_PORT", "70000", "API_PORT: Input should be less than or equal to 65535"),
        ("API_KEY_STORE", "redis", "API_KEY_STORE: Input should be 'memory' or 'database'"),
        ("CORS_ORIGINS", "*", "CORS_ORIGINS: expected origins like http://localhost:3000"),
        ("CORS_ORIGINS", "http://a.example/path", "CORS_ORIGINS: expected origins"),
        ("SOLANA_RPC_URL", "ftp://rpc", "SOLANA_RPC_URL: expected an http:// or https://"),
        ("SOLANA_RPC_URL", "https://a.example,b.example", "SOLANA_RPC_URL: expected an http://"),
        ("SOLANA_RPC_URL", " , ", "SOLANA_RPC_URL: expected an http:// or https:// address"),
        ("SOLANA_RPC_URL", "http://a,http://b,http://a", "SOLANA_RPC_URL: an address is given tw"),
        ("SOLANA_NETWORK", "moonnet", "SOLANA_NETWORK: Input should be 'localnet'"),
        ("SOLANA_NETWORK", "mainnet", "SOLANA_NETWORK is mainnet-beta: set SOLANA_RPC_URL"),
        ("MAX_SOL_PER_TRANSACTION", "0", "MAX_SOL_PER_TRANSACTION: expected an amount of SOL"),
        ("MAX_SOL_PER_TRANSACTION", "NaN", "MAX_SOL_PER_TRANSACTION: "),
        ("DAILY_SPENDING_LIMIT_SOL", "0.0000000001", "DAILY_SPENDING_LIMIT_SOL: expected"),
        ("MAX_TRANSACTIONS_PER_MINUTE", "0", "MAX_TRANSACTIONS_PER_MINUTE: Input should be gre"),
        ("BLOCKED_ADDRESSES", "nobody", "BLOCKED_ADDRESSES: expected base58 addresses"),
        ("TOKEN_LIMITS", MINT, "TOKEN_LIMITS: expected MINT=UNITS"),
        ("TOKEN_LIMITS", f"{MINT}=1.5", "TOKEN_LIMITS: expected MINT=UNITS"),
        ("TOKEN_LIMITS", f"{MINT}=1,{MINT}=2", "is given twice"),
        ("TOKEN_LIMITS", f"{MINT}={2**64}", "TOKEN_LIMITS: the limit of"),
        (
            "TOKEN_LIMITS",
            "nobody=1",
            "TOKEN_LIMITS: expected base58 addresses of mints, as in MINT",
        ),
        ("DAILY_SPENDING_LIMIT_SOL", "0,5", "expected a number such as 2 or 0.5"),
        ("APPROVAL_WEBHOOK_URL", "http://10.0.0.1/", "APPROVAL_WEBHOOK_URL: expected https:"),
        ("APPROVAL_WEBHOOK_URL", "ftp://a", "APPROVAL_WEBHOOK_URL: expected an http:"),
        ("APPROVAL_WEBHOOK_URL", "https://a/#b", "APPROVAL_WEBHOOK_URL: expected an addre"),
        ("APPROVAL_WEBHOOK_SECRET", "x" * 31, "APPROVAL_WEBHOOK_SECRET: expected at least 32 b"),
        ("APPROVAL_SLACK_TOKEN", "xoxp-12345678", "APPROVAL_SLACK_TOKEN: expected the token"),
        ("APPROVAL_SLACK_CHANNEL", "#general", "APPROVAL_SLACK_CHANNEL: expected the id"),
        ("APPROVAL_TELEGRAM_TOKEN", "bot1:abc", "APPROVAL_TELEGRAM_TOKEN: expected the token"),
        ("APPROVAL_TELEGRAM_TOKEN", f"1234:{'a' * 20}/..", "APPROVAL_TELEGRAM_TOKEN: expected"),
        ("APPROVAL_TELEGRAM_CHAT", "alice", "APPROVAL_TELEGRAM_CHAT: expected the id"),
        ("DASHBOARD_URL", "javascript:alert(1)", "DASHBOARD_URL: expected an http://"),
        ("LOCALNET_SLOTS_PER_EPOCH", "8", "LOCALNET_SLOTS_PER_EPOCH: Input should be greater"),
        ("LOCALNET_RENT_PER_BYTE", "0", "LOCALNET_RENT_PER_BYTE: Input should be greater"),
        ("LOCALNET_RENT_PER_BYTE", "1.5", "LOCALNET_RENT_PER_BYTE: Input should be a valid int"),
    ],
)
def test_a_wrong_value_is_refused_by_name(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, expected: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ConfigError) as caught:
        Settings()
    assert expected in str(caught.value)


def test_every_wrong_variable_is_named_at_once_and_nothing_else() -> None:
    with pytest.raises(ConfigError) as caught:
        Settings(api_port="x", localnet_slot_ms=0)
    assert [part.split(":")[0] for part in str(caught.value).split("; ")] == [
        "API_PORT",
        "LOCALNET_SLOT_MS",
    ]


def test_a_passphrase_and_a_key_file_exclude_each_other() -> None:
    with pytest.raises(ConfigError, match="not both"):
        Settings(keystore_passphrase=CANARY, keystore_key_file="/tmp/key")


@pytest.mark.parametrize(
    ("url", "shared"),
    [
        (None, False),
        ("sqlite:////var/lib/solward/solward.db", False),
        ("postgresql://solward:secret@db/solward", True),
        ("postgresql+psycopg://solward:secret@db/solward", True),
    ],
)
def test_a_database_of_several_processes_is_postgresql_and_each_keeps_the_keys(
    url: str | None, shared: bool, tmp_path: Path
) -> None:
    settings = Settings(database_url=url)
    assert settings.shared_database is shared
    assert (database_file(url, tmp_path) is None) is shared
    assert settings.api_key_store == "database"
    assert settings.masked()["API_KEY_STORE"] == settings.api_key_store


def test_keys_of_one_process_are_refused_where_several_serve(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("DATABASE_URL", f"postgresql://solward:{CANARY}@db/solward")
    monkeypatch.setenv("API_KEY_STORE", "memory")
    with pytest.raises(
        ConfigError, match="API_KEY_STORE must not be memory if DATABASE_URL"
    ) as caught:
        Settings()
    assert CANARY not in str(caught.value)


def test_an_embedded_ledger_is_refused_where_several_processes_would_each_have_one() -> None:
    url = "postgresql://solward@db/solward"
    with pytest.raises(ConfigError, match="SOLANA_RPC_URL must be set"):
        Settings(database_url=url).check_shared_ledger()
    Settings(database_url=url, solana_rpc_url="http://127.0.0.1:8899").check_shared_ledger()
    Settings().check_shared_ledger()


MAINNET = {"solana_network": "mainnet", "solana_rpc_url": "https://rpc.example"}
LONG = "7c1e9a5b3d2f40688d1c5e0b7a964f3f"


@promise("mainnet-over-https", "wrong-cluster-refused")
@pytest.mark.parametrize(
    ("name", "url"),
    [
        ("solana_rpc_url", "http://rpc.example"),
        ("solana_rpc_url", "https://rpc.example,http://other.example:8899"),
        ("solana_rpc_url", "http://10.0.0.1"),
        ("solana_rpc_url", "http://localhost.example"),
        ("jupiter_api_url", "http://jupiter.example"),
    ],
)
def test_on_mainnet_ledger_and_venue_are_asked_over_https(name: str, url: str) -> None:
    with pytest.raises(ConfigError, match=f"^{name.upper()} must be https:// on mainnet"):
        Settings(**(MAINNET | {name: url}))
    Settings(**(MAINNET | {"solana_network": "devnet", name: url}))


def test_no_plugin_is_unconfined_on_mainnet_or_without_its_name() -> None:
    named = {"solward_plugins_unconfined": "tip-jar"}
    with pytest.raises(ConfigError, match="UNCONFINED must not be set on mainnet"):
        Settings(**(MAINNET | named))
    assert Settings(**(MAINNET | named | {"solana_network": "devnet"}))
    with pytest.raises(ConfigError, match="must name each distribution"):
        Settings(solward_plugins_unconfined="*")


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "[::1]"])
def test_on_mainnet_this_machine_needs_no_https(host: str) -> None:
    url = f"http://{host}:8899"
    assert Settings(**(MAINNET | {"solana_rpc_url": url, "jupiter_api_url": url})).mainnet


@promise(
    "weak-secret-no-start",
    "default-secret-stays-local",
    "only-named-plugins-import",
    "weak-secrets-refused",
    "listens-locally",
)
@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"api_host": "0.0.0.0"}, "the development secret is public"),
        ({"api_host": "example.org"}, "the development secret is public"),
        (
            {"dashboard_url": "https://wallets.example.com"},
            "must be set with DASHBOARD_URL https://wallets.example.com: the development",
        ),
        (
            {"cors_origins": "http://localhost:3000,https://wallets.example.com"},
            "must be set with CORS_ORIGINS https://wallets.example.com: the development",
        ),
        ({"api_host": "::", "api_secret": "x" * 31}, "at least 32 bytes"),
        (
            {"api_secret": "short"},
            "API_SECRET must have at least 32 bytes, and has 5",
        ),
        ({"api_secret": "Change-Me! " * 4}, "API_SECRET must not be an example or a word"),
        ({"api_secret": "0f4c1d2e9a8b7c6d5e4f30211203f4e5"}, "API_SECRET must not be an example"),
        ({"keystore_passphrase": "x" * 15}, "KEYSTORE_PASSPHRASE must have at least 16 bytes"),
        ({"keystore_passphrase": "correct horse battery staple"}, "must not be an example"),
        ({"dashboard_password": "x" * 11}, "DASHBOARD_PASSWORD must have at least 12 bytes"),
        (
            {"api_secret": LONG, "alert_webhook_secret": LONG},
            "ALERT_WEBHOOK_SECRET must differ from API_SECRET",
        ),
        (
            {"database_url": "postgresql://u:short@db/name"},
            "password in DATABASE_URL must",
        ),
        *(
            ({"database_url": f"postgresql://{rest}"}, "password in DATABASE_URL must")
            for rest in (
                "u@db/name?password=short",
                "u:short@/name?host=db",
                "u:short@localhost/name?host=db",
                "u:short@127.0.0.1:5432,db:5432/name",
                "u:short@[fd00::1]:5432/name",
            )
        ),
        (MAINNET, "the development secret is public"),
        (MAINNET | {"api_secret": "short"}, "at least 32 bytes"),
        (MAINNET | {"api_secret": LONG}, "SOLWARD_PLUGINS must name"),
        (MAINNET | {"api_secret": LONG, "solward_plugins": "*"}, "SOLWARD_PLUGINS must name"),
        ({"api_secret": " "}, "API_SECRET must not be empty"),
    ],
)
def test_what_anybody_could_take_over_is_not_served(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Settings(**values).check_serving()


@pytest.mark.parametrize(
    "values",
    [
        {"api_host": "localhost"},
        {"api_host": "127.8.0.1", "api_secret": LONG},
        {"database_url": "postgresql://u:short@127.0.0.1/name"},
        {"database_url": "postgresql://u:short@[::1]:5432,localhost/name?host=/run/postgresql"},
        {"database_url": "postgresql://u@db/name"},
        {"database_url": "postgresql://u:a%20longer%20one@db/name"},
        {"keystore_passphrase": LONG[:16], "dashboard_password": LONG[-12:]},
        {"api_host": "::1"},
        {"api_host": "0.0.0.0", "api_secret": LONG},
        MAINNET | {"api_secret": LONG, "solward_plugins": "solward"},
    ],
)
def test_what_is_safe_is_served(values: dict[str, Any]) -> None:
    Settings(**values).check_serving()


@promise("typed-secret-no-start", "weak-secrets-refused")
@pytest.mark.parametrize(
    ("secret", "expected"),
    [
        ("a" * 32, "at least 8 different characters, without those .* it has 1: make one with"),
        ("ab" * 16, "8 different characters.* has 2"),
        ("abcdefghijklmnopqrstuvwxyz012345", "8 different characters.* has 4"),
        ("zyxwvutsrqponmlkjihgfedcba98765432", "8 different characters.* has 4"),
        ("password1" * 4, "repeat a part of fewer than 32 characters; .* has 9"),
        ("passw0rd-of-mine" * 2, "repeat a part.* has 16"),
        ("7c1e9a5b3d2f40688d1c5e0b7a964f3" + "7c1e9a5b3d2f40688d1c5e0b7a964f3", "has 31"),
        ("Tr0ub4dor&3-Tr0ub4dor&3-Tr0ub4dor", "repeat a part.* has 12"),
    ],
    ids=lambda text: text[:24],
)
def test_a_secret_that_was_typed_to_fill_the_length_is_refused(secret: str, expected: str) -> None:
    for name in ("API_SECRET", "ALERT_WEBHOOK_SECRET"):
        with pytest.raises(ConfigError, match=f"^{name} must .*{expected}") as caught:
            Settings(**{name.lower(): secret}).check_serving()
        assert "`openssl rand -hex 32`" in str(caught.value)
        assert secret not in str(caught.value)


@pytest.mark.parametrize(
    ("values", "expected"),
    [
        ({"keystore_passphrase": "abcdefghijklmnop"}, "KEYSTORE_PASSPHRASE must have at least 6 d"),
        ({"keystore_passphrase": "orange-7" * 2}, "KEYSTORE_PASSPHRASE must not repeat a part"),
        ({"dashboard_password": "123123123123"}, "DASHBOARD_PASSWORD must have at least 6 diff"),
        ({"dashboard_password": "hunter2hunter2"}, "DASHBOARD_PASSWORD must not repeat a part"),
        (
            {"database_url": "postgresql://u:qwe123qwe123@db/name"},
            "The password in DATABASE_URL must",
        ),
    ],
)
def test_so_are_passwords_and_passphrases(values: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError, match=expected):
        Settings(**values).check_serving()


@pytest.mark.property
def test_random_secrets_are_not_refused() -> None:
    made = random.Random(20)
    for _ in range(examples(2_000)):
        for size in (16, 32):
            secret = made.randbytes(size).hex()
            assert list(weaknesses({"API_SECRET": secret})) == []
        assert list(weaknesses({"API_SECRET": base64.b64encode(made.randbytes(24)).decode()})) == []
        words = " ".join(
            made.choices(["orange", "river", "seven", "cloud", "window", "paper"], k=4)
        )
        assert len(set(words.split())) == 1 or not list(weaknesses({"KEYSTORE_PASSPHRASE": words}))
    # One piece twice is as good as the piece is.
    assert list(weaknesses({"API_SECRET": LONG * 2})) == []


@pytest.mark.parametrize("name", ["approval_webhook_url", "approval_webhook_secret"])
def test_the_approvals_webhook_needs_its_address_and_its_secret(name: str) -> None:
    both = {"approval_webhook_url": "http://[::1]:9/a", "approval_webhook_secret": LONG}
    assert Settings(**both).approval_webhook == tuple(both.values())
    assert Settings().approval_webhook is None
    with pytest.raises(ConfigError, match="set both"):
        assert Settings(**{name: both[name]}).approval_webhook


SLACK = {"approval_slack_token": f"xoxb-{LONG}", "approval_slack_channel": "C0123456789"}
TELEGRAM = {"approval_telegram_token": f"1234:{LONG}", "approval_telegram_chat": "-1001"}


def test_a_chat_needs_its_token_and_its_id() -> None:
    assert Settings().approval_chats == {}
    assert Settings(**SLACK, **TELEGRAM).approval_chats == {
        "slack": tuple(SLACK.values()), "telegram": tuple(TELEGRAM.values()),
    }  # fmt: skip
    for both in (SLACK, TELEGRAM):
        for name, value in both.items():
            with pytest.raises(ConfigError, match=r"set both APPROVAL_\w+ and APPROVAL_\w+, or"):
                assert Settings(**{name: value}).approval_chats


def test_a_strangers_env_file_sends_no_message_to_a_chat_of_his(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / ".env").write_text("APPROVAL_TELEGRAM_CHAT=666\n")
    monkeypatch.setenv("APPROVAL_TELEGRAM_TOKEN", TELEGRAM["approval_telegram_token"])
    with pytest.raises(ConfigError, match="APPROVAL_TELEGRAM_CHAT is set in"):
        assert Settings().approval_chats


def test_people_open_the_dashboard_where_it_listens_unless_another_address_is_given() -> None:
    assert Settings(dashboard_host="0.0.0.0").dashboard_address == "http://127.0.0.1:3000"
    given = Settings(dashboard_url="https://approve.example/")
    assert given.dashboard_address == "https://approve.example"


@promise("only-named-plugins-import")
def test_plugins_unnamed_on_mainnet_load_none() -> None:
    assert Settings(**MAINNET).plugins == ()


SECRETS = {
    "API_SECRET": CANARY,
    "KEYSTORE_PASSPHRASE": CANARY,
    "SOLANA_RPC_URL": f"https://user:{CANARY}@rpc.example/{CANARY}?api-key={CANARY}",
    "DATABASE_URL": f"postgresql://solward:{CANARY}@db.example/solward",
    "APPROVAL_WEBHOOK_URL": f"https://user:{CANARY}@hook.example/{CANARY}?token={CANARY}",
    "APPROVAL_WEBHOOK_SECRET": CANARY,
    "APPROVAL_SLACK_TOKEN": f"xoxb-{CANARY}",
    "APPROVAL_TELEGRAM_TOKEN": f"1234:{CANARY}",
}


@promise("webhook-in-no-log")
def test_secrets_are_in_no_text_of_the_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    settings = Settings()
    shown = settings.masked()
    for text in (repr(settings), str(settings), repr(shown), settings.model_dump_json()):
        assert CANARY not in text
    assert shown["API_SECRET"] == "********"
    assert shown["SOLANA_RPC_URL"] == "https://rpc.example/…"
    assert shown["APPROVAL_WEBHOOK_URL"] == "https://hook.example/…"
    assert shown["APPROVAL_WEBHOOK_SECRET"] == "********"
    assert settings.api_secret.get_secret_value() == CANARY


def test_several_ledger_addresses_keep_their_order_and_their_keys(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first, second = f"https://a.example/?api-key={CANARY}", f"http://user:{CANARY}@b.example:8899"
    monkeypatch.setenv("SOLANA_RPC_URL", f" {first} ,{second},")
    settings = Settings()
    assert settings.rpc_urls == (first, second)
    shown = settings.masked()["SOLANA_RPC_URL"]
    assert shown == "https://a.example/…,http://b.example:8899/…"
    assert CANARY not in repr(settings)
    assert Settings(solana_rpc_url=None).rpc_urls == ()


@pytest.mark.parametrize("name", SECRETS)
def test_secrets_are_in_no_error(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setenv(name, CANARY)
    monkeypatch.setenv("API_PORT", "wrong")
    with pytest.raises(ConfigError) as caught:
        Settings()
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    assert caught.value.__suppress_context__


def test_the_development_secret_is_shown_as_such() -> None:
    settings = Settings()
    assert settings.development_secret
    assert settings.masked()["API_SECRET"] == "the development secret"
    assert DEVELOPMENT_SECRET not in repr(settings.masked())


def test_masked_shows_collections_as_they_are_written() -> None:
    shown = Settings(token_limits=f"{MINT}=5", blocked_addresses=ADDRESS).masked()
    assert shown["TOKEN_LIMITS"] == f"{MINT}=5"
    assert shown["BLOCKED_ADDRESSES"] == ADDRESS
    assert shown["SOLANA_RPC_URL"] == ""


@promise("settings-secrets-scrubbed")
def test_secrets_leave_the_environment_and_the_rest_stays() -> None:
    environment = {**SECRETS, "API_PORT": "1", "PATH": "/bin", "keystore_passphrase": CANARY}
    forget_secrets(Settings, environment)
    assert environment == {"API_PORT": "1", "PATH": "/bin"}


def test_a_provider_is_lent_its_own_key_and_address_and_never_solwards_secrets(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", CANARY)
    monkeypatch.setenv("OPENAI_BASE_URL", "http://127.0.0.1:8080/v1/")
    monkeypatch.setenv("ACME_KEY", "acme")
    settings = Settings()
    spec = ProviderSpec("p", "m", {}, "OPENAI_API_KEY", "OPENAI_BASE_URL")
    assert settings.provider_context(spec) == ProviderContext(CANARY, "http://127.0.0.1:8080/v1")
    assert CANARY not in repr(settings.provider_context(spec))
    assert settings.provider_context(replace(spec, secret_env="ACME_KEY", base_url_env=None)) == (
        ProviderContext("acme")
    )
    assert settings.provider_context(ProviderSpec("p", "m", {}, "NOT_SET")) == ProviderContext()
    assert allowed_for_providers("OPENAI_API_KEY")
    assert allowed_for_providers("ACME_KEY")
    assert not allowed_for_providers("ACME_BASE_URL")
    for address in ("ACME_BASE_URL", "ACME_API_BASE", "ACME_URL"):
        assert allowed_for_providers(address, address=True)
    for secret in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "AWS_SECRET_ACCESS_KEY", "VAULT_ADDR"):
        assert not allowed_for_providers(secret, address=True)
    for own in ("API_SECRET", "KEYSTORE_PASSPHRASE", "SOLANA_RPC_URL", "DATABASE_URL"):
        assert not allowed_for_providers(own)
        assert not allowed_for_providers(own, address=True)


@pytest.mark.parametrize(
    "value",
    [
        CANARY,
        f"http://user:{CANARY}@127.0.0.1/",
        f"https://api.example.com/?key={CANARY}",
        f"http://127.0.0.1:{CANARY}/",
        f"postgres://127.0.0.1/{CANARY}",
    ],
)
@pytest.mark.parametrize("by", ["environment", ".env"])
def test_no_secret_passes_as_a_third_partys_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, value: str, by: str
) -> None:
    monkeypatch.chdir(tmp_path)
    if by == ".env":
        (tmp_path / ".env").write_text(f"ACME_URL={value}\n")
    else:
        monkeypatch.setenv("ACME_URL", value)
    settings = Settings()
    spec = ProviderSpec("p", "m", {}, base_url_env="ACME_URL")
    with pytest.raises(ConfigError, match="ACME_URL must be an http:// or https:// address") as at:
        settings.provider_context(spec)
    assert CANARY not in str(at.value)
    assert not settings.configured(spec)


def test_a_vendors_address_must_be_one(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GEMINI_API_BASE", "localhost:8080")
    with pytest.raises(ConfigError, match="GEMINI_API_BASE: expected an http"):
        Settings()


def test_model_processes_are_at_least_one(tmp_path: Path) -> None:
    assert Settings(solward_home=tmp_path).model_processes == 1
    assert Settings(solward_home=tmp_path, model_processes=2).model_processes == 2
    with pytest.raises(ConfigError, match="MODEL_PROCESSES"):
        Settings(solward_home=tmp_path, model_processes=0)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "off"),
        ({"solana_rpc_url": "http://127.0.0.1:1"}, "auto"),
        ({"solana_rpc_url": "http://127.0.0.1:1", "solana_network": "localnet"}, "off"),
        ({"solana_rpc_url": "https://rpc", "solana_network": "mainnet-beta"}, "auto"),
        ({"priority_fee": "AUTO"}, "auto"),
        ({"priority_fee": "50000"}, 50_000),
        ({"priority_fee": 0}, 0),
    ],
)
def test_a_priority_fee_is_off_auto_or_a_number(given: dict[str, Any], expected: object) -> None:
    assert Settings(**given).priority_fee == expected


@pytest.mark.parametrize("value", ["some", "-1", "1.5", "1e3", str(2**64), True])
def test_another_priority_fee_is_named(value: object) -> None:
    with pytest.raises(ConfigError, match=r"PRIORITY_FEE.*off, auto, or a whole number"):
        Settings(priority_fee=value)


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ({}, "auto"),
        *(({"transaction_version": v}, e) for v, e in (("AUTO", "auto"), ("0", 0), (1, 1))),
    ],
)
def test_a_transaction_version_is_auto_or_a_number(given: dict[str, Any], expected: object) -> None:
    assert Settings(**given).transaction_version == expected


@pytest.mark.parametrize("value", ["2", "v1", "-1", True])
def test_another_transaction_version_is_named(value: object) -> None:
    with pytest.raises(ConfigError, match=r"TRANSACTION_VERSION.*expected auto, 0 or 1"):
        Settings(transaction_version=value)


@pytest.mark.parametrize("value", ["0", "0.000009", "-1", "NaN", "0.0000000001"])
def test_a_network_fee_bound_has_room_for_two_signatures(value: str) -> None:
    with pytest.raises(ConfigError, match="MAX_NETWORK_FEE_SOL"):
        Settings(max_network_fee_sol=value)
    assert Settings(max_network_fee_sol="0.00001").max_network_fee_lamports == 10_000


def test_private_sites_of_sellers_are_named_as_grants_name_them() -> None:
    found = Settings(_env_file=None, payments_private_sites="127.0.0.1:4021, shop.internal")
    assert found.payments_private_sites == ("127.0.0.1:4021", "shop.internal")


@pytest.mark.parametrize(
    "text",
    [
        "http://127.0.0.1:4021",
        "Shop.internal:1",
        "shop.internal:443",
        "shop.internal:99999",
        "127.1:4021",
        "*",
        "169.254.169.254:80",
        "metadata.google.internal:80",
    ],
)
def test_what_is_no_site_of_a_seller_is_refused_by_name(text: str) -> None:
    with pytest.raises(ConfigError, match="PAYMENTS_PRIVATE_SITES: "):
        Settings(_env_file=None, payments_private_sites=text)


def test_resources_of_sites_are_two_sites() -> None:
    listed = Settings(_env_file=None, payments_resource_sites="a.example=b.example:80, a.example=c")
    assert listed.payments_resource_sites == ("a.example=b.example", "a.example=c")
    for text in ("a.example", "a.example=", "a=b=c", "a.example=http://b.example", "a=B", "=", "*"):
        with pytest.raises(ConfigError, match="PAYMENTS_RESOURCE_SITES: expected ASKED=NAMED"):
            Settings(_env_file=None, payments_resource_sites=text)


@pytest.mark.parametrize("name", ["all_proxy", "http_proxy", "HTTPS_PROXY"])
def test_a_socks_proxy_is_refused_where_a_node_is_asked(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    for proxy in ("http://proxy.example:1", "https://proxy.example", "proxy.example:3128"):
        monkeypatch.setenv(name, proxy)
        Settings(_env_file=None, solana_rpc_url="https://rpc.example.com")
    monkeypatch.setenv(name, "socks5h://proxy.example:1080")
    # The embedded ledger needs no proxy.
    Settings(_env_file=None)
    with pytest.raises(ConfigError, match=f"{name.lower()} must be an http:// or https:// address"):
        Settings(_env_file=None, solana_rpc_url="https://rpc.example.com")


@pytest.mark.parametrize("network", ["devnet", "testnet", "mainnet-beta"])
def test_offers_of_another_network_count_on_a_localnet_alone(network: str) -> None:
    given = {"solana_rpc_url": "https://rpc.example.com", "payments_localnet_as": "devnet"}
    with pytest.raises(ConfigError, match=f"must be unset if SOLANA_NETWORK is {network}"):
        Settings(_env_file=None, solana_network=network, **given)
    found = Settings(_env_file=None, solana_network="localnet", **given)
    assert found.payments_localnet_as == "devnet"
    with pytest.raises(ConfigError, match="PAYMENTS_LOCALNET_AS: Input should be 'devnet'"):
        Settings(_env_file=None, payments_localnet_as="mainnet-beta")
