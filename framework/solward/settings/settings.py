"""The settings of a process, from its environment and from `.env` in its working directory.

Each field is set by the environment variable of the same name in capitals. Secrets never appear in
`repr`, in errors or in `Settings.masked`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any, Final, Literal, TypeAlias
from urllib.parse import parse_qsl, unquote, urlsplit
from urllib.request import getproxies

import platformdirs
import structlog
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PrivateAttr,
    SecretStr,
    ValidationError,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    DotEnvSettingsSource,
    PydanticBaseSettingsSource,
    SettingsConfigDict,
)

from solward.resources.service import Origin
from solward.settings.access import AccessSettings
from solward.settings.addresses import (
    ADDRESS,
    ADDRESSES,
    HttpAddress,
    address_fields,
    http_address,
    is_loopback,
    is_protected,
    parts_of,
    service_address,
    unless_none,
)
from solward.settings.home import default_models_folder
from solward.settings.secrecy import (
    HOW_TO_MAKE,
    LEAST_BYTES,
    masked_value,
    secret_fields,
    weaknesses,
)
from solward.settings.variables import Variables, check_env_file, env_file_values, meant_setting
from solward.settings.vendors import ADDRESS_ENDINGS, POOLS_ENDING, VendorSettings
from solward.solana.protocol import (
    DEFAULT_MAX_NETWORK_FEE,
    LAMPORTS_PER_SIGNATURE,
    LOCALNET_RENT_PER_BYTE,
    MAX_LOCALNET_RENT_PER_BYTE,
)
from solward.support.base58 import is_address
from solward.support.webhook_signature import MIN_SECRET_BYTES
from solward.telemetry.scrub import conceal, secrets_of_database_url, secrets_of_url
from solward.types.errors import ConfigError, InvalidRequest
from solward.types.money import COUNTED_MAX, U64_MAX, lamports_to_sol, sol_to_lamports
from solward.types.provider import ProviderSpec
from solward.types.site import read_site, without_default_port
from solward.types.venue import BEST_VENUE, VenueSpec

_log = structlog.get_logger(__name__)

# The limit on fees and rent per day: enough for 24 new token accounts or thousands of transfers.
DEFAULT_MAX_COSTS_SOL = Decimal("0.05")

# 100 % in basis points.
_WHOLE_BPS = 10_000

_PRICE_SOURCES = ("jupiter", "coingecko")

# The maximum is a hundred years; if not set, rows are kept for ever.
MAX_DAYS = 36_500

MAINNET = "mainnet-beta"
DASHBOARD_ORIGINS = ("http://localhost:3000", "http://127.0.0.1:3000")

# The settings that form the service's address if no URL is set.
_LISTENING = ("api_host", "api_port")

_DEPENDENT = "default_factory_not_called"

_METADATA = ("169.254.", "168.63.129.16", "metadata.google.internal", "[fd00:ec2::254]")


def _misspelt_names(settings_cls: type[BaseSettings]) -> set[str]:
    """Return the settings to suggest for a misspelt name: not vendors', which are too common."""
    return settings_cls.model_fields.keys() - VendorSettings.model_fields.keys()


class Ceiling:
    """Marks a setting that no request, grant, agent or key can exceed."""


CEILING: Final = Ceiling()

Network = Literal["localnet", "devnet", "testnet", "mainnet-beta"]
ApiKeyStoreKind = Literal["memory", "database"]
JupiterApi = Literal["build", "order", "v1"]
ErrorStatus = Literal["contract", "semantic"]


def default_home() -> Path:
    """Return the operating system's folder for the user's Solward data."""
    return Path(platformdirs.user_data_dir("solward", appauthor=False))


def _network_of(data: dict[str, Any]) -> Network:
    return "localnet" if data.get("solana_rpc_url") is None else "devnet"


def _max_slippage_of(data: dict[str, Any]) -> int:
    # A venue may keep everything that the slippage allows, which is real money only on mainnet.
    return 300 if data.get("solana_network") == MAINNET else 1_000


def _priority_fee_of(data: dict[str, Any]) -> Literal["off", "auto"]:
    # Nobody competes for the blocks of a localnet.
    return "off" if data.get("solana_network") == "localnet" else "auto"


def _is_postgresql(url: SecretStr | None) -> bool:
    """Return whether a DATABASE_URL is for PostgreSQL, with or without a driver's name."""
    scheme = "" if url is None else url.get_secret_value().partition("://")[0]
    return scheme.partition("+")[0] == "postgresql"


def _password_over_network(url: str) -> str | None:
    """Return the password in a PostgreSQL URL if one of its hosts is another machine.

    As libpq does, read both from the query too, and accept several hosts with commas.
    """
    parts = urlsplit(url)
    query = dict(parse_qsl(parts.query))
    named = parts.netloc.rpartition("@")[2].split(",")
    hosts = [
        each[1:].partition("]")[0] if each.startswith("[") else each.partition(":")[0]
        for each in named
    ]
    for name in ("host", "hostaddr"):
        hosts += query.get(name, "").split(",")
    # A host that is a path is a socket on this machine.
    if all(not each or each.startswith("/") or is_loopback(each) for each in hosts):
        return None
    return query.get("password") or unquote(parts.password or "") or None


def _split_parts(value: object) -> object:
    return parts_of(value) if isinstance(value, str) else value


def _check_origins(value: tuple[str, ...]) -> tuple[str, ...]:
    for number, origin in enumerate(value, 1):
        try:
            parts = urlsplit(service_address(origin))
            exact = f"{parts.scheme}://{parts.netloc}" == origin
        except ValueError:
            exact = False
        if not exact:
            # The value is not quoted, because it may be a pasted address with a key.
            raise ValueError(
                "expected origins like http://localhost:3000, without user and path, separated"
                f" by commas; entry {number} is not an origin"
            )
    return value


def _mainnet_alias(value: object) -> object:
    return MAINNET if value == "mainnet" else value


def _check_rpc_addresses(value: SecretStr) -> SecretStr:
    urls = parts_of(value.get_secret_value())
    if not urls:
        raise ValueError("expected an http:// or https:// address")
    for url in urls:
        http_address(url)
    if len(set(urls)) < len(urls):
        raise ValueError("an address is given twice")
    return value


def _check_pools(value: str) -> str:
    pools = parts_of(value)
    for pool in pools:
        _check_address(pool)
    if len(set(pools)) < len(pools):
        raise ValueError("a pool is given twice")
    return value


def _check_price_sources(value: tuple[str, ...]) -> tuple[str, ...]:
    if value and sorted(value) != sorted(_PRICE_SOURCES):
        raise ValueError(
            f"expected nothing, or {','.join(_PRICE_SOURCES)}: one source alone is not believed"
        )
    return value


def _private_sites(value: tuple[str, ...]) -> tuple[str, ...]:
    for site in value:
        try:
            read_site(site, "a site")
        except InvalidRequest as error:
            raise ValueError(f"expected sites separated by commas; {error}") from None
        if site.startswith(_METADATA):
            raise ValueError(f"{site} is a cloud's metadata service, not a seller")
    return value


def _read_resource_sites(value: tuple[str, ...]) -> tuple[str, ...]:
    pairs = [tuple(part.strip() for part in pair.split("=")) for pair in value]
    if any(len(pair) != 2 for pair in pairs):
        raise ValueError("expected ASKED=NAMED, two sites, separated by commas")
    try:
        return tuple(
            "=".join(without_default_port(read_site(site, "a site")) for site in pair)
            for pair in pairs
        )
    except InvalidRequest as error:
        raise ValueError(f"expected ASKED=NAMED, two sites; {error}") from None


def _check_receiver_url(value: SecretStr) -> SecretStr:
    url = http_address(value.get_secret_value())
    if urlsplit(url).fragment:
        raise ValueError("expected an address without a fragment")
    if not is_protected(url):
        raise ValueError(
            "expected https://, except for a loopback address: others could read deliveries on"
            " the way"
        )
    return value


def _check_secret_length(value: SecretStr) -> SecretStr:
    # Checked even in processes that do not serve, because deliveries are signed with it.
    if len(value.get_secret_value().encode()) < MIN_SECRET_BYTES:
        raise ValueError(f"expected at least {MIN_SECRET_BYTES} bytes")
    return value


def _matching(pattern: str, expected: str) -> AfterValidator:
    def check(value: SecretStr | str) -> SecretStr | str:
        text = value.get_secret_value() if isinstance(value, SecretStr) else value
        if re.fullmatch(pattern, text) is None:
            # The value is not quoted, because it may be a token.
            raise ValueError(f"expected {expected}")
        return value

    return unless_none(check)


_SLACK_TOKEN = _matching("xoxb-[A-Za-z0-9-]{8,250}", "the token of a bot, such as xoxb-12-34-ab")
_SLACK_CHANNEL = _matching("[CDGU][A-Z0-9]{7,20}", "the id of a channel, such as C0123456789")
_TELEGRAM_TOKEN = _matching("[0-9]{3,20}:[A-Za-z0-9_-]{20,99}", "the token of a bot: 1234:ABCD...")
_TELEGRAM_CHAT = _matching("-?[0-9]{1,19}|@[A-Za-z0-9_]{4,40}", "the id of a chat, such as -1001")


def _full_path(value: Path) -> Path:
    return value.expanduser().absolute()


def _read_transaction_version(value: object) -> object:
    versions: dict[str, object] = {"auto": "auto", "0": 0, "1": 1}
    text = str(value).strip().lower()
    if text not in versions or isinstance(value, bool):
        raise ValueError(f"expected auto, 0 or 1; got {value!r}")
    return versions[text]


def _read_priority_fee(value: object) -> object:
    text = value.strip().lower() if isinstance(value, str) else value
    if text in ("off", "auto"):
        return text
    if isinstance(text, str) and text.isascii() and text.isdecimal():
        text = int(text)
    if type(text) is not int or not 0 <= text <= U64_MAX:
        raise ValueError(
            "expected off, auto, or a whole number of micro-lamports for each compute unit;"
            f" got {value!r}"
        )
    return text


def _check_sol(value: Decimal) -> Decimal:
    try:
        sol_to_lamports(value, "the value")
    except InvalidRequest as error:
        raise ValueError(f"expected an amount of SOL such as 2 or 0.5; {error}") from None
    return value


def _check_network_fee(value: Decimal) -> Decimal:
    least = 2 * LAMPORTS_PER_SIGNATURE
    if sol_to_lamports(_check_sol(value), "the value") < least:
        raise ValueError(
            f"expected at least {lamports_to_sol(least):f} SOL: a transaction of two signatures"
        )
    return value


def _addresses(value: frozenset[str]) -> frozenset[str]:
    for address in value:
        _check_address(address)
    return value


def _read_mint_units(value: object) -> object:
    if not isinstance(value, str):
        return value
    limits: dict[str, str] = {}
    for item in parts_of(value):
        mint, equals, units = (part.strip() for part in item.partition("="))
        if not equals or not units.isdecimal():
            raise ValueError(
                "expected MINT=UNITS, in the mint's smallest unit, separated by commas; "
                f"got {item!r}"
            )
        if mint in limits:
            raise ValueError(f"{mint} is given twice")
        limits[mint] = units
    return limits


def _mint_limits(value: Mapping[str, int]) -> Mapping[str, int]:
    for mint, units in value.items():
        _check_address(mint, " of mints, as in MINT=UNITS")
        if not 0 <= units <= COUNTED_MAX:
            raise ValueError(f"the limit of {mint} must be between 0 and {COUNTED_MAX}")
    return value


Sol: TypeAlias = Annotated[Decimal, CEILING, AfterValidator(_check_sol)]
Listed: Final = BeforeValidator(_split_parts)
Receiver: TypeAlias = Annotated[SecretStr | None, ADDRESS, unless_none(_check_receiver_url)]
SigningSecret: TypeAlias = Annotated[SecretStr | None, unless_none(_check_secret_length)]


class Settings(AccessSettings, VendorSettings):
    """All settings, checked. Keyword arguments override the environment.

    Raises:
        ConfigError: a variable is wrong; names each wrong variable and the expected value.
    """

    model_config = SettingsConfigDict(
        env_file=".env",
        extra="ignore",
        frozen=True,
        hide_input_in_errors=True,
    )

    # Stored when the settings are read, because secrets are then removed from the environment.
    _origins: dict[str, Origin] = PrivateAttr(default_factory=dict)

    # HTTP statuses of errors: those of the interface's contract, or those that HTTP defines.
    error_status: ErrorStatus = "contract"
    cors_origins: Annotated[tuple[str, ...], ADDRESSES, Listed, AfterValidator(_check_origins)] = (
        DASHBOARD_ORIGINS
    )

    # Comma-separated URLs. RPC providers put the API key into the URL, so the whole URL is secret.
    solana_rpc_url: Annotated[SecretStr | None, ADDRESSES, unless_none(_check_rpc_addresses)] = None
    solana_network: Annotated[Network, BeforeValidator(_mainnet_alias)] = Field(
        default_factory=_network_of
    )
    jupiter_api_url: HttpAddress = None
    jupiter_api_key: SecretStr | None = None
    jupiter_api: JupiterApi = "build"
    # The name of a venue plugin, or `best` for the venue with the best offer.
    swap_venue: str = BEST_VENUE
    # Comma-separated addresses of pools.
    raydium_cpmm_pools: Annotated[str | None, unless_none(_check_pools)] = None

    solward_home: Annotated[Path, AfterValidator(_full_path)] = Field(default_factory=default_home)
    database_url: Annotated[SecretStr | None, ADDRESS] = None
    api_key_store: ApiKeyStoreKind = "database"
    # The maximum number of requests of any kind by one key.
    requests_per_minute: int = Field(600, ge=1)
    keystore_passphrase: SecretStr | None = None
    keystore_key_file: Annotated[Path | None, unless_none(_full_path)] = None

    default_llm_provider: str | None = None
    default_llm_model: str | None = None

    max_sol_per_transaction: Sol = Decimal(2)
    max_transactions_per_minute: Annotated[int, CEILING] = Field(5, ge=1)
    daily_spending_limit_sol: Sol = Decimal(10)
    # The maximum slippage and price impact of a swap, in basis points.
    max_slippage_bps: Annotated[int, CEILING] = Field(
        default_factory=_max_slippage_of, ge=0, le=_WHOLE_BPS
    )
    max_price_impact_bps: Annotated[int, CEILING] = Field(500, ge=0, le=_WHOLE_BPS)
    max_costs_sol_per_day: Sol = DEFAULT_MAX_COSTS_SOL
    # The price in transactions that Solward builds: off, auto, or micro-lamports per compute unit.
    priority_fee: Annotated[Literal["off", "auto"] | int, BeforeValidator(_read_priority_fee)] = (
        Field(default_factory=_priority_fee_of)
    )
    # Used for swaps only, because other transactions are smaller in version 0.
    transaction_version: Annotated[
        Literal["auto", 0, 1], BeforeValidator(_read_transaction_version)
    ] = "auto"
    max_network_fee_sol: Annotated[Decimal, CEILING, AfterValidator(_check_network_fee)] = (
        lamports_to_sol(DEFAULT_MAX_NETWORK_FEE)
    )
    hold_expires_s: int = Field(3600, ge=60, le=86_400)
    # Limits on the entries that a plugin's distribution stores for a wallet.
    plugin_store_max_keys: int = Field(256, ge=1, le=10_000)
    plugin_store_max_value_bytes: int = Field(8_192, ge=2, le=16_384)
    plugin_store_max_bytes: int = Field(262_144, ge=2, le=16_777_216)
    # The limit for one distribution and all wallets, in one process.
    plugin_store_writes_per_minute: int = Field(3_000, ge=1, le=1_000_000)
    blocked_addresses: Annotated[frozenset[str], Listed, AfterValidator(_addresses)] = frozenset()
    token_limits: Annotated[
        Mapping[str, int], CEILING, BeforeValidator(_read_mint_units), AfterValidator(_mint_limits)
    ] = Field(default_factory=dict)
    # Mints, by address or symbol, whose issuer can seize, freeze or tax others' tokens.
    regulated_mints: Annotated[tuple[str, ...], Listed] = ()
    # The sources of dollar prices: none, or two sources that are compared.
    price_sources: Annotated[tuple[str, ...], Listed, AfterValidator(_check_price_sources)] = ()
    price_max_age_s: int = Field(60, ge=10, le=600)
    price_max_spread_bps: int = Field(200, ge=1, le=5_000)
    coingecko_api_url: Annotated[str, ADDRESS, AfterValidator(http_address)] = (
        "https://api.coingecko.com/api/v3"
    )
    coingecko_api_key: SecretStr | None = None

    # Receivers put tokens into their URLs, so the whole URL is secret.
    approval_webhook_url: Receiver = None
    approval_webhook_secret: SigningSecret = None

    # The bots that send messages about holds.
    approval_slack_token: Annotated[SecretStr | None, _SLACK_TOKEN] = None
    approval_slack_channel: Annotated[str | None, _SLACK_CHANNEL] = None
    approval_telegram_token: Annotated[SecretStr | None, _TELEGRAM_TOKEN] = None
    approval_telegram_chat: Annotated[str | None, _TELEGRAM_CHAT] = None

    alert_webhook_url: Receiver = None
    alert_webhook_secret: SigningSecret = None
    alert_webhook_format: Literal["json", "slack"] = "json"
    # The minimum time between two messages.
    alert_webhook_interval_s: int = Field(60, ge=5, le=3_600)
    # The names of alerts to send; empty for all alerts.
    alert_webhook_names: Annotated[tuple[str, ...], Listed] = ()

    # The network whose offers are accepted on a localnet, as no seller knows its genesis hash.
    payments_localnet_as: Literal["devnet"] | None = None
    # Sellers' sites on this machine or a private network, in the form of sites in grants.
    payments_private_sites: Annotated[tuple[str, ...], Listed, AfterValidator(_private_sites)] = ()
    # Pairs `asked=named`: the requested site, and another site that its offers may name.
    payments_resource_sites: Annotated[
        tuple[str, ...], Listed, AfterValidator(_read_resource_sites)
    ] = ()

    model_processes: int = Field(1, ge=1, le=64)
    models_folder: Annotated[Path, AfterValidator(_full_path)] = Field(
        default_factory=default_models_folder
    )

    # With None, all are kept for ever.
    decision_retention_days: int | None = Field(None, ge=1, le=MAX_DAYS)
    event_retention_days: int | None = Field(None, ge=1, le=MAX_DAYS)
    # The space for sellers' answers to paid requests; all answers of the last day stay.
    payment_answer_retention_days: int = Field(30, ge=1, le=MAX_DAYS)
    payment_answers_max_mb: int = Field(1024, ge=1)

    solward_plugins: Annotated[tuple[str, ...] | None, Listed] = None
    # Distributions whose hosts may run even if the machine cannot confine them.
    solward_plugins_unconfined: Annotated[tuple[str, ...], Listed] = ()

    localnet_slot_ms: int = Field(200, ge=1)
    localnet_finality: Literal["alpenglow", "tower", "finalized"] = "alpenglow"
    localnet_version_1: Literal["on", "off"] = "on"
    localnet_slots_per_epoch: int = Field(432, ge=32)
    localnet_rent_per_byte: int = Field(LOCALNET_RENT_PER_BYTE, ge=1, le=MAX_LOCALNET_RENT_PER_BYTE)

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            # A default that depends on an invalid value fails too; that error adds no information.
            causes = [item for item in error.errors() if item["type"] != _DEPENDENT]
            raise ConfigError("; ".join(map(_explain_error, causes))) from None
        in_environment = {name.lower() for name, value in os.environ.items() if value}
        for name in self.model_fields_set:
            if name in values:
                self._origins[name] = Origin.ARGUMENT
            elif name in in_environment:
                self._origins[name] = Origin.ENVIRONMENT
            else:
                self._origins[name] = Origin.ENV_FILE
        conceal(self._iterate_secrets())

    @classmethod
    def settings_customise_sources(
        cls,
        settings_cls: type[BaseSettings],
        init_settings: PydanticBaseSettingsSource,
        env_settings: PydanticBaseSettingsSource,
        dotenv_settings: PydanticBaseSettingsSource,
        file_secret_settings: PydanticBaseSettingsSource,
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        """Return the sources of settings by priority, the highest first."""
        assert isinstance(dotenv_settings, DotEnvSettingsSource)
        # The sources of pydantic-settings look up each field in several ways, which takes 30 ms.
        environment = Variables(settings_cls, os.environ)
        env_file = dotenv_settings.env_file
        if env_file is None:
            return init_settings, environment
        assert isinstance(env_file, str | os.PathLike)
        path = Path(env_file).expanduser()
        values = env_file_values(path)
        check_env_file(path, settings_cls.model_fields, _misspelt_names(settings_cls))
        return init_settings, environment, Variables(settings_cls, values)

    def origin(self, name: str) -> Origin:
        """Return the source from which a field's value was read."""
        return self._origins.get(name, Origin.DEFAULT)

    @property
    def client_target(self) -> tuple[str, str]:
        """Return the service's URL for clients, and their secret token for it.

        Raises:
            ConfigError: see `client_url`; or the URL is from a `.env`, and the token is not.
        """
        token = "api_secret" if self.solward_api_key is None else "solward_api_key"
        url = ("solward_api_url",) if self.solward_api_url is not None else _LISTENING
        self._check_redirected(token, url, "pass --url, or set it in the environment")
        return self.client_url, self.client_token

    @property
    def dashboard_target(self) -> tuple[str, str]:
        """Return the URL and token of the dashboard's client: NEXT_PUBLIC_API_URL or `client_url`.

        Raises:
            ConfigError: see `client_target`.
        """
        own = self.next_public_api_secret is not None
        url: tuple[str, ...] = ("next_public_api_url",)
        if self.next_public_api_url is None:
            url = ("solward_api_url",) if self.solward_api_url is not None else _LISTENING
        token = "next_public_api_secret" if own else "api_secret"
        self._check_redirected(token, url)
        return self.next_public_api_url or self.client_url, self.dashboard_api_secret

    def key_for(self, secret: str, address: str) -> str | None:
        """Return a vendor's secret key, which may be sent to the address in another setting.

        Args:
            secret, address: the names of the two fields.

        Raises:
            ConfigError: the address is from a `.env`, and the key is from elsewhere.
        """
        key: SecretStr | None = getattr(self, secret)
        if key is None:
            return None
        self._check_redirected(secret, (address,))
        return key.get_secret_value()

    def address_of(self, spec: ProviderSpec | VenueSpec) -> str | None:
        """See `VendorSettings.address_of`; raises `ConfigError` also as `key_for` does."""
        address = super().address_of(spec)
        has_key = spec.secret_env is not None and self.plugin_secret(spec.secret_env) is not None
        if address is not None and has_key:
            self._check_redirected(str(spec.secret_env), (str(spec.base_url_env),))
        return address

    def _check_redirected(
        self, token: str, url: tuple[str, ...], advice: str = "set it in the environment"
    ) -> None:
        """Refuse to send a secret to a URL from a `.env` that does not contain the secret, because
        the `.env` may be a stranger's. The public development secret may go anywhere."""
        if self._value_origin(token) in (Origin.ENV_FILE, Origin.DEFAULT):
            return
        for name in url:
            if self._value_origin(name) is Origin.ENV_FILE:
                raise ConfigError(
                    f"{name.upper()} is set in {Path('.env').absolute()}, but {token.upper()} is"
                    f" not: a .env may not redirect a secret that it does not contain; {advice}"
                )

    def _value_origin(self, name: str) -> Origin:
        """Return the source of a field's value, or of the value of a third party's variable."""
        if name.lower() in type(self).model_fields:
            return self.origin(name.lower())
        return Origin.ENVIRONMENT if os.environ.get(name) else Origin.ENV_FILE

    def _iterate_secrets(self) -> Iterator[str]:
        addresses = address_fields(type(self))
        for name in secret_fields(type(self)) - addresses.keys():
            value = getattr(self, name)
            if value is not None and not (name == "api_secret" and self.development_secret):
                yield value.get_secret_value()
        for name, marker in addresses.items():
            value = getattr(self, name)
            if value is not None:
                of_url = secrets_of_database_url if name == "database_url" else secrets_of_url
                for url in marker.split(value):
                    yield from of_url(url)

    @model_validator(mode="after")
    def _check_combinations(self) -> Settings:
        if self.solana_rpc_url is None and self.solana_network != "localnet":
            raise ValueError(f"SOLANA_NETWORK is {self.solana_network}: set SOLANA_RPC_URL too")
        venue = () if self.jupiter_api_url is None else (self.jupiter_api_url,)
        for name, urls in (("SOLANA_RPC_URL", self.rpc_urls), ("JUPITER_API_URL", venue)):
            if self.mainnet and not all(map(is_protected, urls)):
                raise ValueError(
                    f"{name} must be https:// on mainnet, except for a loopback address: others"
                    " could change answers on the way"
                )
        for kind in ("all", "http", "https") if self.solana_rpc_url is not None else ():
            # httpx would fail only at the first request; the embedded ledger may make none.
            if not re.match(r"(https?://|(?!.*://))", getproxies().get(kind, "")):
                raise ValueError(f"{kind}_proxy must be an http:// or https:// address, not SOCKS")
        if not is_protected(self.coingecko_api_url):
            raise ValueError("COINGECKO_API_URL must be https://, except for a loopback address")
        if self.payments_localnet_as is not None and self.solana_network != "localnet":
            raise ValueError(
                "PAYMENTS_LOCALNET_AS must be unset if SOLANA_NETWORK is"
                f" {self.solana_network}, or its money would pay offers of another network"
            )
        if "*" in self.solward_plugins_unconfined:
            raise ValueError("SOLWARD_PLUGINS_UNCONFINED must name each distribution, without *")
        if self.mainnet and self.solward_plugins_unconfined:
            raise ValueError(
                "SOLWARD_PLUGINS_UNCONFINED must not be set on mainnet: a plugin that is not"
                " confined can read the keys"
            )
        if self.keystore_passphrase is not None and self.keystore_key_file is not None:
            raise ValueError("set KEYSTORE_PASSPHRASE or KEYSTORE_KEY_FILE, not both")
        if self.shared_database and self.api_key_store == "memory":
            raise ValueError(
                "API_KEY_STORE must not be memory if DATABASE_URL is PostgreSQL, because the start"
                " of one process would delete the keys of all processes: unset API_KEY_STORE, or"
                " set it to database"
            )
        return self

    @property
    def shared_database(self) -> bool:
        """True if several processes may use the database at the same time: PostgreSQL."""
        return _is_postgresql(self.database_url)

    @property
    def rpc_urls(self) -> tuple[str, ...]:
        """The addresses of SOLANA_RPC_URL, the preferred first; empty for the embedded ledger. An
        address may contain a key."""
        url = self.solana_rpc_url
        return () if url is None else parts_of(url.get_secret_value())

    @property
    def approval_webhook(self) -> tuple[str, str] | None:
        """The approvals' webhook's address and secret, both secret; None if it is not set.

        Raises:
            ConfigError: only one of the two is set.
        """
        return self._read_pair("approval_webhook_url", "approval_webhook_secret")

    @property
    def approval_chats(self) -> dict[str, tuple[str, str]]:
        """`slack` and `telegram`, if set -> the bot's token, a secret, and the chat for holds.

        Raises:
            ConfigError: only one of the two is set, or a .env sets the chat alone.
        """
        found = {}
        for name, to in (("slack", "channel"), ("telegram", "chat")):
            token, to = f"approval_{name}_token", f"approval_{name}_{to}"
            pair = self._read_pair(token, to)
            if pair is not None:
                self._check_redirected(token, (to,))
                found[name] = pair
        return found

    @property
    def alert_webhook(self) -> tuple[str, str] | None:
        """The alerts' webhook's address and secret, both secret; None if it is not set.

        Raises:
            ConfigError: only one of the two is set, or the approvals' webhook has the same secret.
        """
        found = self._read_pair("alert_webhook_url", "alert_webhook_secret")
        if found is not None and self.alert_webhook_secret == self.approval_webhook_secret:
            raise ConfigError(
                "ALERT_WEBHOOK_SECRET: expected another secret than APPROVAL_WEBHOOK_SECRET, with"
                " which the receiver of alerts could approve transactions"
            )
        return found

    def _read_pair(self, first: str, second: str) -> tuple[str, str] | None:
        one, two = map(self._read_variable, (first, second))
        if one is not None and two is not None:
            return one, two
        if one is two:
            return None
        raise ConfigError(f"set both {first.upper()} and {second.upper()}, or neither")

    @property
    def max_lamports_per_transaction(self) -> int:
        """MAX_SOL_PER_TRANSACTION in lamports."""
        return sol_to_lamports(self.max_sol_per_transaction)

    @property
    def daily_spending_limit_lamports(self) -> int:
        """DAILY_SPENDING_LIMIT_SOL in lamports."""
        return sol_to_lamports(self.daily_spending_limit_sol)

    @property
    def max_costs_lamports_per_day(self) -> int:
        """`MAX_COSTS_SOL_PER_DAY` in lamports."""
        return sol_to_lamports(self.max_costs_sol_per_day)

    @property
    def max_network_fee_lamports(self) -> int:
        """`MAX_NETWORK_FEE_SOL` in lamports."""
        return sol_to_lamports(self.max_network_fee_sol)

    @property
    def plugins(self) -> tuple[str, ...]:
        """Distributions whose plugins may load; `*` means all. On mainnet each must be named."""
        if self.solward_plugins is None:
            return () if self.mainnet else ("*",)
        return self.solward_plugins

    @property
    def localnet_path(self) -> Path:
        """The embedded localnet's file."""
        return self.solward_home / "localnet.db"

    @property
    def mainnet(self) -> bool:
        """True if the network is mainnet, with real money."""
        return self.solana_network == MAINNET

    def check_serving(self) -> None:
        """Refuse to serve with settings that would let others take control.

        Raises:
            ConfigError: the development secret is used on mainnet or where others can reach the
                service; a secret is too short or easy to guess (`solward.settings.secrecy`); on
                mainnet, plugins are not named.
        """
        for name in os.environ.keys() - {each.upper() for each in type(self).model_fields}:
            meant = meant_setting(name, _misspelt_names(type(self)))
            if meant is not None:
                _log.warning("unknown_setting", name=name, meant=meant)
        if not self.api_secret.get_secret_value().strip():
            raise ConfigError("API_SECRET must not be empty")
        where = "on mainnet" if self.mainnet else self._public_setting()
        if self.development_secret and where is not None:
            raise ConfigError(
                f"API_SECRET must be set {where}: the development secret is public. Make one"
                f" with `{HOW_TO_MAKE}`"
            )
        weak = "; ".join(weaknesses(self._secrets_to_check()))
        if weak:
            raise ConfigError(weak)
        if self.mainnet and (self.solward_plugins is None or "*" in self.solward_plugins):
            raise ConfigError(
                "SOLWARD_PLUGINS must name the distributions that may load on mainnet, "
                "or `solward` for the built-in ones only"
            )

    def _public_setting(self) -> str | None:
        """Return the setting that exposes the service to other machines, or None."""
        if not self.loopback:
            return f"with API_HOST {self.api_host}"
        # A proxy serves these names and forwards others' requests to a loopback address.
        named = [("DASHBOARD_URL", self.dashboard_url)] if self.dashboard_url else []
        named += [("CORS_ORIGINS", each) for each in self.cors_origins]
        remote = (
            f"with {name} {url}"
            for name, url in named
            if not is_loopback(urlsplit(url).hostname or "")
        )
        return next(remote, None)

    def _secrets_to_check(self) -> dict[str, str]:
        """Return setting -> secret, for secrets that are set and have a minimum length."""
        found = {
            name: value.get_secret_value()
            for name in LEAST_BYTES
            if isinstance(value := getattr(self, name.lower()), SecretStr)
        }
        if self.development_secret:
            # The development secret is allowed because only this machine reaches the service.
            del found["API_SECRET"]
        url = found.pop("DATABASE_URL", "")
        password = _password_over_network(url) if self.shared_database else None
        if password:
            found["DATABASE_URL"] = password
        return found

    def check_shared_ledger(self) -> None:
        """Refuse an embedded ledger with a database that several processes share.

        Raises:
            ConfigError: DATABASE_URL is PostgreSQL, and SOLANA_RPC_URL is not set.
        """
        if self.shared_database and not self.rpc_urls:
            raise ConfigError(
                "SOLANA_RPC_URL must be set if DATABASE_URL is PostgreSQL, or each process would"
                " have its own embedded ledger; `solward localnet` serves one ledger to all"
            )

    def report(self) -> Iterator[dict[str, Any]]:
        """Yield every setting as the JSON of a `solward.resources.service.Setting`, in declared
        order: current value, default and source. Of a secret it has only whether it is set, and of
        an address no part that may be a secret."""
        secrets = secret_fields(type(self))
        given = {name: getattr(self, name) for name in type(self).model_fields}
        for name, field in type(self).model_fields.items():
            origin, is_secret = self.origin(name), name in secrets
            default = None
            if not is_secret:
                default = field.get_default(call_default_factory=True, validated_data=given)
            yield {
                "name": name.upper(),
                "value": None if is_secret else masked_value(field, given[name]) or None,
                "default": masked_value(field, default) or None,
                "source": origin.value,
                "secret": is_secret,
                "set": origin is not Origin.DEFAULT,
                "ceiling": CEILING in field.metadata,
            }

    def masked(self) -> dict[str, str]:
        """Return variable -> value as text for people, with masked secrets, and addresses as
        `solward.settings.addresses` displays them."""
        public = {"api_secret": "the development secret"} if self.development_secret else {}
        return {
            name.upper(): public.get(name, masked_value(field, getattr(self, name)))
            for name, field in type(self).model_fields.items()
        }


def allowed_for_providers(variable: str, *, address: bool = False) -> bool:
    """Return whether a third party's plugin may name this environment variable.

    Args:
        address: as a provider's address, which its plugin host gets in clear; else as a secret. No
            name may be both, so that no plugin reads what another plugin declares as a secret.
    """
    field = variable.lower()
    if variable.endswith(POOLS_ENDING):
        return False
    if variable.endswith(ADDRESS_ENDINGS):
        return address and field not in Settings.model_fields
    return not address and (
        field in VendorSettings.model_fields or field not in Settings.model_fields
    )


def is_pools_variable(variable: object) -> bool:
    """Return whether a third party's venue may name this variable for its pools."""
    return (
        isinstance(variable, str)
        and re.fullmatch(r"[A-Z][A-Z0-9_]{0,127}", variable) is not None
        and variable.endswith(POOLS_ENDING)
        and variable.lower() not in Settings.model_fields
    )


def _explain_error(item: Any) -> str:
    cause = item.get("ctx", {}).get("error")
    text = str(cause) if cause is not None else str(item["msg"])
    if item["type"] == "decimal_parsing":
        text = "expected a number such as 2 or 0.5"
    return f"{str(item['loc'][0]).upper()}: {text}" if item["loc"] else text


def _check_address(address: str, form: str = "") -> None:
    if not is_address(address):
        raise ValueError(f"expected base58 addresses{form}; {address!r} is not one")
